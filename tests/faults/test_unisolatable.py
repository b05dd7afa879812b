"""Runs that ask for isolation where the machine gives none: nothing is run, and the reason is said."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from support import pace
from support.machine import BIN, Machine, deployment
from support.tools import need, need_root
from support.unprivileged import Unprivileged

pytestmark = pytest.mark.takes(20)


def isolated(proof: Path, level: str) -> dict[str, Any]:
    """Return a deployment whose run would leave a proof."""
    return deployment(
        "d1", f"#!/bin/sh\necho ran >{proof}\n", options={"isolate": {level: True}}
    )


@pytest.mark.fault(
    2,
    "a deployment asks for isolation, and the agent is not root",
    "a failure; nothing is run",
)
def test_an_agent_that_is_not_root_refuses(unprivileged: Unprivileged) -> None:
    """Rather than to run it without."""
    proof = unprivileged.folder / "proof"
    done = unprivileged.run(unprivileged.write([isolated(proof, "network")]))
    assert done.returncode == 1, done.stderr
    assert (
        "cannot start d1: only root can isolate it, and the agent runs as the user"
        in done.stdout
    )
    assert not proof.exists()


@pytest.mark.fault(
    2,
    "a deployment asks for isolation, and the kernel refuses it",
    "a failure; nothing is run",
)
def test_a_machine_that_gives_no_namespaces_refuses(machine: Machine) -> None:
    """Without namespaces, as in an unprivileged container, the run is refused; `doctor` warns of it."""
    need_root()
    before = [need("setpriv", "util-linux"), "--bounding-set=-sys_admin"]
    proof = machine.folder / "proof"
    document = machine.write([isolated(proof, "tmp")])
    config = machine.folder / "agent.conf"
    config.write_text("[agent]\nisolate = tmp\n")
    state = ("--state-dir", str(machine.state))

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [*before, str(BIN / words[0]), *words[1:], *state]
        return subprocess.run(
            command,
            env=machine.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=pace.seconds(60),
        )

    done = run("heat-config-apply", str(document))
    assert done.returncode == 1, done.stderr
    assert (
        "cannot start d1: this machine cannot isolate it: unshare: Operation not permitted"
        in done.stdout
    )
    assert not proof.exists()
    machine.have_quick_tools()
    doctor = run("heat-config-agent", "doctor", "--config", str(config))
    assert "runs cannot be isolated by tmp" in doctor.stdout
