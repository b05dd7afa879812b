"""A file of records: each is one line with a checksum, and is appended whole.

One process writes, and holds a lock against all others. Any process may read at any time.

After a power cut the last line may be torn. Nothing relied on it, so it is cut off.
A file with damaged lines is copied aside, and rewritten without them.
"""

from __future__ import annotations

import _thread
import contextlib
import os
import time
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

from heat_config_agent.model.errors import StateError
from heat_config_hooks import files


def line_of(text: bytes) -> bytes:
    """Return the line of a record."""
    return b"%08x %s\n" % (zlib.crc32(text), text)


def texts_of(lines: Sequence[bytes]) -> list[bytes | None]:
    """Return the text of the record in each line; None for a line that does not match its checksum."""
    return [
        text if line[:9] == b"%08x " % zlib.crc32(text := line[9:]) else None
        for line in lines
    ]


def whole(content: bytes) -> int:
    """Return the number of bytes up to the end of the last whole line."""
    return content.rfind(b"\n") + 1


def read(path: Path) -> bytes:
    """Return the content of a file of records; empty if there is no file. Raises OSError."""
    try:
        return files.read(path)
    except FileNotFoundError:
        return b""


class RecordFile:
    """A file of records, for the one process that writes it."""

    def __init__(
        self,
        path: Path,
        title: str,
        *,
        renew: Callable[[], None],
        warn: Callable[[str], None],
    ) -> None:
        """Prepare to write a file in a directory that exists. Raises OSError.

        Messages call the file `title`. `renew` is called if the file is gone, or its content may not be on disk; it
        has to call `rewrite` with all records.
        """
        self.path = path
        self.size = 0
        """The size of the whole lines in the file, in bytes."""
        self.safe = False
        """True if everything in the file is known to survive a power cut."""
        self._name = str(path)
        self._title = title
        self._renew = renew
        self._warn = warn
        self._directory = path.parent.stat()
        self._descriptor = -1
        self._named = False
        """True if the name of the file is known to survive a power cut."""
        self._remnant = False
        """True if the file ends with a part of a line, from an append that failed."""
        self._trouble: OSError | None = None
        """The error of a flush that failed: it is not known any more which records are on disk."""

    @property
    def opened(self) -> bool:
        """True if the file is open, so that records can be appended."""
        return self._descriptor >= 0

    def open(self, *, named: bool = True) -> None:
        """Open the file, and create it if it is missing. Raises OSError.

        `named` is True if the name of an existing file is known to survive a power cut.
        """
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._descriptor = os.open(self.path, flags, 0o600)
        self.size = os.fstat(self._descriptor).st_size
        self._named = named
        if not self.size:
            files.sync_directory(self.path.parent)
            self._named = True

    def close(self) -> None:
        """Close the file, if it is open."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1

    def find(self) -> None:
        """Make sure that the file is where the next process looks for it.

        If it was removed or cut short, it is renewed. Raises StateError if there is another file or directory in its
        place: it may belong to another process, which our lock does not stop. Raises OSError if this cannot be checked.
        """
        try:
            opened = os.fstat(self._descriptor)
            if os.path.samestat(opened, os.lstat(self._name)):
                # several times for each deployment
                self._remnant = opened.st_size > self.size
                if opened.st_size < self.size:
                    self._replenish("cut short")
                return
        except FileNotFoundError:
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(self._directory, self.path.parent.stat()):
                    self._replenish("removed")
                    return
        raise StateError(
            f"{self._title} was removed, or replaced by another, while an agent uses it",
            hint="nothing more is begun or recorded; put it back, and start again",
        )

    def _replenish(self, lost: str) -> None:
        self._warn(f"{self._title} was {lost}, and is rewritten from memory")
        self._renew()

    def append(self, lines: bytes) -> None:
        """Append whole lines to the file, after `find`. Raises OSError, and then the file is as it was."""
        if self._remnant:
            os.ftruncate(self._descriptor, self.size)
            self._remnant = False
        try:
            files.write(self._descriptor, lines)
        except OSError:
            with contextlib.suppress(OSError):
                # else before the next append: a part of a line would spoil its first line
                os.ftruncate(self._descriptor, self.size)
            raise
        self.size += len(lines)
        self.safe = False

    def flush(self) -> None:
        """Make everything in the file survive a power cut. Raises OSError."""
        if self._trouble is not None:
            # the kernel reports lost writes only once: the next flush would succeed
            self._renew()
            if not self.safe:
                raise self._trouble
            return
        try:
            os.fdatasync(self._descriptor)
            if not self._named:
                files.sync_directory(self.path.parent)
        except OSError as error:
            self._trouble = error
            raise
        self._named = self.safe = True

    def rewrite(self, content: bytes, *, durable: bool = True) -> None:
        """Replace the file by one with this content. Raises OSError; then the old file stays.

        If only the flush of the directory fails, that is a warning here and an error of the next `flush`.
        """
        new = self.path.with_name(f"{self.path.name}.new")
        descriptor = -1
        try:
            flags = (
                os.O_RDWR
                | os.O_APPEND
                | os.O_CREAT
                | os.O_TRUNC
                | os.O_CLOEXEC
                | os.O_NOFOLLOW
                | os.O_NONBLOCK
            )
            descriptor = os.open(new, flags, 0o600)
            files.write(descriptor, content)
            if durable:
                os.fsync(descriptor)
            new.replace(self.path)
        except OSError:
            with contextlib.suppress(OSError):
                new.unlink()
            if descriptor >= 0:
                os.close(descriptor)
            raise
        self.close()
        self._descriptor, self.size = descriptor, len(content)
        self._remnant, self._trouble = False, None
        self._named = self.safe = durable
        if durable:
            self._flush_name()

    def _flush_name(self) -> None:
        try:
            files.sync_directory(self.path.parent)
        except OSError as error:  # after a power cut the old file may be there again
            self._trouble, self.safe = error, False
            self._warn(f"cannot flush {self.path.parent}: {error.strerror}")

    def cut(self, size: int) -> None:
        """Shorten the file to its whole lines, unless it is behind a link. Raises OSError."""
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            os.ftruncate(descriptor, size)
        finally:
            os.close(descriptor)

    def set_aside(self, content: bytes) -> Path:
        """Return the path of a new copy of damaged content, for people to look at. Raises OSError."""
        aside = self.path.with_name(f"{self.path.name}.damaged-{time.time_ns()}")
        descriptor = os.open(
            aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600
        )
        with open(descriptor, "wb") as copy:
            copy.write(content)
        return aside


def flush_both(flush: Callable[[], None], other: Callable[[], None]) -> None:
    """Flush two files at the same time, which takes about as long as one: the file system writes both in one go.

    When it returns, neither is being flushed any more. Raises the error of either, that of the first if both fail.
    """
    errors: list[BaseException] = []
    done = _thread.allocate_lock()

    def run() -> None:
        try:
            other()
        except BaseException as error:  # noqa: BLE001  # it is raised in the other thread
            errors.append(error)
        finally:
            done.release()

    done.acquire()
    try:
        _thread.start_new_thread(run, ())  # `threading` would wait until it has begun
    except RuntimeError:  # the machine has no processes left
        run()
    try:
        flush()
    finally:
        _wait_for(done)
    if errors:
        raise errors[0]


def _wait_for(lock: _thread.LockType) -> None:
    """Wait until a lock is released; ^C is raised only after that."""
    try:
        lock.acquire()
    except BaseException:
        lock.acquire()
        raise
