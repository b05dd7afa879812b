"""Runs: how they are started, followed, limited and closed."""

from __future__ import annotations

import errno
import functools
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from heat_config_agent.deployments.plan import Step
from heat_config_agent.engine.conclusion import RunEnd
from heat_config_agent.engine.report import Report
from heat_config_agent.engine.survey import with_verified
from heat_config_agent.masking.redaction import name_of
from heat_config_agent.model.deployment import BUILTIN, DELETE, Deployment
from heat_config_agent.model.entry import Entry, Run, State
from heat_config_agent.model.errors import PASSING, UNUSABLE, AgentError, cause, obstacle
from heat_config_agent.model.job import Job
from heat_config_agent.model.run_settings import RunSettings
from heat_config_agent.runs import hook, run_folder, scopes, supervisor
from heat_config_agent.runs.output_limit import OutputLimit
from heat_config_agent.runs.scopes import Scope, ScopeError
from heat_config_agent.settings.in_force import policy_in_force
from heat_config_hooks import processes, protocol
from heat_config_hooks.isolation import described
from heat_config_hooks.reply import UNKNOWN, Capture, Reply, failure
from heat_config_hooks.values import dataclass, replace

_TICK = 0.02
"""Seconds between two looks at a run on a kernel that cannot announce its end."""


_UNREPORTED = "the run has ended before it could report its result"

_WITHHELD = "its output is withheld: the secrets that its command was given are not known any more"


@dataclass
class Active:
    """A run that has not ended."""

    step: Step
    running: supervisor.Running


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


class Launcher:
    """Starts the commands of jobs, and looks after them until they end."""

    def __init__(self, settings: RunSettings, report: Report) -> None:
        self.settings = settings
        """The limits for new runs, and those of the runs that have not ended."""
        self._report = report
        self.active: dict[str, Active] = {}
        """The runs that have not ended, by the keys of their deployments, in the order in which they began."""
        self._output = OutputLimit(report)
        self.printed = 0
        """Bytes of output that runs have left on disk since the caller set this to 0."""

    def folder(self, key: str) -> Path:
        """Return the folder of a deployment's run."""
        return self.settings.run(key)

    # Starting and following runs.

    def launch(
        self, job: Job, entry: Entry, cleaned: Run | None, record: Callable[[Run], None]
    ) -> Started | Reply | Obstacle:
        """Start a job's command once `record` has put its run on record.

        Returns the reply if nothing needs to be run. `cleaned` is the run that a cleanup removes the work of: the
        cleanup works in the same folders. Raises AgentError if the run cannot be put on record.
        """
        policy = with_verified(policy_in_force(), [job.deployment])  # it may have changed since the plan was made
        if policy is not None:
            if refusal := policy.mistake or policy.refusal(job):
                return Obstacle(refusal, passing=bool(policy.mistake), cause=policy.mistake)
            job = replace(job, limit=job.limit or policy.limit(self.settings.limit))
            if (names := policy.variables(job)) is not None:
                job = replace(job, request={**job.request, protocol.VARIABLES: sorted(names)})
        key = job.deployment.key
        folder, mark = self.folder(key), f"{key}.{time.time_ns()}"
        place = protocol.workplace(job.tool.name, folder, self.settings.root, self.settings.environment)
        if job.user:
            place = self._private(entry, mark)
        if cleaned is not None:
            place = replace(place, working=Path(cleaned.working), outputs=Path(cleaned.outputs))

        def announce(pid: int, ticks: int, scope: str) -> Run:
            run = Run(
                mark=mark,
                boot=processes.boot_id(),
                pid=pid,
                ticks=ticks,
                began=processes.since_boot(),
                limit=job.limit or self.settings.limit,
                spent=entry.spent,
                hook=job.tool.hook,
                working=str(place.working),
                outputs=str(place.outputs),
                scope=scope,
                user=name_of(job.deployment, job.user) if job.user else "",
                isolated=described(job.isolation) if job.isolation else "",
            )
            record(run)
            return run

        environment = dict(self.settings.environment)
        if entry.reboots:
            environment["HEAT_REBOOTS"] = str(entry.reboots)
        if entry.attempts:
            environment["HEAT_ATTEMPT"] = str(entry.attempts + 1)
        if job.deployment.trace:
            environment["TRACEPARENT"] = job.deployment.trace
        try:
            run_folder.make(folder, mark)
            run_folder.check_room(folder)
            command = self._command(job, place)
            if not isinstance(command, protocol.Command):
                return command
            start = functools.partial(supervisor.start, folder, command, environment, mark, announce)
            running = self._start(job, start)
        except AgentError:  # if this run cannot be put on record, no other can
            raise
        except Exception as error:  # noqa: BLE001  # no error here may hold up other deployments
            return _obstacle(job, error, (self.settings.state, place.working, place.outputs))
        return Started(running, tuple(command.notes))

    def _command(self, job: Job, place: protocol.Workplace) -> protocol.Command | Reply:
        """Return the command of a run, or the reply if nothing needs to be run. Raises OSError."""
        if not (job.deployment.references or job.user or job.isolation or job.artifacts):
            return hook.prepare(job, place)
        from heat_config_agent.runs import resolution  # noqa: PLC0415  # few runs need it

        return resolution.command(job, self.folder(job.deployment.key), place, self.settings)

    def _private(self, entry: Entry, mark: str) -> protocol.Workplace:
        """Return the folders of a run of another user, and remove those of an earlier run. Raises OSError."""
        from heat_config_agent.runs import as_user  # noqa: PLC0415  # few runs are of other users

        if entry.run is not None and entry.run.user:
            as_user.remove(entry.run)
        return as_user.place(Path(self.settings.user_dir), mark, self.settings.environment)

    def follow(self, step: Step, running: supervisor.Running) -> None:
        """Look after a run from now on."""
        if not self.active:
            self._output.begun()
        self.active[step.deployment.key] = Active(step, running)

    def adopt(self, step: Step, run: Run) -> supervisor.Running | None:
        """Return the run that an earlier agent started, and follow it; None if it has ended."""
        running = supervisor.adopt(self.folder(step.deployment.key), run)
        if running is not None:
            self.active[step.deployment.key] = Active(step, running)
        return running

    @property
    def descriptors(self) -> list[int]:
        """Descriptors that are readable when a run has ended."""
        return [run.running.fileno() for run in self.active.values() if run.running.fileno() >= 0]

    @property
    def due(self) -> float | None:
        """Seconds until a run or its output has to be looked at; None if nothing runs."""
        if not self.active:
            return self._output.due if self._output.watches else None
        runs = [run.running for run in self.active.values()]
        now = processes.since_boot()
        delays = [max(running.due - now, 0.0) for running in runs if running.due is not None]
        delays += [_TICK for running in runs if running.fileno() < 0]
        return min([*delays, self._output.due])

    def limit(self) -> None:
        """End the runs whose time is over."""
        for active in self.active.values():
            running = active.running
            if running.due is None or processes.since_boot() < running.due:
                continue
            if running.ending:
                running.terminate(self.settings.grace)
            else:
                self._end(running, f"it timed out after {running.run.limit:g} s")

    def limit_output(self) -> None:
        """Shorten output that has grown too long, if it is time to look."""
        if (self.active or self._output.watches) and not self._output.due:
            self._output.look([run.running.directory for run in self.active.values()], self.settings.output_limit)

    # Ending and closing runs.

    def cancel(self, key: str) -> None:
        """Begin to end the run of a deployment that was replaced, if there is one and the settings say so."""
        active = self.active.get(key)
        if active is not None and self.settings.cancel and not active.running.ending:
            self._end(active.running, "its deployment was replaced")

    def end_all_of(self, source: str, reason: str) -> None:
        """Begin to end the runs of the deployments of a source."""
        for active in self.active.values():
            if active.step.deployment.source == source and not active.running.ending:
                self._end(active.running, reason)

    def make_way(self, delete: Deployment) -> None:
        """Begin to end the other runs of the resource that a DELETE is for."""
        for key, active in self.active.items():
            other = active.step.deployment
            same = delete.resource and other.resource == delete.resource and key != delete.key
            if same and other.action != DELETE and not active.running.ending:
                self._end(active.running, "its deployment was replaced by a DELETE")

    def take_ended(self) -> list[Active]:
        """Return the runs that have ended, or cannot be ended, and follow them no longer."""
        ended = [run for run in self.active.values() if run.running.ended or run.running.hopeless]
        for run in ended:
            del self.active[run.step.deployment.key]
        return ended

    def close(self, active: Active) -> tuple[str, str]:
        """Let go of a run; return what its supervisor recorded, and why the agent ended it (empty if it did not)."""
        running = active.running
        if running.hopeless:
            text = f"cannot end process {running.run.pid}; the agent gives up {active.step.deployment.title}"
            self._report.remarked(active.step, text)
        return running.close(), running.ending

    def close_lost(self, key: str, run: Run) -> tuple[str, str]:
        """Return the same as `close` for a run that ended while no agent was there.

        If an earlier agent had begun to end the run, the rest of its processes is killed.
        """
        folder = self.folder(key)
        ending = run_folder.noted_ending(folder, run)
        if ending:  # that agent may have reached no more than the supervisor
            supervisor.end_remains(run)
        return run_folder.recorded(folder, run), ending

    def end_of(self, deployment: Deployment, run: Run, recorded: str, ending: str) -> RunEnd:
        """Return all that is known about the end of a run. What is left of a lost run is killed first."""
        same_boot = run.boot == processes.boot_id()
        outputs_gone = bool(recorded) and _outputs_are_gone(deployment, run)
        if recorded == run_folder.UNSTARTED or ending or (recorded and not outputs_gone):
            return RunEnd(recorded=recorded, ending=ending, same_boot=same_boot)
        folder = self.folder(deployment.key)
        return RunEnd(
            same_boot=same_boot,
            unreadable=run_folder.unreadable(folder, run),
            displaced=same_boot and run_folder.is_displaced(folder, run),
            had_ended=not same_boot and run_folder.has_run(folder),
            had_remains=supervisor.end_remains(run),
        )

    def reply(self, step: Step, run: Run, code: int) -> Reply:
        """Return the reply that the hook makes of a command that ended with this exit code."""
        folder = self.folder(step.deployment.key)
        if step.deployment.references or run.user or run.isolated or (step.job and step.job.artifacts):
            from heat_config_agent.runs import resolution  # noqa: PLC0415  # few runs need it

            prepared, notes = resolution.prepared(folder)
            for note in notes:
                self._report.remarked(step, f"{step.deployment.title}: {note}")
            if prepared is not None:
                return prepared
            if self.revealed(step.deployment) is None:
                return failure(code or UNKNOWN, _WITHHELD)
            if run.user:  # nothing in the folders of that user is read
                supervisor.end_remains(run)
                return failure(code or UNKNOWN, _UNREPORTED, *self.output(step.deployment))
        return hook.finish(step.job, run, folder, self.settings.environment, run_folder.ended(folder, code))

    def output(self, deployment: Deployment) -> tuple[str | Capture, str | Capture]:
        """Return what a run has printed so far; nothing if the secrets in it are not known."""
        folder = self.folder(deployment.key)
        if self.revealed(deployment) is None:
            return "", ""
        return Capture(folder / "stdout"), Capture(folder / "stderr")

    def revealed(self, deployment: Deployment) -> Deployment | None:
        """Return a deployment with the secrets of its run, to mask them; None if they are not known."""
        if not deployment.references:
            return deployment
        from heat_config_agent.runs import resolved  # noqa: PLC0415  # few runs refer to secrets

        return resolved.revealed(deployment, self.folder(deployment.key))

    def shorten(self, active: Active) -> None:
        """Shorten the output of a run that has ended to its limit."""
        self.printed += self._output.shorten(active.running.directory, self.settings.output_limit)
        self._output.watch(active.running.directory)

    def watch_output(self, entries: Iterable[Entry]) -> None:
        """Look also at the output of runs that ended before this process began, and have left others that write it."""
        boot = processes.boot_id()
        for entry in entries:
            if entry.run is not None and entry.run.boot == boot and entry.state is not State.RUNNING:
                self._output.watch(self.folder(entry.key))

    def _end(self, running: supervisor.Running, reason: str) -> None:
        """Begin to end a run."""
        running.ending = reason
        try:
            run_folder.note_ending(running.directory, running.run, reason)
        except OSError as error:  # ending it matters more than recording why
            self._report.warn(f"cannot record why {running.directory.name} is ended: {error.strerror}")
        running.terminate(self.settings.grace)

    def _start(self, job: Job, start: Callable[..., supervisor.Running]) -> supervisor.Running:
        """Start a run, in a scope of systemd if possible. Raises OSError."""
        deployment = job.deployment
        reason = scopes.missing() if self.settings.scopes else "the setting `scopes` is off"
        if not reason:
            try:
                return start(scope=Scope(f"Heat deployment {deployment.title} ({deployment.action})", job.bounds))
            except ScopeError as error:
                reason = error.strerror or ""
                if not job.bounds:
                    self._report.warn(f"{deployment.title} has no scope of its own: {reason}")
        if job.bounds:
            raise ScopeError(f"{' and '.join(job.bounds)} cannot be enforced: {reason}")
        return start()


def _obstacle(job: Job, error: Exception, folders: tuple[Path, ...]) -> Obstacle:
    """Return why a command could not be started.

    A machine without space, memory or processes may have some at the next pass, and `folders` of the agent that it
    cannot use may be repaired. Any other reason fails the deployment.
    """
    passing = isinstance(error, MemoryError)
    if isinstance(error, OSError):
        passing = error.errno in PASSING or (error.errno in UNUSABLE and _is_ours(error, folders))
    return Obstacle(f"cannot start {job.deployment.title}: {obstacle(error)}", passing, cause(error) if passing else "")


def _is_ours(error: OSError, folders: tuple[Path, ...]) -> bool:
    """Return whether an error is about a folder of the agent.

    Folders of hooks to which the user of the agent never has access fail the deployments that need them, and a link or
    a folder in the place of a file of a deployment fails this one alone.
    """
    state, *others = map(str, folders)
    path = f"{error.filename}/" if isinstance(error.filename, str | os.PathLike) else ""
    if error.errno == errno.EISDIR or (error.errno == errno.ELOOP and os.path.islink(path[:-1])):  # noqa: PTH114
        return False
    if path.startswith(f"{state}/"):
        return True
    denied = error.errno in (errno.EACCES, errno.EPERM) and os.geteuid() != 0
    if denied or not path:
        return False
    return any(path.startswith(f"{folder}/") or f"{folder}/".startswith(path) for folder in others)


def _outputs_are_gone(deployment: Deployment, run: Run) -> bool:
    """Return whether a reboot has removed the outputs of a run: heat-agents' folder for them is in memory."""
    ours = run.hook.startswith(BUILTIN) and bool(deployment.outputs) and not run.user  # its reply is in the run folder
    return ours and run.boot != processes.boot_id() and not os.path.isdir(run.outputs)  # noqa: PTH112  # never raises
