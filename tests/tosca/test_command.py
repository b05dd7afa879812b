"""`heat-config-agent template validate` with service templates: what editors and other programs read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from heat_config_agent.cli.apply.options import is_template
from support.machine import Done, Machine

HEAD = "tosca_definitions_version: tosca_simple_yaml_1_3\n"
GOOD = HEAD + (
    "topology_template:\n  inputs:\n    size: { type: integer, default: 3, description: how many }\n"
    "    password: { type: string, default: geheim }\n  node_templates: { a: { type: Compute } }\n"
)
WRONG = HEAD + "node_types: { A: { derived_from: B } }\n"
HOT = "heat_template_version: 2018-08-31\nresources: {a: {type: OS::Heat::Value, properties: {value: 1}}}\n"


def validate(machine: Machine, *arguments: str) -> Done:
    """Run the command to its end."""
    return machine.command(
        "heat-config-agent", ["template", "validate", *arguments], {}
    )


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """Return the names of some files."""
    texts = {
        "good.yaml": GOOD,
        "wrong.yaml": WRONG,
        "hot.yaml": HOT,
        "warned.yaml": HEAD + "node_types: { A: {} }\n",
    }
    texts |= {
        "bad-hot.yaml": HOT.replace("Value, prop", "Value, prob"),
        "plain.yaml": "description: none\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    return {name.partition(".")[0]: str(tmp_path / name) for name in texts}


def test_a_valid_template_shows_its_inputs(
    machine: Machine, files: dict[str, str]
) -> None:
    """With types and defaults; a secret is not shown."""
    done = validate(machine, files["good"])
    assert done.code == 0
    assert done.out.splitlines() == [
        f"{files['good']} is valid: 1 node, 0 outputs",
        "",
        "INPUT     TYPE     DEFAULT  DESCRIPTION",
        "size      integer  3        how many",
        "password  string   ******",
    ]


def test_mistakes_are_lines_that_editors_read(
    machine: Machine, files: dict[str, str]
) -> None:
    """Each has its place, its path and a hint."""
    done = validate(machine, "-t", files["wrong"])
    assert done.code == 1
    expected = "2:20: error: node_types.A.derived_from: there is no node type B"
    assert done.err.splitlines() == [
        f"{files['wrong']}:{expected}",
        f"{files['wrong']}: 1 mistake, 0 warnings",
    ]


def test_each_file_is_one_line_of_json(machine: Machine, files: dict[str, str]) -> None:
    """The lines are in the order of the files, HOT and TOSCA, and the exit code is the worst one."""
    names = [
        files[name] for name in ("good", "wrong", "hot", "bad-hot", "plain", "warned")
    ]
    done = validate(machine, "--json", *names)
    lines = [json.loads(line) for line in done.out.splitlines()]
    assert [each["file"] for each in lines] == names
    assert [each["valid"] for each in lines] == [True, False, True, False, False, True]
    assert done.code == 1
    assert lines[1]["mistakes"] == [
        {
            "code": "parent-unknown",
            "problem": "there is no node type B",
            "hint": None,
            "path": "node_types.A.derived_from",
            "file": files["wrong"],
            "line": 2,
            "column": 20,
            "stage": "type",
        }
    ]
    assert lines[4]["mistakes"][0]["code"] == "version-missing"
    assert all(
        isinstance(each[key], list)
        for each in lines
        for key in ("mistakes", "warnings", "open")
    )


def test_missing_file_is_reported(
    machine: Machine, files: dict[str, str], tmp_path: Path
) -> None:
    """With the exit code for that; the other files are checked all the same."""
    for name in ("none.csar", "none.yaml"):
        done = validate(machine, "--json", str(tmp_path / name), files["good"])
        found = [json.loads(line) for line in done.out.splitlines()]
        assert ([each["valid"] for each in found], done.code) == ([False, True], 2)


def test_strict_takes_warnings_for_mistakes(
    machine: Machine, files: dict[str, str]
) -> None:
    """Only the exit code says so."""
    assert validate(machine, files["warned"]).code == 0
    done = validate(machine, "--strict", files["warned"])
    assert (done.code, done.err.splitlines()[-1]) == (
        1,
        "with --strict, warnings are mistakes",
    )


GIVEN = HEAD + (
    "topology_template:\n  inputs:\n    size: { type: integer, constraints: [ { in_range: [ 1, 9 ] } ] }\n"
    "    names: { type: list, entry_schema: string }\n    version: { type: version }\n"
    "    free: { type: string, required: false }\n  node_templates: { a: { type: Compute } }\n"
)


@pytest.mark.parametrize(
    ("inputs", "codes"),
    [
        (["size=3", 'names=["a"]', "version=14.10"], []),
        (["size=30", 'names=["a"]', "version=14.10"], ["constraint"]),
        (["size=large", "names=[1]", "version=new"], ["value", "value", "value"]),
        (["size=3", "names={}", "version=1.0", "sice=4"], ["input-unknown", "value"]),
        (["size=3", "names=[]", "version=1.0", "free=5"], []),
    ],
)
def test_values_of_inputs_are_checked(
    machine: Machine, inputs: list[str], codes: list[str], tmp_path: Path
) -> None:
    """A value is JSON where its type wants no text; those that are there are not left open."""
    (tmp_path / "given.yaml").write_text(GIVEN)
    options = [part for each in inputs for part in ("--input", each)]
    done = validate(machine, "--json", *options, str(tmp_path / "given.yaml"))
    found = json.loads(done.out)
    assert [each["code"] for each in found["mistakes"]] == codes
    assert found["open"] == []
    assert all(each["line"] in range(3, 7) for each in found["mistakes"])


def test_inputs_without_a_value_are_left_open(machine: Machine, tmp_path: Path) -> None:
    """Those that are required."""
    (tmp_path / "given.yaml").write_text(GIVEN)
    found = json.loads(
        validate(
            machine, "--json", "--input", "size=3", str(tmp_path / "given.yaml")
        ).out
    )
    assert [(each["code"], each["path"]) for each in found["open"]] == [
        ("open-input", "topology_template.inputs.names"),
        ("open-input", "topology_template.inputs.version"),
    ]


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("tosca_definitions_version: tosca_simple_yaml_1_3\n", True),
        (
            "\ufeff# of a shop\n\n---\n  \ntosca_definitions_version: tosca_simple_yaml_1_3\n",
            True,
        ),
        ("heat_template_version: 2018-08-31\nresources: {}\n", True),
        ("description: x\ntosca_definitions_version: tosca_simple_yaml_1_3\n", False),
        ("- config: tosca_definitions_version\n", False),
        ("# tosca_definitions_version: x\n- group: script\n", False),
        ("", False),
    ],
)
def test_first_key_says_that_a_file_is_a_template(
    text: str, is_one: bool, tmp_path: Path
) -> None:
    """All others are read as documents first: then it is certain what they are."""
    path = tmp_path / "file"
    path.write_text(text)
    assert is_template(str(path)) is is_one
    assert not is_template(str(tmp_path))
    assert not is_template(str(tmp_path / "nothing"))


def test_a_substitute_for_a_node_that_is_not_there_is_refused(
    machine: Machine, files: dict[str, str]
) -> None:
    """It would change nothing; the node that was probably meant is named."""
    words = [
        files["good"],
        "--plan",
        "--substitute",
        "A=inner.yaml",
        "--state-dir",
        str(machine.state),
    ]

    done = machine.command("heat-config-apply", words, {})

    assert (done.code, done.err) == (
        2,
        "error: --substitute names no node A (did you mean a?)\n",
    )
