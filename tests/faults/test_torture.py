"""`kill -9` at random moments, of everything that there is to kill, for as long as asked; and every promise holds.

`make torture FOR=600 SEED=…`. Rounds go on beside each other, each on a machine of its own with a server of its own. In
a round, batches of deployments of all kinds are handed to the agent, which is killed again and again while it works on
them, alone or with its runs or with the whole machine; while it is not there, deployments are replaced and taken back;
its servers fail now and then. Then an agent that nobody disturbs does what is left, and all is held against the
promises. All choices of round N follow from the seed plus N; the moments are shares of how long a batch really takes.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from heat_config_agent.model.entry import State
from support import killing, promises, shares
from support.daemon import Daemon
from support.killing import AGENT, EVERYTHING, MACHINE, Boot
from support.loopback import Answer, SignalServer
from support.machine import Machine
from support.promises import KINDS, PATIENCE, World
from support.stories import Rounds

pytestmark = pytest.mark.takes(60)

KILLS = 100
"""Kills of the short form; or as many as come in `LONGEST` seconds."""
LONGEST = 180.0
AT_ONCE = 6
BATCHES = 3

WAYS = ("apply", "local", "request")
"""`heat-config-apply`, or the daemon with one of its sources."""

SPARING = {"a supervisor": 3, "a tool": 3, "a whole run": 2}
"""The processes that are killed next to the agent, with their number."""

FATAL = {
    AGENT: 10,
    "the agent and a supervisor": 3,
    "the agent and a whole run": 2,
    EVERYTHING: 2,
}
"""The processes that are killed together with the agent."""

CUT = Answer(headers={"Content-Length": "1000", "Connection": "close"}, body=b"{}")
PORTAL = Answer(
    headers={"Content-Type": "text/html"}, body=b"<!-- --><html><p>Log in</p></html>"
)

TROUBLES: tuple[Callable[[SignalServer, random.Random], None], ...] = (
    lambda server, _: server.refuse(),
    lambda server, _: setattr(server, "always", Answer(delay=0.3)),
    lambda server, _: setattr(server, "always", Answer(status=503)),
    lambda server, _: setattr(server, "always", Answer(reset=True)),
    lambda server, chance: server.answers.extend(
        chance.choice(
            (
                Answer(hang_up=True),
                Answer(status=500),
                Answer(reset=True),
                Answer(creep=0.0005),
                CUT,
                PORTAL,
                Answer(),
            )
        )
        for _ in range(8)
    ),
)
"""The faults that a server may have for a while."""

MET = {
    State.ACCEPTED: "something had yet to begin",
    State.RUNNING: "something ran",
    State.FINISHED: "a result was to be delivered",
}
"""The states in which a kill may find a run."""


@dataclass(frozen=True, order=True)
class Strike:
    """When to kill what."""

    moment: float
    """Seconds after the agent was started, at the earliest."""
    victim: str
    which: float
    """Chooses among several."""
    later: float
    """Seconds after something runs, where it is about what runs."""


class Round:
    """Some batches of deployments on one machine."""

    def __init__(
        self, folder: Path, seed: int, durations: Mapping[str, float], way: str = ""
    ) -> None:
        """Make all choices by the seed. `durations` are those of a batch, by way."""
        folder.mkdir()
        self.seed = seed
        self._heat = SignalServer()
        self._heat.start()
        self._metadata = SignalServer()
        self._metadata.start()
        self._machine = Machine(folder)
        self.world = World(self._machine, self._heat, seed)
        self._chance = self.world.chance
        self.way = way or self._chance.choice(WAYS)
        self._durations = durations
        self.kills: Counter[str] = Counter()
        """By what was killed."""
        self.met: Counter[str] = Counter()
        """In how many of them something was under way, by what it was."""
        self._agent: subprocess.Popen[bytes] | None = None
        self._told = 0
        """When the daemon before this one has said for the last time how it is."""
        self._reboots = self._chance.random() < 0.4
        self._boot: Boot | None = None
        self._daemon = Daemon(self._machine)
        self._daemon.settings["request"] = {
            "metadata_url": self._metadata.url("metadata")
        }
        self._daemon.configure(
            collectors=self.way if self.way != "apply" else "local",
            parallel=self._chance.choice((1, 3)),
            replaced=self._chance.choice(("finish", "cancel")),
            grace=0.2,
            min_polling_interval=0.1,
            polling_interval=0.3,
        )

    def run(self, is_enough: Callable[[], bool]) -> int:
        """Torture the agent, and hold what came of it against the promises; return over how many batches."""
        batches = 0
        if self._reboots and not Boot.trouble():
            self._boot = Boot()
        try:
            while batches < BATCHES and not (batches and is_enough()):
                self._batch()
                batches += 1
            self.world.check()
        finally:
            self._end()
        return batches

    def measure(self) -> float:
        """Return how long an agent that nobody disturbs works on a batch, and hold that against the promises too."""
        try:
            given = self.world.batch(KINDS[:5])
            began = time.monotonic()
            self._start(given)
            self._finish(given)
            duration = time.monotonic() - began
            self.world.check()
        finally:
            self._end()
        return duration

    def _end(self) -> None:
        if self._agent and self._agent.poll() is None:
            killing.kill_agent(self._agent, self._boot)
        if self._boot:
            self._boot.end()
        self._machine.end()
        self._heat.stop()
        self._metadata.stop()

    def _batch(self) -> None:
        given = self.world.any_batch(self._chance.randint(3, 7))
        replaces = self._chance.random() < 0.5
        for number in range(self._chance.randint(3, 8)):
            if replaces and number:
                self._replace(given)
            self._trouble(self._heat)
            if not replaces:  # while the metadata cannot be had, what was there last is still in force
                self._trouble(self._metadata)
            self._start(given)
            self._disturb()
        for server in (self._heat, self._metadata):
            _mend(server)
        self._start(given)
        self._finish(given)

    def _replace(self, given: list[dict[str, Any]]) -> None:
        """Have others stand in the places of some deployments, or nothing."""
        for index in [
            index for index in range(len(given)) if self._chance.random() < 0.3
        ]:
            action = self._chance.choice(("UPDATE", "DELETE"))
            given[index] = self.world.replace(
                given[index], self._chance.choice(KINDS), action
            )
        if len(given) > 2 and self._chance.random() < 0.2:
            self.world.withdraw(given.pop(self._chance.randrange(len(given))))

    def _trouble(self, server: SignalServer) -> None:
        _mend(server)
        if self._chance.random() < 0.4:
            self._chance.choice(TROUBLES)(server, self._chance)

    # The agent.

    def _start(self, given: list[dict[str, Any]]) -> None:
        """Start an agent on a document."""
        before = self._boot.before if self._boot else ()
        if self.way == "apply":
            self._agent = self.world.start(given, before=before)
            return
        if self.way == "local":
            self._daemon.put(given)
        else:
            body = json.dumps({"deployments": given}).encode()
            self._metadata.named["metadata"] = replace(self._metadata.always, body=body)
        self._told = _changed(self._machine.state / "health.json")
        self._agent = self.world.start_daemon(self._daemon.path, before=before)

    def _finish(self, given: list[dict[str, Any]]) -> None:
        """Let the agent do all there is left to do."""
        assert self._agent
        if self.way == "apply":
            code = self._agent.wait(PATIENCE)
            assert code in (0, 1, 5), f"exit code {code}: {self.world.said()[-3000:]}"
            if not self._is_done([]):
                self.world.finish(given, before=self._boot.before if self._boot else ())
            return
        process, wanted = self._agent, [each["id"] for each in given]
        deadline = time.monotonic() + PATIENCE
        while process.poll() is None and not (self._is_up() and self._is_done(wanted)):
            assert time.monotonic() < deadline, (
                f"it is not done in time: {self.world.said()[-3000:]}"
            )
            time.sleep(0.05)
        assert process.poll() is None, (
            f"the daemon has ended: {self.world.said()[-3000:]}"
        )
        [agent] = killing.inner(process, self._boot)
        agent.send_signal(signal.SIGTERM)
        code = process.wait(PATIENCE)
        assert code == 0, f"exit code {code}: {self.world.said()[-3000:]}"

    def _is_up(self) -> bool:
        """Return whether the daemon has written its health file since it was started."""
        return _changed(self._machine.state / "health.json") != self._told

    def _is_done(self, wanted: Iterable[str]) -> bool:
        entries = self.world.entries()
        return all(each in entries for each in wanted) and all(
            each.settled for each in entries.values()
        )

    # Killing.

    def _disturb(self) -> None:
        """Kill this and that while the agent works, and the agent at last."""
        agent, chance = self._agent, self._chance
        assert agent
        began = time.monotonic()
        fatal = {**FATAL, **({MACHINE: 10} if self._boot else {})}
        strikes = [self._strike_of(SPARING) for _ in range(chance.choice((1, 2, 2, 3)))]
        end = self._strike_of(fatal)
        earlier = sorted(strike for strike in strikes if strike.moment < end.moment)
        for strike in (*earlier, end):
            wait = began + strike.moment - time.monotonic()
            if wait > 0 and killing.ends_within(agent, wait):
                return
            if strike.victim != AGENT:
                patience = self._durations[self.way] / 2
                killing.wait_for_a_run(self._running, agent, patience)
                time.sleep(strike.later)
            self._strike(agent, strike)

    def _strike_of(self, victims: Mapping[str, int]) -> Strike:
        [victim] = self._chance.choices(list(victims), list(victims.values()))
        moment = self._chance.uniform(0, self._durations[self.way])
        return Strike(
            moment, victim, self._chance.random(), self._chance.uniform(0, 0.2)
        )

    def _strike(self, agent: subprocess.Popen[bytes], strike: Strike) -> None:
        """Kill."""
        hit, killed = killing.strike(
            strike.victim, strike.which, self._machine, agent, self._boot
        )
        if strike.victim == MACHINE:
            killed = list(self._running())
        self.world.interrupted.update(killed)
        if hit:
            self.world.kills += 1
            self.kills[strike.victim] += 1
            states = {each.state for each in self.world.entries().values()}
            self.met.update(what for state, what in MET.items() if state in states)

    def _running(self) -> list[str]:
        """Return the ids of the deployments that the journal says are running."""
        entries = self.world.entries().values()
        return [each.id for each in entries if each.state is State.RUNNING]


def _changed(path: Path) -> int:
    """Return when a file was changed; 0 where there is none."""
    return path.stat().st_mtime_ns if path.exists() else 0


def _mend(server: SignalServer) -> None:
    """Have a server be as it should be."""
    server.always = Answer()
    server.answers.clear()
    if server.refuses:
        server.start()


class Torture(Rounds):
    """Rounds until enough was killed or the time is over."""

    def __init__(self, folder: Path, seed: int, seconds: float = 0) -> None:
        """Go on for so many seconds; with none, in the short form."""
        super().__init__(folder, seed, at_once=AT_ONCE)
        self._for = seconds
        self._lock = threading.Lock()
        self._durations: dict[str, float] = {}
        self._rounds: Counter[str] = Counter()
        self._batches = self.deployments = self.results = 0
        self._counted: list[tuple[Counter[str], Counter[str]]] = []

    @property
    def kills(self) -> Counter[str]:
        """Return the kills by process, with their number."""
        return sum((kills for kills, _ in list(self._counted)), Counter())

    def run(self) -> None:
        with ThreadPoolExecutor(len(WAYS)) as threads:
            took = threads.map(self._measured, WAYS)
            self._durations = dict(zip(WAYS, took, strict=True))
        print(
            f"a batch takes {', '.join(f'{key} {value:.1f} s' for key, value in self._durations.items())}"
        )
        super().run()

    def is_enough(self) -> bool:
        late = self.seconds > (self._for or LONGEST)
        return late or (not self._for and self.kills.total() >= KILLS)

    def __str__(self) -> str:
        """Return how far it has come."""
        what = ", ".join(
            f"{victim} {number}" for victim, number in self.kills.most_common()
        )
        met = sum((met for _, met in list(self._counted)), Counter())
        while_ = ", ".join(
            f"{number} while {what}" for what, number in met.most_common()
        )
        rounds = ", ".join(
            f"{number} by {way}" for way, number in sorted(self._rounds.items())
        )
        return (
            f"{self.seconds:.0f} s: {self.kills.total()} kills ({what}), {while_ or 'none'}; "
            f"{self.deployments} deployments in {self._batches} batches, rounds: {rounds or 'none yet'}"
        )

    def _measured(self, way: str) -> float:
        return Round(self.folder / way, self.seed, self._durations, way).measure()

    def play(self, folder: Path, seed: int) -> None:
        done = Round(folder, seed, self._durations)
        self._counted.append((done.kills, done.met))
        batches = done.run(self.over.is_set)
        with self._lock:
            self._rounds[done.way] += 1
            self._batches += batches
            self.deployments += len(done.world.handed)
            self.results += len(done.world.heat.signals)


@pytest.mark.torture(share=6)
@pytest.mark.timeout(0 if shares.FOR else 900)
@pytest.mark.fault(
    1,
    "`kill -9` at random moments, of the agent, a supervisor, a tool, a whole run, all of these, or the machine, while "
    "servers fail and deployments are replaced",
    "each deployment is run once, and its one true result arrives; a replaced deployment is neither begun nor reported",
)
def test_random_kills_run_each_deployment_once(
    tmp_path: Path, seconds: float, counted: Counter[str], tried: Callable[[int], None]
) -> None:
    """Whenever what is killed: each deployment is run once, and the server hears once, and truly, what came of it."""
    seed = promises.seed("TORTURE_SEED")
    print(f"\nTORTURE_SEED={seed}")
    if Boot.trouble():
        print(f"the machine does not go down: {Boot.trouble()}")
    torture = Torture(tmp_path, seed, seconds)
    torture.run()
    counted.update(
        kills=torture.kills.total(),
        deployments=torture.deployments,
        results=torture.results,
    )
    tried(torture.kills.total())
