"""The output of runs on disk: shortened while it grows, read without the part left out, and masked in place later.

A command writes into its files directly, so nothing in between could stop it. Output that is too long loses its middle:
the file gets a hole, which takes no space, and the beginning and the end stay where they are.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from heat_config_hooks import files
from heat_config_hooks.reply import EDGE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from heat_config_agent.masking.secrets import Secrets

LEAST = 4 * 1024 * 1024
"""Bytes of a stream that are always kept: more than any result contains."""

_PAGE = 4096
_BLOCK = 1024 * 1024
_KEEP_SIZE, _PUNCH_HOLE = 1, 2
"""Flags of fallocate(2)."""


def bound(path: str | Path, limit: int) -> int:
    """Free the middle of a file that takes more than `limit` bytes on disk (0 for no limit); return the bytes it took.

    Raises OSError.
    """
    before = files.taken(path)  # the command may have done anything in its folder
    if not 0 < limit < before:
        return before  # nearly always
    try:
        descriptor = os.open(
            path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        )
    except FileNotFoundError:
        return 0
    try:
        return shorten(descriptor, limit)
    finally:
        os.close(descriptor)


def shorten(descriptor: int, limit: int) -> int:
    """Free the middle of an open file that takes more than `limit` bytes on disk; return the bytes it took.

    Raises OSError.
    """
    status = os.fstat(descriptor)
    taken = status.st_blocks * 512 if stat.S_ISREG(status.st_mode) else 0
    if limit and taken > max(limit, LEAST):
        # at each end: less than half, so the next hole is not due at once
        keep = max(limit, LEAST) * 3 // 8
        begin = -(-keep // _PAGE) * _PAGE
        _punch(descriptor, begin, (status.st_size - keep) // _PAGE * _PAGE - begin)
    return taken


def detach(path: str | Path) -> None:
    """Replace a file by a copy, so that processes that a run has left behind no longer print into it.

    Call it before `mask`, because later output would not be masked. Holes stay holes. The file without a name that
    they go on to write is emptied by `left_output`. Raises OSError.
    """
    copy = f"{path}.copy"
    descriptor = os.open(
        path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    )
    try:
        size = os.fstat(descriptor).st_size
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        files.remove(copy)  # of an attempt that was interrupted
        target = os.open(
            copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600
        )
        try:
            for begin, end in list(_segments(descriptor, 0)):
                _copy(descriptor, target, begin, min(end, size))
            os.ftruncate(target, size)
            Path(copy).replace(path)
        except OSError:
            files.remove(copy)
            raise
        finally:
            os.close(target)
    finally:
        os.close(descriptor)


def _copy(source: int, target: int, begin: int, end: int) -> None:
    """Copy a part of a file to the same place of another one. Raises OSError."""
    os.lseek(target, begin, os.SEEK_SET)
    while begin < end:
        part = os.pread(source, min(_BLOCK, end - begin), begin)
        if not part:
            return
        files.write(target, part)
        begin += len(part)


def _punch(descriptor: int, begin: int, length: int) -> None:
    if length <= 0:
        return
    import ctypes  # noqa: PLC0415  # 3 ms, and few runs print that much

    library = ctypes.CDLL(None, use_errno=True)
    call = getattr(library, "fallocate64", None) or getattr(library, "fallocate", None)
    if call is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    call.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    if call(descriptor, _KEEP_SIZE | _PUNCH_HOLE, begin, length):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def read(descriptor: int, offset: int, count: int) -> tuple[int, bytes]:
    """Return the number of bytes left out at `offset`, and at most `count` bytes that follow; none at the end."""
    begin, end = next(_segments(descriptor, offset), (offset, offset))
    return begin - offset, os.pread(descriptor, min(count, end - begin), begin)


def mask(path: Path, secrets: Secrets) -> Iterator[bool]:
    """Write `*` over all secrets in a file, in place; yield for each part of it whether there were any.

    This needs no space, and may be interrupted and repeated. Text next to a hole may be half of a secret, so it is
    masked too. Raises OSError.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or not secrets:
            return
        for begin, end in list(_segments(descriptor, 0)):
            if begin > 0:
                _blank(descriptor, begin, min(begin + EDGE, end))
            if end < status.st_size:
                _blank(descriptor, max(end - EDGE, begin), end)
            position = begin
            while position < end:
                part = os.pread(
                    descriptor, min(_BLOCK + secrets.reach, end - position), position
                )
                if not part:
                    break
                places = secrets.spans(part)
                for first, last in places:
                    _blank(descriptor, position + first, position + last)
                yield bool(places)
                position += _BLOCK
    finally:
        os.close(descriptor)


def _blank(descriptor: int, begin: int, end: int) -> None:
    os.pwrite(descriptor, b"*" * (end - begin), begin)


def _segments(descriptor: int, offset: int) -> Iterator[tuple[int, int]]:
    """Yield each part of a file that is not a hole: the positions of its first byte and behind its last byte."""
    while True:
        try:
            begin = os.lseek(descriptor, offset, os.SEEK_DATA)
            end = os.lseek(descriptor, begin, os.SEEK_HOLE)
        except OSError as error:
            if error.errno == errno.ENXIO:  # nothing more follows
                return
            # a file system without holes
            begin, end = (offset, os.fstat(descriptor).st_size)
            if begin >= end:
                return
        yield begin, end
        offset = end
