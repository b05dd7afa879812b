"""Files that were fetched and verified, in one folder, by their digests.

A file comes into the folder whole, and its digest is computed again whenever it is used: nothing else is on record, and
if anything is killed, the worst is that a file is fetched again. The files that were not used for longest go first.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from heat_config_agent.runs.artifacts.trees import PIECE
from heat_config_hooks import files


class Cache:
    """The files in a folder."""

    def __init__(self, folder: Path) -> None:
        """Use the folder, which need not exist."""
        self.folder = folder

    @contextlib.contextmanager
    def opened(self, digest: str) -> Iterator[IO[bytes] | None]:
        """Open the file with a digest; None if there is none. A damaged one is removed. Raises OSError."""
        path = self.folder / digest
        try:
            descriptor = os.open(
                path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
            )
        except FileNotFoundError:
            yield None
            return
        with os.fdopen(descriptor, "rb") as file:
            if digest_of(file) != digest:
                files.remove(path)
                yield None
                return
            with contextlib.suppress(OSError):
                os.utime(descriptor)
            file.seek(0)
            yield file

    def add(self, path: Path, digest: str) -> None:
        """Move a file into the folder. Raises OSError."""
        files.make_directory(self.folder)
        path.replace(self.folder / digest)

    def trim(self, size: int, oldest: float = 0.0) -> None:
        """Remove files until they have `size` bytes at most; also those that were last used before `oldest`."""
        kept = []
        with contextlib.suppress(OSError):
            for entry in os.scandir(self.folder):
                with contextlib.suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    kept.append(
                        (
                            min(status.st_mtime, time.time()),
                            status.st_blocks * 512,
                            entry.path,
                        )
                    )
        total = sum(each for _, each, _ in kept)
        for used, bytes_, path in sorted(kept):
            if total > size or used < oldest:
                with contextlib.suppress(OSError):  # the next time tries again
                    files.remove(path)
                    total -= bytes_

    @property
    def total(self) -> tuple[int, int]:
        """The bytes on disk of all files, and their number."""
        try:
            sizes = [
                entry.stat(follow_symlinks=False).st_blocks * 512
                for entry in os.scandir(self.folder)
            ]
        except OSError:
            return 0, 0
        return sum(sizes), len(sizes)


def digest_of(file: IO[bytes]) -> str:
    """Return the SHA-256 digest of the rest of an open file. Raises OSError."""
    total = hashlib.sha256()
    while piece := file.read(PIECE):
        total.update(piece)
    return total.hexdigest()
