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
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from faults.agent_stories import AgentStory, Scenario
from heat_config_agent.model.entry import OPEN, State
from support import kill_points, promises, shares
from support.cloud import PASSWORD, PROJECT, Cloud
from support.loopback import Answer
from support.promises import KINDS, Kind
from support.stories import AT_ONCE
from support.zaqar import QUEUE, Queue, offer

pytestmark = [pytest.mark.takes(60), pytest.mark.apart]

LATER = 3
"""Kills of each scenario at a later passing of its own points, at most."""

MORE = 1
"""Kills of each scenario, next to those at its own points, at points that it passes too."""

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


def every_kind(story: AgentStory) -> None:
    """A batch of every kind of work."""
    story.finish(story.world.batch(KINDS))


def older_folder(story: AgentStory) -> None:
    """The older agent's folder is in another place, and is taken over."""
    old = story.machine.folder / "old"
    old.mkdir(mode=0o700)
    (old / "x.json").touch(0o600)
    story.machine.environment |= {
        "HEAT_CONFIG_DEPLOYED": str(story.machine.state / "deployed"),
        "HEAT_CONFIG_DEPLOYED_OLD": str(old),
    }
    story.finish(story.world.batch([QUICK, FAILS]))
    assert (story.machine.state / "deployed" / "x.json").exists()


def server_away(story: AgentStory) -> None:
    """The server does not answer, and then it does."""
    batch = story.world.batch([QUICK, FAILS])
    story.heat.refuse()

    def is_tried() -> bool:
        return any(entry.tries for entry in story.world.entries().values())

    story.apply(batch, "--deliver-for", "60", once=is_tried, then=story.heat.start)
    story.finish(batch)


def followed(story: AgentStory) -> None:
    """An agent has been killed while a run went on."""
    batch = story.world.batch([HOLDS, QUICK])
    agent = story.world.start(batch)
    story.world.wait_for(story.began(batch[0]))
    story.world.kill(agent)
    story.finish(batch, lets_go=batch[0]["id"])


def interrupted(story: AgentStory) -> None:
    """An agent and its supervisor have been killed; what was run may be run again."""
    batch = story.world.batch([REPEATABLE, QUICK])
    agent = story.world.start(batch)
    story.world.wait_for(story.began(batch[0]))
    story.world.kill(agent)
    story.kill_runs()
    # What was left of the run has been ended by then: it is there to be ended, however long the agent takes.
    story.finish(
        batch,
        lets_go=batch[0]["id"],
        seen=lambda: story.world.entries()[batch[0]["id"]].reruns > 0,
    )


def no_word(story: AgentStory) -> None:
    """An agent has been killed before it gave a run its word."""
    batch = story.world.batch([SLOW, QUICK])
    story.die_at("runner.announced", 1, batch)
    story.finish(batch)


def superseded(story: AgentStory) -> None:
    """Deployments are replaced: one whose result could not be sent, and one that was not begun."""
    old = story.world.batch([QUICK, FAILS])
    late = story.world.batch([SLOW])
    story.heat.refuse()
    story.world.apply(old, "--deliver-for", "0")
    story.die_at("journal.accepted.after", 1, [*old, *late])
    story.heat.start()
    story.finish([story.world.replace(each) for each in (*old, *late)])


def torn(story: AgentStory) -> None:
    """A power cut has left half a line in the journal."""
    batch = story.world.batch([QUICK])
    story.world.apply(batch)
    with (story.machine.state / "journal").open("ab") as file:
        file.write(b'0badf00d {"key":"half')
    story.finish([*batch, *story.world.batch([FAILS])])


def damaged(story: AgentStory) -> None:
    """A line of the journal is damaged: that a result was delivered."""
    batch = story.world.batch([QUICK, FAILS])
    story.world.apply(batch)
    story.world.may_be_damaged = True
    path = story.machine.state / "journal"
    lines = path.read_bytes().splitlines(keepends=True)
    index = next(i for i, line in enumerate(lines) if b'"signalled"' in line)
    lines[index] = lines[index].replace(b"signalled", b"signaXXed")
    path.write_bytes(b"".join(lines))
    story.finish(batch)


def wishes(story: AgentStory) -> None:
    """People have deployments run again, a result sent again, and one forgotten."""
    world = story.world
    again, refused, forgotten = world.batch([QUICK, FAILS, SLOW])
    story.heat.named[refused["id"]] = Answer(404)
    world.apply([again, refused, forgotten])
    assert world.entries()[refused["id"]].state is State.REFUSED
    del story.heat.named[refused["id"]]
    world.handed[again["id"]].again = 1
    story.command("retry", again["id"], **story.armed)
    story.command("retry", "--signal", refused["id"], **story.armed)
    story.finish([again, refused])
    world.handed[forgotten["id"]].forgotten = True
    story.command("forget", "--yes", forgotten["id"], **story.armed)
    story.finish([again, refused])
    assert (
        forgotten["id"].encode() not in (story.machine.state / "journal").read_bytes()
    )


def wishes_of_a_daemon(story: AgentStory) -> None:
    """The same while a daemon holds the lock."""
    world = story.world
    again, refused, forgotten, other = world.batch([QUICK, FAILS, SLOW, QUICK])
    story.heat.named[refused["id"]] = Answer(404)
    story.daemon.put([again, refused, forgotten])
    story.run()
    story.until(story.settled([again, forgotten]))
    story.until(lambda: world.entries()[refused["id"]].state is State.REFUSED)
    del story.heat.named[refused["id"]]
    world.handed[again["id"]].again = 1
    begun = len(world.evidence(again["id"]))
    story.command("retry", again["id"])
    story.command("retry", "--signal", refused["id"])
    story.until(story.settled([refused]))
    story.until(
        lambda: (
            len(world.evidence(again["id"])) >= 2 * begun and story.settled([again])()
        )
    )
    story.daemon.put([again, refused, other])
    story.until(story.settled([again, refused, other]))
    world.handed[forgotten["id"]].forgotten = True
    story.command("forget", "--yes", forgotten["id"])
    story.until(lambda: forgotten["id"] not in world.entries())
    story.stop()


def stopped(story: AgentStory) -> None:
    """People stop a run and a deployment that waits, of a command that works on them."""
    runs, waits = batch = story.world.batch([ENDLESS, ENDLESS])
    story.apply(
        batch,
        once=story.began(runs),
        then=lambda: story.command(
            "stop", "--yes", runs["id"], waits["id"], **story.armed
        ),
    )
    # it was killed before the command, or together with it
    _stop_the_rest(story, batch)
    story.finish(batch)
    assert not story.world.evidence(waits["id"])


def stopped_before_it_is_retried(story: AgentStory) -> None:
    """The next attempt of a deployment is taken back."""
    batch = story.world.batch([GIVEN_UP])
    identity = batch[0]["id"]
    story.apply(
        batch,
        once=lambda: (
            identity in story.world.entries()
            and story.world.entries()[identity].state is State.RETRY
        ),
        then=lambda: story.command("stop", "--yes", identity, **story.armed),
    )
    _stop_the_rest(story, batch)
    story.finish(batch)


def stopped_without_an_agent(story: AgentStory) -> None:
    """The agent was killed before: the command that stops does it itself."""
    batch = story.world.batch([ENDLESS, ENDLESS])
    agent = story.world.start(batch)
    story.world.wait_for(story.began(batch[0]))
    story.world.wait_for(
        lambda: (
            story.world.entries()[batch[0]["id"]].state is State.RUNNING
            and batch[1]["id"] in story.world.entries()
        )
    )
    story.world.kill(agent)
    _stop_the_rest(story, batch)
    story.finish(batch)
    assert not story.world.evidence(batch[1]["id"])


def _stop_the_rest(story: AgentStory, batch: Iterable[dict[str, Any]]) -> None:
    """Stop those of some deployments that run or wait."""
    for each in batch:
        entry = story.world.entries().get(each["id"])
        if entry is not None and entry.state in OPEN:
            story.command("stop", "--yes", each["id"], **story.armed)


def stopped_by_a_daemon(story: AgentStory) -> None:
    """The daemon ends a run and answers a deployment that waits, whenever it is killed meanwhile."""
    runs, waits = batch = story.world.batch([ENDLESS, ENDLESS])
    story.daemon.put(batch)
    story.run()
    story.until(story.began(runs))
    story.until(lambda: waits["id"] in story.world.entries())
    story.command("stop", "--yes", runs["id"], waits["id"])
    story.until(story.settled(batch))
    story.stop()
    assert not story.world.evidence(waits["id"])


def pruned(story: AgentStory) -> None:
    """Deployments leave the metadata, are back, and leave again; then nothing is kept any longer than it has to be."""
    world = story.world
    stays, *leave = world.batch([QUICK, FAILS, QUICK])
    world.apply([stays, *leave])
    story.apply([stays])
    story.apply([stays, *leave])
    story.apply([stays])
    story.daemon.configure(keep_secrets=0, keep_count=1)
    story.command("prune", "--config", str(story.daemon.path), **story.armed)
    story.finish([stays, *leave])


def daemon(story: AgentStory) -> None:
    """A daemon with the documents in a directory; what is in it changes."""
    batch = story.world.batch([QUICK, FAILS, HANGS])
    story.daemon.put(batch)
    story.run()
    story.until(story.settled(batch))
    more = story.world.batch([QUICK])
    story.daemon.put([*batch, *more])
    story.until(story.settled(more))
    story.stop()


def reloaded(story: AgentStory) -> None:
    """A deployment moves from one source to another; then the settings are read again, and name one source less."""
    world = story.world
    moves, stays = world.batch([HOLDS, QUICK])
    path = story.machine.write([stays], "other.json")
    story.daemon.settings["file"] = {"path": str(path)}
    story.daemon.configure(collectors="local, file")
    story.daemon.put([moves])
    story.run()
    story.until(story.began(moves))
    story.machine.write([stays, moves], "other.json")
    story.daemon.put([])
    story.until(lambda: world.entries()[moves["id"]].source != "local")
    world.let_go(moves["id"])
    story.until(story.settled([moves, stays]))
    story.daemon.put([moves, stays])
    story.daemon.configure(collectors="local", parallel=2)
    document = story.machine.state / "documents" / "file.json"
    more = world.batch([SLOW, QUICK])
    story.send(signal.SIGHUP)
    story.daemon.put([moves, stays, *more])
    story.until(story.settled(more))
    story.until(lambda: not document.exists())
    story.stop()


def rebooted(story: AgentStory) -> None:
    """A deployment asks for a reboot of the machine, which comes, and goes on after it."""
    story.daemon.configure(reboot_command=story.reboot_command())
    batch = story.world.batch([REBOOTS, QUICK])
    story.daemon.put(batch)
    story.boot()
    story.run()
    story.until(lambda: bool(story.reboots))
    story.stop()
    story.boot()
    story.run()
    story.until(story.settled(batch))
    story.stop()


def retried(story: AgentStory) -> None:
    """Commands exit with a code of their option `retry`: one succeeds at the last attempt, and one never does."""
    story.finish(story.world.batch([RETRIED, IN_VAIN, QUICK]))


def another_instance(story: AgentStory) -> None:
    """The disk wakes up in another instance: what was not delivered on the one before is not delivered any more."""
    world = story.world
    told, untold = world.batch([QUICK]), world.batch([FAILS])
    story.wake_up_as("i-1")
    story.apply(told)
    story.heat.refuse()
    story.apply([*told, *untold], "--deliver-for", "0")
    story.heat.start()
    for each in (*told, *untold):
        world.handed[each["id"]].forgotten = True
    world.withdraw(untold[0])
    story.wake_up_as("i-2")
    story.finish(world.batch([QUICK, SLOW]))
    assert (story.machine.state / "of-i-1" / "journal").is_file()


def taught(story: AgentStory) -> None:
    """The metadata is at a URL, and says that it is at another one."""
    first, second = (story.metadata.url(name) for name in ("first", "second"))
    batch = story.world.batch([QUICK, FAILS])
    points_on = {
        "os-collect-config": {
            "collectors": ["request"],
            "request": {"metadata_url": second},
        }
    }
    body = json.dumps({"deployments": batch, **points_on}).encode()
    story.metadata.named = {"first": Answer(body=body), "second": Answer(body=body)}
    story.daemon.settings["request"] = {"metadata_url": first}
    story.daemon.configure(collectors="request")
    story.run()
    story.until(story.settled(batch))
    story.until((story.machine.state / "learned.json").exists)
    story.stop()


def queued(story: AgentStory) -> None:
    """The metadata comes as messages in a Zaqar queue, each of which is let go of once it is safe on disk."""
    openstack, queue = Cloud(), Queue()
    story.on_death.append(queue.expire)
    batch = story.world.batch([QUICK, FAILS])
    queue.post({"deployments": batch[:1]})
    openstack.start()
    queue.start()
    try:
        offer(openstack, messaging=queue.origin)
        story.daemon.settings["zaqar"] = {
            "auth_url": openstack.credentials().auth_url,
            "user_id": "u1",
            "password": PASSWORD,
            "project_id": PROJECT,
            "queue_id": QUEUE,
        }
        story.daemon.configure(collectors="zaqar")
        story.run()
        story.until(story.settled(batch[:1]))
        queue.post({"deployments": batch})
        story.until(story.settled(batch))
        story.until(lambda: not queue.messages)
        story.stop()
    finally:
        queue.stop()
        openstack.stop()
    assert PASSWORD not in story.world.said()


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
    kills = scenario.kills(tmp_path, promises.seed("KILL_POINT_SEED"))
    passed = kills.passed()
    assert set(scenario.points) <= passed.keys(), (
        f"not passed: {set(scenario.points) - passed.keys()}"
    )
    tried(kills.kill_along(_aims(passed, scenario, random.Random(kills.seed))))  # noqa: S311  # to be repeatable


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
    seed = promises.seed("KILL_POINT_SEED")
    kills = SCENARIOS[0].kills(tmp_path, seed, runs_too=True)
    chance = random.Random(kills.seed)  # noqa: S311  # to be repeatable
    tried(kills.kill_along([(point, chance.randint(1, 2)) for point in RUNS]))


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
    kills = scenario.kills(tmp_path, promises.seed("TORTURE_SEED"))
    aims = [
        (point, each + 1)
        for point, times in kills.passed().items()
        for each in range(times)
    ]
    random.Random(kills.seed).shuffle(aims)  # noqa: S311  # to be repeatable
    until = time.monotonic() + seconds
    while aims and time.monotonic() < until:
        now, aims = aims[: 4 * AT_ONCE], aims[4 * AT_ONCE :]
        kills.kill_at(now)
    print(f"{scenario.name}: seed {kills.seed}, {len(aims)} passings were not tried")
