"""Operations of a substituted node that workflows of the inner service stand for (section 3.7.11)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from heat_config_agent.model.positions import Json
from heat_config_stack.tosca.compilation.operations import STANDARD
from heat_config_stack.tosca.topology.topology import Part


@dataclass(frozen=True)
class MappedOperation:
    """An operation of a substituted node, with the workflow that is carried out in its place."""

    interface: str
    name: str
    workflow: str
    inputs: Mapping[str, Json]
    """The values of the operation's inputs, as the template of the node and its type give them."""
    is_standard: bool
    """True if it is of the normative interface, whose operations create and delete nodes."""


def mapped_operations(part: Part) -> Iterator[MappedOperation]:
    """Yield the operations of a node that are mapped to workflows of the service in its place."""
    if part.inner is None:
        return
    for name, entry in (part.inner.mapping.get("interfaces") or {}).items():
        if isinstance(entry, dict):
            own = entry.get("operations")
            for operation, workflow in (own if isinstance(own, dict) else entry).items():
                if isinstance(workflow, str):
                    yield _mapped(part, name, operation, workflow)
        elif isinstance(entry, str):
            interface, _, operation = name.rpartition(".")
            yield _mapped(part, interface, operation, entry)


def mapped_operation(part: Part, interface: str, operation: str) -> MappedOperation | None:
    """Return the mapped operation of a name; without an interface, the first of that name."""
    found = part.template.interface(interface) if interface else None
    wanted = found.name if found is not None else interface
    for mapped in mapped_operations(part):
        if mapped.name == operation and wanted in ("", mapped.interface):
            return mapped
    return None


def _mapped(part: Part, interface: str, operation: str, workflow: str) -> MappedOperation:
    template = part.template
    mapped = template.interface(interface) if interface else None
    if mapped is None and not interface:
        mapped = next((of for of in template.interfaces.values() if operation in of.operations), None)
    if mapped is None:
        return MappedOperation(interface, operation, workflow, {}, is_standard=False)
    type_ = mapped.definition.type if mapped.definition is not None else None
    is_standard = type_ is not None and STANDARD in type_.keys
    return MappedOperation(mapped.name, operation, workflow, mapped.inputs(operation), is_standard)
