"""`heat-config-agent template validate`, `pack` and `export` for service templates and archives."""

from __future__ import annotations

import argparse
import gc
import json
import os
import tempfile
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from heat_config_agent.cli import envelope, terminal
from heat_config_agent.cli.mistakes import mistake_line, mistake_values
from heat_config_agent.diagnostics.kinds import TOSCA, language_of
from heat_config_agent.diagnostics.mistakes import Invalid
from heat_config_agent.masking.redaction import is_secret
from heat_config_agent.model.deployment import Input
from heat_config_agent.model.errors import ExitCode, UsageError
from heat_config_agent.model.mistake import Mistake
from heat_config_agent.model.positions import Json
from heat_config_hooks import files
from heat_config_hooks.values import dataclass
from heat_config_stack.cli.stack import services
from heat_config_stack.definition import Identity
from heat_config_stack.tosca.checks.checker import Checked, Checker
from heat_config_stack.tosca.compilation import reader
from heat_config_stack.tosca.export import hot_export, hot_scripts
from heat_config_stack.tosca.export.hot_values import NotExpressible
from heat_config_stack.tosca.files import packing
from heat_config_stack.tosca.files.archives import METADATA, Refused

_HIDDEN = "******"

_OBJECTS = 300_000
"""New objects after which Python looks for garbage: a large template has many, and none of them is garbage."""

Validation: TypeAlias = Callable[[str], tuple[int, dict[str, Any] | None]]
"""A function that validates a HOT template: it returns the exit code and, for JSON, the report."""


@dataclass(frozen=True)
class Wishes:
    """The options for validating service templates and showing the result."""

    inputs: Mapping[str, str]
    """Values of inputs by name, as texts."""
    as_json: bool
    strict: bool
    """True if warnings count as mistakes."""
    emit: Callable[[dict[str, Any]], object]
    """Receives the findings in a file, if `as_json`."""


def validate(names: Sequence[str], wishes: Wishes, validate_hot: Validation) -> int:
    """Validate files one after the other, and return the exit code.

    `validate_hot` validates a HOT template: it returns the exit code and, for JSON, the findings.
    """
    thresholds = gc.get_threshold()
    gc.set_threshold(_OBJECTS)
    try:
        return _validated(names, wishes, validate_hot)
    finally:
        gc.set_threshold(*thresholds)


def _validated(names: Sequence[str], wishes: Wishes, validate_hot: Validation) -> int:
    checker = Checker()
    worst: int = ExitCode.OK
    for name in names:
        if language_of(name) == TOSCA:
            checked = checker.check(name, inputs=wishes.inputs)
            if wishes.as_json:
                wishes.emit(_values(checked))
            else:
                show(checked, alone=len(names) == 1)
            is_too_strict = (
                wishes.strict and bool(checked.warnings) and not checked.mistakes
            )
            if is_too_strict and not wishes.as_json:
                terminal.say("with --strict, warnings are mistakes", error=True)
            failed = bool(checked.mistakes) or is_too_strict
            code: int = (
                ExitCode.USAGE
                if not checked.is_readable
                else ExitCode.FAILED
                if failed
                else ExitCode.OK
            )
        else:
            code = _validate_hot(name, validate_hot, wishes)
        worst = max(worst, code)
    return worst


def _validate_hot(name: str, validate_hot: Validation, wishes: Wishes) -> int:
    try:
        code, values = validate_hot(name)
    except UsageError as error:
        code, values = ExitCode.USAGE, None
        terminal.say(terminal.line(str(error)), error=True)
        values = {
            "valid": False,
            "mistakes": [{"code": "file", "problem": str(error)}],
            "warnings": [],
        }
    if values is not None:
        wishes.emit({"file": name, **values, "open": []})
    return code


def _values(checked: Checked) -> dict[str, Any]:
    return {
        "file": checked.file,
        "valid": not checked.mistakes,
        "mistakes": [_mistake(mistake) for mistake in checked.mistakes],
        "warnings": [_mistake(mistake) for mistake in checked.warnings],
        "open": [_mistake(mistake) for mistake in checked.open],
    }


def _mistake(mistake: Mistake) -> dict[str, Any]:
    return {**mistake_values(mistake), "stage": mistake.kind}


def show(checked: Checked, *, alone: bool) -> None:
    """Show the findings in a file; for a single file, also its inputs."""
    lists = (
        ("error", "bad", checked.mistakes),
        ("warning", "warn", checked.warnings),
        ("open", "quiet", checked.open),
    )
    for name, style, mistakes in lists:
        for mistake in mistakes:
            terminal.say(mistake_line(mistake, name, style), error=True)
    name = terminal.line(checked.file)
    counts = [
        terminal.count(len(checked.mistakes), "mistake"),
        terminal.count(len(checked.warnings), "warning"),
    ]
    if checked.mistakes or checked.service is None:
        terminal.say(f"{name}: {', '.join(counts)}", error=True)
        return
    service = checked.service
    parts = [
        terminal.count(len(service.nodes), "node"),
        terminal.count(len(service.outputs), "output"),
    ]
    parts += counts[1:] if checked.warnings else []
    parts += [f"{len(checked.open)} open"] if checked.open else []
    terminal.say(f"{name} is valid: {', '.join(parts)}")
    if alone and service.inputs:
        rows = [("INPUT", "TYPE", "DEFAULT", "DESCRIPTION")]
        for input_, definition in service.inputs.items():
            secret = is_secret(Input(name=input_, value=None, hidden=False))
            default = (
                "-"
                if definition.default is None
                else _HIDDEN
                if secret
                else json.dumps(definition.default, ensure_ascii=False)
            )
            description = " ".join(str(definition.get("description", "")).split())
            rows.append(
                (
                    input_,
                    str(definition.get("type", "")),
                    terminal.shortened(default, 40),
                    description,
                )
            )
        header, *lines = terminal.table(rows)
        terminal.say(f"\n{terminal.styled(header, 'quiet')}")
        for line in lines:
            terminal.say(line)


def pack(options: argparse.Namespace) -> int:
    """Check a service, and write an archive of it."""
    name = options.file
    target = (
        options.output
        or f"{Path(os.path.normpath(name)).resolve().name.partition('.')[0]}.csar"
    )
    named = packing.Named()
    checked = Checker(named).check(name)
    if checked.service is not None and not os.path.exists(os.path.join(name, METADATA)):  # noqa: PTH110, PTH118
        named_itself = [
            mistake
            for mistake in checked.mistakes
            if mistake.code != "archive-metadata"
        ]
        checked = replace(checked, mistakes=named_itself)  # the archive has metadata
    if checked.mistakes:
        code = ExitCode.FAILED if checked.is_readable else ExitCode.USAGE
        if not options.json:
            show(checked, alone=True)
            return code
        count = terminal.count(len(checked.mistakes), "mistake")
        failure = envelope.Failure(
            "template",
            f"{count} in {name}",
            mistakes=[mistake_values(mistake) for mistake in checked.mistakes],
        )
        envelope.result(None, code=code, error=failure)
        return code
    if os.path.isfile(name) and not named.paths:  # noqa: PTH113
        raise UsageError(
            f"{name} is an archive already", hint="name a folder or a service template"
        )
    members: dict[str, str] = {}
    try:
        if os.path.isdir(name):  # noqa: PTH112
            members, entry = packing.members_of_folder(name, os.path.realpath(target))
        else:
            members, entry = packing.members_of_template(name, named.paths)
        lost = _write(files.replaceable(target), members, entry, len(_lacking(checked)))
    except Refused as refused:
        raise UsageError(f"cannot pack {name}: {refused}", hint=refused.hint) from None
    except OSError as error:
        other = "" if error.filename in (None, target) else f"{error.filename}: "
        raise UsageError(
            f"cannot write {target}: {other}{error.strerror or error}"
        ) from None
    if lost is not None:
        show(lost, alone=False)
        raise UsageError(
            f"{name} names files by their absolute path",
            hint="use paths relative to the template",
        )
    number = len(members) - (METADATA in members)
    if options.json:
        envelope.result({"file": target, "files": number, "entry": entry})
        return ExitCode.OK
    terminal.say(
        terminal.line(
            f"{target} has {terminal.count(number, 'file')}; its entry is {entry}"
        )
    )
    return ExitCode.OK


def _lacking(checked: Checked) -> list[Mistake]:
    return [mistake for mistake in checked.open if mistake.code == "open-artifact"]


def _write(
    target: str, members: dict[str, str], entry: str, lacking: int
) -> Checked | None:
    """Write an archive next to its place, and move it there if it is complete.

    Return the problem if it is not; `lacking` files are missing in the service as well.
    """
    folder = Path(target).parent
    descriptor, written = tempfile.mkstemp(".csar", f".{Path(target).name}.", folder)
    try:
        os.close(descriptor)
        packing.write(written, members, entry)
        checked = Checker().check(written)
        if checked.mistakes or len(_lacking(checked)) > lacking:
            return checked
        mask = os.umask(0)
        os.umask(mask)
        Path(written).chmod(0o666 & ~mask)
        Path(written).replace(target)
    finally:
        Path(written).unlink(missing_ok=True)
    return None


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks, and no aliases."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True


def _as_block(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar(
        "tag:yaml.org,2002:str", value, style="|" if "\n" in value else None
    )


_Dumper.add_representer(str, _as_block)


def export(options: argparse.Namespace) -> int:
    """Print the HOT template of a service."""
    if language_of(options.file) != TOSCA:
        raise UsageError(
            f"{options.file} is not a TOSCA service",
            hint="a service has tosca_definitions_version",
        )
    wish = services.wish(options)
    identity = Identity(reader.default_name(options.file)[0], str(uuid.uuid4()))

    def read(marks: Mapping[str, Json]) -> reader.Exported:
        return reader.define_for_export(options.file, wish, identity, marks)

    try:
        template, remarks = hot_export.exported(read, deployed=options.deployed)
        if options.tool == "script":
            template = hot_scripts.as_scripts(template)
    except Invalid as error:
        for mistake in error.mistakes:
            terminal.say(mistake_line(mistake), error=True)
        return ExitCode.FAILED
    except NotExpressible as error:
        raise UsageError(f"the service cannot be exported: {error}") from None
    head = [
        f"The service {options.file} for Heat, made by heat-config-agent.",
        *hot_export.HEAD.splitlines(),
        *remarks,
    ]
    # numbers of a service remember how they were written
    plain = json.loads(json.dumps(template))
    text = yaml.dump(
        plain, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120
    )
    terminal.say(
        "".join(f"# {line}".rstrip() + "\n" for line in head) + text.rstrip("\n")
    )
    return 0
