"""The failures that the agent foresees, and the exit code of each.

An `AgentError` is shown as one sentence and a hint, never as a traceback. Every other exception is a defect of the
agent and keeps its traceback.
"""

from __future__ import annotations

import contextlib
import enum
import errno
import os

PASSING = frozenset(
    {
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EIO,
        errno.EROFS,
        errno.EAGAIN,
        errno.ENOMEM,
        errno.EMFILE,
        errno.ENFILE,
    }
    | {
        errno.EFBIG,
        errno.ENOBUFS,
        errno.ESTALE,
        errno.ENOTCONN,
        errno.EHOSTDOWN,
        errno.EREMOTEIO,
        errno.EUCLEAN,
    }
)
"""The errors that may pass: the machine has run out of space, processes, memory or open files, or a disk is away.

EFBIG is about the agent's own limit (`ulimit -f`), and not about a deployment: with a higher limit it can be run.
"""

UNUSABLE = frozenset(
    {
        errno.EACCES,
        errno.EPERM,
        errno.ENOENT,
        errno.ENOTDIR,
        errno.EISDIR,
        errno.EEXIST,
        errno.ELOOP,
        errno.EINVAL,
    }
)
"""The errors that a folder of the agent causes if another has its place, owner or mode, or if it is missing."""


class ExitCode(enum.IntEnum):
    """The exit codes of the commands. They are public: `docs/commands.md` documents them."""

    OK = 0
    """All work is done, and each result that a server waits for is delivered."""
    FAILED = 1
    """At least one deployment failed, or an entry of a document could not be read."""
    USAGE = 2
    """Wrong usage or settings: a wrong option, or a document that cannot be read."""
    NO_SOURCE = 3
    """No source answered: there was no document to apply."""
    LOCKED = 4
    """Another agent holds the lock of the state directory."""
    UNDELIVERED = 5
    """All deployments succeeded, but a result was not delivered. The next run sends it, unless it was refused."""
    REBOOT = 6
    """A deployment waits for a reboot of the machine. The first run after the reboot continues it."""
    TIMED_OUT = 7
    """The time of --wait-for is over, and it is not done yet."""
    NOT_THERE = 8
    """There is no deployment, stack, source or other thing of the name that was given."""
    DRIFTED = 9
    """Something is not as its deployment or its source says, or with `plan --exit-code`, there is work to do."""
    LACKING = 10
    """The machine lacks something: disk space, memory, a permission, or a state directory that can be used."""
    INTERRUPTED = 130
    """The command was ended by a signal. Running deployments continue, and the next run follows them."""


class Interrupted(BaseException):
    """A signal asks the command to end.

    The command can stop anywhere, because the next run continues from the journal.
    """


class TimeOver(BaseException):
    """A piece of work has exceeded its time limit, see `stack.definition.limits.within`."""

    def __init__(self, end: float) -> None:
        """Store the moment at which the time was over (monotonic seconds)."""
        super().__init__()
        self.end = end


class AgentError(Exception):
    """A foreseen failure. It is shown as one line, never as a traceback."""

    exit_code = ExitCode.FAILED
    code = "failed"
    """The kind of failure, for programs: `error.code` of the JSON of every command."""
    subject: tuple[str, str] | None = None
    """The kind of the thing that it is about, such as "stack", and its name."""

    def __init__(self, brief: str, *, hint: str = "") -> None:
        """Store what failed and why (`brief`), and what to do about it (`hint`)."""
        super().__init__(brief)
        self.brief = brief
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.brief} ({self.hint})" if self.hint else self.brief


class UsageError(AgentError):
    """The command was called wrongly, or a document or a setting is not valid."""

    exit_code = ExitCode.USAGE
    code = "usage"


class AmbiguousError(UsageError):
    """A name means several things, and the command would change only one of them."""

    code = "ambiguous"


class ExistsError(UsageError):
    """There is one of that name already."""

    code = "exists"


class NotFoundError(AgentError):
    """There is nothing of the name that was given."""

    exit_code = ExitCode.NOT_THERE
    code = "not_found"

    def __init__(
        self, brief: str, *, hint: str = "", subject: tuple[str, str] | None = None
    ) -> None:
        """Store also the kind and the name of what is not there, such as ("stack", "web")."""
        super().__init__(brief, hint=hint)
        self.subject = subject


class DeclinedError(AgentError):
    """The person at the terminal has answered no: nothing was done."""

    code = "declined"


class SourceError(AgentError):
    """A source did not answer: there is no document."""

    exit_code = ExitCode.NO_SOURCE
    code = "unreachable"


class AccessError(SourceError):
    """A source denies access: the credentials are not valid, or not any more."""

    code = "denied"


class UnreachableError(AgentError):
    """A server did not answer; the text says why."""

    code = "unreachable"


class ProxyError(UnreachableError):
    """The proxy in front of a server did not connect to it."""


class DeniedError(UnreachableError):
    """A server answered and denied access."""

    code = "denied"


class LockedError(AgentError):
    """Another agent uses the same state directory."""

    exit_code = ExitCode.LOCKED
    code = "busy"


class StateError(AgentError):
    """The state directory cannot be read or written, or the machine lacks a resource.

    Nothing is done that could not be recorded first.
    """

    exit_code = ExitCode.LACKING
    code = "resource"


def blame(error: BaseException) -> str:
    """Return the message of an exception that foreign code has raised: a hook, a plug-in or a source.

    Raises the exception again if that code is not to blame: a signal asks the agent to end, or the machine has no
    memory left. Any other exception fails only the work that the code was called for.
    """
    if isinstance(error, Interrupted | TimeOver | GeneratorExit):
        raise error
    if isinstance(error, MemoryError):
        if not _has_memory(error):
            raise error
        return "it needs more memory than there is"
    if isinstance(error, SystemExit):
        return f"it called sys.exit({error.code!r})"
    if isinstance(error, KeyboardInterrupt):
        return "it raised KeyboardInterrupt"
    try:
        return str(error)
    except (Interrupted, TimeOver):
        raise
    except BaseException as inner:  # noqa: BLE001  # the same foreign code makes its text
        return f"its message cannot be shown: {type(inner).__name__}"


_MEMORY = 32 * 1024 * 1024
"""Bytes. If this much is available, the machine has memory, and the code has asked for far too much of it."""


def _has_memory(error: MemoryError) -> bool:
    """Return True if memory is available after the frames of the failed attempt are cleared."""
    trace = error.__traceback__
    while trace is not None:
        with contextlib.suppress(RuntimeError):  # this frame is still running
            trace.tb_frame.clear()
        trace = trace.tb_next
    try:
        bytearray(_MEMORY)
    except MemoryError:
        return False
    return True


def shortage(error: OSError | MemoryError | ImportError) -> StateError | None:
    """Return an error that says which resource the machine lacks; None if the error is about something else.

    A module that cannot be imported is either not installed, or the machine cannot read it now; the two look the same.
    """
    if isinstance(error, ImportError):
        return StateError(
            f"cannot load a part of the agent: {error}",
            hint="is its installation complete?",
        )
    if isinstance(error, MemoryError):
        return StateError("the machine has no memory left for the agent")
    if error.errno not in PASSING:
        return None
    return _lack(error)


def hindrance(error: OSError | MemoryError | ImportError) -> StateError | None:
    """Return the same as `shortage`, or an error that names the path which the machine does not let the agent use."""
    if isinstance(error, OSError) and error.errno in UNUSABLE and error.filename:
        return StateError(f"cannot use {error.filename}: {error.strerror}")
    return shortage(error)


def _lack(error: OSError) -> StateError:
    about = f": {error.filename}" if error.filename else ""
    return StateError(f"the machine lacks a resource: {error.strerror}{about}")


def cause(error: BaseException) -> str:
    """Return in a few words what the machine lacks, and in which folder; the same words for all stopped work."""
    inner = error if isinstance(error, OSError | MemoryError) else error.__cause__
    if isinstance(inner, MemoryError):
        return "no memory left"
    if not isinstance(inner, OSError) or not inner.strerror:
        return str(error)
    words = f"{inner.strerror[0].lower()}{inner.strerror[1:]}"
    if inner.errno == errno.EAGAIN:
        return f"{words}: no more processes can be started"
    path = inner.filename
    folder = (
        os.path.dirname(os.fsdecode(path))  # noqa: PTH120
        if isinstance(path, str | bytes | os.PathLike)
        else ""
    )
    return f"{words} ({folder})" if folder and inner.errno not in _NOWHERE else words


_NOWHERE = frozenset({errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EFBIG})
"""The shortages that no folder has."""


def obstacle(error: Exception) -> str:
    """Return why a command cannot be started, without arguments and variables, which may be secret."""
    if isinstance(error, OSError):
        about = f": {error.filename}" if error.filename else ""
        limit = (
            " (the limit on the size of files, «ulimit -f», is too low)"
            if error.errno == errno.EFBIG
            else ""
        )
        return f"{error.strerror or type(error).__name__}{about}{limit}"
    if isinstance(error, MemoryError):
        return "the machine has no memory left for it"
    if isinstance(error, UnicodeError):
        return "its arguments, variables or file names contain half of a character, which UTF-8 cannot encode"
    if isinstance(error, ValueError) and "null" in str(error):
        return "its arguments, variables or file names contain a NUL character, which cannot be passed to a program"
    return f"{type(error).__name__} (a defect of heat-config-agent; please report it)"
