"""Text for people: one line without control characters, times and durations."""

from __future__ import annotations

import sys
import time

from heat_config_hooks import processes

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from heat_config_agent.model.entry import Entry


def plain(text: str) -> str:
    """Return text from outside with control characters replaced, so that it cannot steer the terminal."""
    if text.isprintable():
        return text
    return "".join(
        sign if sign.isprintable() or sign in "\n\t" else "\ufffd" for sign in text
    )


def line(text: str) -> str:
    """Return text from outside in one line, without control characters."""
    return (
        text
        if text.isprintable()
        else plain(text.replace("\n", " ").replace("\t", " "))
    )


def duration(seconds: float) -> str:
    """Return a duration for people, cut and not rounded: 0.02 s, 12 s, 9 min 59 s, 2 h 5 min, 3 d 4 h."""
    if seconds < 10:
        # a millionth makes up for numbers such as 0.29, which are stored as a little less
        return f"{int(max(seconds, 0.0) * 100 + 1e-6) / 100:.2f} s"
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"


def moment(seconds: float | None) -> str:
    """Return a time (seconds since the epoch) for the reader of standard output.

    For people at a terminal it is local: 15:50:36 today, else 2026-11-25 15:50. Programs get the same as from `stamp`.
    """
    if seconds is None:
        return "-"
    if not sys.stdout.isatty():
        return stamp(seconds) or _INVALID
    try:
        then = time.localtime(seconds)
    except (ValueError, OverflowError, OSError):
        return _INVALID
    return time.strftime("%H:%M:%S" if then[:3] == _today() else "%Y-%m-%d %H:%M", then)


def _today() -> tuple[int, ...]:
    return time.localtime()[:3]


_INVALID = "an invalid time"
"""The words for an invalid time, from a damaged file."""


def stamp(seconds: float | None) -> str | None:
    """Return a time (seconds since the epoch) as RFC 3339 has it, in UTC with milliseconds; None if it is not known."""
    if seconds is None:
        return None
    try:
        whole, thousandths = divmod(int(seconds * 1000), 1000)
        then = time.gmtime(whole)
    except (ValueError, OverflowError, OSError):  # from a damaged file
        return None
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', then)}.{thousandths:03d}Z"


def next_attempt(entry: Entry) -> str:
    """Return in words when the command of a deployment with the option `retry` is run again."""
    same_boot = entry.run is not None and entry.run.boot == processes.boot_id()
    delay = entry.due - processes.since_boot() if same_boot else 0.0
    return f"attempt {entry.attempts + 1} begins {f'in {duration(delay)}' if delay > 0 else 'now'}"
