"""The completion of what belongs to stacks and templates: resources, outputs, snapshots, nodes, parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from heat_config_agent.cli.completion.line import Line, Offer
from heat_config_agent.settings.effective import Settings
from heat_config_hooks import strict_yaml
from heat_config_hooks.files import take
from heat_config_stack.lifecycle.live import Stack

_FILTERS = ("name=", "version=", "support_status=")
"""The keys of `stack resource type list --filter`."""

_BOOLEAN = ("true", "false")


def offers(
    kind: str, line: Line, word: str, settings: Callable[[Line], Settings]
) -> Iterable[Offer]:
    """Return the possible values of a kind. Raises AgentError, OSError, ValueError."""
    if kind in _OF_TEMPLATE:
        return _OF_TEMPLATE[kind](line, word, settings(line))
    if kind in _OF_TYPES:
        return _OF_TYPES[kind](word, settings(line))
    stack = _stack(line, settings(line))
    return () if stack is None else _OF_STACK[kind](stack, word)


def _stack(line: Line, settings: Settings) -> Stack | None:
    """Return the stack that the line names before; None if it names none."""
    from heat_config_stack.cli.stack import sessions  # noqa: PLC0415  # templates need none of it

    name = line.first("STACK") or (line.arguments[0] if line.arguments else "")
    return sessions.look(settings, name, lambda _text: None) if name else None


def _resources(stack: Stack, word: str) -> Iterator[Offer]:
    from heat_config_stack.cli.stack import values  # noqa: PLC0415

    for path, resource in values.every(stack, word.count("/")):
        yield Offer(path, f"{resource.type()}, {'_'.join(resource.record.state)}")


def _outputs(stack: Stack, _word: str) -> Iterator[Offer]:
    for name, output in stack.definition.outputs.items() if stack.defined else ():
        yield Offer(name, output.description)


def _nodes(stack: Stack, _word: str) -> Iterator[Offer]:
    for name, node in stack.definition.nodes.items() if stack.defined else ():
        yield Offer(name, node.type)


def _servers(stack: Stack, _word: str) -> Iterator[Offer]:
    for name, resource in stack.definition.resources.items() if stack.defined else ():
        if resource.type == _SERVER:
            yield Offer(name, resource.type)


def _workflows(stack: Stack, _word: str) -> Iterator[Offer]:
    for name, workflow in stack.definition.procedures.items() if stack.defined else ():
        yield Offer(name, workflow.description)


def _triggers(stack: Stack, _word: str) -> Iterator[Offer]:
    for name, trigger in stack.definition.triggers.items() if stack.defined else ():
        yield Offer(name, trigger.description)


def _snapshots(stack: Stack, _word: str) -> Iterator[Offer]:
    for snapshot in stack.world.store.snapshots.values():
        yield Offer(
            snapshot.name or snapshot.id, f"{snapshot.action}_{snapshot.status}"
        )


_OF_STACK: Mapping[str, Callable[[Stack, str], Iterable[Offer]]] = {
    "resources": _resources,
    "outputs": _outputs,
    "nodes": _nodes,
    "servers of the stack": _servers,
    "workflows": _workflows,
    "triggers": _triggers,
    "snapshots": _snapshots,
}

_SERVER = "OS::Nova::Server"


def _types(_word: str, settings: Settings) -> Iterator[Offer]:
    from heat_config_stack.cli.stack import sessions  # noqa: PLC0415
    from heat_config_stack.resource import type_schemas  # noqa: PLC0415

    for name in type_schemas.names(sessions.types(settings.words("plugin_dirs"))):
        yield Offer(name)


def _filters(word: str, settings: Settings) -> Iterator[Offer]:
    key, sign, _ = word.partition("=")
    if not sign:
        yield from map(Offer, _FILTERS)
    elif key == "support_status":
        from heat_config_stack.resource.support import SUPPORT_STATUSES  # noqa: PLC0415

        yield from (Offer(f"{key}={status}") for status in SUPPORT_STATUSES)
    elif key == "name":
        yield from (Offer(f"{key}={each.word}") for each in _types(word, settings))


_OF_TYPES: Mapping[str, Callable[[str, Settings], Iterable[Offer]]] = {
    "types": _types,
    "filters": _filters,
}


def _parameters(line: Line, word: str, settings: Settings) -> Iterator[Offer]:
    """Yield `NAME=` for each parameter or input; after it, the values that are possible."""
    name, sign, _ = word.partition("=")
    for key, declared in _declared(line, settings).items():
        about = _about(declared)
        if not sign:
            yield Offer(f"{key}=", about)
        elif key == name:
            yield from (Offer(f"{key}={each}") for each in _possible(declared))


def _parameter_names(line: Line, _word: str, settings: Settings) -> Iterator[Offer]:
    for name, declared in _declared(line, settings).items():
        yield Offer(name, _about(declared))


def _declared(line: Line, settings: Settings) -> Mapping[str, Any]:
    """Return the declarations of the parameters of the template on the line, or of the stack or workflow on it."""
    if template := _template(line):
        return _map(template, "parameters") or _map(_topology(template), "inputs")
    stack = _stack(line, settings)
    if stack is None or not stack.defined:
        return {}
    definition = stack.definition
    procedure = definition.procedures.get(line.first("WORKFLOW"))
    procedure = procedure or definition.triggers.get(line.first("POLICY.TRIGGER"))
    if procedure is not None:
        return {
            name: {"type": each.type, "description": each.description}
            for name, each in procedure.inputs.items()
        }
    return {
        name: {"type": each.schema.type, "description": each.schema.description}
        for name, each in definition.parameters.items()
    }


def _about(declared: object) -> str:
    """Return the description of a parameter, and else its type."""
    if not isinstance(declared, dict):
        return ""
    return str(declared.get("description") or declared.get("type") or "")


def _possible(declared: object) -> list[str]:
    """Return the values that a parameter may have, as far as they are listed."""
    if not isinstance(declared, dict):
        return []
    constraints = declared.get("constraints")
    for constraint in constraints if isinstance(constraints, list) else ():
        for key in ("allowed_values", "valid_values", "$valid_values"):
            listed = constraint.get(key) if isinstance(constraint, dict) else None
            if isinstance(listed, list):
                return [_written(value) for value in listed]
    return list(_BOOLEAN) if declared.get("type") == "boolean" else []


def _written(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _template_nodes(line: Line, word: str, _settings: Settings) -> Iterator[Offer]:
    """Yield `NODE=` for the nodes of the service template on the line."""
    if "=" in word:
        return
    for name, node in _map(_topology(_template(line)), "node_templates").items():
        yield Offer(f"{name}=", str(_map(node, "").get("type") or ""))


def _template_resources(line: Line, word: str, _settings: Settings) -> Iterator[Offer]:
    """Yield `RESOURCE.` for the resources of the template on the line."""
    if "=" in word or "." in word:
        return
    for name, resource in _map(_template(line), "resources").items():
        yield Offer(f"{name}.", str(_map(resource, "").get("type") or ""))


def _template_servers(line: Line, word: str, settings: Settings) -> Iterator[Offer]:
    """Yield the servers of the template on the line, or else of the stack."""
    template = _template(line)
    if not template:
        stack = _stack(line, settings)
        yield from _servers(stack, word) if stack is not None else ()
    for name, resource in _map(template, "resources").items():
        if _map(resource, "").get("type") == _SERVER:
            yield Offer(name, _SERVER)


_OF_TEMPLATE: Mapping[str, Callable[[Line, str, Settings], Iterable[Offer]]] = {
    "parameters": _parameters,
    "names of parameters": _parameter_names,
    "nodes of the template": _template_nodes,
    "resources of the template": _template_resources,
    "servers": _template_servers,
}


def _template(line: Line) -> dict[str, Any]:
    """Return the template that the line names; empty if there is none, or it cannot be read."""
    name = line.first("--template") or line.first("FILE")
    if not name:
        return {}
    try:
        content = strict_yaml.loads(take(Path(name).expanduser()).decode())
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _topology(template: Mapping[str, Any]) -> Mapping[str, Any]:
    return _map(template, "topology_template") or _map(template, "service_template")


def _map(value: object, key: str) -> dict[str, Any]:
    """Return a part of a map that has to be a map too; the whole for an empty key, and empty for anything else."""
    part = value.get(key) if isinstance(value, dict) and key else value
    return part if isinstance(part, dict) else {}
