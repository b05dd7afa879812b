"""Checks of substitution mappings (sections 3.7.8 to 3.7.12 of the specification)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from heat_config_agent.model.positions import Json, Path
from heat_config_stack.tosca.checks.type_checks import find
from heat_config_stack.tosca.files.documents import Document
from heat_config_stack.tosca.language import functions, values
from heat_config_stack.tosca.language.functions import Scope
from heat_config_stack.tosca.language.types import PropertyDefinition, Type
from heat_config_stack.tosca.language.values import is_call
from heat_config_stack.tosca.topology.filters import check_filter
from heat_config_stack.tosca.topology.service import Node, Service

_OF_ROOT = frozenset({"feature", "dependency"})
_MOST_SHOWN = 5
DIRECTIVES = frozenset({"substitutable", "substitute"})


def check_substitution(service: Service, scope: Scope) -> None:
    """Report what is wrong with the substitution mapping of a service."""
    content = service.content.get("substitution_mappings")
    if content:
        _SubstitutionCheck(content, service, scope).check()


class _SubstitutionCheck:
    """The check of one substitution mapping."""

    def __init__(
        self, content: Mapping[str, Any], service: Service, scope: Scope
    ) -> None:
        self.content = content
        self.service = service
        self.scope = scope
        self.report = scope.report
        self.path: Path = (*service.path, "substitution_mappings")
        self.type = find(
            service.document,
            "node_types",
            content.get("node_type"),
            (*self.path, "node_type"),
        )

    def check(self) -> None:
        """Report all its mistakes."""
        type_ = self.type
        is_known = type_ is not None and not type_.is_incomplete
        for section in (
            "properties",
            "attributes",
            "capabilities",
            "requirements",
            "interfaces",
        ):
            defined = getattr(type_, section) if type_ is not None and is_known else {}
            if section == "attributes":
                defined = {**(type_.properties if type_ else {}), **defined}
            for name, entry in (self.content.get(section) or {}).items():
                path = (*self.path, section, name)
                if entry is None:
                    hint = "leave it out, or put something under it"
                    self.report.warn(
                        f"nothing stands under {name}", path, hint, code="empty"
                    )
                elif is_known and not self._is_declared(section, name, defined, entry):
                    noun = {"properties": "property", "capabilities": "capability"}.get(
                        section, section[:-1]
                    )
                    problem = (
                        f"the type {self.content.get('node_type')} has no {noun} {name}"
                    )
                    self.report.wrong(
                        problem,
                        path,
                        self.report.nearest(name, defined),
                        code="undeclared",
                    )
                elif section in {"capabilities", "requirements"}:
                    self._check_member(section, defined.get(name), entry, path)
                elif section in {"properties", "attributes"}:
                    self._check_value(section, entry, path, defined.get(name))
                else:
                    self._check_operations(name, entry, path)
                    self._check_workflows(entry, path)
        if self.content.get("substitution_filter"):
            path = (*self.path, "substitution_filter")
            check_filter(
                self.content["substitution_filter"],
                type_,
                path,
                self.service.document,
                self.scope,
            )
        if is_known and type_ is not None:
            self._check_complete(type_)

    def _is_declared(
        self, section: str, name: str, defined: Mapping[str, Any], entry: Json
    ) -> bool:
        if section != "interfaces":
            return name in defined
        if isinstance(entry, dict):
            # it may be a new interface that is added to the type
            return True
        interface = name.rpartition(".")[0]
        names = (name, interface) if interface else (name,)
        if self.type is None or any(self.type.interface(of) for of in names):
            return True
        return any(name in of.operations for of in self.type.interfaces.values())

    def _check_member(self, section: str, outer: Any, entry: Json, path: Path) -> None:
        """Check `[NODE, NAME]`, `{mapping: [NODE, NAME]}` or `{properties, attributes}`."""
        if isinstance(entry, dict):
            self._check_map(section, entry, path)
            if entry.get("mapping") is None:
                return
            entry = entry["mapping"]
            path = (*path, "mapping")
        if (
            not isinstance(entry, list)
            or len(entry) != 2
            or not all(isinstance(part, str) for part in entry)
        ):
            noun = "capability" if section == "capabilities" else "requirement"
            problem = f"a mapping must be a list of a node template and a {noun} of it"
            self.report.wrong(problem, path, "write [ NODE, NAME ]", code="kind")
            return
        node = self._node(entry[0], path)
        if node is None or not node.is_known or node.type is None:
            return
        defined: Mapping[str, Any] = getattr(node.type, section)
        inner = defined.get(entry[1])
        if inner is None:
            problem = f"{node.name} has no {'capability' if section == 'capabilities' else 'requirement'} {entry[1]}"
            self.report.wrong(
                problem,
                path,
                self.report.nearest(entry[1], defined),
                code="mapping-unknown",
            )
        elif outer is not None:
            if section == "capabilities":
                own, wanted = inner.type, outer.type
            else:
                own, wanted = inner.capability, outer.capability
            if own is not None and wanted is not None and not own.may_be(wanted):
                problem = f"{entry[1]} of {node.name} is of the type {own.name}, which is not derived of {wanted.name}"
                self.report.wrong(problem, path, code="mapping-unfit")

    def _check_map(self, section: str, entry: Mapping[str, Json], path: Path) -> None:
        known = ("mapping", "properties", "attributes", "interfaces", "relationship")
        for key in entry:
            if key not in known[: 3 if section == "capabilities" else 5]:
                self.report.wrong(
                    f"a mapping has no keyname {key}",
                    (*path, key),
                    self.report.nearest(key, known),
                    code="key-unknown",
                )
        if not entry:
            self.report.wrong(
                "a mapping needs a node template and a name",
                path,
                "write [ NODE, NAME ]",
                code="key-missing",
            )
        if entry.get("mapping") is not None and len(entry) > 1:
            self.report.wrong(
                "mapping stands alone", path, "leave out the rest", code="exclusive"
            )

    def _node(self, name: str, path: Path) -> Node | None:
        node = self.service.nodes.get(name)
        if node is None:
            problem = f"there is no node template {name}"
            self.report.wrong(
                problem,
                path,
                self.report.nearest(name, self.service.nodes),
                code="mapping-unknown",
            )
        return node

    def _check_value(
        self,
        section: str,
        entry: Json,
        path: Path,
        definition: PropertyDefinition | None,
    ) -> None:
        """Check the mapping of a property or an attribute; anything but a list of names is a constant."""
        is_constant = not isinstance(entry, list)
        if (
            isinstance(entry, dict)
            and not is_call(entry)
            and set(entry) <= {"mapping", "value"}
            and len(entry) == 1
        ):
            ((key, entry),) = entry.items()
            path = (*path, key)
            is_constant = key == "value"
            if key == "mapping" and isinstance(entry, str):
                entry = [entry]
        if is_constant:
            functions.check(entry, path, self.scope)
            if definition is not None:
                values.check(entry, definition.schema, path, self.report)
        if is_constant or not isinstance(entry, list) or not entry:
            return
        if all(isinstance(name, str) for name in entry):
            self._check_names(section, entry, path)

    def _check_names(self, section: str, entry: list[str], path: Path) -> None:
        """Check `[NAME]` of an input or an output, `[NODE, NAME]` and `[NODE, CAPABILITY, NAME]`."""
        if len(entry) == 1:
            parameters = (
                self.service.inputs if section == "properties" else self.service.outputs
            )
            if entry[0] not in parameters:
                noun = "input" if section == "properties" else "output"
                problem = f"there is no {noun} {entry[0]}"
                self.report.wrong(
                    problem,
                    path,
                    self.report.nearest(entry[0], parameters),
                    code="mapping-unknown",
                )
            return
        node = self._node(entry[0], path)
        if node is None or not node.is_known or node.type is None or len(entry) > 3:
            return
        names = {**node.type.properties}
        if section == "attributes":
            names.update(node.type.attributes)
        if len(entry) == 3:
            capability = node.type.capabilities.get(entry[1])
            if capability is None:
                if entry[1] not in node.type.requirements and entry[1] not in names:
                    problem = f"{node.name} has no capability or requirement {entry[1]}"
                    known = [*node.type.capabilities, *node.type.requirements]
                    self.report.wrong(
                        problem,
                        path,
                        self.report.nearest(entry[1], known),
                        code="mapping-unknown",
                    )
                return
            names = {**capability.properties, **capability.attributes}
        if entry[-1] not in names:
            problem = f"{node.name} has no property {entry[-1]}"
            self.report.wrong(
                problem,
                path,
                self.report.nearest(entry[-1], names),
                code="mapping-unknown",
            )

    def _check_operations(self, name: str, entry: Json, path: Path) -> None:
        """Check the names of operations of an interface that the type has."""
        interface = self.type.interface(name) if self.type is not None else None
        if (
            interface is None
            or interface.type is None
            or interface.type.is_incomplete
            or not isinstance(entry, dict)
        ):
            return
        within = ("operations",) if isinstance(entry.get("operations"), dict) else ()
        for operation in entry["operations"] if within else entry:
            if operation not in interface.operations:
                problem = f"the interface {name} has no operation {operation}"
                hint = self.report.nearest(operation, interface.operations)
                self.report.wrong(
                    problem, (*path, *within, operation), hint, code="undeclared"
                )

    def _check_workflows(self, entry: Json, path: Path) -> None:
        """Check the names of workflows that stand for operations."""
        if isinstance(entry, dict):
            for name, inner in entry.items():
                self._check_workflows(inner, (*path, name))
        elif isinstance(entry, str):
            if entry not in self.service.workflows:
                problem = f"there is no workflow {entry}"
                self.report.wrong(
                    problem,
                    path,
                    self.report.nearest(entry, self.service.workflows),
                    code="workflow-unknown",
                )
        elif entry is not None:
            self.report.wrong(
                "an operation is mapped to the name of a workflow", path, code="kind"
            )

    def _check_complete(self, type_: Type) -> None:
        """Warn of members of the type that nothing maps."""
        missing: list[str] = []
        for section in ("capabilities", "requirements"):
            mapped = self.content.get(section) or {}
            missing += [
                name
                for name in getattr(type_, section)
                if name not in mapped and name not in _OF_ROOT
            ]
        mapped = self.content.get("properties") or {}
        for name, of in type_.properties.items():
            if (
                name not in mapped
                and name not in self.service.inputs
                and of.required
                and of.default is None
            ):
                missing.append(name)
        if missing:
            problem = (
                f"nothing is mapped to {', '.join(missing)} of the type {type_.name}"
            )
            self.report.warn(problem, self.path, code="mapping-missing")


def check_substitutable(
    service: Service, documents: Iterable[Document], scope: Scope
) -> None:
    """Report an open point if a node has to be substituted, and no imported template can stand in for it."""
    abstract = [
        node for node in service.nodes.values() if DIRECTIVES & set(node.directives)
    ]
    if not abstract:
        return
    offered: list[tuple[Type, Document]] = []
    for document in documents:
        mapping = (document.content.get("topology_template") or {}).get(
            "substitution_mappings"
        ) or {}
        type_ = (
            document.find("node_types", mapping["node_type"])
            if mapping.get("node_type")
            else None
        )
        if type_ is not None and document is not service.document:
            offered.append((type_, document))
    for node in abstract:
        if node.type is None:
            continue
        fitting = [
            document.file for type_, document in offered if type_.is_a(node.type)
        ]
        if not fitting:
            problem = f"no template that is imported stands in for {node.name}"
            hint = "import one whose node_type is its type; apply also finds one in the folder of the service"
            scope.report.leave_open(problem, node.path, hint, code="open-substitution")
        elif len(fitting) > 1:
            shown = ", ".join(fitting[:_MOST_SHOWN])
            problem = f"several templates can stand in for {node.name}: {shown}"
            hint = f"name one: --substitute {node.name}=FILE"
            scope.report.leave_open(problem, node.path, hint, code="open-substitution")
