"""The lock of a state directory: only its holder may write the journal and start runs."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from heat_config_agent.model.errors import LockedError, StateError
from heat_config_hooks import files

FILE = "lock"

_OTHERS, _WRITERS = 0o077, 0o022
"""Mode bits that let other users access a folder, and write to it."""

_FILES = frozenset(
    {
        FILE,
        "journal",
        "instance.json",
        "documents",
        "runs",
        "stacks",
        "stack",
        "deployed",
    }
)
_FOLDERS = "heat-config-"
"""Names, and the prefix of the names of hooks' folders, that show that a folder is a state directory."""

DAEMON = "daemon"
"""The role of a holder that heeds signals."""


_REMEDIES = {
    errno.EROFS: "remount its file system writable",
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some space",
}


@contextlib.contextmanager
def held(state: Path, role: str = "") -> Iterator[None]:
    """Hold the lock of a state directory while the context lasts; make the directory if it is missing.

    `role` is shown to others. The kernel releases the lock when the process ends, and no run inherits it. The lock is
    on the directory itself, as the file `lock` in it may be removed or replaced. That file names the holder, and is
    locked too, for file systems that cannot lock a directory (NFS). Raises LockedError and StateError.
    """
    place = state
    while not os.path.lexists(place) and place != place.parent:
        place = place.parent
    if os.path.lexists(place) and not place.is_dir():
        raise StateError(
            f"cannot use the state directory {state}: {place} is not a directory",
            hint="name another with --state-dir",
        )
    with contextlib.ExitStack() as open_files:
        try:
            # else a power cut may remove it with everything in it
            files.make_directory(state, durable=True)
            folder = os.open(state, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            open_files.callback(os.close, folder)
            _guard(state, folder)
            # Not through a link: its target would be overwritten.
            note = os.open(
                state / FILE,
                os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW,
                0o600,
            )
            open_files.callback(os.close, note)
        except OSError as error:
            raise StateError(
                f"cannot use the state directory {state}: {error.strerror}: {error.filename}",
                hint=f"{_REMEDIES.get(error.errno or 0, 'make it usable')}, or name another with --state-dir",
            ) from error
        if not all(_locked(descriptor) for descriptor in (folder, note)):
            raise _locked_by(state)
        with contextlib.suppress(OSError):  # a full disk: the note is only for people
            os.ftruncate(note, 0)
            os.pwrite(note, f"{os.getpid()} {role}".strip().encode() + b"\n", 0)
        yield


def _locked_by(state: Path) -> LockedError:
    """Return the error that the lock is held, with a hint about its holder."""
    number, _, role = _noted(state).partition(" ")
    process = f" (process {number})" if number.isdecimal() else ""
    place, outer = _place(state)
    shown = f"`heat-config-agent status --state-dir {_quoted(outer)}` shows its work"
    if role == DAEMON:
        hint = (
            f"{shown}; to have it run a document, copy that into its folder local-data (by default"
            " /var/lib/os-collect-config/local-data; create it if it is missing); to run documents by hand, stop it"
        )
        return LockedError(f"another agent works on {place}{process}", hint=hint)
    return LockedError(
        f"another command works on {place}{process}",
        hint=f"wait for it to end; {shown}",
    )


def _place(state: Path) -> tuple[str, Path]:
    """Return the subject of a state directory in words, and the path that people know it by."""
    for inner in (
        state,
        state.parent,
    ):  # the document of a source has a folder of its own
        noun = _INNER.get(inner.parent.name)
        if noun:
            return f"the {noun} {inner.name}", inner.parent.parent
    return str(state), state


_INNER = {"stacks": "stack", "follow": "source"}
"""The folders in a state directory that have a folder with a lock for each stack, or for each followed source."""


def guard(state: Path) -> None:
    """Make sure that other users have no access to a state directory, if it exists. Raises StateError.

    Users who can write to it could have the agent run their files. Users who can read it could lock it, and so stop the
    agent from working.
    """
    try:
        folder = os.open(state, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:  # it does not exist, or the next use of it reports the error
        return
    try:
        _guard(state, folder)
    except OSError as error:
        raise StateError(
            f"cannot use the state directory {state}: {error.strerror}"
        ) from error
    finally:
        os.close(folder)


def _guard(state: Path, folder: int) -> None:
    """Set the mode of an open state directory to 0700, if it surely is one and no other user can have written to it."""
    status = os.fstat(folder)
    another = "or name another with --state-dir"
    if status.st_uid != os.geteuid():
        raise StateError(
            f"cannot use the state directory {state}: it belongs to another user (uid {status.st_uid}), "
            "who could have the agent run anything",
            hint=f"if it is of an agent of that user, run the command as that user; else check its content, then "
            f"«chown -R {os.geteuid()} {_quoted(state)}», {another}",
        )
    if not status.st_mode & _OTHERS:
        return
    names = set(os.listdir(folder)) - {"lost+found"}
    known = any(name in _FILES or name.startswith(_FOLDERS) for name in names)
    ours = not names or (known and not status.st_mode & _WRITERS)
    if ours and not status.st_mode & stat.S_ISVTX and not state.is_symlink():
        with contextlib.suppress(PermissionError):  # a file system without modes
            os.fchmod(folder, 0o700)
        if not os.fstat(folder).st_mode & _OTHERS:
            return
    danger = (
        "others may write to it, and could have the agent run anything"
        if status.st_mode & _WRITERS
        else "others may read it, and could hold its lock"
    )
    raise StateError(
        f"cannot use the state directory {state}: {danger} (its mode is {stat.S_IMODE(status.st_mode):04o})",
        hint="if it is for the agent alone, and nothing in it is another user's, "
        f"«chmod 700 {_quoted(state)}»; {another}",
    )


def _quoted(path: Path) -> str:
    """Return a path as a shell takes it."""
    import shlex  # noqa: PLC0415  # only for messages

    return shlex.quote(str(path))


def holder(state: Path) -> tuple[int, str] | None:
    """Return the process that holds the lock, and its role; None if the lock is free."""
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
    """Take the lock. `holder` in another process may hold it for a moment."""
    for _ in range(10):
        if _try(descriptor, fcntl.LOCK_EX):
            return True
        time.sleep(0.01)
    return False


def _try(descriptor: int, operation: int) -> bool:
    try:
        fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system that cannot lock a directory
        return True
    return True


def _noted(state: Path) -> str:
    try:
        return files.read(state / FILE)[:64].decode("ascii", "replace").strip()
    except OSError:
        return ""
