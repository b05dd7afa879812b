"""Tests that need a whole machine: power cuts with unflushed data, and limits that its kernel enforces."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from image.baked import BY_HAND, baked, disk
from image.emulated import HOST, Emulated, emulated
from support import planted, promises
from support.loopback import SignalServer, wait_until
from support.machine import deployment
from system import seeds
from system.seeds import Handed

pytestmark = [pytest.mark.machine, BY_HAND, pytest.mark.timeout(3600)]

CUTS = 5
PATIENCE = 240.0
"""Seconds in which what has to happen soon does, also in software."""

WORK = """\
#!/bin/sh
echo begun >>/root/{0}; sync /root/{0}; touch /run/{0}
echo lost >/root/{0}.lost
for number in 1 2 3 4 5 6 7 8; do echo "line $number"; sleep 0.3; done
printf whole >"$heat_outputs_path.said"
echo ended >>/root/{0}; sync /root/{0}
"""
PRINTED = "".join(f"line {number}\n" for number in range(1, 9))
LONGEST = 6.0
"""Seconds after its beginning in which such a run has mostly ended, and was signalled."""


class Outside(SignalServer):
    """A server here, as the machine knows it."""

    @property
    def origin(self) -> str:
        return super().origin.replace("127.0.0.1", HOST)


class Instance:
    """The machine as an instance of Heat's, and what Heat has for it."""

    def __init__(self, machine: Emulated, server: Outside, handed: Handed) -> None:
        self.machine = machine
        self.server = server
        self._handed = handed

    def deploy(self, *given: dict[str, Any]) -> None:
        """Have this deployed to it, too."""
        self._handed.deploy(*given)
        assert self.machine.run("heat-config-agent", "poll").code == 0

    def result(self, identity: str) -> dict[str, Any]:
        """Wait for the result of a deployment. There is one; it may have come again where nobody knows that it came."""
        try:
            wait_until(lambda: bool(self.server.values(identity)), PATIENCE)
        except AssertionError:
            pytest.fail(
                self.machine.run(
                    "journalctl", "--no-pager", "-b", "-u", "heat-config-agent"
                ).out
            )
        [only] = {
            json.dumps(each, sort_keys=True) for each in self.server.values(identity)
        }
        found = json.loads(only)
        assert isinstance(found, dict)
        return found


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    """An instance, booted for the first time: cloud-init has found what Heat gave it on a config drive."""
    image = disk(baked("diskimage-builder"))
    server = Outside()
    server.start()
    handed = Handed(server)
    with emulated(
        tmp_path_factory.mktemp("machine"), image, seeds.user_data(handed.first)
    ) as machine:
        print(f"its first boot took {machine.boot():.0f} s")
        # It has done its work, and takes as long as all the rest at a boot.
        machine.run("sh", "-c", "touch /etc/cloud/cloud-init.disabled; sync")
        yield Instance(machine, server, handed)
    server.stop()
    assert not planted.told(server)


def script(
    instance: Instance, identity: str, text: str, **options: object
) -> dict[str, Any]:
    """Have a script run, and return its result."""
    instance.deploy(
        deployment(
            identity, text, options=options, signal=instance.server.url(identity)
        )
    )
    return instance.result(identity)


def test_image_boots_with_all_units_started(instance: Instance) -> None:
    """The machine has its own kernel and disk, and all units have started."""
    assert instance.machine.run("systemd-detect-virt").out == "qemu\n"
    assert (
        instance.machine.run("findmnt", "--noheadings", "--output", "SOURCE", "/").out
        == "/dev/vda\n"
    )
    assert (
        "[source=/dev/vdb]"
        in instance.machine.run("cat", "/var/lib/cloud/instance/datasource").out
    )
    assert (
        instance.machine.run("systemctl", "--failed", "--plain", "--no-legend").out
        == ""
    )
    done = instance.machine.run("heat-config-agent", "doctor", "--all")
    assert " unavailable" not in done.out
    assert (
        script(instance, "first", "#!/bin/sh\necho here\n")["deploy_stdout"] == "here\n"
    )


def test_the_serial_port_shows_what_is_deployed(instance: Instance) -> None:
    """The console of the machine is its serial port: a cloud shows what comes out of it."""
    settings = "printf '[agent]\\nconsole = /dev/console\\n' >/etc/heat-config-agent/console.conf"
    done = instance.machine.run(
        "sh", "-c", f"{settings} && systemctl reload heat-config-agent"
    )
    assert done.code == 0, done.err
    assert script(instance, "shown", "#!/bin/sh\nexit 3\n")["deploy_status_code"] == 3
    wait_until(
        lambda: "heat-config-agent: shown: FAILED after " in instance.machine.console(),
        PATIENCE,
    )
    assert (
        "heat-config-agent: shown: begins CREATE (script)\n"
        in instance.machine.console()
    )


def test_a_run_that_takes_too_much_memory_is_killed(instance: Instance) -> None:
    """Only the run is killed, neither processes of other runs nor the agent."""
    assert (
        script(instance, "server", "#!/bin/sh\nsetsid sleep 5000 >/dev/null 2>&1 &\n")[
            "deploy_status_code"
        ]
        == 0
    )
    daemon = instance.machine.run(
        "systemctl", "show", "-P", "MainPID", "heat-config-agent"
    ).out
    greedy = "#!/usr/bin/python3\nprint('begun', flush=True)\nheld = b'x' * (200 << 20)\nprint('held')\n"
    found = script(instance, "greedy", greedy, memory_max="100M")
    assert (found["deploy_status_code"], found["deploy_stdout"]) == (137, "begun\n")
    assert (
        script(instance, "modest", greedy, memory_max="400M")["deploy_stdout"]
        == "begun\nheld\n"
    )
    assert instance.machine.run("pgrep", "--full", "--exact", "sleep 5000").code == 0
    assert (
        instance.machine.run(
            "systemctl", "show", "-P", "MainPID", "heat-config-agent"
        ).out
        == daemon
    )


FORKS = """\
#!/usr/bin/python3
import os, time
started = []
try:
    while len(started) < 100:
        started.append(os.fork())
        if started[-1] == 0:
            time.sleep(600)
except BlockingIOError:
    print(len(started))
for each in started:
    os.kill(each, 9)
"""

BURNS = """\
#!/usr/bin/python3
import time
until = time.monotonic() + 6
while time.monotonic() < until:
    pass
print(time.process_time() / 6)
"""


def test_a_run_has_no_more_processes_than_it_may(instance: Instance) -> None:
    """The run can start no more processes, and the machine continues."""
    found = script(instance, "forks", FORKS, tasks_max=20)
    assert found["deploy_status_code"] == 0
    assert 10 < int(found["deploy_stdout"]) < 20


def test_a_run_has_no_more_of_the_processor_than_it_may(instance: Instance) -> None:
    """A fifth of one, and not all of it."""
    assert (
        float(script(instance, "burns", BURNS, cpu_quota="20%")["deploy_stdout"]) < 0.35
    )


def test_the_power_goes(instance: Instance) -> None:
    """In the middle of a run, at any moment of it: after the next boot the server has one result, and it is true."""
    seed = promises.seed("POWER_SEED")
    chance = random.Random(seed)  # noqa: S311  # it is to be repeatable
    machine = instance.machine
    interrupted = 0
    for number in range(CUTS):
        identity = f"power-{number}"
        instance.deploy(
            deployment(
                identity,
                WORK.format(identity),
                outputs=["said"],
                signal=instance.server.url(identity),
            )
        )
        wait_until(partial(begun, machine, identity), PATIENCE)
        moment = chance.uniform(0, LONGEST) if number else 0.0
        time.sleep(moment)
        before = len(instance.server.values(identity))
        machine.cut()
        took = machine.boot()
        outcome = instance.result(identity)
        code = outcome["deploy_status_code"]
        print(
            f"cut {moment:.1f} s after it began (POWER_SEED={seed}), {before} results before; "
            f"booted in {took:.0f} s: {code} after that"
        )
        done = machine.run("cat", f"/root/{identity}").out.split()
        if code == 0:
            assert done == ["begun", "ended"]
            assert (outcome["deploy_stdout"], outcome["said"]) == (PRINTED, "whole")
        else:
            assert code == 125
            assert done[0] == "begun"
            assert done.count("begun") == 1
            assert "the machine went down" in outcome["deploy_stderr"]
            interrupted += 1
        if not number:
            assert "lost" not in machine.run("cat", f"/root/{identity}.lost").out, (
                "what was not flushed is there"
            )
    assert interrupted
    assert machine.run("heat-config-agent", "status", "--check").code == 0
    for number in range(CUTS):
        assert machine.run("cat", f"/root/power-{number}").out.count("begun") == 1
        instance.result(f"power-{number}")


def begun(machine: Emulated, identity: str) -> bool:
    """Return whether a run has begun, and that is on disk."""
    return machine.run("test", "-e", f"/run/{identity}").code == 0
