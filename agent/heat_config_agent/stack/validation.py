"""What is wrong with a definition, as far as types, properties and attributes say: all of it, before it is begun."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from heat_config_agent.stack.definition import (
    Definition,
    Identity,
    Interface,
    Invalid,
    Json,
    Mistake,
    Need,
    Path,
    ResourceDefinition,
    circle,
    requires,
)
from heat_config_agent.stack.definition import Schema as ParameterSchema
from heat_config_agent.stack.exception import EntityNotFound, StackValidationFailed
from heat_config_agent.stack.live import Stack, World
from heat_config_agent.stack.properties import Schema, of_parameter
from heat_config_agent.stack.records import DeploymentRecord, StackRecord
from heat_config_agent.stack.resource import Resource
from heat_config_agent.stack.store import Memory
from heat_config_agent.stack.types import Types

if TYPE_CHECKING:
    from heat_config_agent.stack.resources.nested import StackResource

DEPTH = 5
"""How many stacks may be in each other, beside the outermost."""


def check(definition: Definition, types: Types) -> None:
    """Raise `Invalid` with everything that is wrong."""
    found = list(mistakes(definition, types))
    if found:
        raise Invalid(found)


def mistakes(definition: Definition, types: Types, owner: Resource | None = None) -> Iterator[Mistake]:
    """Yield everything that is wrong with a stack and its children, with paths counted from it."""
    world = World(Memory(), types, _Nowhere())
    stack = Stack(world, StackRecord(definition.identity.id, definition.identity.name), definition, owner)
    stack.look, stack.validating = _Unmade(), True
    if round_ := circle(definition.resources):
        yield definition.mistake(f"Circular Dependency Found: {' → '.join((*round_, round_[0]))}", ("resources",))
        return
    made: dict[str, Resource] = {}
    for name in definition.resources:
        try:
            made[name] = stack.as_defined(name)
        except EntityNotFound as error:
            yield definition.mistake(str(error), ("resources", name, "type"))
        except Invalid as error:
            yield from error.mistakes
    stack.resources = made
    for name, resource in made.items():
        yield from _of_resource(definition, name, resource)
    for need in _needs(definition):
        if need.resource in made:
            yield from _of_need(definition, need, made[need.resource])


def _of_resource(definition: Definition, name: str, resource: Resource) -> Iterator[Mistake]:
    found = [definition.mistake(each.problem, ("resources", name, *each.path)) for each in resource.mistakes()]
    wanted = resource.definition
    snapshot = wanted.deletion_policy.lower() == "snapshot"
    if snapshot and not (resource.deletes_with_snapshot or hasattr(resource, "handle_snapshot_delete")):
        problem = f'"{wanted.deletion_policy}" deletion policy not supported'
        found.append(definition.mistake(problem, ("resources", name, "deletion_policy")))
    found += _not_in_place_of(definition, name, resource)
    if not found:
        found += _validated(definition, name, resource)
    yield from found
    if not found and hasattr(resource, "child_to_validate"):
        yield from _of_child(definition, name, resource)  # type: ignore[arg-type]  # a StackResource


def _validated(definition: Definition, name: str, resource: Resource) -> Iterator[Mistake]:
    """Yield what the class itself finds wrong."""
    try:
        resource.validate()
    except StackValidationFailed as error:
        inner = error.path[2:] if error.path[:2] == ["resources", name] else error.path
        yield definition.mistake(str(error), ("resources", name, *inner))
    except Exception as error:  # noqa: BLE001  # whatever a plug-in raises says what is wrong
        yield definition.mistake(f"{type(error).__name__}: {error}", ("resources", name))


def _of_child(definition: Definition, name: str, resource: StackResource) -> Iterator[Mistake]:
    here = ("resources", resource.child_mistakes_path())
    if len(resource.stack.path) >= DEPTH:
        yield definition.mistake(f"Recursion depth exceeds {DEPTH}.", here)
        return
    identity = Identity(f"{resource.stack.name}-{name}", definition.identity.id, definition.identity.project)
    try:
        child = resource.child_to_validate(identity)
    except Invalid as error:
        yield from (each.under(*here) for each in error.mistakes)
        return
    if child is not None:
        for each in mistakes(child, resource.stack.world.types, resource):
            found = each.under(*here)
            yield found if found.place else definition.mistake(found.problem, found.path, found.hint)


def _needs(definition: Definition) -> Iterator[Need]:
    """Yield each attribute that something needs."""
    trees: list[object] = [each.value for each in definition.outputs.values()]
    for each in definition.resources.values():
        trees += [dict(each.properties), dict(each.metadata)]
    for tree in trees:
        for need in requires(tree):
            if need.attribute:
                yield need


def _of_need(definition: Definition, need: Need, resource: Resource) -> Iterator[Mistake]:
    attribute = need.attribute or ""
    if resource.has_attribute(attribute):
        return
    path: Path = need.path
    name = resource.name
    if hasattr(resource, "attribute_of_members"):
        # What is asked of a group's members is asked in an output of its stack.
        path, name = ("resources", f"{name}<nested_stack>", "outputs", attribute, "Value[0]", "get_attr"), "0"
    problem = f"The Referenced Attribute ({name} {attribute}) is incorrect."
    yield Mistake(problem, path, definition.place(need.path))


def _not_in_place_of(definition: Definition, name: str, resource: Resource) -> Iterator[Mistake]:
    """Yield why a template cannot stand in the place of a type that it was put in the place of."""
    wanted: ResourceDefinition = resource.definition
    facade = resource.stack.world.types.in_whose_place(wanted, definition.environment)
    if facade is None or not hasattr(resource, "interface"):
        return
    interface: Interface = resource.interface()
    here = ("resources", name)
    for each, schema in facade.properties_schema.items():
        if schema.required and each not in interface.properties:
            yield definition.mistake(f"Required property {each} for facade {wanted.type} missing in provider", here)
        elif each in interface.properties and schema.type not in _fitting(interface.properties[each].type):
            problem = f"Property {each} type mismatch between facade {wanted.type} ({schema.type}) and provider"
            yield definition.mistake(f"{problem} ({of_parameter(interface.properties[each]).type})", here)
    for each, parameter in interface.properties.items():
        if parameter.default is None and each not in facade.properties_schema:
            yield definition.mistake(f"Provider requires property {each} unknown in facade {wanted.type}", here)
    for each in facade.attributes_schema:
        if each not in interface.attributes:
            yield definition.mistake(f"Attribute {each} for facade {wanted.type} missing in provider", here)


def _fitting(parameter: str) -> tuple[str, ...]:
    """Return the types of properties in whose place a parameter of that type may stand."""
    made = of_parameter(ParameterSchema("", parameter)).type
    return (made, Schema.ANY, *((Schema.INTEGER,) if made == Schema.NUMBER else ()))


class _Unmade:
    """What can be looked up while nothing is there."""

    def reference(self, resource: str) -> Json:
        return resource

    def attribute(self, resource: str, attribute: str, path: Sequence[Json]) -> Json:  # noqa: ARG002
        return None

    def attributes(self, resource: str) -> Json:  # noqa: ARG002
        return None

    def facade(self, what: str) -> Json:  # noqa: ARG002
        return None


class _Nowhere:
    """No server."""

    def deliver(self, deployment: DeploymentRecord) -> None:
        raise AssertionError(deployment)

    def withdraw(self, deployment: DeploymentRecord) -> None:
        raise AssertionError(deployment)
