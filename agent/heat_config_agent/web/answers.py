"""Answers as they arrive: their headers in time, their bodies bounded, and it is clear where each of them ends."""

from __future__ import annotations

import contextlib
import contextvars
import http.client
import io
import math
import socket
import time
from collections.abc import Callable, Iterator, Mapping

from heat_config_agent.errors import UnreachableError
from heat_config_hooks.values import dataclass

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from typing import Any

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


def left() -> float:
    """Return the seconds until the deadline. Raises TimeoutError past it."""
    found = deadline.get() - time.monotonic()
    if found <= 0:
        raise TimeoutError("timed out")
    return found


@dataclass(frozen=True)
class Arriving:
    """An answer of which the headers are there."""

    status: int
    headers: Mapping[str, str]
    """Under any spelling of their names."""
    some: Callable[[], bytes]
    """Return what has come of the body, which is something at least, or nothing at its end. Raises UnreachableError."""


def read(answer: Arriving, most: int) -> bytes:
    """Return the whole body of an answer, of up to `most` bytes.

    It may be compressed, though nobody asks for that. It is unpacked here, where a few bytes cannot become gigabytes.
    Raises UnreachableError past the `deadline`, or where it is too long, cut short, or cannot be unpacked.
    """
    unpack = _unpacker(answer.headers.get("Content-Encoding", ""))
    parts: list[bytes] = []
    size = 0
    while part := answer.some():
        parts.append(unpack(part, most - size + 1) if unpack else part)
        size += len(parts[-1])
        if size > most:
            raise UnreachableError(f"its answer is longer than {most // 1024 // 1024} MiB")
        if time.monotonic() > deadline.get():
            raise UnreachableError("its answer took too long")
    if unpack and parts:
        unpack(b"", 1)
    return b"".join(parts)


def drain(answer: Arriving, seconds: float, most: int) -> bytes:
    """Read a body so far, for so long at most, and return what has come of it, as it came."""
    found = bytearray()
    # The status is what counts, and it is here.
    with contextlib.suppress(UnreachableError), within(seconds):
        while len(found) < most and (part := answer.some()):
            found += part
    return bytes(found[:most])


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


class _Until(io.RawIOBase):
    """What comes over a socket until the deadline: a time limit for each read is none for what trickles."""

    def __init__(self, raw: io.RawIOBase, sock: socket.socket) -> None:
        self._raw = raw
        self._socket = sock
        self.ended = False
        """Whether nothing more comes."""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        time_left = left()
        self._socket.settimeout(min(time_left, self._socket.gettimeout() or time_left))
        found = self._raw.readinto(buffer)
        self.ended = found == 0
        return found

    def close(self) -> None:
        self._raw.close()
        super().close()


class Response(http.client.HTTPResponse):
    """The standard library's answer, whose headers, too, are there in time."""

    def __init__(self, sock: Any, *args: Any, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        self._until = _Until(self.fp.detach(), sock)
        self.fp = io.BufferedReader(self._until)

    def begin(self) -> None:
        """Read the headers, to their end: to the library, half of them are as good.

        Where they leave a doubt about where the answer ends, nothing else comes after it: else the rest of it might be
        taken for the answer to the next request.
        """
        super().begin()
        if self._until.ended:
            raise http.client.IncompleteRead(b"")
        lengths, chunks = set(self.headers.get_all("Content-Length", [])), self.headers.get("Transfer-Encoding")
        if len(lengths) > 1 and not self.chunked:
            raise http.client.HTTPException("two lengths")
        bare = self.status in (204, 304)
        if self.status < 200 or (chunks and lengths) or (bare and (chunks or lengths - {"0"})):
            self.will_close = True
