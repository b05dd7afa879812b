"""The fixtures of the tests of commands: a machine with a policy, and a signer whom it trusts."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.governed import Governed
from support.machine import Machine
from support.signers import SIGNERS, Signer


@pytest.fixture
def governed(machine: Machine) -> Governed:
    """A machine whose /etc/heat-config-agent is a folder of the test."""
    return Governed(machine)


@pytest.fixture
def alice(governed: Governed, tmp_path: Path) -> Signer:
    """A signer whose signatures the policy accepts."""
    signer = Signer(tmp_path, "alice")
    (governed.own / "allowed_signers").write_text(signer.line())
    governed.policy(f"signers = {SIGNERS}")
    return signer
