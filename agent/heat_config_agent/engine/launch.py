"""Runs: how they are started, followed, limited and closed."""

from __future__ import annotations

import errno
import functools
import os
import time
from collections.abc import Callable
from pathlib import Path

from heat_config_agent.deployments import metadata, plan
from heat_config_agent.deployments.plan import Step
from heat_config_agent.engine.queue import Active
from heat_config_agent.engine.survey import with_verified
from heat_config_agent.engine.work import Work
from heat_config_agent.masking.redaction import name_of
from heat_config_agent.model.deployment import BUILTIN, DELETE, Deployment, Job
from heat_config_agent.model.entry import Entry, Run, State
from heat_config_agent.model.errors import (
    PASSING,
    UNUSABLE,
    AgentError,
    cause,
    obstacle,
)
from heat_config_agent.model.run_settings import RunSettings
from heat_config_agent.runs import hook, run_folder, scopes, supervisor
from heat_config_agent.runs.scopes import Scope, ScopeError
from heat_config_agent.settings.in_force import policy_in_force
from heat_config_hooks import processes, protocol
from heat_config_hooks.isolation import described
from heat_config_hooks.reply import UNKNOWN, Capture, Reply, failure
from heat_config_hooks.values import dataclass, replace

_UNREPORTED = "the run has ended before it could report its result"

_WITHHELD = "its output is withheld: the secrets that its command was given are not known any more"


@dataclass(frozen=True)
class Obstacle:
    """The reason why a command could not be started."""

    reason: str
    passing: bool
    """True if the machine may be able to start it later: it lacks space, memory or processes now."""
    cause: str = ""
    """The cause in a few words, if it is passing: other commands may have the same."""


@dataclass(frozen=True)
class Started:
    """A command that was started."""

    running: supervisor.Running
    notes: tuple[str, ...]
    """Warnings of the hook for people."""


@dataclass(frozen=True, kw_only=True)
class RunEnd:
    """The facts about the end of a run."""

    recorded: str = ""
    """The supervisor's record: the exit code, `run_folder.UNSTARTED`, or nothing."""
    ending: str = ""
    """The reason why the agent ended the run; empty if it did not."""
    same_boot: bool
    """True if the machine has not been rebooted since the run began."""
    unreadable: str = ""
    """The reason why the record of its end cannot be read; empty if it can."""
    displaced: bool = False
    """True if the record of its end was removed or replaced, as by the command itself."""
    had_ended: bool = False
    """True if the command ended before the machine went down."""
    had_remains: bool = False
    """True if processes of the run were left, and were killed."""


# Starting and following runs.


def start(work: Work, step: Step, job: Job) -> Started | Reply | Obstacle:
    """Start the command of a step, once its run is on record.

    Returns the reply if nothing needs to be run. Raises AgentError if the run cannot be put on record.
    """
    settings, key = work.settings, job.deployment.key
    entry = work.journal.entries[key]
    # it may have changed since the plan was made
    policy = with_verified(policy_in_force(), [job.deployment])
    if policy is not None:
        if refusal := policy.mistake or policy.refusal(job):
            return Obstacle(refusal, passing=bool(policy.mistake), cause=policy.mistake)
        job = replace(job, limit=job.limit or policy.limit(settings.limit))
        if (names := policy.variables(job)) is not None:
            job = replace(
                job, request={**job.request, protocol.VARIABLES: sorted(names)}
            )
    folder, mark = settings.run(key), f"{key}.{time.time_ns()}"
    place = protocol.workplace(
        job.tool.name, folder, settings.root, settings.environment
    )
    if job.user:
        place = _private(settings, entry, mark)
    if (
        cleaned := _cleaned(work, step)
    ) is not None:  # a cleanup works in the folders of the run that it cleans up
        place = replace(
            place, working=Path(cleaned.working), outputs=Path(cleaned.outputs)
        )

    def announce(pid: int, ticks: int, scope: str) -> Run:
        run = Run(
            mark=mark,
            boot=processes.boot_id(),
            pid=pid,
            ticks=ticks,
            began=processes.since_boot(),
            limit=job.limit or settings.limit,
            spent=entry.spent,
            hook=job.tool.hook,
            working=str(place.working),
            outputs=str(place.outputs),
            scope=scope,
            user=name_of(job.deployment, job.user) if job.user else "",
            isolated=described(job.isolation) if job.isolation else "",
        )
        work.journal.running(key, run)
        return run

    environment = _environment(settings, job, entry)
    try:
        keep_earlier(work, entry)
        run_folder.make(folder, mark)
        _check_room(folder)
        command = _command(settings, job, place)
        if not isinstance(command, protocol.Command):
            return command
        running = _start(
            work,
            job,
            functools.partial(
                supervisor.start, folder, command, environment, mark, announce
            ),
        )
    except AgentError:  # if this run cannot be put on record, no other can
        raise
    except Exception as error:  # noqa: BLE001  # no error here may hold up other deployments
        return _obstacle(job, error, (settings.state, place.working, place.outputs))
    return Started(running, tuple(command.notes))


def keep_earlier(work: Work, entry: Entry) -> None:
    """Keep the output of the run of an entry before the next one. This masks it by the document that was run."""
    folder = work.settings.run(entry.key)
    if entry.run is None or not os.path.lexists(
        run_folder.status(folder, entry.run.mark)
    ):
        return
    from heat_config_agent.runs import earlier  # noqa: PLC0415  # most deployments run once

    document = (
        entry.document
        if entry.document or entry.removed
        else work.ground.deployed.document(entry.key)
    )
    deployment = plan.deployment_of(entry, document) if document else None
    try:
        earlier.keep(
            folder, entry, deployment, work.settings.output_limit, work.attempts.alive
        )
    except OSError as error:
        work.report.warn(
            f"cannot keep the output of the last run of {entry.title}: {cause(error)}"
        )


def _check_room(folder: Path) -> None:
    """Raise OSError if the disk has no room for the output of a run, also without that of earlier runs."""
    try:
        run_folder.check_room(folder)
    except OSError:
        from heat_config_agent.runs import earlier  # noqa: PLC0415  # few disks are full

        if not earlier.empty(folder):
            raise
        run_folder.check_room(folder)


def _cleaned(work: Work, step: Step) -> Run | None:
    """Return the run that a cleanup removes the work of; None for other steps."""
    left = step.deployment.document.get(protocol.LEAVES)
    entry = (
        work.journal.entries.get(metadata.key_of(left))
        if isinstance(left, str)
        else None
    )
    return entry.run if entry else None


def _environment(settings: RunSettings, job: Job, entry: Entry) -> dict[str, str]:
    """Return the environment of a run."""
    environment = dict(settings.environment)
    if entry.reboots:
        environment["HEAT_REBOOTS"] = str(entry.reboots)
    if entry.attempts:
        environment["HEAT_ATTEMPT"] = str(entry.attempts + 1)
    if job.deployment.trace:
        environment["TRACEPARENT"] = job.deployment.trace
    return environment


def _command(
    settings: RunSettings, job: Job, place: protocol.Workplace
) -> protocol.Command | Reply:
    """Return the command of a run, or the reply if nothing needs to be run. Raises OSError."""
    if not (job.deployment.references or job.user or job.isolation or job.artifacts):
        return hook.prepare(job, place)
    from heat_config_agent.runs import resolution  # noqa: PLC0415  # few runs need it

    return resolution.command(job, settings.run(job.deployment.key), place, settings)


def _private(settings: RunSettings, entry: Entry, mark: str) -> protocol.Workplace:
    """Return the folders of a run of another user, after removing the folders of an earlier run. Raises OSError."""
    from heat_config_agent.runs import as_user  # noqa: PLC0415  # few runs are of other users

    if entry.run is not None and entry.run.user:
        as_user.remove(entry.run)
    return as_user.place(Path(settings.user_dir), mark, settings.environment)


def _start(
    work: Work, job: Job, begin: Callable[..., supervisor.Running]
) -> supervisor.Running:
    """Start a run, in a scope of systemd if possible. Raises OSError."""
    deployment = job.deployment
    reason = scopes.missing() if work.settings.scopes else "the setting `scopes` is off"
    if not reason:
        try:
            return begin(
                scope=Scope(
                    f"Heat deployment {deployment.title} ({deployment.action})",
                    job.bounds,
                )
            )
        except ScopeError as error:
            reason = error.strerror or ""
            if not job.bounds:
                work.report.warn(
                    f"{deployment.title} has no scope of its own: {reason}"
                )
    if job.bounds:
        raise ScopeError(f"{' and '.join(job.bounds)} cannot be enforced: {reason}")
    return begin()


def follow(work: Work, step: Step, running: supervisor.Running) -> None:
    """Look after a run from now on."""
    if not work.active:
        work.output.begun()
    work.active[step.deployment.key] = Active(step, running)


def adopt(work: Work, step: Step, run: Run) -> bool:
    """Follow a run that an earlier agent started; return False if it has ended."""
    running = supervisor.adopt(work.settings.run(step.deployment.key), run)
    if running is None:
        return False
    work.active[step.deployment.key] = Active(step, running)
    return True


def limit(work: Work) -> None:
    """End the runs whose time is over."""
    for active in work.active.values():
        running = active.running
        if running.due is None or processes.since_boot() < running.due:
            continue
        if running.ending:
            running.terminate(work.settings.grace)
        else:
            end(work, running, f"it timed out after {running.run.limit:g} s")


def limit_output(work: Work) -> None:
    """Shorten output that has grown too long, if it is time to look."""
    if work.active and not work.output.due:
        folders = [active.running.directory for active in work.active.values()]
        work.output.look(folders, work.settings.output_limit)


def shorten(work: Work, active: Active) -> None:
    """Shorten the output of a run that has ended to its limit."""
    work.printed += work.output.shorten(
        active.running.directory, work.settings.output_limit
    )


def watch_left(work: Work, *keys: str) -> None:
    """Watch the output of ended runs, of these and of those noted before, as long as processes write to it."""
    settings = work.settings
    noted = os.path.exists(f"{settings.state}/{run_folder.LEFT}")  # noqa: PTH110  # never raises
    if noted or any(run_folder.is_written(settings.run(key)) for key in keys):
        from heat_config_agent.runs import left_output  # noqa: PLC0415  # few runs leave anything behind

        left_output.watch(settings.state, settings.output_limit, scoped=settings.scopes)


def watch_earlier(work: Work) -> None:
    """Have the output watched of runs that ended before this process began, and have left others that write it."""
    boot = processes.boot_id()
    ended = [
        entry
        for entry in work.journal.entries.values()
        if entry.state is not State.RUNNING
    ]
    watch_left(
        work,
        *(
            entry.key
            for entry in ended
            if entry.run is not None and entry.run.boot == boot
        ),
    )


# Ending and closing runs.


def cancel(work: Work, key: str) -> None:
    """Begin to end the run of a deployment that was replaced, if there is one and the settings say so."""
    active = work.active.get(key)
    if active is not None and work.settings.cancel and not active.running.ending:
        end(work, active.running, "its deployment was replaced")


def end_all_of(work: Work, source: str, reason: str) -> None:
    """Begin to end the runs of the deployments of a source. A follow-up of a failure goes on to its own limit."""
    for active in work.active.values():
        deployment = active.step.deployment
        if (
            deployment.source == source
            and not deployment.is_follow_up
            and not active.running.ending
        ):
            end(work, active.running, reason)


def make_way(work: Work) -> None:
    """Begin to end the runs that a waiting DELETE of the same place has replaced."""
    for step in () if work.queue.hold else work.queue:
        delete = step.deployment
        for key, active in (
            work.active.items() if delete.action == DELETE and delete.place else ()
        ):
            replaced = active.step.deployment
            same = replaced.place == delete.place and key != delete.key
            same = same and not replaced.is_follow_up
            if same and replaced.action != DELETE and not active.running.ending:
                end(work, active.running, "its deployment was replaced by a DELETE")


def end(work: Work, running: supervisor.Running, reason: str) -> None:
    """Begin to end a run."""
    running.ending = reason
    try:
        run_folder.note_ending(running.directory, running.run, reason)
    except OSError as error:  # ending it matters more than recording why
        work.report.warn(
            f"cannot record why {running.directory.name} is ended: {error.strerror}"
        )
    running.terminate(work.settings.grace)


def take_ended(work: Work) -> list[Active]:
    """Return the runs that have ended, or cannot be ended, and follow them no longer."""
    ended = [
        active
        for active in work.active.values()
        if active.running.ended or active.running.hopeless
    ]
    for active in ended:
        del work.active[active.step.deployment.key]
    return ended


def close(work: Work, active: Active) -> tuple[str, str]:
    """Let go of a run; return what its supervisor recorded, and why the agent ended it (empty if it did not)."""
    running = active.running
    if running.hopeless:
        text = f"cannot end process {running.run.pid}; the agent gives up {active.step.deployment.title}"
        work.report.warn(text, active.step)
    return running.close(), running.ending


def close_lost(settings: RunSettings, key: str, run: Run) -> tuple[str, str]:
    """Return the same as `close` for a run that ended while no agent was there.

    If an earlier agent had begun to end the run, the rest of its processes is killed.
    """
    folder = settings.run(key)
    ending = run_folder.noted_ending(folder, run)
    if ending:  # that agent may have reached no more than the supervisor
        supervisor.end_remains(run)
    return run_folder.recorded(folder, run), ending


def end_of(
    settings: RunSettings, deployment: Deployment, run: Run, recorded: str, ending: str
) -> RunEnd:
    """Return the known facts about the end of a run. Remaining processes of a lost run are killed first."""
    same_boot = run.boot == processes.boot_id()
    outputs_gone = bool(recorded) and _outputs_are_gone(deployment, run)
    if recorded == run_folder.UNSTARTED or ending or (recorded and not outputs_gone):
        return RunEnd(recorded=recorded, ending=ending, same_boot=same_boot)
    folder = settings.run(deployment.key)
    return RunEnd(
        same_boot=same_boot,
        unreadable=run_folder.unreadable(folder, run),
        displaced=same_boot and run_folder.is_displaced(folder, run),
        had_ended=not same_boot and run_folder.has_run(folder),
        had_remains=supervisor.end_remains(run),
    )


def reply_of(work: Work, step: Step, run: Run, code: int) -> Reply:
    """Return the reply that the hook makes of a command that ended with this exit code."""
    settings, folder = work.settings, work.settings.run(step.deployment.key)
    if (
        step.deployment.references
        or run.user
        or run.isolated
        or (step.job and step.job.artifacts)
    ):
        from heat_config_agent.runs import resolution  # noqa: PLC0415  # few runs need it

        prepared, notes = resolution.prepared(folder)
        for note in notes:
            work.report.warn(f"{step.deployment.title}: {note}", step)
        if prepared is not None:
            return prepared
        if revealed(settings, step.deployment) is None:
            return failure(code or UNKNOWN, _WITHHELD)
        if run.user:  # nothing in the folders of that user is read
            supervisor.end_remains(run)
            return failure(
                code or UNKNOWN, _UNREPORTED, *output_of(settings, step.deployment)
            )
    return hook.finish(
        step.job, run, folder, settings.environment, run_folder.ended(folder, code)
    )


def output_of(
    settings: RunSettings, deployment: Deployment
) -> tuple[str | Capture, str | Capture]:
    """Return what a run has printed so far; nothing if the secrets in it are not known."""
    if revealed(settings, deployment) is None:
        return "", ""
    folder = settings.run(deployment.key)
    return Capture(folder / "stdout"), Capture(folder / "stderr")


def revealed(settings: RunSettings, deployment: Deployment) -> Deployment | None:
    """Return a deployment with the secrets of its run, to mask them; None if they are not known."""
    if not deployment.references:
        return deployment
    from heat_config_agent.runs import resolved  # noqa: PLC0415  # few runs refer to secrets

    return resolved.revealed(deployment, settings.run(deployment.key))


def _obstacle(job: Job, error: Exception, folders: tuple[Path, ...]) -> Obstacle:
    """Return why a command could not be started.

    A machine without space, memory or processes may have some at the next pass, and `folders` of the agent that it
    cannot use may be repaired. Any other reason fails the deployment.
    """
    passing = isinstance(error, MemoryError)
    if isinstance(error, OSError):
        passing = error.errno in PASSING or (
            error.errno in UNUSABLE and _is_ours(error, folders)
        )
    return Obstacle(
        f"cannot start {job.deployment.title}: {obstacle(error)}",
        passing,
        cause(error) if passing else "",
    )


def _is_ours(error: OSError, folders: tuple[Path, ...]) -> bool:
    """Return whether an error is about a folder of the agent.

    Folders of hooks to which the user of the agent never has access fail the deployments that need them, and a link or
    a folder in the place of a file of a deployment fails this one alone.
    """
    state, *others = map(str, folders)
    path = f"{error.filename}/" if isinstance(error.filename, str | os.PathLike) else ""
    if error.errno == errno.EISDIR or (
        error.errno == errno.ELOOP and os.path.islink(path[:-1])  # noqa: PTH114
    ):
        return False
    if path.startswith(f"{state}/"):
        return True
    denied = error.errno in (errno.EACCES, errno.EPERM) and os.geteuid() != 0
    if denied or not path:
        return False
    return any(
        path.startswith(f"{folder}/") or f"{folder}/".startswith(path)
        for folder in others
    )


def _outputs_are_gone(deployment: Deployment, run: Run) -> bool:
    """Return whether a reboot has removed the outputs of a run: heat-agents' folder for them is in memory."""
    # its reply is in the run folder
    ours = run.hook.startswith(BUILTIN) and bool(deployment.outputs) and not run.user
    return ours and run.boot != processes.boot_id() and not os.path.isdir(run.outputs)  # noqa: PTH112  # never raises
