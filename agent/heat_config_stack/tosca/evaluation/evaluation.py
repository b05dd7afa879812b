"""Functions evaluated: what is known becomes a value, and what only a run can know becomes a `Later` (chapter 4)."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from heat_config_agent.model.positions import Json
from heat_config_stack.definition import ROOT, Tree, Unresolved, limits
from heat_config_stack.tosca.evaluation.later import (
    Attribute,
    Computed,
    as_text,
    computed,
    least_state,
    selected,
)
from heat_config_stack.tosca.files.artifacts import file_path, naming_document
from heat_config_stack.tosca.files.documents import Document
from heat_config_stack.tosca.language.types import PropertyDefinition
from heat_config_stack.tosca.language.values import is_call
from heat_config_stack.tosca.topology.service import mapped_to
from heat_config_stack.tosca.topology.topology import Layer, Link, Part, capability_of

Subject = Part | Link

NOTHING = object()
"""Stands for a property or an attribute that does not exist."""


@dataclass(frozen=True)
class Context:
    """The surroundings of a value."""

    subject: Subject | None
    layer: Layer
    source: Part | None = None
    """The meaning of SOURCE, if that is not the source of the relationship."""
    target: Part | None = None
    artifacts: set[tuple[str, str]] | None = None
    """Receives the files of artifacts that the value names, each with the place that it is copied to."""


class TooDeep(Exception):  # noqa: N818  # the values are
    """Values need each other in a circle."""


@dataclass
class Evaluator:
    """Evaluates the functions of one service."""

    given: Mapping[str, Mapping[str, Json]] = field(default_factory=dict)
    """Attributes that people have given, by the node, or by the node and its capability."""
    address_of: Callable[[Part], Tree] = lambda _part: "127.0.0.1"
    outputs: dict[str, dict[str, dict[str, str]]] = field(default_factory=dict)
    """Receives the outputs that are asked for: resource → operation, as the resource names it → name → primitive type.

    The type is that of the attribute which the output sets; empty where there is none."""
    replaceable: set[Attribute] = field(default_factory=set)
    """The outputs in whose place attributes have another value: a default, or the output of another operation."""
    resource_of: Callable[[Subject, str, str], tuple[str, str] | None] = (
        lambda _subject, _interface, _operation: None
    )
    """Returns the resource of an operation and its name for the operation; None where it is not implemented."""
    keepers: Collection[str] = ()
    """The nodes, which have the outputs of operations that only workflows call."""
    path_of: Callable[[str, Document], str] = lambda path, _document: path
    """Returns the path of a file within the service."""
    parts: Callable[[], Iterable[Part]] = tuple
    """Returns all nodes, in the order of the templates."""
    _properties: dict[tuple[int, str, str], Tree] = field(default_factory=dict)
    _busy: set[tuple[object, ...]] = field(default_factory=set)
    _room: limits.Room = field(default_factory=limits.Room)
    """The room for the properties of the service together: values that contain one another grow without limit."""

    def value(self, tree: Json, context: Context) -> Tree:
        """Return a value with its functions evaluated."""
        class_ = tree.__class__
        if class_ is dict or isinstance(tree, dict):
            if is_call(tree):
                ((name, arguments),) = tree.items()
                return _FUNCTIONS[name](self, arguments, context)
            return {key: self.value(item, context) for key, item in tree.items()}
        if isinstance(tree, list):
            return [self.value(item, context) for item in tree]
        if isinstance(tree, tuple):
            return tuple(self.value(item, context) for item in tree)
        return tree

    # Properties and attributes.

    def property_value(self, subject: Subject, name: str) -> Tree:
        """Return a property; `NOTHING` where the type has none of that name."""
        type_ = subject.type
        if type_ is None or name not in type_.properties:
            return NOTHING
        return self._kept(subject, "", name, lambda: self._property(subject, name))

    def _property(self, subject: Subject, name: str) -> Tree:
        if isinstance(subject, Part):
            mapped = self._from_outside(subject, (name,))
            if mapped is not NOTHING:
                return mapped
        return self.value(
            subject.template.property_value(name), Context(subject, subject.layer)
        )

    def _from_outside(self, part: Part, path: tuple[str, ...]) -> Tree:
        """Return the value that a substitution mapping gives to a property of an inner node."""
        outer = part.layer.outer
        if outer is None:
            return NOTHING
        place = [part.template.name, *path]
        for name, entry in (part.layer.mapping.get("properties") or {}).items():
            if mapped_to(entry) == place:
                value = self.property_value(outer, name)
                return NOTHING if value is None else value
        return NOTHING

    def capability_value(self, part: Part, capability: str, name: str) -> Tree:
        """Return a property of a capability; `NOTHING` where it has none of that name."""
        definition = capability_of(part, capability)
        if definition is None or name not in definition.properties:
            return NOTHING
        return self._kept(
            part,
            capability,
            name,
            lambda: self._capability_property(part, capability, name),
        )

    def _capability_property(self, part: Part, capability: str, name: str) -> Tree:
        mapped = self._from_outside(part, (capability, name))
        if mapped is not NOTHING:
            return mapped
        if part.inner is not None:
            assigned = part.template.assigned(capability, "properties")
            inner, its_name = part.layer.topology.inside(part, capability)
            if inner is not part and assigned.get(name) is None:
                found = self.capability_value(inner, its_name, name)
                if found is not NOTHING and found is not None:
                    return found
        return self.value(
            part.template.capability_property(capability, name),
            Context(part, part.layer),
        )

    def _kept(
        self, subject: Subject, member: str, name: str, compute: Callable[[], Tree]
    ) -> Tree:
        key = (id(subject), member, name)
        if key not in self._properties:
            with _Once(self._busy, key):
                value = compute()
                try:
                    self._room.take(value)
                except limits.TooMuch as error:
                    raise Unresolved(
                        f"the properties of the service have {error}: {name} is the last of them"
                    ) from None
                self._properties[key] = value
        return self._properties[key]

    def attribute(self, subject: Subject, name: str) -> Tree:
        """Return an attribute; `NOTHING` if there is none of that name."""
        with _Once(self._busy, (id(subject), "attribute", name)):
            if isinstance(subject, Link):
                return self._plain_attribute(subject, name)
            given = self.given.get(subject.name, {})
            if name in given:
                return given[name]
            if subject.inner is not None:
                return self._inner_attribute(subject, subject.inner, name)
            if name == "state":
                return Attribute(subject.name, "state", (), is_awaited=False)
            found = self._plain_attribute(subject, name)
            if (
                subject.is_compute
                and name in ("private_address", "public_address")
                and found is None
            ):
                return self.address_of(subject)
            return found

    def _plain_attribute(self, subject: Subject, name: str) -> Tree:
        own = {"tosca_name": subject.template.name, "tosca_id": subject.id}
        if name in own:
            return own[name]
        return self._assigned(
            subject, subject.template.content.get("attributes"), subject.type, name, ()
        )

    def _assigned(
        self,
        subject: Subject,
        content: Json,
        holder: object,
        name: str,
        path: tuple[str, ...],
    ) -> Tree:
        """Return the value that was assigned to an attribute, or that its type or an operation gives it."""
        properties: Mapping[str, PropertyDefinition] = getattr(holder, "properties", {})
        attributes: Mapping[str, PropertyDefinition] = getattr(holder, "attributes", {})
        if name not in properties and name not in attributes:
            return NOTHING
        value = (content or {}).get(name)
        if (
            isinstance(value, dict)
            and "value" in value
            and value.keys() <= {"value", "description"}
        ):
            value = value["value"]
        if value is None and name in attributes:
            value = attributes[name].default
        assigned = self.value(value, Context(subject, subject.layer))
        if assigned is None and name in properties:
            if path and isinstance(subject, Part):
                assigned = self.capability_value(subject, path[0], name)
            else:
                assigned = self.property_value(subject, name)
        definition = attributes.get(name)
        type_ = definition.schema.type if definition is not None else None
        primitive = type_.primitive or "map" if type_ else ""
        outputs = [*self._set_by_operations(subject, (*path, name), primitive)]
        if len(outputs) > 1 or assigned is not None:
            self.replaceable.update(
                output for output in outputs if isinstance(output, Attribute)
            )
        return Computed([*outputs, assigned], _first, "first") if outputs else assigned

    def _set_by_operations(
        self, subject: Subject, path: tuple[str, ...], type_: str
    ) -> Iterator[Tree]:
        """Yield the outputs of operations that set an attribute (1.3): relationships first, later operations first."""
        ends: list[tuple[Link, str]] = []
        if isinstance(subject, Part):
            ends += [(link, "SOURCE") for link in subject.links]
            ends += [(link, "TARGET") for link in subject.incoming]
        for owner, keyword in (*ends, (subject, "SELF")):
            for interface, operation in reversed([*owner.template.operations]):
                implemented = operation.implemented or operation
                inherited = implemented.content.get("outputs") or {}
                own = operation.content.get("outputs") or {}
                for name, place in {**inherited, **own}.items():
                    if isinstance(place, list) and (*place,) == (keyword, *path):
                        yield self.output(
                            owner, interface.name, operation.name, name, type_
                        )

    def _inner_attribute(self, part: Part, inner: Layer, name: str) -> Tree:
        """Return an attribute of a node in whose place a service stands."""
        entry = (inner.mapping.get("attributes") or {}).get(name)
        mapped = (
            entry.get("mapping")
            if isinstance(entry, dict) and not is_call(entry)
            else entry
        )
        if isinstance(mapped, str):
            mapped = [mapped]
        if isinstance(mapped, list) and len(mapped) > 1 and mapped[0] in inner.parts:
            return self.lookup(inner.parts[mapped[0]], mapped[1:], is_attribute=True)
        output = mapped[0] if isinstance(mapped, list) and mapped else name
        if output in inner.service.outputs:
            return self.value(
                inner.service.outputs[output].get("value"), Context(None, inner)
            )
        if isinstance(entry, dict) and "value" in entry:
            return entry["value"]
        if name == "state" and entry is None:
            parts = [
                of for of in part.layer.topology.everything(part) if of is not part
            ]
            return Computed(
                [self.attribute(of, name) for of in parts], least_state, "state"
            )
        return self._plain_attribute(part, name)

    def capability_attribute(self, part: Part, capability: str, name: str) -> Tree:
        """Return an attribute of a capability; `NOTHING` if there is none of that name."""
        given = self.given.get(f"{part.name}.{capability}", {})
        if name in given:
            return given[name]
        definition = capability_of(part, capability)
        if definition is None:
            return NOTHING
        if part.inner is not None:
            inner, its_name = part.layer.topology.inside(part, capability)
            if inner is not part:
                return self.capability_attribute(inner, its_name, name)
        content = part.template.assigned(capability, "attributes")
        found = self._assigned(part, content, definition, name, (capability,))
        if found is None and name == "ip_address":
            machine = part.machine
            return (
                self.attribute(machine, "private_address")
                if machine is not None
                else None
            )
        return found

    def lookup(
        self, subject: Subject, names: Sequence[Json], *, is_attribute: bool
    ) -> Tree:
        """Return the value at `[NAME, key…]` or `[REQUIREMENT or CAPABILITY, NAME, key…]` (chapter 4)."""
        name = names[0]
        rest = list(names[1:])
        if rest and isinstance(subject, Part) and subject.type is not None:
            if name in subject.type.capabilities:
                value = self._of_capability(
                    subject, name, rest[0], is_attribute=is_attribute
                )
                if value is not NOTHING:
                    return selected(value, rest[1:])
            for link in subject.of_requirement(name):
                value = NOTHING
                if link.capability:
                    value = self._of_capability(
                        link.target, link.capability, rest[0], is_attribute=is_attribute
                    )
                if value is NOTHING:
                    value = self._of(link.target, rest[0], is_attribute=is_attribute)
                if value is not NOTHING:
                    return selected(value, rest[1:])
        value = self._of(subject, name, is_attribute=is_attribute)
        return value if value is NOTHING else selected(value, rest)

    def _of_capability(
        self, part: Part, capability: str, name: str, *, is_attribute: bool
    ) -> Tree:
        of = self.capability_attribute if is_attribute else self.capability_value
        return of(part, capability, name)

    def _of(self, subject: Subject, name: str, *, is_attribute: bool) -> Tree:
        return (
            self.attribute(subject, name)
            if is_attribute
            else self.property_value(subject, name)
        )

    def output(
        self,
        subject: Subject,
        interface: str,
        operation: str,
        name: str,
        type_: str = "",
    ) -> Tree:
        """Return an output of an operation (chapter 4); null where the operation is not implemented.

        `type_` is the primitive type of the attribute that the output sets, if it sets one.
        """
        found = self.resource_of(subject, interface, operation)
        if found is None:
            return None
        resource, key = found
        asked = self.outputs.setdefault(resource, {}).setdefault(key, {})
        asked[name] = asked.get(name) or type_
        return Attribute(
            resource, key, (name,), is_awaited=resource not in self.keepers
        )

    def entities(self, name: str, context: Context) -> list[Subject]:
        """Return the entities that the first argument of a function names; for HOST all hosts (chapter 4)."""
        subject = context.subject
        if name == "SELF":
            return [subject] if subject is not None else []
        if name == "HOST":
            return [*subject.hosts] if isinstance(subject, Part) else []
        if name in ("SOURCE", "TARGET"):
            if not isinstance(subject, Link):
                return []
            end = (
                (context.source or subject.source)
                if name == "SOURCE"
                else (context.target or subject.target)
            )
            return [end]
        part = context.layer.parts.get(name)
        if part is not None:
            return [part]
        relationship = context.layer.service.relationships.get(name)
        if relationship is None:
            return []
        links = [
            link
            for link in context.layer.topology.links
            if link.template.path == relationship.path
        ]
        return [*[link for link in links if link.layer is context.layer][:1]]


class _Once:
    """Refuses to compute a value within itself."""

    def __init__(self, busy: set[tuple[object, ...]], key: tuple[object, ...]) -> None:
        self._busy = busy
        self._key = key

    def __enter__(self) -> None:
        if self._key in self._busy:
            raise TooDeep(str(self._key[-1]))
        self._busy.add(self._key)

    def __exit__(self, *_: object) -> None:
        self._busy.discard(self._key)


def _first(values: list[Json]) -> Json:
    return next((value for value in values if value is not None), None)


# The functions.


def _get_input(of: Evaluator, arguments: Json, context: Context) -> Tree:
    evaluated = of.value(arguments, context)
    name, *path = evaluated if isinstance(evaluated, list) else [evaluated]
    found = context.layer.inputs.get(name)
    return selected(found, path)


def _get_property(of: Evaluator, arguments: Json, context: Context) -> Tree:
    return _get(of, arguments, context, is_attribute=False)


def _get_attribute(of: Evaluator, arguments: Json, context: Context) -> Tree:
    return _get(of, arguments, context, is_attribute=True)


def _get(
    of: Evaluator, arguments: Json, context: Context, *, is_attribute: bool
) -> Tree:
    entity, *names = [of.value(argument, context) for argument in arguments]
    for subject in of.entities(entity, context):
        found = of.lookup(subject, names, is_attribute=is_attribute)
        if found is not NOTHING and found is not None:
            return found
    return None


def _get_operation_output(of: Evaluator, arguments: Json, context: Context) -> Tree:
    entity, interface, operation, name = arguments
    for subject in of.entities(entity, context):
        found = of.output(subject, interface, operation, name)
        if found is not None:
            return found
    return None


def _get_nodes_of_type(evaluator: Evaluator, arguments: Json, context: Context) -> Tree:
    name = arguments[0] if isinstance(arguments, list) else arguments
    names = (
        context.subject.template.document
        if context.subject is not None
        else context.layer.service.document
    )
    type_ = names.find("node_types", name) or context.layer.service.document.find(
        "node_types", name
    )
    if type_ is None:
        return []
    return [
        part.id
        for part in evaluator.parts()
        if part.type is not None and part.type.is_a(type_)
    ]


def _get_artifact(evaluator: Evaluator, arguments: Json, context: Context) -> Tree:
    entity, name, *rest = arguments
    location = rest[0] if rest else ""
    for subject in evaluator.entities(entity, context):
        artifacts = getattr(subject.template, "artifacts", {})
        if name not in artifacts or context.artifacts is None:
            continue
        artifact = artifacts[name]
        content = {key: artifact.get(key) for key in ("file", "repository")}
        path = (
            file_path(content, naming_document(artifact)) if content["file"] else None
        )
        if path is None:
            return None
        inside = evaluator.path_of(path, naming_document(artifact))
        if location and location != "LOCAL_FILE":
            to = (
                location
                if not location.endswith("/")
                else f"{location}{path.rpartition('/')[2]}"
            )
            until = "end" if len(rest) > 1 and rest[1] else "delete"
            context.artifacts.add((inside, f"{until}:{to}"))
            return to
        context.artifacts.add((inside, ""))
        return f"{ROOT}/{inside}"
    return None


def _concat(of: Evaluator, arguments: Json, context: Context) -> Tree:
    return computed(
        of.value(arguments, context),
        lambda values: _joined("", values, "concat"),
        "concat",
    )


def _joined(delimiter: str, values: Iterable[Json], function: str) -> str:
    try:
        return limits.joined(delimiter, list(map(as_text, values)))
    except limits.TooMuch as error:
        raise Unresolved(f"{function} makes {error}") from None


def _join(evaluator: Evaluator, arguments: Json, context: Context) -> Tree:
    def compute(values: Json) -> Json:
        items = values[0]
        delimiter = as_text(values[1]) if len(values) > 1 else ""
        if not isinstance(items, list):
            raise Unresolved("join needs a list of values")
        return _joined(delimiter, items, "join")

    return computed(evaluator.value(arguments, context), compute, "join")


def _token(evaluator: Evaluator, arguments: Json, context: Context) -> Tree:
    def compute(values: Json) -> Json:
        text = as_text(values[0])
        characters = as_text(values[1])
        index = values[2]
        parts = re.split(f"[{re.escape(characters)}]", text) if characters else [text]
        if not isinstance(index, int) or not 0 <= index < len(parts):
            raise Unresolved(f"token finds no part {index} in a text of {len(parts)}")
        return parts[index]

    return computed(evaluator.value(arguments, context), compute, "token")


_FUNCTIONS: dict[str, Callable[[Evaluator, Json, Context], Tree]] = {
    "get_input": _get_input,
    "get_property": _get_property,
    "get_attribute": _get_attribute,
    "get_operation_output": _get_operation_output,
    "get_nodes_of_type": _get_nodes_of_type,
    "get_artifact": _get_artifact,
    "concat": _concat,
    "join": _join,
    "token": _token,
}
