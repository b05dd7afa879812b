"""Requests to OpenStack's services as one user, with a token that is renewed before it expires.

keystoneauth1 logs in and reads the catalog; the requests themselves go over `web.Connection`
(`docs/decisions/0011-keystone.md`). Importing this costs 150 ms on top of `web`, most of it for requests, which
keystoneauth1 needs. So it is imported only where a cloud is used.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlsplit

import requests
from keystoneauth1 import exceptions
from keystoneauth1.identity import v3
from keystoneauth1.session import Session

from heat_config_agent import __version__, web
from heat_config_agent.model.deployment import Credentials
from heat_config_agent.model.errors import DeniedError, UnreachableError
from heat_config_agent.web import answers, causes, proxied

SECONDS = 60.0
"""The timeout of a request, including the logins before it."""

MARGIN = 120.0
"""The longest time in seconds by which a token is renewed before it expires, so that it outlives its request."""

LARGEST = 8 * 1024 * 1024
"""The largest answer of Keystone in bytes: a token with a catalog."""

DENIALS = frozenset({401, 403, 404})
"""The statuses with which Keystone denies access, or a server that is not Keystone answers."""

# The log of keystoneauth1 contains tokens. Its loggers are below this name: see keystoneauth1._utils.
logging.getLogger("keystoneauth").setLevel(logging.CRITICAL)


class Cloud:
    """The services of an OpenStack cloud for one user. Not for use by two threads at once."""

    def __init__(
        self, credentials: Credentials, ca_file: str | None = None, session: Connections | None = None
    ) -> None:
        """Prepare requests as that user, over `session` or over connections that trust `ca_file`."""
        self.project_id = credentials.project_id
        self._region = credentials.region_name
        self._connections = session or Connections(ca_file)
        # Only newer versions of the library have types: hence Any.
        self._session: Any = Session(
            session=self._connections.login, redirect=False, user_agent=f"heat-config-agent/{__version__}"
        )
        self._login: Any = v3.Password(
            auth_url=_versionless(credentials.auth_url) + "/v3",
            user_id=credentials.user_id,
            password=credentials.password,
            project_id=credentials.project_id,
        )
        self._until = 0.0
        """The moment at which the token has to be renewed (monotonic seconds)."""
        self._endpoints: dict[str, str] = {}
        """The URLs of the services used so far, by type."""

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
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        with _within(seconds):
            renewed = self._enter()
            while True:
                url = _joined(self._endpoint(service), path)
                try:
                    answer = self._connections.ask(
                        verb,
                        url,
                        data or b"",
                        {**own_headers, **(headers or {}), "X-Auth-Token": self._token()},
                        web.LARGEST if largest is None else largest,
                    )
                except UnreachableError:
                    self._until = 0.0  # the service may have moved: read the catalog again for the next request
                    raise
                if answer.status != 401 or renewed:
                    return answer
                renewed = self._enter(renew=True)

    def token(self, *, seconds: float = SECONDS) -> str:
        """Return a token that stays valid for a while. Raises DeniedError, UnreachableError."""
        with _within(seconds):
            self._enter()
            return self._token()

    def endpoint(self, service: str, *, seconds: float = SECONDS) -> str:
        """Return the public URL of a service, without a slash at its end. Raises DeniedError, UnreachableError."""
        with _within(seconds):
            self._enter()
            return self._endpoint(service)

    def _enter(self, *, renew: bool = False) -> bool:
        """Log in, unless there is a token that stays valid for a while; return True if a new token was issued."""
        if self._login.auth_ref is not None and not renew and time.monotonic() < self._until:
            return False
        self._login.invalidate()
        if not _usable(self._login.auth_url):
            raise UnreachableError("Keystone's URL cannot be understood")
        with _understood():
            access = self._login.get_access(self._session)
            # The library compares the time of expiry with the machine's clock, which may be wrong.
            life = (access.expires - access.issued).total_seconds()
        self._until = time.monotonic() + life - min(MARGIN, life / 4)
        self._endpoints = {}
        return True

    def _token(self) -> str:
        return str(self._login.auth_ref.auth_token)

    def _endpoint(self, service: str) -> str:
        if service not in self._endpoints:
            try:
                with _understood():
                    url = self._login.auth_ref.service_catalog.url_for(
                        service_type=service, interface="public", region_name=self._region or None
                    )
            except UnreachableError:
                self._login.invalidate()  # the next catalog may be valid
                raise
            except exceptions.CatalogException as error:
                self._login.invalidate()  # the next catalog may have the service
                where = f" in the region {self._region}" if self._region else ""
                raise UnreachableError(f"Keystone's catalog has no service of the type {service}{where}") from error
            if not _usable(url):
                self._login.invalidate()
                raise UnreachableError(f"Keystone's catalog has no usable URL of the service of the type {service}")
            self._endpoints[service] = url.rstrip("/")
        return self._endpoints[service]


def resource_path(stack: str, resource: str) -> str:
    """Return the path of a stack's resource in Heat's API. `stack` is its NAME/ID."""
    return f"/stacks/{quote(stack)}/resources/{quote(resource, safe='')}"


def _versionless(auth_url: str) -> str:
    """Return Keystone's URL without a version: the agent always uses version 3."""
    base = auth_url.rstrip("/")
    for version in ("/v3", "/v2.0"):
        base = base.removesuffix(version)
    return base.rstrip("/")


def _usable(url: object) -> bool:
    """Return True if a URL can be that of a service, or of Zaqar's websocket."""
    try:
        parts = urlsplit(str(url))
        known = parts.scheme in ("http", "https", "ws", "wss") and bool(parts.hostname) and parts.port != 0
        return known and str(url).isprintable() and " " not in parts.netloc
    except ValueError:
        return False


def _joined(endpoint: str, path: str) -> str:
    """Return the URL of a path at an endpoint. A version that both contain is left out once."""
    version = "/" + path.split("/")[1]
    return (endpoint.removesuffix(version) if version == "/v2" else endpoint) + path


@contextlib.contextmanager
def _within(seconds: float) -> Iterator[None]:
    """Set the deadline of all requests in the context, and turn the errors of keystoneauth1 into the agent's."""
    try:
        with answers.within(seconds):
            yield
    except exceptions.HttpError as error:  # from Keystone only: the answer of a service is returned
        status = int(error.http_status)
        kind = DeniedError if status in DENIALS else UnreachableError
        raise kind(f"Keystone answers HTTP {status} {web.phrase(status)}".rstrip()) from error
    except exceptions.InvalidResponse as error:
        raise UnreachableError("Keystone's answer cannot be understood") from error
    except exceptions.ClientException as error:  # before anything was sent: `_Adapter` handles all later errors
        raise UnreachableError(causes.cause(error.__context__ or error)) from error


@contextlib.contextmanager
def _understood() -> Iterator[None]:
    """Turn the errors of reading Keystone's answer into UnreachableError: keystoneauth1 does not check the answer."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        raise UnreachableError("Keystone's answer cannot be understood") from error


class Connections:
    """Kept-alive connections with limits of time and size. Several users can share them, one after the other."""

    def __init__(self, ca_file: str | None = None, allow: Callable[[str], None] = lambda _url: None) -> None:
        """Trust the certificates in `ca_file`; None for the default ones.

        `allow` is called with each URL, and raises UnreachableError if that may not be reached.
        """
        self.login = _Login(ca_file, allow)
        self._allow = allow
        self._ca_file = ca_file
        self._servers: dict[str, web.Connection] = {}

    def ask(self, verb: str, url: str, body: bytes, headers: Mapping[str, str], largest: int) -> web.Answer:
        """Send one request, and return the answer. Redirects are not followed. Raises UnreachableError."""
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
        origin = f"{parts.scheme}://{host}"
        self._allow(url)
        with _named(host):
            if origin not in self._servers:
                # A server may be silent for any time within the deadline.
                self._servers[origin] = web.Connection(origin, self._ca_file, seconds=math.inf)
            return self._servers[origin].ask(verb, url, body, headers, largest)


class _Login(requests.Session):
    """The requests session with which keystoneauth1 logs in, with limits of time and size.

    The proxies and certificates of the environment are read once for each server. No `.netrc` is read.
    """

    def __init__(self, ca_file: str | None, allow: Callable[[str], None]) -> None:
        super().__init__()
        agent = f"heat-config-agent/{__version__}"
        self.headers.update({"Accept-Encoding": "identity", "User-Agent": agent})
        self.trust_env = False
        self._verify = web.certificates(ca_file) or True
        self._proxies: dict[str, dict[str, str]] = {}
        for scheme in ("http://", "https://"):
            self.mount(scheme, _Adapter(allow))

    def get_redirect_target(self, resp: Any) -> None:
        """Return no redirect: requests would parse its URL even if it is not followed."""

    def merge_environment_settings(self, url: Any, *_: Any) -> Any:
        """Return the proxies and certificates for a URL."""
        parts = urlsplit(str(url))
        origin = f"{parts.scheme}://{parts.netloc}"
        if origin not in self._proxies:
            proxy = web.proxy(origin)
            self._proxies[origin] = {parts.scheme: proxy} if proxy else {}
        return {"proxies": self._proxies[origin], "stream": True, "verify": self._verify, "cert": None}


class _Adapter(proxied.Adapter):
    """Sends a request and reads its whole answer, within limits."""

    def __init__(self, allow: Callable[[str], None]) -> None:
        super().__init__()
        self._allow = allow

    def send(self, request: requests.PreparedRequest, *args: Any, **options: Any) -> requests.Response:
        self._allow(request.url or "")
        with _named(urlsplit(request.url or "").netloc.rpartition("@")[2]):
            seconds = answers.left()
            limits = (min(web.CONNECT_SECONDS, seconds), seconds)
            with proxied.explained(limits):
                response = super().send(request, *args, **{**options, "stream": True, "timeout": limits})
            with contextlib.closing(response):
                body = answers.read(proxied.arriving(response, limits), LARGEST)
        response.raw = io.BytesIO(body)
        return response


@contextlib.contextmanager
def _named(host: str) -> Iterator[None]:
    """Have the errors of a server name it."""
    try:
        answers.left()
        yield
    except TimeoutError:
        raise UnreachableError(f"{host}: no time is left for the request") from None
    except UnreachableError as error:
        raise UnreachableError(f"{host}: {error}") from error
