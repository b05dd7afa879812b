"""Trees of files from elsewhere: they are bounded, flushed to disk, and have nothing that leads out of them."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, cast

from heat_config_agent.errors import UsageError

MOST_FILES = 20_000
"""The most files and folders of a revision."""

_PIECE = 1024 * 1024


class Budget:
    """The bytes and files that a revision may still have."""

    def __init__(self, size: int) -> None:
        """Allow `size` bytes, in at most `MOST_FILES` files."""
        self._size, self._left, self._files = size, size, MOST_FILES

    def spend(self, size: int, count: int = 0) -> None:
        """Count bytes and files. Raises UsageError if they are too many."""
        self._left -= size
        self._files -= count
        if self._left < 0:
            raise UsageError(
                f"the revision is larger than {self._size} bytes", hint="size_limit sets how large it may be"
            )
        if self._files < 0:
            raise UsageError(f"the revision has more than {MOST_FILES} files and folders")


def check(tree: Path) -> None:
    """Flush a tree to disk. Raises UsageError if it has devices, sockets, or links that lead out of it."""
    inside = os.path.realpath(tree)
    for place in _walk(tree):
        mode = place.lstat().st_mode
        name = place.relative_to(tree)
        if stat.S_ISLNK(mode):
            target = os.path.realpath(place)
            if target != inside and not target.startswith(f"{inside}/"):
                raise UsageError(f"the link {name} leads out of the revision")
        elif stat.S_ISREG(mode):
            descriptor = os.open(place, os.O_RDONLY | os.O_NOFOLLOW)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        elif not stat.S_ISDIR(mode):
            raise UsageError(f"{name} is neither a file nor a folder")


def _walk(tree: Path) -> Iterator[Path]:
    """Yield everything below a folder in the order of the names; folders named `.git` are left out."""
    for entry in sorted(os.scandir(tree), key=lambda entry: entry.name):
        if entry.name == ".git":
            continue
        yield Path(entry.path)
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(Path(entry.path))


def digest(path: Path, budget: Budget) -> str:
    """Return the digest of a file or a folder: of names, modes and contents. Raises OSError and UsageError."""
    total = hashlib.sha256()
    for place in [path, *(_walk(path) if path.is_dir() else ())]:
        status = place.lstat() if place != path else place.stat()
        budget.spend(0, 1)
        name = os.fsencode(place.relative_to(path)) if place != path else b""
        total.update(b"%d %o %s\0" % (len(name), status.st_mode & 0o170100, name))
        if stat.S_ISLNK(status.st_mode):
            total.update(os.fsencode(place.readlink()) + b"\0")
        elif stat.S_ISREG(status.st_mode):
            budget.spend(status.st_size)
            total.update(b"%d\0" % status.st_size)
            with place.open("rb") as file:
                while piece := file.read(_PIECE):
                    total.update(piece)
    return f"sha256:{total.hexdigest()}"


def copy(path: Path, tree: Path, budget: Budget) -> None:
    """Copy a file into a tree, or the content of a folder. Raises OSError and UsageError."""
    if not path.is_dir():
        budget.spend(path.stat().st_size, 1)
        shutil.copy(path, tree / path.name)
        return
    for place in _walk(path):
        mode = place.lstat().st_mode
        target = tree / place.relative_to(path)
        budget.spend(place.lstat().st_size if stat.S_ISREG(mode) else 0, 1)
        if stat.S_ISLNK(mode):
            target.symlink_to(place.readlink())
        elif stat.S_ISDIR(mode):
            target.mkdir()
        elif stat.S_ISREG(mode):
            shutil.copy(place, target)
        else:
            raise UsageError(f"{place} is neither a file nor a folder")


class _Bounded:
    """A stream that ends in a failure where it has more bytes than allowed."""

    def __init__(self, stream: IO[bytes], budget: Budget) -> None:
        self._stream, self._budget = stream, budget

    def read(self, size: int = -1) -> bytes:
        if size < 0 or size > 16 * _PIECE:
            raise UsageError("the archive has a header of more than 16 MiB")
        content = self._stream.read(size)
        self._budget.spend(len(content))
        return content


def unpack(archive: IO[bytes], tree: Path, size: int) -> None:
    """Unpack a tar archive, which may be compressed with gzip, bzip2 or xz, into an empty folder.

    It may have only files and folders. Raises UsageError, also if it has more than `size` bytes, and OSError.
    """
    budget = Budget(size)
    try:
        with _decompressed(archive) as stream:
            bounded = cast("IO[bytes]", _Bounded(stream, budget))  # tarfile uses nothing but `read`
            members = tarfile.open(fileobj=bounded, mode="r|")  # noqa: SIM115
            for member in members:
                budget.spend(0, 1)
                _place(members, member, tree)
    except (tarfile.TarError, EOFError, ValueError) as error:
        raise UsageError(f"the archive cannot be unpacked: {error}") from error


def _decompressed(archive: IO[bytes]) -> IO[bytes]:
    import bz2  # noqa: PLC0415  # only for archives
    import gzip  # noqa: PLC0415
    import lzma  # noqa: PLC0415

    start = archive.read(6)
    archive.seek(0)
    if start.startswith(b"\x1f\x8b"):
        return gzip.GzipFile(fileobj=archive)  # type: ignore[return-value]  # it is a stream of bytes
    if start.startswith(b"BZh"):
        return bz2.BZ2File(archive)
    return lzma.LZMAFile(archive) if start == b"\xfd7zXZ\0" else archive


def _place(members: tarfile.TarFile, member: tarfile.TarInfo, tree: Path) -> None:
    """Write a member of an archive into a tree."""
    name = PurePosixPath(member.name)
    if name.is_absolute() or ".." in name.parts:
        raise UsageError(f"the archive has the name {member.name!r}, which leads out of it")
    target = tree / name
    if member.isdir():
        target.mkdir(parents=True, exist_ok=True)
        return
    content = members.extractfile(member) if member.isreg() else None
    if content is None:
        raise UsageError(f"{member.name} in the archive is neither a file nor a folder")
    target.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o700 | (member.mode & 0o100))
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(descriptor, 0o700 if member.mode & 0o100 else 0o600)
        shutil.copyfileobj(content, file, _PIECE)
