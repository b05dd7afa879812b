"""What a run has printed, on disk: bounded while it grows, read without what was left out, cleared of secrets at last.

A command writes straight into its files, so nobody stands between who could stop it. What is too long loses its middle:
a hole is made in the file, which takes no room, and the beginning and the end stay where they are.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from heat_config_hooks.reply import EDGE

LEAST = 4 * 1024 * 1024
"""Bytes of a stream that stay in any case: more than any result holds of it."""

_PAGE = 4096
_BLOCK = 1024 * 1024
_KEEP_SIZE, _PUNCH_HOLE = 1, 2
"""Of `fallocate`."""


def bound(path: str | Path, limit: int) -> int:
    """Free the middle of a file that takes more than `limit` bytes (0 for none); return how many it took.

    Raises OSError.
    """
    try:
        seen = os.lstat(path)
        if stat.S_ISREG(seen.st_mode) and not 0 < limit < seen.st_blocks * 512:
            return seen.st_blocks * 512  # as nearly always
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:  # the command may have done anything to its own folder
        return 0
    try:
        found = os.fstat(descriptor)
        taken = found.st_blocks * 512 if stat.S_ISREG(found.st_mode) else 0
        if limit and taken > max(limit, LEAST):
            keep = max(limit, LEAST) * 3 // 8  # of each end; so it has to grow for a while before the next hole
            begin = -(-keep // _PAGE) * _PAGE
            _punch(descriptor, begin, (found.st_size - keep) // _PAGE * _PAGE - begin)
        return taken
    finally:
        os.close(descriptor)


def _punch(descriptor: int, begin: int, length: int) -> None:
    if length <= 0:
        return
    import ctypes  # noqa: PLC0415  # 3 ms, for those who print very much

    library = ctypes.CDLL(None, use_errno=True)
    call = getattr(library, "fallocate64", None) or getattr(library, "fallocate", None)
    if call is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    call.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    if call(descriptor, _KEEP_SIZE | _PUNCH_HOLE, begin, length):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def read(descriptor: int, offset: int, count: int) -> tuple[int, bytes]:
    """Return how many bytes are left out from `offset` on, and at most `count` that follow; none at the end."""
    begin, end = next(_segments(descriptor, offset), (offset, offset))
    return begin - offset, os.pread(descriptor, min(count, end - begin), begin)


def mask(path: Path, secrets: Sequence[bytes]) -> bool:
    """Write `*` over all secrets in a file, where they stand; return whether there were any. Raises OSError.

    It needs no room, and may be cut short and done again. What stands beside a hole may be half of one, and goes too.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or not secrets:
            return False
        words = re.compile(b"|".join(re.escape(each) for each in sorted(secrets, key=len, reverse=True)))
        longest = max(map(len, secrets))
        masked = False
        for begin, end in list(_segments(descriptor, 0)):
            if begin > 0:
                _blank(descriptor, begin, min(begin + EDGE, end))
            if end < found.st_size:
                _blank(descriptor, max(end - EDGE, begin), end)
            position = begin
            while position < end:
                part = os.pread(descriptor, min(_BLOCK + longest, end - position), position)
                if not part:
                    break
                for each in words.finditer(part):
                    _blank(descriptor, position + each.start(), position + each.end())
                    masked = True
                position += _BLOCK
        return masked
    finally:
        os.close(descriptor)


def _blank(descriptor: int, begin: int, end: int) -> None:
    os.pwrite(descriptor, b"*" * (end - begin), begin)


def _segments(descriptor: int, offset: int) -> Iterator[tuple[int, int]]:
    """Yield where there is something in a file: the first byte, and that after the last one."""
    while True:
        try:
            begin = os.lseek(descriptor, offset, os.SEEK_DATA)
            end = os.lseek(descriptor, begin, os.SEEK_HOLE)
        except OSError as error:
            if error.errno == errno.ENXIO:  # there is nothing more
                return
            begin, end = offset, os.fstat(descriptor).st_size  # a file system that knows of no holes
            if begin >= end:
                return
        yield begin, end
        offset = end
