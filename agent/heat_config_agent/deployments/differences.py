"""The differences between two editions of a deployment, or of two JSON values, with secrets masked on both sides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import heat_config_hooks
from heat_config_agent.deployments import selection
from heat_config_agent.masking.redaction import Concealer, concealer, is_secret
from heat_config_agent.model.deployment import (
    CLEANUP,
    COMPONENT,
    DELETE,
    Config,
    Deployment,
    Input,
)
from heat_config_agent.model.entry import Entry
from heat_config_hooks import options, protocol
from heat_config_hooks.values import dataclass

_HEATS = "deploy_"
"""The beginning of the names of inputs by which Heat addresses a deployment: they differ each time."""


class _Missing:
    """The value that is not there, which is another one than null."""


MISSING = _Missing()


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One value that differs."""

    path: str
    """The name of the value, such as `input port` or `config`."""
    old: object = MISSING
    """`MISSING` if there was none, and if it is secret."""
    new: object = MISSING
    """`MISSING` if there is none, and if it is secret."""
    is_secret: bool = False
    """True if only the fact that it differs may be shown."""


def earlier(deployment: Deployment, entries: Mapping[str, Entry]) -> Entry | None:
    """Return the last edition of a deployment that has run to its end; None if there is none on the machine."""
    editions = [
        entry
        for entry in entries.values()
        if (entry.key == deployment.key or entry.owner == deployment.owner)
        and entry.action != CLEANUP
        # a tool without a command has no run
        and (entry.run is not None or (entry.ended is not None and not entry.failed))
    ]
    # several documents may have deployments of one name; a document that has moved has another source
    last = max(
        editions,
        key=lambda entry: (
            entry.key == deployment.key,
            entry.source == deployment.source,
            entry.accepted,
        ),
        default=None,
    )
    is_gone = last is not None and last.action == DELETE and not last.failed
    return None if is_gone else last


def between(
    old: Deployment, new: Deployment, *, is_request: bool = False
) -> list[Difference]:
    """Return what differs between two editions of a deployment: tool, config, inputs, options and outputs.

    With `is_request`, the old one is as its hook has received it: with the selected config of a component, and with
    inputs as text.
    """
    conceal = concealer(old).also(concealer(new))
    before, after = selection.select(old), selection.select(new)
    if not isinstance(before, Config) or not isinstance(after, Config):
        before = Config(tool=old.group, config=old.config, options=old.options)
        after = Config(tool=new.group, config=new.config, options=new.options)
    given = (
        _own(old.options, before.tool)
        if is_request and new.group == COMPONENT
        else before.options
    )
    found = [
        *within("tool", before.tool, after.tool, conceal),
        *_inputs(old, new, conceal, is_request=is_request),
        *within("option", given, after.options, conceal, separator=" "),
    ]
    before_names, after_names = (
        ", ".join(output.name for output in each.outputs) for each in (old, new)
    )
    found += within("outputs", before_names, after_names, conceal)
    found += within("config", before.config, after.config, conceal)
    return found


def _own(given: Mapping[str, object], tool: str) -> Mapping[str, object]:
    tools = {*heat_config_hooks.HOOKS, *heat_config_hooks.COMPAT}
    return options.own(given, tool, tools)


def _inputs(
    old: Deployment, new: Deployment, conceal: Concealer, *, is_request: bool
) -> Iterator[Difference]:
    """Yield the inputs that differ; the last of several with one name counts."""
    before = {each.name: each for each in old.inputs}
    after = {each.name: each for each in new.inputs}
    for name in {**before, **after}:
        if name.startswith(_HEATS):
            continue
        old_one, new_one = before.get(name), after.get(name)
        values = [
            MISSING if each is None else each.value for each in (old_one, new_one)
        ]
        if (
            is_request
            and MISSING not in values
            and protocol.as_text(values[0]) == protocol.as_text(values[1])
        ):
            continue
        hidden = any(
            each is not None and is_secret(each) for each in (old_one, new_one)
        )
        if hidden and values[0] != values[1]:
            yield Difference(path=f"input {conceal.text(name)}", is_secret=True)
        elif not hidden:
            yield from within(f"input {name}", values[0], values[1], conceal)


def within(
    path: str,
    old: object,
    new: object,
    conceal: Concealer,
    *,
    separator: str = ".",
) -> Iterator[Difference]:
    """Yield a difference for each value below a path that is not the same. `separator` stands before the first name."""
    if old == new:
        return
    name = path.rpartition(".")[2].rpartition(" ")[2]
    if is_secret(Input(name=name, value=None)):
        yield Difference(path=conceal.text(path), is_secret=True)
    elif isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in {**old, **new}:
            inner = f"{path}{separator}{key}" if path else str(key)
            yield from within(
                inner, old.get(key, MISSING), new.get(key, MISSING), conceal
            )
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, pair in enumerate(zip(old, new, strict=True)):
            yield from within(f"{path}[{number}]", *pair, conceal)
    else:
        shown = [
            each if each is MISSING else conceal(_whole(each)) for each in (old, new)
        ]
        if shown[0] == shown[1]:
            yield Difference(path=conceal.text(path), is_secret=True)
        else:
            yield Difference(path=conceal.text(path), old=shown[0], new=shown[1])


def _whole(value: object) -> object:
    """Return a value with the values masked whose names tell that they are secret."""
    if isinstance(value, Mapping):
        return {
            key: "***" if is_secret(Input(name=str(key), value=None)) else _whole(each)
            for key, each in value.items()
        }
    return [_whole(each) for each in value] if isinstance(value, list) else value
