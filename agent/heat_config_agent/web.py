"""HTTP for everything that speaks it: with time limits, certificates checked, answers bounded, redirects not followed.

The environment's proxies and certificates are read once for each server, not at every request, and no `.netrc` is read.
"""

from __future__ import annotations

import contextlib
import contextvars
import http.client
import io
import math
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
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

LARGEST = 64 * 1024 * 1024
"""Bytes of a document at most."""

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
    body: bytes = b""
    """Of what was fetched; of what was sent, nobody needs it."""


class Connection:
    """A kept-alive connection to one server. Not for use by two threads at once."""

    def __init__(
        self, origin: str, ca_file: str | None = None, *, direct: bool = False, seconds: float | None = None
    ) -> None:
        """Speak to the server of `origin` (scheme, host, port), trusting `ca_file`, or the usual certificates.

        `direct`: past all proxies, as to what is on the machine's own link. It must say something every
        `seconds`, or as often as others.
        """
        self._limits = _limits() if seconds is None else (min(CONNECT_SECONDS, seconds), min(READ_SECONDS, seconds))
        self._session = requests.Session()
        self._session.headers.update({"User-Agent": f"heat-config-agent/{__version__}", "Accept-Encoding": "identity"})
        found = self._session.merge_environment_settings(origin, {}, True, ca_file or True, None)
        self._session.trust_env = False
        # Who does not follow a redirect has it prepared all the same, and all of its body read for that.
        self._session.get_redirect_target = lambda _response: None  # type: ignore[assignment]
        self._session.proxies = {} if direct else found["proxies"]
        self._session.verify = found["verify"]
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, Adapter())

    def send(self, verb: str, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        """Send one request to the URL exactly as it is given, and return the answer, whatever its status.

        Raises UnreachableError.
        """
        with self._asked(verb, url, body, headers) as response:
            _drain(response)
            return Answer(response.status_code, response.reason or "", response.headers)

    def fetch(self, url: str, headers: Mapping[str, str], seconds: float, *, verb: str = "GET") -> Answer:
        """Ask for what is at the URL, exactly as it is given, and return the answer with its body, whatever its status.

        Raises UnreachableError, also where not all of it is there after `seconds`, or where it is too long.
        """
        with within(seconds), self._asked(verb, url, b"", headers) as response:
            return Answer(response.status_code, response.reason or "", response.headers, read(response, deadline.get()))

    @contextlib.contextmanager
    def _asked(self, verb: str, url: str, body: bytes, headers: Mapping[str, str]) -> Iterator[requests.Response]:
        token = _url.set(url)
        try:
            request = self._session.prepare_request(
                requests.Request(verb, url, data=body or None, headers=dict(headers))
            )
            response = self._session.send(
                request,
                timeout=self._limits,
                allow_redirects=False,
                stream=True,
                proxies=self._session.proxies,
                verify=self._session.verify,
            )
            with contextlib.closing(response):
                yield response
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise UnreachableError(cause(error, self._limits), hint=hint(error)) from error
        finally:
            _url.reset(token)


def _limits() -> tuple[float, float]:
    return CONNECT_SECONDS, READ_SECONDS


def read(response: requests.Response, until: float) -> bytes:
    """Return the whole body of a streamed answer. Raises UnreachableError past the moment, or where it is too long.

    `until` is in monotonic seconds.
    """
    parts: list[bytes] = []
    size = 0
    # What has arrived, without waiting for more, where urllib3 can do that (from 2.1); else as little as is sensible.
    some: Callable[[], bytes] = (
        (lambda: response.raw.read1(65536, decode_content=True))
        if hasattr(response.raw, "read1")
        else (lambda: response.raw.read(1024, decode_content=True))
    )
    while part := some():
        parts.append(part)
        size += len(part)
        if size > LARGEST:
            raise UnreachableError(f"its answer is longer than {LARGEST // 1024 // 1024} MiB")
        if time.monotonic() > until:
            raise UnreachableError("its answer took too long")
    return b"".join(parts)


deadline: contextvars.ContextVar[float] = contextvars.ContextVar("deadline", default=math.inf)
"""When all of an answer has to be there (monotonic seconds)."""


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """Have every request answered in that time."""
    token = deadline.set(time.monotonic() + seconds)
    try:
        yield
    finally:
        deadline.reset(token)


_url: contextvars.ContextVar[str] = contextvars.ContextVar("url")
"""The URL of the request that is being sent."""


class _Until(io.RawIOBase):
    """What comes over a socket until then: a time limit for each read is none for what trickles."""

    def __init__(self, raw: io.RawIOBase, sock: socket.socket, deadline: float) -> None:
        self._raw = raw
        self._socket = sock
        self._deadline = deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        self._socket.settimeout(min(left, self._socket.gettimeout() or left))
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Response(http.client.HTTPResponse):
    """An answer whose headers, too, are there in time."""

    def __init__(self, sock: Any, *args: Any, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        if deadline.get() < math.inf:
            self.fp = io.BufferedReader(_Until(self.fp.detach(), sock, deadline.get()))


class _AsGiven:
    """A connection that writes the URL as it was given: as requests and urllib3 would write it, signatures break."""

    response_class: Any = _Response

    def putrequest(self, method: str, url: str, *args: Any, **options: Any) -> None:
        given = _url.get(url).partition("#")[0]
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


class Adapter(requests.adapters.HTTPAdapter):
    """Speaks HTTP as the connections of this module do: the URL as it is given, and no answer for ever."""

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


def cause(error: BaseException, limits: tuple[float, float] | None = None) -> str:
    """Return the innermost reason of an error in a few words, without the URL: it is a secret.

    `limits` are the seconds within which there had to be a connection, and an answer.
    """
    limits = limits or _limits()
    if time.monotonic() >= deadline.get():
        return "no full answer in time"
    if isinstance(error, requests.exceptions.ConnectTimeout):
        return f"no connection within {limits[0]:g} s"
    if isinstance(error, requests.exceptions.Timeout):
        return f"no answer within {limits[1]:g} s"
    if "SOCKS" in str(error):
        return "a SOCKS proxy is set, and the package PySocks is not installed"
    if isinstance(
        error,
        requests.exceptions.InvalidURL | requests.exceptions.MissingSchema | requests.exceptions.InvalidSchema,
    ):
        return "its URL cannot be understood"
    seen = _innermost(error)
    if isinstance(seen, ssl.SSLCertVerificationError):
        return f"its certificate cannot be trusted: {seen.verify_message.rstrip('.')}"
    if isinstance(seen, ssl.SSLError):
        words = (seen.reason or "").replace("_", " ").lower()
        return f"it does not speak TLS as we do{f': {words}' if words else ''}"
    name = type(seen).__name__
    if name in _IN_WORDS:
        return _IN_WORDS[name]
    if isinstance(seen, OSError) and seen.strerror:
        return seen.strerror
    if type(seen) is OSError:  # of requests itself, about a file with certificates
        return str(seen)
    return name


def hint(error: BaseException) -> str:
    """Return what to do about an error where there is something to be set; else nothing."""
    seen = _innermost(error)
    unknown = isinstance(seen, ssl.SSLCertVerificationError) and seen.verify_code in UNKNOWN_AUTHORITY
    return "is its authority's certificate in ca_file of [agent]?" if unknown else ""


UNKNOWN_AUTHORITY = (2, 18, 19, 20, 21)
"""OpenSSL's numbers (X509_V_ERR_*) for a certificate that nobody whom we trust has signed."""


def _innermost(error: BaseException) -> BaseException:
    seen = error
    while True:
        inner = seen.__cause__ or seen.__context__ or getattr(seen, "reason", None)
        if not isinstance(inner, BaseException):
            return seen
        seen = inner


_IN_WORDS = {
    "BadStatusLine": "its answer is no HTTP",
    "IncompleteRead": "its answer was cut short",
    "InvalidChunkLength": "its answer is no HTTP",
    "LineTooLong": "its answer is no HTTP",
    "RemoteDisconnected": "it hung up without an answer",
    "UnicodeError": "the name of its host cannot be understood",
    "ValueError": "its answer is no HTTP",
    "error": "its answer cannot be unpacked",  # zlib's
}
"""What libraries call it, in words."""
