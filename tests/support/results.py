"""Fixtures and functions for tests of the delivery of results."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from support.machine import Done, Machine, deployment

UNDELIVERED = 5


ONCE = ("--deliver-for", "0")
"""One try for each result."""


def ended(process: subprocess.Popen[str], seconds: float) -> Done:
    """Return how a process ended, which it has to do within that many seconds."""
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        pytest.fail(f"it did not end within {seconds:g} s", pytrace=False)
    return Done(process.returncode, out, err)


def hasty(machine: Machine, document: object, *arguments: str) -> Done:
    """Run `heat-config-apply` with time limits for requests that a test can wait for; print its peak memory."""
    code = """if True:
        import atexit, sys
        from heat_config_agent import web
        from heat_config_agent.signals import outbox
        from heat_config_agent.cli import main
        assert web.CONNECT_SECONDS and web.READ_SECONDS and outbox.PATIENCE
        web.CONNECT_SECONDS, web.READ_SECONDS, outbox.PATIENCE = 1.0, 0.8, 2.0
        atexit.register(lambda: print(open("/proc/self/status").read(), file=sys.stderr))
        main.apply()
    """
    path = machine.write(document)
    named = ("--state-dir", str(machine.state), *arguments, str(path))
    return ended(machine.start(sys.executable, "-c", code, *named), 8)


def counting(
    machine: Machine, identity: str = "d1", url: str = "", **fields: Any
) -> dict[str, Any]:
    """Return a deployment whose script counts its runs and prints its id."""
    text = f"#!/bin/sh\necho {identity} >>{machine.folder}/ran\necho {identity}\n"
    return deployment(identity, text, signal=url, **fields)


def ran(machine: Machine) -> list[str]:
    """Return the ids of the scripts that ran, once for each time."""
    return (machine.folder / "ran").read_text().split()
