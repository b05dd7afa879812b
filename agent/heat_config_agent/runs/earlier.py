"""The output of the earlier runs of a deployment, in the folder of its run.

It is moved here when the next run is due, and masked on disk before that: the inputs of the run that it is of are known
then, and the next document may not have its secrets any more. Output whose secrets are not known is removed. Each run
has a folder of its own, whose name is the number of the run.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from heat_config_agent.masking import redaction
from heat_config_agent.model.deployment import Deployment
from heat_config_agent.model.entry import Entry, Removed, State
from heat_config_agent.runs import resolved, run_folder, streams
from heat_config_hooks import files
from heat_config_hooks.values import dataclass

KEPT = 10
"""The number of earlier runs of one deployment whose output is kept."""

STREAMS = ("stdout", "stderr")

_ABOUT = "run.json"

_LATEST = 1e11
"""The latest time that a run may have, in seconds since the epoch."""


@dataclass(frozen=True, kw_only=True)
class Earlier:
    """An earlier run whose output is kept. Everything about it is masked."""

    folder: Path
    """The folder with its output."""
    number: int
    action: str = ""
    started: float | None = None
    ended: float | None = None
    failed: bool = False
    reason: str = ""


def keep(
    folder: Path,
    entry: Entry,
    deployment: Deployment | None,
    limit: int,
    alive: Callable[[], object] = lambda: None,
) -> None:
    """Move the output of an entry's run from its folder to the outputs of earlier runs.

    `deployment` is the one that was run; None if it is not known any more. All earlier runs together may take as much
    space as one stream may by `limit`, the setting `output_limit`. `alive` is called while this goes on. It may be
    interrupted and repeated. Raises OSError if the output could not be kept; then it is removed.
    """
    home = folder / run_folder.EARLIER
    if home.is_symlink():  # the command may have done anything in its folder
        files.remove(home)
    number = max(_numbers(home), default=0) + 1
    new = home / f".{number}.new"
    present = [name for name in STREAMS if os.path.lexists(folder / name)]
    if folder.is_symlink() or entry.run is None or not (present or new.exists()):
        return
    try:
        if run_folder.recorded(folder, entry.run) == run_folder.UNSTARTED:
            return
        _mask(folder, present, entry, deployment, alive)
        files.make_directory(new)
        for name in present:
            if os.path.lexists(folder / name):
                (folder / name).rename(new / name)
        files.replace(new / _ABOUT, json.dumps(_facts(folder, entry)).encode())
        new.rename(home / str(number))
    finally:
        for name in STREAMS:
            files.remove(folder / name)
    _trim(home, max(limit, streams.LEAST) if limit else 0)


def _mask(
    folder: Path,
    names: list[str],
    entry: Entry,
    deployment: Deployment | None,
    alive: Callable[[], object],
) -> None:
    """Mask everything secret in the output of a run; remove output whose secrets are not known. Raises OSError.

    Processes that the run has left behind cannot add to it any more.
    """
    if os.path.lexists(folder / run_folder.RESOLVED):
        resolved.conceal(folder, names)
    secrets = redaction.secrets(deployment) if deployment else None
    for name in names:
        try:
            if secrets is None and entry.removed is Removed.NOTHING:
                files.remove(folder / name)
                continue
            streams.detach(folder / name)
            for _ in streams.mask(folder / name, secrets) if secrets else ():
                alive()
        except FileNotFoundError:
            continue


def _facts(folder: Path, entry: Entry) -> dict[str, object]:
    """Return the facts about the last run of an entry that `Earlier` has."""
    run = entry.run
    ended = entry.ended or (run_folder.ended_at(folder, run) if run else None)
    reason, failed = entry.reason, entry.failed
    if entry.state is State.RETRY:
        failed = True
    elif entry.state is State.REBOOT:
        reason = "it asked for a reboot"
    elif not entry.ended:
        reason, failed = "it was interrupted", True
    return {
        "action": entry.action,
        "started": entry.started,
        "ended": ended,
        "failed": failed,
        "reason": reason,
    }


def listed(folder: Path) -> list[Earlier]:
    """Return the earlier runs in the folder of a run, oldest first."""
    home = folder / run_folder.EARLIER
    return [_read(home / str(number), number) for number in sorted(_numbers(home))]


def _read(folder: Path, number: int) -> Earlier:
    try:
        about = json.loads(files.read(folder / _ABOUT))
        return Earlier(
            folder=folder,
            number=number,
            action=str(about["action"]),
            started=_moment(about["started"]),
            ended=_moment(about["ended"]),
            failed=bool(about["failed"]),
            reason=str(about["reason"]),
        )
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        # a command may have written it
        return Earlier(folder=folder, number=number)


def _moment(value: object) -> float | None:
    """Return a time that a calendar has; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= _LATEST else None


def _numbers(home: Path) -> Iterator[int]:
    """Yield the numbers of the runs that are kept."""
    try:
        names = os.listdir(home)
    except OSError:
        return
    yield from (
        int(name)
        for name in names
        if name.isascii() and name.isdigit() and len(name) < 10
    )


def _trim(home: Path, limit: int) -> None:
    """Remove the oldest runs, if there are too many or they take more than `limit` bytes (0 for no limit)."""
    room, newest_first = limit, sorted(_numbers(home), reverse=True)
    for index, number in enumerate(newest_first):
        room -= sum(files.taken(home / str(number) / name) for name in STREAMS)
        if index >= KEPT or (limit and room < 0):
            files.remove(home / str(number))


def empty(folder: Path) -> bool:
    """Remove all earlier runs, whose space a new run needs; return whether there were any. Raises OSError."""
    home = folder / run_folder.EARLIER
    if not os.path.lexists(home):
        return False
    files.remove(home)
    return True
