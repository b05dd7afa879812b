"""The wishes of people that are there now. Every start needs this module, and few need `state.requests`."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path

from heat_config_hooks import files, processes

FOLDER = "asked"
"""The folder with requests in the state directory."""

PAUSED = "paused"
"""The file that pauses the agent, and says why."""


def has_requests(state: Path) -> bool:
    """Return whether anything may have been requested, which `requests.carry_out` does."""
    return os.path.isdir(f"{state}/{FOLDER}")  # noqa: PTH112  # never raises


def last_change(state: Path) -> int:
    """Return when a request was last left or carried out, in nanoseconds; 0 if there never was one."""
    try:
        return os.stat(f"{state}/{FOLDER}").st_mtime_ns  # noqa: PTH116  # at every turn
    except OSError:
        return 0


def paused(state: Path) -> tuple[str, float, float | None] | None:
    """Return why the agent is paused, since when, and until when; None if it is not, or no longer.

    The moments are in seconds since the epoch. The last is None if the pause does not end by itself.
    """
    try:
        pause = json.loads(files.read(state / PAUSED))
        since = float(pause["since"])
        until = None if pause.get("until") is None else _finite(pause["until"])
        if until is not None:
            left = _left(pause, until, since)
            if left <= 0:
                return None
            until = time.time() + left
        return " ".join(str(pause["reason"]).split()), since, until
    except FileNotFoundError:
        return None
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        RecursionError,
        OverflowError,
    ):
        # the file is there, so it is paused
        return ("for a reason that cannot be read", 0.0, None)


def _left(pause: Mapping[str, object], until: float, since: float) -> float:
    """Return the seconds until a pause ends: by the kernel's clock, because the machine's may be set meanwhile.

    After a reboot, the time for which the machine was down is known from the machine's clock alone.
    """
    up = processes.since_boot()
    if pause.get("boot") == processes.boot_id():
        return _finite(pause.get("up")) + until - since - up
    left = until - time.time()
    return min(left, until - since - up) if "boot" in pause else left


def _finite(moment: object) -> float:
    """Return a moment as a number. Raises ValueError, TypeError."""
    number = float(moment) if isinstance(moment, (int, float)) else float("nan")
    if not float("-inf") < number < float("inf"):
        raise ValueError(moment)
    return number
