"""One agent for each state directory: who holds the lock may write the journal and start runs."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from heat_config_agent.errors import LockedError, StateError
from heat_config_hooks import files


@contextlib.contextmanager
def held(state: Path) -> Iterator[None]:
    """Make the state directory if need be, and hold its lock. Raises LockedError and StateError.

    The kernel lets go of it when the process ends, however it ends; no run inherits it.
    """
    path = state / "lock"
    try:
        files.make_directory(state)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StateError(
            f"cannot use the state directory {state}: {error.strerror}", hint="name another with --state-dir"
        ) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LockedError(f"another agent works on {state}{_holder(descriptor)}") from None
        with contextlib.suppress(OSError):  # a full disk: the number is only for people
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _holder(descriptor: int) -> str:
    number = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
    return f" (process {number})" if number.isdecimal() else ""
