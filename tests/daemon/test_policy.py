"""The policy of the machine, and a daemon that is running while it changes."""

from __future__ import annotations

from support.daemon import LONG, Daemon, counting, ran
from support.governed import Governed
from support.loopback import SignalServer, wait_until
from support.machine import Machine, deployment


def test_a_daemon_obeys_a_policy_that_changes(daemon: Daemon, machine: Machine, heat: SignalServer) -> None:
    """It needs no restart: it waits while there is a mistake, goes on by itself, and refuses what is refused now."""
    governed = Governed(machine)
    governed.policy("tools =")
    daemon.put([deployment("d1", counting(machine, "d1"), signal=heat.url("d1"))])
    daemon.start(*governed.before)
    daemon.wait_said("tools: name at least one; the agent retries")
    assert ran(machine) == []
    assert heat.values("d1") == []
    governed.policy("tools = script")
    wait_until(lambda: len(heat.values("d1")) == 1, LONG)
    assert ran(machine) == ["d1"]
    governed.policy("tools = ansible")
    daemon.put([deployment("d2", counting(machine, "d2"), signal=heat.url("d2"))])
    wait_until(lambda: len(heat.values("d2")) == 1, LONG)
    assert "refused by the rule tools" in str(heat.values("d2")[0])
    assert ran(machine) == ["d1"]
