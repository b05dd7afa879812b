"""HTTP to a server without a proxy, by the standard library, on a connection that is kept alive."""

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
from heat_config_agent.web.causes import broke_off, explained, no_answer, no_connection
from heat_config_agent.web.held_back import HeldBack
from heat_config_agent.web.link_local import host_header, with_plain_zone, without_zone

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from typing import Any

USUAL = {
    "User-Agent": f"heat-config-agent/{__version__}",
    "Accept-Encoding": "identity",
    "Accept": "*/*",
    "Connection": "keep-alive",
}
"""The headers of every request. The request's own headers override them."""

PART = 64 * 1024
"""The most bytes of a body that are read at once."""

WRITABLE = re.compile("[!-~]*")
"""A URL that can be sent unchanged. Any other URL has to be encoded first, so it cannot have been signed as it is."""

_LABEL = "[A-Za-z0-9_-]{1,63}"
_ZONE = r"%(?!25\])(25)?[A-Za-z0-9._~-]{1,15}"
_PLAIN = re.compile(
    rf"https?://({_LABEL}(\.{_LABEL})*|\[[0-9A-Fa-f:.]+({_ZONE})?\])(:(?P<port>[0-9]{{1,5}}))?"
)
"""An origin that cannot be misread: without a user, other alphabets or a dot at the end of the host."""


class Server:
    """A server with its kept-alive connection. Not for use by two threads at once."""

    def __init__(self, origin: str, certificates: str | None) -> None:
        """Trust the certificates in that file or folder; None for the default ones."""
        self._origin = origin
        self._certificates = certificates
        self._kept: _Connection | None = None

    def can_request(self, url: str) -> bool:
        """Return True if the URL can be requested here. Other URLs need a library that interprets them."""
        return (
            url.startswith(f"{self._origin}/")
            and bool(WRITABLE.fullmatch(url))
            and _is_plain(self._origin)
        )

    @contextlib.contextmanager
    def exchange(
        self,
        verb: str,
        url: str,
        body: bytes | HeldBack,
        headers: Mapping[str, str],
        limits: tuple[float, float],
    ) -> Iterator[Arriving]:
        """Send one request to the unchanged URL. The answer can be read while the context lasts.

        `limits` are the timeout of the connection and the longest silence of the server, in seconds. Raises
        UnreachableError.
        """
        connection = self._connected(limits[0])
        try:
            with explained(no_answer(limits[1])):
                connection.limit(limits[1])
                connection.write(
                    verb, url[len(self._origin) :].partition("#")[0], body, headers
                )
                response = connection.getresponse()
            with contextlib.closing(response):
                arriving = _Body(response, limits[1])
                yield Arriving(
                    response.status, _Headers(response.headers), arriving.some
                )
            if arriving.ended and not response.will_close:
                self._kept = connection
        finally:
            if self._kept is not connection:
                connection.close()

    def _connected(self, seconds: float) -> _Connection:
        """Return the kept connection, or a new one if the server has closed that meanwhile.

        A server that closes the connection only after this may have received the request, so it is not sent again.
        """
        kept, self._kept = self._kept, None
        if kept is not None and not kept.has_something():
            return kept
        if kept is not None:
            kept.close()
        parts = urlsplit(self._origin)
        trusted = None
        with explained(no_connection(seconds)):
            if parts.scheme == "https":
                trusted = context(self._certificates or default_certificates())
            connection = _Connection(
                with_plain_zone(parts.hostname or ""),
                parts.port or (443 if trusted else 80),
            )
            connection.timeout = min(seconds, left())
            connection.connect()
        if trusted:
            with explained(no_answer(seconds)):
                connection.secure(trusted)
        return connection


class _Connection(http.client.HTTPConnection):
    """The standard library's connection, which never opens again by itself."""

    response_class: Any = Response
    auto_open = 0

    def __del__(self) -> None:
        """Close the kept connection when its server is not used any more."""
        self.close()

    def has_something(self) -> bool:
        """Return True if there is something to read before any request: as a rule, the server has hung up."""
        poll = select.poll()
        poll.register(self.sock, select.POLLIN)
        return bool(poll.poll(0))

    def secure(self, trusted: ssl.SSLContext) -> None:
        """Speak TLS from here on."""
        self.default_port = http.client.HTTPS_PORT
        self.sock = trusted.wrap_socket(
            self.sock, server_hostname=without_zone(self.host)
        )

    def limit(self, seconds: float) -> None:
        """Set the longest silence of the server."""
        self.sock.settimeout(min(seconds, left()))

    def write(
        self, verb: str, target: str, body: bytes | HeldBack, headers: Mapping[str, str]
    ) -> None:
        """Send a request."""
        names = {name.lower() for name in headers}
        has_zone = "%" in self.host
        self.putrequest(
            verb,
            target,
            skip_host=has_zone or "host" in names,
            skip_accept_encoding=True,
        )
        if has_zone and "host" not in names:
            self.putheader("Host", host_header(self.host, self.port, self.default_port))
        for name, value in USUAL.items():
            if name.lower() not in names:
                self.putheader(name, value)
        for name, value in headers.items():
            self.putheader(name, value)
        if body or verb not in ("GET", "HEAD"):
            self.putheader("Content-Length", str(len(body)))
        # A server may answer and hang up before it has read the whole request: the answer counts.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.endheaders(body or None)


class _Body:
    """The body of an answer."""

    def __init__(self, response: http.client.HTTPResponse, seconds: float) -> None:
        """Read the body of a response; `seconds` is the longest silence of the server."""
        self._response = response
        self._seconds = seconds
        self.ended = False
        """True if the end of the body was read, so that the connection can be used again."""

    def some(self) -> bytes:
        """Return the next part of the body as soon as there is any; empty at its end."""
        with explained(broke_off(self._seconds)):
            part = self._response.read1(PART)
            if not part and self._response.length:
                raise http.client.IncompleteRead(b"", self._response.length)
        self.ended = not part
        return part


class _Headers(Mapping[str, str]):
    """Headers whose names are not case-sensitive. Repeated headers, and several lines of one, are joined."""

    def __init__(self, headers: http.client.HTTPMessage) -> None:
        self._headers = headers

    def __getitem__(self, name: str) -> str:
        values = self._headers.get_all(name)
        if values is None:
            raise KeyError(name)
        return ", ".join(
            " ".join(line.strip() for line in value.splitlines()) for value in values
        )

    def __iter__(self) -> Iterator[str]:
        return iter({name.lower(): name for name in self._headers}.values())

    def __len__(self) -> int:
        return len({name.lower() for name in self._headers})


def _is_plain(origin: str) -> bool:
    match = _PLAIN.fullmatch(origin)
    return match is not None and 0 < int(match["port"] or 80) < 65536


def context(certificates: str) -> ssl.SSLContext:
    """Return the TLS settings that trust the certificates in a file, or in a folder that OpenSSL has indexed.

    Raises OSError (which ssl.SSLError is) if there are none.
    """
    if not os.path.exists(certificates):  # noqa: PTH110  # it is text already
        raise OSError(
            f"Could not find a suitable TLS CA certificate bundle, invalid path: {certificates}"
        )
    status = os.stat(certificates)  # noqa: PTH116
    if stat.S_ISDIR(status.st_mode):
        return _context(None, certificates)
    return _context_of_file(
        certificates, status.st_ino, status.st_size, status.st_mtime_ns
    )


@functools.lru_cache(maxsize=2)
def _context_of_file(file: str, *_version: int) -> ssl.SSLContext:
    """Read a file once for all connections, until it changes: reading takes longer than the rest of a request."""
    return _context(file, None)


def _context(file: str | None, folder: str | None) -> ssl.SSLContext:
    settings = ssl.create_default_context(cafile=file, capath=folder)
    settings.hostname_checks_common_name = False
    settings.set_alpn_protocols(["http/1.1"])
    return settings


@functools.cache
def default_certificates() -> str:
    """Return the file or folder of the certificates that are trusted by default.

    As for requests, they are those of certifi, which distributions replace by the system's. A distribution whose
    requests needs no certifi uses the system's certificates, and OpenSSL knows where they are.
    """
    try:
        import certifi  # noqa: PLC0415  # only for servers with TLS
    except ImportError:
        system = ssl.get_default_verify_paths()
        return system.cafile or system.capath or system.openssl_cafile
    return certifi.where()
