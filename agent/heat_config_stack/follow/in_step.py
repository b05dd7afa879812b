"""The traces of a revision on the machine, and the differences since it was in force.

When a revision is in force, the follower notes what its stack or its document is like, in STATE/follow/NAME/left.json.
Later the difference says how the machine is out of step: a deployment was repeated, forgotten or added by hand, or the
stack was changed by another command. A folder without that note, of an earlier version, counts as being in step.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from heat_config_agent.model.entry import Entry
from heat_config_agent.model.errors import StateError
from heat_config_agent.state import followed, journal
from heat_config_agent.state.followed import Followed
from heat_config_hooks import files
from heat_config_stack.records import listing
from heat_config_stack.records.placing import path_to
from heat_config_stack.records.records import FAILED, IN_PROGRESS, SUSPEND
from heat_config_stack.records.store import FILE as STACK
from heat_config_stack.records.store import Store

_LEFT = "left.json"
_ORIGIN = "origin.json"
"""Names in the folder of a source, and in that of a stack: the note, and the file from which the stack was made."""

_LARGEST = 64 * 1024 * 1024
_SHOWN = 3
"""The number of differences that are named."""


def keep(state: Path, record: Followed) -> None:
    """Record the state of the machine after a revision of a source. Raises OSError, StateError."""
    left = (
        _of_document(state, record.name)
        if record.document
        else _of_stack(state, record.name)
    )
    files.replace(
        followed.folder(state, record.name) / _LEFT,
        json.dumps(left).encode(),
        durable=True,
    )


def mark(state: Path, record: Followed) -> tuple[object, ...]:
    """Return a value that changes whenever the stack or the document of a source may have changed."""
    journaled = followed.document(state, record.name) / journal.FILE
    place = (
        journaled if record.document else state / listing.FOLDER / record.name / STACK
    )
    try:
        found = os.stat(place)  # noqa: PTH116  # at every poll
    except OSError:
        return (record.concluded,)
    return (record.concluded, found.st_mtime_ns, found.st_size, found.st_ino)


def drift(state: Path, record: Followed) -> str:
    """Return the difference between the machine and the revision in force; empty if there is none."""
    if not record.revision or record.begun or record.failed:
        return ""
    try:
        left = json.loads(
            files.read(followed.folder(state, record.name) / _LEFT, _LARGEST)
        )
    except (OSError, ValueError, RecursionError):
        return ""
    if not isinstance(left, dict):
        return ""
    try:
        found = _differences_of_document if record.document else _differences_of_stack
        differences = found(state, record.name, left)
    except StateError as error:
        return str(error)
    more = f" and {len(differences) - _SHOWN} more" if len(differences) > _SHOWN else ""
    return "; ".join(differences[:_SHOWN]) + more


def is_at_rest(state: Path, name: str) -> bool:
    """Return whether the stack of a source is suspended, or a command works on it: no repair disturbs that."""
    kept = listing.kept(state, name)
    record = kept.record if kept is not None else None
    if record is None:
        return False
    return record.action == SUSPEND or record.status == IN_PROGRESS


def _of_document(state: Path, name: str) -> dict[str, Any]:
    """Return the deployments of a document by their keys, each with its name and the end of its last run."""
    entries = journal.read(followed.document(state, name)).values()
    return {
        "deployments": {
            each.key: [each.title, each.ended]
            for each in entries
            if each.left_at is None
        }
    }


def _differences_of_document(state: Path, name: str, left: dict[str, Any]) -> list[str]:
    before = left.get("deployments")
    if not isinstance(before, dict):
        return []
    entries = journal.read(followed.document(state, name))
    differences = []
    for key, noted in before.items():
        if not isinstance(noted, list) or len(noted) != 2:
            continue  # the note is damaged
        title, ended = noted
        entry = entries.get(key)
        if entry is None:
            differences.append(f"{title} was forgotten")
        elif said := _difference(entry, ended):
            differences.append(f"{title} {said}")
    added = [
        each
        for key, each in entries.items()
        if key not in before and each.left_at is None
    ]
    return differences + [f"{each.title} is not of it" for each in added]


def _difference(entry: Entry, ended: float | None) -> str:
    """Return the change of a deployment since its last run in the revision."""
    if entry.again:
        return "will run again"
    if entry.left_at is not None:
        return "was taken out"
    if entry.ended is None:
        return "runs again"
    if entry.ended == ended:
        return ""
    return "has failed since" if entry.failed else "has run since"


def _of_stack(state: Path, name: str) -> dict[str, Any]:
    """Return a digest of the definition of a stack."""
    kept = listing.kept(state, name)
    return {"stack": _digest(kept.record.source) if kept and kept.record else ""}


def _differences_of_stack(state: Path, name: str, left: dict[str, Any]) -> list[str]:
    folder = listing.folder(state, name)
    store = Store(folder, write=False, warn=lambda _text: None)
    record = store.root
    if record is None:
        return [
            f"the records of the stack {name} are damaged"
            if store.damage
            else f"there is no stack {name}"
        ]
    if _digest(record.source) != left.get("stack"):
        return [f"the stack was changed {_whence(state, name, folder)}"]
    if record.status == IN_PROGRESS:
        return [f"the stack is in {record.action}_{record.status}"]
    if record.action == SUSPEND:
        return ["the stack is suspended"]
    drifted = [
        f"{path_to(store, each.id)} has drifted"
        for each in store.resources.values()
        if each.out_of_effect
    ]
    if drifted:
        return sorted(drifted)
    failed = sorted(
        {each.name for each in store.resources.values() if each.status == FAILED}
    )
    if record.status == FAILED:
        return [f"the stack is in {record.action}_{record.status}"]
    return [f"{each} is to run again" for each in failed]


def _digest(source: object) -> str:
    return hashlib.sha256(
        json.dumps(source, sort_keys=True, default=str).encode()
    ).hexdigest()


def _whence(state: Path, name: str, folder: Path) -> str:
    """Return with which file a stack was changed, as far as that is known and it is not of the source."""
    try:
        path = json.loads(files.read(folder / _ORIGIN, _LARGEST))["path"]
    except (OSError, ValueError, KeyError, TypeError):
        path = ""
    is_other = (
        isinstance(path, str)
        and path
        and not path.startswith(f"{followed.folder(state, name)}/")
    )
    return f"with {path}" if is_other else "by another command"
