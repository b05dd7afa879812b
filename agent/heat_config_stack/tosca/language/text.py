"""The text of a TOSCA document: its version, and YAML 1.2 with the written form of every number (3.1 and 3.9)."""

from __future__ import annotations

import json

from heat_config_agent.diagnostics.mistakes import Invalid
from heat_config_agent.diagnostics.text import Language, Text
from heat_config_agent.masking.redaction import OPEN
from heat_config_agent.model.mistake import Mistake
from heat_config_agent.model.positions import Json, Place
from heat_config_hooks import strict_json
from heat_config_hooks.yaml_schema import CORE, YAML_1_2

LARGEST = 200_000
"""The maximum number of values in a document with expanded aliases, each of which may have to be checked."""


_PREFIX = "tosca_simple_yaml_"
_URI = "http://docs.oasis-open.org/tosca/ns/simple/yaml/"

VERSIONS = ("1.0", "1.1", "1.2", "1.3")
"""The versions of TOSCA, from the oldest to the newest."""

VERSION_OF = {
    name: version
    for version in VERSIONS
    for name in (_PREFIX + version.replace(".", "_"), _URI + version)
}
"""The version for each value that `tosca_definitions_version` may have."""

SHORT_NAMES = tuple(_PREFIX + version.replace(".", "_") for version in VERSIONS)
"""The names that a message shows."""


class WrittenInteger(int):
    """A whole number that is not written as Python would write it, such as `012` or `0x1F`."""

    text: str


class WrittenFloat(float):
    """A number that is not written as Python would write it, such as `14.10`."""

    text: str


def written(value: Json) -> str:
    """Return a scalar as it is written: `14.10` is the version 14.10, and not 14.1."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(getattr(value, "text", value))


def json_value(text: str) -> Json:
    """Return the value of a JSON text, with the written form of its numbers. Raises `ValueError`."""
    strict_json.loads(text)
    value: Json = json.loads(text, parse_int=_integer, parse_float=_float)
    return value


def _integer(text: str) -> object:
    value: int = _plain_integer(text)  # type: ignore[assignment]  # the schema says so
    if str(value) != text:
        value = WrittenInteger(value)
        value.text = text
    return value


def _float(text: str) -> object:
    value: float = _plain_float(text)  # type: ignore[assignment]  # the schema says so
    if repr(value) != text:
        value = WrittenFloat(value)
        value.text = text
    return value


_plain_integer, _plain_float = (
    YAML_1_2.values[CORE + name] for name in ("int", "float")
)

LANGUAGE = Language(
    "TOSCA",
    YAML_1_2.with_values({"int": _integer, "float": _float}),
    unique_keys=True,
    all_mistakes=True,
    largest=LARGEST,
)


def tosca_text(file: str, content: bytes) -> Text:
    """Return a document as text. Raises `Invalid` where it is not YAML."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise Invalid(
            [
                Mistake(
                    "it is not UTF-8 text", (), Place(file, line, 1), "", "text", "yaml"
                )
            ],
            OPEN,
        ) from None
    return Text(file, text, "text", LANGUAGE)
