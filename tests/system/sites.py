"""Stacks with one server and one deployment, whose script can be held up and mended; each with its agent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from system.agents import Agent, Agents, eventually
from system.openstack import TRANSPORTS, Lab, Stack

TEMPLATE = """
heat_template_version: 2021-04-16
parameters:
  transport: {type: string}
  signal: {type: string}
  who: {type: string, default: world}
  tool: {type: string, default: script}
  script: {type: string, default: ""}
resources:
  server: {type: OS::Heat::DeployedServer, properties: {software_config_transport: {get_param: transport}}}
  config:
    type: OS::Heat::SoftwareConfig
    properties:
      group: {get_param: tool}
      inputs: [{name: who}]
      outputs: [{name: said}, {name: wrong, error_output: true}]
      config:
        str_replace:
          params: {SCRIPT: {get_param: script}}
          template: |
            #!/bin/sh
            echo "$deploy_action $who" >>FOLDER/ran
            while [ -e FOLDER/held ]; do sleep 0.05; done
            echo "hi $who" >$heat_outputs_path.said
            SCRIPT
  deployment:
    type: OS::Heat::SoftwareDeployment
    properties:
      config: {get_resource: config}
      server: {get_resource: server}
      signal_transport: {get_param: signal}
      input_values: {who: {get_param: who}}
outputs:
  said: {value: {get_attr: [deployment, said]}}
"""

LATER = "the result could not be delivered yet"
"""The messages of an agent that cannot deliver a result now."""


class Site:
    """A stack, its agent, and a folder in which the script says what ran."""

    agent: Agent

    def __init__(
        self,
        cloud: Lab,
        agents: Agents,
        folder: Path,
        transport: str,
        **parameters: str,
    ) -> None:
        """Have the stack created; `boot` starts the agent."""
        folder.mkdir(parents=True)
        self.cloud = cloud
        self.folder = folder
        self.name = cloud.name(folder.name)
        self._agents = agents
        self._template = TEMPLATE.replace("FOLDER", str(folder))
        self._parameters = {
            "transport": transport,
            "signal": TRANSPORTS[transport],
            **parameters,
        }
        cloud.stack_create(self.name, self._template, self._parameters)

    def boot(self, proxy: str = "", **settings: object) -> None:
        """Start the agent with what the server was given when it was made."""
        first = self.cloud.settings(self.name)
        self.agent = self._agents.start(
            f"{self.folder.name}-agent", first, proxy, **settings
        )

    def update(self, **parameters: str) -> None:
        """Have Heat update the stack."""
        self._parameters |= parameters
        if "transport" in parameters:
            self._parameters["signal"] = TRANSPORTS[parameters["transport"]]
        self.cloud.stack_update(self.name, self._template, self._parameters)

    def wait(self, status: str, seconds: float = 120) -> Stack:
        """Wait for the stack's status."""
        try:
            return self.cloud.wait(self.name, status, seconds)
        except AssertionError as error:
            pytest.fail(f"{error}\n{self.agent.log}")

    def fails(self, status: str) -> None:
        """Wait until the stack has a status of failure in Heat's database, also while Keystone is away."""
        self.until(
            lambda: self.cloud.recorded(self.name) == status, f"it is not {status}"
        )

    def hold(self) -> None:
        """Have scripts wait, once they have begun."""
        (self.folder / "held").touch()

    def release(self) -> None:
        """Have them go on."""
        (self.folder / "held").unlink()

    @property
    def ran(self) -> list[str]:
        """Return the deployments that ran, in order."""
        path = self.folder / "ran"
        return path.read_text().splitlines() if path.exists() else []

    def begins(self, what: str) -> None:
        """Wait until something has begun to run."""
        self.until(lambda: self.ran[-1:] == [what], f"{what} does not run")

    def says(self, text: str, *, times: int = 1) -> None:
        """Wait until the agent has said something, so often since it was installed."""
        self.until(
            lambda: self.agent.log.count(text) >= times, f"it does not say {text!r}"
        )

    def delivers(self) -> None:
        """Wait until all that has ended is delivered."""
        self.until(
            lambda: all(
                each["state"] != "finished" for each in self.agent.records.values()
            ),
            "results are not sent",
        )

    def until(self, true: Callable[[], object], what: str) -> None:
        """Wait until something is true."""
        eventually(true, lambda: f"{what}\n{self.agent.log}")
