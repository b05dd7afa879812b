"""The values that an update changes, as people read them: `PROPERTY: BEFORE → AFTER`, with secrets masked."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from heat_config_agent.masking import MASK
from heat_config_agent.masking.redaction import Concealer, is_secret
from heat_config_agent.model.deployment import Input
from heat_config_agent.model.positions import Json
from heat_config_stack.definition import Definition
from heat_config_stack.lifecycle.live import Stack
from heat_config_stack.lifecycle.preview import REPLACED, UPDATED, Change

_SECTIONS = ("type", "metadata", "depends_on", "deletion_policy", "update_policy", "external_id", "condition")
"""The parts of a stored definition that are compared besides its properties."""

_HANDED_ON = "surroundings"
"""The property of an operation whose values are handed on and are not a reason to run."""

_LONGEST = 60
"""Characters of a value that are shown."""

_LONGEST_LINE = 100
_MOST_LINES = 6
"""Changed lines of a text that are shown."""

_NONE = "(none)"


def concealer(definition: Definition, stack: Stack | None) -> Concealer:
    """Return what masks the secrets of a definition and of the stack that it changes."""
    return definition.conceal.also(stack.world.conceal) if stack is not None else definition.conceal


def of_resource(change: Change, replaced: Mapping[str, str], conceal: Concealer) -> list[str]:
    """Return the values of a resource that change. `replaced` has the physical ids that will be others, with names."""
    former = change.former
    if former is None:
        return []
    before, after = former.record.definition or {}, change.after
    if after is None:
        return ["values that are known later"] if change.effect in (UPDATED, REPLACED) else []
    lines = list(_changed("", _without(before), _without(after), conceal))
    for section in _SECTIONS:
        lines += _changed(section, before.get(section), after.get(section), conceal)
    lines += [
        f"{path}: {replaced[value]} is replaced" for path, value in _leaves("", _without(after)) if value in replaced
    ]
    return lines


def refers(change: Change, replaced: Mapping[str, str]) -> bool:
    """Return whether an unchanged resource has the id of another that is replaced, so that it changes with it."""
    return change.after is not None and any(value in replaced for _, value in _leaves("", _without(change.after)))


def of_parameters(definition: Definition, stack: Stack | None) -> list[str]:
    """Return the parameters whose values change, each with where the new value comes from."""
    former = stack.defined.parameters if stack is not None and stack.defined is not None else None
    if former is None:
        return []
    lines = []
    for name, new in definition.parameters.items():
        old = former.get(name)
        if old is not None and old.value == new.value:
            continue
        is_hidden = new.schema.secret or (old is not None and old.schema.secret)
        texts = (_text(old.value) if old is not None else _NONE, _text(new.value))
        shown = MASK if is_hidden else " → ".join(_apart(*texts))
        lines.append(f"{name}: {shown}" + ("" if new.given else _default(name, old is not None and old.given)))
    return lines + [f"{name}: is no longer there" for name in former if name not in definition.parameters]


def fallen_back(definition: Definition, stack: Stack | None) -> list[str]:
    """Return the names of the parameters that were given for the stack, and now have another value, their default."""
    former = stack.defined.parameters if stack is not None and stack.defined is not None else {}
    return [
        name
        for name, new in definition.parameters.items()
        if not new.given and name in former and former[name].given and former[name].value != new.value
    ]


def _default(name: str, was_given: bool) -> str:
    return f" (its default: --parameter {name}=… keeps another value)" if was_given else " (its default)"


def _without(definition: Mapping[str, Any]) -> Mapping[str, Json]:
    properties = definition.get("properties") or {}
    return {name: value for name, value in properties.items() if name != _HANDED_ON}


def _changed(path: str, before: Json, after: Json, conceal: Concealer) -> Iterator[str]:
    """Yield a line for each value below a path that is not the same."""
    if before == after:
        return
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for name in {**before, **after}:
            yield from _changed(_joined(path, str(name)), before.get(name), after.get(name), conceal)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from _changed(f"{path}[{number}]", old, new, conceal)
    elif is_secret(Input(name=path.rpartition(".")[2], value=None)):
        yield f"{path}: {MASK}"
    elif isinstance(before, str) and isinstance(after, str) and "\n" in before.strip() + after.strip():
        yield from _lines(path, before, after, conceal)
    else:
        old, new = (conceal.text(" ".join(_text(conceal(value)).split())) for value in (before, after))
        yield f"{conceal.text(path)}: {' → '.join(_apart(old, new)) if old != new else MASK}"


def _lines(path: str, before: str, after: str, conceal: Concealer) -> Iterator[str]:
    """Yield the changed lines of a text."""
    import difflib  # noqa: PLC0415  # only for texts that have changed

    old, new = conceal.text(before).splitlines(), conceal.text(after).splitlines()
    changed = [line for line in difflib.ndiff(old, new) if line[0] in "+-"]
    yield f"{path}: {len(changed)} changed lines" if changed else f"{path}: {MASK}"
    for line in changed[:_MOST_LINES]:
        yield f"  {line[0]} {line[2:][:_LONGEST_LINE]}"
    if len(changed) > _MOST_LINES:
        yield f"  … and {len(changed) - _MOST_LINES} more"


def _leaves(path: str, value: Json) -> Iterator[tuple[str, str]]:
    """Yield the path and the value of each text in a JSON value."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for name, each in value.items():
            yield from _leaves(_joined(path, str(name)), each)
    elif isinstance(value, Sequence):
        for number, each in enumerate(value):
            yield from _leaves(f"{path}[{number}]", each)


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _text(value: Json) -> str:
    if value is None:
        return _NONE
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _apart(old: str, new: str) -> tuple[str, str]:
    """Return two different texts, shortened so that the difference shows."""
    same = next((number for number, pair in enumerate(zip(old, new, strict=False)) if len({*pair}) > 1), 0)
    skip = max(same - _LONGEST // 3, 0) if max(len(old), len(new)) > _LONGEST else 0
    begin = "…" if skip else ""
    return f"{begin}{_short(old[skip:])}", f"{begin}{_short(new[skip:])}"


def _short(value: Json) -> str:
    text = " ".join(_text(value).split()) or '""'
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
