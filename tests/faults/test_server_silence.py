"""Servers that are down or slow: every result is kept until it is delivered, and nothing waits for them."""

from __future__ import annotations

import json
import socket
import time

import pytest

from support import pace
from support.loopback import Answer, SignalServer
from support.machine import Machine, deployment
from support.results import ONCE, UNDELIVERED, counting, ended, hasty, ran

pytestmark = pytest.mark.takes(20)


@pytest.mark.fault(
    1,
    "a server that is down for several runs",
    "its results are kept, a warning says so, and they are delivered unchanged",
)
def test_a_server_that_is_down_and_comes_back(
    machine: Machine, heat: SignalServer
) -> None:
    """An undelivered result is kept, reported, and delivered unchanged by a later run."""
    heat.refuse()
    given = [deployment(config="#!/bin/sh\ndate +%N | tee -a ran\n", signal=heat.url())]

    first = machine.apply(given, *ONCE)
    assert first.code == UNDELIVERED
    assert "refused" in first.out
    again = machine.apply(given, *ONCE)
    assert again.code == UNDELIVERED
    entry = machine.status()["d1"]
    assert (entry["state"], entry["tries"], entry["failed"]) == ("finished", 2, False)
    heat.start()
    last = machine.apply(given)

    assert last.code == 0, last.err
    kept = json.loads((machine.state / "deployed" / "d1.notify.json").read_text())
    assert heat.values() == [kept]
    assert (
        kept["deploy_stdout"]
        == (machine.state / "heat-config-script" / "ran").read_text()
    )


@pytest.mark.fault(
    1,
    "a server that comes back while a run goes on",
    "the run goes on trying for the time that it was given",
)
def test_a_server_that_comes_back_within_the_run(
    machine: Machine, heat: SignalServer
) -> None:
    """A run goes on trying for as long as it is told to."""
    heat.refuse()
    process = machine.start_apply(
        [counting(machine, url=heat.url())], "--deliver-for", "20"
    )
    time.sleep(0.4)
    heat.start()
    process.communicate(timeout=pace.seconds(15))

    assert process.returncode == 0
    assert len(heat.signals) == 1


def test_a_server_that_never_answers(machine: Machine, heat: SignalServer) -> None:
    """A request that is not answered is given up; its result is kept."""
    heat.always = Answer(delay=60)

    done = hasty(machine, [counting(machine, url=heat.url())], *ONCE)

    assert done.code == UNDELIVERED, done.err
    assert "no answer" in machine.status()["d1"]["trouble"]


def test_a_server_that_accepts_nothing(machine: Machine) -> None:
    """A server that takes the connection and reads nothing is given up."""
    with socket.create_server(("127.0.0.1", 0), backlog=1) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/v1/signal"
        done = hasty(machine, [counting(machine, url=url)], *ONCE)

    assert done.code == UNDELIVERED, done.err
    assert machine.status()["d1"]["state"] == "finished"


@pytest.mark.fault(
    3,
    "a server that does not answer, and a run that was told to deliver for a second",
    "the run ends, and the next one delivers",
)
def test_a_run_ends_when_its_patience_does(
    machine: Machine, heat: SignalServer
) -> None:
    """A run told to deliver for one second leaves what is unanswered to the next run soon after."""
    heat.always = Answer(delay=60)
    given = [counting(machine, url=heat.url())]

    assert (
        ended(machine.start_apply(given, "--deliver-for", "1"), 6).code == UNDELIVERED
    )
    heat.always = Answer()
    assert machine.apply(given).code == 0
    assert ran(machine) == ["d1"]


@pytest.mark.fault(
    3,
    "a server that thinks for long, or is dead",
    "no other deployment and no other server waits for it",
)
def test_a_slow_server_holds_up_nothing_else(
    machine: Machine, heat: SignalServer, other: SignalServer
) -> None:
    """While one server thinks, the next deployment runs, and another server gets its result."""
    thinks = min(pace.limit(6), 8)  # a request has ten seconds
    heat.always = Answer(delay=thinks)
    given = [
        counting(machine, "slow", heat.url()),
        counting(machine, "quick", other.url()),
        counting(machine, "unasked"),
    ]

    began = time.monotonic()
    assert machine.apply(given).code == 0

    assert other.signals[0].at - heat.signals[0].at < thinks - 1
    assert (
        machine.status()["unasked"]["ended"] - machine.status()["slow"]["ended"]
        < thinks - 1
    )
    assert time.monotonic() - began < pace.seconds(12), "it was waited for once"


@pytest.mark.fault(
    3,
    "a server that thinks for long, or is dead",
    "no other deployment and no other server waits for it",
)
def test_a_dead_server_holds_up_no_deployment(
    machine: Machine, heat: SignalServer, other: SignalServer
) -> None:
    """While a result is tried again and again, all other deployments run and report."""
    heat.refuse()
    given = [
        counting(machine, "dead", heat.url()),
        *(counting(machine, f"d{n}", other.url(f"d{n}")) for n in range(3)),
    ]
    process = machine.start_apply(given, "--deliver-for", "60")

    other.wait_for(3, seconds=20)

    assert process.poll() is None, "it still tries"
