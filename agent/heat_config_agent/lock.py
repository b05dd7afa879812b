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

DAEMON = "daemon"
"""The role of a holder that can be told things by signals."""


@contextlib.contextmanager
def held(state: Path, role: str = "") -> Iterator[None]:
    """Make the state directory if need be, and hold its lock. Raises LockedError and StateError.

    `role` is what others are told of the holder. The kernel lets go of it when the process ends, however it ends; no
    run inherits it.
    """
    path = state / "lock"
    place = state
    while not os.path.lexists(place) and place != place.parent:
        place = place.parent
    if os.path.lexists(place) and not place.is_dir():
        raise StateError(
            f"cannot use the state directory {state}: {place} is no directory", hint="name another with --state-dir"
        )
    try:
        files.make_directory(state)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StateError(
            f"cannot use the state directory {state}: {error.strerror}", hint="name another with --state-dir"
        ) from error
    try:
        if not _locked(descriptor):
            raise LockedError(
                f"another agent works on {state}{_holder(descriptor)}",
                hint=f"`heat-config-agent status --state-dir {shlex.quote(str(state))}` shows what it does; stop it, "
                "or name another --state-dir",
            )
        with contextlib.suppress(OSError):  # a full disk: the number is only for people
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()} {role}".strip().encode() + b"\n", 0)
        yield
    finally:
        os.close(descriptor)


def holder(state: Path) -> tuple[int, str] | None:
    """Return the process that holds the lock, and its role; None where nobody does."""
    try:
        descriptor = os.open(state / "lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        number, _, role = os.pread(descriptor, 64, 0).decode("ascii", "replace").strip().partition(" ")
        return (int(number), role) if number.isdecimal() else None
    else:
        return None
    finally:
        os.close(descriptor)


def _locked(descriptor: int) -> bool:
    """Take the lock. Somebody may hold it for the moment in which they look whether anybody does."""
    for _ in range(10):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.01)
        else:
            return True
    return False


def _holder(descriptor: int) -> str:
    number = os.pread(descriptor, 64, 0).decode("ascii", "replace").strip().partition(" ")[0]
    return f" (process {number})" if number.isdecimal() else ""
