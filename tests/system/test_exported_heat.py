"""A TOSCA service on two servers of a real Heat: exported, created, changed and deleted there."""

from __future__ import annotations

import pytest

from support.machine import Machine
from system.agents import Agents
from system.openstack import Lab

pytestmark = [pytest.mark.takes(1000), pytest.mark.xdist_group("second cloud")]

SERVICE = """\
tosca_definitions_version: tosca_simple_yaml_1_3
metadata: { template_name: shop, template_version: 1.0.0 }
node_types:
  Part:
    derived_from: tosca.nodes.SoftwareComponent
    properties: { word: { type: string } }
    attributes: { answer: { type: string } }
    requirements: [ peer: { capability: tosca.capabilities.Node, relationship: Talks, occurrences: [ 0, 1 ] } ]
    interfaces:
      Standard:
        inputs: { log: { type: string, default: { get_input: log } } }
        create: { implementation: say.sh, outputs: { answer: [ SELF, answer ] } }
        start: { implementation: say.sh, inputs: { word: { type: string, default: { get_property: [ SELF, word ] } } } }
        stop: say.sh
        delete: say.sh
relationship_types:
  Talks:
    derived_from: tosca.relationships.DependsOn
    interfaces:
      Configure:
        inputs: { log: { type: string, default: { get_input: log } } }
        add_target:
          implementation: say.sh
          inputs: { told: { type: string, default: { get_attribute: [ TARGET, answer ] } } }
        remove_target: say.sh
topology_template:
  inputs: { log: { type: string }, word: { type: string, default: one } }
  node_templates:
    one: { type: tosca.nodes.Compute }
    two: { type: tosca.nodes.Compute }
    base: { type: Part, properties: { word: { get_input: word } }, requirements: [ host: one ] }
    user: { type: Part, properties: { word: fixed }, requirements: [ host: two, peer: base ] }
  outputs: { answer: { value: { get_attribute: [ user, answer ] } } }
"""
SCRIPT = """\
#!/bin/bash
. "$(dirname "$0")/line.sh"
say $TOSCA_NODE $TOSCA_OPERATION $word $told at $AGENT
export answer="answer of $TOSCA_NODE"
"""
BESIDE = """\
say() { echo "$@" >>"$log"; }
"""
CREATED = [
    "base create at one",
    "base start first at one",
    "user create at two",
    "user start fixed at two",
    "user add_target answer of base at two",
]
CHANGED = ["base stop at one", "base start second at one"]
DELETED = [
    "user remove_target at two",
    "user stop at two",
    "user delete at two",
    "base stop at one",
    "base delete at one",
]


def exported(machine: Machine, tool: str) -> str:
    """Return the template of the service for servers that exist."""
    folder = machine.folder / tool
    folder.mkdir()
    for name, content in (
        ("service.yaml", SERVICE),
        ("say.sh", SCRIPT),
        ("line.sh", BESIDE),
    ):
        (folder / name).write_text(content)
    arguments = ["template", "export", "--deployed", "--tool", tool, str(folder)]
    done = machine.command("heat-config-agent", arguments, {})
    assert done.code == 0, done
    return done.out


@pytest.mark.timeout(300)
def test_a_service_outgrows_one_machine(
    cloud: Lab, agents: Agents, machine: Machine
) -> None:
    """Each operation runs once, on its server and in TOSCA's order, with the tool of this agent and as a script."""
    logs = {tool: machine.folder / f"{tool}.log" for tool in ("tosca", "script")}
    names, templates = {}, {tool: exported(machine, tool) for tool in logs}
    for tool, template in templates.items():
        names[tool] = name = cloud.name(tool)
        cloud.stack_create(name, template, {"log": str(logs[tool]), "word": "first"})
        for server in ("one", "two"):
            settings = cloud.settings(name, server)
            agents.start(f"{tool}-{server}", settings, environment=f"AGENT={server}")
    lines = list(CREATED)
    for tool, name in names.items():
        assert cloud.wait(name, "CREATE_COMPLETE", 180).outputs == {
            "answer": "answer of user"
        }
        assert logs[tool].read_text().splitlines() == lines
    lines += CHANGED
    for tool, name in names.items():
        cloud.stack_update(
            name, templates[tool], {"log": str(logs[tool]), "word": "second"}
        )
    for tool, name in names.items():
        cloud.wait(name, "UPDATE_COMPLETE", 120)
        assert logs[tool].read_text().splitlines() == lines
    lines += DELETED
    for name in names.values():
        cloud.stack_delete(name)
    for tool, name in names.items():
        cloud.wait(name, "DELETE_COMPLETE", 120)
        assert logs[tool].read_text().splitlines() == lines
