from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from heat_config_agent.deployments import metadata
from heat_config_agent.model.deployment import Deployment, Document, Result
from heat_config_agent.runs import result
from heat_config_hooks.reply import BODY_LIMIT, Capture, Reply, failure

SECRET = "correct-horse-battery-staple"


def parse(**inputs: Any) -> Deployment:
    """Return a deployment; an input given as an object says more of itself than its value."""
    items = [
        {"name": name, **(each if isinstance(each, dict) else {"value": each})}
        for name, each in inputs.items()
    ]
    outputs = [{"name": "out"}, {"name": "error", "error_output": True}]
    entry = {"id": "a", "inputs": items, "outputs": outputs}
    return metadata.parse(Document(source="test", content=[entry])).deployments[0]


def make(reply: Reply, reason: str = "", **inputs: Any) -> Result:
    """Return the result of a reply, which always can be sent."""
    found = result.make(
        {"deploy_stdout": "", "deploy_stderr": "", **reply}, parse(**inputs), reason
    )
    assert len(json.dumps(found.values, allow_nan=False)) <= BODY_LIMIT
    return found


def pieces(secret: str, length: int = 12) -> set[str]:
    """Return every part of a secret that is long enough to be of use to somebody."""
    return {secret[start : start + length] for start in range(len(secret) - length + 1)}


@pytest.mark.parametrize("code", [0, "0"])
def test_the_code_0_is_success(code: object) -> None:
    """As a number and as text."""
    assert make({"deploy_status_code": code, "out": "x"}) == Result(
        values={
            "deploy_stdout": "",
            "deploy_stderr": "",
            "deploy_status_code": code,
            "out": "x",
        },
        failed=False,
    )


@pytest.mark.parametrize("code", [1, "1", -1, 255, "zero", [0]])
def test_any_other_code_is_failure(code: object) -> None:
    """As Heat judges it: it compares text, and knows one zero."""
    assert make({"deploy_status_code": code}).failed


@pytest.mark.parametrize("code", ["00", " 0", "-0", "+0", "0\n", " 7", "007"])
def test_a_code_that_can_be_read_in_two_ways_is_sent_in_one(code: str) -> None:
    """The recorded status code is the one that Heat reads."""
    found = make({"deploy_status_code": code})
    assert found.failed == (str(found.values["deploy_status_code"]) != "0")


@pytest.mark.parametrize("text", ["", "went wrong"])
def test_an_error_output_that_was_produced_is_failure(text: str) -> None:
    """Even an empty one."""
    found = make({"deploy_status_code": 0, "error": text})
    assert found.failed
    assert "error output 'error' was produced" in found.reason


@pytest.mark.parametrize("name", ["out", "undeclared"])
def test_other_outputs_do_not_fail_a_run(name: str) -> None:
    """Another output may have any value."""
    assert not make({"deploy_status_code": 0, name: "error"}).failed


def test_the_reason_is_the_code_and_the_last_line() -> None:
    """The reason has the exit code and the last line of the output."""
    assert (
        make({"deploy_status_code": 3, "deploy_stderr": "one\ntwo \n\n"}).reason
        == "exit code 3: two"
    )
    assert make({"deploy_status_code": 3}).reason == "exit code 3"
    assert make({"deploy_status_code": 139}).reason == "exit code 139 (SIGSEGV)"
    assert make({"deploy_status_code": 194}).reason == "exit code 194"


def test_a_reason_that_is_known_is_kept() -> None:
    """The agent knows better why it ended a run."""
    assert (
        make(failure(124, "too long"), "its time was over").reason
        == "its time was over"
    )


def test_values_keep_their_types() -> None:
    """The values of a reply are sent with their types."""
    values = {
        "deploy_status_code": 0,
        "out": {"a": [1, 2.5, None, True, "é"]},
        "n": 7,
        "none": None,
    }
    assert make(values).values == {"deploy_stdout": "", "deploy_stderr": "", **values}


def test_no_secret_is_in_a_result() -> None:
    """No secret is in a stream, an output or the reason of a result."""
    values = {
        "deploy_status_code": 1,
        "deploy_stdout": SECRET,
        "deploy_stderr": f"bad {SECRET}",
        "out": {"a": [SECRET]},
    }
    found = make(values, deploy_password=SECRET)
    assert SECRET not in json.dumps(found.values)
    assert found.values["out"] == {"a": ["***"]}
    assert found.reason == "exit code 1: bad ***"


def test_the_reason_of_an_error_output_has_no_secret_of_which_only_the_name_tells() -> (
    None
):
    """The output itself keeps it, as it may be what it is about."""
    found = make(
        {"deploy_status_code": 0, "error": f"one\nlogin failed: {SECRET}"},
        db_password=SECRET,
    )
    assert found.values["error"] == f"one\nlogin failed: {SECRET}"
    assert found.reason == "error output 'error' was produced: login failed: ***"


@pytest.mark.parametrize("before", [185, 195, 475_000 - 20, 475_000, 475_000 + 20])
def test_the_reason_of_an_error_output_has_no_half_of_such_a_secret(
    tmp_path: Path, before: int
) -> None:
    """A shortened reason has no part of a secret, whether it is cut for people or for a signal."""
    path = tmp_path / "error"
    path.write_text("x" * before + SECRET * 40_000)
    found = make({"deploy_status_code": 0, "error": Capture(path)}, db_password=SECRET)
    assert [each for each in pieces(SECRET) if each in found.reason] == []


def test_signs_of_life_are_given_between_the_texts() -> None:
    """To look for many secrets in much text takes a while."""
    signs: list[None] = []
    reply: Reply = {
        "deploy_stdout": "a",
        "deploy_stderr": "b",
        "deploy_status_code": 0,
        "out": ["c", {"d": "e"}],
    }
    result.make(reply, parse(), alive=lambda: signs.append(None))
    assert len(signs) >= 4


@pytest.mark.parametrize("value", [123456, [1, 123456], {"pin": 123456}, "123456"])
def test_a_secret_number_is_hidden_where_it_is_a_number(value: object) -> None:
    """An output that is or holds it is still an output."""
    found = make(
        {"deploy_status_code": 0, "out": value},
        pin={"type": "Number", "value": 123456, "hidden": True},
    )
    assert "123456" not in json.dumps(found.values)
    assert "out" in found.values
    assert not found.failed


@pytest.mark.parametrize(
    ("secret", "value"),
    [
        ("true", {"a": True}),
        ("null", [None]),
        ("nabc", ["line\nabc"]),
        ("u00e9", ["é"]),
        ('", "', ["a", "b"]),
        ("a\\\\b", {"a\\b": 1}),
        ("name", {"name": 1}),
    ],
)
def test_a_secret_that_looks_like_json_breaks_no_output(
    secret: str, value: object
) -> None:
    """A structured output is sent whole, whatever characters a password has."""
    assert (
        "out"
        in make({"deploy_status_code": 0, "out": value}, deploy_password=secret).values
    )


def test_the_status_code_is_sent_whatever_is_secret() -> None:
    """A password that is a number does not hide how the deployment ended."""
    found = make({"deploy_status_code": 1000}, deploy_password="1000")
    assert (found.values["deploy_status_code"], found.failed) == (1000, True)


@pytest.mark.parametrize("shift", range(0, len(SECRET), 3))
def test_a_cut_leaves_no_half_of_a_secret(tmp_path: Path, shift: int) -> None:
    """A cut leaves no part of a secret, wherever it is and however much of the stream is secret."""
    path = tmp_path / "stdout"
    path.write_text("." * shift + SECRET * (3_000_000 // len(SECRET)))
    text = json.dumps(
        make(
            {"deploy_status_code": 0, "deploy_stdout": Capture(path)},
            deploy_password=SECRET,
        ).values
    )
    assert [each for each in pieces(SECRET) if each in text] == []


@pytest.mark.parametrize("shift", range(0, len(SECRET), 3))
def test_a_failure_leaves_no_half_of_a_secret(tmp_path: Path, shift: int) -> None:
    """The output of a tool that was ended has no part of a secret."""
    path = tmp_path / "stderr"
    path.write_text("." * shift + f"{SECRET}....\n" * 10_000)
    text = json.dumps(
        make(failure(124, "too long", "", Capture(path)), deploy_password=SECRET).values
    )
    assert [each for each in pieces(SECRET) if each in text] == []


def test_a_reply_of_many_long_values_keeps_its_status_code() -> None:
    """Long texts are cut, and the status code stays."""
    values: Reply = {f"output number {index}": "x" * 200 for index in range(10_000)}
    found = make({**values, "deploy_status_code": 3})
    assert found.failed
    assert found.values["deploy_status_code"] == 3


@pytest.mark.parametrize("code", [0, 3])
def test_reply_with_too_many_names_is_a_failure(code: int) -> None:
    """Where the names alone are too long for a signal, what was asked for cannot be delivered."""
    values: Reply = {f"output number {index}": "" for index in range(100_000)}
    found = make({**values, "deploy_status_code": code})
    assert found.failed
    assert found.values["deploy_status_code"] not in (0, "0", "", None)
