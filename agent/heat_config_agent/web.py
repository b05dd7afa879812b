"""HTTP for everything that speaks it: with time limits, certificates checked, answers bounded, redirects not followed.

The environment's proxies and certificates are read once for each server, not at every request, and no `.netrc` is read.
"""

from __future__ import annotations

import contextlib
import contextvars
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import requests
import requests.adapters
import urllib3
import urllib3.connection
import urllib3.exceptions

from heat_config_agent import __version__
from heat_config_agent.errors import UnreachableError

CONNECT_SECONDS = 10.0
READ_SECONDS = 30.0

DRAIN_SECONDS = 1.0
DRAIN_BYTES = 4096
"""How long, and how far, an answer's body is read so that its connection can be used again.

Nothing in a body changes what an answer means, so none is waited for: a longer one costs the connection."""


@dataclass(frozen=True)
class Answer:
    """What a server answered."""

    status: int
    reason: str
    headers: Mapping[str, str]


class Connection:
    """A kept-alive connection to one server. Not for use by two threads at once."""

    def __init__(self, origin: str, ca_file: str | None = None) -> None:
        """Speak to the server of `origin` (scheme, host, port), trusting `ca_file`, or the usual certificates."""
        self._session = requests.Session()
        self._session.headers.update({"User-Agent": f"heat-config-agent/{__version__}", "Accept-Encoding": "identity"})
        found = self._session.merge_environment_settings(origin, {}, True, ca_file or True, None)
        self._session.trust_env = False
        self._session.proxies = found["proxies"]
        self._session.verify = found["verify"]
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, _Adapter())

    def send(self, verb: str, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        """Send one request to the URL exactly as it is given, and return the answer, whatever its status.

        Raises UnreachableError.
        """
        token = _url.set(url)
        try:
            request = self._session.prepare_request(requests.Request(verb, url, data=body, headers=dict(headers)))
            response = self._session.send(
                request,
                timeout=(CONNECT_SECONDS, READ_SECONDS),
                allow_redirects=False,
                stream=True,
                proxies=self._session.proxies,
                verify=self._session.verify,
            )
            with contextlib.closing(response):
                _drain(response)
                return Answer(response.status_code, response.reason or "", response.headers)
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise UnreachableError(_cause(error)) from error
        finally:
            _url.reset(token)


_url: contextvars.ContextVar[str] = contextvars.ContextVar("url")
"""The URL of the request that is being sent."""


class _AsGiven:
    """A connection that writes the URL as it was given: as requests and urllib3 would write it, signatures break."""

    def putrequest(self, method: str, url: str, *args: Any, **options: Any) -> None:
        given = _url.get().partition("#")[0]
        if not all("!" <= each <= "~" for each in given):
            given = url  # it has to be encoded, and so cannot have been signed as it is
        elif url.startswith("/"):  # not for a proxy, which is told the whole
            path = given.partition("://")[2].partition("/")[2].partition("?")
            given = "/" + "".join(path) if "/" in given.partition("://")[2].partition("?")[0] else url
        super().putrequest(method, given, *args, **options)  # type: ignore[misc]  # what it is mixed into has one


class _HttpConnection(_AsGiven, urllib3.connection.HTTPConnection):
    pass


class _HttpsConnection(_AsGiven, urllib3.connection.HTTPSConnection):
    pass


class _HttpPool(urllib3.HTTPConnectionPool):
    ConnectionCls = _HttpConnection


class _HttpsPool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _HttpsConnection


class _Adapter(requests.adapters.HTTPAdapter):
    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        super().init_poolmanager(*args, **options)
        self.poolmanager.pool_classes_by_scheme = {"http": _HttpPool, "https": _HttpsPool}

    def proxy_manager_for(self, proxy: str, **options: Any) -> Any:
        manager = super().proxy_manager_for(proxy, **options)
        if proxy.startswith("http"):
            manager.pool_classes_by_scheme = {"http": _HttpPool, "https": _HttpsPool}
        return manager


def _drain(response: requests.Response) -> None:
    """Read a short body, byte by byte, for no longer than it may take: each read may wait for one byte only."""
    deadline = time.monotonic() + DRAIN_SECONDS
    socket = getattr(response.raw.connection, "sock", None)
    if socket is not None:  # else the connection is closed already
        socket.settimeout(DRAIN_SECONDS)
    with contextlib.suppress(urllib3.exceptions.HTTPError, OSError):  # the status is what counts, and it is here
        for _ in range(DRAIN_BYTES):
            if not response.raw.read(1, decode_content=False) or time.monotonic() > deadline:
                return


def _cause(error: BaseException) -> str:
    """Return the innermost reason of an error in a few words, without the URL: it is a secret."""
    if isinstance(error, requests.exceptions.ConnectTimeout):
        return f"no connection within {CONNECT_SECONDS:g} s"
    if isinstance(error, requests.exceptions.Timeout):
        return f"no answer within {READ_SECONDS:g} s"
    if "SOCKS" in str(error):
        return "a SOCKS proxy is set, and the package PySocks is not installed"
    if isinstance(
        error,
        requests.exceptions.InvalidURL | requests.exceptions.MissingSchema | requests.exceptions.InvalidSchema,
    ):
        return "its URL cannot be understood"
    seen: BaseException = error
    while True:
        inner = seen.__cause__ or seen.__context__ or getattr(seen, "reason", None)
        if not isinstance(inner, BaseException):
            break
        seen = inner
    if isinstance(seen, OSError) and seen.strerror:
        return seen.strerror
    if type(seen) is OSError:  # of requests itself, about a file with certificates
        return str(seen)
    return type(seen).__name__
