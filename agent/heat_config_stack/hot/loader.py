"""Source → the definition of a stack and of its child stacks, and all mistakes of a template without a stack."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from heat_config_agent.diagnostics.diagnostics import Diagnostics
from heat_config_agent.diagnostics.mistakes import Invalid, ordered
from heat_config_agent.masking.redaction import OPEN, Concealer
from heat_config_agent.model.mistake import Mistake
from heat_config_agent.model.positions import Json, Place
from heat_config_stack.definition import (
    Definition,
    Identity,
    Interface,
    MappedType,
    Schema,
    limits,
)
from heat_config_stack.hot import environment, parameters, reader
from heat_config_stack.hot.capabilities import Choice
from heat_config_stack.hot.compiler import Circumstances, definition
from heat_config_stack.hot.environment import Circular, Registry, is_template
from heat_config_stack.hot.expressions import NO_CONTENT
from heat_config_stack.hot.source import Source, heat_text
from heat_config_stack.hot.template import Template, capabilities_once
from heat_config_stack.hot.versions import OTHERS


def load(source: Json, identity: Identity) -> Definition:
    """Return the definition of a stack from its stored source: a `definition.Loader`. Raises `Invalid`."""
    return define(Source.from_json(source), identity)


def define(source: Source, identity: Identity) -> Definition:
    """Return the definition of a stack. Raises `Invalid` with all mistakes, also those in its environments."""
    made, mistakes, warnings = examine(source, identity)
    if made is None or mistakes:
        raise Invalid(mistakes, made.conceal if made else OPEN)
    return replace(made, warnings=tuple(warnings))


def examine(
    source: Source, identity: Identity, *, known: bool = True
) -> tuple[Definition | None, list[Mistake], list[Mistake]]:
    """Return the definition of a stack, all mistakes and all warnings, without secrets.

    With `known` false, a missing value of a parameter is not a mistake; then the definition can be shown, but not used.
    """
    try:
        definition, mistakes, warnings = limits.within_template(
            lambda: _examined(source, identity, known=known)
        )
    except Invalid as invalid:
        return None, ordered([*invalid.mistakes, *_repeated_keys(source)]), []
    except limits.TooMuch:
        return (
            None,
            [Mistake(limits.OUT_OF_TIME, (), Place(source.template.name, 1, 1))],
            [],
        )
    if mistakes and (
        repeated := [each for each in warnings if each.code == "duplicate"]
    ):
        # it may be the reason for the others
        mistakes = ordered([*mistakes, *repeated])
        warnings = [each for each in warnings if each not in repeated]
    return definition, mistakes, warnings


def _repeated_keys(source: Source) -> list[Mistake]:
    """Return the keys that are in a template twice: they may be the reason for its mistakes."""
    try:
        text = heat_text(source.template.name, source.template.text, "template_format")
    except Invalid:
        return []
    return [each for each in text.warnings if each.code == "duplicate"]


def _examined(
    source: Source, identity: Identity, *, known: bool
) -> tuple[Definition | None, list[Mistake], list[Mistake]]:
    mistakes: list[Mistake] = []
    if identity.mistake is not None:
        mistakes.append(identity.mistake)
    texts = []
    for file in source.environments:
        try:
            texts.append(heat_text(file.name, file.text, "environment_format"))
        except Invalid as invalid:
            mistakes += invalid.mistakes
    templates = _Templates(source)
    try:
        root = Template(source.template.name, source.template.text)
    except Invalid as invalid:
        # their mistakes are shown as well
        reports = [Diagnostics(text) for text in texts]
        for text, report in zip(texts, reports, strict=True):
            environment.read(text, report)
            mistakes += report.mistakes
        return None, ordered([*mistakes, *invalid.mistakes]), []
    merged = environment.merge(texts, source, {**templates.schemas(), **root.schemas})
    choice = Choice(merged, lambda name: templates.template(name, name))
    surroundings = _Surroundings(
        templates, merged, Registry(choice.made()), root.file, is_final=known
    )
    circumstances = Circumstances(
        merged.parameters,
        merged.places,
        merged.parameter_defaults,
        identity,
        surroundings,
        lambda name: templates.content(name, root.file),
        source.to_json(),
        known=known,
    )
    root_definition, more = definition(root, circumstances)
    conceal = root_definition.conceal
    mistakes = [
        mistake.concealed(conceal.text)
        for mistake in (*mistakes, *merged.mistakes, *choice.mistakes, *more)
    ]
    warnings = [
        warning.concealed(conceal.text)
        for warning in capabilities_once(
            (*merged.warnings, *choice.warnings, *root_definition.warnings)
        )
    ]
    return root_definition, ordered(mistakes), ordered(warnings)


class _Templates:
    """The files of a source; each nested template is parsed once."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._read: dict[str, Template] = {}

    def template(self, name: str, base: str) -> Template:
        """Return the nested template that the file `base` names. Raises `Invalid`."""
        path = self.source.find(name, base)
        if path is None:
            raise Invalid(
                [
                    Mistake(
                        f"there is no file {name}",
                        (),
                        None,
                        "its path begins at the file that names it",
                    )
                ],
                OPEN,
            )
        if path not in self._read:
            self._read[path] = Template(path, self.source.files[path])
        return self._read[path]

    def content(self, name: str, base: str) -> str | None:
        """Return the text of a file that the file `base` names; None if there is none."""
        found = self.source.find(name, base)
        return None if found is None else self.source.files[found]

    def schemas(self) -> dict[str, Schema]:
        """Return the schemas of the parameters of all templates among the files."""
        schemas: dict[str, Schema] = {}
        for name, text in self.source.files.items():
            if any(key in text for key in ("heat_template_version", *OTHERS)):
                try:
                    schemas.update(self.template(name, name).schemas)
                except Invalid:
                    continue  # reported where it is used as a template
        return schemas


class _Surroundings:
    """The environment of a running stack (`definition.Environment`)."""

    def __init__(
        self,
        templates: _Templates,
        merged: environment.Merged,
        registry: Registry,
        base: str,
        *,
        is_final: bool,
    ) -> None:
        self._templates, self._merged, self._registry, self._base = (
            templates,
            merged,
            registry,
            base,
        )
        self._is_final = is_final

    def candidates(self, type_: str, resource: str) -> Iterator[MappedType]:
        try:
            for candidate in self._registry.candidates(type_, resource):
                path = (
                    self._templates.source.find(candidate.template, self._base)
                    if candidate.template
                    else None
                )
                yield replace(candidate, template=path) if path else candidate
        except Circular as error:
            raise Invalid(
                [
                    Mistake(
                        f"the type {type_} is mapped to itself: {error}",
                        ("resources", resource),
                    )
                ],
                OPEN,
            ) from None

    def interface(self, template: str) -> Interface:
        inner = self._templates.template(template, self._base)
        if inner.mistakes:
            raise Invalid(ordered(inner.mistakes), OPEN)
        outputs = inner.section("outputs")
        return Interface(
            parameters.as_properties(inner.schemas, self._merged.parameter_defaults),
            {
                name: str(each.get("description") or "")
                for name, each in outputs.items()
                if isinstance(each, dict)
            },
            inner.description,
            self._is_final,
        )

    def nested(
        self,
        resource: str,
        type_: MappedType,
        identity: Identity,
        parameters: Mapping[str, Json],
        *,
        known: bool = True,
    ) -> Definition:
        try:
            template = self._templates.template(type_.template, self._base)
        except Invalid as invalid:
            raise Invalid(
                [_of_child(each) for each in invalid.mistakes], OPEN
            ) from None
        inner = self._registry.without(type_.mapping).inside(resource)
        given = {
            name: _handed_down(template, name, value)
            for name, value in parameters.items()
        }
        return self._child(template, inner, identity, given, known=known)

    def of_text(
        self,
        resource: str,
        template: str,
        identity: Identity,
        parameters: Mapping[str, Json],
        *,
        known: bool = True,
        mappings: Mapping[str, str] | None = None,
    ) -> Definition:
        # The text of a file names other files next to that file; text of a property, next to its own template.
        files = self._templates.source.files
        name = next(
            (name for name, text in files.items() if text == template),
            f"{self._base}#{resource}",
        )
        try:
            made = Template(name, template)
        except Invalid as invalid:
            raise Invalid(
                [_of_child(each) for each in invalid.mistakes], OPEN
            ) from None
        registry = self._registry.inside(resource)
        inner = registry.preceded_by(mappings) if mappings else registry
        return self._child(made, inner, identity, parameters, known=known)

    def of_file(
        self,
        resource: str,
        template: str,
        identity: Identity,
        parameters: Mapping[str, Json],
        *,
        known: bool = True,
    ) -> Definition:
        try:
            made = self._templates.template(template, self._base)
        except Invalid as invalid:
            raise Invalid(
                [_of_child(each) for each in invalid.mistakes], OPEN
            ) from None
        return self._child(
            made, self._registry.inside(resource), identity, parameters, known=known
        )

    def _child(
        self,
        template: Template,
        inner: Registry,
        identity: Identity,
        parameters: Mapping[str, Json],
        *,
        known: bool,
    ) -> Definition:
        """Return the definition of a child stack. Raises `Invalid`."""
        surroundings = self._with(inner, template.file)
        child, mistakes = definition(
            template,
            Circumstances(
                parameters,
                {},
                self._merged.parameter_defaults,
                identity,
                surroundings,
                lambda name: self._templates.content(name, template.file),
                None,
                known=known,
                is_child=True,
                is_final=self._is_final,
            ),
        )
        if mistakes:
            raise Invalid(
                [_of_child(each) for each in ordered(mistakes)], child.conceal
            )
        return child

    def inside(self, resource: str) -> _Surroundings:
        inner = self._registry.inside(resource)
        return self._with(inner, self._base)

    def _with(self, registry: Registry, base: str) -> _Surroundings:
        return _Surroundings(
            self._templates, self._merged, registry, base, is_final=self._is_final
        )

    def restricted(self, resource: str) -> frozenset[str]:
        return self._registry.settings(resource, "restricted_actions")

    def hooks(self, resource: str) -> frozenset[str]:
        return self._registry.settings(resource, "hooks")

    def attributes(self, of: str) -> Mapping[str, Json]:
        return self._merged.attributes.get(of, {})


def _of_child(mistake: Mistake) -> Mistake:
    """Return a mistake of a nested template with the stage in which Heat finds it: validation of the parent."""
    return replace(
        mistake, kind="environment" if mistake.kind == "parameters" else "validate"
    )


def _handed_down(template: Template, name: str, value: Json) -> Json:
    """Return a property as its child stack gets it: a list becomes text with commas, which splits items with commas."""
    schema = template.schemas.get(name)
    if (
        schema is None
        or schema.type != "comma_delimited_list"
        or not isinstance(value, list)
    ):
        return value
    if value and isinstance(value[0], dict):
        pairs = (
            (index, item) for index, item in enumerate(value) if isinstance(item, dict)
        )
        return ",".join(
            f".member.{index}.{key}={text}"
            for index, item in pairs
            for key, text in item.items()
        )
    wrong = [item for item in value if item is not None and not isinstance(item, str)]
    if wrong:
        problem = f"the list {name} of a nested template must contain text, and {wrong[0]!r} is not text"
        # the parent hides its secrets
        raise Invalid([Mistake(problem, (), None, "quote it")], OPEN)
    return ",".join(item or "" for item in value)


def check_children(
    made: Definition, depth: int = 5
) -> tuple[list[Mistake], list[Mistake]]:
    """Return the mistakes and warnings of the nested templates of a stack, down to that depth."""
    try:
        return limits.within_template(lambda: _children_checked(made, depth))
    except limits.TooMuch:
        return [Mistake(f"with its nested templates, {limits.OUT_OF_TIME}")], []


def _children_checked(
    parent: Definition, depth: int
) -> tuple[list[Mistake], list[Mistake]]:
    mistakes: list[Mistake] = []
    warnings: list[Mistake] = []
    for name, resource in parent.resources.items():
        under = (
            "resources",
            f"{name}<{resource.type}>" if is_template(resource.type) else name,
        )
        try:
            type_ = next(parent.environment.candidates(resource.type, name))
            if not type_.template:
                continue
            child = parent.environment.nested(
                name, type_, Identity(name, ""), {}, known=False
            )
        except (
            Invalid
        ) as invalid:  # a mistake without a place is reported for the resource
            mistakes += [
                mistake.under(*under) for mistake in invalid.mistakes if mistake.place
            ]
            continue
        warnings += [mistake.under(*under) for mistake in child.warnings]
        if depth:
            inner, odd = _children_checked(child, depth - 1)
            mistakes += [mistake.under(*under) for mistake in inner]
            warnings += [mistake.under(*under) for mistake in odd]
    return mistakes, warnings


NAME = "stack"
"""The name of the stack for which the template is checked; it is never created."""


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of a check."""

    source: Source
    definition: Definition | None
    """The definition; None if the template cannot be read at all."""
    mistakes: list[Mistake]
    warnings: list[Mistake]

    @property
    def conceal(self) -> Concealer:
        """The concealer that hides secrets in every text about the template."""
        return self.definition.conceal if self.definition else OPEN


def check(
    template: str, environments: Sequence[str], parameters: Mapping[str, Json]
) -> Checked:
    """Return the result of checking a template with the given values of parameters.

    The properties of types are checked by the stack. Raises `UsageError` if the template or an environment cannot be
    read.
    """
    source, missing = reader.read(template, environments, parameters)
    made, mistakes, warnings = examine(source, Identity(NAME, ""), known=False)
    if made is not None:
        wrong, odd = check_children(made)
        mistakes, warnings = [*mistakes, *wrong], [*warnings, *odd]
    mistakes = with_missing(missing, mistakes)
    return Checked(source, made, ordered(mistakes), ordered(warnings))


def with_missing(
    missing: Sequence[Mistake], mistakes: Sequence[Mistake]
) -> list[Mistake]:
    """Return the missing files, and the mistakes of a template that are not about them: each file is reported once."""
    places = {each.place for each in missing}
    return [
        *missing,
        *(
            each
            for each in mistakes
            if each.place not in places and not (missing and is_of_missing_file(each))
        ),
    ]


def is_of_missing_file(mistake: Mistake) -> bool:
    """Return whether a mistake says in Heat's words that there is no file, which is reported in ours where it is named.

    If the name of the file is computed, no one has looked for it, and Heat's words are all there is.
    """
    return NO_CONTENT in mistake.problem and _LATER not in mistake.problem


_LATER = "must be literal"
"""Words in the problem of a file whose name is computed."""
