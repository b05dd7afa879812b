"""The definition of a stack from a command line, or from the files that are stored with the stack."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from heat_config_agent.diagnostics.kinds import TOSCA, language_of
from heat_config_agent.diagnostics.mistakes import Invalid, ordered
from heat_config_agent.diagnostics.words import among
from heat_config_agent.masking.redaction import OPEN
from heat_config_agent.model.errors import UsageError
from heat_config_agent.model.mistake import Mistake
from heat_config_agent.model.positions import Json
from heat_config_stack.cli import template_options as named
from heat_config_stack.cli.stack import signatures
from heat_config_stack.definition import Definition, Identity
from heat_config_stack.hot import exchange, loader, reader
from heat_config_stack.hot.source import Source
from heat_config_stack.lifecycle import validation
from heat_config_stack.lifecycle.live import Stack
from heat_config_stack.records.records import new_id
from heat_config_stack.resource.types import Types


def source(
    template: str, environments: Sequence[str], parameters: dict[str, str], content: bytes | None = None
) -> Source:
    """Return the template with its environments, files and parameters.

    `content` is the content of the template, if it has been read already. Raises UsageError, and `Invalid` if a file
    that the template names is missing.
    """
    found, missing = reader.read(template, environments, parameters, content)
    if missing:
        raise Invalid(missing, OPEN)
    return found


Read: TypeAlias = tuple[Source, list[Mistake]]
"""A source, and the files that it names and that cannot be read."""

_CIRCLE = "Circular"


def _is_of_all(mistake: Mistake) -> bool:
    """Return whether a mistake is about the template as a whole, so that nothing else in it can be relied on."""
    return not mistake.path and (mistake.place is None or mistake.problem.startswith(_CIRCLE))


def all_mistakes(
    definition: Definition, types: Types, mistakes: Sequence[Mistake], *, creating: bool = False
) -> list[Mistake]:
    """Return the mistakes of a template together with those about its resource types, in the order of the text.

    `creating` is that of `validation.mistakes`. What only follows from another mistake is left out: where a function or
    the form of a resource is wrong, its type, the property or the attribute is not checked.
    """
    if any(map(_is_of_all, mistakes)):
        return ordered(mistakes)
    wrong = {mistake.path[:4] for mistake in mistakes}
    places = {mistake.place for mistake in mistakes if mistake.place}
    is_mapping_wrong = any(mistake.path[:1] == ("resource_registry",) for mistake in mistakes)

    def is_consequence(mistake: Mistake) -> bool:
        path = mistake.path
        if is_mapping_wrong and path[2:3] == ("type",):
            return True
        beginnings = [path[:1], path[:3], path[:4], *([path[:2]] if len(path) < 4 else [])]
        return mistake.place is None or mistake.place in places or any(beginning in wrong for beginning in beginnings)

    more = validation.mistakes(definition, types, creating=creating)
    return ordered([*mistakes, *(mistake for mistake in more if not mistakes or not is_consequence(mistake))])


def new(options: argparse.Namespace, name: str, types: Types) -> Definition:
    """Return the definition of a new stack. Raises `Invalid` with all mistakes, UsageError."""
    identity = Identity(name, new_id())
    if language_of(named.template(options)) == TOSCA:
        from heat_config_stack.cli.stack import services  # noqa: PLC0415  # HOT needs none of it

        return services.new(options, identity)
    return _checked(options, _defined(*_said(options), identity, types), types)


def _defined(source: Source, missing_files: Sequence[Mistake], identity: Identity, types: Types) -> Definition:
    """Return the definition of a stack, whose types are checked only if there is a mistake already: for one report."""
    definition, mistakes, warnings = loader.examine(source, identity)
    places = {mistake.place for mistake in missing_files}  # a missing file is reported once
    mistakes = [*missing_files, *(mistake for mistake in mistakes if mistake.place not in places)]
    if definition is not None and mistakes:
        mistakes = all_mistakes(definition, types, mistakes, creating=True)
    if definition is None or mistakes:
        raise Invalid(mistakes, definition.conceal if definition else OPEN)
    return replace(definition, warnings=tuple(warnings))


def adopted(options: argparse.Namespace, data: Mapping[str, Any], types: Types) -> Definition:
    """Return the definition of a stack that is adopted. Raises as `new`."""
    _refuse_unsigned("a stack that is adopted")
    environments, files, missing = reader.read_environments(options.environment)
    environments = (*environments, *named.attributes(options))
    made = exchange.imported(data, options.adopt_file, environments, files, named.parameters(options))
    return _defined(made, missing, Identity(options.name, new_id()), types)


def changed(options: argparse.Namespace, stack: Stack) -> Definition:
    """Return the new definition of an existing stack; --existing keeps what is not given. Raises as `new`."""
    # After the rollback of a create, only the definition that failed is left.
    former = stack.record.source or stack.record.source_before
    if _is_service(options, former):
        from heat_config_stack.cli.stack import services  # noqa: PLC0415  # HOT needs none of it

        if options.existing and isinstance(former, dict) and former.get("language") == TOSCA:
            definition = services.changed(options, former, stack.identity)
            _check_cleared(options, definition, stack)
            return definition
        return services.new(options, stack.identity)
    source, missing = _kept(options, former) if options.existing and former else _anew(options)
    definition = _checked(options, _defined(source, missing, stack.identity, stack.world.types), stack.world.types)
    _check_cleared(options, definition, stack)
    return definition


def _check_cleared(options: argparse.Namespace, definition: Definition, stack: Stack) -> None:
    """Raise UsageError if --clear-parameter names a parameter that the template does not have, nor had."""
    known = {**definition.parameters, **(stack.defined.parameters if stack.defined else {})}
    for name in options.clear_parameter:
        if name not in known:
            raise UsageError(f"--clear-parameter names no parameter {name!r}", hint=among(name, known))


def _checked(options: argparse.Namespace, definition: Definition, types: Types) -> Definition:
    """Return a definition, whose resources --attribute names by their path or type. Raises UsageError."""
    present = {*definition.resources, *(each.type for each in definition.resources.values())}
    for name in named.attributes_by_resource(options):
        if name.partition("/")[0] not in present and name not in types:
            hint = among(name, definition.resources)
            raise UsageError(f"--attribute names no resource {name!r}", hint=hint)
    return definition


def _refuse_unsigned(subject: str) -> None:
    """Raise UsageError if the policy requires signatures: there is none for this."""
    from heat_config_agent.signing import gate  # noqa: PLC0415  # few commands need it

    if gate.signers() is not None:
        raise UsageError(f"{subject} cannot be signed, and the policy has the rule signers", hint="name its template")


def default_name(template: str) -> tuple[str, bool]:
    """Return the name of the stack of a template: the name of the file, or the one that an archive has.

    The second value says if it is the one in the archive.
    """
    if language_of(template) == TOSCA:
        from heat_config_stack.tosca.compilation.reader import default_name as of_service  # noqa: PLC0415  # HOT needs none of it

        return of_service(template)
    return Path(template).name.partition(".")[0], False


def _is_service(options: argparse.Namespace, source: Json) -> bool:
    """Return whether the new definition is that of a service: by its file, or without one by what is stored."""
    if options.template or getattr(options, "file", None):
        return language_of(named.template(options)) == TOSCA
    return options.existing and isinstance(source, dict) and source.get("language") == TOSCA


def _anew(options: argparse.Namespace) -> Read:
    if options.clear_parameter:
        raise UsageError("--clear-parameter requires --existing")
    return _said(options)


def _said(options: argparse.Namespace) -> Read:
    opened = signatures.opened(options, named.template(options))
    content = None if opened.evidence else getattr(options, "content", None)
    found, missing = reader.read(opened.path, options.environment, named.parameters(options), content, opened.read)
    environments = (*found.environments, *named.attributes(options))
    return replace(found, environments=environments, signatures=opened.evidence), missing


def _kept(options: argparse.Namespace, former: Json) -> Read:
    source, parameters = Source.from_json(former), named.parameters(options)
    if options.template:
        more, missing = _said(options)
        changed = source.changed(more.template, more.environments, more.files, parameters, options.clear_parameter)
        evidence = (*source.signatures, *more.signatures) if source.signatures else ()
        return replace(changed, signatures=tuple(dict.fromkeys(evidence))), missing
    if options.environment:
        _refuse_unsigned("an environment alone")
    environments, files, missing = reader.read_environments(options.environment)
    environments = (*environments, *named.attributes(options))
    return source.changed(None, environments, files, parameters, options.clear_parameter), missing
