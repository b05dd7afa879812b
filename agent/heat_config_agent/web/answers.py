"""Reads answers as they arrive: headers and bodies within a deadline, bodies of a limited size, each to a clear end."""

from __future__ import annotations

import contextlib
import contextvars
import http.client
import io
import math
import re
import socket
import time
from collections.abc import Callable, Iterator, Mapping

from heat_config_agent.model.errors import UnreachableError
from heat_config_hooks.values import dataclass

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from typing import Any

deadline: contextvars.ContextVar[float] = contextvars.ContextVar(
    "deadline", default=math.inf
)
"""The moment at which the whole answer has to be there (monotonic seconds)."""


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """Set the deadline of all requests in the context: they fail after that time."""
    token = deadline.set(time.monotonic() + seconds)
    try:
        yield
    finally:
        deadline.reset(token)


def left() -> float:
    """Return the seconds until the deadline. Raises TimeoutError past it."""
    seconds = deadline.get() - time.monotonic()
    if seconds <= 0:
        raise TimeoutError("timed out")
    return seconds


@dataclass(frozen=True)
class Arriving:
    """An answer whose headers have arrived."""

    status: int
    headers: Mapping[str, str]
    """The headers; their names are not case-sensitive."""
    some: Callable[[], bytes]
    """Returns the next part of the body as soon as there is any; empty at its end. Raises UnreachableError."""


def read(answer: Arriving, most: int) -> bytes:
    """Return the whole body of an answer, of up to `most` bytes.

    A server may compress it, although no request asks for that. It is decompressed here, where a few bytes cannot
    become gigabytes. Raises UnreachableError past the `deadline`, and if the body is too long, cut short or damaged.
    """
    unpack = _unpacker(answer.headers.get("Content-Encoding", ""))
    parts: list[bytes] = []
    size = 0
    while part := answer.some():
        parts.append(unpack(part, most - size + 1) if unpack else part)
        size += len(parts[-1])
        if size > most:
            limit = (
                f"{most // 1024 // 1024} MiB"
                if most >= 1024 * 1024
                else f"{most} bytes"
            )
            raise UnreachableError(f"its answer is longer than {limit}")
        if time.monotonic() > deadline.get():
            raise UnreachableError("its answer took too long")
    if unpack and parts:
        unpack(b"", 1)
    return b"".join(parts)


def drain(answer: Arriving, seconds: float, limit: int, most: int) -> tuple[bytes, str]:
    """Read a body to its end; return its first `limit` bytes as they came, and why it is not complete, else empty text.

    White space at its beginning is not returned. A body that has not ended after `seconds` is not complete. Only the
    first `most` bytes are read; a longer body counts as complete.
    """
    beginning, size = b"", 0
    try:
        with within(min(seconds, max(deadline.get() - time.monotonic(), 0.0))):
            while size < most and (part := answer.some()):
                size += len(part)
                beginning = (
                    (beginning + part).lstrip()[:limit]
                    if len(beginning) < limit
                    else beginning
                )
                left()
    except TimeoutError:
        return beginning, "its answer took too long"
    except UnreachableError as error:
        return beginning, str(error)
    return beginning, ""


def is_page(kind: str, body: bytes) -> bool:
    """Return True if a body is a web page, by its media type and its beginning.

    The framework of a server may say `text/html` for any answer without a media type. So the first characters count as
    well: neither JSON nor text without a tag is a page.
    """
    kind = kind.partition(";")[0].strip().lower()
    begins = (
        body.replace(b"\0", b"")
        .removeprefix(b"\xef\xbb\xbf")
        .lstrip(b"\xfe\xff \t\r\n\f\v")[:4096]
        .lower()
    )
    if not begins or begins[:1] in b'{["' or kind.endswith("json"):
        return False
    if kind in ("text/html", "application/xhtml+xml"):
        return _TAG.search(begins) is not None
    while begins.startswith((b"<!--", b"<?")):
        begins = begins.partition(b"-->" if begins.startswith(b"<!--") else b"?>")[
            2
        ].lstrip()
    return begins.startswith((b"<!doctype html", b"<html", b"<head>", b"<body"))


_TAG = re.compile(rb"<[a-z!/?]")


def _unpacker(encoding: str) -> Callable[[bytes, int], bytes] | None:
    """Return a function that decompresses the parts of an answer: (part, most bytes) → bytes; None if not compressed.

    After the last part it is called with an empty one. It raises UnreachableError, and so does this function.
    """
    import zlib  # noqa: PLC0415  # hardly any server compresses without being asked

    match encoding.strip().lower():
        case "" | "identity":
            return None
        case "gzip" | "x-gzip":
            packed = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        case "deflate":
            packed = zlib.decompressobj()
        case _:
            raise UnreachableError("its answer is compressed in an unknown way")

    def unpack(part: bytes, room: int) -> bytes:
        try:
            content = packed.decompress(part, room)
        except zlib.error:
            raise UnreachableError("its answer cannot be decompressed") from None
        if packed.unused_data or not (part or packed.eof):
            # there is more after its end, or no end
            raise UnreachableError("its answer cannot be decompressed")
        return content

    return unpack


class _Until(io.RawIOBase):
    """Reads a socket until the deadline. A timeout of each read alone would never end an answer that trickles."""

    def __init__(self, raw: io.RawIOBase, sock: socket.socket) -> None:
        self._raw = raw
        self._socket = sock
        self.ended = False
        """True if the server has closed the connection."""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        time_left = left()
        self._socket.settimeout(min(time_left, self._socket.gettimeout() or time_left))
        size = self._raw.readinto(buffer)
        self.ended = size == 0
        return size

    def close(self) -> None:
        self._raw.close()
        super().close()


class Response(http.client.HTTPResponse):
    """The standard library's answer, whose headers are read within the deadline too."""

    def __init__(self, sock: Any, *args: Any, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        self._until = _Until(self.fp.detach(), sock)
        self.fp = io.BufferedReader(self._until)

    def begin(self) -> None:
        """Read the headers to their end, which the library does not insist on.

        If the headers leave a doubt about the end of the answer, the connection is not used again: otherwise the rest
        of the answer might pass for the answer to the next request.
        """
        super().begin()
        if self._until.ended:
            raise http.client.IncompleteRead(b"")
        lengths, chunks = (
            set(self.headers.get_all("Content-Length", [])),
            self.headers.get("Transfer-Encoding"),
        )
        if len(lengths) > 1 and not self.chunked:
            raise http.client.HTTPException("two lengths")
        bare = self.status in (204, 304)
        if (
            self.status < 200
            or (chunks and lengths)
            or (bare and (chunks or lengths - {"0"}))
        ):
            self.will_close = True
