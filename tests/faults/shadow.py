"""The content of a folder after a power cut: all that was flushed, and a random part of the rest.

`python shadow.py SHADOW COMMAND…` runs an installed command, and records in the folder SHADOW the content of each file
that it flushes, and the names in each folder that it flushes. No file system loses more than what was not flushed, and
most lose less. `cut` reduces a folder to what may be left of it.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import random
import runpy
import shutil
import stat
import struct
import sys
import threading
from collections.abc import Callable
from pathlib import Path

_STATX_BTIME, _AT_EMPTY_PATH, _BTIME = 0x800, 0x1000, 80


def identity(descriptor: int) -> str:
    """Return what tells a file from all others: its number, which may be another's later, and when it was made."""
    about = ctypes.create_string_buffer(256)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.statx(descriptor, b"", _AT_EMPTY_PATH, _STATX_BTIME, about):
        raise OSError(ctypes.get_errno(), "statx")
    seconds, nanoseconds = struct.unpack_from("qI", about.raw, _BTIME)
    return f"{os.fstat(descriptor).st_ino}.{seconds}.{nanoseconds}"


def identity_at(path: Path) -> str:
    """Return the same of what is at a path."""
    descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW)
    try:
        return identity(descriptor)
    finally:
        os.close(descriptor)


def listing(folder: Path) -> dict[str, str]:
    """Return the names in a folder: name → identity."""
    found = {}
    for name in os.listdir(folder):
        try:
            found[name] = identity_at(folder / name)
        except FileNotFoundError:  # it goes this moment
            continue
    return found


def note(descriptor: int, shadow: Path) -> None:
    """Note what is flushed."""
    about, here = os.fstat(descriptor), Path(f"/proc/self/fd/{descriptor}")
    if stat.S_ISDIR(about.st_mode):
        content = json.dumps(listing(here)).encode()
    elif stat.S_ISREG(about.st_mode):
        content = here.read_bytes()
    else:
        return
    new = shadow / f".{os.getpid()}.{threading.get_ident()}"
    new.write_bytes(content)
    new.rename(shadow / identity(descriptor))


def note_all(folder: Path, shadow: Path) -> None:
    """Note that all that is in a folder is flushed."""
    for path in [folder, *folder.rglob("*")]:
        with contextlib.suppress(OSError):  # it has gone, or is a link
            note_one(path, shadow)


def note_one(path: Path, shadow: Path) -> None:
    """Note that what is at a path is flushed."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        note(descriptor, shadow)
    finally:
        os.close(descriptor)


class Cut:
    """A power cut: makes of a folder what may be left of it."""

    def __init__(self, shadow: Path, chance: random.Random, kept: float) -> None:
        """Keep each unflushed write with this probability, independently of the others."""
        self._shadow = shadow
        self._chance = chance
        self._kept = kept
        self._now: dict[str, Path] = {}

    def make(self, folder: Path) -> None:
        """Have happened to a folder what a power cut does. Nothing may be at work in it. Its own name may go, too."""
        before = folder.with_name(f"{folder.name}.before")
        shutil.rmtree(before, ignore_errors=True)
        folder.rename(before)
        self._now = {identity_at(path): path for path in [before, *before.rglob("*")]}
        known = self._flushed(identity_at(folder.parent))
        own = identity_at(before)
        named = known is not None and json.loads(known).get(folder.name) == own
        if named or self._is_kept():
            self._restore(own, folder)
            note_all(folder, self._shadow)  # what is there after that is on the disk
        note_one(folder.parent, self._shadow)

    def _restore(self, key: str, to: Path) -> None:
        now = self._now.get(key)
        flushed = self._flushed(key)
        if now is not None and now.is_symlink():
            to.symlink_to(now.readlink())
        elif now is not None and now.is_dir():
            to.mkdir(mode=0o700)
            durable = json.loads(flushed) if flushed is not None else {}
            current = listing(now)
            for name in sorted({*durable, *current}):
                there = (current if self._is_kept() else durable).get(name)
                if there is not None:
                    self._restore(there, to / name)
        elif now is not None and now.is_file():
            to.touch(0o600)
            to.write_bytes(self._content(now.read_bytes(), flushed))
            to.chmod(now.stat().st_mode & 0o777)
        elif flushed is None or not flushed.startswith(b"{"):
            # a file that was removed, and is back
            to.touch(0o600)
            to.write_bytes(flushed or b"")

    def _content(self, current: bytes, flushed: bytes | None) -> bytes:
        if self._is_kept():
            return current
        if flushed is None or not current.startswith(flushed):
            return (
                flushed if flushed is not None else current[: self._some(len(current))]
            )
        return current[: len(flushed) + self._some(len(current) - len(flushed))]

    def _some(self, most: int) -> int:
        return (
            self._chance.choice((0, self._chance.randint(0, most))) if self._kept else 0
        )

    def _flushed(self, key: str) -> bytes | None:
        try:
            return (self._shadow / key).read_bytes()
        except FileNotFoundError:
            return None

    def _is_kept(self) -> bool:
        return self._chance.random() < self._kept


def main() -> None:
    """Run a command."""
    shadow, command = Path(sys.argv[1]), sys.argv[2:]
    if command[0] == "--all":
        note_all(Path(command[1]), shadow)
        return

    def noting(real: Callable[[int], None]) -> Callable[[int], None]:
        def flush(descriptor: int) -> None:
            real(descriptor)
            note(descriptor, shadow)

        return flush

    os.fsync = noting(os.fsync)  # type: ignore[assignment]
    os.fdatasync = noting(os.fdatasync)  # type: ignore[assignment]
    sys.argv = command
    # as if the command had been started by itself
    sys.path[0] = str(Path(command[0]).parent)
    runpy.run_path(command[0], run_name="__main__")


if __name__ == "__main__":
    main()
