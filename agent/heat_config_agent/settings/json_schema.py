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
            {
                "type": "string",
                "pattern": r"^\s*\d{1,15}\s*[kKmMgGtT]?([iI]?[bB])?\s*$",
            },
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
    rows = [setting for setting in SETTINGS if setting.section == name]
    required = [setting.name for setting in rows if setting.required and name == FOLLOW]
    return {
        "description": " ".join(about.split()),
        "type": "object",
        "properties": {setting.name: _setting(setting) for setting in rows},
        "required": required,
        "additionalProperties": False,
    }


def _setting(setting: Setting) -> dict[str, Any]:
    found = {
        "description": f"{' '.join(setting.description.split())} ({setting.expected})",
        **_value(setting),
    }
    default = written(setting.kind, setting.default)
    return {
        **found,
        "default": setting.default
        if isinstance(setting.default, bool | int | float)
        else default,
    }


def _value(setting: Setting) -> dict[str, Any]:
    if setting.kind is kinds.CHOICE:
        return {"enum": list(setting.choices)}
    if setting.kind is kinds.WORDS:
        return {
            "type": "array",
            "items": {"enum": list(setting.choices)}
            if setting.choices
            else {"type": "string"},
        }
    return _KINDS[setting.kind]
