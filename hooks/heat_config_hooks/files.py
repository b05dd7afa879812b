"""Reads and writes files: complete or not at all, within limits, and readable for their owner only."""

from __future__ import annotations

import codecs
import errno
import fcntl
import os
import stat
from pathlib import Path

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from collections.abc import Callable

# Many paths are text here, because it is faster: each deployment calls these functions several times.

_AT_ONCE = 64 * 1024
"""Bytes that one call reads."""

LARGEST = 64 * 1024 * 1024
"""The largest file that someone may name, in bytes: a document, a template, a file for a template, settings."""

PATIENCE = 300.0
"""Seconds after which a pipe or a device that someone names must have ended."""


def text_of(content: bytes) -> str:
    """Return the text in a file of UTF-8, without a byte order mark; U+FFFD stands for what is not UTF-8."""
    # `utf-8-sig` is a module to load
    return content.removeprefix(codecs.BOM_UTF8).decode("utf-8", "replace")


def make_directory(path: Path, *, durable: bool = False, mode: int = 0o700) -> None:
    """Make a folder and its missing parents, with this mode; if `durable`, they survive a power cut."""
    if not os.path.isdir(path):
        make_directory(path.parent, durable=durable, mode=mode)
        path.mkdir(mode=mode, exist_ok=True)
        if durable:
            sync_directory(path.parent)


def with_search(mode: int) -> int:
    """Return the mode of a folder for files with `mode`: who may read them may search it. Also that of a program."""
    return mode | 0o100 | (mode & 0o444) >> 2


def umask() -> int:
    """Return the umask of this process, without changing it for a moment."""
    try:
        with open("/proc/self/status", encoding="utf-8", errors="replace") as status:
            return next(
                (
                    int(line.split()[1], 8)
                    for line in status
                    if line.startswith("Umask:")
                ),
                0o077,
            )
    except OSError:
        return 0o077


def taken(path: str | Path) -> int:
    """Return the bytes that a regular file takes on disk; 0 if there is none. Raises OSError."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return 0
    return status.st_blocks * 512 if stat.S_ISREG(status.st_mode) else 0


def tighten(path: str | Path) -> None:
    """Make our own file 0600. A link is not followed, and a file with several names is left alone."""
    try:
        status = os.lstat(path)
        if not status.st_mode & 0o077 or not stat.S_ISREG(status.st_mode):
            return
        descriptor = os.open(
            path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        )
    except OSError:  # it belongs to another user, or has been removed
        return
    try:
        status = os.fstat(descriptor)
        if (
            stat.S_ISREG(status.st_mode)
            and status.st_uid == os.geteuid()
            and status.st_nlink == 1
        ):
            os.fchmod(descriptor, 0o600)
    except OSError:  # the file system has no modes
        return
    finally:
        os.close(descriptor)


def tighten_directory(path: Path) -> None:
    """Make our own folder 0700 if hooks alone use it: if it is empty, or has the name of a hook's folder."""
    try:
        status = os.lstat(path)
        ours = (
            stat.S_ISDIR(status.st_mode)
            and status.st_uid == os.geteuid()
            and not status.st_mode & stat.S_ISVTX
        )
        if not ours or not status.st_mode & 0o077:
            return
        if path.name.startswith("heat-config-") or not os.listdir(path):
            os.chmod(path, 0o700)
    except OSError:  # the file system has no modes
        return


def remove(path: str | Path) -> None:
    """Remove a file, a link, or a folder with its contents, if it exists."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
    except OSError:
        if os.path.islink(path) or not os.path.isdir(path):
            raise
        _remove_all(path)


def _remove_all(path: str | Path) -> None:
    """Remove a folder with its contents, also if it has more folders within folders than Python can follow."""
    import shutil  # noqa: PLC0415  # rarely needed, and slow to load

    try:
        shutil.rmtree(path)
    except RecursionError:
        import subprocess  # noqa: PLC0415

        done = subprocess.run(
            ["rm", "-rf", "--", path], check=False, capture_output=True
        )
        if done.returncode:
            raise OSError(errno.EIO, "rm has failed", str(path)) from None


def open_regular(path: str | Path, *, follow: bool = True) -> int:
    """Open a regular file for reading, and return its descriptor; `follow` if it may be behind a link.

    A failed attempt is repeated once, because a disk may recover. Raises OSError, also if it is not a regular file:
    reading a pipe could block for ever.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
    if not follow:
        flags |= os.O_NOFOLLOW
    try:
        descriptor = os.open(path, flags)
    except FileNotFoundError:
        raise
    except OSError:
        descriptor = os.open(path, flags)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "it is not a regular file", str(path))


def read(path: str | Path, largest: int | None = None) -> bytes:
    """Return the content of a regular file. Raises OSError as `open_regular` does, or if it exceeds `largest` bytes."""
    descriptor = open_regular(path)
    try:
        return drain(descriptor, largest)
    finally:
        os.close(descriptor)


def take(
    path: str | Path, largest: int = LARGEST, patience: float | None = None
) -> bytes:
    """Return the content of a file, pipe or device that someone names.

    It is opened once, because a pipe can be read only once. Raises OSError, also if the content is longer than
    `largest` bytes, or if a pipe or device has not ended after `patience` seconds (`PATIENCE` by default).
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return drain(descriptor, largest, PATIENCE if patience is None else patience)
    finally:
        os.close(descriptor)


def drain(
    descriptor: int, largest: int | None = LARGEST, patience: float | None = None
) -> bytes:
    """Return everything that can be read from a descriptor.

    Raises OSError if that is more than `largest` bytes, or if a pipe has not ended after `patience` seconds.
    """
    wait = (
        None
        if patience is None or stat.S_ISREG(os.fstat(descriptor).st_mode)
        else _waiting(descriptor, patience)
    )
    parts: list[bytes] = []
    size = 0
    while True:
        if wait:
            wait()
        part = os.read(descriptor, _AT_ONCE)
        if not part:
            return b"".join(parts)
        parts.append(part)
        size += len(part)
        if largest is not None and size > largest:
            limit = (
                f"{largest // 1024**2} MiB"
                if largest >= 1024**2
                else f"{largest // 1024} KiB"
            )
            raise OSError(errno.EFBIG, f"it is longer than {limit}")


def _waiting(descriptor: int, patience: float) -> Callable[[], None]:
    """Return a function that waits for data to read. It raises TimeoutError once `patience` seconds are over."""
    import select  # noqa: PLC0415  # pipes are rare
    import time  # noqa: PLC0415

    end = time.monotonic() + patience
    ready = select.poll()
    ready.register(descriptor, select.POLLIN)

    def wait() -> None:
        left = end - time.monotonic()
        if left <= 0 or not ready.poll(left * 1000):
            raise TimeoutError(
                errno.ETIMEDOUT,
                f"it is a pipe or a device that has not ended after {patience:g} s",
            )

    return wait


def replace(
    path: str | Path, content: bytes, *, mode: int = 0o600, durable: bool = False
) -> None:
    """Write a file atomically: readers see either the old or the new content, never a part or a mixture.

    If `durable`, the new content survives a power cut once this function has returned.
    """
    folder, name = os.path.split(path)
    # always the same name, so a file that a kill has left is overwritten
    temporary = os.path.join(folder, f".{name}.new")
    descriptor, status = _open_alone(temporary, mode)
    try:
        try:
            if status.st_size:
                os.ftruncate(descriptor, 0)
            if stat.S_IMODE(status.st_mode) != mode:
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
        # last: a process that waits for the lock must see that the file no longer has this name
        os.close(descriptor)


def replaceable(path: str | Path) -> str:
    """Return the path of a file that a user names to be written, behind any link; it may not exist yet.

    Raises OSError if a device, a pipe or a folder is there: `replace` would put a file in its place.
    """
    if os.path.exists(path) and not os.path.isfile(path):
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return os.path.realpath(path)


def write(descriptor: int, content: bytes) -> None:
    """Write all of `content`, even if the kernel accepts only a part at a time."""
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]


def create(path: str | Path, content: bytes) -> None:
    """Write a file (0600) directly, into a private folder where no one reads it meanwhile."""
    descriptor = os.open(
        path,
        os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC,
        0o600,
    )
    try:
        write(descriptor, content)
    finally:
        os.close(descriptor)


def _open_alone(temporary: str, mode: int) -> tuple[int, os.stat_result]:
    """Open a temporary file and lock it, so that only one process writes it at a time.

    Return its descriptor and its status.
    """
    while True:
        descriptor = os.open(
            temporary,
            os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK,
            mode,
        )
        try:
            if status := _lock(descriptor, temporary):
                return descriptor, status
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _lock(descriptor: int, temporary: str) -> os.stat_result | None:
    """Lock a file and return its status; None if the previous owner of the lock has renamed or removed the file.

    Raises PermissionError if the file belongs to another user, who could hold the lock for ever.
    """
    opened = os.fstat(descriptor)
    if (
        opened.st_uid != os.geteuid()
        or opened.st_nlink > 1
        or not stat.S_ISREG(opened.st_mode)
    ):
        # In a shared folder such as /tmp, anybody may have put it there, in order to read our data or to destroy it.
        remove(temporary)
        raise PermissionError(
            errno.EPERM, "a file of another user is in the way", temporary
        )
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        status = os.lstat(temporary)
    except FileNotFoundError:
        return None
    return status if os.path.samestat(opened, status) else None


def sync_directory(path: Path) -> None:
    """Make the names in a folder survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
