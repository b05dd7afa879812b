"""The one place that knows the order: parse, plan, run, signal, each step on record before the next relies on it.

`Applier` is given documents whenever there are new ones (`offer`), and turns (`turn`) until nothing is left to do. The
one-shot command offers once; a daemon offers at every poll. A turn never waits for a command or a server longer than it
is told to.
"""

from __future__ import annotations

import functools
import os
import select
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

from heat_config_agent import clean_up, hook, kill_points, metadata, plan, result, runner, scopes, selection
from heat_config_agent.bounding import Bounding
from heat_config_agent.delivery import Delivery
from heat_config_agent.deployed import Deployed
from heat_config_agent.errors import PASSING, StateError
from heat_config_agent.journal import Journal
from heat_config_agent.model import (
    BUILTIN,
    DELETE,
    Config,
    Deployment,
    Document,
    Entry,
    Mistake,
    Removed,
    Result,
    Run,
    State,
    Tool,
    Where,
)
from heat_config_agent.plan import Step, Verb
from heat_config_agent.report import Report
from heat_config_agent.scopes import Scope, ScopeError
from heat_config_agent.signals import Fate, Outcome
from heat_config_agent.tools import Tools
from heat_config_hooks import files, processes, protocol
from heat_config_hooks.reply import CANNOT_START, REBOOT, TIMED_OUT, UNKNOWN, Capture, Reply, failure, status_code
from heat_config_hooks.values import dataclass, replace

RERUNS = 3
"""How often a deployment that may be run again after an interruption is: what interrupts it may be what it does."""

REBOOTS = 10
"""How often a deployment may ask for a reboot: what asks again and again does not get what it wants by it."""

DELETE_PATIENCE = 30.0
"""Seconds that a DELETE waits for another one to end."""

WAITS = "a deployment waits for a reboot of the machine, before which nothing new is begun"

_TICK = 0.02
"""Seconds between two looks at a run on a kernel that cannot announce its end."""


@dataclass
class _Active:
    step: Step
    running: runner.Running


def _may_be_untidy(entry: Entry) -> bool:
    """Whether what a deployment's run was given may still be there, and with it secrets.

    It is removed before the deployment settles. A power cut may undo that, and leave on record that it has settled.
    """
    if entry.removed is Removed.ALL or not entry.ended:
        return False
    return entry.untidy or not entry.settled or (entry.run is not None and entry.run.boot != processes.boot_id())


class Applier:
    """Carries out deployments."""

    def __init__(
        self,
        *,
        journal: Journal,
        tools: Tools,
        deployed: Deployed,
        delivery: Delivery,
        where: Where,
        report: Report,
    ) -> None:
        """Work on an open journal."""
        processes.keep_descriptors()
        self._journal = journal
        self._tools = tools
        self._deployed = deployed
        self._delivery = delivery
        self._where = where
        self._report = report
        self._reader = metadata.Reader()
        self._waiting: deque[Step] = deque()
        self._deletes = 0
        """How many of them are DELETEs."""
        self._active: dict[str, _Active] = {}
        self._concluded: list[tuple[Step, Result]] = []
        """What has ended in this turn, and is not known to be on disk: nobody is told yet. Empty between turns."""
        self._current: dict[str, Deployment] = {}
        """What the sources have now: only these results are sent."""
        self._sources: frozenset[str] = frozenset()
        self._unconfirmed: Collection[str] = ()
        """Sources of which it is not known yet whether they still have what is offered of them."""
        self._only: Collection[str] = ()
        self._untidy = {key for key, each in journal.entries.items() if _may_be_untidy(each)}
        """Deployments of whose runs it is not known that what they were given has been removed."""
        self._rebooting: set[str] = set()
        """Deployments that wait for a reboot."""
        self.hold = ""
        """Why nothing new is begun; empty where it is."""
        self.postponed = False
        """Whether something could not be begun, and is to be offered again."""
        self.printed = 0
        """Bytes of output that runs have left on disk since the caller took note of it."""
        self._bounding = Bounding(report)
        self.mistakes: list[Mistake] = []
        """Of the documents offered last."""
        self._idle: tuple[list[Document], object] | None = None
        """What was offered, and all else, when there was nothing to do that time alone would change; else None."""

    def offer(
        self, documents: Iterable[Document], *, only: Collection[str] = (), unconfirmed: Collection[str] = ()
    ) -> list[Step]:
        """Take in what the sources have now, and plan. Every source that answered is to be offered, changed or not.

        `unconfirmed` are sources whose documents are from an earlier life of the agent, and that are about to be asked:
        until they have been, runs are followed, but nothing of theirs is begun or sent. Their deployments may have been
        replaced, and Heat would take the result of the old one for the new one's.
        """
        documents = list(documents)
        self._only, self._unconfirmed, self._idle = only, unconfirmed, None
        self._tidy_rest()
        deployments, self._sources, self.mistakes = metadata.parse_all(documents, self._reader.parse)
        ready = known(self._journal.entries, self._tools, self._deployed, self._where.state)
        whole = self._mark(lambda: ready.marked)
        for each in deployments:
            entry = self._journal.entries.get(each.key)
            if entry and entry.source != each.source:
                self._journal.moved(each.key, each.source)
        due = clean_up.due(deployments, self._sources, ready.entries, ready.now)
        ready = replace(ready, back=due.back)
        deployments = [*due.left, *deployments]  # what has left goes first: what comes may need its place
        self._current = {each.key: each for each in deployments}
        for key in plan.superseded(deployments, self._sources, self._journal.entries):
            self._supersede(key)
        whole = self._note_who_left() and whole
        self.postponed = False
        waits = [each for each in self._journal.entries.values() if each.state is State.REBOOT and each.run]
        self._rebooting = {each.key for each in waits if each.run and each.run.boot == ready.boot}
        self._waiting.clear()  # they are on record, and planned anew: what stood in their way may have gone
        self._deletes = 0
        steps = [self._confirmed(step) for step in plan.make(deployments, ready, only=only)]
        try:
            for step in steps:
                under_way = step.verb is Verb.RESEND and step.deployment.key in self._delivery
                if step.deployment.key not in self._active and not under_way:
                    self._take_on(step)
        finally:
            self._tell()
        if self._where.by_name:
            self._waiting = deque(sorted(self._waiting, key=_order))
        for step in [] if self.hold else self._waiting:
            if step.deployment.action == DELETE:
                self._make_way(step.deployment)
        if whole and not self._untidy and self._is_all_done(steps):
            self._idle = documents, self._seen()
        return steps

    def nothing_new(self, documents: list[Document], *, unconfirmed: Collection[str] = ()) -> bool:
        """Whether to `offer` these documents would come to nothing, as it did the last time."""
        if self._idle is None or len(documents) != len(self._idle[0]) or unconfirmed != self._unconfirmed:
            return False
        same = all(one is other for one, other in zip(documents, self._idle[0], strict=True))
        return same and self._seen() == self._idle[1]

    def _seen(self) -> object:
        """Return what else than documents it follows from whether there is something to do, where all is settled."""
        return self._journal.records, self._deployed.keys()

    def _is_all_done(self, steps: Iterable[Step]) -> bool:
        """Whether nothing is to be done, and all that is known is settled: a clean-up that failed is tried again."""
        entries = self._journal.entries
        return all(
            each.settled and not each.again and not (each.failed and each.action == clean_up.ACTION)
            for each in entries.values()
        ) and all(step.verb is Verb.SKIP and step.deployment.key in entries for step in steps)

    @property
    def at_rest(self) -> bool:
        """Whether nothing runs, waits for its turn or for a reboot, or is to be delivered."""
        return not (self._active or self._waiting or self._rebooting) and self._delivery.due is None

    @property
    def busy(self) -> bool:
        """Whether anything is left to do, now."""
        return bool(self._active or self._next()) or self._delivery.busy

    @property
    def reboots(self) -> list[Entry]:
        """The deployments that wait for a reboot of the machine."""
        return [self._journal.entries[key] for key in self._rebooting if key in self._journal.entries]

    @property
    def running(self) -> list[Entry]:
        """The deployments whose commands run, in the order in which they were begun."""
        return [self._journal.entries[key] for key in self._active]

    @property
    def waiting(self) -> int:
        """How many deployments wait for their turn."""
        return len(self._waiting)

    def turn(self, timeout: float, also: Iterable[int] = ()) -> None:
        """Do what can be done, and wait at most `timeout` seconds for something to happen. Raises StateError.

        What happens may also be that one of the descriptors in `also` can be read.
        """
        self._wait(0 if self._next() else timeout, also)
        try:
            for active in [each for each in self._active.values() if each.running.ended or each.running.hopeless]:
                del self._active[active.step.deployment.key]
                self._close(active)
            step = self._next()
            if step:  # it is not waited for: who told us to wait may have something to say first
                self._waiting.remove(step)
                self._deletes -= step.deployment.action == DELETE
                self._begin(step)
        finally:
            self._tell()
        for active in self._active.values():
            self._limit(active.running)
        for outcome in self._delivery.outcomes():
            self._delivered(outcome)
        if self._active and not self._bounding.due:
            folders = [each.running.directory for each in self._active.values()]
            self._bounding.look(folders, self._where.output_limit)

    def settle(self) -> None:
        """Have everything about what was done survive a power cut.

        Call when there is nothing left to do, or before ending.
        """
        self._tidy_rest()
        self._mark(self._deployed.keys)
        self._journal.sync()
        self._journal.compact()

    def reconfigure(self, tools: Tools, where: Where, ca_file: str | None) -> None:
        """Go on with other settings. What runs keeps those with which it was begun."""
        self._tools, self._where = tools, where
        self._delivery.trust(ca_file)

    def fileno(self) -> int:
        """Return a descriptor that is readable when something has become of a result."""
        return self._delivery.fileno()

    def hurry(self) -> None:
        """Send what waits for its next try now."""
        self._delivery.hurry()

    def reboot_failed(self, why: str) -> None:
        """Answer those that wait for a reboot, which cannot be done."""
        waits, self._rebooting = self.reboots, set()
        try:
            for entry in waits:
                step = Step(verb=Verb.RESUME, deployment=plan.deployment_of(entry), reason=why)
                sentence = f"it asked for a reboot, and {why}"
                self._finish(step, self._broken_off(entry.key, UNKNOWN, sentence), sentence)
        finally:
            self._tell()

    def _next(self) -> Step | None:
        """Return the waiting step that is to begin now, if any is."""
        if not self._waiting or self.hold or self._rebooting or (self._is_full() and not self._deletes):
            return None
        return next((step for step in self._waiting if self._may_begin(step.deployment)), None)

    def _may_begin(self, deployment: Deployment) -> bool:
        """Whether a deployment may begin beside those that run.

        Two of one resource never run at once. A DELETE waits for other DELETEs only, and not for long: what hangs must
        not hold it up. What is to be cleaned up has gone before anything else begins: that may need its place.
        """
        running = [each.step.deployment for each in self._active.values()]
        if any(each.resource and each.resource == deployment.resource for each in running):
            return False
        if deployment.action == DELETE:
            now = processes.since_boot()
            begun = [each.running.run.began for each in self._active.values() if each.step.deployment.action == DELETE]
            return sum(now - each < DELETE_PATIENCE for each in begun) < self._where.parallel
        cleaning = any(each.action == clean_up.ACTION for each in running)
        cleaning = cleaning or self._waiting[0].deployment.action == clean_up.ACTION
        if cleaning and deployment.action != clean_up.ACTION:
            return False
        return not self._is_full()

    def _is_full(self) -> bool:
        """Whether so many run that only a DELETE may begin beside them."""
        running = sum(each.step.deployment.action != DELETE for each in self._active.values())
        return running >= self._where.parallel

    def _make_way(self, deployment: Deployment) -> None:
        """End the run of the same resource that a DELETE has replaced."""
        for key, active in self._active.items():
            other = active.step.deployment
            same = deployment.resource and other.resource == deployment.resource and key != deployment.key
            if same and other.action != DELETE and not active.running.ending:
                self._end(active.running, "its deployment was replaced by a DELETE")

    def _mark(self, present: Callable[[], Collection[str] | None]) -> bool:
        """Put on record which files are in heat-agents' folder: only of those does it mean anything to be missing.

        Return whether that could be done.
        """
        new = [
            each.key
            for each in self._journal.entries.values()
            if not each.marked and each.ended and each.run and each.removed is not Removed.ALL
        ]
        there = present() or () if new else ()
        new = [key for key in new if key in there]
        if not new:
            return True
        if not self._view(self._deployed.sync):  # what a power cut takes has not been removed by anybody
            return False
        self._journal.marked(new, str(self._deployed.directory))
        return True

    def _note_who_left(self) -> bool:
        """Put on record which deployments have left the metadata, and which are back: so long they are kept.

        Return whether that could be done.
        """
        entries = self._journal.entries.values()
        gone = [
            each.key
            for each in entries
            if each.left_at is None and each.key not in self._current and each.source in self._sources
        ]
        back = [each.key for each in entries if each.left_at is not None and each.key in self._current]
        try:
            self._journal.left(gone, back)
        except StateError as error:  # a full disk, for example: it is noted at the next pass
            self._report.warn(str(error))
            return False
        return True

    # Taking on.

    def _confirmed(self, step: Step) -> Step:
        """Return the step, or that it waits for its source."""
        source = step.deployment.source
        if source not in self._unconfirmed or step.verb not in (Verb.RUN, Verb.ANSWER, Verb.RESEND):
            return step
        return Step(
            verb=Verb.WAIT, deployment=step.deployment, reason=f"{source} is being asked whether it still has it"
        )

    def _take_on(self, step: Step) -> None:
        if step.verb in (Verb.SKIP, Verb.WAIT):
            self._report.skipped(step)
            return
        if step.verb in (Verb.RUN, Verb.ANSWER):
            self._delivery.drop(step.deployment.key)  # of an earlier run, which is not what is waited for now
            entry = self._journal.entries.get(step.deployment.key)
            known_as_is = entry is not None and (
                entry.state is State.DAMAGED  # not to be mistaken for new, whatever happens before it is answered
                or (entry.state is State.SUPERSEDED and step.verb is Verb.ANSWER and entry.values is None)
                or (entry.state in (State.ACCEPTED, State.REBOOT) and entry.document == step.deployment.document)
            )
            if not known_as_is:
                self._journal.accepted(step.deployment, tool=step.config.tool if step.config else step.deployment.group)
        if step.verb is Verb.RUN or (step.verb is Verb.ANSWER and self.hold):
            self._waiting.append(step)
            self._deletes += step.deployment.action == DELETE
        else:
            self._begin(step)  # it needs nothing that another deployment could hold up

    def _supersede(self, key: str) -> None:
        """Let go of a deployment that has left its source. One that runs is followed to its end, but not reported."""
        entry = self._journal.entries[key]
        if key in self._active and self._where.cancel and not self._active[key].running.ending:
            self._end(self._active[key].running, "its deployment was replaced")
        for step in [step for step in self._waiting if step.deployment.key == key]:
            self._waiting.remove(step)
            self._deletes -= step.deployment.action == DELETE
        self._delivery.drop(key)
        if entry.state is not State.RUNNING:
            self._tidy(key)  # an agent before us may have been killed before it could
        if entry.state is State.ACCEPTED and clean_up.is_pending(entry, self._journal.entries):
            return  # an earlier run of it made something: it is known until that is cleaned up
        if entry.state is State.ACCEPTED:
            self._drop(key)
        elif entry.state in (State.FINISHED, State.REBOOT):
            self._settle(key, State.SUPERSEDED)
            self._report.delivered(self._journal.entries[key], None)

    def _drop(self, key: str) -> None:
        """Know nothing of a deployment any more that was not run, or not again.

        What an earlier run has left goes first: alone, it would say that the journal has lost what it knew of that.
        """
        try:
            files.remove(self._where.run(key))
        except OSError as error:
            self._report.warn(f"cannot remove what is left of {key}: {error.strerror}: {error.filename}")
        else:
            self._journal.drop(key)

    # Beginning.

    def _begin(self, step: Step) -> None:
        if step.verb is Verb.RUN:
            self._run(step)
        elif step.verb is Verb.ANSWER:
            self._finish(step, step.reply or {}, step.reason)
        elif step.verb is Verb.RESUME:
            self._resume(step)
        elif step.verb is Verb.RESEND:
            self._journal.sync()  # what is sent has to be on record; the flush after the run may have failed
            self._report.resent(step)
            self._tidy(step.deployment.key)  # the agent that had the result may have been killed before it could
            if self._journal.entries[step.deployment.key].state is not State.FINISHED:
                self._journal.send_again(step.deployment.key)
            self._send(step.deployment.key)

    def _run(self, step: Step) -> None:
        """Start a deployment's command. What stands in its way is its own failure, or the machine's for now."""
        config, tool, key = _runnable(step)
        folder, mark = self._where.run(key), f"{key}.{time.time_ns()}"
        place = protocol.workplace(tool.name, folder, self._where.root, self._where.environment)
        left = step.deployment.document.get(protocol.LEAVES)
        made = self._journal.entries.get(protocol.file_key(left)) if isinstance(left, str) else None
        if made and made.run:  # a clean-up: what it is after is where it was made
            place = replace(place, working=Path(made.run.working), outputs=Path(made.run.outputs))
        try:
            runner.folder(folder, mark)
            command = hook.prepare(step.deployment, config, tool, place)
        except OSError as error:
            self._obstacle(step, error)
            return
        kill_points.reached("runner.prepared")
        if not isinstance(command, protocol.Command):
            self._finish(step, command, _note(command))
            return

        def announce(pid: int, ticks: int, scope: str) -> Run:
            run = Run(
                mark=mark,
                boot=processes.boot_id(),
                pid=pid,
                ticks=ticks,
                began=processes.since_boot(),
                limit=step.limit or self._where.limit,
                hook=tool.hook,
                working=str(place.working),
                outputs=str(place.outputs),
                scope=scope,
            )
            self._journal.running(key, run)
            return run

        reboots = self._journal.entries[key].reboots
        environment = {**self._where.environment, **({"HEAT_REBOOTS": str(reboots)} if reboots else {})}
        try:
            running = self._start(step, functools.partial(runner.start, folder, command, environment, mark, announce))
        except OSError as error:
            self._obstacle(step, error)
            return
        if not self._active:
            self._bounding.begun()
        self._active[key] = _Active(step, running)
        self._tell()  # on disk with the record of this run
        self._view(lambda: self._keep(step.deployment))
        self._report.begun(step, running.run)
        self._delivery.expect(step.deployment.target)

    def _start(self, step: Step, start: Callable[..., runner.Running]) -> runner.Running:
        """Start a run, as a scope where that is possible. Raises OSError."""
        why = scopes.missing() if self._where.scopes else "the setting `scopes` is off"
        if not why:
            deployment = step.deployment
            try:
                return start(scope=Scope(f"Heat deployment {deployment.name} ({deployment.action})", step.bounds))
            except ScopeError as error:
                why = error.strerror or ""
                if not step.bounds:
                    self._report.warn(f"{deployment.name} has no scope of its own: {why}")
        if step.bounds:
            raise ScopeError(f"{' and '.join(step.bounds)} cannot be held: {why}")
        return start()

    def _obstacle(self, step: Step, error: OSError) -> None:
        """Say that a deployment could not be started.

        A machine without space or processes may have some at the next pass.
        """
        self._tidy(step.deployment.key)
        about = f": {error.filename}" if error.filename else ""
        why = f"cannot start {step.deployment.name}: {error.strerror or error}{about}"
        if error.errno in PASSING:
            self.postponed = True
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
            ending = runner.noted_ending(folder, run)
            if ending:  # the agent that began to end it may have come no further than its supervisor did
                runner.end_remains(run)
            self._conclude(step, runner.recorded(folder, run), ending)

    # Ending.

    def _limit(self, running: runner.Running) -> None:
        """End a run that has had its time."""
        due = running.due
        if due is None or processes.since_boot() < due:
            return
        if running.ending:
            running.terminate(self._where.grace)
        else:
            self._end(running, f"its time limit of {running.run.limit:g} s was over")

    def _end(self, running: runner.Running, why: str) -> None:
        """Begin to end a run."""
        running.ending = why
        try:
            runner.note_ending(running.directory, running.run, why)
        except OSError as error:  # that it ends is more than that it is known why
            self._report.warn(f"cannot note why {running.directory.name} is ended: {error.strerror}")
        running.terminate(self._where.grace)

    def _close(self, active: _Active) -> None:
        if active.running.hopeless:
            self._report.warn(
                f"process {active.running.run.pid} cannot be ended; {active.step.deployment.name} is given up"
            )
        self._conclude(active.step, active.running.close(), active.running.ending)
        self.printed += self._bounding.shorten(active.running.directory, self._where.output_limit)

    def _conclude(self, step: Step, recorded: str, ending: str) -> None:
        """Make a result of what is known about a run that has ended: its exit code, and why the agent ended it."""
        key = step.deployment.key
        run = self._entry_run(key)
        if recorded == runner.UNSTARTED:
            self._journal.not_started(key)
            self._again(step)
        elif ending:
            self._finish(step, self._broken_off(key, TIMED_OUT, f"ended, as {ending}"), f"ended, as {ending}")
        elif recorded and not _outputs_are_gone(step.deployment, run):
            folder = self._where.run(key)
            ended = runner.ended(folder, int(recorded))
            reply = hook.finish(step.deployment, run, folder, self._where.environment, ended)
            if status_code(reply) == REBOOT and key in self._current:
                self._ask_for_reboot(step, reply)
            else:
                self._finish(step, reply)
        else:
            self._lost(step, run)

    def _ask_for_reboot(self, step: Step, reply: Reply) -> None:
        """Have a deployment go on after a reboot, which perhaps has been already."""
        key = step.deployment.key
        if self._journal.entries[key].reboots >= REBOOTS:
            self._finish(step, reply, f"it asked for a reboot more than {REBOOTS} times")
            return
        self._journal.reboot(key)
        if self._entry_run(key).boot == processes.boot_id():
            self._rebooting.add(key)
        self._report.reboot(step, self._journal.entries[key])
        self._again(step)

    def _lost(self, step: Step, run: Run) -> None:
        """Make a result of a run of which nothing says how it ended."""
        if trouble := runner.unreadable(self._where.run(step.deployment.key), run):
            why = f"nobody knows how it ended, as that cannot be read: {trouble}"
        elif run.boot == processes.boot_id():
            why = "interrupted: what watched over it was killed, so nothing is known of how it ended"
        else:
            ended = runner.has_run(self._where.run(step.deployment.key))
            when = "before what it had written was safe" if ended else "while it ran"
            why = f"interrupted: the machine went down {when}"
        if runner.end_remains(run):
            why += "; what was left of it was ended"
        if hook.may_rerun(step.deployment) and self._journal.entries[step.deployment.key].reruns < RERUNS:
            self._journal.interrupted(step.deployment.key)
            self._again(step)
        else:
            self._finish(step, self._broken_off(step.deployment.key, UNKNOWN, why), why)

    def _again(self, step: Step) -> None:
        """Plan a deployment anew that turned out not to have been run, if it is still wanted."""
        key = step.deployment.key
        if key not in self._current:
            self._supersede(key)
            return
        ready = known(self._journal.entries, self._tools, self._deployed, self._where.state)
        for anew in plan.make([self._current[key]], ready, only=self._only):
            if anew.deployment.key == key:
                self._take_on(self._confirmed(anew))

    def _broken_off(self, key: str, code: int, sentence: str) -> Reply:
        folder = self._where.run(key)
        return failure(code, sentence, Capture(folder / "stdout"), Capture(folder / "stderr"))

    def _finish(self, step: Step, reply: Reply, reason: str = "") -> None:
        """Put a result on record. What is to be done with it waits until that is on disk, see `_tell`."""
        key = step.deployment.key
        found = result.make(reply, step.deployment, reason)
        kill_points.reached("runner.concluded")
        run = self._journal.entries[key].run
        earlier = runner.ended_at(self._where.run(key), run) if run and step.verb is Verb.RESUME else None
        self._journal.finished(key, found, earlier)
        self._concluded.append((step, found))

    def _tell(self) -> None:
        """Tell everybody what has ended, and send the results that are still waited for.

        What begins next is on record by the same flush: so a batch waits for the disk once for each deployment. Where
        that fails, the results are sent as those of an earlier agent are.
        """
        concluded, self._concluded = self._concluded, []
        if concluded:
            self._journal.secure()
        for step, found in concluded:
            deployment = step.deployment
            if step.verb is not Verb.ANSWER:
                self._view(functools.partial(self._keep, deployment, found.values))
                self._tidy(deployment.key)
            self._report.ended(step, self._journal.entries[deployment.key])
            self._send(deployment.key)

    # Delivering.

    def _send(self, key: str) -> None:
        entry = self._journal.entries[key]
        deployment = self._current.get(key)
        if deployment is not None and deployment.source in self._unconfirmed:
            return  # it is on record, and sent once its source has said that it is still waited for
        if deployment is None:
            if plan.superseded(self._current.values(), self._sources, {key: entry}):
                self._supersede(key)
            return  # else its source was not asked this time: the next pass that asks it will know
        if not deployment.target.wanted:
            self._settle(key, State.UNASKED)
            return
        self._delivery.send(key, deployment.target, entry.values or {})

    def _delivered(self, outcome: Outcome) -> None:
        entry = self._journal.entries.get(outcome.key)
        kill_points.reached("signals.judged")
        if entry is None or entry.state is not State.FINISHED:
            return  # superseded while it was under way
        if outcome.fate is Fate.SENT:
            self._settle(entry.key, State.SIGNALLED)
        elif outcome.fate is Fate.REFUSED:
            self._settle(entry.key, State.REFUSED, outcome.trouble)
        else:
            self._journal.tried(entry.key, outcome.trouble, time.time() + outcome.wait if outcome.wait else 0)
        self._report.delivered(self._journal.entries[entry.key], outcome)

    # The older agent's files, and small things.

    def _keep(self, deployment: Deployment, values: Mapping[str, object] | None = None) -> None:
        """Keep a deployment, and its result, for those who read heat-agents' folder."""
        if self._deployed.keeps(deployment.key):
            self._deployed.keep(deployment.key, {}, values)
            return
        chosen = selection.select(deployment)
        if isinstance(chosen, Config) and protocol.LEAVES not in deployment.document:
            self._deployed.keep(deployment.key, selection.chosen_document(deployment, chosen), values)

    def _view(self, write: Callable[[], None]) -> bool:
        """Write what is only for others to read, and return whether that went well: a full disk stops nothing."""
        try:
            write()
        except OSError as error:
            self._report.warn(f"cannot write to {self._deployed.directory}: {error.strerror}")
            return False
        return True

    def _settle(self, key: str, state: State, trouble: str = "") -> None:
        """Put on record that nothing more will be done: also what is left to be removed, and by whoever comes next."""
        self._journal.settled(key, state, trouble, untidy=key in self._untidy)

    def _tidy(self, key: str) -> None:
        self._untidy.discard(key)
        try:
            runner.tidy(self._where.run(key))
        except OSError as error:
            self._untidy.add(key)  # it may hold secrets: it is tried again
            self._report.warn(f"cannot remove what {key} was given: {error.strerror}: {error.filename}")

    def _tidy_rest(self) -> None:
        """Remove what runs were given that could not be removed when they ended."""
        for key in sorted(self._untidy):
            entry = self._journal.entries.get(key)
            if entry is not None and entry.state not in (State.ACCEPTED, State.RUNNING):
                self._tidy(key)
            else:
                self._untidy.discard(key)

    def _entry_run(self, key: str) -> Run:
        run = self._journal.entries[key].run
        if run is None:
            raise StateError(f"the journal says that {key} is running, but not as which process")
        return run

    def _wait(self, timeout: float, also: Iterable[int]) -> None:
        poll = select.poll()
        for descriptor in also:
            poll.register(descriptor, select.POLLIN)
        if self._deletes:
            timeout = min(timeout, 1.0)  # its patience with others comes to an end some time
        poll.register(self._delivery.fileno(), select.POLLIN)
        for active in self._active.values():
            running = active.running
            if running.fileno() < 0:
                timeout = min(timeout, _TICK)
            else:
                poll.register(running.fileno(), select.POLLIN)
            if running.due is not None:
                timeout = min(timeout, max(running.due - processes.since_boot(), 0))
        if self._delivery.due is not None:
            timeout = min(timeout, self._delivery.due)
        if self._active:
            timeout = min(timeout, self._bounding.due)
        poll.poll(timeout * 1000)


def known(entries: Mapping[str, Entry], tools: Tools, deployed: Deployed, state: Path) -> plan.Known:
    """Return what a plan has to know beside the deployments."""
    marked = deployed.keys()
    return plan.Known(
        entries=entries,
        marked=marked or frozenset(),
        folder="" if marked is None else str(deployed.directory),
        ran=lambda key: runner.has_run(f"{state}/runs/{key}"),
        find=tools.find,
        installed=tools.installed,
        now=time.time(),
        boot=processes.boot_id(),
    )


def _order(step: Step) -> tuple[bool, str]:
    """Order steps by the names of their deployments; clean-ups go first."""
    return step.deployment.action != clean_up.ACTION, step.deployment.name


def _outputs_are_gone(deployment: Deployment, run: Run) -> bool:
    """Whether the outputs of a run went down with the machine: heat-agents' own folder for them survives no boot."""
    ours = run.hook.startswith(BUILTIN) and bool(deployment.outputs)
    return ours and run.boot != processes.boot_id() and not os.path.isdir(run.outputs)  # noqa: PTH112  # never raises


def _runnable(step: Step) -> tuple[Config, Tool, str]:
    if step.config is None or step.tool is None:
        raise ValueError(f"the step to run {step.deployment.key} names no config or tool")
    return step.config, step.tool, step.deployment.key


def _note(reply: Reply) -> str:
    """Return the sentence of a reply that was given without running anything."""
    stderr = reply.get("deploy_stderr")
    return stderr.strip() if isinstance(stderr, str) else ""
