"""The provider `vault`: a field of a secret in HashiCorp Vault or OpenBao, by version 2 of the key-value engine.

https://developer.hashicorp.com/vault/api-docs/secret/kv/kv-v2 and https://developer.hashicorp.com/vault/api-docs/auth/approle
"""

from __future__ import annotations

import json
import os
import stat
import sys
from urllib.parse import quote, urlsplit

from heat_config_agent import web
from heat_config_agent.model.errors import UnreachableError
from heat_config_agent.runs.providers import (
    CA_FILE,
    LARGEST,
    SECONDS,
    ProviderError,
    folder,
)
from heat_config_agent.web import answers
from heat_config_hooks import strict_json

URL, CREDENTIALS = "HEAT_VAULT_URL", "HEAT_VAULT_CREDENTIALS"
"""The variables with the URL of the server, and with the path of the credentials."""


def _field(name: str) -> bytes:
    """Return the field that a reference names: MOUNT/PATH#FIELD."""
    path, sign, field = name.partition("#")
    mount, _, inside = path.partition("/")
    if (
        not sign
        or not field
        or any(part in ("", ".", "..") for part in (mount, *inside.split("/")))
    ):
        raise ProviderError(
            "expected MOUNT/PATH#FIELD, for example vault:secret/web/db#password"
        )
    server = _Server(os.environ.get(URL, ""), os.environ.get(CA_FILE) or None)
    with answers.within(SECONDS - 2):
        server.enter(_credentials(os.environ.get(CREDENTIALS, "")))
        found = server.ask(
            "GET",
            f"/v1/{quote(mount, safe='')}/data/{quote(inside)}",
            None,
            f"read {path}",
        )
    values = found.get("data")
    values = values.get("data") if isinstance(values, dict) else None
    value = values.get(field) if isinstance(values, dict) else None
    if not isinstance(values, dict):
        raise ProviderError(
            f"{path} is not a secret of the key-value engine, version 2"
        )
    if not isinstance(value, str):
        raise ProviderError(f"{path} has no field {field!r} with text")
    return value.encode()


def _credentials(path: str) -> dict[str, str]:
    """Return the credentials of this machine, from a file that no one else can read. Raises ProviderError."""
    try:
        descriptor = os.open(
            path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        )
        try:
            status = os.fstat(descriptor)
            data = os.read(descriptor, 65536)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise ProviderError(
            f"cannot read the credentials {path}: {error.strerror}"
        ) from error
    if (
        not stat.S_ISREG(status.st_mode)
        or status.st_uid not in (0, os.geteuid())
        or status.st_mode & 0o077
    ):
        raise ProviderError(
            f"{path} has to be a file that only root can read; run chmod 600 {path}"
        )
    try:
        credentials = strict_json.loads(data.decode())
    except ValueError:
        credentials = None
    names = {"token"}, {"role_id", "secret_id"}
    texts = isinstance(credentials, dict) and all(
        isinstance(each, str) and each.isascii() for each in credentials.values()
    )
    if (
        not isinstance(credentials, dict)
        or not texts
        or credentials.keys() - {"namespace", "mount"} not in names
    ):
        raise ProviderError(
            f"expected an object with token, or with role_id and secret_id, in {path}"
        )
    return {str(key): str(value) for key, value in credentials.items()}


_MEANINGS = {
    "log in": {
        400: "role_id or secret_id is wrong or expired",
        404: "no AppRole is mounted there",
    },
    "read": {
        403: "the token is expired or may not read it",
        404: "no such secret, or no engine of version 2",
    },
}
"""The meaning of each status, by the beginning of the purpose. Vault's own messages could contain a secret."""


class _Server:
    """A server of Vault's API."""

    def __init__(self, url: str, ca_file: str | None) -> None:
        try:
            parts = urlsplit(url)
            usable = (
                parts.scheme in ("http", "https")
                and bool(parts.hostname)
                and not parts.username
            )
        except ValueError:
            usable = False
        if not usable:
            raise ProviderError(
                "the setting vault_url is not the URL of a server, such as https://vault.example:8200"
            )
        self._origin, self._path = (
            f"{parts.scheme}://{parts.netloc}",
            parts.path.rstrip("/"),
        )
        self._connection = web.Connection(self._origin, ca_file)
        self._headers = {"Accept": "application/json", "X-Vault-Request": "true"}

    def enter(self, credentials: dict[str, str]) -> None:
        """Use a token, or log in with a role. Raises ProviderError."""
        if "namespace" in credentials:
            self._headers["X-Vault-Namespace"] = credentials["namespace"]
        token: object = credentials.get("token")
        if token is None:
            role = {name: credentials[name] for name in ("role_id", "secret_id")}
            mount = quote(credentials.get("mount", "approle"))
            found = self.ask("POST", f"/v1/auth/{mount}/login", role, "log in").get(
                "auth"
            )
            token = found.get("client_token") if isinstance(found, dict) else None
        if (
            not isinstance(token, str)
            or not token
            or not token.isprintable()
            or not token.isascii()
        ):
            raise ProviderError("the server gives no token that can be used")
        self._headers["X-Vault-Token"] = token

    def ask(
        self, verb: str, path: str, body: dict[str, str] | None, purpose: str
    ) -> dict[str, object]:
        """Return the object that the server answers with. Raises ProviderError, without any text of the server."""
        data = b"" if body is None else json.dumps(body).encode()
        headers = (
            self._headers
            if body is None
            else {**self._headers, "Content-Type": "application/json"}
        )
        host = urlsplit(self._origin).netloc
        try:
            answer = self._connection.ask(
                verb, f"{self._origin}{self._path}{path}", data, headers, 4 * LARGEST
            )
        except UnreachableError as error:
            raise ProviderError(f"{host} does not answer: {error}") from error
        if answer.status != 200:
            meanings = next(
                known for begin, known in _MEANINGS.items() if purpose.startswith(begin)
            )
            meaning = {**meanings, 503: "it is sealed or down"}.get(answer.status)
            said = f": {meaning}" if meaning else f" {answer.reason}"
            raise ProviderError(
                f"cannot {purpose}: {host} answers HTTP {answer.status}{said}".rstrip()
            )
        try:
            content = strict_json.loads(answer.body.decode())
        except ValueError:
            content = None
        if not isinstance(content, dict):
            raise ProviderError(
                f"cannot {purpose}: the answer of {host} is not an object of JSON"
            )
        return content


if __name__ == "__main__":
    sys.exit(folder.answer(_field))
