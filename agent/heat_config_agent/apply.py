"""The one place that knows the order: parse, plan, run, signal, each step on record before the next relies on it.

`Applier` is given documents whenever there are new ones (`offer`), and turns (`turn`) until nothing is left to do. The
one-shot command offers once; a daemon offers at every poll. A turn never waits for a command or a server longer than it
is told to.
"""

from __future__ import annotations

import errno
import json
import select
import time
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import heat_config_hooks
from heat_config_agent import external, metadata, plan, processes, result, runner, selection
from heat_config_agent.deployed import Deployed
from heat_config_agent.errors import StateError
from heat_config_agent.journal import Journal
from heat_config_agent.model import BUILTIN, Config, Deployment, Document, Entry, Mistake, Result, Run, State, Tool
from heat_config_agent.plan import Step, Verb
from heat_config_agent.signals import Fate, Outbox, Outcome, back_off
from heat_config_agent.tools import Tools
from heat_config_hooks import protocol
from heat_config_hooks.reply import Capture, Reply, failure

TIMED_OUT = 124
INTERRUPTED = 125
CANNOT_START = 126
"""Status codes, as shells and `timeout` have them."""

RERUNS = 3
"""How often a deployment that may be run again after an interruption is: what interrupts it may be what it does."""

_LEAST = 3.0
"""Seconds that a request gets in any case."""

_LOOK = 1.0
"""Seconds between two looks at requests that are under way."""

_TICK = 0.02
"""Seconds between two looks at a run on a kernel that cannot announce its end."""


class Report(Protocol):
    """Whoever is told what happens, as it happens."""

    def begun(self, step: Step, run: Run) -> None:
        """A command runs; of a resumed one, since before."""

    def ended(self, step: Step, entry: Entry) -> None:
        """The result of a deployment is known and on record."""

    def resent(self, step: Step) -> None:
        """A result of an earlier run is on its way again."""

    def skipped(self, step: Step) -> None:
        """There is nothing to do about a deployment."""

    def postponed(self, step: Step, why: str) -> None:
        """A deployment could not be begun for a reason that is not its own; the next pass tries again."""

    def delivered(self, entry: Entry, outcome: Outcome | None) -> None:
        """A result was delivered, or not; without an outcome, it will never be sent."""

    def warn(self, text: str) -> None:
        """Something is not as it should be."""


@dataclass(frozen=True, kw_only=True)
class Where:
    """Folders and limits that hold for all deployments."""

    state: Path
    root: Path | None
    """Below which hooks work; None for heat-agents' own places."""
    environment: Mapping[str, str]
    """What every run gets."""
    limit: float | None
    """Time limit of a deployment that does not say its own, in seconds; None for none."""
    grace: float
    """Seconds between asking a run to end and killing it."""

    def run(self, key: str) -> Path:
        """Return the folder of a deployment's run."""
        return self.state / "runs" / key


@dataclass
class _Active:
    step: Step
    running: runner.Running


class Applier:
    """Carries out deployments."""

    def __init__(
        self,
        *,
        journal: Journal,
        tools: Tools,
        deployed: Deployed,
        outbox: Outbox,
        where: Where,
        report: Report,
        patience: float | None = None,
    ) -> None:
        """Work on an open journal.

        `patience` is how many seconds to go on trying to deliver a result; None for as long as it takes.
        """
        self._journal = journal
        self._tools = tools
        self._deployed = deployed
        self._outbox = outbox
        self._where = where
        self._report = report
        self._patience = patience
        self._waiting: deque[Step] = deque()
        self._active: dict[str, _Active] = {}
        self._current: dict[str, Deployment] = {}
        """What the sources have now: only these results are sent."""
        self._sources: frozenset[str] = frozenset()
        self._retries: dict[str, float] = {}
        """When to send which result again (monotonic seconds)."""
        self._first_tries: dict[str, float] = {}
        self._last_tries: dict[str, float] = {}
        self._unmarked: list[str] = []
        self.mistakes: list[Mistake] = []
        """Of the documents offered last."""

    def offer(self, documents: Iterable[Document], *, only: Collection[str] = ()) -> list[Step]:
        """Take in what the sources have now, and plan. Every source that answered is to be offered, changed or not."""
        deployments, self._sources, self.mistakes = read(documents)
        self._current = {each.key: each for each in deployments}
        for key in plan.superseded(deployments, self._sources, self._journal.entries):
            self._supersede(key)
        steps = plan.make(deployments, known(self._journal.entries, self._tools, self._deployed), only=only)
        busy = self._active.keys() | {step.deployment.key for step in self._waiting}
        for step in steps:
            if step.deployment.key not in busy:
                self._take_on(step)
        return steps

    @property
    def busy(self) -> bool:
        """Whether anything is left to do."""
        return bool(self._waiting or self._active or self._retries) or any(map(self._patient, self._outbox.under_way))

    def _patient(self, key: str) -> bool:
        """Whether to go on trying to deliver a result; a try that is under way is always given a few seconds."""
        if self._patience is None:
            return True
        now = time.monotonic()
        return now < max(self._first_tries[key] + self._patience, self._last_tries[key] + _LEAST)

    @property
    def active(self) -> list[Step]:
        """The steps whose commands are running."""
        return [each.step for each in self._active.values()]

    def turn(self, timeout: float) -> None:
        """Do what can be done, and wait at most `timeout` seconds for something to happen. Raises StateError."""
        if self._waiting and not self._active:
            self._begin(self._waiting.popleft())
            if not self.busy:
                return
        self._wait(0 if self._waiting and not self._active else timeout)
        for active in [each for each in self._active.values() if each.running.ended or each.running.hopeless]:
            del self._active[active.step.deployment.key]
            self._close(active)
        for active in self._active.values():
            self._limit(active.running)
        for outcome in self._outbox.outcomes():
            self._delivered(outcome)
        for key in [key for key, due in self._retries.items() if due <= time.monotonic()]:
            del self._retries[key]
            self._send(key)

    def settle(self) -> None:
        """Have everything about what was done survive a power cut.

        Call when there is nothing left to do, or before ending.
        """
        if self._unmarked:
            try:
                self._deployed.sync()
            except OSError as error:
                self._report.warn(f"cannot write to {self._deployed.directory}: {error.strerror}")
            else:
                self._journal.marked(self._unmarked, str(self._deployed.directory))
            self._unmarked = []
        self._journal.sync()

    # Taking on.

    def _take_on(self, step: Step) -> None:
        if step.verb in (Verb.SKIP, Verb.WAIT):
            self._report.skipped(step)
            return
        if step.verb in (Verb.RUN, Verb.ANSWER):
            entry = self._journal.entries.get(step.deployment.key)
            if entry is None or entry.state is not State.ACCEPTED or entry.document != step.deployment.document:
                self._journal.accepted(step.deployment, tool=step.config.tool if step.config else step.deployment.group)
        if step.verb is Verb.RUN:
            self._waiting.append(step)
        else:
            self._begin(step)  # it needs nothing that another deployment could hold up

    def _supersede(self, key: str) -> None:
        """Let go of a deployment that has left its source. One that runs is followed to its end, but not reported."""
        entry = self._journal.entries[key]
        self._waiting = deque(step for step in self._waiting if step.deployment.key != key)
        self._retries.pop(key, None)
        if entry.state in (State.ACCEPTED, State.DAMAGED):
            self._journal.drop(key)
        elif entry.state is State.FINISHED:
            self._journal.settled(key, State.SUPERSEDED)
            self._report.delivered(self._journal.entries[key], None)

    # Beginning.

    def _begin(self, step: Step) -> None:
        if step.verb is Verb.RUN:
            self._run(step)
        elif step.verb is Verb.ANSWER:
            self._finish(step, step.reply or {}, step.reason)
        elif step.verb is Verb.RESUME:
            self._resume(step)
        elif step.verb is Verb.RESEND:
            self._report.resent(step)
            self._tidy(step.deployment.key)  # the agent that had the result may have been killed before it could
            if self._journal.entries[step.deployment.key].state is not State.FINISHED:
                self._journal.send_again(step.deployment.key)
            self._send(step.deployment.key)

    def _run(self, step: Step) -> None:
        """Start a deployment's command. What stands in its way is its own failure, or the machine's for now."""
        config, tool, key = _runnable(step)
        folder, mark = self._where.run(key), f"{key}.{time.time_ns()}"
        limit = step.limit or self._where.limit
        where = protocol.directories(tool.name, folder, self._where.root, self._where.environment)
        try:
            runner.folder(folder, mark)
            command = _prepare(step.deployment, config, tool, where)
        except protocol.HookError as error:
            sentence = f"{step.deployment.where}.{error}"
            self._finish(step, failure(plan.MALFORMED, sentence), sentence)
            return
        except OSError as error:
            self._obstacle(step, error)
            return
        except Exception as error:  # noqa: BLE001  # whatever is wrong with one hook is no other deployment's affair
            sentence = f"the {tool.name} hook cannot be prepared: {type(error).__name__}: {error}"
            self._finish(step, failure(CANNOT_START, sentence), sentence)
            return
        if not isinstance(command, protocol.Command):
            self._finish(step, command, str(command.get("deploy_stderr", "")).strip())
            return

        def announce(pid: int, ticks: int) -> Run:
            run = Run(
                mark=mark,
                boot=processes.boot_id(),
                pid=pid,
                ticks=ticks,
                began=processes.since_boot(),
                limit=limit,
                hook=tool.hook,
                working=str(where.working),
                outputs=str(where.outputs),
            )
            self._journal.running(key, run)
            return run

        try:
            running = runner.start(folder, command, self._where.environment, mark, announce)
        except OSError as error:
            self._obstacle(step, error)
            return
        self._active[key] = _Active(step, running)
        self._mark(step.deployment)
        self._report.begun(step, running.run)

    def _obstacle(self, step: Step, error: OSError) -> None:
        """Say that a deployment could not be started.

        A machine without space or processes may have some at the next pass.
        """
        why = f"cannot start {step.deployment.name}: {error.strerror or error}" + (
            f": {error.filename}" if error.filename else ""
        )
        if error.errno in (
            errno.ENOSPC,
            errno.EDQUOT,
            errno.EIO,
            errno.EROFS,
            errno.EAGAIN,
            errno.ENOMEM,
            errno.EMFILE,
            errno.ENFILE,
        ):
            self._report.postponed(step, why)
        else:
            self._finish(step, failure(CANNOT_START, why), why)

    def _resume(self, step: Step) -> None:
        """Follow a run that an agent before us started, or find out how it ended."""
        key = step.deployment.key
        run = self._entry_run(key)
        running = runner.adopt(self._where.run(key), run)
        if running is not None:
            self._active[key] = _Active(step, running)
            self._report.begun(step, run)
        else:
            folder = self._where.run(key)
            self._conclude(step, runner.recorded(folder, run), runner.noted_ending(folder, run))

    # Ending.

    def _limit(self, running: runner.Running) -> None:
        """End a run that has had its time."""
        due = running.due
        if due is None or processes.since_boot() < due:
            return
        if not running.ending:
            running.ending = f"its time limit of {running.run.limit:g} s was over"
            try:
                runner.note_ending(running.directory, running.run, running.ending)
            except OSError as error:  # that it ends is more than that it is known why
                self._report.warn(f"cannot note why {running.directory.name} is ended: {error.strerror}")
        running.terminate(self._where.grace)

    def _close(self, active: _Active) -> None:
        if active.running.hopeless:
            self._report.warn(
                f"process {active.running.run.pid} cannot be ended; {active.step.deployment.name} is given up"
            )
        self._conclude(active.step, active.running.close(), active.running.ending)

    def _conclude(self, step: Step, recorded: str, ending: str) -> None:
        """Make a result of what is known about a run that has ended: its exit code, and why the agent ended it."""
        key = step.deployment.key
        run = self._entry_run(key)
        if recorded == runner.UNSTARTED:
            self._journal.not_started(key)
            self._again(step)
        elif ending:
            self._finish(step, self._broken_off(key, TIMED_OUT, f"ended, as {ending}"), f"ended, as {ending}")
        elif recorded:
            self._finish(step, self._collect(step, run, int(recorded)))
        else:
            self._lost(step, run)

    def _lost(self, step: Step, run: Run) -> None:
        """Make a result of a run of which nothing says how it ended."""
        if run.boot != processes.boot_id():
            why = "interrupted: the machine went down while it ran"
        else:
            why = "interrupted: what watched over it was killed, so nothing is known of how it ended"
            if runner.end_remains(run):
                why += "; what was left of it was ended"
        if _may_rerun(step.deployment) and self._journal.entries[step.deployment.key].reruns < RERUNS:
            self._journal.interrupted(step.deployment.key)
            self._again(step)
        else:
            self._finish(step, self._broken_off(step.deployment.key, INTERRUPTED, why), why)

    def _again(self, step: Step) -> None:
        """Plan a deployment anew that turned out not to have been run, if it is still wanted."""
        key = step.deployment.key
        if key not in self._current:
            self._supersede(key)
            return
        anew = plan.make([self._current[key]], known(self._journal.entries, self._tools, self._deployed))
        self._waiting.extend(
            each for each in anew if each.verb in (Verb.RUN, Verb.ANSWER) and each.deployment.key == key
        )

    def _broken_off(self, key: str, code: int, sentence: str) -> Reply:
        folder = self._where.run(key)
        return failure(code, sentence, Capture(folder / "stdout"), Capture(folder / "stderr"))

    def _collect(self, step: Step, run: Run, code: int) -> Reply:
        """Have the hook say what came of its command."""
        folder = self._where.run(step.deployment.key)
        ended = runner.ended(folder, code)
        name = run.hook.removeprefix(BUILTIN)
        where = protocol.Directories(run=folder, working=Path(run.working), outputs=Path(run.outputs))
        try:
            if not run.hook.startswith(BUILTIN):
                return external.finish(run.hook, ended)
            return heat_config_hooks.load(name).finish(_request(step.deployment), where, ended)
        except Exception as error:  # noqa: BLE001  # whatever is wrong with one hook is no other deployment's affair
            sentence = f"the {name} hook cannot say what came of it: {type(error).__name__}: {error}"
            return self._broken_off(step.deployment.key, INTERRUPTED, sentence)

    def _finish(self, step: Step, reply: Reply, reason: str = "") -> None:
        """Put a result on record, and send it if it is still waited for."""
        key = step.deployment.key
        found = result.make(reply, step.deployment, reason)
        run = self._journal.entries[key].run
        self._journal.finished(key, found, runner.ended_at(self._where.run(key), run) if run else None)
        if step.verb is not Verb.ANSWER:
            self._write_result(step.deployment, found)
            self._tidy(key)
        self._report.ended(step, self._journal.entries[key])
        self._send(key)

    # Delivering.

    def _send(self, key: str) -> None:
        entry = self._journal.entries[key]
        deployment = self._current.get(key)
        if deployment is None:
            if plan.superseded(self._current.values(), self._sources, {key: entry}):
                self._supersede(key)
            return  # else its source was not asked this time: the next pass that asks it will know
        if not deployment.target.wanted:
            self._journal.settled(key, State.UNASKED)
            return
        body = json.dumps(entry.values).encode()
        self._last_tries[key] = time.monotonic()
        self._first_tries.setdefault(key, self._last_tries[key])
        self._outbox.post(key, deployment.target, body)

    def _delivered(self, outcome: Outcome) -> None:
        entry = self._journal.entries.get(outcome.key)
        if entry is None or entry.state is not State.FINISHED:
            return  # superseded while it was under way
        if outcome.fate is Fate.SENT:
            self._journal.settled(entry.key, State.SIGNALLED)
        elif outcome.fate is Fate.REFUSED:
            self._journal.settled(entry.key, State.REFUSED, outcome.trouble)
        else:
            self._journal.tried(entry.key, outcome.trouble, time.time() + outcome.wait if outcome.wait else 0)
            self._schedule(entry.key, outcome)
        self._report.delivered(self._journal.entries[entry.key], outcome)

    def _schedule(self, key: str, outcome: Outcome) -> None:
        """Try again later, if there is still patience for it then; else the next pass will."""
        delay = max(back_off(self._journal.entries[key].tries), outcome.wait)
        due = time.monotonic() + delay
        if self._patience is None or due <= self._first_tries[key] + self._patience:
            self._retries[key] = due

    # The older agent's files, and small things.

    def _mark(self, deployment: Deployment) -> None:
        """Keep `deployed/ID.json` for those who read it. It is a view: a disk that has no room for it stops nothing."""
        chosen = selection.select(deployment)
        if deployment.key in self._unmarked or not isinstance(chosen, Config):
            return
        try:
            self._deployed.prepare()
            self._deployed.write(deployment.key, selection.chosen_document(deployment, chosen))
            self._unmarked.append(deployment.key)
        except OSError as error:
            self._report.warn(f"cannot write to {self._deployed.directory}: {error.strerror}")

    def _write_result(self, deployment: Deployment, found: Result) -> None:
        self._mark(deployment)  # of a run that an agent before us started
        if deployment.key not in self._unmarked:
            return
        try:
            self._deployed.write_result(deployment.key, found.values)
        except OSError as error:
            self._report.warn(f"cannot write to {self._deployed.directory}: {error.strerror}")

    def _tidy(self, key: str) -> None:
        try:
            runner.tidy(self._where.run(key))
        except OSError as error:
            self._report.warn(f"cannot remove what {key} was given: {error.strerror}: {error.filename}")

    def _entry_run(self, key: str) -> Run:
        run = self._journal.entries[key].run
        if run is None:
            raise StateError(f"the journal says that {key} is running, but not as which process")
        return run

    def _wait(self, timeout: float) -> None:
        poll = select.poll()
        poll.register(self._outbox.fileno(), select.POLLIN)
        for active in self._active.values():
            running = active.running
            if running.fileno() < 0:
                timeout = min(timeout, _TICK)
            else:
                poll.register(running.fileno(), select.POLLIN)
            if running.due is not None:
                timeout = min(timeout, max(running.due - processes.since_boot(), 0))
        if self._outbox.under_way:
            timeout = min(timeout, _LOOK)
        for due in self._retries.values():
            timeout = min(timeout, max(due - time.monotonic(), 0))
        poll.poll(timeout * 1000)


def read(documents: Iterable[Document]) -> tuple[list[Deployment], frozenset[str], list[Mistake]]:
    """Return the deployments of all documents, the sources that answered with some list of them, and what is wrong."""
    deployments: dict[str, Deployment] = {}
    sources: set[str] = set()
    mistakes: list[Mistake] = []
    for document in documents:
        parsed = metadata.parse(document)
        mistakes += parsed.mistakes
        if parsed.understood:
            sources.add(document.source)
        for each in parsed.deployments:
            first = deployments.setdefault(each.key, each)
            if first.document != each.document:
                problem = f"{each.id!r} is the id of another deployment in {first.source}; that one is applied"
                mistakes.append(Mistake(path=f"{document.source}: {each.where}.id", problem=problem))
    return list(deployments.values()), frozenset(sources), mistakes


def known(entries: Mapping[str, Entry], tools: Tools, deployed: Deployed) -> plan.Known:
    """Return what a plan has to know beside the deployments."""
    folder = str(deployed.directory) if deployed.directory.is_dir() else ""
    return plan.Known(
        entries=entries,
        marked=deployed.keys(),
        folder=folder,
        find=tools.find,
        installed=tools.installed,
        now=time.time(),
    )


def _runnable(step: Step) -> tuple[Config, Tool, str]:
    if step.config is None or step.tool is None:
        raise ValueError(f"the step to run {step.deployment.key} names no config or tool")
    return step.config, step.tool, step.deployment.key


def _prepare(
    deployment: Deployment, config: Config, tool: Tool, where: protocol.Directories
) -> protocol.Command | Reply:
    if not tool.builtin:
        return external.prepare(tool.hook, selection.chosen_document(deployment, config), where.run)
    request = protocol.request(
        selection.chosen_document(deployment, config), key=deployment.key, options=config.options
    )
    return heat_config_hooks.load(tool.name).prepare(request, where)


def _request(deployment: Deployment) -> protocol.Request:
    chosen = selection.select(deployment)
    if not isinstance(chosen, Config):
        raise protocol.HookError("its config can no longer be chosen")
    return protocol.request(selection.chosen_document(deployment, chosen), key=deployment.key, options=chosen.options)


def _may_rerun(deployment: Deployment) -> bool:
    """Whether the deployment says that an interrupted run may simply be run again."""
    chosen = selection.select(deployment)
    return isinstance(chosen, Config) and chosen.options.get("idempotent") is True
