"""OpenStack's services, as one user: a token that is used until it expires, endpoints from its catalog.

Importing this costs 120 ms on top of `web`, most of it for requests, over which keystoneauth1 logs in. So it is
imported where there is a cloud to speak to.
"""

from __future__ import annotations

import heat_config_agent.web.guessing  # noqa: F401  # before requests

# isort: split
import contextlib
import io
import json
import logging
import math
import time
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlsplit

import requests
from keystoneauth1 import exceptions
from keystoneauth1.identity import v3
from keystoneauth1.session import Session

from heat_config_agent import __version__, web
from heat_config_agent.errors import DeniedError, UnreachableError
from heat_config_agent.model import Credentials
from heat_config_agent.web import answers, causes, proxied

SECONDS = 60.0
"""How long a request may take, with all that has to come before it: logging in, or in again."""

MARGIN = 120.0
"""Seconds before it expires that a token is renewed, at most: it has to live as long as the request does."""

LARGEST = 8 * 1024 * 1024
"""Bytes of what Keystone says at most: a token, and a catalog."""

DENIALS = frozenset({401, 403, 404})
"""What Keystone answers where it does not let a user in, or is not where it is said to be."""

# What keystoneauth1 logs has tokens in it. A name of its own: see keystoneauth1._utils.
logging.getLogger("keystoneauth").setLevel(logging.CRITICAL)


class Cloud:
    """An OpenStack cloud, as one user sees it. Not for use by two threads at once."""

    def __init__(
        self, credentials: Credentials, ca_file: str | None = None, session: Connections | None = None
    ) -> None:
        """Speak as that user, trusting `ca_file`, or the usual certificates; or over connections that are shared."""
        self.project_id = credentials.project_id
        self._region = credentials.region_name
        self._connections = session or Connections(ca_file)
        # Of the library's own types only newer versions know: hence Any.
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
        """When the token is to be renewed (monotonic seconds)."""
        self._endpoints: dict[str, str] = {}
        """Of the services asked so far."""

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
        """Send a request to a service, and return the answer with its body, whatever its status.

        `service` is its type in the catalog, e.g. `orchestration`; `path` begins with a slash. Bytes are sent as they
        are, any other `body` as JSON. A body of up to `largest` bytes is waited for; with 0 the status is what counts,
        and of the body there is what comes soon. A token that the service no longer takes is renewed, once. Redirects
        are not followed. Raises DeniedError where Keystone does not let the user in, UnreachableError where Keystone
        or the service gives no answer.
        """
        sent = {"Accept": "application/json"}
        if body is not None:
            sent["Content-Type"] = "application/json"
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
                        {**sent, **(headers or {}), "X-Auth-Token": self._token()},
                        web.LARGEST if largest is None else largest,
                    )
                except UnreachableError:
                    self._until = 0.0  # perhaps it is elsewhere by now: the next catalog says so
                    raise
                if answer.status != 401 or renewed:
                    return answer
                renewed = self._enter(again=True)

    def token(self, *, seconds: float = SECONDS) -> str:
        """Return a token that is good for a while. Raises DeniedError, UnreachableError."""
        with _within(seconds):
            self._enter()
            return self._token()

    def endpoint(self, service: str, *, seconds: float = SECONDS) -> str:
        """Return the public URL of a service, without a slash at its end. Raises DeniedError, UnreachableError."""
        with _within(seconds):
            self._enter()
            return self._endpoint(service)

    def _enter(self, *, again: bool = False) -> bool:
        """Have a token that is good for a while; return whether it is one that Keystone gave just now."""
        if self._login.auth_ref is not None and not again and time.monotonic() < self._until:
            return False
        self._login.invalidate()
        if not _usable(self._login.auth_url):
            raise UnreachableError("Keystone's URL cannot be understood")
        with _understood():
            access = self._login.get_access(self._session)
            # By how long it lives, not by when it ends, as the library does: the machine's clock may be wrong.
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
                self._login.invalidate()  # the next catalog may be one
                raise
            except exceptions.CatalogException as error:
                self._login.invalidate()  # the next catalog may have it
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
    """Return Keystone's URL without the version that may be in it: ours is 3, whatever it is."""
    base = auth_url.rstrip("/")
    for version in ("/v3", "/v2.0"):
        base = base.removesuffix(version)
    return base.rstrip("/")


def _usable(url: object) -> bool:
    """Whether a service can be at a URL. Zaqar's websocket has one of its own."""
    try:
        parts = urlsplit(str(url))
        known = parts.scheme in ("http", "https", "ws", "wss") and bool(parts.hostname) and parts.port != 0
        return known and str(url).isprintable() and " " not in parts.netloc
    except ValueError:
        return False


def _joined(endpoint: str, path: str) -> str:
    """Return the URL of a path, with its version once: some catalogs name it too."""
    version = "/" + path.split("/")[1]
    return (endpoint.removesuffix(version) if version == "/v2" else endpoint) + path


@contextlib.contextmanager
def _within(seconds: float) -> Iterator[None]:
    """Have all requests done by then, and make what can go wrong one of our errors."""
    try:
        with answers.within(seconds):
            yield
    except exceptions.HttpError as error:  # of Keystone's: a service's answer is returned, whatever it is
        status = int(error.http_status)
        kind = DeniedError if status in DENIALS else UnreachableError
        raise kind(f"Keystone answers HTTP {status} {web.phrase(status)}".rstrip()) from error
    except exceptions.InvalidResponse as error:
        raise UnreachableError("Keystone's answer cannot be understood") from error
    except exceptions.ClientException as error:  # before anything was sent: all else is the adapter's
        raise UnreachableError(causes.cause(error.__context__ or error)) from error


@contextlib.contextmanager
def _understood() -> Iterator[None]:
    """Read what Keystone says, of which keystoneauth1 believes every word."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        raise UnreachableError("Keystone's answer cannot be understood") from error


class Connections:
    """Kept-alive connections that several users can share, one after the other, with limits of time and size."""

    def __init__(self, ca_file: str | None = None) -> None:
        """Trust `ca_file`, or the usual certificates."""
        self.login = _Login(ca_file)
        self._ca_file = ca_file
        self._servers: dict[str, web.Connection] = {}

    def ask(self, verb: str, url: str, body: bytes, headers: Mapping[str, str], largest: int) -> web.Answer:
        """Send one request, follow nobody, and return the answer. Raises UnreachableError."""
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
        origin = f"{parts.scheme}://{host}"
        with _named(host):
            if origin not in self._servers:
                # However long it is silent: the time that is left for all of it is the limit.
                self._servers[origin] = web.Connection(origin, self._ca_file, seconds=math.inf)
            return self._servers[origin].ask(verb, url, body, headers, largest)


class _Login(requests.Session):
    """What keystoneauth1 logs in over, with limits of time and size.

    The environment's proxies and certificates are read once for each server, and no `.netrc`.
    """

    def __init__(self, ca_file: str | None = None) -> None:
        super().__init__()
        agent = f"heat-config-agent/{__version__}"
        self.headers.update({"Accept-Encoding": "identity", "User-Agent": agent})
        self.trust_env = False
        self._verify = web.certificates(ca_file) or True
        self._proxies: dict[str, dict[str, str]] = {}
        for scheme in ("http://", "https://"):
            self.mount(scheme, _Adapter())

    def get_redirect_target(self, resp: Any) -> None:
        """Follow nobody: who does not follow a redirect has it prepared all the same, whatever stands in it."""

    def merge_environment_settings(self, url: Any, *_: Any) -> Any:
        """Return the proxies and certificates for a URL."""
        parts = urlsplit(str(url))
        origin = f"{parts.scheme}://{parts.netloc}"
        if origin not in self._proxies:
            found = web.proxy(origin)
            self._proxies[origin] = {parts.scheme: found} if found else {}
        return {"proxies": self._proxies[origin], "stream": True, "verify": self._verify, "cert": None}


class _Adapter(proxied.Adapter):
    """Sends a request and reads all of its answer, within limits."""

    def send(self, request: requests.PreparedRequest, *args: Any, **options: Any) -> requests.Response:
        with _named(urlsplit(request.url or "").netloc.rpartition("@")[2]):
            seconds = answers.left()
            limits = (min(web.CONNECT_SECONDS, seconds), seconds)
            with proxied.told(limits):
                response = super().send(request, *args, **{**options, "stream": True, "timeout": limits})
            with contextlib.closing(response):
                body = answers.read(proxied.arriving(response, limits), LARGEST)
        response.raw = io.BytesIO(body)
        return response


@contextlib.contextmanager
def _named(host: str) -> Iterator[None]:
    """Have it said which server it is that gives no answer."""
    try:
        answers.left()
        yield
    except TimeoutError:
        raise UnreachableError(f"{host}: no time is left to ask it") from None
    except UnreachableError as error:
        raise UnreachableError(f"{host}: {error}") from error
