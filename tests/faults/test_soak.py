"""The daemon for a long time, struck again and again, before servers on which nobody can rely; and nothing breaks.

`make torture FOR=600 SEED=… ARGS=tests/faults/test_soak.py`. The metadata of six resources is at a URL, and changes
every two seconds; results go to another one. A third of all answers of both are faulty. Every now and then the daemon
is killed, ended, stopped, or sent signals, or a supervisor is killed. Then all is held against the promises, and what
the daemon took late against what it took early.
The choices follow from the seed; when each of them meets whom is a matter of time.
"""

from __future__ import annotations

import json
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from support import growth, killing, promises, proxy, proxy_faults, shares
from support.daemon import LONG, Daemon
from support.loopback import Answer, SignalServer, wait_until
from support.machine import Machine
from support.promises import KINDS, World
from support.proxy import Exchange, Fault, Proxy, Reply

pytestmark = pytest.mark.takes(60)

SHORT = 40.0
"""Seconds of the short form."""

RESOURCES = 6
FLIP = 2.0
"""Seconds between two changes of the metadata."""

FAULTY = 0.35
"""The share of answers that are not what they should be."""

BLOWS = (8.0, 25.0)
"""Seconds from one blow to the next, at least and at most; fewer in the short form, so that there are some."""

STOPPED = 3.0
LATE = 3.0
"""Seconds in which the daemon may still do something for what it knows to be replaced; more on a busy machine."""

WORK = tuple(
    each for each in KINDS if not each.repeatable and each.name != "leaves a daemon"
)

KILL, TERM, STOP, HUP, USR1, SUPERVISOR = (
    "kill -9 of the daemon",
    "TERM",
    "STOP",
    "HUP",
    "50 USR1",
    "kill -9 of a supervisor",
)


def _slow(seconds: float) -> Fault:
    def act(exchange: Exchange) -> None:
        time.sleep(seconds)
        proxy.PASS.act(exchange)

    return Fault("is slow", act)


_HTML = ("Content-Type", "text/html")
_TAKES_NOTHING = (
    proxy_faults.NO_DOCUMENT[0],
    proxy_faults.answers(
        200,
        "answers with a page that begins with a comment",
        _HTML,
        body=b"<!-- x --><html></html>",
    ),
    proxy_faults.answers(203, "answers 203 with a page", _HTML, body=proxy.PAGE),
    proxy_faults.says(
        "cuts its answer short, and has done nothing",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nshort",
    ),
)
"""A server in the place of the real one that does not know what it was sent."""


def _faults(chance: random.Random) -> tuple[Fault, ...]:
    """Return what a server may do instead of what it should."""
    hangs = chance.uniform(5, 12)
    redirect = next(
        each
        for each in proxy_faults.redirects("", "")
        if each.name == "redirects to a file"
    )
    return (
        *(proxy_faults.answers(status) for status in (503, 500, 429)),
        *(proxy_faults.BREAKS_OFF[index] for index in (4, 5)),
        Fault("hangs", lambda exchange: exchange.hold(hangs)),
        *proxy_faults.NO_HTTP[1:3],
        *proxy_faults.CUTS_BODY[1:4],
        *_TAKES_NOTHING,
        redirect,
        _slow(chance.uniform(0.1, 2)),
        proxy_faults.UNUSUAL_SUCCESS[2],
    )


class Front(Proxy):
    """Stands before a server, and does not do what it should with a share of all requests."""

    def __init__(self, upstream: str, seed: int) -> None:
        super().__init__(upstream)
        self._chance, self._choosing = random.Random(seed), threading.Lock()  # noqa: S311  # it is to be repeatable
        self.faulty: Counter[str] = Counter()
        """The faults that it showed instead, with their counts."""
        self.fail(Fault("any", self._any))

    def _any(self, exchange: Exchange) -> None:
        with self._choosing:
            fault = (
                self._chance.choice(_faults(self._chance))
                if self._chance.random() < FAULTY
                else _unless_known
            )
        if fault is not _unless_known:
            self.faulty[fault.name] += 1
        fault.act(exchange)


def _pass_unless_known(exchange: Exchange) -> None:
    """Hand a request on, unless it names what there is already."""
    assert exchange.request
    reply = exchange.forward()
    tag = dict(reply.headers).get("ETag")
    known = tag and ("If-None-Match", tag) in exchange.request.headers
    exchange.send(
        Reply(304, headers=(("ETag", tag),)).raw if known and tag else reply.raw
    )
    exchange.keep = True


_unless_known = Fault("hands it on", _pass_unless_known)


class Heat(SignalServer):
    """Takes results, behind what stands before it."""

    front = ""

    @property
    def origin(self) -> str:
        return self.front or super().origin


class Soak:
    """The daemon, its servers, and what is done to them."""

    def __init__(self, folder: Path, seed: int, seconds: float) -> None:
        self._chance = random.Random(seed)  # noqa: S311  # it is to be repeatable
        self._seconds = seconds or SHORT
        self._blows = BLOWS if seconds else (2.0, 5.0)
        self._machine, self._heat, self._metadata = (
            Machine(folder),
            Heat(),
            SignalServer(),
        )
        for each in (self._heat, self._metadata):
            each.start()
        self.fronts = [
            Front(each.origin, seed + number)
            for number, each in enumerate((self._heat, self._metadata))
        ]
        self._heat.front = self.fronts[0].origin
        self.world = World(self._machine, self._heat, seed)
        self.samples: list[growth.Sample] = []
        self.blows: Counter[str] = Counter()
        self.flips = 0
        self._left: dict[str, int] = {}
        """Since which version of the metadata each deployment is not in it any more, by id."""
        self._lag = 0.0
        """By how much these tests themselves were late, at most: the machine is busy, and the daemon may be as late."""
        self._stops: list[tuple[float, float]] = []
        """When the daemon was stopped, from and to."""
        self._given: list[dict[str, Any] | None] = list(
            self.world.any_batch(RESOURCES, WORK)
        )
        self._publish()
        self._daemon = Daemon(self._machine)
        name = self._metadata.url("metadata").removeprefix(self._metadata.origin)
        self._daemon.settings["request"] = {
            "metadata_url": f"{self.fronts[1].origin}{name}"
        }
        self._daemon.configure(
            collectors="request",
            parallel=3,
            replaced=self._chance.choice(("finish", "cancel")),
            grace=0.2,
            keep_count=40,
            keep_secrets=10,
        )

    # What there is to do.

    def _publish(self) -> None:
        """Have the metadata be what is given now, under a tag of its own."""
        body = json.dumps(
            {"deployments": [each for each in self._given if each]}
        ).encode()
        self._metadata.named["metadata"] = Answer(
            body=body, headers={"ETag": f'"{self.flips}"'}
        )

    def _flip(self) -> None:
        """Have others stand in the places of some deployments; or nothing, for a while."""
        self.flips += 1
        for index in self._chance.sample(range(RESOURCES), self._chance.randint(1, 3)):
            old, kind = self._given[index], self._chance.choice(WORK)
            if old is None:
                [self._given[index]] = self.world.batch([kind])
                continue
            self._left[old["id"]] = self.flips
            leaves = self._chance.random() < 0.1
            action = self._chance.choice(("UPDATE", "UPDATE", "DELETE"))
            self._given[index] = (
                None if leaves else self.world.another(old, kind, action)
            )
        self._publish()

    # The time.

    def run(self) -> None:
        """Go on for as long as asked; then let what is left be done, and hold everything against the promises."""
        try:
            self._daemon.start(wait=False)
            self._go_on()
            self._finish()
            self._date()
            self.world.check()
            wrong = growth.unbounded(self.samples)
            assert not wrong, "\n".join(wrong)
        finally:
            self._daemon.end()
            self._machine.end()
            for each in self.fronts:
                each.close()
            for server in (self._heat, self._metadata):
                server.stop()

    def _go_on(self) -> None:
        now = time.monotonic()
        end, flip, blow, look, tell = (
            now + self._seconds,
            now,
            now + self._chance.uniform(*self._blows),
            now,
            now + 10,
        )
        while (now := time.monotonic()) < end:
            assert not self._daemon.ended, (
                f"the daemon has ended: {self.world.said()[-3000:]}"
            )
            if now >= flip:
                self._flip()
                flip += FLIP
            if now >= blow:
                self._strike()
                blow = time.monotonic() + self._chance.uniform(*self._blows)
            if now >= look:
                found = growth.sample(self._daemon.pid, self._machine.state)
                self.samples += [found] if found else []
                look = now + 0.5
            if now >= tell:
                print(self, flush=True)
                tell = now + 10
            wake = min(flip, blow, look, end)
            time.sleep(max(wake - time.monotonic(), 0))
            self._lag = max(self._lag, time.monotonic() - max(wake, now))

    def _strike(self) -> None:
        what = self._chance.choice(
            (
                KILL,
                KILL,
                KILL,
                TERM,
                TERM,
                STOP,
                STOP,
                HUP,
                USR1,
                SUPERVISOR,
                SUPERVISOR,
            )
        )
        if what == SUPERVISOR:
            if not self._kill_a_supervisor():
                return
        elif what in (KILL, TERM):
            code = self._daemon.stop(signal.SIGKILL if what == KILL else signal.SIGTERM)
            assert code == (-signal.SIGKILL if what == KILL else 0), (
                f"{code}: {self.world.said()[-3000:]}"
            )
            self._daemon.start(wait=False)
        elif what == STOP:
            began = time.monotonic()
            self._daemon.send(signal.SIGSTOP)
            time.sleep(STOPPED)
            self._daemon.send(signal.SIGCONT)
            self._stops.append((began, time.monotonic()))
        elif self._daemon.health().get("process") == self._daemon.pid:
            # before, signals have their usual effect
            for _ in range(1 if what == HUP else 50):
                self._daemon.send(signal.SIGHUP if what == HUP else signal.SIGUSR1)
        else:
            return
        self.blows[what] += 1

    def _kill_a_supervisor(self) -> bool:
        """Kill the supervisor of a run that has said whose it is; return whether there was one."""
        for each in killing.runs(self._machine):
            printed = self._machine.state / "runs" / each.id / "stdout"
            said = printed.exists() and each.id.encode() in printed.read_bytes()
            if said and each.kill("a supervisor"):
                self.world.interrupted.add(each.id)
                return True
        return False

    # The end.

    def _finish(self) -> None:
        """Have the servers be as they should be, and let the daemon do what is left."""
        for each in self.fronts:
            each.mend()
        ids = {each["id"] for each in self._given if each}

        def is_done() -> bool:
            if (
                not self._daemon.ended
                and self._daemon.health().get("process") == self._daemon.pid
            ):
                # so that it does not wait for as long as faults have taught it
                self._daemon.send(signal.SIGUSR1)
            time.sleep(0.2)
            entries = self.world.entries()
            return self._daemon.ended or (
                ids <= entries.keys() and all(each.settled for each in entries.values())
            )

        wait_until(is_done, 2 * LONG)
        assert not self._daemon.ended, (
            f"the daemon has ended: {self.world.said()[-3000:]}"
        )
        assert self._daemon.stop() == 0
        self._heat.settle()

    def _date(self) -> None:
        """Say when each deployment was replaced: when the daemon is known to have taken metadata without it."""
        asked = [
            (each.at, each.headers.get("If-None-Match", ""))
            for each in self._metadata.signals
        ]
        for identity, moment in replaced(
            self._left, asked, self._stops, LATE + 3 * self._lag
        ).items():
            self.world.handed[identity].replaced = moment

    def __str__(self) -> str:
        """Return what has been done."""
        blows = ", ".join(
            f"{number} {what}" for what, number in self.blows.most_common()
        )
        faults = sum(each.faulty.total() for each in self.fronts)
        asked = sum(len(each.requests) for each in self.fronts)
        return (
            f"{self.flips} flips, {len(self.world.handed)} deployments, {len(self._heat.signals)} results; "
            f"{faults} of {asked} answers faulty; blows: {blows or 'none'}; {growth.told(self.samples)}"
        )


def replaced(
    left: Mapping[str, int],
    asked: Iterable[tuple[float, str]],
    stops: Iterable[tuple[float, float]],
    late: float,
) -> dict[str, float]:
    """Return the moment after which nothing may be done for each deployment, by id.

    It is so many seconds after the daemon has asked, at a moment, for what is newer than a version of the metadata
    without the deployment; or after it was stopped then. What it may never have heard of is never too late.
    """
    taken: dict[int, float] = {}
    for at, tag in asked:
        if tag.strip('"').isdecimal():
            taken.setdefault(int(tag.strip('"')), at)
    moments = {}
    for identity, version in left.items():
        moment = (
            min(
                (at for tag, at in taken.items() if tag >= version),
                default=float("inf"),
            )
            + late
        )
        for began, ended in stops:
            moment = ended + late if began < moment < ended + late else moment
        moments[identity] = moment
    return moments


def test_deadline_counts_from_the_news_of_a_replacement() -> None:
    """The deadline counts from when the daemon learns of a replacement, and a stopped daemon may finish its step."""
    asked = [(10.0, ""), (11.0, '"3"'), (12.0, '"3"'), (20.0, '"5"')]
    left = {"a": 2, "b": 3, "c": 4, "d": 6}
    assert replaced(left, asked, [], 1.0) == {
        "a": 12.0,
        "b": 12.0,
        "c": 21.0,
        "d": float("inf"),
    }
    assert replaced(left, asked, [(20.5, 23.5)], 1.0)["c"] == 24.5
    assert replaced(left, asked, [(30.0, 33.0)], 1.0)["c"] == 21.0


@pytest.mark.torture(share=6)
@pytest.mark.timeout(0 if shares.FOR else 600)
@pytest.mark.fault(
    1,
    "for a long time, a third of all answers faulty, deployments replaced all the time, and the daemon killed, ended, "
    "stopped, sent signals, or a supervisor killed, every few seconds",
    "nothing is lost, run twice, or reported falsely or late; and what the daemon takes does not grow",
)
def test_promises_hold_over_a_long_time(
    tmp_path: Path, seconds: float, counted: Counter[str], tried: Callable[[int], None]
) -> None:
    """Over a long time, with failing servers and faults, every promise is kept and nothing grows."""
    seed = promises.seed("TORTURE_SEED")
    print(f"\nTORTURE_SEED={seed}")
    folder = tmp_path / "machine"
    folder.mkdir()
    soak = Soak(folder, seed, seconds)
    try:
        soak.run()
    except Exception as error:
        raise AssertionError(
            f"make torture SEED={seed} ARGS=tests/faults/test_soak.py\n{soak}\n{error}"
        ) from error
    print(soak, flush=True)
    if not seconds or seconds >= SHORT:
        assert soak.blows
        assert all(each.faulty for each in soak.fronts)
    kills = soak.blows[KILL] + soak.blows[SUPERVISOR]
    counted.update(
        kills=kills,
        deployments=len(soak.world.handed),
        results=len(soak.world.heat.signals),
    )
    tried(soak.blows.total())
