"""The provider `barbican` against a real Barbican, beside the suite's Keystone."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support import pace, planted
from support.machine import Machine, deployment
from system.administrator import Administrator
from system.openstack import Lab
from system.openstack_place import PASSWORD, REGION

pytestmark = pytest.mark.takes(100)

_SERVICE = Path(__file__).with_name("barbican_service.py")
_ENVIRONMENT = Path(__file__).parents[2] / ".venv/barbican"
SECRET = f"{planted.WORD}-of-a-real-barbican"


class Barbican:
    """A real Barbican, its endpoint in the catalog, and users of Keystone."""

    def __init__(self, cloud: Lab, folder: Path) -> None:
        self._keystone = cloud.urls["keystone"]
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self._log = folder / "log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    _ENVIRONMENT / "bin/python",
                    _SERVICE,
                    cloud.folder,
                    folder,
                    str(port),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={
                    "PATH": os.environ["PATH"],
                    "PYTHONPATH": str(Path(__file__).parents[1]),
                    "LANG": "C.UTF-8",
                },
            )
        self._administrator = Administrator(cloud)
        self.project = self._administrator.project
        self._announce()
        self._wait(port)

    def _ask(self, verb: str, url: str, **body: Any) -> dict[str, Any]:
        answer = self._administrator.ask(verb, url, **body)
        return dict(answer.json()) if answer.content else {}

    def _announce(self) -> None:
        """Put it into the catalog of Keystone."""
        service = self._ask(
            "POST",
            f"{self._keystone}/services",
            service={"name": "barbican", "type": "key-manager"},
        )
        endpoint = {
            "interface": "public",
            "region_id": REGION,
            "url": self.url,
            "service_id": service["service"]["id"],
        }
        self._ask("POST", f"{self._keystone}/endpoints", endpoint=endpoint)
        self._service = service["service"]["id"]

    def _wait(self, port: int) -> None:
        deadline = time.monotonic() + pace.seconds(60)
        with socket.socket() as probe:
            while probe.connect_ex(("127.0.0.1", port)):
                assert self._process.poll() is None, self._log.read_text()[-3000:]
                assert time.monotonic() < deadline, self._log.read_text()[-3000:]
                time.sleep(0.05)

    def user(self, name: str) -> str:
        """Make a user as those of stacks are, without any right to secrets, and return its id."""
        values = {"name": name, "domain_id": "default", "password": PASSWORD}
        made = self._ask("POST", f"{self._keystone}/users", user=values)
        [role] = self._ask("GET", f"{self._keystone}/roles?name=heat_stack_user")[
            "roles"
        ]
        user = str(made["user"]["id"])
        self._ask(
            "PUT",
            f"{self._keystone}/projects/{self.project}/users/{user}/roles/{role['id']}",
        )
        return user

    def keep(self, payload: str, *readers: str) -> str:
        """Store a secret that these users may read, and return its URL."""
        given = {"name": "it", "payload": payload, "payload_content_type": "text/plain"}
        url = str(self._ask("POST", f"{self.url}/v1/secrets", **given)["secret_ref"])
        self._ask(
            "PUT", f"{url}/acl", read={"users": [*readers], "project-access": True}
        )
        return url

    def end(self) -> None:
        """Take it out of the catalog, and end it."""
        self._ask("DELETE", f"{self._keystone}/services/{self._service}")
        self._process.kill()
        self._process.wait()


@pytest.fixture
def barbican(cloud: Lab, tmp_path: Path) -> Iterator[Barbican]:
    """A real Barbican; the test is skipped where it is not installed."""
    if not (_ENVIRONMENT / "bin/barbican-manage").exists():
        pytest.skip(
            f"Barbican is not installed in {_ENVIRONMENT}: tests/install-tools does it (make test-all)"
        )
    folder = tmp_path / "barbican"
    folder.mkdir()
    made = Barbican(cloud, folder)
    yield made
    made.end()


@pytest.mark.timeout(300)
def test_a_user_of_a_stack_reads_what_its_list_allows(
    machine: Machine, cloud: Lab, barbican: Barbican
) -> None:
    """By the id or the URL of a secret; another user and another secret are refused, with a sentence."""
    allowed, other = barbican.user("allowed"), barbican.user("other")
    url = barbican.keep(SECRET, allowed)
    identity = url.rpartition("/")[2]
    private = barbican.keep("nobody's").rpartition("/")[2]

    def given(name: str, user: str, reference: str) -> dict[str, Any]:
        script = f'#!/bin/sh\necho "${{#password}} $password"; test "$password" = "{SECRET[:7]}""{SECRET[7:]}"\n'
        values = {
            "auth_url": cloud.urls["keystone"],
            "user_id": user,
            "password": PASSWORD,
        }
        inputs: dict[str, object] = {
            f"deploy_{key}": value for key, value in values.items()
        }
        inputs |= {
            "deploy_project_id": barbican.project,
            "deploy_signal_transport": "NO_SIGNAL",
        }
        made = deployment(
            name,
            script,
            inputs={**inputs, "password": {"secret": f"barbican:{reference}"}},
        )
        made["inputs"] = [each for each in made["inputs"] if each["name"] != "planted"]
        return made

    done = machine.apply([given("d1", allowed, identity), given("d2", allowed, url)])
    assert done.code == 0, done.out
    assert f"deploy_stdout: {len(SECRET)} ***\n" in machine.agent("show", "d1").out
    machine.apply(
        [
            given("d3", other, identity),
            given("d4", allowed, private),
            given("d5", allowed, barbican.project),
        ]
    )
    assert "Barbican answers HTTP 403" in machine.agent("show", "d3").out
    assert "Barbican answers HTTP 403" in machine.agent("show", "d4").out
    assert "the provider 'barbican' has failed" in machine.agent("show", "d5").out
    assert planted.left(machine.state) == []
