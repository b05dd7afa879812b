"""Workflows and triggers that people start: what is shown of them, and what is left of a run that is killed."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from support.loopback import wait_until
from support.machine import Done, Machine

SCRIPT = """\
#!/bin/bash
echo "$TOSCA_NODE.$TOSCA_OPERATION $word" >>"$log"
while [ -e "$log.$TOSCA_NODE.$TOSCA_OPERATION" ]; do sleep 0.02; done
"""
SERVICE = """\
tosca_definitions_version: tosca_simple_yaml_1_3
interface_types:
  Care: { derived_from: tosca.interfaces.Root, grow: { inputs: { word: { type: string, required: false } } } }
node_types:
  App:
    derived_from: tosca.nodes.SoftwareComponent
    interfaces: { Care: { type: Care } }
topology_template:
  inputs: { log: { type: string } }
  node_templates:
    server: { type: tosca.nodes.Compute }
    one: &app
      type: App
      requirements: [ { host: server } ]
      interfaces:
        Standard:
          inputs: { log: { get_input: log } }
          create: script.sh
          configure: script.sh
          start: script.sh
          delete: script.sh
        Care: { inputs: { log: { get_input: log } }, grow: script.sh }
    two: *app
  policies:
    - load:
        type: tosca.policies.Update
        targets: [ one, two ]
        triggers:
          high: { event: load, action: [ { call_operation: Care.grow } ] }
          low: { event: load, action: grow }
          old: { event_type: load, action: { grow: { inputs: { word: bigger } } } }
  workflows:
    grow:
      description: makes one bigger
      inputs:
        word: { type: string, default: big, description: how big }
        password: { type: string, default: geheim }
        size: { type: integer, required: false }
      steps:
        first:
          target: one
          activities:
            - set_state: growing
            - call_operation: { operation: Care.grow, inputs: { word: { get_input: word } } }
            - set_state: grown
          on_success: second
        second: { target: two, activities: [ { call_operation: Care.grow }, { set_state: grown } ] }
    deploy:
      steps:
        one:
          target: one
          activities: [ { call_operation: Standard.create }, { call_operation: Standard.start } ]
          on_success: two
        two: { target: two, activities: [ { call_operation: Standard.create }, { set_state: ready } ] }
    undeploy:
      steps:
        two: { target: two, activities: [ { call_operation: Standard.delete } ], on_success: one }
        one: { target: one, activities: [ { call_operation: Standard.delete } ] }
"""


class Shop:
    """A service on a machine."""

    def __init__(self, machine: Machine) -> None:
        self.machine, self.log = machine, machine.folder / "log"
        (machine.folder / "script.sh").write_text(SCRIPT)
        (machine.folder / "shop.yaml").write_text(SERVICE)
        self.log.touch()

    def start(self, *words: str) -> Any:
        """Start a command on the service."""
        return self.machine.start(*self._command(words))

    def run(self, *words: str) -> Done:
        """Run a command on the service to its end."""
        program, *arguments = self._command(words)
        return self.machine.command(program, arguments, {}, 120)

    def _command(self, words: tuple[str, ...]) -> list[str]:
        place = ["--state-dir", str(self.machine.state)]
        if words[0] == "apply":
            service = [
                str(self.machine.folder / "shop.yaml"),
                "--input",
                f"log={self.log}",
            ]
            return ["heat-config-apply", *service, *place]
        return ["heat-config-agent", "stack", *words, *place]

    def lines(self) -> list[str]:
        """Return what the scripts have written."""
        return [line.rstrip() for line in self.log.read_text().splitlines()]

    def states(self) -> dict[str, str]:
        """Return the states of the nodes."""
        return {
            node["node"]: node["node_state"]
            for node in self.asked("node", "list", "shop")["nodes"]
        }

    def asked(self, *words: str) -> Any:
        """Return the data that a command answers with."""
        return json.loads(self.run(*words, "--json").out)["data"]

    def kill_at(self, operation: str, *words: str) -> None:
        """Run a command, and kill it while an operation runs, which then ends."""
        held = Path(f"{self.log}.{operation}")
        held.touch()
        process = self.start(*words)
        wait_until(
            lambda: any(line.startswith(operation) for line in self.lines()), seconds=60
        )
        process.kill()
        process.communicate()
        held.unlink()
        time.sleep(0.2)


@pytest.fixture
def shop(machine: Machine) -> Shop:
    """Return the service before anything was done."""
    return Shop(machine)


DEPLOYED = ["one.create", "one.start", "two.create"]
GROWN = ["one.grow big", "two.grow"]


def test_workflows_and_triggers_are_started(shop: Shop) -> None:
    """With their inputs; what they have done is shown, and secrets are not."""
    assert shop.run("apply").code == 0
    assert shop.lines() == DEPLOYED
    listed = {
        row["name"]: row for row in shop.asked("workflow", "list", "shop")["workflows"]
    }
    triggers = [name for name, row in listed.items() if row["kind"] == "trigger"]
    assert triggers == ["load.high", "load.low", "load.old"]
    statuses = {name: row["status"] for name, row in listed.items()}
    assert {name: statuses[name] for name in statuses if name not in triggers} == {
        "grow": None,
        "deploy": "COMPLETE",
        "undeploy": None,
    }
    assert listed["grow"]["inputs"]["password"]["default"] == "***"
    assert listed["grow"]["inputs"]["word"] == {
        "type": "string",
        "description": "how big",
        "default": "big",
        "required": True,
    }
    for words in (
        ("workflow", "run", "shop", "grow", "--input", "word=huge"),
        ("trigger", "shop", "load.high"),
        ("trigger", "shop", "load.low"),
        ("trigger", "shop", "load.old"),
    ):
        done = shop.run(*words)
        assert done.code == 0, done
    assert shop.lines()[3:] == [
        *("one.grow huge", "two.grow"),
        *("one.grow", "two.grow"),
        *GROWN,
        *("one.grow bigger", "two.grow bigger"),
    ]
    shown = shop.asked("node", "show", "shop", "one")
    assert (shown["node_state"], shown["host"], shown["attributes"]["tosca_name"]) == (
        "grown",
        "server",
        "one",
    )
    assert "one.create" in shown["operations"]
    assert "grow" in shop.run("workflow", "list", "shop").out
    assert "state        ok (grown)" in shop.run("node", "show", "shop", "one").out


REFUSED = {
    (
        "workflow",
        "run",
        "shop",
        "shrink",
    ): "the stack shop has no workflow shrink (it has grow, deploy, undeploy)",
    (
        "workflow",
        "run",
        "shop",
        "grwo",
    ): "the stack shop has no workflow grwo (did you mean grow?)",
    (
        "workflow",
        "run",
        "shop",
        "grow",
        "--input",
        "wrod=x",
    ): "there is no input wrod (did you mean word?)",
    (
        "workflow",
        "run",
        "shop",
        "grow",
        "--input",
        "size=x",
    ): "size must be a whole number, not text",
    (
        "workflow",
        "run",
        "shop",
        "grow",
        "--input",
        "size",
    ): "--input takes NAME=VALUE, not 'size'",
    ("workflow", "run", "none", "grow"): "there is no stack none",
    (
        "trigger",
        "shop",
        "load.none",
    ): "the stack shop has no trigger load.none (it has load.high, load.low, load.old)",
    ("node", "show", "shop", "three"): "the stack shop has no node three",
}
"""The commands that are refused, with what they say."""


def test_unknown_workflow_is_refused(shop: Shop) -> None:
    """With one sentence; nothing is run."""
    assert shop.run("apply").code == 0
    for words, sentence in REFUSED.items():
        done = shop.run(*words)
        assert done.code == (8 if "--input" not in words else 2)
        assert sentence in done.err
    assert shop.lines() == DEPLOYED


@pytest.mark.parametrize(
    "operation",
    [GROWN[0], *(pytest.param(each, marks=pytest.mark.slow) for each in GROWN[1:])],
)
def test_a_workflow_that_is_killed_goes_on(shop: Shop, operation: str) -> None:
    """The same command ends in the state of an uninterrupted run, and nothing runs twice."""
    assert shop.run("apply").code == 0
    command = ("workflow", "run", "shop", "grow")
    shop.kill_at(operation.partition(" ")[0], *command)
    assert shop.run(*command).code == 0
    assert shop.lines() == [*DEPLOYED, *GROWN]
    assert shop.states() == {"server": "started", "one": "grown", "two": "grown"}


@pytest.mark.parametrize(
    "operation",
    [
        DEPLOYED[0],
        *(pytest.param(each, marks=pytest.mark.slow) for each in DEPLOYED[1:]),
    ],
)
def test_a_deployment_that_is_killed_goes_on(shop: Shop, operation: str) -> None:
    """The service has a workflow of its own for the deployment."""
    shop.kill_at(operation, "apply")
    assert shop.run("apply").code == 0
    assert shop.lines() == DEPLOYED
    assert shop.states() == {"server": "started", "one": "started", "two": "ready"}
    assert shop.run("apply").code == 0
    assert shop.lines() == DEPLOYED


@pytest.mark.parametrize(
    "operation", ["two.delete", pytest.param("one.delete", marks=pytest.mark.slow)]
)
def test_a_removal_that_is_killed_goes_on(shop: Shop, operation: str) -> None:
    """Nothing is left of the service at its end."""
    assert shop.run("apply").code == 0
    shop.kill_at(operation, "delete", "shop", "--yes")
    assert shop.run("delete", "shop", "--yes").code == 0
    assert shop.lines() == [*DEPLOYED, "two.delete", "one.delete"]
    assert shop.run("show", "shop").code == 8


def test_killed_workflow_is_finished_before_the_stack_changes(shop: Shop) -> None:
    """There is one thing at a time."""
    assert shop.run("apply").code == 0
    shop.kill_at("one.grow", "workflow", "run", "shop", "grow")
    assert shop.run("apply").code == 0
    assert shop.lines() == [*DEPLOYED, *GROWN]


def test_failed_workflow_is_the_failure_of_its_stack(shop: Shop) -> None:
    """A workflow may leave the machine half-way: the reason is that of its script, until the workflow has succeeded."""
    assert shop.run("apply").code == 0
    script = shop.machine.folder / "script.sh"
    text = script.read_text()
    script.write_text(
        f'{text}[ "$TOSCA_OPERATION" != grow -o -e "$log.fed" ] || {{ echo no water >&2; exit 7; }}\n'
    )
    assert shop.run("apply").code == 0
    done = shop.run("workflow", "run", "shop", "grow")
    assert done.code == 1
    assert "error: stack shop: workflow grow failed after" in done.err
    assert "step first: one.Care.grow: exit code 7: no water" in done.err
    assert "         | no water\n" in done.out
    assert "  all output  heat-config-agent log shop/one.Care.grow" in done.err
    assert shop.states()["one"] == "error"
    failed = shop.machine.agent("status", "--failed")
    sentence = "the workflow grow has failed: step first: one.Care.grow: exit code 7: no water\n"
    assert (failed.code, failed.out.endswith(sentence)) == (1, True)

    Path(f"{shop.log}.fed").touch()
    assert shop.run("workflow", "run", "shop", "grow").code == 0
    assert shop.states()["one"] == "grown"
    assert shop.machine.agent("status", "--failed").code == 0
