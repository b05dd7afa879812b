"""Validation of a definition: types, properties, attributes, circles and child stacks, before anything is begun."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from heat_config_agent.diagnostics.mistakes import OF_VALUE, Invalid
from heat_config_agent.diagnostics.words import meant
from heat_config_agent.model.errors import UsageError, blame
from heat_config_agent.model.mistake import Mistake
from heat_config_agent.model.positions import Json, Path, Place
from heat_config_hooks.words import CERTAIN
from heat_config_stack.definition import (
    Definition,
    Identity,
    Interface,
    Need,
    ResourceDefinition,
    circle,
    limits,
    requires,
)
from heat_config_stack.definition import Schema as ParameterSchema
from heat_config_stack.lifecycle.live import Stack, World, section_of
from heat_config_stack.records.exception import EntityNotFound, StackValidationFailed
from heat_config_stack.records.records import DeploymentRecord, StackRecord
from heat_config_stack.records.store import Memory
from heat_config_stack.resource import heat_types
from heat_config_stack.resource.properties import Schema, Wrong, of_parameter
from heat_config_stack.resource.resource import Resource
from heat_config_stack.resource.types import Types

DEPTH = 5
"""The maximum depth of nested stacks, not counting the outermost."""


def check(
    definition: Definition,
    types: Types,
    owner: Resource | None = None,
    *,
    creating: bool = True,
) -> None:
    """Raise `Invalid` with all mistakes of a stack, which an owner may have as its child."""
    try:
        found = limits.within_template(
            lambda: list(mistakes(definition, types, owner, creating=creating))
        )
    except limits.TooMuch:
        found = [
            definition.mistake(
                f"with its nested stacks and plug-ins, {limits.OUT_OF_TIME}", ()
            )
        ]
    if found:
        raise Invalid(found, definition.conceal)


@dataclass(slots=True)
class _Count:
    """The number of resources of a stack with its nested stacks, as far as it is known."""

    number: int = 0
    times: int = 1
    """The number of stacks like the current one: a group has one for each member."""


def mistakes(
    definition: Definition,
    types: Types,
    owner: Resource | None = None,
    count: _Count | None = None,
    *,
    creating: bool = False,
) -> Iterator[Mistake]:
    """Yield all mistakes of a stack and its children, with paths relative to the stack, and without secrets.

    `creating` adds what Heat refuses only when a stack is created, such as times that are over.
    """
    conceal = definition.conceal
    for each in _mistakes(
        definition, types, owner, count or _Count(), creating=creating
    ):
        yield each.concealed(conceal.text)


def _mistakes(
    definition: Definition,
    types: Types,
    owner: Resource | None,
    count: _Count,
    *,
    creating: bool,
) -> Iterator[Mistake]:
    count.number += count.times * len(definition.resources)
    if count.number > definition.largest:
        yield definition.mistake(limits.too_many(count.number), ("resources",))
        return
    world = World(Memory(), types, _Nowhere(), creating=creating)
    stack = Stack(
        world,
        StackRecord(definition.identity.id, definition.identity.name),
        definition,
        owner,
    )
    stack.look, stack.validating = _Unmade(owner), True
    if round_ := circle(definition.resources):
        yield definition.mistake(
            f"Circular Dependency Found: {' → '.join((*round_, round_[0]))}",
            ("resources",),
        )
        return
    resources: dict[str, Resource] = {}
    for name in definition.resources:
        try:
            resources[name] = stack.as_defined(name)
        except EntityNotFound as error:
            hint = meant(definition.resources[name].type, heat_types.names(), CERTAIN)
            yield definition.mistake(str(error), ("resources", name, "type"), hint)
        except Invalid as error:
            yield from error.mistakes
        except UsageError as error:
            yield definition.mistake(str(error), ("resources", name, "type"))
    stack.resources = resources
    for name, resource in resources.items():
        if count.number > definition.largest:
            return
        try:
            yield from list(_of_resource(definition, name, resource, count, types))
        except BaseException as error:  # noqa: BLE001  # schemas and constraints of plug-ins may raise anything
            yield definition.mistake(
                f"{type(error).__name__}: {blame(error)}", ("resources", name)
            )
    for need in _needs(definition):
        if need.resource in resources:
            try:
                yield from list(_of_need(definition, need, resources[need.resource]))
            except BaseException as error:  # noqa: BLE001  # attributes of plug-ins may raise anything
                problem = f"{type(error).__name__}: {blame(error)}"
                yield definition.mistake(problem, ("resources", need.resource))


def _of_resource(
    definition: Definition, name: str, resource: Resource, count: _Count, types: Types
) -> Iterator[Mistake]:
    if resource.definition.external_id is not None:
        # it exists already: as in Heat, nothing of it is checked
        return
    problems = [
        _of_wrong(definition, ("resources", name), each) for each in resource.mistakes()
    ]
    definition_of_resource = resource.definition
    snapshot = (
        not resource.any_property
        and isinstance(definition_of_resource.deletion_policy, str)
        and definition_of_resource.deletion_policy.lower() == "snapshot"
    )
    if snapshot and not (
        resource.deletes_with_snapshot or hasattr(resource, "handle_snapshot_delete")
    ):
        problem = (
            f'"{definition_of_resource.deletion_policy}" deletion policy not supported'
        )
        problems.append(
            definition.mistake(problem, ("resources", name, "deletion_policy"))
        )
    problems += _unfit_to_replace(definition, name, resource, types)
    if not problems:
        problems += [
            replace(each, code=OF_VALUE)
            for each in _validated(definition, name, resource)
        ]
    yield from problems
    if not problems and hasattr(resource, "child_to_validate"):
        yield from _of_child(definition, name, resource, count)


def _of_wrong(definition: Definition, resource: Path, wrong: Wrong) -> Mistake:
    """Return a mistake in the properties or the update policy; an unknown key has the place of the key itself."""
    path = (*resource, *wrong.path)
    code = OF_VALUE if wrong.of_value and wrong.path[0] == "properties" else ""
    return Mistake(
        wrong.problem,
        path,
        definition.place((*path, *wrong.key)),
        wrong.hint,
        code=code,
    )


def _validated(
    definition: Definition, name: str, resource: Resource
) -> Iterator[Mistake]:
    """Yield the mistakes that the class itself finds."""
    try:
        resource.validate()
    except StackValidationFailed as error:
        inner = error.path[2:] if error.path[:2] == ["resources", name] else error.path
        yield definition.mistake(str(error), ("resources", name, *inner))
    except BaseException as error:  # noqa: BLE001  # plug-ins may raise anything
        yield definition.mistake(
            f"{type(error).__name__}: {blame(error)}", ("resources", name)
        )


def _of_child(
    definition: Definition, name: str, resource: Any, count: _Count
) -> Iterator[Mistake]:
    """Yield the mistakes of the child stack of a resource, which has the methods of a `StackResource`."""
    path = ("resources", resource.child_mistakes_path())
    if len(resource.stack.path) >= DEPTH:
        yield definition.mistake(f"Recursion depth exceeds {DEPTH}.", path)
        return
    identity = Identity(
        f"{resource.stack.name}-{name}",
        definition.identity.id,
        definition.identity.project,
    )
    try:
        child = resource.child_to_validate(identity)
    except Invalid as error:
        yield from (mistake.under(*path) for mistake in error.mistakes)
        return
    if child is not None:
        times, count.times = (
            count.times,
            count.times * resource.members_like_the_first(),
        )
        world = resource.stack.world
        for mistake in mistakes(
            child, world.types, resource, count, creating=world.creating
        ):
            moved = mistake.under(*path)
            yield (
                moved
                if moved.place
                else replace(moved, place=definition.place(("resources", name)))
            )
        count.times = times


@dataclass(frozen=True, slots=True)
class Child:
    """A child stack, before it is created."""

    path: Path
    """The path under which its mistakes are reported."""
    place: Place | None
    """The position of things without their own, such as a member of a group."""
    definition: Definition


def children(definition: Definition, types: Types) -> list[Child]:
    """Return the child stacks of a stack, at all depths.

    Of a group, it is the first member. A child that cannot be defined is left out: its mistakes are reported.
    """
    try:
        return limits.within_template(
            lambda: list(_children(definition, types, None, _Count()))
        )
    except limits.TooMuch:
        return []


def _children(
    definition: Definition, types: Types, owner: Resource | None, count: _Count
) -> Iterator[Child]:
    count.number += len(definition.resources)
    stack = unmade(definition, types, owner)
    for name in definition.resources if len(stack.path) < DEPTH else ():
        if count.number > definition.largest:
            return
        try:
            resource: Any = stack.as_defined(name)
            if not hasattr(resource, "child_to_validate"):
                continue
            path = ("resources", resource.child_mistakes_path())
            child = resource.child_to_validate(definition.identity)
        except Exception:  # noqa: BLE001, S112  # a mistake, which is reported elsewhere
            continue
        if child is not None:
            place = definition.place(("resources", name))
            yield Child(path, place, child)
            for each in _children(child, types, resource, count):
                yield Child((*path, *each.path), each.place or place, each.definition)


def unmade(
    definition: Definition, types: Types, owner: Resource | None = None
) -> Stack:
    """Return a stack in which nothing exists: a reference is the name of its resource, and an attribute is None."""
    record = StackRecord(definition.identity.id, definition.identity.name)
    stack = Stack(World(Memory(), types, _Nowhere()), record, definition, owner)
    stack.look, stack.validating = _Unmade(owner), True
    return stack


def _needs(definition: Definition) -> Iterator[Need]:
    """Yield each dependency on an attribute."""
    trees: list[object] = [each.value for each in definition.outputs.values()]
    for each in definition.resources.values():
        trees += [dict(each.properties), each.metadata]
    for tree in trees:
        for need in requires(tree):
            if need.attribute:
                yield need


def _of_need(
    definition: Definition, need: Need, resource: Resource
) -> Iterator[Mistake]:
    attribute, name, path = need.attribute or "", resource.name, need.path
    if hasattr(resource, "lack"):  # a group
        if (lack := resource.lack(attribute, need.keys)) is None:
            return
        path = ("resources", f"{name}<nested_stack>", *lack[2])
        name, attribute = lack[:2]
    elif resource.has_attribute(attribute):
        return
    problem = f"The Referenced Attribute ({name} {attribute}) is incorrect."
    yield Mistake(problem, path, definition.place(need.path))


def _unfit_to_replace(
    definition: Definition, name: str, resource: Resource, types: Types
) -> Iterator[Mistake]:
    """Yield the reasons why a template cannot replace the type that it is mapped to."""
    snippet: ResourceDefinition = resource.definition
    facade = types.replaced(snippet, definition.environment)
    if facade is None or not hasattr(resource, "interface"):
        return
    interface: Interface = resource.interface()
    path = ("resources", name)
    for name_, schema in facade.properties_schema.items():
        if schema.required and name_ not in interface.properties:
            yield definition.mistake(
                f"Required property {name_} for facade {snippet.type} missing in provider",
                path,
            )
        elif name_ in interface.properties and schema.type not in _fitting(
            interface.properties[name_].type
        ):
            problem = f"Property {name_} type mismatch between facade {snippet.type} ({schema.type}) and provider"
            yield definition.mistake(
                f"{problem} ({of_parameter(interface.properties[name_]).type})", path
            )
    for name_, parameter in interface.properties.items():
        if parameter.default is None and name_ not in facade.properties_schema:
            yield definition.mistake(
                f"Provider requires property {name_} unknown in facade {snippet.type}",
                path,
            )
    for name_ in facade.attributes_schema:
        if name_ not in interface.attributes:
            yield definition.mistake(
                f"Attribute {name_} for facade {snippet.type} missing in provider", path
            )


def _fitting(parameter: str) -> tuple[str, ...]:
    """Return the types of properties that a parameter of that type can replace."""
    made = of_parameter(ParameterSchema("", parameter)).type
    return (made, Schema.ANY, *((Schema.INTEGER,) if made == Schema.NUMBER else ()))


class _Unmade:
    """A view of a stack in which nothing exists yet, except perhaps its owner."""

    def __init__(self, owner: Resource | None) -> None:
        self._owner = owner

    def reference(self, resource: str) -> Json:
        return resource

    def attribute(self, resource: str, attribute: str, path: Sequence[Json]) -> Json:  # noqa: ARG002
        return None

    def attributes(self, resource: str) -> Json:  # noqa: ARG002
        return None

    def facade(self, section: str) -> Json:
        return (
            section_of(self._owner, section)
            if self._owner is not None and self._owner.record.id
            else None
        )


class _Nowhere:
    """A server that accepts nothing."""

    def deliver(self, deployment: DeploymentRecord) -> None:
        raise AssertionError(deployment)

    def withdraw(self, deployment: DeploymentRecord) -> None:
        raise AssertionError(deployment)
