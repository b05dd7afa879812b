"""The agent is killed at each of its kill points in turn: whatever it was about to do is done once, and told truly.

Each scenario is a piece of an agent's life, and passes the points that it is there for. First it is played with nobody
killed, to see how often each point is passed; then with the kills, in worlds of their own, with an agent that is
started again whenever it was killed; then the promises are checked. Some of the kills share a life: the agent dies at
one point, the next agent at another. By `make torture` every passing of every point of every scenario is tried, each
in a life of its own.
"""

from __future__ import annotations

import json
import random
import signal
import threading
import time
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from faults.stories import AT_ONCE, Scenario, Stage, Theatre
from heat_config_agent.model.entry import OPEN, State
from support import kill_points, promises, shares
from support.loopback import Answer
from support.promises import KINDS, Kind

pytestmark = [pytest.mark.takes(60), pytest.mark.apart]

LATER = 3
"""Kills of each scenario at a later passing of its own points, at most."""

MORE = 1
"""Kills of each scenario, beside those at its own points, at points that it passes too."""

QUICK, SLOW, FAILS = KINDS[:3]
HANGS = next(kind for kind in KINDS if kind.limited)
HOLDS = Kind("holds", "until [ -e @.go ]; do sleep 0.05; done")
REPEATABLE = Kind(
    "holds, repeatable", HOLDS.body, options={"idempotent": True}, repeatable=True
)
REBOOTS = Kind("reboots", '[ -n "$HEAT_REBOOTS" ] || exit 194', reboots=1)
AGAIN = {"retry": {"codes": [75], "times": 2, "delay": 0.05}}
RETRIED = Kind(
    "retried", '[ "$HEAT_ATTEMPT" = 3 ] || exit 75', options=AGAIN, retries=2
)
IN_VAIN = Kind("retried in vain", "", code=75, options=AGAIN, retries=2)
ENDLESS = Kind("ends when it is stopped", "sleep 600", limited=True)
GIVEN_UP = Kind(
    "is not run again when it is stopped",
    "",
    code=75,
    options={"retry": {"codes": [75], "times": 2, "delay": 600}},
    limited=True,
)


# The scenarios.


def every_kind(stage: Stage) -> None:
    """A batch of every kind of work."""
    stage.finish(stage.world.batch(KINDS))


def older_folder(stage: Stage) -> None:
    """The older agent's folder is in another place, and is taken over."""
    old = stage.machine.folder / "old"
    old.mkdir(mode=0o700)
    (old / "x.json").touch(0o600)
    stage.machine.environment |= {
        "HEAT_CONFIG_DEPLOYED": str(stage.machine.state / "deployed"),
        "HEAT_CONFIG_DEPLOYED_OLD": str(old),
    }
    stage.finish(stage.world.batch([QUICK, FAILS]))
    assert (stage.machine.state / "deployed" / "x.json").exists()


def server_away(stage: Stage) -> None:
    """The server does not answer, and then it does."""
    batch = stage.world.batch([QUICK, FAILS])
    stage.heat.refuse()

    def is_tried() -> bool:
        return any(entry.tries for entry in stage.world.entries().values())

    stage.apply(batch, "--deliver-for", "60", once=is_tried, then=stage.heat.start)
    stage.finish(batch)


def followed(stage: Stage) -> None:
    """An agent has been killed while a run went on."""
    batch = stage.world.batch([HOLDS, QUICK])
    agent = stage.world.start(batch)
    stage.world.wait_for(stage.began(batch[0]))
    stage.world.kill(agent)
    stage.finish(batch, lets_go=batch[0]["id"])


def interrupted(stage: Stage) -> None:
    """An agent and its supervisor have been killed; what was run may be run again."""
    batch = stage.world.batch([REPEATABLE, QUICK])
    agent = stage.world.start(batch)
    stage.world.wait_for(stage.began(batch[0]))
    stage.world.kill(agent)
    stage.kill_runs()
    # What was left of the run has been ended by then: it is there to be ended, however long the agent takes.
    stage.finish(
        batch,
        lets_go=batch[0]["id"],
        seen=lambda: stage.world.entries()[batch[0]["id"]].reruns > 0,
    )


def no_word(stage: Stage) -> None:
    """An agent has been killed before it gave a run its word."""
    batch = stage.world.batch([SLOW, QUICK])
    stage.die_at("runner.announced", 1, batch)
    stage.finish(batch)


def superseded(stage: Stage) -> None:
    """Deployments are replaced: one whose result could not be sent, and one that was not begun."""
    old = stage.world.batch([QUICK, FAILS])
    late = stage.world.batch([SLOW])
    stage.heat.refuse()
    stage.world.apply(old, "--deliver-for", "0")
    stage.die_at("journal.accepted.after", 1, [*old, *late])
    stage.heat.start()
    stage.finish([stage.world.replace(each) for each in (*old, *late)])


def torn(stage: Stage) -> None:
    """A power cut has left half a line in the journal."""
    batch = stage.world.batch([QUICK])
    stage.world.apply(batch)
    with (stage.machine.state / "journal").open("ab") as file:
        file.write(b'0badf00d {"key":"half')
    stage.finish([*batch, *stage.world.batch([FAILS])])


def damaged(stage: Stage) -> None:
    """A line of the journal is damaged: that a result was delivered."""
    batch = stage.world.batch([QUICK, FAILS])
    stage.world.apply(batch)
    stage.world.may_be_damaged = True
    path = stage.machine.state / "journal"
    lines = path.read_bytes().splitlines(keepends=True)
    index = next(i for i, line in enumerate(lines) if b'"signalled"' in line)
    lines[index] = lines[index].replace(b"signalled", b"signaXXed")
    path.write_bytes(b"".join(lines))
    stage.finish(batch)


def wishes(stage: Stage) -> None:
    """People have deployments run again, a result sent again, and one forgotten."""
    world = stage.world
    again, refused, forgotten = world.batch([QUICK, FAILS, SLOW])
    stage.heat.named[refused["id"]] = Answer(404)
    world.apply([again, refused, forgotten])
    assert world.entries()[refused["id"]].state is State.REFUSED
    del stage.heat.named[refused["id"]]
    world.handed[again["id"]].again = 1
    stage.command("retry", again["id"], **stage.armed)
    stage.command("retry", "--signal", refused["id"], **stage.armed)
    stage.finish([again, refused])
    world.handed[forgotten["id"]].forgotten = True
    stage.command("forget", "--yes", forgotten["id"], **stage.armed)
    stage.finish([again, refused])
    assert (
        forgotten["id"].encode() not in (stage.machine.state / "journal").read_bytes()
    )


def wishes_of_a_daemon(stage: Stage) -> None:
    """The same while a daemon holds the lock."""
    world = stage.world
    again, refused, forgotten, other = world.batch([QUICK, FAILS, SLOW, QUICK])
    stage.heat.named[refused["id"]] = Answer(404)
    stage.daemon.put([again, refused, forgotten])
    stage.run()
    stage.until(stage.settled([again, forgotten]))
    stage.until(lambda: world.entries()[refused["id"]].state is State.REFUSED)
    del stage.heat.named[refused["id"]]
    world.handed[again["id"]].again = 1
    begun = len(world.evidence(again["id"]))
    stage.command("retry", again["id"])
    stage.command("retry", "--signal", refused["id"])
    stage.until(stage.settled([refused]))
    stage.until(
        lambda: (
            len(world.evidence(again["id"])) >= 2 * begun and stage.settled([again])()
        )
    )
    stage.daemon.put([again, refused, other])
    stage.until(stage.settled([again, refused, other]))
    world.handed[forgotten["id"]].forgotten = True
    stage.command("forget", "--yes", forgotten["id"])
    stage.until(lambda: forgotten["id"] not in world.entries())
    stage.stop()


def stopped(stage: Stage) -> None:
    """People stop a run and a deployment that waits, of a command that works on them."""
    runs, waits = batch = stage.world.batch([ENDLESS, ENDLESS])
    stage.apply(
        batch,
        once=stage.began(runs),
        then=lambda: stage.command(
            "stop", "--yes", runs["id"], waits["id"], **stage.armed
        ),
    )
    # it was killed before the command, or together with it
    _stop_the_rest(stage, batch)
    stage.finish(batch)
    assert not stage.world.evidence(waits["id"])


def stopped_before_it_is_retried(stage: Stage) -> None:
    """The next attempt of a deployment is taken back."""
    batch = stage.world.batch([GIVEN_UP])
    identity = batch[0]["id"]
    stage.apply(
        batch,
        once=lambda: (
            identity in stage.world.entries()
            and stage.world.entries()[identity].state is State.RETRY
        ),
        then=lambda: stage.command("stop", "--yes", identity, **stage.armed),
    )
    _stop_the_rest(stage, batch)
    stage.finish(batch)


def stopped_without_an_agent(stage: Stage) -> None:
    """The agent was killed before: the command that stops does it itself."""
    batch = stage.world.batch([ENDLESS, ENDLESS])
    agent = stage.world.start(batch)
    stage.world.wait_for(stage.began(batch[0]))
    stage.world.wait_for(
        lambda: (
            stage.world.entries()[batch[0]["id"]].state is State.RUNNING
            and batch[1]["id"] in stage.world.entries()
        )
    )
    stage.world.kill(agent)
    _stop_the_rest(stage, batch)
    stage.finish(batch)
    assert not stage.world.evidence(batch[1]["id"])


def _stop_the_rest(stage: Stage, batch: Iterable[dict[str, Any]]) -> None:
    """Stop those of some deployments that run or wait."""
    for each in batch:
        entry = stage.world.entries().get(each["id"])
        if entry is not None and entry.state in OPEN:
            stage.command("stop", "--yes", each["id"], **stage.armed)


def stopped_by_a_daemon(stage: Stage) -> None:
    """The daemon ends a run and answers a deployment that waits, whenever it is killed meanwhile."""
    runs, waits = batch = stage.world.batch([ENDLESS, ENDLESS])
    stage.daemon.put(batch)
    stage.run()
    stage.until(stage.began(runs))
    stage.until(lambda: waits["id"] in stage.world.entries())
    stage.command("stop", "--yes", runs["id"], waits["id"])
    stage.until(stage.settled(batch))
    stage.stop()
    assert not stage.world.evidence(waits["id"])


def pruned(stage: Stage) -> None:
    """Deployments leave the metadata, are back, and leave again; then nothing is kept any longer than it has to be."""
    world = stage.world
    stays, *leave = world.batch([QUICK, FAILS, QUICK])
    world.apply([stays, *leave])
    stage.apply([stays])
    stage.apply([stays, *leave])
    stage.apply([stays])
    stage.daemon.configure(keep_secrets=0, keep_count=1)
    stage.command("prune", "--config", str(stage.daemon.path), **stage.armed)
    stage.finish([stays, *leave])


def daemon(stage: Stage) -> None:
    """A daemon with the documents in a directory; what is in it changes."""
    batch = stage.world.batch([QUICK, FAILS, HANGS])
    stage.daemon.put(batch)
    stage.run()
    stage.until(stage.settled(batch))
    more = stage.world.batch([QUICK])
    stage.daemon.put([*batch, *more])
    stage.until(stage.settled(more))
    stage.stop()


def reloaded(stage: Stage) -> None:
    """A deployment moves from one source to another; then the settings are read again, and name one source less."""
    world = stage.world
    moves, stays = world.batch([HOLDS, QUICK])
    path = stage.machine.write([stays], "other.json")
    stage.daemon.settings["file"] = {"path": str(path)}
    stage.daemon.configure(collectors="local, file")
    stage.daemon.put([moves])
    stage.run()
    stage.until(stage.began(moves))
    stage.machine.write([stays, moves], "other.json")
    stage.daemon.put([])
    stage.until(lambda: world.entries()[moves["id"]].source != "local")
    world.let_go(moves["id"])
    stage.until(stage.settled([moves, stays]))
    stage.daemon.put([moves, stays])
    stage.daemon.configure(collectors="local", parallel=2)
    document = stage.machine.state / "documents" / "file.json"
    more = world.batch([SLOW, QUICK])
    stage.tell(signal.SIGHUP)
    stage.daemon.put([moves, stays, *more])
    stage.until(stage.settled(more))
    stage.until(lambda: not document.exists())
    stage.stop()


def rebooted(stage: Stage) -> None:
    """A deployment asks for a reboot of the machine, which comes, and goes on after it."""
    stage.daemon.configure(reboot_command=stage.reboot_command())
    batch = stage.world.batch([REBOOTS, QUICK])
    stage.daemon.put(batch)
    stage.boot()
    stage.run()
    stage.until(lambda: bool(stage.reboots))
    stage.stop()
    stage.boot()
    stage.run()
    stage.until(stage.settled(batch))
    stage.stop()


def retried(stage: Stage) -> None:
    """Commands exit with a code of their option `retry`: one succeeds at the last attempt, and one never does."""
    stage.finish(stage.world.batch([RETRIED, IN_VAIN, QUICK]))


def another_instance(stage: Stage) -> None:
    """The disk wakes up in another instance: what was not delivered on the one before is not delivered any more."""
    world = stage.world
    told, untold = world.batch([QUICK]), world.batch([FAILS])
    stage.wake_up_as("i-1")
    stage.apply(told)
    stage.heat.refuse()
    stage.apply([*told, *untold], "--deliver-for", "0")
    stage.heat.start()
    for each in (*told, *untold):
        world.handed[each["id"]].forgotten = True
    world.withdraw(untold[0])
    stage.wake_up_as("i-2")
    stage.finish(world.batch([QUICK, SLOW]))
    assert (stage.machine.state / "of-i-1" / "journal").is_file()


def taught(stage: Stage) -> None:
    """The metadata is at a URL, and says that it is at another one."""
    first, second = (stage.metadata.url(name) for name in ("first", "second"))
    batch = stage.world.batch([QUICK, FAILS])
    points_on = {
        "os-collect-config": {
            "collectors": ["request"],
            "request": {"metadata_url": second},
        }
    }
    body = json.dumps({"deployments": batch, **points_on}).encode()
    stage.metadata.named = {"first": Answer(body=body), "second": Answer(body=body)}
    stage.daemon.settings["request"] = {"metadata_url": first}
    stage.daemon.configure(collectors="request")
    stage.run()
    stage.until(stage.settled(batch))
    stage.until((stage.machine.state / "learned.json").exists)
    stage.stop()


def queued(stage: Stage) -> None:
    """The metadata comes as messages in a Zaqar queue, each of which is let go of once it is safe on disk."""
    queue = Queue()
    stage.on_death.append(queue.expire)
    batch = stage.world.batch([QUICK, FAILS])
    queue.post({"deployments": batch[:1]})
    stage.daemon.settings["zaqar"] = {
        "auth_url": f"{queue.origin}/v3",
        "user_id": "u1",
        "password": "planted-password-of-the-user",
        "project_id": "p1",
        "queue_id": "q",
    }
    stage.daemon.configure(collectors="zaqar")
    try:
        stage.run()
        stage.until(stage.settled(batch[:1]))
        queue.post({"deployments": batch})
        stage.until(stage.settled(batch))
        stage.until(lambda: not queue.messages)
        stage.stop()
    finally:
        queue.stop()
    assert "planted-password-of-the-user" not in stage.world.said()


class Queue:
    """A Keystone that lets everybody in, and a Zaqar with one queue."""

    def __init__(self) -> None:
        self.messages: dict[str, tuple[object, str]] = {}
        """Id → what it says, and the claim on it."""
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", "0")))
                status, found = owner.answer(self.command, self.path)
                body = json.dumps(found).encode() if status != 204 else b""
                self.send_response(status)
                self.send_header("X-Subject-Token", "token")
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_DELETE = do_POST  # noqa: N815

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                """Say nothing."""

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            block_on_close = False

            def handle_error(self, request: Any, client_address: Any) -> None:
                """Ignore clients that were killed during a request."""

        self._server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(
            target=self._server.serve_forever, args=(0.02,), daemon=True
        ).start()

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def post(self, body: object) -> None:
        """Post a message."""
        self.messages[f"m{time.monotonic_ns()}"] = (body, "")

    def expire(self) -> None:
        """Have all claims end: those of who was killed do, after a minute."""
        self.messages = {name: (body, "") for name, (body, _) in self.messages.items()}

    def answer(self, verb: str, path: str) -> tuple[int, object]:
        parts = urlsplit(path)
        what = (verb, parts.path.rpartition("/")[2])
        if what == ("POST", "tokens"):
            return 201, {"token": self._token()}
        if what == ("POST", "claims"):
            free = [name for name, (_, claim) in self.messages.items() if not claim]
            for name in free:
                self.messages[name] = (self.messages[name][0], "c1")
            return (201, self._listed(free)) if free else (204, None)
        if what == ("GET", "messages"):
            return 200, self._listed(list(self.messages))
        if what == ("DELETE", "messages"):
            for name in parse_qs(parts.query)["ids"][0].split(","):
                self.messages.pop(name, None)
            return 204, None
        return 404, {}

    def _listed(self, names: list[str]) -> object:
        return {
            "messages": [
                {
                    "id": name,
                    "href": f"/v2/queues/q/messages/{name}?claim_id=c1",
                    "ttl": 3600,
                    "age": 0,
                    "body": self.messages[name][0],
                }
                for name in names
            ]
        }

    def _token(self) -> object:
        endpoint = {
            "id": "e",
            "interface": "public",
            "region": "R",
            "region_id": "R",
            "url": self.origin,
        }
        return {
            "methods": ["password"],
            "user": {"id": "u1", "name": "u", "domain": {"id": "d", "name": "d"}},
            "project": {"id": "p1", "name": "p", "domain": {"id": "d", "name": "d"}},
            "issued_at": "2026-01-01T00:00:00.000000Z",
            "expires_at": "2099-01-01T00:00:00.000000Z",
            "catalog": [
                {
                    "type": "messaging",
                    "name": "zaqar",
                    "id": "z",
                    "endpoints": [endpoint],
                }
            ],
        }


def _records(*names: str) -> tuple[str, ...]:
    return tuple(
        f"journal.{name}.{moment}" for name in names for moment in ("before", "after")
    )


SCENARIOS = (
    Scenario(
        every_kind,
        _records("accepted", "running", "finished", "settled", "marked"),
        part="the journal",
    ),
    Scenario(
        every_kind,
        (
            *("journal.flush.before", "journal.flush.after"),
            *("journal.anew.before", "journal.anew.written", "journal.anew.after"),
            *(
                "deployed.deployment",
                "deployed.result",
                "signals.before",
                "signals.after",
                "signals.judged",
            ),
        ),
        part="files and signals",
    ),
    Scenario(
        every_kind,
        (
            *(
                "runner.folder",
                "runner.prepared",
                "runner.spawned",
                "runner.announced",
                "runner.word",
            ),
            *(
                "runner.ending",
                "runner.term",
                "runner.kill",
                "runner.closed",
                "runner.concluded",
                "runner.tidied",
            ),
        ),
        part="runs",
    ),
    Scenario(older_folder, ("deployed.taken_over",)),
    Scenario(server_away, _records("tried")),
    Scenario(followed, ("runner.adopted",)),
    Scenario(interrupted, (*_records("interrupted"), "runner.remains")),
    Scenario(no_word, _records("not_started")),
    Scenario(superseded, _records("drop", "settled")),
    Scenario(torn, ("journal.torn",)),
    Scenario(damaged, ("journal.aside",)),
    Scenario(
        wishes,
        (
            *_records("again", "send_again"),
            *("journal.anew.before", "journal.anew.written", "journal.anew.after"),
            *("asked.left", "asked.granted", "asked.removed", "asked.done"),
        ),
    ),
    Scenario(
        wishes_of_a_daemon,
        ("asked.granted", "asked.removed", "asked.done", "journal.anew.written"),
    ),
    Scenario(
        stopped,
        ("asked.left", "asked.granted", "asked.done", "runner.ending", "runner.term"),
    ),
    Scenario(
        stopped_before_it_is_retried,
        ("asked.left", "asked.granted", "asked.done", *_records("finished")),
    ),
    Scenario(
        stopped_without_an_agent,
        (
            *("asked.left", "asked.granted", "asked.done", "runner.adopted"),
            *("runner.ending", "runner.term", *_records("finished")),
        ),
    ),
    Scenario(
        stopped_by_a_daemon,
        ("asked.granted", "asked.done", "runner.ending", *_records("finished")),
    ),
    Scenario(
        pruned,
        (
            *_records("left"),
            *(
                "retention.masked",
                "retention.hidden",
                "retention.emptied",
                "retention.removed",
            ),
            "retention.remembered",
        ),
    ),
    Scenario(
        daemon,
        (
            *(
                "loop.arrived",
                "loop.kept",
                "loop.let_go",
                "loop.asked",
                "loop.offered",
                "loop.told",
                "loop.settled",
            ),
            *("loop.ending", "loop.ended", "source.claimed"),
        ),
    ),
    Scenario(reloaded, ("loop.reload", "documents.dropped", *_records("moved"))),
    Scenario(
        rebooted,
        (*_records("reboot"), "loop.reboot.before", "loop.reboot.after"),
        mounts=True,
    ),
    Scenario(
        retried,
        (
            *_records("retry"),
            *_records("running", "finished"),
            "runner.closed",
            "runner.concluded",
        ),
    ),
    Scenario(
        another_instance,
        tuple(f"instance.{each}" for each in ("known", "leaving", "moved", "left")),
        mounts=True,
    ),
    Scenario(taught, ("loop.learned",)),
    Scenario(queued, ("source.let_go.before", "source.let_go.after")),
)


# The kills.


def _aims(
    passed: dict[str, int], scenario: Scenario, chance: random.Random
) -> list[tuple[str, int]]:
    """Return where to kill: at the scenario's own points for the first time and some later, and at some others."""
    aims = [(point, 1) for point in scenario.points]
    later = [
        (point, chance.randint(2, passed[point]))
        for point in scenario.points
        if passed[point] > 1
    ]
    aims += chance.sample(later, min(LATER, len(later)))
    others = sorted(
        (point, each + 1) for point in passed for each in range(passed[point])
    )
    return aims + chance.sample(
        [each for each in others if each not in aims],
        min(MORE, len(others) - len(aims)),
    )


@pytest.mark.fault(
    1,
    "kill -9 of the agent at each transition of its journal, runs, signals, sources and loop",
    "one truthful result",
)
@pytest.mark.timeout(600)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.name)
def test_killed_at_each_point(
    scenario: Scenario, tmp_path: Path, tried: Callable[[int], None]
) -> None:
    """The next agent continues after a kill at any point: nothing is lost, run twice or reported falsely."""
    theatre = Theatre(scenario, tmp_path, promises.seed("KILL_POINT_SEED"))
    passed = theatre.passed()
    assert set(scenario.points) <= passed.keys(), (
        f"not passed: {set(scenario.points) - passed.keys()}"
    )
    tried(theatre.kill_along(_aims(passed, scenario, random.Random(theatre.seed))))  # noqa: S311  # to be repeatable


OF_RUNS = ("runner.", "journal.running", "journal.finished", "deployed.", "signals.")
RUNS = tuple(
    point
    for scenario in SCENARIOS
    for point in scenario.points
    if scenario.play is every_kind and point.startswith(OF_RUNS)
)


@pytest.mark.fault(
    2,
    "kill -9 of the agent and of its supervisors together, at each transition of a run",
    "interrupted, or the truth",
)
@pytest.mark.timeout(600)
def test_killed_supervisors_leave_a_truthful_result(
    tmp_path: Path, tried: Callable[[int], None]
) -> None:
    """An unknown outcome is reported as interrupted, and a recorded one as it was."""
    theatre = Theatre(SCENARIOS[0], tmp_path, promises.seed("KILL_POINT_SEED"))
    chance = random.Random(theatre.seed)  # noqa: S311  # to be repeatable
    tried(
        theatre.kill_along(
            [(point, chance.randint(1, 2)) for point in RUNS], runs_too=True
        )
    )


def test_every_kill_point_has_a_scenario() -> None:
    """Each kill point is passed in the scenario for it."""
    assert set(kill_points.POINTS) == {
        point for scenario in SCENARIOS for point in scenario.points
    }


@pytest.mark.torture
@pytest.mark.skipif(not shares.FOR, reason="the long form: `make torture`")
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.name)
def test_kill_at_each_passing_of_a_point_loses_nothing(
    scenario: Scenario, tmp_path: Path, seconds: float
) -> None:
    """The same at every passing of every point, as far as the time goes."""
    theatre = Theatre(scenario, tmp_path, promises.seed("TORTURE_SEED"))
    aims = [
        (point, each + 1)
        for point, times in theatre.passed().items()
        for each in range(times)
    ]
    random.Random(theatre.seed).shuffle(aims)  # noqa: S311  # to be repeatable
    until = time.monotonic() + seconds
    while aims and time.monotonic() < until:
        now, aims = aims[: 4 * AT_ONCE], aims[4 * AT_ONCE :]
        theatre.kill_at(now)
    print(f"{scenario.name}: seed {theatre.seed}, {len(aims)} passings were not tried")
