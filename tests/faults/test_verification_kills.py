"""Processes of verification and repair are killed at any point: nothing runs twice, is lost, or is untrue."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable
from typing import Any

import psutil
import pytest

from heat_config_agent.state import journal
from heat_config_agent.verification import record
from heat_config_hooks.verdict import Standing
from support import kill_points, stories
from support.daemon import LONG, Daemon
from support.loopback import SignalServer, wait_until
from support.machine import Machine, deployment
from support.stories import Traps

FEW = 3
"""Kills of each process that every run of the tests tries."""

MANY = int(os.environ.get("KILLS", "12"))
"""Kills of each process in the run of everything; `KILLS=100` tries more."""


class Site:
    """Deployments that count their runs: a script that is verified by another one, and a file."""

    def __init__(self, machine: Machine, heat: SignalServer, name: str) -> None:
        self.machine = machine
        self.heat, self.name = heat, name
        self.page = machine.folder / f"page-{name}.json"
        self.flag = machine.folder / f"flag-{name}"
        self.runs = machine.folder / f"runs-{name}"

    def deployments(self) -> list[dict[str, Any]]:
        """Return the deployments."""
        verify = f"sleep 0.05; [ -e {self.flag} ] || {{ echo no flag; exit 1; }}"
        script = f"echo run >>{self.runs}; touch {self.flag}"
        return [
            deployment(
                f"web-{self.name}",
                script,
                options={"verify": verify},
                signal=self.heat.url(f"web-{self.name}"),
            ),
            deployment(
                f"page-{self.name}", {str(self.page): {"port": 80}}, group="json-file"
            ),
        ]

    def drift(self) -> None:
        """Change what both have made."""
        self.flag.unlink()
        self.page.write_text("{}")

    @property
    def is_repaired(self) -> bool:
        """True if the machine is as the deployments say."""
        return self.flag.exists() and json.loads(self.page.read_text()) == {"port": 80}

    def assert_true(self) -> None:
        """The record of a verification since the drift is true."""
        entries = journal.read(self.machine.state)
        for key, one in record.read(self.machine.state).items():
            entry = entries.get(key)
            if entry is None or not one.is_of(entry):
                continue
            if one.verdict.standing is Standing.OK and key == f"web-{self.name}":
                assert self.flag.exists()

    def assert_done(self) -> None:
        """Everything is repaired, by one run; the server has heard of the first alone; nothing is left."""
        assert self.is_repaired
        assert self.runs.read_text() == "run\n" * 2
        assert len(self.heat.values(f"web-{self.name}")) == 1
        state = self.machine.state
        assert not list((state / "asked").iterdir())
        assert not list((state / "verifications").iterdir())


def command_is_killed(machine: Machine, heat: SignalServer, times: int) -> None:
    """Kill `verify --repair`, which works by itself, at random calls; the next one goes on."""
    chance = random.Random(times)  # noqa: S311
    aims: list[stories.Aim] = []
    killed = number = 0
    while killed < times:
        number += 1
        site = Site(machine, heat, str(number))
        document = machine.write(site.deployments())
        assert machine.apply(document).code == 0
        site.drift()
        if aims:
            traps = Traps(machine.folder, chance.choice(aims), root=machine.folder)
            machine.agent("verify", "--repair", **traps.environment)
            killed += not traps.left
        else:  # nobody is killed, to see what there is
            notes = machine.folder / "calls"
            armed = kill_points.environment("??", 0, notes)
            machine.agent("verify", "--repair", **armed)
            aims = stories.calls(notes, machine.folder)
        site.assert_true()
        done = machine.agent("verify", "--repair")
        assert done.code == 0, done.out + done.err
        site.assert_true()
        site.assert_done()
        assert machine.agent("verify").code == 0


def start(daemon: Daemon, site: Site) -> None:
    """Start a daemon that has carried out the deployments of a site."""
    daemon.put(site.deployments())
    daemon.configure(verify_interval=0.3, repair="yes")
    daemon.start()
    # a result that is not known to be delivered is sent again
    wait_until(lambda: daemon.states().get(f"web-{site.name}") == "signalled", LONG)


def verifiers(daemon: Daemon) -> list[psutil.Process]:
    """Return the processes of a daemon that verify."""
    try:
        children = psutil.Process(daemon.pid).children()
        return [each for each in children if "scheduled" in " ".join(each.cmdline())]
    except psutil.Error:
        return []


def wait_repaired(daemon: Daemon, site: Site) -> None:
    """Wait until a daemon has repaired a site, and has verified that."""

    def is_done() -> bool:
        reports = daemon.health().get("verifications") or [{}]
        one = reports[0]
        return site.is_repaired and one.get("ok") == 2 and one.get("drifted", 0) == 0

    wait_until(is_done, LONG)


def daemon_is_killed(
    daemon: Daemon, machine: Machine, heat: SignalServer, times: int
) -> None:
    """Kill the daemon at a random moment after a drift; the next one repairs it, if this one has not."""
    chance = random.Random(times + 1)  # noqa: S311
    for number in range(times):
        site = Site(machine, heat, str(number))
        start(daemon, site)
        wait_repaired(daemon, site)
        site.drift()
        time.sleep(chance.uniform(0, 1.0))
        daemon.stop(9)
        daemon.start()
        wait_repaired(daemon, site)
        assert daemon.stop() == 0
        site.assert_true()
        site.assert_done()


def verifier_is_killed(
    daemon: Daemon, machine: Machine, heat: SignalServer, times: int
) -> None:
    """Kill the process that verifies at a random moment of its life; the next one finds the drift."""
    chance = random.Random(times + 2)  # noqa: S311
    for number in range(times):
        site = Site(machine, heat, str(number))
        start(daemon, site)
        wait_repaired(daemon, site)
        site.drift()
        wait_until(lambda: bool(verifiers(daemon)), LONG)
        time.sleep(chance.uniform(0, 0.5))
        for process in verifiers(daemon):
            process.kill()
        wait_repaired(daemon, site)
        assert daemon.stop() == 0
        site.assert_true()
        site.assert_done()


TIMES = [
    pytest.param(FEW, id="few"),
    pytest.param(
        MANY,
        id="many",
        marks=[
            pytest.mark.slow,
            pytest.mark.takes(60),
            pytest.mark.timeout(60 + 20 * MANY),
        ],
    ),
]


@pytest.mark.fault(
    1,
    "`verify --repair` is killed at a random call, 100 times",
    "the next one goes on: each drift is repaired by one run, and the server hears of the first alone",
)
@pytest.mark.parametrize("times", TIMES)
def test_killed_repair_is_completed_once(
    machine: Machine, heat: SignalServer, times: int, tried: Callable[[int], None]
) -> None:
    """By the next command."""
    tried(times)
    command_is_killed(machine, heat, times)


@pytest.mark.fault(
    1,
    "the daemon is killed at a random moment of a verification or a repair, 100 times",
    "the next daemon repairs each drift by one run, and no record is untrue",
)
@pytest.mark.parametrize("times", TIMES)
def test_killed_daemon_repairs_once(
    daemon: Daemon,
    machine: Machine,
    heat: SignalServer,
    times: int,
    tried: Callable[[int], None],
) -> None:
    """By the next daemon."""
    tried(times)
    daemon_is_killed(daemon, machine, heat, times)


@pytest.mark.fault(
    1,
    "the process that verifies is killed at a random moment, 100 times",
    "the next one finds the drift, which is repaired once, and removes what is left",
)
@pytest.mark.parametrize("times", TIMES)
def test_killed_verification_is_done_again(
    daemon: Daemon,
    machine: Machine,
    heat: SignalServer,
    times: int,
    tried: Callable[[int], None],
) -> None:
    """By the next process."""
    tried(times)
    verifier_is_killed(daemon, machine, heat, times)
