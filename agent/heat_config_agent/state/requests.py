"""Requests: to run a deployment again, repair it, send its result again, stop it or forget it, to pause, and to prune.

Only the holder of the lock may write the journal, and a daemon holds it all the time. So a request is a file in
`STATE/asked/`, and the holder of the lock carries it out: the command itself if no agent is running, else the agent.
"""

from __future__ import annotations

import enum
import json
import os
import time
from pathlib import Path

import heat_config_hooks
from heat_config_agent.model.deployment import BUILTIN
from heat_config_agent.model.entry import UNDELIVERED, Entry, State
from heat_config_agent.model.errors import StateError
from heat_config_agent.state import lock
from heat_config_agent.state.asked import FOLDER, PAUSED, paused
from heat_config_agent.state.deployed import Deployed
from heat_config_agent.state.journal import Journal
from heat_config_hooks import files, processes
from heat_config_hooks.values import dataclass


def pause(state: Path, reason: str, until: float | None = None) -> None:
    """Keep deployments from beginning until `resume`, also after a restart. Raises StateError, as all requests here.

    No user leaves a request in the state directory of another one, who could not read it.

    The pause ends by itself at `until`, in seconds since the epoch; None for never.
    """
    lock.guard(state)
    try:
        files.make_directory(state, durable=True)
        text = json.dumps(
            {
                "reason": " ".join(reason.split()),
                "since": time.time(),
                "until": until,
                "boot": processes.boot_id(),
                "up": processes.since_boot(),
            }
        )
        files.replace(state / PAUSED, text.encode(), durable=True)
    except OSError as error:
        raise StateError(f"cannot write to {state}: {error.strerror}") from error


def resume(state: Path) -> bool:
    """End a pause; return whether there was one. Raises StateError."""
    try:
        if not os.path.lexists(state / PAUSED):
            return False
        was_paused = paused(state) is not None
        files.remove(state / PAUSED)
    except OSError as error:
        raise StateError(f"cannot remove {state / PAUSED}: {error.strerror}") from error
    return was_paused


_PRUNE = "prune"


def prune(state: Path) -> None:
    """Request that the holder of the lock prunes. Raises StateError."""
    lock.guard(state)
    try:
        files.make_directory(state / FOLDER)
        files.replace(state / FOLDER / _PRUNE, b"")
    except OSError as error:
        raise StateError(
            f"cannot write to {state / 'asked'}: {error.strerror}"
        ) from error


def wants_pruning(state: Path) -> bool:
    """Return whether pruning was requested. `carry_out` removes the request."""
    return os.path.lexists(state / FOLDER / _PRUNE)


class Wish(str, enum.Enum):
    """A request about one deployment."""

    AGAIN = "again"
    REPAIR = "repair"
    """To run it again because it has drifted: `ask_repair` leaves the request."""
    SEND = "send"
    FORGET = "forget"


def ask(state: Path, key: str, wish: Wish) -> None:
    """Leave a request about a deployment. Raises StateError."""
    lock.guard(state)
    directory = state / FOLDER
    try:
        files.make_directory(directory)
        if wish is Wish.AGAIN:
            # the person has changed their mind
            files.remove(directory / f"{key}.{_STOP}")
        files.replace(directory / f"{key}.{wish.value}", b"")
    except OSError as error:
        raise StateError(f"cannot write to {directory}: {error.strerror}") from error


_LONGEST_DRIFT = 500
"""The most characters of a drift that the record of its repair names."""


def ask_repair(state: Path, entry: Entry, drift: str) -> None:
    """Leave a request to run a deployment again because it has drifted. Raises StateError.

    It is void once the deployment has run again for any reason: a drift is repaired once. No secret may be in `drift`.
    """
    lock.guard(state)
    directory = state / FOLDER
    line = " ".join(drift.split())
    if len(line) > _LONGEST_DRIFT:
        line = f"{line[:_LONGEST_DRIFT]} …"
    text = json.dumps({"run": entry.run_at, "drift": line or "it has drifted"})
    try:
        files.make_directory(directory)
        files.replace(
            directory / f"{entry.key}.{Wish.REPAIR.value}", text.encode(), durable=True
        )
    except OSError as error:
        raise StateError(f"cannot write to {directory}: {error.strerror}") from error


def _repair(path: Path) -> tuple[float, str]:
    """Return the run that a request wants to be repaired, and its drift. Raises OSError."""
    try:
        values = json.loads(files.read(path))
        return float(values["run"]), str(values["drift"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return 0.0, ""


def is_asked(state: Path, key: str) -> bool:
    """Return whether another run or delivery of a deployment is requested, and nothing was done about it yet."""
    return any(
        os.path.lexists(state / FOLDER / f"{key}.{wish.value}")
        for wish in (Wish.AGAIN, Wish.REPAIR, Wish.SEND)
    )


_STOP = "stop"


@dataclass(frozen=True, kw_only=True)
class Stop:
    """A request to end the run of a deployment, or not to begin it. The engine carries it out, see `engine.stops`."""

    key: str
    accepted: float
    """When the deployment was accepted: the request is about no later run that someone asks for."""
    by: str
    """The name of the person; empty if it is not known."""


def ask_to_stop(state: Path, entry: Entry, by: str) -> None:
    """Leave a request to stop a deployment. It survives a power cut. Raises StateError."""
    lock.guard(state)
    directory = state / FOLDER
    content = json.dumps({"accepted": entry.accepted, "by": by}).encode()
    try:
        files.make_directory(directory, durable=True)
        files.replace(directory / f"{entry.key}.{_STOP}", content, durable=True)
    except OSError as error:
        raise StateError(f"cannot write to {directory}: {error.strerror}") from error


def is_stop_asked(state: Path, key: str) -> bool:
    """Return whether a stop of a deployment is requested, and nothing was done about it yet."""
    return os.path.lexists(state / FOLDER / f"{key}.{_STOP}")


def stops(state: Path) -> list[Stop]:
    """Return the requests to stop deployments. Raises OSError if they cannot be read.

    One with another content than `ask_to_stop` writes is about a deployment that was accepted at no time.
    """
    directory = state / FOLDER
    try:
        names = sorted(os.listdir(directory))
    except FileNotFoundError:
        return []
    left = []
    for name in names:
        key, _, word = name.rpartition(".")
        if word != _STOP:
            continue
        try:
            content = json.loads(files.read(directory / name))
            stop = Stop(
                key=key,
                accepted=float(content["accepted"]),
                by=" ".join(str(content["by"]).split()),
            )
        except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
            stop = Stop(key=key, accepted=-1.0, by="")
        left.append(stop)
    return left


def stop_is_done(state: Path, key: str) -> None:
    """Remove the request to stop a deployment, and those to run it again. Raises OSError."""
    for wish in (Wish.AGAIN, Wish.REPAIR):
        files.remove(state / FOLDER / f"{key}.{wish.value}")
    files.remove(state / FOLDER / f"{key}.{_STOP}")


def carry_out(
    state: Path, journal: Journal, deployed: Deployed
) -> tuple[list[str], list[str]]:
    """Carry out all requests but those to stop; return a sentence for each that was done, and for each that failed.

    Raises StateError.
    """
    directory = state / FOLDER
    granted: list[str] = []
    wrong: list[str] = []
    if not directory.is_dir():
        return granted, wrong
    try:
        paths = sorted(directory.iterdir())
    except OSError as error:
        return granted, [f"cannot read the requests in {directory}: {error.strerror}"]
    for path in paths:
        key, _, word = path.name.rpartition(".")
        if word in ("new", _STOP):
            continue  # it is being written, or for the engine
        if path.is_dir() and not path.is_symlink():
            wrong.append(f"{path} is not a request, but a folder: remove it")
            continue
        entry = journal.entries.get(key)
        if entry is not None and entry.state is State.RUNNING:
            continue  # the run has to end first
        try:
            if entry is not None and word in {wish.value for wish in Wish}:
                granted.append(_grant(journal, deployed, path, entry, Wish(word)))
            path.unlink(missing_ok=True)
        except (
            OSError
        ) as error:  # the request stays, and is tried again; no other waits for it
            name = entry.title if entry else key
            wrong.append(
                f"cannot {word} all of {name}: {error.strerror}: {error.filename}"
            )
            if entry is not None and word in (Wish.AGAIN.value, Wish.REPAIR.value):
                # a request file that cannot be removed would run it again at every pass
                journal.again(key, required=False)
    return granted, wrong


def _grant(
    journal: Journal, deployed: Deployed, request: Path, entry: Entry, wish: Wish
) -> str:
    key, name, state = entry.key, entry.title, request.parent.parent
    if wish is Wish.REPAIR:
        run, drift = _repair(request)
        if entry.run_at != run or not entry.settled:
            return f"{name} is not repaired: it has run since it was verified"
        journal.again(key, drift=drift)
        return f"{name} will be repaired: {drift}"
    if wish is Wish.AGAIN:
        journal.again(key)
        return f"{name} will run again"
    if wish is Wish.SEND:
        if entry.values is None or entry.state not in UNDELIVERED:
            return f"the result of {name} is not sent again: it is {entry.state.value}"
        journal.send_again(key)
        return f"the result of {name} will be sent again"
    deployed.forget(key)
    for path in (state / "runs" / key, *written(entry)):
        files.remove(path)
    journal.forget(key)  # last: if this is interrupted, it is done again
    return f"{name} is forgotten"


def written(entry: Entry) -> list[Path]:
    """Return the files that a run has left in the folders of its hook: its config, and its outputs."""
    folders, patterns = traces(entry)
    if entry.run is not None and entry.run.user:
        # all of its folders are in one that is its own
        return [Path(entry.run.private)] if entry.run.private else []
    return [
        path
        for folder in folders
        for pattern in patterns
        for path in folder.glob(pattern)
    ]


def traces(entry: Entry) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    """Return the folders in which a run may have left files, and the patterns of their names."""
    if entry.run is None or entry.run.user:
        # the folders of another user are removed as one, and not looked into
        return (), ()
    name = entry.run.hook.removeprefix(BUILTIN)
    ours = entry.run.hook.startswith(BUILTIN) and name in heat_config_hooks.HOOKS
    patterns = (
        heat_config_hooks.load(name).ABOUT.files if ours else ("{key}", "{key}.*")
    )
    folders = (Path(entry.run.working), Path(entry.run.outputs))
    return folders, tuple(pattern.format(key=entry.key) for pattern in patterns)
