"""Checks of the types of a document: definitions, refinements, triggers (sections 3.5 and 3.6)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from heat_config_agent.model.positions import Json, Path
from heat_config_stack.tosca.files.artifacts import check_artifact, check_implementation
from heat_config_stack.tosca.files.documents import Document
from heat_config_stack.tosca.language import constraints, entities, functions, values
from heat_config_stack.tosca.language.entities import operations
from heat_config_stack.tosca.language.functions import Scope, TypeSubject
from heat_config_stack.tosca.language.grammar import ABSENT, EMPTY, Short, held, list_of
from heat_config_stack.tosca.language.primitives import READERS, kind_of
from heat_config_stack.tosca.language.report import Report
from heat_config_stack.tosca.language.types import (
    MOST_PARENTS,
    NO_PARENT,
    SECTIONS,
    InterfaceDefinition,
    PropertyDefinition,
    Type,
    check_operations,
    schema,
)
from heat_config_stack.tosca.topology.filters import (
    assertions,
    check_clauses,
    check_filter,
)

NOUNS = {
    "artifact_types": "artifact type",
    "data_types": "data type",
    "capability_types": "capability type",
    "interface_types": "interface type",
    "relationship_types": "relationship type",
    "node_types": "node type",
    "group_types": "group type",
    "policy_types": "policy type",
}


def check_types(document: Document, scope: Scope) -> None:
    """Report what is wrong with the types that a document defines."""
    for section in SECTIONS:
        for type_ in document.types(section).values():
            _TypeCheck(type_, document, scope).check()


def find(document: Document, section: str, name: Json, path: Path) -> Type | None:
    """Return the type of a name, or report that there is none."""
    if not isinstance(name, str):
        return None
    found = document.find(section, name)
    if found is None:
        problem = f"there is no {NOUNS[section]} {name}"
        document.report.wrong(
            problem,
            path,
            document.report.nearest(name, document.known(section)),
            code="type-unknown",
        )
    return found


class _TypeCheck:
    """The checks of one type."""

    def __init__(self, type_: Type, document: Document, scope: Scope) -> None:
        self.type = type_
        self.document = document
        self.report = document.report
        kind = {"node_types": "node", "relationship_types": "relationship"}.get(
            type_.section, ""
        )
        subject: TypeSubject | None = None
        if kind:
            subject = TypeSubject(type_, kind)
        elif "group" in type_.section:
            subject = TypeSubject(None, "group")
        if type_.section in {
            "capability_types",
            "interface_types",
            "policy_types",
            "artifact_types",
            "data_types",
        }:
            subject = TypeSubject(None, "node")  # any type that has it
        self.scope = Scope(
            document,
            document.report,
            subject,
            scope.inputs,
            scope.templates,
            None,
            scope.uses,
        )

    def check(self) -> None:
        """Report all its mistakes."""
        type_ = self.type
        content = self.type.content
        path = self.type.path
        self._check_parent()
        for member in ("properties", "attributes"):
            own = content.get(member)
            if own and not (type_.section == "data_types" and type_.primitive):
                check_definitions(
                    own,
                    getattr(type_, member),
                    (*path, member),
                    self.document,
                    needs_type=True,
                )
                functions.check_defaults(
                    getattr(type_, member), own, (*path, member), self.scope, type_
                )
        {
            "artifact_types": self._check_artifact,
            "data_types": self._check_data,
            "capability_types": lambda: self._check_listed(
                "valid_source_types", "node_types"
            ),
            "interface_types": self._check_interface_type,
            "relationship_types": self._check_relationship,
            "node_types": self._check_node,
            "group_types": self._check_group,
            "policy_types": self._check_policy,
        }[type_.section]()

    def _check_parent(self) -> None:
        type_ = self.type
        path = (*self.type.path, "derived_from")
        name = type_.content.get("derived_from")
        noun = NOUNS[type_.section]
        if name is None or name == NO_PARENT:
            is_root = type_.key == f"{SECTIONS[type_.section]}Root"
            if not is_root and (
                type_.section != "data_types" or type_.content.get("properties")
            ):
                hint = f"derive it of {SECTIONS[type_.section]}Root"
                self.report.warn(
                    f"the {noun} {type_.name} is not derived of the root type",
                    type_.path,
                    hint,
                    code="not-root",
                )
        elif type_.parent is None:
            other = next(
                (section for section in SECTIONS if self.document.find(section, name)),
                "",
            )
            hint = (
                f"{name} is a {NOUNS[other]}"
                if other
                else self.report.nearest(name, self.document.known(type_.section))
            )
            self.report.wrong(
                f"there is no {noun} {name}", path, hint, code="parent-unknown"
            )
        elif len(type_.lineage) >= MOST_PARENTS:
            self.report.wrong(
                f"over {MOST_PARENTS} types are derived of one another",
                path,
                code="depth",
            )
        elif type_ in _parents(type_):
            self.report.wrong(
                f"{type_.name} is derived of itself", path, code="parent-circle"
            )

    def _check_listed(self, key: str, *sections: str) -> None:
        """Report names in a list that none of some sections has as a type."""
        for index, name in enumerate(self.type.content.get(key) or ()):
            if name and not any(
                self.document.find(section, name) for section in sections[1:]
            ):
                find(self.document, sections[0], name, (*self.type.path, key, index))

    def _check_artifact(self) -> None:
        pass

    def _check_data(self) -> None:
        type_ = self.type
        content = self.type.content
        path = self.type.path
        if content.get("derived_from") is None and not content.get("properties"):
            hint = "give it properties, or derive it of another type"
            self.report.warn(
                f"the data type {type_.name} does not describe its values",
                path,
                hint,
                code="data-empty",
            )
        if type_.primitive and content.get("properties"):
            problem = f"a type derived from {type_.primitive} has no properties"
            self.report.wrong(problem, (*path, "properties"), code="native-properties")
        for key in ("entry_schema", "key_schema"):
            check_schema(content.get(key), (*path, key), self.document)
        own = content.get("constraints")
        if own is not None and not type_.is_incomplete:
            where = (*path, "constraints")
            if type_.primitive:
                constraints.check(own, type_.primitive, where, self.report)
            else:
                problem = (
                    "constraints are for types that are derived of a primitive type"
                )
                self.report.wrong(
                    problem, where, "put them on properties", code="constraint-unfit"
                )

    def _check_interface_type(self) -> None:
        content = self.type.content
        path = self.type.path
        check_operations(content, path, self.report)
        self._check_inputs(content.get("inputs"), self.type.inputs, (*path, "inputs"))
        for name, operation, where in operations(content, path):
            if operation.get("implementation"):
                problem = (
                    f"the operation {name} of an interface type has an implementation"
                )
                self.report.warn(
                    problem,
                    where,
                    "implement it in a node type",
                    code="interface-implementation",
                )
            self._check_operation(operation, self.type.operations[name].inputs, where)

    def _check_inputs(
        self, own: Any, defined: Mapping[str, PropertyDefinition], path: Path
    ) -> None:
        if own:
            check_definitions(own, defined, path, self.document)
            functions.check_defaults(defined, own, path, self.scope)

    def _check_operation(
        self,
        content: Mapping[str, Json],
        inputs: Mapping[str, PropertyDefinition],
        path: Path,
    ) -> None:
        if path[-1] == "inputs":
            self.report.wrong(
                "inputs cannot be the name of an operation",
                path,
                "give it another name",
                code="key-unknown",
            )
        self._check_inputs(content.get("inputs"), inputs, (*path, "inputs"))
        implementation = content.get("implementation")
        if implementation:
            names = self.type.artifacts if self.type.section == "node_types" else {}
            check_implementation(
                implementation,
                names,
                (*path, "implementation"),
                self.document,
                operation=str(path[-1]),
            )
            functions.check(implementation, (*path, "implementation"), self.scope)
        functions.check_outputs(content, path, self.scope)

    def _check_interfaces(self) -> None:
        for name, content in (self.type.content.get("interfaces") or {}).items():
            self._check_interface(self.type.interfaces[name], content)

    def _check_interface(
        self, interface: InterfaceDefinition, content: Mapping[str, Json]
    ) -> None:
        path = interface.path
        named = content.get("type")
        if named is not None:
            type_ = find(self.document, "interface_types", named, (*path, "type"))
            old = interface.parent.type if interface.parent else None
            if type_ is not None and old is not None and not type_.may_be(old):
                self._refuse_refinement(
                    f"the interface {interface.name}", type_, old, (*path, "type")
                )
        elif interface.type is None and content is not EMPTY:
            known = [*self.document.known("interface_types"), "Standard", "Configure"]
            problem = f"the interface {interface.name} needs a type"
            self.report.wrong(
                problem,
                path,
                self.report.nearest(interface.name, known) or "add type",
                code="key-missing",
            )
        check_operations(content, path, self.report)
        self._check_inputs(content.get("inputs"), interface.inputs, (*path, "inputs"))
        declared = interface.type.operations if interface.type is not None else {}
        for name, operation, where in operations(content, path):
            self._check_operation(operation, interface.operations[name].inputs, where)
            hint = self.report.nearest(name, declared) if name not in declared else ""
            if hint:
                self.report.warn(
                    f"{interface.name} has no operation {name}: it is a new one",
                    where,
                    hint,
                    code="misspelt",
                )
        for name, notification in (content.get("notifications") or {}).items():
            functions.check_outputs(
                notification, (*path, "notifications", name), self.scope
            )

    def _refuse_refinement(
        self, subject: str, new: Type, old: Type, path: Path
    ) -> None:
        problem = (
            f"{subject} has the type {new.name}, which is not derived of {old.name}"
        )
        self.report.wrong(
            problem,
            path,
            "a derived type may only refine what it inherits",
            code="refine",
        )

    def _check_relationship(self) -> None:
        self._check_interfaces()
        self._check_listed("valid_target_types", "capability_types")

    def _check_node(self) -> None:
        self._check_interfaces()
        self._check_capabilities()
        self._check_requirements()
        for name, content in (self.type.content.get("artifacts") or {}).items():
            check_artifact(self.type.artifacts[name], content, self.document)
            where = (*self.type.artifacts[name].path, "properties")
            functions.check(content.get("properties"), where, self.scope)

    def _check_capabilities(self) -> None:
        for name, content in (self.type.content.get("capabilities") or {}).items():
            definition = self.type.capabilities[name]
            path = definition.path
            if content.get("type") is None:
                if definition.parent is None and content is not EMPTY:
                    self.report.wrong(
                        f"the capability {name} needs a type",
                        path,
                        "add type",
                        code="key-missing",
                    )
            else:
                type_ = find(
                    self.document, "capability_types", content["type"], (*path, "type")
                )
                old = definition.parent.type if definition.parent else None
                if type_ is not None and old is not None and not type_.may_be(old):
                    self._refuse_refinement(
                        f"the capability {name}", type_, old, (*path, "type")
                    )
            for member in ("properties", "attributes"):
                own = content.get(member)
                if own:
                    check_definitions(
                        own,
                        getattr(definition, member),
                        (*path, member),
                        self.document,
                        needs_type=True,
                    )
                    functions.check_defaults(
                        getattr(definition, member), own, (*path, member), self.scope
                    )
            for index, source in enumerate(content.get("valid_source_types") or ()):
                if source and not self.document.find("group_types", source):
                    _find_softly(
                        self.document, source, (*path, "valid_source_types", index)
                    )

    def _check_requirements(self) -> None:
        for index, entry in enumerate(self.type.content.get("requirements") or ()):
            if entry is None:
                continue
            name, content = entry
            path = (*self.type.path, "requirements", index, name)
            if content is None:
                continue
            definition = self.type.requirements[name]
            if content.get("capability") is None and definition.parent is None:
                self.report.wrong(
                    f"the requirement {name} needs a capability",
                    path,
                    "add capability",
                    code="key-missing",
                )
            for key, section in (
                ("capability", "capability_types"),
                ("node", "node_types"),
            ):
                find(self.document, section, content.get(key), (*path, key))
            relationship = content.get("relationship") or {}
            where = (*path, "relationship")
            type_ = find(
                self.document,
                "relationship_types",
                relationship.get("type"),
                (*where, "type"),
            )
            for interface, of in (relationship.get("interfaces") or {}).items():
                parent = type_.interface(interface) if type_ else None
                here = (*where, "interfaces", interface)
                inner = InterfaceDefinition(interface, of, parent, self.document, here)
                checked = (
                    _TypeCheck(type_, self.document, self.scope) if type_ else self
                )
                checked._check_interface(inner, of)  # noqa: SLF001  # of its own class
            if content.get("node_filter"):
                where = (*path, "node_filter")
                check_filter(
                    content["node_filter"],
                    definition.node,
                    where,
                    self.document,
                    self.scope,
                )

    def _check_group(self) -> None:
        self._check_interfaces()
        self._check_listed("members", "node_types", "group_types")
        self._check_capabilities()
        self._check_requirements()

    def _check_policy(self) -> None:
        self._check_listed("targets", "node_types", "group_types")
        check_triggers(
            self.type.content.get("triggers") or {},
            (*self.type.path, "triggers"),
            self.document,
        )


def _find_softly(document: Document, name: str, path: Path) -> None:
    """Report a source type that is neither a group type nor a node type."""
    find(document, "node_types", name, path)


def _parents(type_: Type) -> list[Type]:
    parents: list[Type] = []
    following = type_.parent
    while following is not None and following not in parents:
        parents.append(following)
        following = following.parent
    return parents


def check_definitions(
    own: Mapping[str, Json],
    defined: Mapping[str, PropertyDefinition],
    path: Path,
    document: Document,
    *,
    needs_type: bool = False,
) -> None:
    """Report what is wrong with definitions of properties, attributes or parameters (sections 3.5.9 to 3.5.13).

    Properties, attributes and inputs of workflows need a type; other parameters may do without (1.0: 3.5.12, 1.3:
    3.6.14): their values decide.
    """
    report = document.report
    for name, content in own.items():
        if content is EMPTY:
            continue
        definition = defined[name]
        here = (*path, name)
        if isinstance(content, Short) and definition.parent is None:
            problem = (
                f"{name} must be a property: a map, not {kind_of(content['value'])}"
            )
            report.wrong(
                problem,
                here,
                "a value alone refines an inherited property",
                code="kind",
            )
            continue
        type_ = definition.schema.type
        old = definition.parent.schema.type if definition.parent else None
        named = content.get("type")
        if named is not None:
            find(document, "data_types", named, (*here, "type"))
            if type_ is not None and old is not None and not type_.may_be(old):
                problem = f"{name} has the type {type_.name}, which is not derived of {old.name}"
                report.wrong(
                    problem,
                    (*here, "type"),
                    "a derived type may only refine what it inherits",
                    code="refine",
                )
        elif definition.parent is None and needs_type:
            report.wrong(f"{name} needs a type", here, "add type", code="key-missing")
        check_schema(content.get("entry_schema"), (*here, "entry_schema"), document)
        check_schema(content.get("key_schema"), (*here, "key_schema"), document)
        own_clauses = content.get("constraints")
        if own_clauses:
            is_complex = type_ is not None and not type_.primitive
            primitive: str | None = "null"
            if type_ is not None:
                primitive = type_.primitive
            elif named or not needs_type:
                primitive = None
            if type_ is None or not type_.is_incomplete:
                where = (*here, "constraints")
                constraints.check(
                    own_clauses, primitive or None, where, report, is_complex=is_complex
                )
        for key in ("default", "value"):
            value = content.get(key)
            if value is not None:
                values.check(value, definition.schema, (*here, key), report)
        check_refinement(content, definition, here, report)


_NARROWING = ("constraints", "type", "entry_schema", "key_schema")
"""Keynames through which an inherited value may no longer fit."""

_OPTIONAL_SINCE = "1.3"


def check_refinement(
    content: Mapping[str, Json],
    definition: PropertyDefinition,
    path: Path,
    report: Report,
) -> None:
    """Report a refinement that changes a fixed value, excludes an inherited one, or makes a property optional."""
    parent = definition.parent
    name = definition.name
    if parent is None:
        return
    hint = f"leave out the %s: the value of {name} is final"
    for key in ("value", "default"):
        if parent.fixed is not None and content.get(key) not in (None, parent.fixed):
            problem = f"{name} has a fixed value already, in {parent.names.file}"
            report.wrong(problem, (*path, key), hint % key, code="refine")
    narrowing = next((key for key in _NARROWING if content.get(key) is not None), "")
    type_ = definition.schema.type
    old = parent.schema.type
    is_refinement = type_ is not None and old is not None and type_.may_be(old)
    is_inherited = (
        content.get("value") is None
        and content.get("default") is None
        and definition.default is not None
    )
    if narrowing and is_refinement and is_inherited:
        inner = Report(None, report.budget)
        values.check(definition.default, definition.schema, (name,), inner)
        for mistake in inner.mistakes:
            problem = f"the value that {name} inherits does not fit: {mistake.problem}"
            report.wrong(
                problem,
                (*path, narrowing),
                "give it a default that fits",
                code=mistake.code,
            )
            break
    if (
        content.get("required") is False
        and parent.required
        and report.version >= _OPTIONAL_SINCE
    ):
        problem = f"{name} is required in the parent type, and optional here"
        report.warn(
            problem,
            (*path, "required"),
            "a derived type may only make it required",
            code="loosened",
        )


def check_schema(content: Any, path: Path, document: Document) -> None:
    """Report what is wrong with an entry_schema or key_schema."""
    if content is None:
        return
    if isinstance(content, str):
        find(document, "data_types", content, path)
        return
    type_ = find(document, "data_types", content.get("type"), (*path, "type"))
    if content.get("constraints") and (type_ is None or not type_.is_incomplete):
        is_complex = type_ is not None and not type_.primitive
        primitive = type_.primitive if type_ and type_.primitive else None
        constraints.check(
            content["constraints"],
            primitive,
            (*path, "constraints"),
            document.report,
            is_complex=is_complex,
        )
    check_schema(content.get("entry_schema"), (*path, "entry_schema"), document)
    check_schema(content.get("key_schema"), (*path, "key_schema"), document)


# Triggers of policies and policy types (section 3.5.18).

_INTERVAL = "tosca.datatypes.TimeInterval"
_ACTIONS = list_of(entities.ACTIVITY)


def check_triggers(
    triggers: Mapping[str, Json], path: Path, document: Document
) -> None:
    """Report what is wrong with triggers, as far as that shows without a topology."""
    report = document.report
    for name, content in triggers.items():
        here = (*path, name)
        if not content:
            continue
        if content.get("event") is None and content.get("event_type") is None:
            report.wrong("a trigger needs event", here, "add event", code="key-missing")
        if content.get("schedule") is not None:
            values.check(
                content["schedule"],
                schema(_INTERVAL, document),
                (*here, "schedule"),
                report,
            )
        condition = content.get("condition")
        _check_period(content.get("period"), (*here, "period"), document)
        if isinstance(condition, dict):
            _check_period(
                condition.get("period"), (*here, "condition", "period"), document
            )
        for conditions, where in monitored(content, here, document):
            for _, clauses, place in assertions(conditions, where):
                check_clauses(clauses, None, place, document)
        activities(content, here, document)


def monitored(
    content: Mapping[str, Any], path: Path, document: Document
) -> Iterator[tuple[list[Any], Path]]:
    """Yield the lists of conditions of a trigger (1.3), without their faulty parts, which are reported."""
    condition = content.get("condition")
    for key in ("condition", "constraint"):
        if isinstance(content.get(key), list):
            yield content[key], (*path, key)
    if isinstance(condition, dict) and isinstance(condition.get("constraint"), list):
        where = (*path, "condition", "constraint")
        conditions = held(
            condition["constraint"], entities.CONDITIONS, where, document.report
        )
        yield ([] if conditions is ABSENT else conditions), where


def _check_period(value: Json, path: Path, document: Document) -> None:
    """Report a period whose text is not a time. A number means seconds."""
    if not isinstance(value, str):
        return
    try:
        READERS["scalar-unit.time"](value)
    except ValueError as error:
        document.report.wrong(f"period {error}", path, code="value")


def activities(content: Mapping[str, Any], path: Path, document: Document) -> list[Any]:
    """Return the activities of a trigger (1.3), without their faulty parts, which are reported; none of other forms."""
    action = content.get("action")
    return (
        held(action, _ACTIONS, (*path, "action"), document.report)
        if isinstance(action, list)
        else []
    )
