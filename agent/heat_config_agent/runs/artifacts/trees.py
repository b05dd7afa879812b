"""Trees of files from elsewhere: they are bounded, flushed to disk, and have nothing that leads out of them."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from heat_config_agent.model.errors import UsageError
from heat_config_hooks import files

MOST_FILES = 20_000
"""The most files and folders of a revision, or of the artifacts of a deployment."""

DEEPEST = 100
"""The most folders within folders."""

_HISTORY = ".git"
"""Belongs to the author's work and not to the content of a folder that is followed."""

PIECE = 1024 * 1024
"""The bytes that are read at once."""


class Budget:
    """The bytes and files that may still come."""

    def __init__(
        self, size: int, subject: str = "the revision is", setting: str = "size_limit"
    ) -> None:
        """Allow `size` bytes in at most `MOST_FILES` files; `subject` and `setting` are parts of the errors."""
        self._size, self._left, self._files = size, size, MOST_FILES
        self._subject, self._setting = subject, setting

    @property
    def left(self) -> int:
        """The bytes that may still come."""
        return self._left

    def spend(self, size: int, count: int = 0) -> None:
        """Count bytes and files. Raises UsageError if they are too many."""
        self._left -= size
        self._files -= count
        if self._left < 0:
            hint = f"{self._setting} sets how large it may be"
            raise UsageError(
                f"{self._subject} larger than {self._size} bytes", hint=hint
            )
        if self._files < 0:
            raise UsageError(
                f"{self._subject} of more than {MOST_FILES} files and folders"
            )


def check(tree: Path) -> None:
    """Flush a tree to disk. Raises UsageError if it has devices, sockets, or links that lead out of it."""
    check_links(tree, "the revision")
    for place in _walk(tree):
        mode = place.lstat().st_mode
        if stat.S_ISREG(mode):
            descriptor = os.open(place, os.O_RDONLY | os.O_NOFOLLOW)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        elif not (stat.S_ISDIR(mode) or stat.S_ISLNK(mode)):
            raise UsageError(
                f"{place.relative_to(tree)} is neither a file nor a folder"
            )


def check_links(tree: Path, label: str) -> None:
    """Raise UsageError if a link in a tree leads out of it; `label` is the name of the tree in the message.

    One that leads out and back in, by the name of the tree, leads out as soon as the tree has another name.
    """
    inside = os.path.realpath(tree)
    for place in _walk(tree):
        if not place.is_symlink():
            continue
        name, target = place.relative_to(tree), os.path.realpath(place)
        written = os.path.normpath(name.parent / place.readlink())
        is_inside = target == inside or target.startswith(f"{inside}/")
        if (
            not is_inside
            or written.startswith("/")
            or written.partition("/")[0] == ".."
        ):
            raise UsageError(f"the link {name} leads out of {label}")


def _walk(tree: Path, without: str = "", depth: int = 1) -> Iterator[Path]:
    """Yield everything below a folder in the order of the names, except entries with the name `without`.

    Raises UsageError if there are more than `DEEPEST` folders within folders.
    """
    if depth > DEEPEST:
        raise UsageError(f"there are more than {DEEPEST} folders within folders")
    for entry in sorted(os.scandir(tree), key=lambda entry: entry.name):
        if entry.name == without:
            continue
        yield Path(entry.path)
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(Path(entry.path), without, depth + 1)


def digest(path: Path, budget: Budget) -> str:
    """Return the digest of the names, modes and contents of a file or a folder, without `.git`.

    Raises OSError and UsageError.
    """
    total = hashlib.sha256()
    for place in [path, *(_walk(path, _HISTORY) if path.is_dir() else ())]:
        status = place.lstat() if place != path else place.stat()
        budget.spend(0, 1)
        name = os.fsencode(place.relative_to(path)) if place != path else b""
        total.update(b"%d %o %s\0" % (len(name), status.st_mode & 0o170100, name))
        if stat.S_ISLNK(status.st_mode):
            total.update(os.fsencode(place.readlink()) + b"\0")
        elif stat.S_ISREG(status.st_mode):
            total.update(b"%d\0" % status.st_size)
            with _opened(place, is_link=place == path) as file:
                for piece in _pieces(file, budget):
                    total.update(piece)
        elif place == path and not stat.S_ISDIR(status.st_mode):
            raise UsageError(f"{path} is neither a file nor a folder")
    return f"sha256:{total.hexdigest()}"


def copy(path: Path, tree: Path, budget: Budget) -> None:
    """Copy a file into a tree, or the content of a folder (without `.git`). Raises OSError and UsageError."""
    if not path.is_dir():
        budget.spend(0, 1)
        _copy(path, tree / path.name, budget, is_link=True)
        return
    for place in _walk(path, _HISTORY):
        mode = place.lstat().st_mode
        target = tree / place.relative_to(path)
        budget.spend(0, 1)
        if stat.S_ISLNK(mode):
            target.symlink_to(place.readlink())
        elif stat.S_ISDIR(mode):
            target.mkdir()
        elif stat.S_ISREG(mode):
            _copy(place, target, budget)
        else:
            raise UsageError(f"{place} is neither a file nor a folder")


def _copy(path: Path, target: Path, budget: Budget, *, is_link: bool = False) -> None:
    """Copy a regular file with its mode. Raises OSError and UsageError."""
    with _opened(path, is_link=is_link) as content, target.open("xb") as file:
        for piece in _pieces(content, budget):
            file.write(piece)
        os.fchmod(file.fileno(), stat.S_IMODE(os.fstat(content.fileno()).st_mode))


def _opened(path: Path, *, is_link: bool) -> IO[bytes]:
    """Open a regular file, which may be behind a link if `is_link`. Raises OSError for a device or a pipe."""
    return open(files.open_regular(path, follow=is_link), "rb")


def _pieces(file: IO[bytes], budget: Budget) -> Iterator[bytes]:
    """Yield the content of a file as the budget allows. Raises OSError and UsageError.

    The bytes that are read count, and not the size that the file has said: it may grow in the meantime.
    """
    while piece := file.read(PIECE):
        budget.spend(len(piece))
        yield piece
