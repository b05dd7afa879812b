"""One agent for each state directory: who holds the lock may write the journal and start runs."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shlex
import time
from collections.abc import Iterator
from pathlib import Path

from heat_config_agent.errors import LockedError, StateError
from heat_config_hooks import files

FILE = "lock"

DAEMON = "daemon"
"""The role of a holder that can be told things by signals."""


@contextlib.contextmanager
def held(state: Path, role: str = "") -> Iterator[None]:
    """Make the state directory if need be, and hold its lock. Raises LockedError and StateError.

    `role` is what others are told of the holder. The kernel lets go of it when the process ends, however it ends; no
    run inherits it. What is locked is the directory itself, whose file `lock` says by whom: that file may be removed or
    replaced meanwhile. It is locked too, for file systems that cannot lock a directory (NFS).
    """
    place = state
    while not os.path.lexists(place) and place != place.parent:
        place = place.parent
    if os.path.lexists(place) and not place.is_dir():
        raise StateError(
            f"cannot use the state directory {state}: {place} is no directory", hint="name another with --state-dir"
        )
    with contextlib.ExitStack() as open_files:
        try:
            files.make_directory(state, durable=True)  # else a power cut takes all of it, however well that was flushed
            folder = os.open(state, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            open_files.callback(os.close, folder)
            # Not through a link: what that leads to would be written over.
            note = os.open(state / FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            open_files.callback(os.close, note)
        except OSError as error:
            raise StateError(
                f"cannot use the state directory {state}: {error.strerror}: {error.filename}",
                hint="name another with --state-dir",
            ) from error
        if not all(_locked(each) for each in (folder, note)):
            number = _noted(state).partition(" ")[0]
            raise LockedError(
                f"another agent works on {state}{f' (process {number})' if number.isdecimal() else ''}",
                hint=f"`heat-config-agent status --state-dir {shlex.quote(str(state))}` shows what it does; stop it, "
                "or name another --state-dir",
            )
        with contextlib.suppress(OSError):  # a full disk: the number is only for people
            os.ftruncate(note, 0)
            os.pwrite(note, f"{os.getpid()} {role}".strip().encode() + b"\n", 0)
        yield


def holder(state: Path) -> tuple[int, str] | None:
    """Return the process that holds the lock, and its role; None where nobody does."""
    if not any(_is_taken(path) for path in (state, state / FILE)):
        return None
    number, _, role = _noted(state).partition(" ")
    return (int(number), role) if number.isdecimal() else None


def _is_taken(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        return not _try(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


def _locked(descriptor: int) -> bool:
    """Take the lock. Somebody may hold it for the moment in which they look whether anybody does."""
    for _ in range(10):
        if _try(descriptor, fcntl.LOCK_EX):
            return True
        time.sleep(0.01)
    return False


def _try(descriptor: int, how: int) -> bool:
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system that cannot lock this
        return True
    return True


def _noted(state: Path) -> str:
    try:
        return files.read(state / FILE)[:64].decode("ascii", "replace").strip()
    except OSError:
        return ""
