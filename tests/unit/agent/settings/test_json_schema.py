"""The JSON Schema of settings: what it accepts can be written into a file, and is read from there."""

from __future__ import annotations

import configparser
import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

from heat_config_agent.settings import json_schema, layers
from heat_config_agent.settings.kinds import Setting, written
from heat_config_agent.settings.schema import FOLLOW, SECTIONS, SETTINGS

SCHEMA = json_schema.schema()
VALUES: tuple[Any, ...] = (
    *(
        True,
        False,
        0,
        1,
        3,
        -1,
        0.5,
        1e10,
        "",
        "text",
        "/a/b",
        "a/b",
        "finish",
        "heat",
        "2M",
        "2X",
        "5",
    ),
    *([], ["heat", "cfn"], ["/a", "/b"], ["a b", "c"], [1], {}, None),
)


def accepted(settings: object) -> bool:
    """Return whether the schema accepts settings."""
    return Draft7Validator(SCHEMA).is_valid(settings)


def section(each: Setting) -> str:
    """Return a section in which a setting may be."""
    return "follow web" if each.section == FOLLOW else each.section


def test_it_is_a_schema_of_every_setting() -> None:
    """The schema has each setting with its description."""
    Draft7Validator.check_schema(SCHEMA)
    sections = {
        **SCHEMA["properties"],
        FOLLOW: SCHEMA["patternProperties"]["^follow ."],
    }
    assert sections.keys() == SECTIONS.keys()
    for each in SETTINGS:
        assert (
            each.description.split()[0]
            in sections[each.section]["properties"][each.name]["description"]
        )


@pytest.mark.parametrize(
    "setting", SETTINGS, ids=lambda each: f"{each.section}.{each.name}"
)
def test_accepted_value_of_a_setting_is_read_without_a_mistake(
    setting: Setting, tmp_path: Path
) -> None:
    """An accepted value is read from a file without a mistake, and others are refused."""
    others = (
        {"url": "/srv/site", "path": "stack.yaml"} if setting.section == FOLLOW else {}
    )
    found = [
        value
        for value in VALUES
        if accepted({section(setting): {**others, setting.name: value}})
    ]
    assert 0 < len(found) < len(VALUES)
    for value in found:
        text = written(setting.kind, tuple(value) if isinstance(value, list) else value)
        path = tmp_path / "some.conf"
        with path.open("w") as file:
            parser = configparser.ConfigParser(interpolation=None)
            parser.read_dict({section(setting): {**others, setting.name: text}})
            parser.write(file)
        assert layers.file(path, own=True).mistakes == (), value


@pytest.mark.parametrize(
    "settings",
    [
        {"agnet": {}},
        {"agent": {"paralel": 1}},
        {"agent": {"parallel": "many"}},
        {"agent": {"collectors": ["heta"]}},
        {"follow web": {"path": "stack.yaml"}},
        {"follow": {}},
        [],
    ],
    ids=json.dumps,
)
def test_a_mistake_is_refused(settings: object) -> None:
    """A section, a setting, or a value."""
    assert not accepted(settings)
