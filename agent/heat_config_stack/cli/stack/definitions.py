"""The definition of a stack from a command line, or from the files that are stored with the stack."""

from __future__ import annotations

import argparse
from pathlib import Path

from heat_config_agent.diagnostics.kinds import TOSCA, language_of
from heat_config_agent.model.errors import UsageError
from heat_config_agent.model.positions import Json
from heat_config_stack.cli import template_options as named
from heat_config_stack.definition import Definition, Identity
from heat_config_stack.lifecycle.live import Stack
from heat_config_stack.records.records import new_id
from heat_config_stack.resource.types import Types


def new(options: argparse.Namespace, name: str, types: Types) -> Definition:
    """Return the definition of a new stack. Raises `Invalid` with all mistakes, UsageError."""
    identity = Identity(name, new_id())
    if language_of(named.template(options)) == TOSCA:
        from heat_config_stack.cli.stack import services  # noqa: PLC0415  # HOT needs none of it

        return services.new(options, identity)
    from heat_config_stack.cli.stack import templates  # noqa: PLC0415  # TOSCA needs none of it

    return templates.new(options, identity, types)


def changed(options: argparse.Namespace, stack: Stack) -> Definition:
    """Return the new definition of an existing stack; --existing keeps what is not given. Raises as `new`."""
    # After the rollback of a create, only the definition that failed is left.
    former = stack.record.source or stack.record.source_before
    if not _is_service(options, former):
        from heat_config_stack.cli.stack import templates  # noqa: PLC0415  # TOSCA needs none of it

        definition = templates.changed(options, former, stack.identity, stack.world.types)
        _check_cleared(options, definition, stack)
        return definition
    from heat_config_stack.cli.stack import services  # noqa: PLC0415  # HOT needs none of it

    if options.existing and isinstance(former, dict) and former.get("language") == TOSCA:
        definition = services.changed(options, former, stack.identity)
        _check_cleared(options, definition, stack)
        return definition
    return services.new(options, stack.identity)


def _check_cleared(options: argparse.Namespace, definition: Definition, stack: Stack) -> None:
    """Raise UsageError if --clear-parameter names a parameter that the template does not have, nor had."""
    known = {**definition.parameters, **(stack.defined.parameters if stack.defined else {})}
    for name in options.clear_parameter:
        if name not in known:
            from heat_config_agent.diagnostics.words import among  # noqa: PLC0415  # only after mistakes

            raise UsageError(f"--clear-parameter names no parameter {name!r}", hint=among(name, known))


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
