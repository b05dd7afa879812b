"""The schemas of `--json`: each is valid and complete, and holds an answer to what it lists."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

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


def test_key_that_went_is_missed() -> None:
    """An earlier answer with a key that is no longer listed is a fault; one without a new key is not."""
    value = json.loads(answer())
    del value["warnings"]
    assert answers.wrong_now(value) == []
    assert answers.wrong_now({**value, "gone": 1})
