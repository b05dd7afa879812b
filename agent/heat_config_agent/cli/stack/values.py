"""Stacks, resources, outputs and events as JSON, with the keys of Heat's API; secrets are masked."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from heat_config_agent.cli import terminal
from heat_config_agent.cli.stack.secrets import HIDDEN, concealer, is_hidden, parameters
from heat_config_agent.stack.definition import Json, Unresolved
from heat_config_agent.stack.live import Stack
from heat_config_agent.stack.records import StackRecord
from heat_config_agent.stack.resource import Resource


def moment(seconds: float) -> str | None:
    """Return a time as Heat writes it; None where there was none."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds)) if seconds else None


def brief(record: StackRecord) -> dict[str, Json]:
    """Return what `list` says of a stack."""
    return {
        "id": record.id,
        "stack_name": record.name,
        "stack_status": f"{record.action}_{record.status}",
        "creation_time": moment(record.created),
        "updated_time": moment(record.updated),
    }


def stack(root: Stack) -> dict[str, Json]:
    """Return what `show` says of a stack."""
    defined = root.defined
    return {
        **brief(root.record),
        "stack_status_reason": concealer(defined)(root.record.reason),
        "description": defined.description if defined else "",
        "disable_rollback": not root.record.rollback,
        "parameters": parameters(root),
        "outputs": [output(root, name) for name in defined.outputs] if defined else [],
    }


def output(root: Stack, name: str, *, reveal: bool = False) -> dict[str, Json]:
    """Return an output; with `reveal`, also where it is a secret."""
    declared = root.definition.outputs[name]
    found: dict[str, Json] = {"output_key": name, "description": declared.description, "output_value": None}
    try:
        value = root.output(name)
    except Unresolved as error:
        return found | {"output_error": concealer(root.defined)(str(error))}
    if not reveal:
        value = HIDDEN if is_hidden(name) and value is not None else concealer(root.defined)(value)
    return found | {"output_value": value}


def output_lines(root: Stack) -> list[str]:
    """Return the outputs for people."""
    found = (output(root, name) for name in root.definition.outputs) if root.defined else ()
    return [f"  {terminal.line(each['output_key'])} = {terminal.line(written(each))}" for each in found]


def written(found: Mapping[str, Any]) -> str:
    """Return the value of an output as text."""
    if "output_error" in found:
        return f"({found['output_error']})"
    value = found["output_value"]
    return value.rstrip("\n") if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def every(root: Stack, depth: int) -> Iterator[tuple[str, Resource]]:
    """Yield all resources with their paths, those of children to that depth."""
    for name, each in root.resources.items():
        path = "/".join((*root.path, name))
        yield path, each
        if depth and each.child is not None:
            yield from every(each.child, depth - 1)


def resource(path: str, found: Resource) -> dict[str, Json]:
    """Return what `resource list` says of a resource."""
    record = found.record
    return {
        "resource_name": path,
        "physical_resource_id": record.physical,
        "resource_type": found.type(),
        "resource_status": "_".join(record.state),
        "updated_time": moment(record.updated or record.created),
    }


def resource_in_full(root: Stack, path: str, found: Resource) -> dict[str, Json]:
    """Return what `resource show` says of a resource."""
    conceal = concealer(root.defined)
    try:
        attributes = found.given_attributes()
    except Exception as error:  # noqa: BLE001  # whatever a plug-in raises says why there are none
        attributes = {"error": str(error)}
    known = {name: HIDDEN if is_hidden(name) else value for name, value in attributes.items()}
    wanted = found.stack.defined.resources.get(found.name) if found.stack.defined else None
    return {
        **resource(path, found),
        "resource_status_reason": conceal(found.record.reason),
        "creation_time": moment(found.record.created),
        "required_by": sorted(_needing(found)),
        "requires": sorted(wanted.requirements()) if wanted else [],
        "attributes": conceal(known),
    }


def _needing(found: Resource) -> Iterator[str]:
    for name, each in found.stack.definition.resources.items() if found.stack.defined else ():
        if found.name in each.requirements():
            yield name


def event(found: Mapping[str, Any], stack_name: str, conceal: Callable[[Json], Json]) -> dict[str, Json]:
    """Return an event: of a resource, by its path, or of the stack itself, by its name."""
    seconds = int(found["time"])
    return {
        "event_time": f"{(moment(seconds) or '')[:-1]}.{(found['time'] - seconds) * 1000:03.0f}Z",
        "resource_name": found["path"] or stack_name,
        "resource_status": f"{found['action']}_{found['status']}",
        "resource_status_reason": conceal(found["reason"]),
    }
