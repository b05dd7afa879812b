"""Source → the definition of a stack, with the mistakes in the values that a service is applied with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from heat_config_agent.diagnostics.mistakes import Invalid, ordered
from heat_config_agent.masking.redaction import OPEN, Concealer
from heat_config_agent.model.deployment import Input
from heat_config_agent.model.mistake import Mistake
from heat_config_agent.model.positions import Json, Path, Place
from heat_config_stack.definition import (
    Definition,
    Environment,
    Identity,
    Interface,
    MappedType,
    Parameter,
    Schema,
    Tree,
    Unresolved,
    limits,
)
from heat_config_stack.tosca.checks.evaluated import check_computed, warn_of_less
from heat_config_stack.tosca.compilation.compiler import Compiler
from heat_config_stack.tosca.compilation.generated_workflows import (
    GeneratedWorkflow,
    generated_workflows,
)
from heat_config_stack.tosca.compilation.operations import Scripts
from heat_config_stack.tosca.compilation.procedures import Workflow, triggers, workflows
from heat_config_stack.tosca.evaluation import sensitive
from heat_config_stack.tosca.evaluation.evaluation import (
    NOTHING,
    Context,
    Evaluator,
    TooDeep,
)
from heat_config_stack.tosca.evaluation.later import Attribute, is_known, static
from heat_config_stack.tosca.files.archives import Files
from heat_config_stack.tosca.files.documents import Document, Library
from heat_config_stack.tosca.files.source import Kept, Source, machine_template
from heat_config_stack.tosca.language import values
from heat_config_stack.tosca.language.report import Report
from heat_config_stack.tosca.language.types import PropertyDefinition
from heat_config_stack.tosca.language.values import parsed
from heat_config_stack.tosca.topology.service import Node, Service, mapped_to
from heat_config_stack.tosca.topology.topology import (
    Layer,
    Part,
    Surroundings,
    Topology,
    Values,
)

MOST_SUBSTITUTED = 2_000
"""Nodes in whose place other services are put, at most: services within services can double them without end."""

LARGEST = 20_000
"""The maximum of resources of a service."""

_TYPES = {
    "integer": "number",
    "float": "number",
    "boolean": "boolean",
    "string": "string",
}

_COMPLEX = frozenset({"list", "map", "range", "null", ""})

Substitutes = Callable[[Part], "tuple[str, Document] | None"]


def load(source: Json, identity: Identity) -> Definition:
    """Return the definition of a stack from its stored source: a `definition.Loader`. Raises `Invalid`.

    A command loads the same source several times: to look at the stack, to work on it, and to go back to it.
    """
    for definition in _loaded:
        if definition.identity == identity and definition.source == source:
            return definition
    made = _load(source, identity)
    remember(made)
    return made


def remember(definition: Definition) -> None:
    """Let `load` return a definition for its source and its identity, without compiling it again.

    The source has the content of every file, every input and the facts of the machine: nothing else can change it.
    """
    _loaded.append(definition)
    del _loaded[:-_MOST_LOADED]


_MOST_LOADED = 2
_loaded: list[Definition] = []
"""The definitions that were made last."""


def _load(source: Json, identity: Identity) -> Definition:
    kept = Source.from_json(source)
    files = Kept(kept)
    library = Library()
    document = library.read(files, kept.entry)
    stored = _Stored(kept, library, files, document)
    return define(kept, document, identity, stored.found, Purpose(is_new=False))


class _Stored:
    """The services that stand in the place of nodes, as they were found when the stack was made."""

    def __init__(
        self, source: Source, library: Library, files: Files, document: Document
    ) -> None:
        self._source = source
        self._library = library
        self._files = files
        self._document = document

    def found(self, part: Part) -> tuple[str, Document] | None:
        path = self._source.substitutes.get(part.name)
        if path is None:
            return None
        return path, self._library.read(self._files, path, self._document.version)


@dataclass(frozen=True)
class Purpose:
    """The use of a definition, which decides what is checked."""

    is_complete: bool = True
    """False if inputs may have no values: then the definition can be shown, but not used."""
    is_new: bool = True
    """False for a stack that exists: values that do not fit must not keep it from being deleted."""
    marks: Mapping[str, Json] | None = None
    """For an export, values that stand for inputs; addresses are attributes of the servers then."""
    server: str = ""
    """The name of the node that is this machine; without it, each machine is."""


USE = Purpose()
"""A definition that is carried out."""


def define(
    source: Source,
    document: Document,
    identity: Identity,
    substitutes: Substitutes,
    purpose: Purpose = USE,
) -> Definition:
    """Return the definition of a service whose document has no mistakes. Raises `Invalid`."""
    document.report.budget.renew()
    loading = _Loading(source, document, identity, substitutes, purpose)
    if source.hosts:
        hosts: Mapping[str, Any] = source.hosts
        loading.evaluator.address_of = lambda part: (
            hosts[part.name]["address"] if part.name in hosts else "127.0.0.1"
        )
    if purpose.marks is not None:
        loading.evaluator.address_of = lambda part: Attribute(
            part.name, "first_address"
        )
    try:
        return limits.within_template(loading.definition)
    except limits.TooMuch:
        raise Invalid(
            [Mistake(limits.OUT_OF_TIME, (), Place(document.file, 1, 1))], OPEN
        ) from None


class _Loading:
    """One service while it is made into a definition."""

    def __init__(
        self,
        source: Source,
        document: Document,
        identity: Identity,
        substitutes: Substitutes,
        purpose: Purpose,
    ) -> None:
        self.source = source
        self.document = document
        self.identity = identity
        self.purpose = purpose
        self._substitutes = substitutes
        self._left = MOST_SUBSTITUTED
        self.service = Service(document)
        machine = (
            Node("this_machine", machine_template(source.machine), document, ())
            if source.machine
            else None
        )
        self.evaluator = Evaluator(given=source.attributes)
        self.topology = Topology(
            Surroundings(
                machine,
                self._substitute,
                lambda tree, part: static(
                    self.evaluator.value(tree, Context(part, part.layer))
                ),
                lambda part, name: _there(self.evaluator.property_value(part, name)),
                lambda part, capability, name: _there(
                    self.evaluator.capability_value(part, capability, name)
                ),
                self._inner_inputs,
            )
        )
        self.scripts = Scripts(
            self.topology, self.evaluator, document.files, source.base
        )
        self.evaluator.path_of = self.scripts.path_of
        self.evaluator.parts = self.topology.parts.values
        self._chosen: dict[str, Service | None] = {}

    def definition(self) -> Definition:
        """Return the definition. Raises `Invalid`."""
        parameters = self._parameters()
        if self.topology.mistakes:
            raise Invalid(ordered(self.topology.mistakes), _conceal(parameters))
        purpose = self.purpose
        marks = self.purpose.marks or {}
        layer = self._built(
            {
                **{name: parameter.value for name, parameter in parameters.items()},
                **marks,
            }
        )
        compiler = Compiler(self.topology, self.evaluator, self.scripts)
        compiler.compile()
        if purpose.is_complete and purpose.is_new and not marks:
            check_computed(self.topology, self.evaluator)
            warn_of_less(
                self.topology, self.evaluator, self.source.machine, purpose.server
            )
        outputs = compiler.outputs(layer)
        procedures: dict[str, Workflow | GeneratedWorkflow] = {
            **generated_workflows(compiler, layer)
        }
        procedures |= workflows(compiler, layer)
        actions = triggers(compiler, layer)
        for procedure in (*procedures.values(), *actions.values()):
            procedure.outline()
        self._check_given()
        result = Definition(
            self.identity,
            str(
                self.document.content.get("description")
                or self.service.content.get("description")
                or ""
            ),
            parameters,
            (),
            compiler.finish(),
            outputs,
            _Types(compiler.types),
            self.source.to_json(),
            tuple(ordered([*self.topology.warnings, *self._warned()])),
            self._place,
            compiler.nodes,
            in_turn=True,
            files={
                self.scripts.inside(path): self.scripts.content(path, self.document)
                for path in self.source.beside
            },
            procedures=procedures,
            triggers=actions,
            largest=LARGEST,
            secrets=(
                *sensitive.of_inputs(self.service.inputs, parameters),
                *sensitive.of_properties(self.topology, self.evaluator),
            ),
        )
        if self.topology.mistakes:
            raise Invalid(ordered(self.topology.mistakes), result.conceal)
        if self.identity.mistake is not None:
            raise Invalid([self.identity.mistake], result.conceal)
        return replace(
            result,
            warnings=tuple(
                warning.concealed(result.conceal.text) for warning in result.warnings
            ),
        )

    def _built(self, inputs: Values) -> Layer:
        try:
            return self.topology.build(self.service, inputs)
        except (TooDeep, Unresolved) as error:
            problem = (
                f"values need each other in a circle: {error}"
                if isinstance(error, TooDeep)
                else str(error)
            )
            mistake = self.document.report.mistake(
                problem, self.service.path, code="function-circle"
            )
            raise Invalid([*ordered(self.topology.mistakes), mistake], OPEN) from None

    def _warned(self) -> Iterator[Mistake]:
        for document in self.document.all_documents():
            yield from document.report.warnings

    def _place(self, path: Path) -> Place | None:
        """Return where the node of a resource stands."""
        if path[:1] != ("resources",) or len(path) < 2:  # the name follows
            return None
        name = str(path[1])
        parts = self.topology.parts
        part = parts.get(name) or parts.get(name.partition(".")[0])
        return (
            part.template.document.report.mistake(
                "", part.template.path, code="kind"
            ).place
            if part
            else None
        )

    # Inputs.

    def _parameters(self) -> dict[str, Parameter]:
        """Return the inputs with their values (section 3.8.2)."""
        inputs = self.source.inputs
        defined = self.service.inputs
        for name in inputs:
            if name not in defined:
                problem = f"the service has no input {name}"
                self._wrong(
                    problem,
                    (*self.service.path, "inputs"),
                    self.document.report.nearest(name, defined),
                    code="input-unknown",
                )
        parameters = {}
        for name, definition in defined.items():
            value = _given(inputs.get(name), definition)
            is_given = inputs.get(name) is not None
            path = (*self.service.path, "inputs", name)
            if is_given:
                self._check(value, definition, name, path)
            else:
                value = definition.get("value")
                value = definition.default if value is None else value
                if value is None and definition.required and self.purpose.is_complete:
                    self._wrong(
                        f"the input {name} has no value",
                        path,
                        f"give it: --input {name}=VALUE",
                        code="open-input",
                    )
            parameters[name] = Parameter(_schema(name, definition), value, is_given)
        layer = Layer(Service(self.document), self.topology, {})
        for name, parameter in parameters.items():
            try:
                value = static(
                    self.evaluator.value(parameter.value, Context(None, layer))
                )
                parameters[name] = replace(parameter, value=value)
            except (TooDeep, Unresolved) as error:
                self._wrong(
                    str(error),
                    (*self.service.path, "inputs", name),
                    code="function-arguments",
                )
        return parameters

    def _check(
        self, value: Json, of: PropertyDefinition, name: str, path: Path
    ) -> None:
        report = Report(None, self.document.report.budget)
        values.check(value, of.schema, (name,), report)
        for mistake in report.mistakes:
            self._wrong(
                mistake.problem,
                path,
                mistake.hint or f"it was given as --input {name}",
                code=mistake.code,
            )

    def _wrong(self, problem: str, path: Path, hint: str = "", *, code: str) -> None:
        self.topology.mistakes[
            self.document.report.mistake(problem, path, hint, code=code)
        ] = None

    def _check_given(self) -> None:
        """Refuse attributes of nodes that are not there."""
        nodes = {part.name: part for part in self.topology.parts.values()}
        for name in self.source.attributes:
            node, _, capability = name.rpartition(".")
            part = nodes.get(name) or nodes.get(node)
            inner = part is not None and (
                part.name == name
                or (part.type and capability in part.type.capabilities)
            )
            if not inner:
                self._wrong(
                    f"--attribute names no node {name}",
                    self.service.path,
                    self.document.report.nearest(name, nodes),
                    code="entity-unknown",
                )

    # Substitution.

    def _substitute(self, part: Part) -> Service | None:
        if part.name not in self._chosen:
            found = self._substitutes(part) if self._left > 0 else None
            self._chosen[part.name] = Service(found[1]) if found is not None else None
            self._left -= found is not None
            if self._left == 0:
                problem = f"over {MOST_SUBSTITUTED:,} nodes are substituted"
                self.topology.wrong(
                    problem,
                    part.template,
                    part.template.path,
                    "substitute fewer nodes",
                    code="depth",
                )
        return self._chosen[part.name]

    def _inner_inputs(self, part: Part, inner: Service) -> Values:
        """Return the inputs of a service that stands in the place of a node."""
        mapping = (inner.content.get("substitution_mappings") or {}).get(
            "properties"
        ) or {}
        source: dict[str, str] = {}
        for name, entry in mapping.items():
            mapped = mapped_to(entry)
            if isinstance(mapped, str):
                source[mapped] = name
            elif isinstance(mapped, list) and len(mapped) == 1:
                source[mapped[0]] = name
        inputs: dict[str, Tree] = {}
        for name, definition in inner.inputs.items():
            property_ = source.get(name, name)
            value = self.evaluator.property_value(part, property_)
            if value is NOTHING or value is None:
                value = definition.default
            if value is None and definition.required:
                problem = f"{inner.document.file}, which stands in for {part.name}, has no value for its input {name}"
                path = part.template.path
                self.topology.wrong(
                    problem,
                    part.template,
                    path,
                    "map a property to it, or give a default",
                    code="open-input",
                )
            if is_known(value) and value is not None:
                report = Report(None, self.document.report.budget)
                values.check(value, definition.schema, (name,), report)
                for mistake in report.mistakes:
                    self.topology.wrong(
                        f"{part.name}: {mistake.problem}",
                        part.template,
                        part.template.path,
                        code=mistake.code,
                    )
            inputs[name] = value
        return inputs


def _there(tree: Tree) -> Json:
    return None if tree is NOTHING else static(tree)


def _conceal(parameters: Mapping[str, Parameter]) -> Concealer:
    secret = (
        (name, parameter)
        for name, parameter in parameters.items()
        if parameter.schema.secret
    )
    return Concealer(
        Input(name=name, value=parameter.value, hidden=True)
        for name, parameter in secret
    )


def _given(value: Json, of: PropertyDefinition) -> Json:
    return parsed(of, value) if isinstance(value, str) else value


def _schema(name: str, of: PropertyDefinition) -> Schema:
    type_ = _TYPES.get(
        of.schema.primitive, "json" if of.schema.primitive in _COMPLEX else "string"
    )
    return Schema(
        name,
        type_,
        "",
        str(of.get("description", "")),
        of.default,
        sensitive.is_marked(of),
    )


class _Types:
    """The types of the resources of a service (`definition.Environment`)."""

    def __init__(self, types: Mapping[str, str]) -> None:
        self._types = types

    def candidates(self, type_: str, resource: str) -> Iterator[MappedType]:  # noqa: ARG002
        yield MappedType(self._types[resource], of_service=True)

    def interface(self, template: str) -> Interface:
        raise Invalid([Mistake(f"a service has no nested template {template}")], OPEN)

    def nested(
        self,
        resource: str,
        type_: MappedType,
        identity: Identity,
        parameters: Mapping[str, Json],
        *,
        known: bool = True,
    ) -> Definition:
        return self.of_file(resource, type_.template, identity, parameters, known=known)

    def of_text(
        self,
        resource: str,
        template: str,
        identity: Identity,
        parameters: Mapping[str, Json],
        **_: object,
    ) -> Definition:
        return self.of_file(resource, template, identity, parameters)

    def of_file(
        self,
        resource: str,
        template: str,  # noqa: ARG002
        identity: Identity,  # noqa: ARG002
        parameters: Mapping[str, Json],  # noqa: ARG002
        *,
        known: bool = True,  # noqa: ARG002
    ) -> Definition:
        raise Invalid(
            [Mistake(f"a service has no nested templates, and {resource} is not one")],
            OPEN,
        )

    def inside(self, resource: str) -> Environment:  # noqa: ARG002
        return self

    def restricted(self, resource: str) -> frozenset[str]:  # noqa: ARG002
        return frozenset()

    def hooks(self, resource: str) -> frozenset[str]:  # noqa: ARG002
        return frozenset()

    def attributes(self, resource: str) -> Mapping[str, Json]:  # noqa: ARG002
        return {}
