"""Mistakes in templates, as continuous integration takes them: workflow commands of GitHub, and SARIF 2.1.0."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from heat_config_agent import __version__

_LEVELS = {"error": "mistakes", "warning": "warnings"}
"""The level of a mistake → its key in the JSON of `template validate`."""

UNREADABLE = "file"
"""The rule of a file that cannot be read."""

RULES = {
    UNREADABLE: "The file can be read.",
    "template_format": "The file is YAML or JSON with the sections of a template, and within the limits of size.",
    "environment_format": "The environment is YAML or JSON with the sections of an environment.",
    "template": "The sections of the template, its resources and the files that it names are as HOT has them.",
    "parameters": "The parameters are declared as HOT has them, and have values that fulfil their constraints.",
    "environment": "The environment maps types to types and templates that exist.",
    "stack": "The stack is within the limits of Heat.",
    "validate": "Functions, references, types, properties and attributes are what they have to be.",
    "capabilities": "Heat has no capabilities: the template works on this machine alone.",
}
"""Rule → what it demands. The stages of Heat are the rules of HOT; TOSCA has a rule for each kind of mistake."""

_HELP = "The message says what is wrong and what to do; `heat-config-agent template validate FILE` shows all mistakes."


def github(checked_files: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return a line for each mistake, which GitHub shows next to the line of the file.

    `checked_files` are the JSON objects of `template validate --json`, each with the key `file`.
    """
    return [
        _command(level, name, mistake)
        for name, level, mistake in _mistakes(checked_files)
    ]


def sarif(checked_files: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a SARIF log with one run, and a result for each mistake; `checked_files` is as for `github`."""
    results = [
        _result(level, name, mistake)
        for name, level, mistake in _mistakes(checked_files)
    ]
    names = sorted({result["ruleId"] for result in results})
    for result in results:
        result["ruleIndex"] = names.index(result["ruleId"])
    driver = {
        "name": "heat-config-agent",
        "version": __version__,
        "rules": [_described(name) for name in names],
    }
    run = {
        "tool": {"driver": driver},
        "invocations": [{"executionSuccessful": UNREADABLE not in names}],
        "columnKind": "unicodeCodePoints",
        "results": results,
    }
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [run],
    }


def _described(rule: str) -> dict[str, Any]:
    about = RULES.get(rule, f"TOSCA: {rule.replace('-', ' ')}.")
    return {
        "id": rule,
        "shortDescription": {"text": about},
        "fullDescription": {"text": about},
        "help": {"text": _HELP},
    }


def _mistakes(
    checked_files: Iterable[Mapping[str, Any]],
) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield the file, level and mistake of each mistake."""
    for checked in checked_files:
        for level, key in _LEVELS.items():
            for mistake in checked[key]:
                yield mistake.get("file") or checked["file"], level, mistake


def _text(mistake: Mapping[str, Any]) -> str:
    path = f"{mistake['path']}: " if mistake.get("path") else ""
    hint = f" → {mistake['hint']}" if mistake.get("hint") else ""
    return f"{path}{mistake['problem']}{hint}"


def _rule(mistake: Mapping[str, Any]) -> str:
    return str(mistake.get("code") or mistake.get("stage") or "template")


def _command(level: str, name: str, mistake: Mapping[str, Any]) -> str:
    places = {
        "file": name,
        "line": mistake.get("line"),
        "col": mistake.get("column"),
        "title": _rule(mistake),
    }
    properties = ",".join(
        f"{key}={_escaped(str(value), ':,')}"
        for key, value in places.items()
        if value is not None
    )
    return f"::{level} {properties}::{_escaped(_text(mistake))}"


def _escaped(text: str, more: str = "") -> str:
    return "".join(
        f"%{ord(char):02X}" if char in f"%\r\n{more}" else char for char in text
    )


def _uri(name: str) -> str:
    """Return the URI of a file: relative to the folder of the command if it is below that, with a scheme if not."""
    path = Path(name)
    if path.is_absolute() and path.is_relative_to(Path.cwd()):
        path = path.relative_to(Path.cwd())
    return path.as_uri() if path.is_absolute() else quote(os.fsencode(path))


def _result(level: str, name: str, mistake: Mapping[str, Any]) -> dict[str, Any]:
    place: dict[str, Any] = {"artifactLocation": {"uri": _uri(name)}}
    if mistake.get("line"):
        place["region"] = {
            "startLine": mistake["line"],
            "startColumn": mistake.get("column") or 1,
        }
    return {
        "ruleId": _rule(mistake),
        "level": level,
        "message": {"text": _text(mistake)},
        "locations": [{"physicalLocation": place}],
    }
