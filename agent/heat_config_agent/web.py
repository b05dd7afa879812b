"""HTTP for everything that speaks it: with time limits, certificates checked, answers bounded, redirects not followed.

The environment's proxies and certificates are read once for each server, not at every request, and no `.netrc` is read.
"""

from __future__ import annotations

import heat_config_agent.guessing  # noqa: F401  # before requests

# isort: split
import contextlib
import contextvars
import http.client
import io
import math
import re
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
from requests.structures import CaseInsensitiveDict

from heat_config_agent import __version__
from heat_config_agent.errors import UnreachableError

CONNECT_SECONDS = 10.0
READ_SECONDS = 30.0
SEND_SECONDS = 60.0
"""How long a server may take to say what it makes of what it was sent, however often it says something."""

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
    """Of what was sent, its beginning at most: nobody needs more of that."""


class Connection:
    """A kept-alive connection to one server. Not for use by two threads at once."""

    def __init__(
        self, origin: str, ca_file: str | None = None, *, direct: bool = False, seconds: float | None = None
    ) -> None:
        """Speak to the server of `origin` (scheme, host, port), trusting `ca_file`, or the usual certificates.

        `direct`: past all proxies, as to what is on the machine's own link. It must say something every
        `seconds`, or as often as others.
        """
        self._limits = _limits() if seconds is None else (min(CONNECT_SECONDS, seconds), seconds)
        self._session = requests.Session()
        self._session.headers.update({"User-Agent": f"heat-config-agent/{__version__}", "Accept-Encoding": "identity"})
        found = self._session.merge_environment_settings(origin, {}, True, ca_file or True, None)
        self._session.trust_env = False
        self._proxies: Mapping[str, str] = {} if direct else found["proxies"]
        self._verify = found["verify"] or False
        self._origin = origin
        self._adapter = Adapter()

    def send(self, verb: str, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        """Send one request to the URL exactly as it is given, and return the answer, whatever its status.

        Raises UnreachableError.
        """
        with within(SEND_SECONDS), self._asked(verb, url, body, headers) as response:
            return Answer(response.status_code, phrase(response.status_code), response.headers, drain(response))

    def fetch(self, url: str, headers: Mapping[str, str], seconds: float, *, verb: str = "GET") -> Answer:
        """Ask for what is at the URL, exactly as it is given, and return the answer with its body, whatever its status.

        Raises UnreachableError, also where not all of it is there after `seconds`, or where it is too long.
        """
        with within(seconds), self._asked(verb, url, b"", headers) as response:
            body = read(response)
            return Answer(response.status_code, phrase(response.status_code), response.headers, body)

    @contextlib.contextmanager
    def _asked(self, verb: str, url: str, body: bytes, headers: Mapping[str, str]) -> Iterator[requests.Response]:
        request = requests.Request(verb, url, dict(headers), data=body or None)
        try:
            with as_given(url):
                response = self._adapter.send(
                    prepared(request, self._session, self._origin),
                    timeout=self._limits,
                    stream=True,
                    proxies=self._proxies,
                    verify=self._verify,
                )
            with contextlib.closing(response):
                yield response
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise UnreachableError(cause(error, self._limits), hint=hint(error)) from error


def prepared(request: requests.Request, session: requests.Session, origin: str) -> requests.PreparedRequest:
    """Return a request as the session would prepare it, to be sent `as_given`; its data are bytes, if there are any.

    What is of that `origin`, and can be written as it is given, needs no more than headers: what the libraries do
    beside that takes longer than the request. So they see nothing of its URL but the server.
    """
    if not (request.url.startswith(f"{origin}/") and _WRITABLE.fullmatch(request.url)):
        return session.prepare_request(request)
    found = requests.PreparedRequest()
    found.method, found.url, found.body = request.method, f"{origin}/", request.data or None
    found.headers = CaseInsensitiveDict({**session.headers, **request.headers})
    if request.data or request.method not in ("GET", "HEAD"):
        found.headers["Content-Length"] = str(len(request.data or b""))
    return found


_WRITABLE = re.compile("[!-~]*")
"""A URL that can be written as it is given; another has to be encoded, and so cannot have been signed as it is."""


def phrase(status: int) -> str:
    """Return what a status is called, by the standard: what a server calls it may repeat the URL, which is a secret."""
    return http.client.responses.get(status, "")


def _limits() -> tuple[float, float]:
    return CONNECT_SECONDS, READ_SECONDS


def read(response: requests.Response, most: int | None = None) -> bytes:
    """Return the whole body of a streamed answer, of up to `most` bytes: `LARGEST`, where that is not said.

    It may be compressed, though nobody asks for that. It is unpacked here, where a few bytes cannot become gigabytes.
    Raises UnreachableError past the `deadline`, or where it is too long or cannot be unpacked.
    """
    most = LARGEST if most is None else most
    unpack = _unpacker(response.headers.get("Content-Encoding", ""))
    parts: list[bytes] = []
    size = 0
    # What has arrived, without waiting for more, where urllib3 can do that (from 2.1); else as little as is sensible.
    some: Callable[[], bytes] = (
        (lambda: response.raw.read1(65536, decode_content=False))
        if hasattr(response.raw, "read1")
        else (lambda: response.raw.read(1024, decode_content=False))
    )
    while part := some():
        parts.append(unpack(part, most - size + 1) if unpack else part)
        size += len(parts[-1])
        if size > most:
            raise UnreachableError(f"its answer is longer than {most // 1024 // 1024} MiB")
        if time.monotonic() > deadline.get():
            raise UnreachableError("its answer took too long")
    if unpack and parts:
        unpack(b"", 1)
    return b"".join(parts)


def _unpacker(encoding: str) -> Callable[[bytes, int], bytes] | None:
    """Return what unpacks the parts of an answer, so many bytes at most; None where it is not compressed.

    After the last part it wants an empty one. Raises UnreachableError, as what it returns does.
    """
    import zlib  # noqa: PLC0415  # hardly anybody compresses unasked

    match encoding.strip().lower():
        case "" | "identity":
            return None
        case "gzip" | "x-gzip":
            packed = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        case "deflate":
            packed = zlib.decompressobj()
        case _:
            raise UnreachableError("its answer is packed in a way that was not asked for")

    def unpack(part: bytes, room: int) -> bytes:
        try:
            found = packed.decompress(part, room)
        except zlib.error:
            raise UnreachableError("its answer cannot be unpacked") from None
        if packed.unused_data or not (part or packed.eof):  # there is more after its end, or no end
            raise UnreachableError("its answer cannot be unpacked")
        return found

    return unpack


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


@contextlib.contextmanager
def as_given(url: str) -> Iterator[None]:
    """Have a request sent to that URL, exactly as it is."""
    token = _url.set(url)
    try:
        yield
    finally:
        _url.reset(token)


class _Until(io.RawIOBase):
    """What comes over a socket until then: a time limit for each read is none for what trickles."""

    def __init__(self, raw: io.RawIOBase, sock: socket.socket, deadline: float) -> None:
        self._raw = raw
        self._socket = sock
        self._deadline = deadline
        self.ended = False
        """Whether nothing more comes."""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        self._socket.settimeout(min(left, self._socket.gettimeout() or left))
        found = self._raw.readinto(buffer)
        self.ended = found == 0
        return found

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Response(http.client.HTTPResponse):
    """An answer whose headers, too, are there in time."""

    def __init__(self, sock: Any, *args: Any, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        self._until: _Until | None = None
        if deadline.get() < math.inf:
            self._until = _Until(self.fp.detach(), sock, deadline.get())
            self.fp = io.BufferedReader(self._until)

    def begin(self) -> None:
        """Read the headers, to their end: to the library, half of them are as good.

        Where they leave a doubt about where the answer ends, nothing else comes after it: else the rest of it might be
        taken for the answer to the next request.
        """
        super().begin()
        if self._until and self._until.ended:
            raise http.client.IncompleteRead(b"")
        length, chunks = self.headers.get("Content-Length"), self.headers.get("Transfer-Encoding")
        bare = self.status < 200 or self.status in (204, 304)
        if (chunks and length) or (bare and (chunks or length not in (None, "0"))):
            self.will_close = True


class _AsGiven:
    """A connection that writes the URL as it was given: as requests and urllib3 would write it, signatures break."""

    response_class: Any = _Response

    def putrequest(self, method: str, url: str, *args: Any, **options: Any) -> None:
        given = _url.get(url).partition("#")[0]
        if not _WRITABLE.fullmatch(given):
            given = url
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

    def build_response(self, req: requests.PreparedRequest, resp: Any) -> requests.Response:
        """Return what is made of an answer: no more than is looked at here."""
        response = requests.Response()
        response.status_code, response.headers, response.raw = resp.status, CaseInsensitiveDict(resp.headers), resp
        response.request, response.url, response.reason = req, req.url or "", resp.reason
        return response

    def proxy_manager_for(self, proxy: str, **options: Any) -> Any:
        manager = super().proxy_manager_for(proxy, **options)
        if proxy.startswith("http"):
            manager.pool_classes_by_scheme = {"http": _HttpPool, "https": _HttpsPool}
        return manager


def drain(response: requests.Response) -> bytes:
    """Read a short body, byte by byte, for no longer than it may take: each read may wait for one byte only.

    Return what has come of it, as it came.
    """
    until = time.monotonic() + DRAIN_SECONDS
    socket = getattr(response.raw.connection, "sock", None)
    if socket is not None:  # else the connection is closed already
        socket.settimeout(DRAIN_SECONDS)
    found = bytearray()
    # The status is what counts, and it is here.
    with contextlib.suppress(urllib3.exceptions.HTTPError, http.client.HTTPException, OSError, ValueError):
        for _ in range(DRAIN_BYTES):
            part = response.raw.read(1, decode_content=False)
            found += part
            if not part or time.monotonic() > until:
                break
    return bytes(found)


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
    if isinstance(seen, TimeoutError | urllib3.exceptions.ReadTimeoutError):
        return f"it broke off its answer: nothing more within {limits[1]:g} s"
    name = type(seen).__name__
    if isinstance(seen, http.client.HTTPException | urllib3.exceptions.HTTPError):
        return _IN_WORDS.get(name, "its answer is no HTTP")
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
    "IncompleteRead": "its answer was cut short",
    "RemoteDisconnected": "it hung up without an answer",
    "UnicodeError": "the name of its host cannot be understood",
    "ValueError": "its answer is no HTTP",
    "error": "its answer cannot be unpacked",  # zlib's
}
"""What libraries call it, in words."""
