"""The answer of every command with --json: one run of each kind, held to its schema as in every test."""

from __future__ import annotations

import shlex

import pytest

from heat_config_agent.cli import schemas
from support.machine import Done, Machine, deployment

HOT = """\
heat_template_version: 2018-08-31
resources:
  stock: {type: OS::Heat::Value, properties: {value: 3}}
outputs:
  answer: {value: 3}
"""

BROKEN = """\
heat_template_version: 2018-08-31
resources:
  machine: {type: OS::Nova::Server, properties: {flavor: m1, image: i}}
  config: {type: OS::Heat::SoftwareConfig, properties: {group: script, config: "#!/bin/sh\\nexit 4\\n"}}
  deploy:
    type: OS::Heat::SoftwareDeployment
    properties: {config: {get_resource: config}, server: {get_resource: machine}}
"""

SERVICE = """\
tosca_definitions_version: tosca_simple_yaml_1_3
topology_template:
  node_templates:
    web: {type: tosca.nodes.Root}
  workflows:
    check:
      steps:
        first: {target: web, activities: [{set_state: started}]}
"""

LINES = {
    "status": "status",
    "deployments": "deployment list",
    "deployment": "show greeting",
    "log": "log greeting",
    "outputs": "deployment output greeting",
    "output": "stack output show shop answer",
    "events": "events",
    "wait": "wait greeting --wait-for 0",
    "verification": "verify greeting --allow-unknown",
    "request": "retry greeting",
    "plan": "plan shop.yaml",
    "stacks": "stack list",
    "stack": "stack show shop",
    "resources": "stack resource list shop",
    "resource": "stack resource show shop stock",
    "resource_types": "stack resource type list --filter name=OS::Heat::Value",
    "resource_type": "stack resource type show OS::Heat::Value",
    "nodes": "stack node list service",
    "node": "stack node show service web",
    "workflows": "stack workflow list service",
    "workflow": "stack workflow run service check",
    "snapshot": "stack snapshot create shop --name first",
    "snapshots": "stack snapshot list shop",
    "template": "stack template show shop",
    "environment": "stack environment show shop",
    "failures": "stack failures list broken",
    "graph": "stack graph shop",
    "sources": "source list --config follow.conf",
    "source": "source show web --config follow.conf",
    "config": "config",
    "pause": "pause --reason test",
    "poll": "poll",
    "prune": "prune --plan",
    "tools": "tool list",
    "tool": "tool show script",
    "policy": "policy explain",
    "validation": "template validate shop.yaml",
    "templates": "template find shop.yaml --all",
    "archive": "template pack service.yaml -o service.zip",
    "bundle": "collect-logs bundle.tar.gz",
    "version": "version",
}
"""The kind of an answer → a command that gives it."""

ELSEWHERE = {
    "apply": "the fixture of this test",
    "doctor": "tests/cli/test_doctor_command.py",
    "envelope": "the object around each of them",
    "event": "tests/cli/test_apply_plan.py and others, with the lines of streams",
    "hosts": "tests/cli/test_stack_hosts.py",
    "line": "the lines of streams",
    "migration": "tests/system/test_migrate.py",
    "setup": "tests/package/test_setup.py",
    "signature": "tests/cli/test_sign_command.py",
}
"""The kind of an answer → where it is tried instead."""


def asked(machine: Machine, line: str) -> Done:
    """Run a command of the agent with --json on the machine's state."""
    return machine.command(
        "heat-config-agent",
        [*shlex.split(line), "--json"],
        {"HEAT_CONFIG_AGENT_STATE": str(machine.state)},
    )


def test_every_kind_is_tried() -> None:
    """A new schema needs a command that answers with it here, or another test of it."""
    assert sorted({**LINES, **ELSEWHERE}) == schemas.kinds()


@pytest.mark.slow
def test_answer_of_each_kind_is_valid(machine: Machine) -> None:
    """Each command of the agent that answers in JSON gives the kind of answer that it declares."""
    machine.write("[follow web]\nurl = /srv/nosuch\n", "follow.conf")
    documents = [deployment("4be13a2c-1", name="greeting", outputs=["said"])]
    assert machine.apply(documents, "--json").json["kind"] == "apply"
    for name, text in (("shop", HOT), ("broken", BROKEN), ("service", SERVICE)):
        code = machine.apply(machine.write(text, f"{name}.yaml")).code
        assert code == (1 if name == "broken" else 0)
    wrong = []
    for kind, line in LINES.items():
        done = asked(machine, line)
        answer = done.json
        if answer["kind"] != kind or (answer["data"] is None and kind != "poll"):
            wrong.append((line, done))
    assert wrong == []
