"""The clock is wrong, or set years on or back while the agent works: nothing depends on it that matters."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.daemon import LONG, Daemon, counting, ran, until
from support.loopback import Answer, SignalServer, wait_until
from support.machine import Machine, deployment

pytestmark = pytest.mark.takes(20)

JUMPS = ("+10y", "-10y")
fault = pytest.mark.fault


class Clock:
    """The agent's clock, which tests set: `environment` is what makes a process have it."""

    def __init__(self, folder: Path) -> None:
        libraries = [
            each
            for place in ("/usr/lib", "/usr/lib64")
            for each in Path(place).glob("*/faketime")
        ]
        found = [
            path for each in libraries if (path := each / "libfaketimeMT.so.1").exists()
        ]
        if not found:
            pytest.skip(
                "libfaketime is not installed: apt install faketime (tests/install-tools does)"
            )
        self._path = folder / "clock"
        self.set("+0")
        self.environment = {
            "LD_PRELOAD": str(found[0]),
            "FAKETIME_TIMESTAMP_FILE": str(self._path),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",  # as with a real clock: there is one that no setting moves
            "NO_FAKE_STAT": "1",
        }

    def set(self, offset: str) -> None:
        """Set it, so far from what it is."""
        new = self._path.with_name("clock.new")
        new.write_text(f"{offset}\n")
        new.replace(self._path)


@pytest.fixture
def clock(machine: Machine) -> Clock:
    """A clock that can be set."""
    return Clock(machine.folder)


def given(
    machine: Machine, heat: SignalServer, then: str = "", **fields: Any
) -> dict[str, Any]:
    """Return a deployment that counts its runs."""
    return deployment(
        "d1", counting(machine, "d1", then), signal=heat.url("d1"), **fields
    )


@fault(
    1,
    "the clock ten years wrong at one start of the agent, and right at the next",
    "each deployment runs once",
)
@pytest.mark.parametrize("jump", JUMPS)
def test_wrong_clock_keeps_the_order_of_deployments(
    machine: Machine, heat: SignalServer, clock: Clock, jump: str
) -> None:
    """Under a wrong clock deployments run in the order in which they came."""
    clock.set(jump)
    batch = [given(machine, heat)]
    assert machine.apply(batch, **clock.environment).code == 0  # type: ignore[arg-type]  # all are variables
    batch.append(deployment("d2", counting(machine, "d2"), signal=heat.url("d2")))

    assert machine.apply(batch).code == 0
    clock.set("+0")
    assert machine.apply(batch, **clock.environment).code == 0  # type: ignore[arg-type]  # all are variables

    assert ran(machine) == ["d1", "d2"]
    assert [
        each["deploy_status_code"] for each in heat.values("d1") + heat.values("d2")
    ] == [0, 0]
    for command in ("status", "show"):
        done = machine.agent(command, *(["d1"] if command == "show" else []))
        assert done.code == 0, done.err


@fault(
    3,
    "the clock set ten years on or back while a command runs",
    "its time limit is neither over at once nor put off",
)
@pytest.mark.parametrize("jump", JUMPS)
def test_a_jump_during_a_run(
    daemon: Daemon, machine: Machine, heat: SignalServer, clock: Clock, jump: str
) -> None:
    """Time limits go with a clock that no setting moves."""
    go = machine.folder / "go"
    daemon.put([given(machine, heat, until(go), options={"timeout": 300})])
    daemon.start(**clock.environment)  # type: ignore[arg-type]  # all are variables
    wait_until(lambda: ran(machine) == ["d1"], LONG)
    clock.set(jump)
    hangs = deployment(
        "d2", "#!/bin/sh\nsleep 300\n", options={"timeout": 1}, signal=heat.url("d2")
    )
    daemon.put([hangs], "more")
    go.touch()

    wait_until(lambda: len(heat.signals) == 2, LONG)
    assert [each["deploy_status_code"] for each in heat.values("d1")] == [0]
    assert [each["deploy_status_code"] for each in heat.values("d2")] == [124]
    daemon.wait_state("d2", "signalled")
    assert daemon.command("status", "--check").out == "1 failed: d2\n"
    assert daemon.stop() == 0
    assert "Traceback" not in daemon.log


@fault(
    1,
    "the clock set ten years on or back while a result waits to be sent again",
    "it is sent when the server is back",
)
@pytest.mark.parametrize("jump", JUMPS)
def test_a_jump_while_a_result_waits(
    daemon: Daemon, machine: Machine, heat: SignalServer, clock: Clock, jump: str
) -> None:
    """The time until the next try does not go with the clock."""
    heat.always = Answer(503)
    daemon.put([given(machine, heat)])
    daemon.start(**clock.environment)  # type: ignore[arg-type]  # all are variables
    heat.wait_for(1, LONG)
    clock.set(jump)
    before = len(heat.signals)
    heat.wait_for(before + 1, LONG)
    heat.always = Answer()
    daemon.wait_state("d1", "signalled")
    assert ran(machine) == ["d1"]
    assert len({each.body for each in heat.signals}) == 1


@fault(
    3,
    "the clock set ten years on or back while a server has asked to wait (Retry-After)",
    "the result is sent in time: no wait on record is taken for years",
)
@pytest.mark.parametrize("jump", JUMPS)
def test_a_jump_while_a_server_has_asked_to_wait(
    machine: Machine, heat: SignalServer, clock: Clock, jump: str
) -> None:
    """A moment on record that lies further ahead than any server may ask for was reckoned by a wrong clock."""
    heat.answers.append(Answer(503, {"Retry-After": "600"}))
    batch = [given(machine, heat)]
    assert machine.apply(batch, "--deliver-for", "1").code == 5
    assert machine.status()["d1"]["not_before"]
    clock.set(jump)

    assert machine.apply(batch, **clock.environment).code == 0  # type: ignore[arg-type]  # all are variables
    assert len(heat.values("d1")) == 2
    assert ran(machine) == ["d1"]


@fault(
    5,
    "the clock set back by ten years after the daemon was last heard of",
    "its health is read all the same",
)
def test_health_file_from_the_future_counts_as_recent(
    daemon: Daemon, machine: Machine, clock: Clock, tried: Callable[[int], None]
) -> None:
    """A health file with a time in the future counts as recent."""
    clock.set("+10y")
    daemon.put([deployment("d1", counting(machine))])
    daemon.start(**clock.environment)  # type: ignore[arg-type]  # all are variables
    daemon.wait_state("d1", "unasked")
    wait_until(lambda: daemon.command("status", "--check").code == 0, LONG)
    done = [
        daemon.command("status", "--check"),
        daemon.command("status"),
        daemon.command("status", "--json"),
    ]
    assert [each.code for each in done] == [0, 0, 0], [
        (each.out, each.err) for each in done
    ]
    tried(len(done))
    clock.set("-10y")
    daemon.put([deployment("d2", counting(machine, "d2"))], "more")
    daemon.wait_state("d2", "unasked")
    assert ran(machine) == ["d1", "d2"]
    assert daemon.stop() == 0
