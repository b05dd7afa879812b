"""`heat-config-agent template validate`, as people and editors meet it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hot.made import VERSION
from support.machine import Done, Machine

GOOD = (
    VERSION
    + """\
description: An example
parameter_groups: [{label: All, parameters: [size, secret]}]
parameters:
  size:
    type: number
    label: Size
    description: how many
    default: 3
    constraints: [{range: {min: 1, max: 9}, description: a few}, {modulo: {step: 1, offset: 0}}]
  secret: {type: string, hidden: true, default: geheim}
  name: {type: string, constraints: [{allowed_pattern: '[a-z]+'}, {length: {max: 5}}, {allowed_values: [abc, x]}]}
resources:
  value: {type: OS::Heat::Value, properties: {value: {get_param: name}}}
outputs:
  value: {value: {get_attr: [value, value]}}
"""
)


def validate(machine: Machine, *arguments: str, told: str = "") -> Done:
    """Run the command to its end; `told` for it to say what it loads."""
    environment = {"PYTHONPROFILEIMPORTTIME": told} if told else {}
    return machine.command(
        "heat-config-agent", ["template", "validate", *arguments], environment
    )


@pytest.fixture
def good(machine: Machine) -> Path:
    """A template without mistakes."""
    path = machine.folder / "good.yaml"
    path.write_text(GOOD)
    return path


def test_a_valid_template_shows_its_parameters(machine: Machine, good: Path) -> None:
    """Values that are needed and not given are accepted, and hidden ones are shown to nobody."""
    done = validate(machine, str(good))
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        f"{good} is valid: 1 resource, 1 output",
        "",
        "  PARAMETER  TYPE    DEFAULT  DESCRIPTION",
        "All",
        "  size       number  3        how many",
        "  secret     string  ******",
        "other parameters",
        "  name       string  -",
    ]


def test_json_has_the_keys_of_heat(machine: Machine, good: Path) -> None:
    """The keys of `openstack orchestration template validate`, and our own beside them."""
    done = validate(
        machine, "-t", str(good), "--parameter", "size=4", "--format", "json"
    )
    assert done.code == 0
    assert json.loads(done.out) == {
        "file": str(good),
        "valid": True,
        "mistakes": [],
        "warnings": [],
        "open": [],
        "Description": "An example",
        "Parameters": {
            "size": {
                "Type": "Number",
                "Label": "Size",
                "Description": "how many",
                "NoEcho": "false",
                "Default": 3,
                "Value": 4,
                "MinValue": 1,
                "MaxValue": 9,
                "Step": 1,
                "Offset": 0,
                "ConstraintDescription": "a few",
            },
            "secret": {
                "Type": "String",
                "Label": "secret",
                "Description": "",
                "NoEcho": "true",
                "Default": "******",
            },
            "name": {
                "Type": "String",
                "Label": "name",
                "Description": "",
                "NoEcho": "false",
                "AllowedPattern": "[a-z]+",
                "MaxLength": 5,
                "AllowedValues": ["abc", "x"],
            },
        },
        "ParameterGroups": [
            {"label": "All", "description": "", "parameters": ["size", "secret"]}
        ],
    }


def test_mistakes_are_shown_with_their_places(machine: Machine, good: Path) -> None:
    """Each mistake is one line in the form of compilers, and so is each warning."""
    text = (
        GOOD.replace("get_param: name", "get_param: nmae")
        + "  odd: {value: {get_parm: size}}\n"
    )
    good.write_text(text.replace("default: 3", "default: 30"))
    done = validate(machine, "good.yaml")
    assert (done.code, done.out) == (1, "")
    assert done.err.splitlines() == [
        "good.yaml:9:5: error: parameters.size.default: Parameter 'size' is invalid: Invalid default 30 (a few)",
        (
            "good.yaml:14:55: error: resources.value.properties.value: The Parameter (nmae) was not provided. (did you "
            "mean name?)"
        ),
        (
            "good.yaml:17:17: warning: outputs.odd.value.get_parm: get_parm is not a function of 2018-08-31: this map "
            "is used as it is (did you mean get_param?)"
        ),
        "good.yaml: 2 mistakes, 1 warning",
    ]


def test_json_has_the_parts_of_mistakes(machine: Machine, good: Path) -> None:
    """The exit code is the same."""
    good.write_text(VERSION + "resources: {r: {}}\n")
    done = validate(machine, "good.yaml", "--format", "json")
    assert done.code == 1
    assert json.loads(done.out) == {
        "file": "good.yaml",
        "valid": False,
        "open": [],
        "mistakes": [
            {
                "code": None,
                "problem": "Each resource must contain a type key.",
                "hint": None,
                "path": "resources.r",
                "file": "good.yaml",
                "line": 2,
                "column": 13,
                "stage": "template",
            }
        ],
        "warnings": [],
    }


def test_warnings_fail_where_that_is_asked_for(machine: Machine, good: Path) -> None:
    """Otherwise they are only shown."""
    good.write_text(VERSION + "outputs: {o: {value: 1, valeu: 2}}\n")
    codes = [validate(machine, "good.yaml", *more).code for more in ([], ["--strict"])]
    assert codes == [0, 1]


def test_values_are_left_to_the_creation_while_a_parameter_has_none(
    machine: Machine, good: Path
) -> None:
    """Then Heat's verdict does not depend on values: a wrong one is a warning, which fails where that is asked for."""
    wrong = """\
  joined: {type: OS::Heat::Value, properties: {value: {list_join: [",", [1]]}}}
  config: {type: OS::Heat::StructuredConfig, properties: {config: [a]}}
"""
    good.write_text(GOOD.replace("outputs:\n", f"{wrong}outputs:\n"))
    left = validate(machine, "good.yaml")
    assert left.code == 0
    joined, config = [line.split(": ", 2)[1:] for line in left.err.splitlines()]
    assert joined[0] == config[0] == "warning"
    assert joined[1].startswith(
        "resources.joined.properties.value: Items to join must be string, map or list not 1 ("
    )
    assert (
        config[1]
        == "resources.config.properties.config: \"['a']\" is not a map (the creation of the stack will fail)"
    )
    assert validate(machine, "good.yaml", "--strict").code == 1
    known = validate(machine, "good.yaml", "--parameter", "name=abc")
    assert (known.code, known.err.count(": error: ")) == (1, 2)


def test_nested_templates_and_environments_are_looked_at(
    machine: Machine, good: Path
) -> None:
    """A mistake is shown in its own file, and a missing file where it is named."""
    (machine.folder / "env").mkdir()
    files: dict[str, str] = {
        "t.yaml": VERSION + "resources: {a: {type: My::A}, b: {type: lost.yaml}}\n",
        "env/e.yaml": "resource_registry: {'My::A': a.yaml}\nparameters: {zz: 1}\n",
        "env/a.yaml": VERSION + "resources: {inner: {type: X, depends_on: none}}\n",
    }
    for name, text in files.items():
        (machine.folder / name).write_text(text)
    done = validate(machine, "-t", "t.yaml", "-e", "env/e.yaml")
    assert done.code == 1
    assert done.err.splitlines() == [
        (
            "t.yaml:2:35: error: cannot read lost.yaml: No such file or directory (its path begins at the file that "
            "names it)"
        ),
        "env/e.yaml:2:14: error: The Parameter (zz) was not defined in template.",
        (
            'env/a.yaml:2:30: error: resources.a.resources.inner.depends_on[0]: The specified reference "none" (in '
            "inner) is incorrect."
        ),
        "t.yaml: 3 mistakes, 0 warnings",
    ]
    assert good.exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "no template is named"),
        (["a", "-t", "b"], "the template is named twice"),
        (["nosuch.yaml"], "cannot read nosuch.yaml: No such file or directory"),
        (["good.yaml", "-e", "nosuch.yaml"], "cannot read nosuch.yaml"),
        (
            ["good.yaml", "--parameter", "name"],
            "--parameter takes NAME=VALUE, not 'name'",
        ),
        (
            ["good.yaml", "--parameter-file", "name=nosuch"],
            "cannot read nosuch, the value of name",
        ),
    ],
)
@pytest.mark.usefixtures("good")
def test_wrong_usage_is_one_sentence(
    machine: Machine, arguments: list[str], said: str
) -> None:
    """With the exit code of wrong usage."""
    done = validate(machine, *arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"error: {said}")
    assert len(done.err.splitlines()) == 1


def values(machine: Machine, *arguments: str) -> dict[str, Any]:
    """Return the values of parameters that were given."""
    [found] = validate(machine, "good.yaml", "--json", *arguments).data["files"]
    return {
        name: each["Value"]
        for name, each in found["heat"]["Parameters"].items()
        if "Value" in each
    }


@pytest.mark.usefixtures("good")
def test_parameters_are_given_as_openstack_takes_them(machine: Machine) -> None:
    """An option has one or several parameters, or a file has their values, with any equals signs."""
    (machine.folder / "value").write_text("x")
    assert values(machine, "--parameter", "size=4;name=x") == {"size": 4, "name": "x"}
    assert values(
        machine, "--parameter", "size=4", "--parameter-file", "name=value"
    ) == {"size": 4, "name": "x"}
    assert values(machine, "--parameter", "secret=a=b; c") == {"secret": "******"}


def test_template_command_loads_only_its_own_modules(
    machine: Machine, good: Path
) -> None:
    """Other commands load none of it, and it loads nothing of the engine or of what speaks to servers."""
    done = validate(machine, str(good), told="1")
    assert "heat_config_stack.hot.compiler" in done.err
    assert not [
        each
        for each in (
            "requests",
            "psutil",
            "heat_config_agent.state.journal",
            "heat_config_stack.lifecycle.live",
        )
        if f"| {each}\n" in done.err
    ]
    other = machine.agent("status", PYTHONPROFILEIMPORTTIME="1")
    assert "heat_config_stack.hot" not in other.err


TYPED = (
    VERSION
    + """\
parameters: {many: {type: number}}
resources:
  config: {type: OS::Heat::SoftwareConfig, properties: {grup: script}}
  other: {type: OS::Heat::Valu}
  all:
    type: OS::Heat::ResourceGroup
    properties: {count: {get_param: many}, resource_def: {type: OS::Heat::Value, properties: {valu: 1}}}
outputs:
  lost: {value: {get_attr: [config, nothing]}}
"""
)


def test_types_properties_and_attributes_are_looked_at(machine: Machine) -> None:
    """Child stacks are checked too, as soon as their parameters are known."""
    path = machine.folder / "typed.yaml"
    path.write_text(TYPED)
    own = [
        "Unknown Property grup (did you mean group?)",
        "The Resource Type (OS::Heat::Valu) could not be found",
        "(config nothing)",
    ]
    done = validate(machine, str(path))
    assert done.code == 1
    assert [line.partition(": error: ")[0] for line in done.err.splitlines()[:3]] == [
        f"{path}:{place}" for place in ("4:57", "5:11", "10:18")
    ]
    assert all(
        each in line for each, line in zip(own, done.err.splitlines(), strict=False)
    )
    assert "3 mistakes" in done.err
    done = validate(machine, "--parameter", "many=2", str(path))
    assert "Unknown Property valu (did you mean value?)" in done.err


def test_missing_value_of_a_nested_template_is_a_warning(
    machine: Machine, tmp_path: Path
) -> None:
    """A parameter of a nested template with no value or a wrong default: `parameter_defaults` give it one."""
    child = "parameters: {a: {type: string}, b: {type: string, default: '', constraints: [{length: {min: 1}}]}}\n"
    (tmp_path / "child.yaml").write_text(f"{VERSION}{child}")
    parent, environment = tmp_path / "parent.yaml", tmp_path / "environment.yaml"
    parent.write_text(f"{VERSION}resources: {{c: {{type: child.yaml}}}}\n")
    environment.write_text("parameter_defaults: {a: x, b: y}\n")
    done = validate(machine, str(parent))
    assert done.code == 0
    assert (
        "warning: resources.c.properties: Property a not assigned (unless parameter_defaults give a"
        in done.err
    )
    assert "Parameter 'b' is invalid: Invalid default  (" in done.err
    done = validate(machine, str(parent), "-e", str(environment))
    assert (done.code, done.err) == (0, "")
    done = machine.command(
        "heat-config-agent",
        ["stack", "create", "s", "--dry-run", "-t", str(parent)],
        {},
    )
    assert done.code == 2
    assert "error: resources.c.properties: Property a not assigned" in done.err
