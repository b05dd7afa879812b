"""What people ask of the agent between its passes: to run a deployment again, to send its result again, to forget it.

Only who holds the lock may write the journal, and a daemon holds it all the time. So a request is a file in
`STATE/asked/`, and whoever holds the lock carries it out: the command itself where no agent is running, else the agent
at its next run.
"""

from __future__ import annotations

import enum
import json
import os
import time
from pathlib import Path

import heat_config_hooks
from heat_config_agent import kill_points
from heat_config_agent.deployed import Deployed
from heat_config_agent.errors import StateError
from heat_config_agent.journal import Journal
from heat_config_agent.model import BUILTIN, UNDELIVERED, Entry, State
from heat_config_hooks import files

FOLDER = "asked"
"""Where requests are left, in the state directory."""

PAUSED = "paused"
"""The file that says that, and why, nothing new is to be begun."""


def pause(state: Path, reason: str) -> None:
    """Have nothing new begun until `resume`; also by agents that are started after that. Raises StateError."""
    try:
        files.make_directory(state, durable=True)
        text = json.dumps({"reason": " ".join(reason.split()), "since": time.time()})
        files.replace(state / PAUSED, text.encode(), durable=True)
    except OSError as error:
        raise StateError(f"cannot write to {state}: {error.strerror}") from error


def resume(state: Path) -> bool:
    """Have things begun again; return whether they were not. Raises StateError."""
    try:
        if not os.path.lexists(state / PAUSED):
            return False
        files.remove(state / PAUSED)
    except OSError as error:
        raise StateError(f"cannot remove {state / PAUSED}: {error.strerror}") from error
    return True


def paused(state: Path) -> tuple[str, float] | None:
    """Return why nothing new is to be begun, and since when; None where it is."""
    try:
        said = json.loads(files.read(state / PAUSED))
        return " ".join(str(said["reason"]).split()), float(said["since"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, RecursionError, OverflowError):
        return "for a reason that cannot be read", 0.0  # somebody has paused it all the same


_PRUNE = "prune"


def prune(state: Path) -> None:
    """Have whoever holds the lock remove what is kept no longer. Raises StateError."""
    try:
        files.make_directory(state / FOLDER)
        files.replace(state / FOLDER / _PRUNE, b"")
    except OSError as error:
        raise StateError(f"cannot write to {state / 'asked'}: {error.strerror}") from error


def wants_pruning(state: Path) -> bool:
    """Whether somebody has asked for that, which is forgotten by `carry_out`."""
    return os.path.lexists(state / FOLDER / _PRUNE)


class Wish(str, enum.Enum):
    """What can be asked for."""

    AGAIN = "again"
    SEND = "send"
    FORGET = "forget"


def ask(state: Path, key: str, wish: Wish) -> None:
    """Leave a request. Raises StateError."""
    directory = state / FOLDER
    try:
        files.make_directory(directory)
        files.replace(directory / f"{key}.{wish.value}", b"")
        kill_points.reached("asked.left")
    except OSError as error:
        raise StateError(f"cannot write to {directory}: {error.strerror}") from error


def carry_out(state: Path, journal: Journal, deployed: Deployed) -> tuple[list[str], list[str]]:
    """Carry out all requests; return what was done, and what could not be, in words. Raises StateError."""
    directory = state / FOLDER
    done: list[str] = []
    wrong: list[str] = []
    if not directory.is_dir():
        return done, wrong
    try:
        paths = sorted(directory.iterdir())
    except OSError as error:
        return done, [f"cannot read {directory}, where requests are left: {error.strerror}"]
    for path in paths:
        key, _, word = path.name.rpartition(".")
        if word == "new":
            continue  # it is being written
        if path.is_dir() and not path.is_symlink():
            wrong.append(f"{path} is no request, but a folder: remove it")
            continue
        entry = journal.entries.get(key)
        if entry is not None and entry.state is State.RUNNING:
            continue  # it has to end first
        try:
            if entry is not None and word in {wish.value for wish in Wish}:
                done.append(_grant(journal, deployed, state, entry, Wish(word)))
                kill_points.reached("asked.granted")
            path.unlink(missing_ok=True)
            kill_points.reached("asked.done")
        except OSError as error:  # it stays, and is tried again; nobody else waits for it
            name = entry.name if entry else key
            wrong.append(f"cannot {word} all of {name}: {error.strerror}: {error.filename}")
            if entry is not None and word == Wish.AGAIN.value:
                journal.again(key, wanted=False)  # what cannot be removed would be granted at every pass
    return done, wrong


def _grant(journal: Journal, deployed: Deployed, state: Path, entry: Entry, wish: Wish) -> str:
    key, name = entry.key, entry.name
    if wish is Wish.AGAIN:
        journal.again(key)
        return f"{name} is run again by the next run"
    if wish is Wish.SEND:
        if entry.values is None or entry.state not in UNDELIVERED:
            return f"the result of {name} is not sent again: it is {entry.state.value}"
        journal.send_again(key)
        return f"the result of {name} is sent again by the next run"
    deployed.forget(key)
    for path in (state / "runs" / key, *_written(entry)):
        files.remove(path)
    kill_points.reached("asked.removed")
    journal.forget(key)  # last: what was cut short is done again
    return f"{name} is forgotten"


def _written(entry: Entry) -> list[Path]:
    """Return what a run left in the folders of its hook: its config, and its outputs."""
    folders, patterns = traces(entry)
    return [path for folder in folders for each in patterns for path in folder.glob(each)]


def traces(entry: Entry) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    """Return the folders in which a run may have left something, and the patterns of its names."""
    if entry.run is None:
        return (), ()
    name = entry.run.hook.removeprefix(BUILTIN)
    ours = entry.run.hook.startswith(BUILTIN) and name in heat_config_hooks.HOOKS
    patterns = heat_config_hooks.load(name).ABOUT.files if ours else ("{key}", "{key}.*")
    folders = (Path(entry.run.working), Path(entry.run.outputs))
    return folders, tuple(each.format(key=entry.key) for each in patterns)
