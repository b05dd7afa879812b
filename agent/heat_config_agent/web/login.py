"""A login to Keystone: the request for a token, and the services in the answer. Nothing here sends anything.

https://docs.openstack.org/api-ref/identity/v3/#password-authentication-with-scoped-authorization
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime
from urllib.parse import urlsplit

from heat_config_agent import web
from heat_config_agent.model.deployment import Credentials
from heat_config_agent.model.errors import DeniedError, UnreachableError
from heat_config_hooks.values import dataclass, field

LARGEST = 8 * 1024 * 1024
"""The largest answer of Keystone in bytes: a token with a catalog."""

DENIALS = frozenset({401, 403, 404})
"""The statuses with which Keystone denies access, or a server that is not Keystone answers."""

SERVICES = {
    "key-manager": ("key-manager",),
    "messaging": ("messaging", "message"),
    "messaging-websocket": ("messaging-websocket",),
    "orchestration": ("orchestration",),
}
"""The services that the agent uses, and the types that a catalog may have for each; the first one counts before."""

_UNCLEAR = "Keystone's answer cannot be understood"


@dataclass(frozen=True, kw_only=True)
class Access:
    """The token that Keystone grants a user, and the URLs of the services."""

    token: str = field(repr=False)
    seconds: float
    """The time from the issue of the token to its expiry."""
    region: str
    """The region of the services; empty for any."""
    urls: Mapping[str, str]
    """The public URL in the catalog of each service that the region has, usable or not."""

    def endpoint(self, service: str) -> str:
        """Return the URL of a service, without a slash at its end. Raises UnreachableError."""
        if service not in self.urls:
            where = f" in the region {self.region}" if self.region else ""
            raise UnreachableError(
                f"Keystone's catalog has no service of the type {service}{where}"
            )
        if not is_usable(self.urls[service]):
            raise UnreachableError(
                f"Keystone's catalog has no usable URL of the service of the type {service}"
            )
        return self.urls[service].rstrip("/")


def address(auth_url: str) -> str:
    """Return the URL for logins to the Keystone at a URL, which may name a version: the agent always uses version 3."""
    base = auth_url.rstrip("/")
    for version in ("/v3", "/v2.0"):
        base = base.removesuffix(version)
    return base.rstrip("/") + "/v3/auth/tokens"


def request(credentials: Credentials) -> bytes:
    """Return the request for a token of a user in a project. An application credential is for one project alone."""
    if credentials.application_credential_id:
        held = {
            "id": credentials.application_credential_id,
            "secret": credentials.application_credential_secret,
        }
        auth: dict[str, object] = {
            "identity": {
                "methods": ["application_credential"],
                "application_credential": held,
            },
        }
    else:
        user = {"id": credentials.user_id, "password": credentials.password}
        auth = {
            "identity": {"methods": ["password"], "password": {"user": user}},
            "scope": {"project": {"id": credentials.project_id}},
        }
    return json.dumps({"auth": auth}).encode()


def access(answer: web.Answer, region: str) -> Access:
    """Return what Keystone's answer grants. Raises DeniedError if it denies access, and UnreachableError."""
    if not 200 <= answer.status < 300:
        kind = DeniedError if answer.status in DENIALS else UnreachableError
        raise kind(f"Keystone answers HTTP {answer.status} {answer.reason}".rstrip())
    if answer.is_page:
        raise UnreachableError(
            "Keystone answers with a web page: something else is in its place"
        )
    try:
        said = json.loads(answer.body)["token"]
        # The machine's clock has no say, because that of a new instance may be wrong.
        seconds = (
            _moment(said["expires_at"]) - _moment(said["issued_at"])
        ).total_seconds()
        token = answer.headers["X-Subject-Token"]
        urls = _urls(said.get("catalog"), region)
    except (
        LookupError,
        TypeError,
        ValueError,
        AttributeError,
        ArithmeticError,
        RecursionError,
    ):
        raise UnreachableError(_UNCLEAR) from None
    if not re.fullmatch("[!-~]+", token):
        raise UnreachableError(_UNCLEAR)
    return Access(token=token, seconds=seconds, region=region, urls=urls)


def _moment(text: str) -> datetime:
    """Return a time as Keystone writes it, with or without fractions of a second."""
    return datetime.fromisoformat(re.sub(r"\.\d+", "", text).replace("Z", "+00:00"))


def _urls(catalog: object, region: str) -> dict[str, str]:
    """Return the public URL of each service that a catalog has in a region. Malformed entries do not count."""
    of_type: dict[str, str] = {}
    for service in _objects(catalog):
        for endpoint in _objects(service.get("endpoints")):
            where = endpoint.get("region_id") or endpoint.get("region")
            url = endpoint.get("url")
            if (
                endpoint.get("interface") == "public"
                and isinstance(url, str)
                and url
                and region in ("", where)
            ):
                of_type.setdefault(str(service.get("type")), url)
    return {
        service: of_type[kind]
        for service, kinds in SERVICES.items()
        for kind in reversed(kinds)
        if kind in of_type
    }


def _objects(values: object) -> list[Mapping[str, object]]:
    """Return the objects in a list; none if the value is not a list."""
    return (
        [value for value in values if isinstance(value, Mapping)]
        if isinstance(values, list)
        else []
    )


def is_usable(url: object) -> bool:
    """Return True if a URL can be that of a service, or of Zaqar's websocket."""
    try:
        parts = urlsplit(str(url))
        known = (
            parts.scheme in ("http", "https", "ws", "wss")
            and bool(parts.hostname)
            and parts.port != 0
        )
        return known and str(url).isprintable() and " " not in parts.netloc
    except ValueError:
        return False
