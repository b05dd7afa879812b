"""The stacks of a state directory: a folder each, by name."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from heat_config_agent.diagnostics.names import is_stack_name, rule
from heat_config_agent.model.errors import (
    AmbiguousError,
    NotFoundError,
    StateError,
    UsageError,
)
from heat_config_stack.definition.procedures import DEPLOY, UNDEPLOY
from heat_config_stack.records.records import (
    ASKED,
    COMPLETE,
    DELETE,
    FAILED,
    ResourceRecord,
    StackRecord,
)
from heat_config_stack.records.store import FILE, Store

FOLDER = "stacks"


def folder(state: Path, name: str) -> Path:
    """Return the folder of a stack, whether it exists or not. Raises UsageError if the name is not valid."""
    if not is_stack_name(name):
        raise UsageError(
            f"a stack cannot have the name {name!r}",
            hint=f"a name {rule()}",
        )
    return state / FOLDER / name


def names(state: Path) -> list[str]:
    """Return the names of all stacks, sorted."""
    try:
        there = [
            each.name
            for each in (state / FOLDER).iterdir()
            if os.path.lexists(each / FILE)
        ]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise UsageError(f"cannot read {state / FOLDER}: {error.strerror}") from error
    return sorted(filter(is_stack_name, there))


_LEAST = 8
"""Characters of an id that name a stack."""


def named(state: Path, word: str) -> str:
    """Return the name of the stack with a name, an id or a unique beginning of an id; else the word, if it may be one.

    Raises AmbiguousError, and NotFoundError for a word that cannot be the name of a stack.
    """
    if is_stack_name(word) and os.path.lexists(state / FOLDER / word / FILE):
        return word
    matches = (
        [name for name, identity in _ids(state) if identity.startswith(word)]
        if len(word) >= _LEAST
        else []
    )
    if len(matches) > 1:
        raise AmbiguousError(
            f"{word!r} is the beginning of the ids of several stacks",
            hint=f"give one of the names: {', '.join(matches)}",
        )
    if matches:
        return matches[0]
    if not is_stack_name(word):
        raise NotFoundError(
            f"there is no stack {word!r}",
            hint="`heat-config-agent stack list --wide` shows names and ids",
            subject=("stack", word),
        )
    return word


def _ids(state: Path) -> Iterator[tuple[str, str]]:
    """Yield the names and ids of the stacks whose records can be read."""
    for name in names(state):
        with contextlib.suppress(StateError):
            store = Store(state / FOLDER / name, write=False, only=StackRecord.KIND)
            if store.root is not None:
                yield name, store.root.id


class Kept(NamedTuple):
    """The record of an existing stack."""

    name: str
    record: StackRecord | None
    """The record of the stack; None if it cannot be read."""
    trouble: str
    """The problem with the records; empty if there is none."""
    blank: bool = False
    """True if nothing has been done yet, so that the stack counts as not existing."""
    workflows: tuple[tuple[str, str], ...] = ()
    """The workflows whose last run has failed, each with the reason."""
    resources: int = 0
    """The number of its resources, including those of nested stacks."""
    bad: int = 0
    """The number of these that have failed."""
    asked: tuple[str, ...] = ()
    """The paths of resources of a complete stack that run again in its next action, because a person asked for it."""
    left: tuple[str, ...] = ()
    """The paths of resources of a complete stack whose DELETE has failed in an earlier action."""


def kept(state: Path, name: str) -> Kept | None:
    """Return the record of a stack, also while another process works on it; None if there is no such stack."""
    warnings: list[str] = []
    try:
        store = Store(folder(state, name), write=False, warn=warnings.append)
    except StateError as error:
        return Kept(name, None, str(error))
    if store.root is None and not store.damage:
        return None if not store.blank else Kept(name, None, warnings[0], blank=True)
    failed = (
        (each.name, each.reason)
        for each in store.procedures.values()
        if each.status == FAILED
    )
    workflows = tuple(
        sorted(each for each in failed if each[0] not in (DEPLOY, UNDEPLOY))
    )
    asked, left = _open(store)
    return Kept(
        name,
        store.root,
        store.damage or "; ".join(warnings),
        workflows=workflows,
        resources=len(store.resources),
        bad=sum(
            each.status == FAILED and each.reason != ASKED
            for each in store.resources.values()
        ),
        asked=asked,
        left=left,
    )


def _open(store: Store) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the resources of a complete stack that a person asked for again, and those whose DELETE has failed."""
    if store.root is None or store.root.status != COMPLETE:
        return (), ()
    owners = {each.owner for each in store.stacks.values()}
    failed = [
        each
        for each in store.resources.values()
        if each.status == FAILED and each.id not in owners
    ]
    asked = {_path(store, each) for each in failed if each.reason == ASKED}
    left = {
        _path(store, each)
        for each in failed
        if each.action == DELETE and each.reason != ASKED
    }
    return tuple(sorted(asked)), tuple(sorted(left))


def _path(store: Store, resource: ResourceRecord | None) -> str:
    """Return the names from the root to a resource."""
    names: list[str] = []
    while resource is not None:
        names.insert(0, resource.name)
        stack = store.stacks.get(resource.stack)
        resource = store.resources.get(stack.owner) if stack and stack.owner else None
    return "/".join(names)
