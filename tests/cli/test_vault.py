"""The provider `vault`, against a stand-in for Vault: it answers as the documentation of Vault's API says."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support import planted
from support.certificates import CERTIFICATE, KEY
from support.http import Answer, Request, Stub
from support.loopback import SignalServer
from support.machine import Done, Machine, deployment

SECRET = f"{planted.WORD}-from-vault"
TOKEN = f"{planted.WORD}-token"
ROLE = {"role_id": "r", "secret_id": f"{planted.WORD}-id"}


class Vault:
    """A stand-in for Vault, and no Vault: one secret of KV version 2, a token, and an AppRole."""

    def __init__(self) -> None:
        self.mount = "approle"
        self.data: dict[str, Any] = {"password": SECRET, "port": 5432}
        self.instead: Answer | None = None
        self.asked: list[tuple[str, str]] = []
        self.namespaces: set[str | None] = set()
        self.stub = Stub(self.answer)
        self.stub.start()

    def answer(self, request: Request) -> Answer:
        self.asked.append((request.verb, request.path))
        self.namespaces.add(request.headers.get("X-Vault-Namespace"))
        if self.instead is not None:
            return self.instead
        if (request.verb, request.path) == ("POST", f"/v1/auth/{self.mount}/login"):
            good = json.loads(request.body) == ROLE
            body = (
                {"auth": {"client_token": TOKEN}}
                if good
                else {"errors": ["invalid role or secret ID"]}
            )
            return Answer(status=200 if good else 400, body=json.dumps(body).encode())
        if request.headers.get("X-Vault-Token") != TOKEN:
            return Answer(status=403, body=b'{"errors":["permission denied"]}')
        if request.verb == "GET" and request.path.endswith("/v1/secret/data/web/db"):
            # a proxy gets the whole URL
            found = {"data": {"data": self.data, "metadata": {"version": 3}}}
            return Answer(body=json.dumps(found).encode())
        return Answer(status=404, body=b'{"errors":[]}')


@pytest.fixture
def vault() -> Iterator[Vault]:
    """A stand-in for Vault on loopback."""
    made = Vault()
    yield made
    made.instead = Answer(status=503)
    made.stub.stop()


def configure(machine: Machine, vault: Vault, credentials: object) -> Path:
    """Write the settings and the credentials."""
    place = machine.folder / "vault.json"
    place.write_text(json.dumps(credentials))
    place.chmod(0o600)
    machine.config = machine.folder / "agent.conf"
    lines = [
        "[agent]",
        f"vault_url = http://127.0.0.1:{vault.stub.port}",
        f"vault_credentials = {place}",
        "",
    ]
    machine.config.write_text("\n".join(lines))
    return place


def apply(
    machine: Machine, identity: str, reference: str, proxy: str = "", **more: Any
) -> Done:
    """Apply a deployment whose input refers to a secret."""
    config = "#!/bin/sh\necho ${#password}; echo $password\n"
    found = deployment(
        identity, config, inputs={"password": {"secret": reference}}, **more
    )
    found["inputs"] = [
        item
        for item in found["inputs"]
        if item["name"] not in ("deploy_password", "planted")
    ]
    return machine.apply([found], "--config", str(machine.config), http_proxy=proxy)


@pytest.mark.parametrize(
    "credentials", [{"token": TOKEN}, ROLE], ids=["token", "approle"]
)
def test_a_secret_comes_from_vault(
    machine: Machine, vault: Vault, heat: SignalServer, credentials: object
) -> None:
    """The tool gets the secret, and neither it nor the credentials are in the result or left on the machine."""
    configure(machine, vault, credentials)
    done = apply(machine, "d1", "vault:secret/web/db#password", signal=heat.url("d1"))
    assert done.code == 0, done.out
    (result,) = heat.values("d1")
    assert result["deploy_stdout"] == f"{len(SECRET)}\n***\n"
    assert planted.left(machine.state) == []


@pytest.mark.slow
def test_refusal_by_vault_fails_the_deployment_with_a_sentence(
    machine: Machine, vault: Vault
) -> None:
    """Nothing that the server says is repeated, and it is asked for no path that a reference should not name."""
    place = configure(machine, vault, {"token": TOKEN})
    cases = [
        (
            "vault:secret/web/other#password",
            "cannot read secret/web/other: 127.0.0.1:{port} answers HTTP 404: no such secret, or no engine of version",
        ),
        ("vault:secret/web/db#user", "secret/web/db has no field 'user' with text"),
        ("vault:secret/web/db#port", "secret/web/db has no field 'port' with text"),
        ("vault:secret/web/db", "expected MOUNT/PATH#FIELD"),
        ("vault:secret/../sys/raw#password", "expected MOUNT/PATH#FIELD"),
    ]
    for number, (reference, why) in enumerate(cases):
        done = apply(machine, f"d{number}", reference)
        assert done.code == 1
        assert (
            f"the secret {reference} is missing: the provider 'vault' has failed: "
            in done.out
        )
        assert why.format(port=vault.stub.port) in done.out
    assert ("GET", "/v1/secret/../sys/raw") not in vault.asked
    for number, (instead, why) in enumerate(
        (
            (
                Answer(status=403, body=SECRET.encode()),
                "answers HTTP 403: the token is expired or may not read it",
            ),
            (
                Answer(status=503, body=b'{"errors":["Vault is sealed"]}'),
                "HTTP 503: it is sealed or down",
            ),
            (
                Answer(body=b'{"data": {"password": "of version 1"}}'),
                "is not a secret of the key-value engine",
            ),
            (
                Answer(
                    body=b'{"data": {"data": null, "metadata": {"deletion_time": "now"}}}'
                ),
                "is not a secret of the",
            ),
            (Answer(body=b" " * 5 * 1024 * 1024), "does not answer: "),
            (
                Answer(status=302, headers={"Location": "http://127.0.0.1:1/"}),
                "answers HTTP 302",
            ),
            (Answer(body=b"<html>"), "is not an object of JSON"),
            (Answer(body=b'{"data": []}'), "is not a secret of the key-value engine"),
            (Answer(hang_up=True), "does not answer"),
        )
    ):
        vault.instead = instead
        done = apply(machine, f"e{number}", "vault:secret/web/db#password")
        assert done.code == 1
        assert why in done.out
        assert planted.WORD not in done.out + done.err
    vault.instead = None
    place.chmod(0o644)
    apply(machine, "f1", "vault:secret/web/db#password")  # it cuts off long paths
    assert "has to be a file that only root" in machine.agent("show", "f1").out
    place.write_text("{}")
    place.chmod(0o600)
    assert (
        "expected an object with token"
        in apply(machine, "f2", "vault:secret/web/db#password").out
    )


def test_a_role_that_is_refused_is_named(machine: Machine, vault: Vault) -> None:
    """A wrong id, and an AppRole that is mounted elsewhere than the credentials say."""
    configure(machine, vault, {**ROLE, "secret_id": "wrong"})
    said = "cannot log in: 127.0.0.1:{port} answers HTTP {status}: {why}"
    refused = said.format(
        port=vault.stub.port, status=400, why="role_id or secret_id is wrong or expired"
    )
    assert refused in apply(machine, "d1", "vault:secret/web/db#password").out
    vault.mount = "machines"
    configure(machine, vault, {**ROLE, "mount": "other"})
    done = apply(machine, "d2", "vault:secret/web/db#password")
    assert "cannot log in: " in done.out
    assert ("POST", "/v1/auth/other/login") in vault.asked


@pytest.mark.parametrize(
    "credentials",
    [{"token": TOKEN}, {**ROLE, "mount": "machines"}],
    ids=["token", "approle"],
)
def test_a_namespace_goes_with_every_request(
    machine: Machine, vault: Vault, credentials: dict[str, str]
) -> None:
    """Namespaces of Vault Enterprise and OpenBao, and an AppRole that is mounted elsewhere."""
    vault.mount = "machines"
    configure(machine, vault, {**credentials, "namespace": "team/web"})
    assert apply(machine, "d1", "vault:secret/web/db#password").code == 0
    assert vault.namespaces == {"team/web"}
    assert len(vault.asked) == (1 if "token" in credentials else 2)


def test_only_a_server_with_a_trusted_certificate_gets_the_token(
    machine: Machine, vault: Vault
) -> None:
    """The setting `ca_file` counts; without it, nothing is sent to a server with an unknown certificate."""
    pair, trusted = machine.folder / "pair.pem", machine.folder / "trusted.pem"
    pair.write_text(CERTIFICATE + KEY)
    trusted.write_text(CERTIFICATE)
    settings = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    settings.load_cert_chain(pair)
    vault.stub.socket = settings.wrap_socket(vault.stub.socket, server_side=True)
    configure(machine, vault, {"token": TOKEN})
    assert machine.config is not None
    lines = machine.config.read_text().replace("http:", "https:")
    machine.config.write_text(lines)
    done = apply(machine, "d1", "vault:secret/web/db#password")
    assert f"127.0.0.1:{vault.stub.port} does not answer: " in done.out
    assert "certificate" in done.out
    assert vault.asked == []
    machine.config.write_text(f"{lines}ca_file = {trusted}\n")
    done = apply(machine, "d2", "vault:secret/web/db#password")
    assert done.code == 0, done.out


def test_the_proxy_of_the_agent_is_used(machine: Machine, vault: Vault) -> None:
    """As for all servers: the variables of proxies reach the provider."""
    configure(machine, vault, {"token": TOKEN})
    assert machine.config is not None
    port = vault.stub.port
    machine.config.write_text(
        machine.config.read_text().replace(f"127.0.0.1:{port}", "vault.example:8200")
    )
    vault.data["password"] = f"{SECRET}-by-proxy"
    done = apply(
        machine, "d1", "vault:secret/web/db#password", proxy=f"http://127.0.0.1:{port}"
    )
    assert done.code == 0, done.out
    assert vault.asked == [("GET", "http://vault.example:8200/v1/secret/data/web/db")]
