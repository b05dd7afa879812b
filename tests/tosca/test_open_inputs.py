"""An export of a service whose inputs have no values: they are parameters of the template."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from support.machine import Done, Machine

SERVICE = """\
tosca_definitions_version: tosca_simple_yaml_1_3
topology_template:
  inputs:
    log: { type: string }
    port: { type: integer, constraints: [ in_range: [ 1, 65535 ] ] }
    names: { type: list, entry_schema: string }
    limits: { type: map, entry_schema: integer }
    size: { type: scalar-unit.size }
    word: { type: string, metadata: { sensitive: "true" } }
    spare: { type: string, required: false }
  node_templates:
    server: { type: Compute }
    app:
      type: SoftwareComponent
      requirements: [ { host: server } ]
      interfaces:
        Standard:
          create:
            implementation: create.sh
            inputs: INPUTS
  outputs:
    address: { value: { concat: [ "http://localhost:", { get_input: port } ] } }
"""

INPUTS = (
    "{ log: { get_input: log }, port: { get_input: port }, names: { get_input: names }, limits: { get_input: limits },"
    " size: { get_input: size }, word: { get_input: word } }"
)

SCRIPT = '#!/bin/bash\necho "$port $names $limits $size $word" >>"$log"\n'


def exported(machine: Machine, inputs: str = INPUTS, *options: str) -> Done:
    """Export the service."""
    (machine.folder / "service.yaml").write_text(SERVICE.replace("INPUTS", inputs))
    (machine.folder / "create.sh").write_text(SCRIPT)
    return machine.command(
        "heat-config-agent",
        ["template", "export", str(machine.folder / "service.yaml"), *options],
        {},
    )


def test_inputs_without_values_are_parameters_without_defaults(
    machine: Machine,
) -> None:
    """The template asks for them, and hands them on unchanged."""
    done = exported(machine)
    assert done.code == 0, done
    parameters: dict[str, Any] = yaml.safe_load(done.out)["parameters"]
    own = {
        name: of for name, of in parameters.items() if not name.startswith("server_")
    }
    assert {name: of["type"] for name, of in own.items()} == {
        "log": "string",
        "port": "number",
        "names": "json",
        "limits": "json",
        "size": "string",
        "word": "string",
    }
    assert not any("default" in of for of in own.values())
    assert own["port"]["constraints"] == [{"range": {"min": 1, "max": 65535}}]
    assert own["word"]["hidden"] is True

    template = machine.folder / "exported.yaml"
    template.write_text(done.out)
    log = machine.folder / "log"
    given = {
        "log": log,
        "port": 8080,
        "names": '["a", "b"]',
        "limits": '{"soft": 1}',
        "size": "4 GB",
        "word": "key",
    }
    words = [f"--parameter={name}={value}" for name, value in given.items()]
    done = machine.command(
        "heat-config-apply",
        [str(template), *words, "--state-dir", str(machine.state)],
        {},
    )
    assert done.code == 0, done.out + done.err
    assert log.read_text() == '8080 ["a","b"] {"soft":1} 4 GB key\n'


@pytest.mark.parametrize(
    ("inputs", "name"),
    [
        ("{ log: { get_input: log }, first: { get_input: [ names, 1 ] } }", "names"),
        (
            "{ log: { get_input: log }, soft: { get_input: [ limits, soft ] } }",
            "limits",
        ),
        (
            "{ log: { get_input: log }, part: { token: [ { get_input: word }, '-', 0 ] } }",
            "word",
        ),
    ],
)
def test_an_input_that_something_is_computed_with_needs_a_value(
    inputs: str, name: str, machine: Machine
) -> None:
    """One sentence says which; with the value the template is made."""
    done = exported(machine, inputs)
    assert done.code != 0
    assert f"no parameter can stand for {name}: give a value with --input" in " ".join(
        done.err.split()
    )
    values = {"names": '["a","b"]', "limits": '{"soft":1}', "word": "a-b"}
    assert exported(machine, inputs, "--input", f"{name}={values[name]}").code == 0


def test_a_truth_value_needs_a_value(machine: Machine) -> None:
    """Nothing can stand for one while the service is compiled."""
    path: Path = machine.folder / "service.yaml"
    done = exported(machine)
    path.write_text(
        path.read_text().replace(
            "port: { type: integer, constraints: [ in_range: [ 1, 65535 ] ] }",
            "port: boolean",
        )
    )
    path.write_text(
        path.read_text().replace("port: boolean", "port: { type: boolean }")
    )
    refused = machine.command(
        "heat-config-agent", ["template", "export", str(path)], {}
    )
    assert done.code == 0
    assert refused.code != 0
    assert (
        "the input port needs a value, because it is of the type boolean"
        in " ".join(refused.err.split())
    )
