"""Mistakes in templates, as continuous integration takes them: workflow commands of GitHub, and SARIF 2.1.0."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote

from heat_config_agent import __version__

_LEVELS = {"error": "mistakes", "warning": "warnings"}
"""The level of a mistake → its key in the JSON of `template validate`."""


def github(found: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return a line for each mistake, which GitHub shows next to the line of the file.

    `found` are the JSON objects of `template validate --json`, each with the key `file`.
    """
    return [_command(level, name, mistake) for name, level, mistake in _mistakes(found)]


def sarif(found: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a SARIF log with one run, and a result for each mistake; `found` is as for `github`."""
    results = [_result(level, name, mistake) for name, level, mistake in _mistakes(found)]
    rules = [{"id": rule} for rule in sorted({result["ruleId"] for result in results})]
    driver = {"name": "heat-config-agent", "version": __version__, "rules": rules}
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}],
    }


def _mistakes(found: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield the file, level and mistake of each mistake."""
    for checked in found:
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
    places = {"file": name, "line": mistake.get("line"), "col": mistake.get("column"), "title": _rule(mistake)}
    properties = ",".join(f"{key}={_escaped(str(value), ':,')}" for key, value in places.items() if value is not None)
    return f"::{level} {properties}::{_escaped(_text(mistake))}"


def _escaped(text: str, more: str = "") -> str:
    return "".join(f"%{ord(char):02X}" if char in f"%\r\n{more}" else char for char in text)


def _result(level: str, name: str, mistake: Mapping[str, Any]) -> dict[str, Any]:
    place: dict[str, Any] = {"artifactLocation": {"uri": quote(name)}}
    if mistake.get("line"):
        place["region"] = {"startLine": mistake["line"], "startColumn": mistake.get("column") or 1}
    return {
        "ruleId": _rule(mistake),
        "level": level,
        "message": {"text": _text(mistake)},
        "locations": [{"physicalLocation": place}],
    }
