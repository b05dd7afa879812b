"""Fixtures and functions for tests of the daemon."""

from __future__ import annotations

from support.daemon import counting, until
from support.machine import Machine


def meeting(machine: Machine, identity: str) -> str:
    """Return a script that says that it is there, and ends once it is let go."""
    return counting(machine, identity, until(machine.folder / f"go-{identity}"))
