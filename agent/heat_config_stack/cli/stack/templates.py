"""The definition of a HOT template from a command line, or from what is stored with its stack."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from heat_config_agent.diagnostics.mistakes import Invalid, ordered
from heat_config_agent.diagnostics.words import among
from heat_config_agent.masking.redaction import OPEN
from heat_config_agent.model.errors import UsageError
from heat_config_agent.model.mistake import Mistake
from heat_config_agent.model.positions import Json
from heat_config_stack.cli import template_options as named
from heat_config_stack.cli.stack import origin
from heat_config_stack.definition import Definition, Identity
from heat_config_stack.hot import loader, reader
from heat_config_stack.hot.source import Source
from heat_config_stack.lifecycle import validation
from heat_config_stack.records.records import new_id
from heat_config_stack.resource.types import Types


def source(
    template: str,
    environments: Sequence[str],
    parameters: dict[str, str],
    content: bytes | None = None,
) -> Source:
    """Return the template with its environments, files and parameters.

    `content` is the content of the template, if it has been read already. Raises UsageError, and `Invalid` if a file
    that the template names is missing.
    """
    found, missing = reader.read(template, environments, parameters, content)
    if missing:
        raise Invalid(missing, OPEN)
    return found


Read: TypeAlias = "tuple[Source, list[Mistake]]"
"""A source, and the files that it names and that cannot be read."""

_CIRCLE = "Circular"


def _is_of_all(mistake: Mistake) -> bool:
    """Return whether a mistake is about the template as a whole, so that nothing else in it can be relied on."""
    return not mistake.path and (
        mistake.place is None or mistake.problem.startswith(_CIRCLE)
    )


def all_mistakes(
    definition: Definition,
    types: Types,
    mistakes: Sequence[Mistake],
    *,
    creating: bool = False,
) -> list[Mistake]:
    """Return the mistakes of a template together with those about its resource types, in the order of the text.

    `creating` is that of `validation.mistakes`. What only follows from another mistake is left out: where a function or
    the form of a resource is wrong, its type, the property or the attribute is not checked.
    """
    if any(map(_is_of_all, mistakes)):
        return ordered(mistakes)
    wrong = {mistake.path[:4] for mistake in mistakes}
    places = {mistake.place for mistake in mistakes if mistake.place}
    is_file_missing = any(
        mistake.kind == "template" and not mistake.path for mistake in mistakes
    )
    is_mapping_wrong = any(
        mistake.path[:1] == ("resource_registry",) for mistake in mistakes
    )

    def is_consequence(mistake: Mistake) -> bool:
        path = mistake.path
        if (is_mapping_wrong and path[2:3] == ("type",)) or (
            is_file_missing and loader.is_of_missing_file(mistake)
        ):
            return True
        beginnings = [
            path[:1],
            path[:3],
            path[:4],
            *([path[:2]] if len(path) < 4 else []),
        ]
        return (
            mistake.place is None
            or mistake.place in places
            or any(beginning in wrong for beginning in beginnings)
        )

    more = validation.mistakes(definition, types, creating=creating)
    return ordered(
        [
            *mistakes,
            *(
                mistake
                for mistake in more
                if not mistakes or not is_consequence(mistake)
            ),
        ]
    )


def new(options: argparse.Namespace, identity: Identity, types: Types) -> Definition:
    """Return the definition of a template that is named on the command line. Raises `Invalid`, UsageError."""
    return _checked(options, _defined(*_said(options), identity, types), types)


def changed(
    options: argparse.Namespace, former: Json, identity: Identity, types: Types
) -> Definition:
    """Return the definition of a template; --existing keeps values that are not given again. Raises as `new`."""
    source, missing = (
        _kept(options, former) if options.existing and former else _anew(options)
    )
    return _checked(options, _defined(source, missing, identity, types), types)


def _defined(
    source: Source, missing_files: Sequence[Mistake], identity: Identity, types: Types
) -> Definition:
    """Return the definition of a stack, whose types are checked only if there is a mistake already: for one report."""
    definition, mistakes, warnings = loader.examine(source, identity)
    mistakes = loader.with_missing(missing_files, mistakes)
    if definition is not None and mistakes:
        mistakes = all_mistakes(definition, types, mistakes, creating=True)
    if definition is None or mistakes:
        raise Invalid(mistakes, definition.conceal if definition else OPEN)
    return replace(definition, warnings=tuple(warnings))


def adopted(
    options: argparse.Namespace, data: Mapping[str, Any], types: Types
) -> Definition:
    """Return the definition of a stack that is adopted. Raises as `new`."""
    from heat_config_stack.hot import reader  # noqa: PLC0415  # only for stacks that are adopted

    _refuse_unsigned("a stack that is adopted")
    environments, files, missing = reader.read_environments(options.environment)
    environments = (*environments, *named.attributes(options))
    made = reader.imported(
        data, options.adopt_file, environments, files, named.parameters(options)
    )
    return _defined(made, missing, Identity(options.name, new_id()), types)


def _checked(
    options: argparse.Namespace, definition: Definition, types: Types
) -> Definition:
    """Return a definition, whose resources --attribute names by their path or type. Raises UsageError."""
    present = {
        *definition.resources,
        *(each.type for each in definition.resources.values()),
    }
    for name in named.attributes_by_resource(options):
        if name.partition("/")[0] not in present and name not in types:
            hint = among(name, definition.resources)
            raise UsageError(f"--attribute names no resource {name!r}", hint=hint)
    return definition


def _refuse_unsigned(subject: str) -> None:
    """Raise UsageError if the policy requires signatures: there is none for this."""
    from heat_config_agent.signing import gate  # noqa: PLC0415  # few commands need it

    if gate.signers() is not None:
        raise UsageError(
            f"{subject} cannot be signed, and the policy has the rule signers",
            hint="name its template",
        )


def _anew(options: argparse.Namespace) -> Read:
    if options.clear_parameter:
        raise UsageError("--clear-parameter requires --existing")
    return _said(options)


def _said(options: argparse.Namespace) -> Read:
    opened = origin.opened(options, named.template(options))
    content = None if opened.evidence else getattr(options, "content", None)
    found, missing = reader.read(
        opened.path,
        options.environment,
        named.parameters(options),
        content,
        opened.read,
    )
    environments = (*found.environments, *named.attributes(options))
    return replace(
        found,
        environments=environments,
        signatures=opened.evidence,
        hosts=named.hosts(options),
    ), missing


def _kept(options: argparse.Namespace, former: Json) -> Read:
    source, parameters = Source.from_json(former), named.parameters(options)
    source = replace(source, hosts=named.hosts(options))
    if options.template:
        more, missing = _said(options)
        changed = source.changed(
            more.template,
            more.environments,
            more.files,
            parameters,
            options.clear_parameter,
        )
        evidence = (*source.signatures, *more.signatures) if source.signatures else ()
        return replace(changed, signatures=tuple(dict.fromkeys(evidence))), missing
    if options.environment:
        _refuse_unsigned("an environment alone")
    environments, files, missing = reader.read_environments(options.environment)
    environments = (*environments, *named.attributes(options))
    return source.changed(
        None, environments, files, parameters, options.clear_parameter
    ), missing
