"""`heat-config-agent template`: Check, pack and export templates. Nothing is created, and no server is contacted."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any

from heat_config_agent.cli import envelope, state_options, terminal
from heat_config_agent.diagnostics.kinds import TOSCA, language_of
from heat_config_agent.model.errors import ExitCode, UsageError
from heat_config_stack.cli import template_options

_VALIDATE = """\
Check a template with its environments and nested templates. Every mistake is shown with its position and path. If there
are none, the parameters are shown, as Heat's own validation does. A warning is about something that Heat accepts, but
that is hardly intended. The properties in nested templates are checked if all parameters have values.
"""

_PACK = """\
Make an archive (CSAR) of a service. A folder is packed with all of its files, except hidden ones; a service template
with the files that it names. The service is checked first. The same files always give the same bytes.
"""

_PACK_CODES = """\
exit codes:
  0  the archive is written
  1  there are mistakes
  2  bad usage, or a file that cannot be read, written or packed
"""

_EXPORT = """\
Print a TOSCA service as a HOT template, which runs on Heat: nodes of the type Compute become servers, and operations
become software deployments with the tool tosca, for which this agent is on each server. The template has the files of
the operations. Comments at its head say what is not in it, and what Heat does otherwise.
"""

_EXPORT_CODES = """\
exit codes:
  0  the template is printed
  1  there are mistakes
  2  bad usage, a file that cannot be read, or a value that HOT cannot express
"""

_SCHEMA = """\
Print a JSON Schema of HOT templates, with which editors complete and check sections, resource types, properties and
functions. It has the types of Heat 27, and those of the plug-ins on this machine. It sees neither environments nor
values: the command validate checks more.
"""

_SCHEMA_CODES = """\
exit codes:
  0  the schema is printed
  2  bad usage or settings
"""

_EXIT_CODES = """\
exit codes:
  0  there is no mistake
  1  there are mistakes; or with --strict, warnings
  2  bad usage, or a file that cannot be read
"""


def add(commands: state_options.Commands) -> None:
    """Declare the command and its subcommands."""
    parser = state_options.stateless(
        commands,
        "template",
        "check HOT templates and TOSCA services, and pack services",
        (__doc__ or "").partition(": ")[2],
    )
    inner = parser.add_subparsers(metavar="COMMAND", title="commands")
    validate = state_options.stateless(
        inner,
        "validate",
        "show all mistakes in a template",
        _VALIDATE,
        epilog=_EXIT_CODES,
    )
    validate.add_argument(
        "file",
        metavar="FILE",
        nargs="*",
        help="a HOT template, a TOSCA service template, or a TOSCA archive or folder",
    )
    template_options.add(validate)
    validate.add_argument(
        "--strict", action="store_true", help="treat warnings as mistakes"
    )
    state_options.add_json(validate)
    validate.add_argument(
        "--format",
        choices=("text", "json", "github", "sarif"),
        default="text",
        help="text for people; json prints an object for each file, on a line, with what Heat's own validation "
        "returns; github prints workflow commands, which GitHub shows next to the lines; "
        "sarif prints one SARIF 2.1.0 log",
    )
    state_options.CONFIG.add(validate)
    state_options.add_common(validate)
    validate.set_defaults(run=run, kind="validation", state_dir=None)
    _add_pack(inner)
    _add_export(inner)
    _add_schema(inner)
    from heat_config_stack.cli import template_find  # noqa: PLC0415  # only this command needs it

    template_find.add(inner)


def _add_pack(inner: state_options.Commands) -> None:
    parser = state_options.stateless(
        inner, "pack", "make an archive of a TOSCA service", _PACK, epilog=_PACK_CODES
    )
    parser.add_argument(
        "file",
        metavar="FILE",
        help="a folder with a service template, or the template",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="the archive (default: the name of the folder or file, with .csar)",
    )
    state_options.add_common(parser)
    state_options.add_json(parser)
    parser.set_defaults(run=pack, kind="archive", state_dir=None)


def _add_export(inner: state_options.Commands) -> None:
    parser = state_options.stateless(
        inner,
        "export",
        "print a TOSCA service as a HOT template",
        _EXPORT,
        epilog=_EXPORT_CODES,
    )
    parser.add_argument(
        "file", metavar="FILE", help="a TOSCA service template, archive or folder"
    )
    parser.add_argument(
        "--deployed",
        action="store_true",
        help="servers are machines that exist, with a parameter for each address",
    )
    parser.add_argument(
        "--tool",
        choices=("tosca", "script"),
        default="tosca",
        help="what carries out the operations on the servers: the tool tosca of this agent, or scripts for any agent "
        "that has the tool script (Bash, Python and executables only)",
    )
    template_options.add_inputs(parser)
    state_options.add_common(parser)
    parser.set_defaults(run=export, state_dir=None, environment=(), parameter_file=())


def _add_schema(inner: state_options.Commands) -> None:
    parser = state_options.stateless(
        inner,
        "schema",
        "print a JSON Schema of HOT templates for editors",
        _SCHEMA,
        epilog=_SCHEMA_CODES,
    )
    state_options.CONFIG.add(parser)
    state_options.add_common(parser)
    parser.set_defaults(run=schema, state_dir=None)


def schema(options: argparse.Namespace) -> int:
    """Print the JSON Schema of templates."""
    from heat_config_stack.cli.stack import sessions  # noqa: PLC0415  # only this command needs these
    from heat_config_stack.hot import json_schema as language  # noqa: PLC0415
    from heat_config_stack.resource import json_schema  # noqa: PLC0415

    types = sessions.types(state_options.of(options).words("plugin_dirs"))
    definitions = json_schema.definitions(
        types, json_schema.Language(language.VALUE, language.either)
    )
    terminal.say(json.dumps(language.schema(definitions)))
    return 0


def export(options: argparse.Namespace) -> int:
    """Print the HOT template of a service."""
    from heat_config_stack.cli import template_services  # noqa: PLC0415  # HOT needs none of it

    return template_services.export(options)


def pack(options: argparse.Namespace) -> int:
    """Make an archive."""
    from heat_config_stack.cli import template_services  # noqa: PLC0415  # HOT needs none of it

    return template_services.pack(options)


def run(options: argparse.Namespace) -> int:
    """Validate templates, and print the findings in the requested format."""
    if options.json:
        if options.format != "text":
            raise UsageError("--json and --format exclude each other")
        return _answer(options)
    options.json = options.format != "text"
    if options.format not in ("github", "sarif"):
        return _validate(options, lambda values: terminal.say(json.dumps(values)))
    from heat_config_stack.cli import annotations  # noqa: PLC0415  # only these formats need it

    reports: list[dict[str, Any]] = []
    name = (options.file or [options.template])[0]
    # wrong ones are mistakes of the command line, not of a file
    template_options.parameters(options)
    try:
        code = _validate(options, reports.append)
    except UsageError as error:
        if not name:
            raise
        terminal.say(terminal.line(str(error)), error=True)
        unread = {"code": annotations.UNREADABLE, "problem": str(error)}
        reports, code = (
            [{"file": name, "mistakes": [unread], "warnings": []}],
            ExitCode.USAGE,
        )
    for values in reports:
        values.setdefault("file", name)
    lines = (
        annotations.github(reports)
        if options.format == "github"
        else [json.dumps(annotations.sarif(reports))]
    )
    for line in lines:
        terminal.say(line)
    return code


def _answer(options: argparse.Namespace) -> int:
    """Validate templates, and print one object for a program."""
    reports: list[dict[str, Any]] = []
    code = _validate(options, reports.append)
    files = [_of_file(report) for report in reports]
    failure = None
    if code != ExitCode.OK:
        mistakes = [
            {key: value for key, value in mistake.items() if key != "stage"}
            for each in files
            for mistake in each["mistakes"]
        ]
        names = ", ".join(each["file"] for each in files if not each["valid"])
        message = f"{terminal.count(len(mistakes), 'mistake')} in {names}"
        failure = envelope.Failure(
            "template",
            message if names else "with --strict, warnings are mistakes",
            mistakes=mistakes,
        )
    envelope.result({"files": files}, code=code, error=failure)
    return code


_MISTAKE = ("file", "line", "column", "path", "code", "problem", "hint", "stage")
_HEAT: dict[str, Any] = {"Description": "", "Parameters": {}, "ParameterGroups": []}


def _of_file(report: dict[str, Any]) -> dict[str, Any]:
    """Return the findings in a file, with all keys."""
    lists = {
        name: [
            {key: each.get(key) for key in _MISTAKE} for each in report.get(name, ())
        ]
        for name in ("mistakes", "warnings", "open")
    }
    heat = {key: report[key] for key in _HEAT if key in report}
    return {
        "file": report["file"],
        "valid": report["valid"],
        **lists,
        "heat": {**_HEAT, **heat} if heat else None,
    }


def _validate(
    options: argparse.Namespace, emit: Callable[[dict[str, Any]], object]
) -> int:
    """Validate templates; the findings in each are passed to `emit` for JSON."""
    names = options.file or [name for name in (options.template,) if name]
    if len(names) > 1 or any(language_of(name) == TOSCA for name in names):
        from heat_config_stack.cli.template_services import Wishes, validate  # noqa: PLC0415  # HOT needs none of it

        def validate_hot(name: str) -> tuple[int, dict[str, Any] | None]:
            from heat_config_stack.cli.template_validation import validated  # noqa: PLC0415  # TOSCA needs none of it

            return validated(options, name)

        wishes = Wishes(
            template_options.parameters(options), options.json, options.strict, emit
        )
        return validate(names, wishes, validate_hot)
    from heat_config_stack.cli.template_validation import validated  # noqa: PLC0415

    code, values = validated(options, *options.file)
    if values is not None:
        emit(values)
    return code
