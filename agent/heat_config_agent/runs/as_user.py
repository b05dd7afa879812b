"""A run as another user: the hook prepares, runs and reads everything as that user, in folders of that user.

The agent never reads a name in a folder that another user may change, as it could be a link to anything. So the hook's
two steps and the command between them belong to one process, which becomes the user first. The reply goes through a
file that was opened before: it is in the folder of the run, which the user cannot reach.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import pwd
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from heat_config_agent.model.deployment import Job
from heat_config_agent.model.entry import Run
from heat_config_agent.model.errors import obstacle
from heat_config_agent.runs import hook, namespaces
from heat_config_hooks import files, memory, protocol
from heat_config_hooks.artifacts import VARIABLE
from heat_config_hooks.reply import CANNOT_START, NO_TOOL, Capture, Reply, failure
from heat_config_hooks.values import replace

_STREAMS = {"/proc/self/fd/1": "stdout", "/proc/self/fd/2": "stderr"}
"""The output of the run as the user reads it; the path of its files leads through folders of the agent."""


_HOME = "home"
"""The folder that is HOME in the place of that of the user, if the run is kept away from that."""


_ATTEMPTS = 3
"""The number of attempts to remove the folder of a run: its user may add folders until root owns it."""

_JOIN_SESSION_KEYRING = 1
"""An operation of keyctl(2)."""

_KEYCTL = {
    "x86_64": 250,
    "i686": 288,
    "armv7l": 311,
    "aarch64": 219,
    "riscv64": 219,
    "loongarch64": 219,
    "ppc64": 271,
    "ppc64le": 271,
    "s390x": 280,
}
"""The number of the system call keyctl, by the architecture. The C library has no function for it."""


_NARROW = ("i686", "armv7l")
"""The 32-bit architectures among these."""


class UserError(Exception):
    """A run cannot be that of a user; the text says why."""


def place(
    folder: Path, mark: str, environment: Mapping[str, str]
) -> protocol.Workplace:
    """Return the folders of a run of another user: all are in one that is named after the run."""
    own = folder / mark
    return protocol.Workplace(
        run=own / "run",
        working=own / "working",
        outputs=own / "outputs",
        environment=environment,
    )


def remove(run: Run) -> None:
    """Remove the folder of a run of another user. Raises OSError.

    Processes that the run has left behind may keep filling its folders, so root becomes their owner first.
    """
    for _ in range(_ATTEMPTS if run.private else 0):
        try:
            files.remove(run.private)
        except OSError:
            _take(run.private)
        else:
            return
    if run.private:
        files.remove(run.private)


def _take(folder: str) -> None:
    """Make root the owner of a folder and of all folders in it, as far as Python can follow them."""
    with contextlib.suppress(OSError, RecursionError):
        for _, _, _, descriptor in os.fwalk(folder):
            os.fchown(descriptor, 0, 0)
            os.fchmod(descriptor, 0o700)


def encoded(reply: Reply) -> bytes:
    """Return a reply as JSON. The output of the run is named, and all other files are read."""
    return json.dumps({name: _encoded(value) for name, value in reply.items()}).encode()


def _encoded(value: object) -> object:
    if not isinstance(value, Capture):
        return value
    if stream := _STREAMS.get(str(value.path)):
        return {"stream": stream, "before": value.before, "after": value.after}
    try:
        text = value.text()
    except OSError:  # as for any output that is missing or no regular file
        return None
    cut = f"\n[... {text.left_out:,} bytes left out ...]\n" if text.left_out else ""
    return f"{text.head}{cut}{text.tail}".encode("utf-8", "surrogateescape").decode(
        "utf-8", "replace"
    )


def decoded(reply: dict[str, object], folder: Path) -> Reply:
    """Return the reply in the JSON of `encoded`, with the output of the run in its folder."""
    values: Reply = {}
    for name, value in reply.items():
        if (
            isinstance(value, dict)
            and value.keys() == {"stream", "before", "after"}
            and value["stream"] in _STREAMS.values()
        ):
            texts = str(value["before"]), str(value["after"])
            values[name] = Capture(folder / str(value["stream"]), *texts)
        elif value is not None:
            values[name] = value
    return values


def become(
    name: str,
    where: protocol.Workplace,
    artifacts: Path | None = None,
    isolation: Mapping[str, str] | None = None,
) -> None:
    """Make the folder of the run, move the artifacts into it, isolate the run, and become the user for good.

    Raises UserError, IsolationError, OSError.
    """
    own, base = where.run.parent, where.run.parent.parent
    try:
        user = pwd.getpwnam(name)
    except KeyError:
        raise UserError(f"there is no user {name!r} on this machine") from None
    if os.geteuid() != 0:
        raise UserError(
            f"the agent runs as the user {os.geteuid()}, and only root can run anything as {name!r}"
        )
    if not base.is_dir():
        base.mkdir(mode=0o700, parents=True)
        base.chmod(0o711)  # with any umask
    found = base.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != 0 or found.st_mode & 0o022:
        raise UserError(
            f"{base} must be a folder of root that no other user may write to"
        )
    own.mkdir(mode=0o700)
    if artifacts is not None:
        # no one else can reach them before the folder is the user's
        shutil.move(artifacts, own / artifacts.name)
        _own(own / artifacts.name, user.pw_uid, user.pw_gid)
        os.environ[VARIABLE] = str(own / artifacts.name)
    os.chown(own, user.pw_uid, user.pw_gid)
    for number in (1, 2):
        # a script may open /dev/stderr, which is a matter of the file's owner
        os.fchown(number, user.pw_uid, user.pw_gid)
    if isolation:
        namespaces.enter(isolation, (own,))
        namespaces.keep_privileges_down()
    _leave_keys()
    os.setgroups(os.getgrouplist(name, user.pw_gid))
    os.setresgid(user.pw_gid, user.pw_gid, user.pw_gid)
    os.setresuid(user.pw_uid, user.pw_uid, user.pw_uid)
    memory.keep_no_core()
    hidden = isolation and isolation.get("home") == "true"
    os.environ.update(
        HOME=str(where.run / _HOME) if hidden else user.pw_dir, USER=name, LOGNAME=name
    )


def _leave_keys() -> None:
    """Leave the keys in the kernel that the agent was started with, such as those of root's login. Raises OSError.

    This is done as root, because a user could have used up the keys that it may have.
    """
    machine = os.uname().machine
    number = _KEYCTL.get(machine)
    if number is None or (sys.maxsize > 1 << 32) != (machine not in _NARROW):
        # unknown, or a 32-bit Python on it
        return
    call = ctypes.CDLL(None, use_errno=True).syscall
    if call(ctypes.c_long(number), ctypes.c_long(_JOIN_SESSION_KEYRING), None) < 0:
        problem = ctypes.get_errno()
        if problem not in (errno.ENOSYS, errno.EPERM, errno.EACCES):
            # keys are out of reach for all that runs here
            raise OSError(problem, f"keyctl: {os.strerror(problem)}")


def _own(folder: Path, user: int, group: int) -> None:
    """Make a user the owner of a folder with everything in it."""
    for place, folders, names in os.walk(folder, topdown=False):
        for name in (*folders, *names):
            os.chown(f"{place}/{name}", user, group, follow_symlinks=False)
    os.chown(folder, user, group, follow_symlinks=False)


def carry_out(job: Job, where: protocol.Workplace) -> tuple[Reply, int]:
    """Prepare, run and finish a job in this process; return the reply, and the exit code of the command."""
    name = job.deployment.name
    if place := hook.unreadable(job.tool):
        why = f"its user cannot read the agent's Python in {place}; install the agent where all users can read it"
        if job.isolation:
            why = f"its user, or its isolation, cannot read the agent's Python in {place}; install the agent elsewhere"
        return failure(CANNOT_START, f"cannot start {name}: {why}"), 0
    for path in (where.run, where.working, where.outputs):
        path.mkdir(mode=0o700)
    if os.environ["HOME"] == str(where.run / _HOME):
        (where.run / _HOME).mkdir(mode=0o700)
    where = replace(
        where, environment={**where.environment, "HOME": os.environ["HOME"]}
    )
    try:
        command = hook.prepare(job, where)
    except OSError as error:
        return failure(CANNOT_START, f"cannot start {name}: {obstacle(error)}"), 0
    if not isinstance(command, protocol.Command):
        return command, 0
    for note in command.notes:
        os.write(2, f"{note}\n".encode())
    code = _run(command)
    run = Run(
        boot="",
        pid=0,
        ticks=0,
        began=0,
        limit=None,
        hook=job.tool.hook,
        working=str(where.working),
        outputs=str(where.outputs),
    )
    stdout, stderr = map(Path, _STREAMS)
    ended = protocol.Ended(code=code, stdout=stdout, stderr=stderr, output="passed on")
    return hook.finish(job, run, where.run, where.environment, ended), code


def clear(where: protocol.Workplace) -> None:
    """Empty the folders of the run, as far as the user can; the agent removes the rest."""
    folders = (where.run, where.working, where.outputs, where.run.parent / "artifacts")
    subprocess.run(["rm", "-rf", "--", *folders], check=False, capture_output=True)


def _run(command: protocol.Command) -> int:
    """Run a command, and return its exit code, or 128 plus the number of the signal that ended it."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        # a caught signal has its default action in the command
        signal.signal(number, _ignored)
    stdin = os.open(command.stdin or os.devnull, os.O_RDONLY)
    try:
        environment = {**os.environ, **command.environment}
        done = subprocess.run(
            command.argv, cwd=command.cwd, env=environment, stdin=stdin, check=False
        )
    except OSError as error:
        os.write(2, f"{command.argv[0]}: {obstacle(error)}\n".encode())
        return NO_TOOL if isinstance(error, FileNotFoundError) else CANNOT_START
    finally:
        os.close(stdin)
    return done.returncode if done.returncode >= 0 else 128 - done.returncode


def _ignored(_number: int, _frame: object) -> None:
    """Ignore the signal: the run ends when the command ends."""
