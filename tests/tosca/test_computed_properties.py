"""Computed properties are checked against their types and constraints before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from heat_config_agent.diagnostics.mistakes import Invalid
from heat_config_stack.definition import Identity
from heat_config_stack.tosca.compilation import loader, reader

SERVICE = """\
tosca_definitions_version: tosca_simple_yaml_1_3
capability_types:
  Service: { derived_from: tosca.capabilities.Root, properties: { level: { type: integer, required: false } } }
relationship_types:
  Uses: { derived_from: DependsOn, properties: { name: { type: string, constraints: [ max_length: 5 ] } } }
node_types:
  App:
    derived_from: tosca.nodes.Root
    properties:
      port: { type: integer, constraints: [ in_range: [ 1, 100 ] ] }
      address: { type: string, constraints: [ pattern: "http://.*" ] }
      sizes: { type: list, entry_schema: scalar-unit.size, required: false }
      state_of_host: { type: integer, required: false }
    capabilities: { service: Service }
topology_template:
  inputs:
    port: { type: integer, default: 80 }
    scheme: { type: string, default: http }
    size: { type: string, default: 1 GB }
    level: { type: string, default: "", required: false }
    name: { type: string, default: short }
    unused: { type: string, required: false }
  node_templates:
    app:
      type: App
      properties:
        port: { get_input: port }
        address: { concat: [ { get_input: scheme }, "://", { get_property: [ SELF, port ] } ] }
        sizes: [ 2 GB, { get_input: size } ]
    other:
      type: App
      properties: { port: 1, address: "http://", sizes: [ { get_input: unused } ] }
      capabilities: { service: { properties: { level: LEVEL } } }
      requirements:
        - dependency: { node: app, relationship: { type: Uses, properties: { name: { get_input: name } } } }
"""


def mistakes(
    path: Path, inputs: dict[str, str], level: str = "1"
) -> list[tuple[str, str]]:
    """Return the code of each mistake, with its place and text."""
    path.write_text(SERVICE.replace("LEVEL", level))
    try:
        reader.define(
            str(path), reader.Wish(inputs, {}, {}, {}), Identity("service", "1")
        )
    except Invalid as error:
        return [(mistake.code, str(mistake)) for mistake in error.mistakes]
    return []


@pytest.mark.parametrize(
    ("inputs", "code", "line", "problem"),
    [
        (
            {"port": "8080"},
            "constraint",
            "port: { get_input: port }",
            "port does not meet the constraint in_range [1, 100]",
        ),
        (
            {"scheme": "ftp"},
            "constraint",
            "address: { concat",
            "address does not meet the constraint pattern",
        ),
        ({"size": "much"}, "value", "sizes: [ 2 GB", "entry 1 of sizes"),
        (
            {"name": "much longer"},
            "constraint",
            "- dependency:",
            "name does not meet the constraint max_length 5",
        ),
    ],
)
def test_a_value_that_an_input_gives_has_to_fit(
    inputs: dict[str, str], code: str, line: str, problem: str, tmp_path: Path
) -> None:
    """The mistake names the property and its place; with the defaults there is none."""
    path = tmp_path / "service.yaml"
    assert mistakes(path, {}) == []
    ((found, text),) = mistakes(path, inputs)
    assert found == code
    assert problem in text
    number = next(
        number for number, of in enumerate(SERVICE.splitlines(), 1) if line in of
    )
    assert f"service.yaml:{number}:" in text


def test_properties_of_capabilities_have_to_fit(tmp_path: Path) -> None:
    """A text is refused as a level; a missing value is not checked."""
    path = tmp_path / "service.yaml"
    ((code, text),) = mistakes(path, {"level": "high"}, "{ get_input: level }")
    assert code == "value"
    assert "node_templates.other.capabilities.service.properties.level" in text
    assert mistakes(path, {}, "{ get_input: unused }") == []


def test_a_stack_that_exists_is_loaded_whatever_its_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An earlier version let them pass, and the stack has to be deleted."""
    path, identity = tmp_path / "service.yaml", Identity("service", "1")
    path.write_text(SERVICE.replace("LEVEL", "1"))
    with monkeypatch.context() as earlier:
        earlier.setattr(loader, "check_computed", lambda *_: None)
        source = reader.define(
            str(path), reader.Wish({"port": "8080"}, {}, {}, {}), identity
        ).source
    monkeypatch.setattr(loader, "_loaded", [])
    assert loader.load(source, identity).resources
