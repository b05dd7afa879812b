"""`heat-config-agent template validate` for service templates and archives, and for several files at once."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from heat_config_agent.cli import terminal
from heat_config_agent.cli.mistakes import mistake_line, mistake_values
from heat_config_agent.diagnostics.kinds import TOSCA, language_of
from heat_config_agent.masking.redaction import is_secret
from heat_config_agent.model.deployment import Input
from heat_config_agent.model.errors import ExitCode, UsageError
from heat_config_agent.model.mistake import Mistake
from heat_config_hooks.values import dataclass
from heat_config_stack.tosca.checks.checker import Checked, Checker

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
    """Takes what was found in a file, if `as_json`."""


def validate(names: Sequence[str], wishes: Wishes, validate_hot: Validation) -> int:
    """Validate files one after the other, and return the exit code.

    `validate_hot` validates a HOT template: it returns the exit code and, for JSON, what was found.
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
            is_too_strict = wishes.strict and bool(checked.warnings) and not checked.mistakes
            if is_too_strict and not wishes.as_json:
                terminal.say("with --strict, warnings are mistakes", error=True)
            failed = bool(checked.mistakes) or is_too_strict
            code: int = ExitCode.USAGE if not checked.is_readable else ExitCode.FAILED if failed else ExitCode.OK
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
        values = {"valid": False, "mistakes": [{"code": "file", "problem": str(error)}], "warnings": []}
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
    return {"code": mistake.code, **mistake_values(mistake), "stage": mistake.kind}


def show(checked: Checked, *, alone: bool) -> None:
    """Show what was found in a file; of a single one, with its inputs."""
    lists = (("error", "bad", checked.mistakes), ("warning", "warn", checked.warnings), ("open", "quiet", checked.open))
    for name, style, mistakes in lists:
        for mistake in mistakes:
            terminal.say(mistake_line(mistake, name, style), error=True)
    name = terminal.line(checked.file)
    counts = [terminal.count(len(checked.mistakes), "mistake"), terminal.count(len(checked.warnings), "warning")]
    if checked.mistakes or checked.service is None:
        terminal.say(f"{name}: {', '.join(counts)}", error=True)
        return
    service = checked.service
    parts = [terminal.count(len(service.nodes), "node"), terminal.count(len(service.outputs), "output")]
    parts += counts[1:] if checked.warnings else []
    parts += [f"{len(checked.open)} open"] if checked.open else []
    terminal.say(f"{name} is valid: {', '.join(parts)}")
    if alone and service.inputs:
        rows = [("INPUT", "TYPE", "DEFAULT", "DESCRIPTION")]
        for input_, of in service.inputs.items():
            secret = is_secret(Input(name=input_, value=None, hidden=False))
            default = "-" if of.default is None else _HIDDEN if secret else json.dumps(of.default, ensure_ascii=False)
            description = " ".join(str(of.get("description", "")).split())
            rows.append((input_, str(of.get("type", "")), terminal.shortened(default, 40), description))
        header, *lines = terminal.table(rows)
        terminal.say(f"\n{terminal.styled(header, 'quiet')}")
        for line in lines:
            terminal.say(line)
