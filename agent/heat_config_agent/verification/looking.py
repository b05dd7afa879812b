"""Carries out verifications: asks the hooks, and runs what they ask for, several at once.

A command of a verification is supervised as that of a run is: it has a session, a time limit that reaches all of its
processes, and output of limited size. Its folder is removed when it has ended.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from heat_config_agent.masking.redaction import redactor
from heat_config_agent.model import signal_numbers
from heat_config_agent.model.deployment import Deployment, Job
from heat_config_agent.model.entry import Run
from heat_config_agent.model.errors import cause
from heat_config_agent.model.run_settings import RunSettings
from heat_config_agent.runs import hook, resolved, run_folder, supervisor, verification
from heat_config_hooks import files, processes, protocol, verdict
from heat_config_hooks.reply import Reply
from heat_config_hooks.values import dataclass, replace
from heat_config_hooks.verdict import Change, Verdict

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from heat_config_agent.runs.verification import Part

FOLDER = "verifications"
"""The folder in the state directory with the folders of verifications that go on."""

LIMIT = 600.0
"""Seconds after which a verification is ended, if the deployment has no shorter timeout."""

_OUTPUT = 16 * 1024 * 1024
"""The most bytes that a verification may print."""

_PAUSE = 0.5
"""Seconds between two looks at how much is printed."""

_GRACE = 5.0
"""Seconds between TERM and KILL."""


@dataclass(frozen=True)
class _Going:
    """A part of a verification whose command runs."""

    job: Job
    rest: tuple[Part, ...]
    """The parts that follow if this one finds nothing."""
    running: supervisor.Running


def verify(
    jobs: Iterable[Job], settings: RunSettings, parallel: int
) -> Iterator[tuple[Job, Verdict]]:
    """Yield the verdict of each deployment as soon as it is known; the texts in it are masked.

    `jobs` are those of runs: `jobs.verification` makes them. Never raises an error of a hook or a command.
    """
    waiting = list(reversed(list(jobs)))
    going: list[_Going] = []
    if waiting:
        clear(settings)
    place = _shared(settings.state) if waiting else -1
    try:
        while waiting or going:
            while waiting and len(going) < max(parallel, 1):
                job = waiting.pop()
                step = _begin(job, verification.parts(job), settings)
                if isinstance(step, Verdict):
                    yield job, step
                else:
                    going.append(step)
            for one in _ended(going):
                going.remove(one)
                step = _end(one, settings)
                if isinstance(step, Verdict):
                    yield one.job, step
                else:
                    going.append(step)
    finally:
        for one in going:  # the caller is interrupted
            one.running.ending = "the verification was interrupted"
            one.running.terminate(0.0)
            one.running.terminate(0.0)
            _close(one)
        if place >= 0:
            os.close(place)
            clear(
                settings
            )  # the interruption may have come before a command was known here


def clear(settings: RunSettings) -> None:
    """End and remove the verifications of a process that was killed. Nothing is done while others verify."""
    folder = settings.state / FOLDER
    try:
        left = os.listdir(folder)
    except OSError:  # nothing was verified yet
        return
    if not left or (descriptor := _locked(folder, fcntl.LOCK_EX)) < 0:
        return
    try:
        for name in os.listdir(folder):
            marked = f"{supervisor.MARK}={name}"
            processes.send(processes.tree(0, 0, marked), signal_numbers.SIGKILL)
            _remove(Path(settings.user_dir) / name)  # of a run of another user
            _remove(folder / name)
    except OSError:  # the next verification tries again
        return
    finally:
        os.close(descriptor)


def _shared(state: Path) -> int:
    """Return a descriptor that keeps others from clearing the folder of verifications; -1 if there can be none."""
    with contextlib.suppress(OSError):
        files.make_directory(state / FOLDER)
    return _locked(state / FOLDER, fcntl.LOCK_SH, wait=True)


def _locked(folder: Path, kind: int, *, wait: bool = False) -> int:
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return -1
    try:
        fcntl.flock(descriptor, kind | (0 if wait else fcntl.LOCK_NB))
    except OSError:  # another process verifies now
        os.close(descriptor)
        return -1
    return descriptor


def _begin(
    job: Job, parts: tuple[Part, ...], settings: RunSettings
) -> _Going | Verdict:
    """Begin the first of the parts of a verification; return the verdict if no command is needed."""
    if not parts:
        return verdict.unknown(
            f"the tool {job.tool.name} cannot verify, and the deployment has no option `verify`"
        )
    part: Job = replace(job, verifies=parts[0])
    mark = f"verify.{job.deployment.key}.{time.time_ns()}"
    try:
        step = _started(part, parts[1:], mark, settings)
    except OSError as error:
        _remove(settings.state / FOLDER / mark)
        return verdict.unknown(f"the verification cannot be started: {cause(error)}")
    if isinstance(step, _Going):
        return step
    return _after(part, parts[1:], step, job.deployment, settings)


def _started(
    job: Job, rest: tuple[Part, ...], mark: str, settings: RunSettings
) -> _Going | Reply:
    """Start a part of a verification; return the reply if no command is needed. Raises OSError.

    Its folder is named after its `mark`: another process may verify the same deployment.
    """
    deployment, folder = job.deployment, settings.state / FOLDER / mark
    place = protocol.workplace(
        job.tool.name, folder, settings.root, settings.environment
    )
    files.make_directory(folder.parent)
    run_folder.make(folder, mark)
    if job.user:
        from heat_config_agent.runs import as_user  # noqa: PLC0415  # few runs are of other users

        place = as_user.place(Path(settings.user_dir), mark, settings.environment)
    if deployment.references or job.user or job.isolation or job.artifacts:
        from heat_config_agent.runs import resolution  # noqa: PLC0415  # few runs need it

        command: protocol.Command | Reply = resolution.command(
            job, folder, place, settings
        )
    else:
        command = hook.prepare(job, place)
    if not isinstance(command, protocol.Command):
        _remove(folder)
        return command

    def announce(pid: int, ticks: int, scope: str) -> Run:
        return Run(
            mark=mark,
            boot=processes.boot_id(),
            pid=pid,
            ticks=ticks,
            began=processes.since_boot(),
            limit=min(job.limit or settings.limit or LIMIT, LIMIT),
            hook=job.tool.hook,
            working=str(place.working),
            outputs=str(place.outputs),
            scope=scope,
            user=job.user,
        )

    running = supervisor.start(
        folder, command, dict(settings.environment), mark, announce
    )
    return _Going(job, rest, running)


def _ended(going: list[_Going]) -> list[_Going]:
    """Wait until something has ended; end what takes or prints too much. Returns the parts that have ended."""
    poll = select.poll()
    for one in going:
        if one.running.fileno() >= 0:
            poll.register(one.running.fileno(), select.POLLIN)
    dues = [one.running.due for one in going if one.running.due is not None]
    wait = min([due - processes.since_boot() for due in dues], default=_PAUSE)
    if going:
        poll.poll(max(min(wait, _PAUSE), 0.0) * 1000)
    for one in going:
        _limit(one.running)
    return [one for one in going if one.running.ended or one.running.hopeless]


def _limit(running: supervisor.Running) -> None:
    """End a command that takes too long, or prints too much."""
    if running.ended:
        return
    if running.due is not None and processes.since_boot() >= running.due:
        limit = running.run.limit or 0.0
        running.ending = running.ending or f"it did not end within {limit:g} s"
        running.terminate(_GRACE)
    elif not running.ending and _printed(running.directory) > _OUTPUT:
        running.ending = f"it printed more than {_OUTPUT} bytes"
        running.terminate(_GRACE)


def _printed(folder: Path) -> int:
    try:
        return sum(
            os.stat(f"{folder}/{name}").st_size  # noqa: PTH116
            for name in ("stdout", "stderr")
        )
    except OSError:
        return 0


def _end(one: _Going, settings: RunSettings) -> _Going | Verdict:
    """Take in a part that has ended; return the next part, or the verdict of all."""
    running, folder, job = one.running, one.running.directory, one.job
    recorded, ending = running.close(), running.ending
    deployment = resolved.revealed(job.deployment, folder)
    try:
        if ending:
            return _masked(
                verdict.unknown(f"the verification was ended: {ending}"), job
            )
        if not recorded.isdecimal():
            return verdict.unknown("the verification was killed")
        reply: Reply | None = None
        if job.deployment.references or job.user or job.isolation or job.artifacts:
            from heat_config_agent.runs import resolution  # noqa: PLC0415  # few runs need it

            reply, _ = resolution.prepared(folder)
        if deployment is None:
            return verdict.unknown("the secrets of the deployment cannot be had")
        if reply is None:
            reply = hook.finish(
                job,
                running.run,
                folder,
                settings.environment,
                run_folder.ended(folder, int(recorded)),
            )
        return _after(job, one.rest, reply, deployment, settings)
    finally:
        _close(one)


def _after(
    job: Job,
    rest: tuple[Part, ...],
    reply: Reply,
    deployment: Deployment,
    settings: RunSettings,
) -> _Going | Verdict:
    """Return the verdict of a part; or begin the next one if this one has found nothing."""
    answer = verdict.of_reply(reply)
    if answer.standing is verdict.Standing.OK and rest:
        return _begin(job, rest, settings)
    return _masked(answer, replace(job, deployment=deployment))


def _close(one: _Going) -> None:
    """Remove everything of a verification."""
    if one.running.run.user:
        from heat_config_agent.runs import as_user  # noqa: PLC0415  # few runs are of other users

        as_user.remove(one.running.run)
    _remove(one.running.directory)


def _remove(folder: Path) -> None:
    """Remove the folder of a verification, as far as that is possible."""
    with contextlib.suppress(OSError):
        files.remove(folder)


def _masked(answer: Verdict, job: Job) -> Verdict:
    """Return a verdict without the secrets of its deployment."""
    conceal: Callable[[str, str], str] = redactor(job.deployment)

    def text(value: str) -> str:
        return conceal("deploy_stderr", value)

    changes = tuple(
        Change(what=text(each.what), how=text(each.how), diff=text(each.diff))
        for each in answer.changes
    )
    masked = replace(answer, reason=text(answer.reason), changes=changes)
    return verdict.shortened(masked)
