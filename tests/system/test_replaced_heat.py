from __future__ import annotations

from pathlib import Path

import pytest

from support.machine import Machine
from system.agents import Agents, eventually
from system.openstack import Lab

pytestmark = pytest.mark.timeout(600)  # on a machine with much else to do

TEMPLATE = """
heat_template_version: 2021-04-16
parameters:
  who: {type: string}
resources:
  server: {type: OS::Heat::DeployedServer, properties: {software_config_transport: POLL_SERVER_HEAT}}
  component:
    type: OS::Heat::SoftwareComponent
    properties:
      inputs: [{name: who}]
      configs:
        - actions: [CREATE, UPDATE, DELETE]
          tool: script
          config: |
            #!/bin/sh
            echo "$deploy_action $who" >>FOLDER/ran
            [ "$deploy_action $who" != "CREATE broken" ]
  web:
    type: OS::Heat::SoftwareDeployment
    properties:
      config: {get_resource: component}
      server: {get_resource: server}
      signal_transport: HEAT_SIGNAL
      input_values: {who: {get_param: who}}
"""


def test_advice_for_a_replaced_deployment_frees_its_stack(
    cloud: Lab, agents: Agents, tmp_path: Path
) -> None:
    """Heat replaces a failed deployment, and takes the DELETE's result for that of the new one.

    The agent says so at once, and to set the status of the old one by Heat's API completes the stack.
    """
    name, ran = cloud.name("replaced"), tmp_path / "ran"
    template = TEMPLATE.replace("FOLDER", str(tmp_path))
    cloud.stack_create(name, template, {"who": "broken"})
    agent = agents.start("agent", cloud.settings(name))
    with pytest.raises(AssertionError, match="is CREATE_FAILED"):
        cloud.wait(name, "CREATE_COMPLETE")

    cloud.stack_update(name, template, {"who": "fixed"})
    eventually(
        lambda: ran.read_text().splitlines()[-1].startswith("DELETE"), lambda: agent.log
    )
    ran_so_far = ran.read_text().splitlines()
    assert ran_so_far[:2] == ["CREATE broken", "CREATE fixed"]
    assert len(ran_so_far) == 3
    eventually(
        lambda: (
            f"{name}/web: Heat is replacing it, and the DELETE of the old one"
            in agent.log
        ),
        agent.log,
    )

    machine = Machine(tmp_path / "agent")
    machine.state = agent.state
    eventually(lambda: "ran after" in _told(machine), lambda: agent.log)
    [told] = machine.agent("status", "--json").json["replaced"]
    assert told["title"] == f"{name}/web"
    assert "Heat may take its result for the new one's" in told["says"]
    assert f"whose config is {told['old']}, to COMPLETE by Heat's API" in told["todo"]

    assert cloud.stack_get(name).status == "UPDATE_IN_PROGRESS"
    cloud.complete_deployment(told["old"])
    cloud.wait(name, "UPDATE_COMPLETE")
    eventually(lambda: "Heat has replaced it" in _told(machine), lambda: agent.log)


def _told(machine: Machine) -> str:
    """Return the sentences about replaced deployments."""
    return " ".join(
        each["says"] for each in machine.agent("status", "--json").json["replaced"]
    )
