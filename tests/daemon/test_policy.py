"""The policy of the machine, and a daemon that is running while it changes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from heat_config_agent.model import signed
from heat_config_agent.signing import ssh
from support.daemon import LONG, Daemon, counting, ran
from support.governed import Governed
from support.loopback import SignalServer, wait_until
from support.machine import Machine, deployment
from support.signers import Signer


def test_a_daemon_obeys_a_policy_that_changes(
    daemon: Daemon, machine: Machine, heat: SignalServer
) -> None:
    """The daemon follows changes without a restart: it waits during a mistake, and refuses by the present rules."""
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


@pytest.mark.skipif(
    shutil.which("ssh-keygen") is None,
    reason="needs ssh-keygen: install openssh-client",
)
def test_a_daemon_obeys_signatures_that_change(
    daemon: Daemon, machine: Machine, heat: SignalServer, tmp_path: Path
) -> None:
    """An altered document changes nothing, one without a signature is refused, and a signer who is gone counts no more.

    A restart in between makes no difference: the evidence is kept with the document.
    """
    governed, alice, bob = (
        Governed(machine),
        Signer(tmp_path, "alice"),
        Signer(tmp_path, "bob"),
    )
    signers = governed.own / "allowed_signers"
    signers.write_text(alice.line() + bob.line())
    governed.policy("signers = /etc/heat-config-agent/allowed_signers")

    def put(number: int, signer: Signer | None, more: str = "") -> None:
        name = f"d{number}"
        content = json.dumps(
            [deployment(name, counting(machine, name), signal=heat.url(name))]
        )
        listed = daemon.local / f"site.json{signed.SUFFIX}"
        if signer is None:
            listed.unlink()
        else:  # the list first: it does not match the document before
            line = f"{signed.digest(content.encode())}  site.json\n"
            listed.write_text(ssh.sign(signer.key, signed.FILES, line))
        daemon.put(content + more)

    put(1, alice)
    daemon.start(*governed.before)
    wait_until(lambda: ran(machine) == ["d1"], LONG)
    put(2, alice, more=" ")
    daemon.wait_said("it was changed after it was signed")
    daemon.stop()
    daemon.start(*governed.before)
    put(3, bob)
    wait_until(lambda: ran(machine) == ["d1", "d3"], LONG)
    signers.write_text(alice.line())
    put(4, bob)
    daemon.wait_said("its signer is not an allowed one")
    put(5, None)
    wait_until(lambda: len(heat.values("d5")) == 1, LONG)
    assert "neither the document nor the config is signed" in str(heat.values("d5")[0])
    put(6, alice)
    wait_until(lambda: ran(machine) == ["d1", "d3", "d6"], LONG)
    assert [heat.values(name) for name in ("d2", "d4")] == [[], []]
    assert (
        "no deployment would be refused today\n"
        in governed.agent("policy", "explain").out
    )
    signers.write_text(bob.line())
    assert (
        "the signature of the document does not count: its signer is not"
        in governed.agent("policy", "explain").out
    )
