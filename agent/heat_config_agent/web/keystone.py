"""Requests to OpenStack's services as one user, with a token that is renewed before it expires.

A login is one request over the same connections as all others, and `login` reads its answer
(`docs/decisions/0013-login.md`). Importing this loads HTTP, so it is imported only where a cloud is used.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping
from urllib.parse import quote, urlsplit

from heat_config_agent import web
from heat_config_agent.model.deployment import Credentials
from heat_config_agent.model.errors import UnreachableError
from heat_config_agent.web import answers, causes, login

SECONDS = 60.0
"""The timeout of a request, including the logins before it."""

MARGIN = 120.0
"""The longest time in seconds by which a token is renewed before it expires, so that it outlives its request."""

KEPT_SECONDS = 10.0
"""Seconds after a login within which another one uses the same connection: results of many users follow one another.

An older connection may be dead without a sign: firewalls forget connections on which nothing happens for an hour.
"""


class Cloud:
    """The services of an OpenStack cloud for one user. Not for use by two threads at once."""

    def __init__(
        self,
        credentials: Credentials,
        ca_file: str | None = None,
        session: Connections | None = None,
    ) -> None:
        """Prepare requests as that user, over `session` or over connections that trust `ca_file`."""
        self.project_id = credentials.project_id
        self._credentials = credentials
        self._connections = session or Connections(ca_file)
        self._access: login.Access | None = None
        """The token and the URLs of the last login; None if a login is needed."""
        self._until = 0.0
        """The moment at which the token has to be renewed (monotonic seconds)."""

    def ask(
        self,
        verb: str,
        service: str,
        path: str,
        *,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        seconds: float = SECONDS,
        largest: int | None = None,
    ) -> web.Answer:
        """Send a request to a service, and return the answer of any status.

        `service` is its type in the catalog, e.g. `orchestration`; `path` begins with a slash. Bytes are sent
        unchanged, any other `body` as JSON. The whole body of the answer is read, of up to `largest` bytes; with 0,
        only its beginning, if it comes soon. A token that the service refuses is renewed, once. Redirects are not
        followed. `seconds` is the timeout of everything together, logins included. Raises DeniedError if Keystone
        denies access, and UnreachableError if Keystone or the service does not answer.
        """
        own_headers = {"Accept": "application/json"}
        if body is not None:
            own_headers["Content-Type"] = "application/json"
        data = (
            body
            if body is None or isinstance(body, bytes)
            else json.dumps(body).encode()
        )
        with answers.within(seconds):
            access, renewed = self._enter()
            while True:
                url = _joined(self._endpoint(access, service), path)
                try:
                    answer = self._connections.ask(
                        verb,
                        url,
                        data or b"",
                        {
                            **own_headers,
                            **(headers or {}),
                            "X-Auth-Token": access.token,
                        },
                        web.LARGEST if largest is None else largest,
                    )
                except UnreachableError:
                    self._until = 0.0  # the service may have moved: read the catalog again for the next request
                    raise
                if answer.status != 401 or renewed:
                    return answer
                access, renewed = self._enter(renew=True)

    def token(self, *, seconds: float = SECONDS) -> str:
        """Return a token that stays valid for a while. Raises DeniedError, UnreachableError."""
        with answers.within(seconds):
            return self._enter()[0].token

    def endpoint(self, service: str, *, seconds: float = SECONDS) -> str:
        """Return the public URL of a service, without a slash at its end. Raises DeniedError, UnreachableError."""
        with answers.within(seconds):
            return self._endpoint(self._enter()[0], service)

    def _enter(self, *, renew: bool = False) -> tuple[login.Access, bool]:
        """Return what Keystone grants, and True if it is new: log in unless the token is still valid for a while."""
        access = self._access
        if access is not None and not renew and time.monotonic() < self._until:
            return access, False
        self._access = None
        access = self._access = self._connections.log_in(self._credentials)
        self._until = (
            time.monotonic() + access.seconds - min(MARGIN, access.seconds / 4)
        )
        return access, True

    def _endpoint(self, access: login.Access, service: str) -> str:
        try:
            return access.endpoint(service)
        except UnreachableError:
            self._access = None  # the next catalog may have the service
            raise


def resource_path(stack: str, resource: str) -> str:
    """Return the path of a stack's resource in Heat's API. `stack` is its NAME/ID."""
    return f"/stacks/{quote(stack)}/resources/{quote(resource, safe='')}"


def _joined(endpoint: str, path: str) -> str:
    """Return the URL of a path at an endpoint. A version that both contain is left out once."""
    version = "/" + path.split("/")[1]
    return (endpoint.removesuffix(version) if version == "/v2" else endpoint) + path


class Connections:
    """Kept-alive connections with limits of time and size. Several users can share them, one after the other."""

    def __init__(
        self,
        ca_file: str | None = None,
        allow: Callable[[str], None] = lambda _url: None,
    ) -> None:
        """Trust the certificates in `ca_file`; None for the default ones.

        `allow` is called with each URL, and raises UnreachableError if that may not be reached.
        """
        self._allow = allow
        self._ca_file = ca_file
        self._servers: dict[str, web.Connection] = {}
        self._kept_until = 0.0
        """The moment after which the next login needs a new connection (monotonic seconds)."""

    def log_in(self, credentials: Credentials) -> login.Access:
        """Return what Keystone grants a user. Raises DeniedError and UnreachableError."""
        url = login.address(credentials.auth_url)
        if not login.is_usable(url):
            raise UnreachableError("Keystone's URL cannot be understood")
        self._allow(url)
        if time.monotonic() > self._kept_until:
            self._servers.pop(_origin(url), None)
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        try:
            answer = self._ask(
                "POST", url, login.request(credentials), headers, login.LARGEST
            )
        except UnreachableError as error:
            raise UnreachableError(f"Keystone at {error}") from error
        self._kept_until = time.monotonic() + KEPT_SECONDS
        return login.access(answer, credentials.region_name)

    def ask(
        self, verb: str, url: str, body: bytes, headers: Mapping[str, str], largest: int
    ) -> web.Answer:
        """Send one request, and return the answer. Redirects are not followed. Raises UnreachableError."""
        self._allow(url)
        return self._ask(verb, url, body, headers, largest)

    def _ask(
        self, verb: str, url: str, body: bytes, headers: Mapping[str, str], largest: int
    ) -> web.Answer:
        origin = _origin(url)
        with causes.named(origin.partition("://")[2]):
            if origin not in self._servers:
                # A server may be silent for any time within the deadline.
                self._servers[origin] = web.Connection(
                    origin, self._ca_file, seconds=math.inf
                )
            return self._servers[origin].ask(verb, url, body, headers, largest)


def _origin(url: str) -> str:
    """Return the scheme, host and port of a URL, without a user."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
