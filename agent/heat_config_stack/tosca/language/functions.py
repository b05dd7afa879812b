"""Calls of functions, checked as far as can be before a service runs (chapter 4 of the specification)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from heat_config_agent.model.positions import Json, Path
from heat_config_stack.tosca.language.circles import circles, shown_circle
from heat_config_stack.tosca.language.constraints import FUNCTIONS
from heat_config_stack.tosca.language.primitives import kind_of
from heat_config_stack.tosca.language.report import Report
from heat_config_stack.tosca.language.types import (
    CapabilityDefinition,
    Namespace,
    PropertyDefinition,
    Schema,
    Type,
)
from heat_config_stack.tosca.language.values import is_call

SELF = "SELF"
SOURCE = "SOURCE"
TARGET = "TARGET"
HOST = "HOST"

Holder = tuple[object, ...]
"""The holder of a value: a template or a type, perhaps a capability, and a property or an attribute."""


_LISTS = frozenset({"list", "range"})
_TEXT_FORMATS = frozenset({"tosca.datatypes.json", "tosca.datatypes.xml"})


class Subject(Protocol):
    """A template, or a type that stands for all its templates."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def kind(self) -> str:
        """`node`, `relationship`, `group` or `policy`."""

    @property
    def type(self) -> Type | None:
        """Its type; None if unknown."""

    def interface_operations(self, interface: str) -> Collection[str] | None:
        """Return the names of the operations of an interface; None where it has no such interface."""

    def artifact_names(self) -> Collection[str]:
        """Return the names of its artifacts."""

    def targets(
        self, requirement: str, /
    ) -> Iterable[tuple[Subject, CapabilityDefinition | None]]:
        """Return the templates that fulfil a requirement, each with its capability, as far as known."""


@dataclass(frozen=True, slots=True)
class TypeSubject:
    """A type in the place of the templates that are of it."""

    type: Type | None
    kind: str

    @property
    def name(self) -> str:
        """The name of the type."""
        return self.type.name if self.type else ""

    def interface_operations(self, interface: str) -> Collection[str] | None:
        """Return the names of the operations of an interface; None where it has no such interface."""
        found = self.type.interface(interface) if self.type else None
        return found.operations if found else None

    def artifact_names(self) -> Collection[str]:
        """Return the names of its artifacts."""
        return self.type.artifacts if self.type else ()

    def targets(
        self, _requirement: str, /
    ) -> Iterable[tuple[Subject, CapabilityDefinition | None]]:
        """Return nothing: each template has its own."""
        return ()


@dataclass(frozen=True, slots=True)
class Scope:
    """The surroundings of a value, which give the names in its functions their meaning."""

    names: Namespace
    report: Report
    subject: Subject | None = None
    """The meaning of SELF; None if it has none here."""
    inputs: Collection[str] | None = None
    """The names of the inputs; None where they are not known."""
    templates: Mapping[str, Subject] | None = None
    """The node and relationship templates by name; None where they are not known."""
    holder: Holder | None = None
    """The holder of the value; None if nothing can refer to it."""
    uses: dict[Holder, dict[Holder, Path]] = field(default_factory=dict)
    """The needs of each value, with the path of the value."""

    def within(self, subject: Subject | None) -> Scope:
        """Return the scope for the values of a template: there, it is SELF."""
        return replace(self, subject=subject, holder=None)

    def of(self, *holder: object) -> Scope:
        """Return the scope for a value of a property or an attribute."""
        return replace(self, holder=holder)


def check(value: Json, path: Path, scope: Scope) -> None:
    """Report the mistakes in the function calls of a value."""
    class_ = value.__class__
    if class_ is dict:
        if is_call(value):
            ((name, arguments),) = value.items()
            _CHECKS[name](arguments, (*path, name), scope)
            return
        if len(value) == 1:
            _check_spelling(value, path, scope)
        for key, item in value.items():
            if item.__class__ is dict or item.__class__ is list:
                check(item, (*path, key), scope)
    elif class_ is list:
        for index, item in enumerate(value):
            if item.__class__ is dict or item.__class__ is list:
                check(item, (*path, index), scope)


def _check_spelling(value: Mapping[str, Json], path: Path, scope: Scope) -> None:
    (name,) = value
    hint = "" if name in FUNCTIONS else _misspelt(name, scope.report)
    if hint:
        scope.report.warn(
            f"{name} is not a function: this is a map",
            (*path, name),
            hint,
            code="misspelt",
        )


def _misspelt(name: str, report: Report) -> str:
    if not 4 <= len(name) <= 30:
        return ""
    likely = name.lower().startswith("get") or name.lower() in {
        "concatenate",
        "tokens",
        "tokenize",
        "joins",
    }
    if not likely and name.lower() not in FUNCTIONS:
        return ""
    kept = report.budget.misspelt
    if name not in kept:
        kept[name] = report.nearest(name, sorted(FUNCTIONS))
    return kept[name]


def _bad(problem: str, hint: str, path: Path, scope: Scope) -> None:
    scope.report.wrong(f"{path[-1]} {problem}", path, hint, code="function-arguments")


def _check_get_input(arguments: Json, path: Path, scope: Scope) -> None:
    """Check `NAME`, `[NAME, key or index…]` (1.3), or a function (section 4.4.1)."""
    if is_call(arguments):
        check(arguments, path, scope)
        return
    name = arguments[0] if isinstance(arguments, list) and arguments else arguments
    if is_call(name):
        check(arguments, path, scope)
        return
    if not isinstance(name, str):
        _bad(
            f"needs the name of an input, not {kind_of(arguments)}",
            "write get_input: NAME",
            path,
            scope,
        )
    elif scope.inputs is not None and name not in scope.inputs:
        scope.report.wrong(
            f"there is no input {name}",
            path,
            scope.report.nearest(name, scope.inputs),
            code="input-unknown",
        )
    elif isinstance(scope.inputs, Mapping) and isinstance(arguments, list):
        definition = PropertyDefinition(name, scope.inputs[name], None, scope.names, ())
        _check_steps(definition, arguments[1:], path, scope)


def _check_get_property(arguments: Json, path: Path, scope: Scope) -> None:
    """Check `[ENTITY, (REQUIREMENT or CAPABILITY), NAME, key or index…]` (sections 4.4.2 and 4.5.1)."""
    hint = f"write {path[-1]}: [ SELF, NAME ], say"
    if not isinstance(arguments, list) or len(arguments) < 2:
        _bad("needs a list of a template and a name", hint, path, scope)
        return
    if not isinstance(arguments[0], str):
        _bad(
            f"begins with the name of a template, not {kind_of(arguments[0])}",
            hint,
            path,
            scope,
        )
        return
    for index, argument in enumerate(arguments[1:], 1):
        if is_call(argument):
            check(argument, (*path, index), scope)
            _subject(arguments[0], path, scope)
            return
        if argument is None or isinstance(argument, dict | list | bool):
            _bad(
                f"has names and positions, and {kind_of(argument)} is neither",
                hint,
                path,
                scope,
            )
            return
    subject = _subject(arguments[0], path, scope)
    if (
        subject is not None
        and subject.type is not None
        and not subject.type.is_incomplete
    ):
        _check_name(subject, subject.type, arguments[1:], path, scope)


def check_outputs(content: Mapping[str, Any], path: Path, scope: Scope) -> None:
    """Check the attributes that the outputs of an operation or a notification set (1.3): `NAME: [ENTITY, …, NAME]`."""
    for name, attribute in (content.get("outputs") or {}).items():
        where = (*path, "outputs", name)
        if len(attribute) < 2:
            problem = (
                f"the output {name} needs the entity and the attribute that it sets"
            )
            scope.report.wrong(
                problem,
                where,
                "write [ SELF, ATTRIBUTE ], say",
                code="function-arguments",
            )
        else:
            _check_get_property(attribute, (*where, "get_attribute"), scope)


def _check_name(
    subject: Subject, type_: Type, names: list[Any], path: Path, scope: Scope
) -> None:
    name = names[0]
    rest = names[1:]
    has_attributes = path[-1] == "get_attribute"
    is_member = name in type_.capabilities or name in type_.requirements
    if rest and is_member:
        _check_member(subject, type_, names, path, scope)
    elif _use(type_, (subject,), names, path, scope):
        return
    elif is_member:
        _bad(f"needs the name of a property after {name}", "", path, scope)
    else:
        known = [*type_.properties, *type_.capabilities, *type_.requirements]
        known += type_.attributes if has_attributes else ()
        hint = scope.report.nearest(name, known)
        what = "property or attribute" if has_attributes else "property"
        if not has_attributes and name in type_.attributes:
            hint = "it is an attribute: write get_attribute"
        scope.report.wrong(
            f"{_named(subject)} has no {what} {name}", path, hint, code="name-unknown"
        )


def _named(subject: Subject) -> str:
    return (
        f"the type {subject.name}" if isinstance(subject, TypeSubject) else subject.name
    )


def _use(
    of: Type | CapabilityDefinition,
    holder: tuple[object, ...],
    names: list[Any],
    path: Path,
    scope: Scope,
) -> bool:
    """Check the steps into a value, and note that it is used; return whether there is a value of that name."""
    name = names[0]
    definition = of.properties.get(name)
    if definition is None and path[-1] == "get_attribute":
        definition = of.attributes.get(name)
    if definition is None:
        return False
    if scope.holder is not None:
        used = tuple(_key(part) for part in (*holder, name))
        scope.uses.setdefault(scope.holder, {})[used] = path
    _check_steps(definition, names[1:], path, scope)
    return True


def _check_steps(
    definition: PropertyDefinition, steps: list[Any], path: Path, scope: Scope
) -> None:
    wrong = _wrong_step(definition.schema, steps, scope.report) if steps else None
    if wrong is not None:
        scope.report.wrong(
            f"{definition.name} cannot lead there: {wrong[0]}",
            path,
            wrong[1],
            code="name-unknown",
        )


def _wrong_step(
    schema: Schema | None, steps: Sequence[Json], report: Report
) -> tuple[str, str] | None:
    """Return the first step that a value of that schema cannot have, as a problem and a hint; None if there is none."""
    for step in steps:
        type_ = schema.type if schema is not None else None
        if schema is None or type_ is None or type_.is_incomplete:
            return None
        if type_.primitive in _LISTS:
            if not isinstance(step, int) or step < 0:
                return (
                    f"a list has positions from 0, not {step}",
                    "count the entries from 0",
                )
            schema = schema.entry
        elif type_.primitive == "map":
            schema = schema.entry
        elif type_.primitive:
            if any(ancestor.name in _TEXT_FORMATS for ancestor in type_.lineage):
                return None
            return (
                f"a value of the type {type_.name} has no part {step}",
                "end before it",
            )
        elif not type_.properties:  # it says nothing of its values
            return None
        elif step not in type_.properties:
            return f"the type {type_.name} has no property {step}", report.nearest(
                str(step), type_.properties
            )
        else:
            schema = type_.properties[str(step)].schema
    return None


def _key(part: object) -> object:
    if isinstance(part, str):
        return part
    return part.type if isinstance(part, TypeSubject) else part


def _check_member(
    subject: Subject, type_: Type, names: list[Any], path: Path, scope: Scope
) -> None:
    """Check a property of a capability, or of the target of a requirement (chapter 4)."""
    member = names[0]
    name = names[1]
    rest = names[1:]
    has_attributes = path[-1] == "get_attribute"
    capability = type_.capabilities.get(member)
    if (
        capability is not None
        and capability.type is not None
        and not capability.type.is_incomplete
    ):
        if _use(capability, (subject, member), rest, path, scope):
            return
    elif capability is not None:
        return
    if member in type_.requirements:
        targets = list(subject.targets(member))
        if not targets:
            return
        for target, offered in targets:
            if target.type is None or target.type.is_incomplete:
                return
            if offered is not None and _use(
                offered, (target, offered.name), rest, path, scope
            ):
                return
            if _use(target.type, (target,), rest, path, scope):
                return
        if any(offered is None for _, offered in targets):
            return
    known: list[str] = []
    if capability is not None:
        known = [
            *capability.properties,
            *(capability.attributes if has_attributes else ()),
        ]
    problem = f"{member} of {_named(subject)} has no property {name}"
    scope.report.wrong(
        problem, path, scope.report.nearest(name, known), code="name-unknown"
    )


def _subject(name: str, path: Path, scope: Scope) -> Subject | None:
    """Return the template that a function names; None where it is not known before the service runs."""
    kind = scope.subject.kind if scope.subject else ""
    if name == SELF:
        if scope.subject is None:
            _out_of_place(name, "a template or a type", path, scope)
        return scope.subject
    if name in {SOURCE, TARGET}:
        if kind != "relationship":
            _out_of_place(name, "a relationship", path, scope)
        return None
    if name == HOST:
        if kind != "node":
            _out_of_place(name, "a node", path, scope)
        return None
    if scope.templates is None:
        return None
    found = scope.templates.get(name)
    if found is None:
        known = [*scope.templates, SELF, SOURCE, TARGET, HOST]
        scope.report.wrong(
            f"there is no template {name}",
            path,
            scope.report.nearest(name, known),
            code="entity-unknown",
        )
    return found


def _out_of_place(name: str, place: str, path: Path, scope: Scope) -> None:
    scope.report.wrong(
        f"{name} has a meaning only in {place}",
        path,
        "name a template",
        code="function-keyword",
    )


def _check_get_operation_output(arguments: Json, path: Path, scope: Scope) -> None:
    """Check `[ENTITY, INTERFACE, OPERATION, NAME]` (section 4.6.1)."""
    if (
        not isinstance(arguments, list)
        or len(arguments) != 4
        or not all(isinstance(name, str) for name in arguments)
    ):
        hint = "write get_operation_output: [ SELF, Standard, create, NAME ], say"
        _bad(
            "needs a template, an interface, an operation and a name", hint, path, scope
        )
        return
    subject = _subject(arguments[0], path, scope)
    if subject is None or subject.type is None or subject.type.is_incomplete:
        return
    operations = subject.interface_operations(arguments[1])
    if operations is None:
        hint = scope.report.nearest(arguments[1], subject.type.interfaces)
        problem = f"{_named(subject)} has no interface {arguments[1]}"
        scope.report.wrong(problem, path, hint, code="name-unknown")
    elif arguments[2] not in operations:
        problem = f"the interface {arguments[1]} has no operation {arguments[2]}"
        scope.report.wrong(
            problem,
            path,
            scope.report.nearest(arguments[2], operations),
            code="name-unknown",
        )


def _check_get_nodes_of_type(arguments: Json, path: Path, scope: Scope) -> None:
    """Check the name of a node type (section 4.7.1)."""
    name = (
        arguments[0]
        if isinstance(arguments, list) and len(arguments) == 1
        else arguments
    )
    if not isinstance(name, str):
        _bad(
            f"needs the name of a node type, not {kind_of(arguments)}", "", path, scope
        )
    elif scope.names.find("node_types", name) is None:
        scope.report.wrong(f"there is no node type {name}", path, code="type-unknown")


def _check_get_artifact(arguments: Json, path: Path, scope: Scope) -> None:
    """Check `[ENTITY, NAME, location?, remove?]` (section 4.8.1)."""
    hint = "write get_artifact: [ SELF, NAME ], say"
    if not isinstance(arguments, list) or not 2 <= len(arguments) <= 4:
        _bad("needs a template and the name of an artifact", hint, path, scope)
        return
    if not all(isinstance(argument, str) for argument in arguments[:3]):
        _bad(
            "needs text for the template, the artifact and the location",
            hint,
            path,
            scope,
        )
        return
    if len(arguments) == 4 and not isinstance(arguments[3], bool):
        _bad("needs true or false at its end", hint, path, scope)
        return
    subject = _subject(arguments[0], path, scope)
    if (
        subject is not None
        and subject.type is not None
        and not subject.type.is_incomplete
    ):
        known = subject.artifact_names()
        if arguments[1] not in known:
            problem = f"{_named(subject)} has no artifact {arguments[1]}"
            scope.report.wrong(
                problem,
                path,
                scope.report.nearest(arguments[1], known),
                code="name-unknown",
            )


def _check_concat(arguments: Json, path: Path, scope: Scope) -> None:
    """Check a list of values (section 4.3.1)."""
    if not isinstance(arguments, list):
        _bad(
            f"needs a list, not {kind_of(arguments)}",
            "write concat: [ A, B ]",
            path,
            scope,
        )
    elif not arguments:
        scope.report.warn(
            "concat of an empty list is an empty text", path, code="concat-empty"
        )
    else:
        check(arguments, path, scope)


def _check_join(arguments: Json, path: Path, scope: Scope) -> None:
    """Check `[[values…], delimiter?]` (section 4.3.2)."""
    hint = 'write join: [ [ A, B ], "," ]'
    if not isinstance(arguments, list) or not 1 <= len(arguments) <= 2:
        _bad("needs a list of values, and a delimiter", hint, path, scope)
    elif not isinstance(arguments[0], list) and not is_call(arguments[0]):
        _bad(
            f"begins with a list of values, not {kind_of(arguments[0])}",
            hint,
            path,
            scope,
        )
    elif (
        len(arguments) == 2
        and not isinstance(arguments[1], str)
        and not is_call(arguments[1])
    ):
        _bad(
            f"needs text as its delimiter, not {kind_of(arguments[1])}",
            hint,
            path,
            scope,
        )
    else:
        check(arguments, path, scope)


def _check_token(arguments: Json, path: Path, scope: Scope) -> None:
    """Check `[text, characters, index]` (section 4.3.3)."""
    hint = 'write token: [ TEXT, ":", 0 ]'
    if not isinstance(arguments, list) or len(arguments) != 3:
        _bad(
            "needs a text, the characters between its parts, and a position",
            hint,
            path,
            scope,
        )
        return
    text, characters, index = arguments
    for argument in (text, characters):
        if not isinstance(argument, str) and not is_call(argument):
            _bad(f"needs text, not {kind_of(argument)}", hint, path, scope)
            return
    if not is_call(index) and (
        isinstance(index, bool) or not isinstance(index, int) or index < 0
    ):
        _bad("needs a position from 0", hint, path, scope)
        return
    check(arguments, path, scope)


_CHECKS: dict[str, Callable[[Json, Path, Scope], None]] = {
    "get_input": _check_get_input,
    "get_property": _check_get_property,
    "get_attribute": _check_get_property,
    "get_operation_output": _check_get_operation_output,
    "get_nodes_of_type": _check_get_nodes_of_type,
    "get_artifact": _check_get_artifact,
    "concat": _check_concat,
    "join": _check_join,
    "token": _check_token,
}


def check_circles(scope: Scope, place: Callable[[Holder], Path]) -> None:
    """Report values that need each other in a circle (chapter 4), each circle at its first value."""
    graph = {holder: list(used) for holder, used in scope.uses.items()}
    for circle in circles(graph):
        names = shown_circle([str(holder[-1]) for holder in circle])
        first = circle[0]
        scope.report.wrong(
            f"values need each other in a circle: {names}",
            place(first),
            code="function-circle",
        )


def check_defaults(
    defined: Mapping[str, PropertyDefinition],
    own: Mapping[str, Json],
    path: Path,
    scope: Scope,
    *holder: object,
) -> None:
    """Report what is wrong with the functions in the defaults and constraints of definitions."""
    for name, content in own.items():
        for key in ("default", "value"):
            value = content.get(key)
            if name in defined and (value.__class__ is dict or value.__class__ is list):
                check(
                    value,
                    (*path, name, key),
                    scope.of(*holder, name) if holder else scope,
                )
        check_constraints(content, (*path, name), scope)


def check_constraints(content: Mapping[str, Json], path: Path, scope: Scope) -> None:
    """Report what is wrong with the functions in the constraints of a definition, or of its entries and keys."""
    for key in ("constraints", "entry_schema", "key_schema"):
        if content.get(key):
            check(content[key], (*path, key), scope)
