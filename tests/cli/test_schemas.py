"""The schemas of `--json`: each is valid and complete, and holds an answer to what it lists."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import keys
from heat_config_agent.cli import schemas
from heat_config_agent.model.errors import UsageError
from support import answers, together
from support.machine import Machine


def answer(**changed: Any) -> str:
    """Return the answer of a command that failed, with some keys changed."""
    return json.dumps(
        {
            "format": 1,
            "kind": "usage",
            "version": "1.0.0",
            "at": "2026-11-26T15:50:36.412Z",
            "exit_code": 8,
            "data": None,
            "warnings": [],
            "error": {
                "code": "not_found",
                "message": "there is no stack web",
                "hint": None,
                "subject": {"kind": "stack", "name": "web"},
                "mistakes": [],
            },
            **changed,
        }
    )


KEYS = Path(__file__).parents[1] / "samples/keys.txt"
"""The record of all keys: which are always there, and their values."""


def test_record_has_every_key_and_no_key_is_lost() -> None:
    """A key that is gone, or that has other values, contradicts `docs/stability.md`; new keys are recorded."""
    recorded, present = keys.recorded(KEYS), keys.present()
    assert recorded - present == set(), "a major version may change this, no other"
    assert present - recorded == set(), "`make reference` records new keys"


def test_key_that_is_gone_or_optional_is_missing_in_the_facts() -> None:
    """The record notices a key without its name, a key that may be missing, and a value that has become another."""
    schema = {
        "properties": {"a": {"type": "string"}, "b": {"enum": ["x", None]}},
        "required": ["a"],
    }
    before = keys.facts("k", schema)
    assert before == {
        "k a: is always there",
        "k a: is string",
        "k b: is 'x'",
        "k b: is null",
    }
    optional = keys.facts("k", {**schema, "required": []})
    assert before - optional == {"k a: is always there"}
    other = {**schema, "properties": {"a": {"type": "integer"}}}
    assert before - keys.facts("k", other) == {
        "k a: is string",
        "k b: is 'x'",
        "k b: is null",
    }


def test_lost_key_stays_in_the_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program that writes the record removes nothing, so that a test fails until someone has done it."""
    file = tmp_path / "keys.txt"
    file.write_text("old key: is string\n", encoding="utf-8")
    monkeypatch.setattr("sys.argv", ["keys.py", str(file)])
    keys.main()
    assert keys.recorded(file) == keys.present() | {"old key: is string"}


def test_page_of_stability_names_every_schema() -> None:
    """A reader finds the schema of each kind there."""
    page = Path(__file__).parents[2] / "docs/stability.md"
    text = page.read_text(encoding="utf-8")
    assert [
        each
        for each in schemas.kinds()
        if f"[`{each}`](schemas/{each}.json)" not in text
    ] == []


@pytest.mark.parametrize("kind", schemas.kinds())
def test_schema_is_valid_and_complete(kind: str) -> None:
    """A schema follows its draft, and refers to nothing outside of itself."""
    schema = schemas.read(kind)
    Draft202012Validator.check_schema(schema)
    assert "common.json" not in json.dumps(schema)
    validator = Draft202012Validator(schema)
    list(validator.iter_errors({}))


def test_schema_is_printed(machine: Machine) -> None:
    """`help --schema` prints what the installation has."""
    done = machine.command("heat-config-agent", ["help", "--schema", "envelope"], {})
    assert done.code == 0
    assert json.loads(done.out) == schemas.read("envelope")


def test_unknown_kind_is_refused_with_the_nearest() -> None:
    """A misspelt kind leads to the one that was meant."""
    with pytest.raises(UsageError, match="did you mean envelope"):
        schemas.read("envelop")


def test_answer_as_its_schema_says_is_accepted() -> None:
    """An envelope with all its keys has no fault."""
    assert answers.wrong(answer(), 8) == []


@pytest.mark.parametrize(
    ("changed", "code", "fault"),
    [
        ({"at": "2026-11-26 15:50"}, 8, ".at"),
        ({"more": 1}, 8, "'more' was unexpected"),
        ({}, 1, "exit_code is 8"),
        ({"error": None}, 8, "error is None"),
        ({"data": {}, "kind": "nosuch"}, 8, "no schema of the kind 'nosuch'"),
        ({"exit_code": 8.5}, 8, ".exit_code"),
    ],
)
def test_answer_with_a_fault_is_named(
    changed: dict[str, Any], code: int, fault: str
) -> None:
    """A wrong form, an unlisted key and a contradiction are all faults."""
    assert fault in "; ".join(answers.wrong(answer(**changed), code))


def test_answer_without_a_key_is_named() -> None:
    """A key that the schema requires is always there."""
    value = json.loads(answer())
    del value["warnings"]
    assert answers.wrong(json.dumps(value), 8) == [
        ": 'warnings' is a required property"
    ]


@pytest.mark.parametrize(
    ("arguments", "asked"),
    [
        (["status", "--json"], True),
        (["log", "--", "--json"], False),
        (["status", "--json", "--help"], False),
        (["status"], False),
    ],
)
def test_line_that_asks_for_json_is_recognised(
    arguments: list[str], asked: bool
) -> None:
    """An option after `--` is a name, and the help is for people."""
    assert answers.is_asked_for(arguments) is asked


RECORDED = [
    pytest.param(line, id=f"{path.stem}-{number}")
    for path in sorted(answers.RECORDED.glob("*.jsonl"))
    for number, line in enumerate(answers.recorded(path.stem), 1)
]


def test_every_kind_has_a_recorded_answer() -> None:
    """A new kind is promised from its first version on."""
    recorded = {path.stem for path in answers.RECORDED.glob("*.jsonl")}
    assert {*schemas.kinds()} - recorded == {"envelope", "line"}


@together.cases("line", RECORDED)
def test_earlier_answer_can_still_be_read(line: dict[str, Any]) -> None:
    """Each key of an answer that was recorded is still listed, and its value still of that kind."""
    assert answers.wrong_now(line) == []


def test_removed_key_of_an_answer_is_a_fault() -> None:
    """An earlier answer with a key that is no longer listed is a fault; one without a new key is not."""
    value = json.loads(answer())
    del value["warnings"]
    assert answers.wrong_now(value) == []
    assert answers.wrong_now({**value, "gone": 1})
