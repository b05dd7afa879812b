"""The folder of a run: its output, and the status file that records its end."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from heat_config_agent.model import signal_numbers
from heat_config_agent.model.entry import Run
from heat_config_agent.model.errors import PASSING
from heat_config_hooks import files, processes
from heat_config_hooks.protocol import Ended
from heat_config_hooks.reply import CANNOT_START

UNSTARTED, FLUSHED = "unstarted", "flushed"
RESOLVED = "resolved.json"
"""The file with the secrets to which inputs refer, see `runs.resolved`."""
STREAMS = ("stdout", "stderr", "supervisor")
EARLIER = "earlier"
"""The folder with the masked output of earlier runs, see `runs.earlier`."""
LEFT = "left"
"""A file in the state directory that says that processes write output of runs that have ended, see `left_output`."""

_CODE, _ENDING = 16, 240
"""Bytes in a status file: for how the command ended, and for why the agent ended it."""
_PENDING = b"-".ljust(_CODE - 1) + b"\n" + b"-".ljust(_ENDING - 1) + b"\n"


def status(directory: Path, mark: str) -> Path:
    """Return the path of the status file of the run with this mark.

    Each run has its own, so that neither a file that a power cut brings back nor a late supervisor of an earlier run
    can pass for the end of this run.
    """
    return Path(status_path(directory, mark))


def status_path(directory: Path, mark: str) -> str:
    """Return the path of the status file as text."""
    return f"{directory}/status.{mark.rpartition('.')[2]}"


def make(directory: Path, mark: str) -> None:
    """Make the folder of a run with empty output and a pending status.

    Everything of an earlier run is removed, except the output that `runs.earlier` keeps.
    """
    try:
        os.mkdir(directory, 0o700)
    except (FileExistsError, FileNotFoundError):
        # the folder is there, or its parent is not
        if directory.is_symlink() or not directory.is_dir():
            # an earlier run has put something in its place
            files.remove(directory)
        files.make_directory(directory)
        for path in list(directory.iterdir()):
            if path.name != EARLIER:
                files.remove(path)
    for name in STREAMS:
        os.close(
            os.open(
                f"{directory}/{name}",
                os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC,
                0o600,
            )
        )
    descriptor = os.open(
        status_path(directory, mark),
        os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC,
        0o600,
    )
    try:
        files.write(descriptor, _PENDING)
    except OSError as error:
        error.filename = error.filename or str(directory)
        raise
    finally:
        os.close(descriptor)


def is_written(folder: Path) -> bool:
    """Return True if any process may still write the output of a run, as the kernel's leases tell.

    A lease to read is granted only if the file is not open to be written.
    """
    return any(is_open_to_write(f"{folder}/{name}") for name in STREAMS[:2])


def is_open_to_write(path: str) -> bool:
    """Return True if any process of this kernel, also in another container, has a file open to write it."""
    try:
        descriptor = os.open(
            path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        )
    except OSError:
        return False
    try:
        return is_file_written(descriptor)
    finally:
        os.close(descriptor)


def is_file_written(descriptor: int) -> bool:
    """Return True if any process has a file open to write it, which is open to be read here."""
    try:
        # If the file is opened at this moment, the kernel asks for the lease by a signal, which is SIGIO by default:
        # that would end this process.
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal_numbers.SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError as error:
        # any other error: the file system has no leases
        return error.errno == errno.EAGAIN
    return False


ROOM = 16 * 1024
"""Bytes that have to be free on the disk of a run before it begins: its output would be lost without them."""


def check_room(directory: str | Path) -> None:
    """Raise OSError if the disk of a run has no room for its output. Some file systems do not say how much is free."""
    if (room := _room(directory)) is not None and room < ROOM:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(directory))


def shortage_of_output(
    directories: Sequence[str | Path], working: str, code: int | None
) -> str:
    """Return why a run may have lost output, or could not run its script, if its disks say so; else nothing.

    `directories` are those of its output, and `working` is the folder of its script.
    """
    for directory in directories:
        with contextlib.suppress(OSError):  # there is no such folder
            if (room := _room(directory)) is not None and room < _LEAST:
                return f"{os.strerror(errno.ENOSPC)}: {directory}, so its output may be incomplete"
    if code == CANNOT_START:
        with contextlib.suppress(OSError):
            if os.statvfs(working).f_flag & os.ST_NOEXEC:
                return f"nothing can be run in {working}: its file system is mounted with noexec"
    return ""


_LEAST = 4096
"""Bytes. If fewer are free when a run ends, the end of its output may be lost."""


def _room(directory: str | Path) -> int | None:
    """Return how many bytes this user can write to the disk of a folder; None if the file system does not say."""
    disk = os.statvfs(directory)
    blocks = disk.f_bavail if os.geteuid() else disk.f_bfree
    return blocks * disk.f_frsize if disk.f_blocks else None


def is_read_only(directory: str | Path) -> bool:
    """Return whether the file system of a folder is mounted read-only."""
    return bool(os.statvfs(directory).f_flag & os.ST_RDONLY)


def lacks(directory: str | Path) -> str:
    """Return why nothing can be written to a folder, as far as this is seen without writing; empty if it can."""
    try:
        disk, room = os.statvfs(directory), _room(directory)
    except OSError as error:
        return f"{error.strerror}: {directory}"
    if disk.f_flag & os.ST_RDONLY:
        return f"{os.strerror(errno.EROFS)}: {directory}"
    if (room is not None and room < ROOM) or (disk.f_files and not disk.f_ffree):
        return f"{os.strerror(errno.ENOSPC)}: {directory}"
    return (
        ""
        if os.access(directory, os.W_OK | os.X_OK)
        else f"{os.strerror(errno.EACCES)}: {directory}"
    )


def tidy(directory: Path, also: Callable[[], None] = lambda: None) -> None:
    """Remove the inputs, and with them secrets, from the folder of a run that has ended. Raises OSError.

    If the inputs referred to secrets, those in the output are overwritten first, and `also` is called to remove other
    files with them.
    """
    if os.path.islink(directory):  # a run has put it there, and its target is not ours
        directory.unlink(missing_ok=True)
        return
    try:
        names = os.listdir(directory)
        if RESOLVED in names:
            from heat_config_agent.runs import resolved  # noqa: PLC0415  # few runs refer to secrets

            resolved.conceal(directory, STREAMS)
            also()
            # last: until then, all of this can be repeated
            names.append(names.pop(names.index(RESOLVED)))
        for name in names:
            if (
                name not in STREAMS
                and name != EARLIER
                and not name.startswith("status.")
            ):
                files.remove(f"{directory}/{name}")
    except (FileNotFoundError, NotADirectoryError):
        return  # nothing has run


def note_ending(directory: Path, run: Run, reason: str) -> None:
    """Write into the status file why the agent is about to end a run. Raises OSError, but not for a full disk."""
    # The command may have put a link there to a file that matters, or a pipe that has no reader.
    descriptor = os.open(
        status(directory, run.mark),
        os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK,
    )
    try:
        os.pwrite(
            descriptor, reason.encode()[: _ENDING - 1].ljust(_ENDING - 1) + b"\n", _CODE
        )
        os.fdatasync(descriptor)
    finally:
        os.close(descriptor)


def recorded(directory: Path, run: Run) -> str:
    """Return what the supervisor recorded: the exit code, `UNSTARTED`, or nothing.

    After a reboot, an exit code counts only if the supervisor had flushed everything before it: else files of the run
    may be lost. The end of a container loses no files.
    """
    line, newline, _ = _status(directory, run)[:_CODE].partition(b"\n")
    text, _, flushed = line.decode("ascii", "replace").partition(" ")
    if (
        text.isdecimal()
        and flushed != FLUSHED
        and (flushed or not processes.same_kernel(run.boot))
    ):
        return ""
    return text if newline and (text.isdecimal() or text == UNSTARTED) else ""


def has_run(directory: str | Path) -> bool:
    """Return whether a command has ended in this run folder, by the status files in it."""
    try:
        names = os.listdir(directory)
        contents = [
            files.read(f"{directory}/{name}")[:_CODE]
            for name in names
            if name.startswith("status.")
        ]
    except OSError:
        return False
    return any(
        content.partition(b"\n")[0].partition(b" ")[0].isdigit() for content in contents
    )


def noted_ending(directory: Path, run: Run) -> str:
    """Return why an agent has begun to end the run; empty if none has."""
    content = _status(directory, run)
    valid = (
        len(content) == len(_PENDING)
        and content[_CODE - 1 : _CODE] == content[-1:] == b"\n"
    )
    return (
        content[_CODE:].decode("utf-8", "replace").strip().removeprefix("-")
        if valid
        else ""
    )


def is_displaced(directory: Path, run: Run) -> bool:
    """Return True if the status file of a run is no longer the one that the agent has made."""
    return len(_status(directory, run)) != len(_PENDING)


def unreadable(directory: Path, run: Run) -> str:
    """Return why the status of a run cannot be read, if the machine is to blame for that; else nothing."""
    try:
        files.read(status(directory, run.mark))
    except OSError as error:
        return (
            f"{error.strerror}: {status(directory, run.mark)}"
            if error.errno in PASSING
            else ""
        )
    return ""


def _status(directory: Path, run: Run) -> bytes:
    for _ in range(2):  # a disk that fails once may work the second time
        try:
            return files.read(status_path(directory, run.mark))
        except OSError as error:
            if error.errno not in PASSING:
                break  # the command may have done anything in its folder
    return b""


def ended_at(directory: Path, run: Run) -> float | None:
    """Return when the end of a run was recorded, in seconds since the epoch; None if it was not."""
    if not recorded(directory, run):
        return None
    try:
        return status(directory, run.mark).stat().st_mtime
    except OSError:
        return None


def ended(directory: Path, code: int) -> Ended:
    """Return the end of a command in the form that hooks take."""
    return Ended(
        code=code,
        stdout=directory / "stdout",
        stderr=directory / "stderr",
        output="kept",
    )
