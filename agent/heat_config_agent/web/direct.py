"""HTTP to a server with nothing between: the standard library's, on a connection that is kept as long as it can be."""

from __future__ import annotations

import contextlib
import functools
import http.client
import os
import re
import select
import ssl
import stat
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from heat_config_agent import __version__
from heat_config_agent.web.answers import Arriving, Response, left
from heat_config_agent.web.causes import broke_off, no_answer, no_connection, told

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from typing import Any

USUAL = {
    "User-Agent": f"heat-config-agent/{__version__}",
    "Accept-Encoding": "identity",
    "Accept": "*/*",
    "Connection": "keep-alive",
}
"""The headers of every request, but for those that it brings itself."""

PART = 64 * 1024
"""Bytes of a body that are read at once, at most."""

WRITABLE = re.compile("[!-~]*")
"""A URL that can be written as it is given; another has to be encoded, and so cannot have been signed as it is."""

_LABEL = "[A-Za-z0-9_-]{1,63}"
_PLAIN = re.compile(rf"https?://({_LABEL}(\.{_LABEL})*|\[[0-9A-Fa-f:.]+\])(:(?P<port>[0-9]{{1,5}}))?")
"""A server of which there is one way to read its name: no user, no other alphabet, no zone, no dot at the end."""


class Server:
    """A server, and the connection to it that is kept. Not for use by two threads at once."""

    def __init__(self, origin: str, certificates: str | None) -> None:
        """Speak to the server of that origin, trusting the certificates in that file or folder, or the usual ones."""
        self._origin = origin
        self._certificates = certificates
        self._kept: _Connection | None = None

    def takes(self, url: str) -> bool:
        """Whether that URL can be asked for here: others are for a library that knows how to read them."""
        return url.startswith(f"{self._origin}/") and bool(WRITABLE.fullmatch(url)) and _is_plain(self._origin)

    @contextlib.contextmanager
    def asked(
        self, verb: str, url: str, body: bytes, headers: Mapping[str, str], limits: tuple[float, float]
    ) -> Iterator[Arriving]:
        """Send one request to the URL exactly as it is given; its answer is read while this lasts.

        `limits` are the seconds within which there has to be a connection, and always some of the answer. Raises
        UnreachableError.
        """
        connection = self._connected(limits[0])
        try:
            with told(no_answer(limits[1])):
                connection.limit(limits[1])
                connection.write(verb, url[len(self._origin) :].partition("#")[0], body, headers)
                response = connection.getresponse()
            with contextlib.closing(response):
                arriving = _Body(response, limits[1])
                yield Arriving(response.status, _Headers(response.headers), arriving.some)
            if arriving.ended and not response.will_close:
                self._kept = connection
        finally:
            if self._kept is not connection:
                connection.close()

    def _connected(self, seconds: float) -> _Connection:
        """Return the connection that was kept, or another one where the server has closed it meanwhile.

        A server that closes it only now may have got the request: that is not sent a second time.
        """
        kept, self._kept = self._kept, None
        if kept is not None and not kept.has_something():
            return kept
        if kept is not None:
            kept.close()
        parts = urlsplit(self._origin)
        trusted = None
        with told(no_connection(seconds)):
            if parts.scheme == "https":
                trusted = context(self._certificates or usual_certificates())
            connection = _Connection(parts.hostname or "", parts.port or (443 if trusted else 80))
            connection.timeout = min(seconds, left())
            connection.connect()
        if trusted:
            with told(no_answer(seconds)):
                connection.secure(trusted)
        return connection


class _Connection(http.client.HTTPConnection):
    """The standard library's connection, which opens when it is told to, and not by itself once more."""

    response_class: Any = Response
    auto_open = 0

    def __del__(self) -> None:
        """Close what was kept when nobody speaks to the server any more."""
        self.close()

    def has_something(self) -> bool:
        """Whether there is something to be read before anything was asked: its end, as a rule."""
        poll = select.poll()
        poll.register(self.sock, select.POLLIN)
        return bool(poll.poll(0))

    def secure(self, trusted: ssl.SSLContext) -> None:
        """Speak TLS from here on."""
        self.default_port = http.client.HTTPS_PORT
        self.sock = trusted.wrap_socket(self.sock, server_hostname=self.host)

    def limit(self, seconds: float) -> None:
        """Have something happen at least that often."""
        self.sock.settimeout(min(seconds, left()))

    def write(self, verb: str, target: str, body: bytes, headers: Mapping[str, str]) -> None:
        """Send a request."""
        names = {name.lower() for name in headers}
        self.putrequest(verb, target, skip_host="host" in names, skip_accept_encoding=True)
        for name, value in USUAL.items():
            if name.lower() not in names:
                self.putheader(name, value)
        for name, value in headers.items():
            self.putheader(name, value)
        if body or verb not in ("GET", "HEAD"):
            self.putheader("Content-Length", str(len(body)))
        # Who does not want all of a request may answer and hang up: the answer is what counts.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.endheaders(body or None)


class _Body:
    """The body of an answer."""

    def __init__(self, response: http.client.HTTPResponse, seconds: float) -> None:
        """Some of it has to come within so many seconds, each time."""
        self._response = response
        self._seconds = seconds
        self.ended = False
        """Whether its end was read, so that what comes after it is another answer."""

    def some(self) -> bytes:
        """Return what has come of it, or nothing at its end."""
        with told(broke_off(self._seconds)):
            part = self._response.read1(PART)
            if not part and self._response.length:
                raise http.client.IncompleteRead(b"", self._response.length)
        self.ended = not part
        return part


class _Headers(Mapping[str, str]):
    """Headers under any spelling of their names; what is there several times, or on several lines, in one."""

    def __init__(self, headers: http.client.HTTPMessage) -> None:
        self._headers = headers

    def __getitem__(self, name: str) -> str:
        found = self._headers.get_all(name)
        if found is None:
            raise KeyError(name)
        return ", ".join(" ".join(line.strip() for line in value.splitlines()) for value in found)

    def __iter__(self) -> Iterator[str]:
        return iter({name.lower(): name for name in self._headers}.values())

    def __len__(self) -> int:
        return len({name.lower() for name in self._headers})


def _is_plain(origin: str) -> bool:
    found = _PLAIN.fullmatch(origin)
    return found is not None and 0 < int(found["port"] or 80) < 65536


def context(certificates: str) -> ssl.SSLContext:
    """Return what verifies servers by the certificates in a file, or in a folder that OpenSSL has indexed.

    Raises OSError, which ssl.SSLError is, where there are none.
    """
    if not os.path.exists(certificates):  # noqa: PTH110  # it is text already
        raise OSError(f"Could not find a suitable TLS CA certificate bundle, invalid path: {certificates}")
    seen = os.stat(certificates)  # noqa: PTH116
    if stat.S_ISDIR(seen.st_mode):
        return _context(None, certificates)
    return _read(certificates, seen.st_ino, seen.st_size, seen.st_mtime_ns)


@functools.lru_cache(maxsize=2)
def _read(file: str, *_seen: int) -> ssl.SSLContext:
    """Read a file once for all connections, until it changes: that takes longer than the rest of a request."""
    return _context(file, None)


def _context(file: str | None, folder: str | None) -> ssl.SSLContext:
    found = ssl.create_default_context(cafile=file, capath=folder)
    found.hostname_checks_common_name = False
    found.set_alpn_protocols(["http/1.1"])
    return found


@functools.cache
def usual_certificates() -> str:
    """Return the file of the certificates that count where nobody names others: those that requests goes by.

    They are certifi's, or the system's where a distribution prefers those; then it has changed a small module of
    requests, or certifi. That module is run alone: all of requests takes longer than what it is needed for here.
    """
    import importlib.util  # noqa: PLC0415  # only for servers with TLS
    import runpy  # noqa: PLC0415

    found = importlib.util.find_spec("requests")
    folder = (found and found.submodule_search_locations) or [""]
    return str(runpy.run_path(f"{folder[0]}/certs.py")["where"]())
