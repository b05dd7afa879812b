"""Gives an id and an action to deployments without one. Pure.

The identity of a deployment in a file is its name and its content, so an edited deployment is new work and an unchanged
one is not. Its id has a digest of the content with a secret key, because inputs may be secret and ids are kept for
longer than those. Content that is put back after another edition has been accepted is new work again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from heat_config_agent.deployments import metadata
from heat_config_agent.model.deployment import (
    CLEANUP_KEY,
    DELETE,
    EDITION_DIGITS,
    FAILED_KEY,
    Deployment,
    Document,
    Mistake,
    edition_beginning,
    is_edition,
)
from heat_config_agent.model.entry import Entry
from heat_config_agent.model.errors import UsageError
from heat_config_hooks.values import replace


def check(documents: Iterable[Document]) -> None:
    """Raise UsageError if two files have different deployments of one name without ids: they replace each other."""
    first: dict[str, tuple[object, Document, int]] = {}
    for document in documents:
        for index, entry in enumerate(
            _entries(document) if metadata.is_by_hand(document) else ()
        ):
            if not isinstance(entry, dict) or not _is_unnamed(entry):
                continue
            name = str(entry["name"])
            known, other, position = first.setdefault(name, (entry, document, index))
            if known != entry:
                both = f"{_place(other, position)} and {_place(document, index)}"
                problem = f"the name {name!r} is that of two deployments without an id, in {both}"
                raise UsageError(problem, hint="rename one of them")


def _place(document: Document, index: int) -> str:
    """Return the file and the line of the name of an entry."""
    path = (
        f"[{index}].name"
        if isinstance(document.content, list)
        else f"deployments[{index}].name"
    )
    mistake = Mistake(path=path, problem="")
    located = document.located(mistake) if document.located is not None else mistake
    return located.position or document.source.removeprefix("file:")


def completed(
    documents: Iterable[Document], entries: Mapping[str, Entry], key: bytes
) -> list[Document]:
    """Return the documents, with an id and an action for each deployment that has none.

    `entries` are those of the journal, and `key` is the secret key of the state directory. Of different deployments of
    one name, only the first gets an id: they would replace each other at each pass.
    """
    first: dict[str, object] = {}
    return [
        replace(document, content=_completed(document, entries, key, first))
        if metadata.is_by_hand(document)
        else document
        for document in documents
    ]


def unfinished(entries: Iterable[Entry]) -> frozenset[str]:
    """Return the names of the editions that have not run to their ends."""
    return frozenset(
        entry.name
        for entry in entries
        if entry.ended is None and is_edition(entry.id, entry.name)
    )


def renewed(
    deployment: Deployment, entries: Mapping[str, Entry], key: bytes
) -> Deployment:
    """Return an edition that begins now, with the action that follows from what has ended since its acceptance.

    An action that its file names stays.
    """
    action = _action(
        sorted(
            (
                entry
                for entry in entries.values()
                if entry.name == deployment.name
                and entry.key != deployment.key
                and not entry.key.endswith((CLEANUP_KEY, FAILED_KEY))
            ),
            key=lambda each: each.accepted,
        )
    )
    if action == deployment.action or not _is_action_ours(deployment, key):
        return deployment
    inputs = deployment.document["inputs"]
    given = {"name": "deploy_action", "type": "String", "value": action}
    return replace(
        deployment,
        inputs=tuple(
            replace(each, value=action) if each.name == "deploy_action" else each
            for each in deployment.inputs
        ),
        document={
            **deployment.document,
            "inputs": [*(inputs if isinstance(inputs, list) else ())[:-1], given],
        },
    )


def _is_action_ours(deployment: Deployment, key: bytes) -> bool:
    """Return whether the agent chose the action of an edition: then the digest in the id does not cover it."""
    inputs = deployment.document.get("inputs")
    if not isinstance(inputs, list):
        return False
    others = {
        name: value for name, value in deployment.document.items() if name != "inputs"
    }
    given: list[Mapping[str, object]] = [{**others, "inputs": inputs[:-1]}]
    if len(inputs) == 1:
        given += [others, {**others, "inputs": None}]
    return any(
        _is_of(deployment.id, _base(deployment.given_name, entry, key))
        for entry in given
    )


def superseded(entries: Iterable[Entry]) -> set[str]:
    """Return the keys of editions of which the journal has a newer one of the same name, in whatever file it is."""
    newest: dict[str, Entry] = {}
    old: set[str] = set()
    for entry in sorted(entries, key=lambda each: each.accepted):
        if not is_edition(entry.id, entry.name):
            continue
        before = newest.get(entry.name)
        if before is not None:
            old.add(before.key)
        newest[entry.name] = entry
    return old


def _entries(document: Document) -> list[object]:
    content = document.content
    found = content.get("deployments") if isinstance(content, Mapping) else content
    return found if isinstance(found, list) else []


def _is_unnamed(entry: object) -> bool:
    return (
        isinstance(entry, dict)
        and entry.get("id") in (None, "")
        and isinstance(entry.get("name"), str)
        and entry["name"] != ""
    )


def _completed(
    document: Document,
    entries: Mapping[str, Entry],
    key: bytes,
    first: dict[str, object],
) -> object:
    filled = [
        _edition(entry, entries, key)
        if isinstance(entry, dict)
        and _is_unnamed(entry)
        and first.setdefault(entry["name"], entry) == entry
        else entry
        for entry in _entries(document)
    ]
    if isinstance(document.content, Mapping) and "deployments" in document.content:
        return {**document.content, "deployments": filled}
    return filled if isinstance(document.content, list) else document.content


def _edition(
    entry: dict[str, object], entries: Mapping[str, Entry], key: bytes
) -> dict[str, object]:
    """Return a deployment with its id, and with the input `deploy_action` unless it has one."""
    name = str(entry["name"])
    base = _base(name, entry, key)
    same = sorted(
        (
            each
            for each in entries.values()
            if each.name == name and not each.key.endswith((CLEANUP_KEY, FAILED_KEY))
        ),
        key=lambda each: each.accepted,
    )
    editions = [each for each in same if is_edition(each.id, name)]
    last = editions[-1] if editions else None
    if last is not None and _is_of(last.id, base):
        identity, action = last.id, last.action or "CREATE"
    else:
        ids = {each.id for each in same}
        number = next(
            number
            for number in range(1, len(ids) + 2)
            if _numbered(base, number) not in ids
        )
        identity, action = _numbered(base, number), _action(same)
    return {**entry, "id": identity, **_with_action(entry, action)}


def _numbered(base: str, number: int) -> str:
    return base if number == 1 else f"{base}-{number}"


def _base(name: str, entry: Mapping[str, object], key: bytes) -> str:
    """Return the id of the first edition of a name with this content."""
    return f"{edition_beginning(name)}-{_digest(entry, key)}"


def _is_of(identity: str, base: str) -> bool:
    return identity == base or identity.startswith(f"{base}-")


def _digest(entry: Mapping[str, object], key: bytes) -> str:
    from hashlib import blake2b  # noqa: PLC0415  # few documents leave out ids

    content = {name: value for name, value in entry.items() if name != "id"}
    text = json.dumps(content, sort_keys=True, ensure_ascii=True)
    return blake2b(text.encode(), key=key, digest_size=EDITION_DIGITS // 2).hexdigest()


def _action(same: Iterable[Entry]) -> str:
    """Return the action of new work: UPDATE if work of its name has succeeded, and has not been deleted since."""
    there = False
    for entry in same:
        succeeded = entry.ended is not None and not entry.failed
        if succeeded or entry.action == "UPDATE":
            there = entry.action != DELETE
    return "UPDATE" if there else "CREATE"


def _with_action(entry: Mapping[str, object], action: str) -> dict[str, object]:
    inputs = entry.get("inputs")
    if inputs is not None and not isinstance(inputs, list):
        return {}  # a mistake, which is reported
    if any(
        isinstance(each, Mapping) and each.get("name") == "deploy_action"
        for each in inputs or ()
    ):
        return {}
    given = {"name": "deploy_action", "type": "String", "value": action}
    return {"inputs": [*(inputs or ()), given]}
