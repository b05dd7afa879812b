"""The hosts that keep something of a stack: on record here before they get anything, until they have removed it.

So a host that was away when a stack was deleted, or has left it, is asked for that as soon as it is reached again.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heat_config_agent.model.errors import AgentError, StateError
from heat_config_hooks import files, protocol
from heat_config_stack.hosts.asked import Asked, ask
from heat_config_stack.hosts.host import Host
from heat_config_stack.records import listing, placing
from heat_config_stack.records.records import StackRecord
from heat_config_stack.records.store import Store

FOLDER = "hosts"
"""The folder in the state directory with a file for each stack that has something on other hosts."""

SECONDS = 20.0
"""Seconds that hosts have to remove what they keep of a stack."""

_LARGEST = 1024**2


@dataclass(frozen=True)
class Kept:
    """The hosts that keep something of a stack."""

    stack: str
    """The id of the stack."""
    name: str
    hosts: tuple[Host, ...]

    @property
    def words(self) -> str:
        """The things that they keep, for people."""
        return f"what it kept of the stack {self.name}"


def read(state: Path, stack: str) -> Kept | None:
    """Return the hosts that keep something of a stack, as far as that is on record; None if no host does."""
    return _read(state / FOLDER / protocol.file_key(stack))


def every(state: Path) -> list[Kept]:
    """Return the hosts that keep something of stacks, for each stack."""
    try:
        paths = sorted((state / FOLDER).iterdir())
    except OSError:
        return []
    return [kept for path in paths if (kept := _read(path)) is not None]


def _read(path: Path) -> Kept | None:
    try:
        values = json.loads(files.read(path, _LARGEST))
        hosts = tuple(Host.from_json(each) for each in values["hosts"])
        return Kept(str(values["stack"]), str(values["name"]), hosts)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def lives(state: Path, kept: Kept) -> bool:
    """Return whether a stack is there, also if that cannot be read."""
    try:
        folder = listing.folder(state, kept.name)
        store = Store(folder, write=False, only=StackRecord.KIND)
    except AgentError:
        return True
    if store.damage:
        return True
    return store.root is not None and store.root.id == kept.stack


def of_gone_stacks(state: Path, hosts: Iterable[Host]) -> dict[Host, list[Kept]]:
    """Return the stacks that are gone, and of which some hosts keep something."""
    by_place = {each.place: each for each in hosts}
    found: dict[Host, list[Kept]] = {}
    for kept in every(state):
        there = [by_place[each.place] for each in kept.hosts if each.place in by_place]
        if there and not lives(state, kept):
            for host in there:
                found.setdefault(host, []).append(kept)
    return found


def of_stack(state: Path, kept: Kept, hosts: Iterable[Host]) -> dict[Host, list[Kept]]:
    """Return the hosts that keep something of a stack that has left them; the caller holds the lock of its folder."""
    by_place = {each.place: each for each in hosts}
    try:
        store = Store(listing.folder(state, kept.name), write=False)
    except AgentError:
        return {}
    if store.damage or store.root is None or store.root.id != kept.stack:
        return {}
    there = placing.places(store)
    left = [each.place for each in kept.hosts if each.place not in there]
    return {by_place[place]: [kept] for place in left if place in by_place}


def note(state: Path, stack: str, name: str, hosts: Iterable[Host]) -> None:
    """Put on record that hosts get something of a stack now. Raises StateError."""
    there = read(state, stack)
    by_place = {each.place: each for each in there.hosts} if there else {}
    by_place.update({each.place: each for each in hosts})
    if there is None or tuple(by_place.values()) != there.hosts:
        _write(state, Kept(stack, name, tuple(by_place.values())))


def removed(state: Path, stack: str, places: Collection[tuple[Any, ...]]) -> None:
    """Put on record that hosts keep nothing of a stack any more. Raises StateError."""
    there = read(state, stack)
    if there is None:
        return
    rest = tuple(each for each in there.hosts if each.place not in places)
    if rest != there.hosts:
        _write(state, Kept(stack, there.name, rest))


def _write(state: Path, kept: Kept) -> None:
    path = state / FOLDER / protocol.file_key(kept.stack)
    try:
        if not kept.hosts:
            files.remove(path)
            return
        values = {
            "stack": kept.stack,
            "name": kept.name,
            "hosts": [each.to_json() for each in kept.hosts],
        }
        files.make_directory(path.parent, durable=True)
        files.replace(path, json.dumps(values).encode(), durable=True)
    except OSError as error:
        raise StateError(f"cannot write {path}: {error.strerror or error}") from error


class Register:
    """The record of a stack, while a command works on it."""

    def __init__(self, state: Path, name: str) -> None:
        """Keep it in a state directory."""
        self._state, self._name = state, name

    def note(self, stack: str, hosts: Iterable[Host]) -> None:
        """Put on record that hosts get something of the stack now. Raises StateError."""
        note(self._state, stack, self._name, hosts)

    def removed(self, stack: str, hosts: Iterable[Host]) -> None:
        """Put on record that hosts keep nothing of the stack any more. Raises StateError."""
        removed(self._state, stack, {each.place for each in hosts})


class _Asked(Asked):
    """One host that removes what it keeps of a stack."""

    def __init__(self, host: Host, stack: str) -> None:
        self._stack = stack
        super().__init__(host)

    def question(self) -> Sequence[dict[str, Any]]:
        opening = {"do": "open", "stack": self._stack, "deployments": []}
        return [opening, {"do": "forget"}]

    def answered(self, message: dict[str, Any]) -> None:
        match message.get("is"):
            case "forgotten":
                self.end()
            case "refused":
                self.end(str(message["why"]))


def remove(
    state: Path, wanted: Mapping[Host, Sequence[Kept]]
) -> list[tuple[Host, Kept, str]]:
    """Have hosts remove what they keep of stacks that have nothing there; return the problem of each, or nothing."""
    asked = [
        (kept, _Asked(host, kept.stack))
        for host, stacks in wanted.items()
        for kept in stacks
    ]
    ask([each for _, each in asked], SECONDS)
    done = []
    for kept, each in asked:
        problem = each.problem
        if not problem:
            try:
                removed(state, kept.stack, [each.host.place])
            except AgentError as error:
                problem = str(error)
        done.append((each.host, kept, problem))
    return done
