"""The answers of commands with `--json`: each is as its schema in `docs/schemas` says, in every test that runs one.

`machine` has each run of a command checked here. In a schema, any key may be added later; here, a key that the schema
does not list is a mistake, because the schemas are the list of keys that readers have.

With `RECORD_ANSWERS=FOLDER` in the environment, answers of new forms are added to a folder such as
`tests/samples/answers`; those of a version that was released stay as they are.
"""

from __future__ import annotations

import functools
import json
import os
import re
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from heat_config_agent.cli import schemas

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
    lines = out.removesuffix("\n").split("\n")
    try:
        *events, answer = [json.loads(line) for line in lines]
    except ValueError as error:
        return [f"a line is not JSON: {error}"]
    faults = [
        fault for each in events for fault in (*_of("line", each), *_of_data(each))
    ]
    faults += _of("envelope", answer)
    if not faults and answer["exit_code"] != code:
        faults.append(f"exit_code is {answer['exit_code']}, and the command's {code}")
    if not faults and (answer["error"] is None) is not (code == 0):
        faults.append(f"error is {answer['error']}, and the exit code is {code}")
    faults = faults or _of_data(answer)
    if not faults and (folder := os.environ.get("RECORD_ANSWERS")):
        record(out, Path(folder))
    return faults


def _of_data(line: dict[str, Any]) -> list[str]:
    kind, data = line.get("kind"), line.get("data")
    if kind in _WITHOUT_DATA or data is None:
        return []
    if kind not in schemas.kinds():
        return [f"docs/schemas has no schema of the kind {kind!r}"]
    return [f"data{fault}" for fault in _of(kind, data)]


def _of(kind: str, value: object) -> list[str]:
    return _faults(_validator(kind), value)


def _faults(validator: Draft202012Validator, value: object) -> list[str]:
    return [
        f"{each.json_path.removeprefix('$')}: {each.message}"[:500]
        for each in validator.iter_errors(value)
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


RECORDED = Path(__file__).parents[1] / "samples/answers"
"""Answers of earlier versions: a file for each kind, with an answer in each line."""

_MOST = 4
"""The number of answers of a kind that are recorded."""

_LONG = 6000
"""The length of a line that is recorded only if there is none of its kind yet."""


def wrong_now(line: dict[str, Any]) -> list[str]:
    """Return what a program that reads an earlier answer would miss today: a key, or a value of its kind.

    Keys that were added since are not missed.
    """
    schema = "line" if line.get("kind") == "event" else "envelope"
    faults = _faults(_earlier(schema), line)
    if not faults and line.get("data") is not None:
        faults = [
            f"data{fault}" for fault in _faults(_earlier(line["kind"]), line["data"])
        ]
    return faults


@functools.cache
def _earlier(kind: str) -> Draft202012Validator:
    return Draft202012Validator(_optional(closed(schemas.read(kind))))


def _optional(schema: Any) -> Any:
    """Return a schema whose objects may lack keys."""
    if isinstance(schema, list):
        return [_optional(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: _optional(each)
        for key, each in schema.items()
        if not (key == "required" and isinstance(each, list))
    }


def record(out: str, folder: Path) -> None:
    """Add an answer to those of a folder, if it has another form than those of its kind there, and they are few."""
    for text in out.removesuffix("\n").split("\n"):
        line = json.loads(text)
        known = recorded(line["kind"], folder)
        forms = [_form(each) for each in known]
        if (
            len(known) < (_MOST if len(text) < _LONG else 1)
            and _form(line) not in forms
        ):
            folder.mkdir(exist_ok=True)
            for place, name in (
                (r"/tmp/pytest-of-\w+/[^\"' ]*?/test_[^/\"' ]*", "/srv/machine"),
                (
                    re.escape(str(Path(__file__).parents[2])),
                    "/usr/lib/heat-config-agent",
                ),
                (re.escape(socket.gethostname()), "web-1"),
            ):
                text = re.sub(place, name, text)  # noqa: PLW2901
            with (folder / f"{line['kind']}.jsonl").open("a") as file:
                file.write(f"{text}\n")


def recorded(kind: str, folder: Path = RECORDED) -> list[dict[str, Any]]:
    """Return the recorded answers of a kind."""
    path = folder / f"{kind}.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def _form(value: object) -> object:
    """Return the keys of a value, and the kinds of its values."""
    if isinstance(value, dict):
        return {key: _form(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_form(each) for each in value[:1]]
    return type(value).__name__
