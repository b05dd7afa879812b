"""The JSON Schema of settings as data: an object of sections, from which programs write a file of settings."""

from __future__ import annotations

from typing import Any

from heat_config_agent.settings import kinds
from heat_config_agent.settings.kinds import LONGEST, Kind, Setting, written
from heat_config_agent.settings.schema import FOLLOW, SECTIONS, SETTINGS

_SECONDS = {"type": "number", "minimum": 0, "maximum": LONGEST}
_PATH = {"type": "string", "pattern": "^(/.*)?$"}

_KINDS: dict[Kind, dict[str, Any]] = {
    kinds.TEXT: {"type": ["string", "integer"]},
    kinds.FLAG: {"type": "boolean"},
    kinds.SECONDS: _SECONDS,
    kinds.LIMIT: {**_SECONDS, "exclusiveMinimum": 0},
    kinds.COUNT: {"type": "integer", "minimum": 1, "maximum": int(LONGEST)},
    kinds.SIZE: {
        "anyOf": [
            {"type": "integer", "minimum": 0, "maximum": 10**15 - 1},
            {"type": "string", "pattern": r"^\s*\d{1,15}\s*[kKmMgGtT]?([iI]?[bB])?\s*$"},
        ]
    },
    kinds.LINES: {"type": ["string", "array"], "items": {"type": "string"}},
    kinds.PATH: _PATH,
    kinds.PATHS: {"type": "array", "items": {"type": "string", "pattern": "^/[^ ,]*$"}},
    kinds.COMMAND: {"type": "string", "minLength": 1},
}


def schema() -> dict[str, Any]:
    """Return the schema of an object that maps sections to maps of their settings."""
    sections = {name: _section(name, about) for name, about in SECTIONS.items()}
    followed = sections.pop(FOLLOW)
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Settings of heat-config-agent",
        "description": "Sections, and in them settings, as a file of settings has them.",
        "type": "object",
        "properties": sections,
        "patternProperties": {"^follow .": followed},
        "additionalProperties": False,
    }


def _section(name: str, about: str) -> dict[str, Any]:
    rows = [each for each in SETTINGS if each.section == name]
    required = [each.name for each in rows if each.required and name == FOLLOW]
    return {
        "description": " ".join(about.split()),
        "type": "object",
        "properties": {each.name: _setting(each) for each in rows},
        "required": required,
        "additionalProperties": False,
    }


def _setting(each: Setting) -> dict[str, Any]:
    found = {"description": f"{' '.join(each.description.split())} ({each.expected})", **_value(each)}
    default = written(each.kind, each.default)
    return {**found, "default": each.default if isinstance(each.default, bool | int | float) else default}


def _value(each: Setting) -> dict[str, Any]:
    if each.kind is kinds.CHOICE:
        return {"enum": list(each.choices)}
    if each.kind is kinds.WORDS:
        return {"type": "array", "items": {"enum": list(each.choices)} if each.choices else {"type": "string"}}
    return _KINDS[each.kind]
