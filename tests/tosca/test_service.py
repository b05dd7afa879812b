"""The model of a service: what a compiler to stacks builds on."""

from __future__ import annotations

from pathlib import Path

import pytest

from heat_config_stack.tosca.checks.checker import Checker
from heat_config_stack.tosca.topology.requirements import candidates, is_for_machine
from heat_config_stack.tosca.topology.service import Service

TEXT = """\
tosca_definitions_version: tosca_simple_yaml_1_3
node_types:
  App:
    derived_from: SoftwareComponent
    properties: { port: { type: integer, default: 80 }, size: { type: scalar-unit.size, default: 2 GB } }
    requirements:
      - uses: { capability: tosca.capabilities.Endpoint, occurrences: [ 0, UNBOUNDED ] }
    capabilities: { web: tosca.capabilities.Endpoint }
    interfaces:
      Standard:
        inputs: { scope: { type: string, default: interface of the type }, kept: { type: string, default: kept } }
        create: { implementation: type.sh, inputs: { scope: { type: string, default: operation of the type } } }
        start: type.sh
topology_template:
  node_templates:
    server: { type: Compute, capabilities: { os: { properties: { type: Linux, version: 14.10 } } } }
    other: { type: Compute, capabilities: { os: { properties: { type: windows } } } }
    app:
      type: App
      properties: { port: 8080 }
      requirements: [ host: server, uses: copied ]
      interfaces:
        tosca:Standard:
          inputs: { scope: interface of the template }
          create: { inputs: { extra: [ 1 ] } }
          configure: template.sh
    copied: { copy: app, properties: { size: 1 GB }, requirements: [ host: other ] }
    matched:
      type: App
      requirements:
        - host:
            node_filter: { capabilities: [ os: { properties: [ type: LINUX, version: { greater_than: 14.9 } ] } ] }
        - uses:
            node: App
            node_filter: { properties: [ port: { in_range: [ 8000, 9000 ] }, size: { less_than: 1500 MB } ] }
    alone:
      type: App
      requirements:
        - host: { node_filter: { capabilities: [ os: { properties: [ type: plan9 ] } ] } }
"""


@pytest.fixture
def service(tmp_path: Path) -> Service:
    """Return the model of the text."""
    path = tmp_path / "service.yaml"
    path.write_text(TEXT)
    found = Checker().check(str(path))
    assert found.mistakes == []
    assert found.service
    return found.service


def test_a_requirement_has_its_target_capability_and_relationship(
    service: Service,
) -> None:
    """The relationship is that of the capability where none is named."""
    host, uses = service.nodes["app"].requirements
    assert (host.target, uses.target) == (
        service.nodes["server"],
        service.nodes["copied"],
    )
    assert host.capability
    assert uses.capability
    assert (host.capability.name, uses.capability.name) == ("host", "web")
    types = [requirement.relationship_type for requirement in (host, uses)]
    assert [type_.name for type_ in types if type_] == [
        "tosca.relationships.HostedOn",
        "tosca.relationships.ConnectsTo",
    ]
    assert service.nodes["app"].host is service.nodes["server"]


def test_inputs_are_those_of_the_operation_over_those_of_the_interface(
    service: Service,
) -> None:
    """Inputs of an operation override those of the interface, and assigned values override defaults."""
    standard = service.nodes["app"].interface("Standard")
    assert standard
    create = {"scope": "interface of the template", "kept": "kept", "extra": [1]}
    assert dict(standard.inputs("create")) == create
    assert dict(standard.inputs("start")) == {
        "scope": "interface of the template",
        "kept": "kept",
    }


def test_operations_have_their_innermost_implementation(service: Service) -> None:
    """With the document that names it."""
    found = {
        operation.name: operation.implemented.content["implementation"]["primary"]
        for _, operation in service.nodes["app"].operations
        if operation.implemented
    }
    assert found == {
        "create": "type.sh",
        "configure": "template.sh",
        "start": "type.sh",
    }


def test_a_copy_has_what_it_copies(service: Service) -> None:
    """Its own keynames stand in their place; properties are merged."""
    copied = service.nodes["copied"]
    assert copied.type is service.nodes["app"].type
    assert (copied.property_value("port"), copied.property_value("size")) == (
        8080,
        "1 GB",
    )
    assert [requirement.name for requirement in copied.requirements] == ["host"]


def test_nodes_are_matched_by_type_capability_and_filter(service: Service) -> None:
    """Texts of an operating system whatever their case, versions by their order, sizes as quantities."""
    host, uses = service.nodes["matched"].requirements
    assert candidates(host, service) == [service.nodes["server"]]
    assert candidates(uses, service) == [service.nodes["copied"]]
    (lonely,) = service.nodes["alone"].requirements
    assert candidates(lonely, service) == []
    assert is_for_machine(lonely)
    assert not is_for_machine(uses)


def test_a_fixed_value_is_that_of_all_derived_types() -> None:
    """It stands over defaults, and a capability that is given another type keeps it."""
    checked = Checker().check(str(Path(__file__).parent / "rules/fixed-values.yaml"))
    assert checked.service is not None
    nodes = checked.service.nodes

    assert [nodes["fixed"].property_value(name) for name in "pio"] == ["x", 5, "y"]
    assert [
        nodes["default"].property_value("i"),
        nodes["fixed"].capability_property("c", "size"),
    ] == [9, 2]
    assert [
        nodes["party"].capability_property("c", name) for name in ("id", "size")
    ] == ["party", 4]
