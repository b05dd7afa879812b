"""The answers of commands with `--json`: each is as its schema in `docs/schemas` says, in every test that runs one.

`machine` has each run of a command checked here. In a schema, any key may be added later; here, a key that the schema
does not list is a mistake, because `docs/stability.md` lists the keys from the schemas.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from typing import Any

from jsonschema import Draft202012Validator

from heat_config_agent.cli import schemas

ALL = False
"""True once every command prints its answer in an envelope; until then, other output is let through."""

_WITHOUT_DATA = {"usage"}
"""The kinds of answers that never have data."""

_OTHER_FORMATS = ("--format", "-h", "--help", "--version")
"""Options with which a command prints something else than its answer."""


def is_asked_for(arguments: Sequence[str]) -> bool:
    """Return whether a command line asks for an answer as JSON."""
    words = [str(each) for each in arguments]
    words = words[: words.index("--")] if "--" in words else words
    return "--json" in words and not any(
        word.partition("=")[0] in _OTHER_FORMATS for word in words
    )


def wrong(out: str, code: int) -> list[str]:
    """Return what is wrong with the output of a command that was asked for JSON, and has ended with this code."""
    lines = out.splitlines()
    try:
        *events, answer = [json.loads(line) for line in lines]
    except ValueError as error:
        return [f"a line is not JSON: {error}"] if ALL else []
    if not ALL and not (isinstance(answer, dict) and "format" in answer):
        return []
    faults = [
        fault for each in events for fault in (*_of("line", each), *_of_data(each))
    ]
    faults += _of("envelope", answer)
    if not faults and answer["exit_code"] != code:
        faults.append(f"exit_code is {answer['exit_code']}, and the command's {code}")
    if not faults and (answer["error"] is None) is not (code == 0):
        faults.append(f"error is {answer['error']}, and the exit code is {code}")
    return faults or _of_data(answer)


def _of_data(line: dict[str, Any]) -> list[str]:
    kind, data = line.get("kind"), line.get("data")
    if kind in _WITHOUT_DATA or data is None:
        return []
    if kind not in schemas.kinds():
        return [f"docs/schemas has no schema of the kind {kind!r}"]
    return [f"data{fault}" for fault in _of(kind, data)]


def _of(kind: str, value: object) -> list[str]:
    return [
        f"{each.json_path.removeprefix('$')}: {each.message}"[:500]
        for each in _validator(kind).iter_errors(value)
    ]


@functools.cache
def _validator(kind: str) -> Draft202012Validator:
    return Draft202012Validator(closed(schemas.read(kind)))


def closed(schema: Any) -> Any:
    """Return a schema whose objects have no keys but those that it lists."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: closed(each) for key, each in schema.items()}
    if isinstance(schema.get("type"), str | list) and "properties" in schema:
        made.setdefault("additionalProperties", False)
    return made
