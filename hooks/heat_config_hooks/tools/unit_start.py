"""Starts units of systemd, and checks that they stay up."""

from __future__ import annotations

import signal
import time
from collections.abc import Collection

from heat_config_hooks import needs, steps
from heat_config_hooks.errors import HookError
from heat_config_hooks.reply import CANNOT_START
from heat_config_hooks.tools.systemctl import Systemd

AT_REST = ("inactive", "failed")
"""Values of `ActiveState` of a unit that has stopped."""


class _NotRunning(HookError):  # noqa: N818  # systemd is not running
    code = CANNOT_START


def require() -> None:
    """Raise HookError if systemd does not run on this machine."""
    if not needs.is_booted():
        raise _NotRunning(needs.NOT_BOOTED)


def start(
    systemd: Systemd,
    begin: Collection[str],
    restarts: Collection[str],
    settle: float,
    *,
    stop: Collection[str] = (),
    at_rest: set[str] | None = None,
) -> int:
    """Stop, restart and start units, and check that they stay up for `settle` seconds; return an exit code.

    `at_rest` is filled: the units that are not up then, and have not failed, other than those of `Type=oneshot`.
    """
    units = {*begin, *restarts}
    systemd.try_to("reset-failed", units)  # this resets the counts of their starts, too
    try:
        code = (
            systemd.apply("stop", stop)
            or systemd.apply("restart", restarts)
            or systemd.apply("start", begin)
        )
        return _settled(
            systemd, units, code, settle, set() if at_rest is None else at_rest
        )
    except SystemExit:
        # the run has timed out: units that are still starting must not go on starting
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        starting = systemd.show(units, "ActiveState")
        systemd.apply(
            "stop",
            {unit["Id"] for unit in starting if unit["ActiveState"] == "activating"},
            "--no-block",
        )
        raise


def _settled(
    systemd: Systemd,
    units: Collection[str],
    code: int,
    settle: float,
    at_rest: set[str],
) -> int:
    """Print the state of each unit; return `code`, the exit code of starting them, or 1 if a unit did not stay up."""
    if not code and units:
        time.sleep(settle)
    failed, waiting = [], []
    for properties in systemd.show(
        units,
        "ActiveState",
        "SubState",
        "Result",
        "NRestarts",
        "ConditionResult",
        "Type",
    ):
        unit, active, restarts = (
            properties["Id"],
            properties["ActiveState"],
            properties.get("NRestarts", "0"),
        )
        state, result = (
            f"{active} ({properties['SubState']})",
            properties.get("Result", "unknown"),
        )
        if active == "failed" or result not in ("success", "unknown"):
            steps.say(
                f"{unit} failed: its state is {state}, its result is {result}",
                error=True,
            )
            failed.append(unit)
        elif restarts != "0":
            steps.say(
                f"{unit} does not stay up: systemd has restarted it {restarts} times so far",
                error=True,
            )
            failed.append(unit)
        elif active == "inactive" and code:
            waiting.append(unit)
        else:
            unmet = active == "inactive" and properties.get("ConditionResult") == "no"
            steps.say(
                f"{unit} was not started: a condition of it is not met"
                if unmet
                else f"{unit} is {state}"
            )
            if active == "inactive" and properties.get("Type") != "oneshot":
                at_rest.add(unit)
    for unit in failed or waiting:
        systemd.explain(unit)
    return code or (1 if failed else 0)
