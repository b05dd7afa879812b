"""Files that a hook writes: whole or not at all, and for nobody else's eyes."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from pathlib import Path

# Paths are text here: these functions are called several times for each deployment.

_AT_ONCE = 64 * 1024
"""Bytes that are read at once."""


def make_directory(path: Path, *, durable: bool = False) -> None:
    """Make a folder and its parents where they are missing, 0700."""
    if not os.path.isdir(path):
        make_directory(path.parent, durable=durable)
        path.mkdir(mode=0o700, exist_ok=True)
        if durable:
            sync_directory(path.parent)


def remove(path: str | Path) -> None:
    """Remove whatever is at `path`: a file, a link, or a folder with all that is in it. Nothing may be there."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
    except OSError:
        if os.path.islink(path) or not os.path.isdir(path):
            raise
        import shutil  # noqa: PLC0415  # seldom needed, and slow to load

        shutil.rmtree(path)


def open_regular(path: str | Path) -> int:
    """Open a file for reading, and return its descriptor.

    What a disk does not give at first it may give once more. Raises OSError where it cannot be read or is no file: a
    pipe in its place would have us wait for ever.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags)
    except FileNotFoundError:
        raise
    except OSError:
        descriptor = os.open(path, flags)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "it is no regular file", str(path))


def read(path: str | Path) -> bytes:
    """Return what is in a file. Raises OSError as `open_regular` does."""
    descriptor = open_regular(path)
    try:
        parts = []
        while part := os.read(descriptor, _AT_ONCE):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(descriptor)


def replace(path: str | Path, content: bytes, *, mode: int = 0o600, durable: bool = False) -> None:
    """Write a file so that whoever reads it sees the old or the new content, never a mixture or a part.

    One that is `durable` survives a power cut as soon as this returns.
    """
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, f".{name}.new")  # always the same: what a kill leaves of it is overwritten
    descriptor, found = _open_alone(temporary, mode)
    try:
        try:
            if found.st_size:
                os.ftruncate(descriptor, 0)
            if stat.S_IMODE(found.st_mode) != mode:
                os.fchmod(descriptor, mode)
            write(descriptor, content)
            if durable:
                os.fsync(descriptor)
            os.replace(temporary, path)
        except BaseException:
            remove(temporary)
            raise
        if durable:
            sync_directory(Path(folder))
    finally:
        os.close(descriptor)  # only now: who waits for it must find that the name is not this file's any more


def write(descriptor: int, content: bytes) -> None:
    """Write all of it, however little the kernel takes at once."""
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]


def create(path: str | Path, content: bytes) -> None:
    """Write a file, 0600, into a folder that is ours alone and that nobody reads meanwhile."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        write(descriptor, content)
    finally:
        os.close(descriptor)


def _open_alone(temporary: str, mode: int) -> tuple[int, os.stat_result]:
    """Open the file of that name and lock it: of all who write it at once, each has it for itself.

    Return its descriptor, and how it is with the file.
    """
    while True:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, mode)
        try:
            if found := _lock(descriptor, temporary):
                return descriptor, found
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _lock(descriptor: int, temporary: str) -> os.stat_result | None:
    """Lock a file and return how it is with it; None where whoever had it before has put it elsewhere, or removed it.

    Raises PermissionError where it is somebody else's, who may never let it go.
    """
    opened = os.fstat(descriptor)
    if opened.st_uid != os.geteuid() or opened.st_nlink > 1 or not stat.S_ISREG(opened.st_mode):
        # In a folder for all, e.g. /tmp, anybody may have put it there, to read or to destroy by it.
        remove(temporary)
        raise PermissionError(errno.EPERM, "somebody else's file is in its way", temporary)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        found = os.lstat(temporary)
    except FileNotFoundError:
        return None
    return found if os.path.samestat(opened, found) else None


def sync_directory(path: Path) -> None:
    """Have the names in a folder survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
