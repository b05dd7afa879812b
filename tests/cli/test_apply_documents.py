"""The documents that heat-config-apply reads: JSON or YAML, objects or lists, files or standard input."""

from __future__ import annotations

import json

import pytest

from support.commands import counted, run, runs
from support.machine import Machine

YAML = """\
# A document as people write it.
deployments:
- id: 1234
  name: web
  group: script
  config: |
    #!/bin/sh
    echo "$when $flag $list"
  inputs:
  - {name: when, value: 2026-11-20}
  - {name: flag, value: true}
  - name: list
    value: [1, two]
"""


@pytest.mark.parametrize("name", ["document.yaml", "document", "-"])
def test_a_document_may_be_yaml(machine: Machine, name: str) -> None:
    """YAML is read as what JSON can say of it, from a file of any name and from standard input; a date stays text."""
    machine.write(YAML, "document.yaml")
    machine.write(YAML, "document")
    place = name if name == "-" else str(machine.folder / name)

    ran = run(
        machine,
        "heat-config-apply",
        "--state-dir",
        str(machine.state),
        "--json",
        place,
        given=YAML,
    )

    assert ran.code == 0, ran.err
    (found,) = ran.data["deployments"]
    assert (found["id"], found["name"]) == ("1234", "web")
    assert found["values"]["deploy_stdout"] == '2026-11-20 true [1,"two"]\n'


@pytest.mark.parametrize("shape", ["object", "list", "text with a byte order mark"])
@pytest.mark.parametrize("place", ["file", "stdin"])
def test_a_document_may_be_an_object_or_a_list(
    machine: Machine, shape: str, place: str
) -> None:
    """Heat's server metadata and the bare list of deployments are the same work."""
    entries = [counted(machine, "d1"), counted(machine, "d2")]
    document: object = (
        entries
        if shape == "list"
        else {"deployments": entries, "os-collect-config": {}, "x": 1}
    )
    text = ("\ufeff" if "mark" in shape else "") + json.dumps(document)
    path = machine.write(text)

    arguments = [
        "--state-dir",
        str(machine.state),
        "-" if place == "stdin" else str(path),
    ]
    ran = run(machine, "heat-config-apply", *arguments, given=text)

    assert ran.code == 0, ran.err
    assert runs(machine) == ["d1", "d2"]


@pytest.mark.parametrize(
    ("name", "text", "place"),
    [
        ("d.json", '[\n {"id": "a",}\n]', "2:"),
        ("d.json", '{"deployments": [', "1:18"),
        ("d.json", "", "1:1"),
        ("d.json", "- id: a\n", "1:1"),
        ("-", '[{"id": "a"},\n\n  {"id": "b"]', "3:"),
        ("d.yaml", "deployments:\n- id: a\n  name: [\n", "4:1"),
        ("d.yaml", "a: b: c\n", "1:5"),
        ("d.yaml", "\ta: b\n", "1:1"),
        (
            "d.yaml",
            "a: b\nc: d\x01e\n",
            "2:5: error: it is not YAML: unacceptable character #x0001",
        ),
        (
            "d.json",
            '[{"id": "NaN"},\n  {"id": NaN}]',
            "2:10: error: NaN is not a number in JSON\n",
        ),
        (
            "d.json",
            f'[{{"id":\n {"9" * 5000}}}]',
            "2:2: error: [0].id: a number of over 1000 digits",
        ),
        ("-", "deployments:\n  - id: 'a\n", "3:1"),
        ("d.yaml", "!!python/object/apply:os.system ['true']\n", "1:1"),
    ],
)
def test_a_document_that_cannot_be_read_is_refused(
    machine: Machine, name: str, text: str, place: str
) -> None:
    """Bad JSON and bad YAML come to 2 and name file, line and column; heat-agents passed over them in silence."""
    machine.write(text, "d.json" if name == "-" else name)
    called = "standard input" if name == "-" else name
    arguments = [
        "--state-dir",
        str(machine.state),
        name if name == "-" else str(machine.folder / name),
    ]

    ran = run(machine, "heat-config-apply", *arguments, given=text)

    assert ran.code == 2
    assert f"{called}:{place}" in ran.err
    assert "Traceback" not in ran.err
    assert not machine.state.exists()


def test_encoding_is_named(machine: Machine) -> None:
    """The bytes with which UTF-32 begins are no longer taken for those of UTF-16, which they begin with."""
    path = machine.folder / "d.yaml"
    for encoding in ("UTF-16", "UTF-32"):
        path.write_bytes("a: 1\n".encode(encoding))
        ran = machine.apply(path)
        assert (
            ran.code,
            f"d.yaml:1:1: error: it is {encoding}, not UTF-8 text" in ran.err,
        ) == (2, True)


def test_name_of_two_inputs_is_refused(machine: Machine) -> None:
    """The second one would win, whichever was meant. An entry for which a server waits is answered as Heat means it."""
    twice = [
        {"name": "x", "value": 1},
        {"name": "y", "value": 2},
        {"name": "x", "value": 3},
    ]
    ran = machine.apply(machine.write([counted(machine, inputs=twice)]))
    assert ran.code == 2
    assert (
        "d1.inputs[2].name: an input with the name 'x' is there already: inputs[0]"
        in ran.err
    )
    assert runs(machine) == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[1e999, NaN]", "NaN"),
        ("[" * 200_000, "nested"),
        ("a: .inf\n", "inf"),
        ("- !!binary aGk=\n", "no counterpart in JSON"),
        ("- &a [*a]\n", "in itself"),
        ("a: 1\n---\nb: 2\n", "document"),
    ],
)
def test_values_without_json_are_refused(
    machine: Machine, text: str, words: str
) -> None:
    """Values that no transport of Heat's could carry, and documents without an end, are bad usage and no crash."""
    ran = machine.apply(machine.write(text, "d.yaml"))

    assert ran.code == 2
    assert words in ran.err
    assert "Traceback" not in ran.err


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"other": 1}, "`deployments`"),
        ({"deployments": {"a": 1}}, "expected a list"),
        (5, "the number 5"),
        ("text", "text"),
        (None, "empty"),
    ],
)
def test_document_without_deployments_is_reported(
    machine: Machine, document: object, words: str
) -> None:
    """A document of another kind is a failure: the message says what was expected and what was there."""
    ran = machine.apply(machine.write(json.dumps(document)))

    assert ran.code == 2
    assert words in ran.err
