"""A daemon and the option `retry`: it waits without work, begins the next attempt in time, and heeds a pause."""

from __future__ import annotations

import psutil

from support.daemon import LONG, Daemon, counting, ran
from support.loopback import SignalServer, wait_until
from support.machine import Machine, deployment


def test_a_daemon_waits_for_the_next_attempt(
    daemon: Daemon, machine: Machine, heat: SignalServer
) -> None:
    """Nothing has to wake it up, it says what it waits for, and it takes no processor time for that."""
    options = {"retry": {"codes": [100], "delay": 2}}
    script = counting(
        machine, "d1", '[ -n "$HEAT_ATTEMPT" ] || { echo locked >&2; exit 100; }'
    )
    daemon.put([deployment("d1", script, options=options, signal=heat.url("d1"))])
    daemon.start()
    daemon.wait_said("d1: exit code 100: locked; attempt 2 begins in")
    before = sum(psutil.Process(daemon.pid).cpu_times()[:2])
    daemon.put(
        [
            deployment("d1", script, options=options, signal=heat.url("d1")),
            deployment("d2", counting(machine, "d2"), signal=heat.url("d2")),
        ]
    )
    heat.wait_for(2, LONG)
    assert sum(psutil.Process(daemon.pid).cpu_times()[:2]) - before < 1
    assert ran(machine) == ["d1", "d1", "d2"]
    assert [each["deploy_status_code"] for each in heat.values("d1")] == [0]


def test_a_pause_holds_the_next_attempt(
    daemon: Daemon, machine: Machine, heat: SignalServer
) -> None:
    """After the pause the second attempt begins at once."""
    options = {"retry": {"codes": [100], "delay": 0.1, "times": 1}}
    script = counting(
        machine,
        "d1",
        f"until [ -e {machine.folder}/go ]; do sleep 0.02; done; exit 100",
    )
    daemon.put([deployment("d1", script, options=options, signal=heat.url())])
    daemon.start()
    wait_until(lambda: ran(machine) == ["d1"], LONG)
    assert machine.agent("pause", "--reason", "maintenance").code == 0
    (machine.folder / "go").touch()
    wait_until(lambda: machine.status()["d1"]["state"] == "retry", LONG)
    daemon.stop()
    daemon.start()
    assert machine.agent("resume").code == 0
    heat.wait_for(1, LONG)
    assert ran(machine) == ["d1", "d1"]
    assert heat.values()[0]["deploy_stderr"].startswith("2 attempts were made")
