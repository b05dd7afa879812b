"""Fixtures and functions for tests of a run's outcome."""

from __future__ import annotations

from typing import Any

from support.loopback import SignalServer
from support.machine import Machine, deployment

SH = "#!/bin/sh\n"


BODY_LIMIT = 1024 * 1024
"""Heat refuses bodies that are longer."""


def result(
    machine: Machine,
    heat: SignalServer,
    config: object,
    *arguments: str,
    env: dict[str, Any] | None = None,
    **fields: Any,
) -> dict[str, Any]:
    """Apply one deployment, and return the one result that arrived."""
    machine.apply(
        [deployment(config=config, signal=heat.url(), **fields)],
        *arguments,
        **(env or {}),
    )
    assert len(heat.signals) == 1
    return heat.signals[0].value


def left_out(text: str) -> int:
    """Return the number of bytes that a shortened text says it lacks."""
    _, found, rest = text.partition("\n[... ")
    assert found, "nothing says that something was left out"
    return int(rest.partition(" bytes left out ...]\n")[0].replace(",", ""))
