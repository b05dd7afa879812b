"""Moments at which the agent kills itself if told to, so that tests can show that it may die at any of them.

`HEAT_CONFIG_AGENT_KILL="POINT N FILE"` arms one: when it is passed for the N-th time in a process, and FILE is there,
FILE is removed and the process ends as by `kill -9`. FILE makes it happen once, whatever is restarted with the same
environment. The point `?` writes all points that are passed into FILE, a line each: the process, and the point.
"""

from __future__ import annotations

import os
import signal

from heat_config_agent.errors import UsageError

VARIABLE = "HEAT_CONFIG_AGENT_KILL"

RECORDS = (
    *("accepted", "running", "not_started", "interrupted", "reboot", "finished", "settled", "tried"),
    *("moved", "again", "send_again", "drop", "marked", "left"),
)
"""What the journal records, see `journal.Journal`."""

POINTS = (
    *(f"journal.{record}.{moment}" for record in RECORDS for moment in ("before", "after")),
    *("journal.flush.before", "journal.flush.after"),
    *("journal.anew.before", "journal.anew.written", "journal.anew.after"),
    *("runner.folder", "runner.prepared", "runner.spawned", "runner.announced", "runner.word", "runner.adopted"),
    *("runner.ending", "runner.term", "runner.kill", "runner.closed", "runner.concluded", "runner.tidied"),
    *("journal.torn", "journal.aside", "runner.remains"),
    *("deployed.taken_over", "deployed.deployment", "deployed.result"),
    *("signals.before", "signals.after", "signals.judged"),
    *("source.claimed", "source.let_go.before", "source.let_go.after", "documents.dropped"),
    *("loop.arrived", "loop.kept", "loop.let_go", "loop.asked", "loop.offered", "loop.told", "loop.settled"),
    *("loop.reload", "loop.reboot.before", "loop.reboot.after", "loop.learned", "loop.ending", "loop.ended"),
    *("retention.masked", "retention.hidden", "retention.emptied", "retention.removed", "retention.remembered"),
    *("asked.left", "asked.removed", "asked.granted", "asked.done"),
    *("instance.known", "instance.leaving", "instance.moved", "instance.left"),
)
"""Each transition of the journal, of runs, of signals and of the loop. Held against the code by a test."""

_POINT, _PASSES, _FILE = ("", "1", "")
_passed = 0


def arm(value: str) -> None:
    """Arm what the variable says. Raises UsageError."""
    global _POINT, _PASSES, _FILE  # one process dies once
    words = value.split(maxsplit=2)
    number = int(words[1]) if len(words) == 3 and words[1].isdecimal() else -1
    if number < 0 or words[0] not in (*POINTS, "?") or (number == 0 and words[0] != "?"):
        raise UsageError(f"{VARIABLE} is {value!r}: expected «POINT N FILE»", hint=f"the points: {', '.join(POINTS)}")
    _POINT, _PASSES, _FILE = words


def reached(point: str) -> None:
    """Die here, if told to."""
    if not _POINT:
        return
    if point == _POINT:
        _die()
    elif _POINT == "?":
        with open(_FILE, "a") as file:
            file.write(f"{os.getpid()} {point}\n")


def _die() -> None:
    global _passed  # noqa: PLW0603
    _passed += 1
    if _passed == int(_PASSES) and os.path.lexists(_FILE):
        os.unlink(_FILE)  # noqa: PTH108  # pathlib is nothing else's here
        os.kill(os.getpid(), signal.SIGKILL)
