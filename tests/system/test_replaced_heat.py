from __future__ import annotations

import json
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


@pytest.mark.parametrize("transport", ["HEAT_SIGNAL", "TEMP_URL_SIGNAL"])
def test_unhealthy_deployment_is_reported_as_every_replaced_one(
    cloud: Lab, agents: Agents, tmp_path: Path, transport: str
) -> None:
    """Heat replaces what an operator marks as unhealthy: DELETE of the old one runs after CREATE of the new one."""
    name, ran = cloud.name("unhealthy"), tmp_path / "ran"
    template = TEMPLATE.replace("FOLDER", str(tmp_path))
    template = template.replace("HEAT_SIGNAL", transport)
    cloud.stack_create(name, template, {"who": "fine"})
    agent = agents.start("agent", cloud.settings(name))
    cloud.wait(name, "CREATE_COMPLETE")

    cloud.mark_unhealthy(name, "web", "by hand")
    cloud.stack_update(name, template, {"who": "fine"})

    machine = Machine(tmp_path / "agent")
    machine.state = agent.state
    eventually(lambda: "ran after" in _told(machine), lambda: agent.log)
    assert ran.read_text().split() == [
        "CREATE",
        "fine",
        "CREATE",
        "fine",
        "DELETE",
        "fine",
    ]
    order = f"{name}/web: Heat is replacing it, and the DELETE of the old one runs after the CREATE of the new one"
    assert order in agent.log
    if transport == "HEAT_SIGNAL":
        [told] = machine.agent("status", "--json").json["replaced"]
        cloud.complete_deployment(told["old"])
    cloud.wait(name, "UPDATE_COMPLETE")
    eventually(lambda: "Heat has replaced it" in _told(machine), lambda: agent.log)


def test_unhealthy_server_needs_a_hand_for_its_old_deployments(
    cloud: Lab, agents: Agents, tmp_path: Path
) -> None:
    """Heat refuses the old agent what it is to delete, so the stack waits until the advice of the page is followed."""
    name, ran = cloud.name("unhealthy"), tmp_path / "ran"
    template = TEMPLATE.replace("FOLDER", str(tmp_path))
    cloud.stack_create(name, template, {"who": "fine"})
    agent = agents.start("agent", cloud.settings(name))
    cloud.wait(name, "CREATE_COMPLETE")
    old = cloud.resource_get(name, "server").physical

    cloud.mark_unhealthy(name, "server", "its user is gone")
    cloud.stack_update(name, template, {"who": "fine"})
    eventually(
        lambda: "its server resource, been deleted or replaced?" in agent.log,
        lambda: agent.log,
    )
    agent.stop()
    agent.boot.write_text(json.dumps(cloud.settings(name)))
    agent.start()
    eventually(lambda: ran.read_text().count("CREATE") == 2, lambda: agent.log)
    eventually(lambda: bool(cloud.deletions(old)), lambda: agent.log)
    [deletion] = cloud.deletions(old)
    cloud.complete_deployment(deletion)

    cloud.wait(name, "UPDATE_COMPLETE")
    assert "DELETE" not in ran.read_text()


def _told(machine: Machine) -> str:
    """Return the sentences about replaced deployments."""
    return " ".join(
        each["says"] for each in machine.agent("status", "--json").json["replaced"]
    )
