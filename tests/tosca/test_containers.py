"""Images of containers that implement `create`, with a real podman."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from heat_config_agent.model.errors import UsageError
from heat_config_stack.definition import Definition, Identity
from heat_config_stack.tosca.checks.checker import Checker
from heat_config_stack.tosca.compilation import reader
from support.containers import IMAGE, LASTING, Podman, own_podman, podman
from support.machine import Done, Machine

__all__ = ["own_podman", "podman"]

SERVER = "localhost/server:test"
"""An image that runs until it is asked to end."""

TYPES = """\
tosca_definitions_version: tosca_simple_yaml_1_3
capability_types:
  Docker:
    derived_from: tosca.capabilities.Container
    properties:
      publish_ports: { type: list, entry_schema: tosca.datatypes.network.PortSpec, required: false }
      volumes: { type: list, entry_schema: string, required: false }
artifact_types:
  tosca.artifacts.Deployment.Image.Container.Docker: { derived_from: tosca.artifacts.Deployment.Image }
node_types:
  Runtime:
    derived_from: tosca.nodes.Container.Runtime
    capabilities: { host: Docker }
  Application:
    derived_from: tosca.nodes.Root
    properties:
      volumes: { type: list, entry_schema: string, required: false }
    requirements:
      - host: { capability: tosca.capabilities.Container, relationship: HostedOn, occurrences: [ 0, 1 ] }
"""

SERVICE = """\
topology_template:
  inputs: { log: { type: string }, color: { type: string, default: blue } }
  node_templates:
    machine: { type: Compute }
    runtime: { type: Runtime, requirements: [ { host: machine } ] }
    web:
      type: Application
      properties: { volumes: [ "/etc:/data:ro" ] }
      requirements: [ { host: runtime } ]
      artifacts:
        image:
          type: tosca.artifacts.Deployment.Image.Container.Docker
          file: NAME
      interfaces:
        Standard:
          create: { implementation: image, inputs: { color: { get_input: color }, sizes: [ 1, 2 ] } }
          DELETE
    app:
      type: Application
      requirements: [ { host: machine }, { dependency: web } ]
      interfaces: { Standard: { inputs: { log: { get_input: log } }, create: line.sh, delete: line.sh } }
"""

LINE = '#!/bin/bash\necho "$TOSCA_NODE.$TOSCA_OPERATION" >>"$log"\n'


@pytest.fixture
def machine(machine: Machine, podman: Podman) -> Machine:
    """A machine with podman and the image of a server."""
    machine.environment["PATH"] = podman.path
    podman("create", "--name=model", IMAGE, "true")
    podman("commit", "--quiet", f"--change=CMD {json.dumps(LASTING)}", "model", SERVER)
    podman("rm", "model")
    return machine


def text(image: str, delete: str = "") -> str:
    """Return the service with an image."""
    service = SERVICE.replace("NAME", image).replace("DELETE", delete)
    return TYPES + service


class Stack:
    """The service as a stack on a machine."""

    def __init__(self, machine: Machine) -> None:
        self._machine, self.log = machine, machine.folder / "log"
        self.path = machine.folder / "service.yaml"
        (machine.folder / "line.sh").write_text(LINE)
        self.log.touch()

    def run(self, program: str, *words: str) -> Done:
        """Run a command to its end."""
        return self._machine.command(program, words, {}, 120)

    def apply(self, *options: str, path: Path | None = None) -> Done:
        """Apply the service, or another template."""
        word = "--parameter" if path else "--input"
        given = (f"{word}=log={self.log}", *options)
        return self._on_state(
            "heat-config-apply", str(path or self.path), "--name", "shop", *given
        )

    def delete(self) -> Done:
        """Delete the stack."""
        return self._on_state("heat-config-agent", "stack", "delete", "shop", "--yes")

    def _on_state(self, *words: str) -> Done:
        return self.run(*words, "--state-dir", str(self._machine.state))

    def states(self) -> dict[str, str]:
        """Return the state of each node."""
        done = self._on_state(
            "heat-config-agent", "stack", "node", "list", "shop", "--json"
        )
        nodes = json.loads(done.out)["data"]["nodes"]
        return {node["node"]: node["node_state"] for node in nodes}


def variables(podman: Podman, name: str) -> set[str]:
    """Return the variables of a container."""
    return {*podman.containers()[name]["Config"]["Env"]}


def test_an_image_runs_from_create_to_delete(machine: Machine, podman: Podman) -> None:
    """With its inputs as variables; it is replaced when they change, and only then."""
    stack = Stack(machine)
    stack.path.write_text(text(SERVER))

    done = stack.apply()
    assert done.code == 0, done
    assert podman.running() == {"web"}
    assert {"color=blue", "sizes=[1,2]", "TOSCA_NODE=web"} <= variables(podman, "web")
    assert [mount["Destination"] for mount in podman.containers()["web"]["Mounts"]] == [
        "/data"
    ]
    assert set(stack.states().values()) == {"started"}
    identity = podman.containers()["web"]["Id"]

    assert stack.apply().code == 0
    assert podman.containers()["web"]["Id"] == identity

    assert stack.apply("--input", "color=red").code == 0
    assert podman.running() == {"web"}
    assert "color=red" in variables(podman, "web")

    done = stack.delete()
    assert done.code == 0, done
    assert podman.containers() == {}
    assert stack.log.read_text().split() == ["app.create", "app.delete"]


def test_an_image_that_is_not_there_is_tried_again_in_its_place(
    machine: Machine, podman: Podman
) -> None:
    """Dependents of the node do not begin."""
    stack = Stack(machine)
    stack.path.write_text(text("localhost/absent:test"))
    done = stack.apply()
    assert done.code == 1
    assert "web.create" in done.out + done.err
    assert (podman.containers(), stack.log.read_text()) == ({}, "")
    assert stack.states()["web"] == "error"

    stack.path.write_text(text(SERVER))
    assert stack.apply().code == 0
    assert podman.running() == {"web"}


def test_a_script_for_delete_runs_before_the_container_goes(
    machine: Machine, podman: Podman
) -> None:
    """Both belong to the removal of the node."""
    stack = Stack(machine)
    delete = "delete: { implementation: last.sh, inputs: { log: { get_input: log } } }"
    stack.path.write_text(text(SERVER, delete))
    running = (
        'podman ps --format "{{.Names}}" >>"$log"\necho "$TOSCA_OPERATION" >>"$log"\n'
    )
    (machine.folder / "last.sh").write_text(f"#!/bin/bash\n{running}")
    assert stack.apply().code == 0

    done = stack.delete()
    assert done.code == 0, done
    assert stack.log.read_text().split() == [
        "app.create",
        "app.delete",
        "web",
        "delete",
    ]
    assert podman.containers() == {}


def test_an_exported_service_runs_the_same_container(
    machine: Machine, podman: Podman
) -> None:
    """The template that is exported, applied as HOT."""
    stack = Stack(machine)
    stack.path.write_text(text(SERVER))
    made = stack.run(
        "heat-config-agent",
        "template",
        "export",
        str(stack.path),
        "--input",
        f"log={stack.log}",
    )
    assert made.code == 0, made
    exported = machine.folder / "exported.yaml"
    exported.write_text(made.out)

    done = stack.apply(path=exported)
    assert done.code == 0, done
    assert podman.running() == {"web"}
    assert "color=blue" in variables(podman, "web")
    done = stack.delete()
    assert done.code == 0, done
    assert podman.containers() == {}


# What is made of a template, without any container.


def defined(folder: Path, node: str) -> Definition:
    """Return the definition of a service with a node `web` that has an image."""
    path = folder / "service.yaml"
    path.write_text(f"{TYPES}{node}")
    assert Checker().check(str(path)).mistakes == []
    return reader.define(
        str(path), reader.Wish({}, {}, {}, {}), Identity("service", "1")
    )


def config(folder: Path, node: str) -> Any:
    """Return the config of the container."""
    return (
        defined(folder, node).resources["web.create"].properties["config"]["container"]
    )


IMAGES = """\
repositories: { hub: "https://registry.example/team/" }
topology_template:
  node_templates:
    web:
      type: Application
      artifacts: { image: { type: tosca.artifacts.Deployment.Image.Container.Docker, %s } }
      interfaces: { Standard: { %s: image } }
"""


@pytest.mark.parametrize(
    ("artifact", "name"),
    [
        ("file: web", "web"),
        ("file: 'team/web:1.2'", "team/web:1.2"),
        ("file: 'web:1.2', repository: hub", "registry.example/team/web:1.2"),
    ],
)
def test_the_address_of_a_repository_stands_before_the_image(
    artifact: str, name: str, tmp_path: Path
) -> None:
    """Without a scheme, as podman and docker take it."""
    assert config(tmp_path, IMAGES % (artifact, "create"))["image"] == name


PORTS = """\
topology_template:
  node_templates:
    machine: { type: Compute }
    runtime:
      type: Runtime
      requirements: [ { host: machine } ]
      capabilities:
        host:
          properties:
            volumes: [ "/srv:/data" ]
            publish_ports:
              - { target: 80, source: 8080 }
              - { target: 53, protocol: udp }
              - { target_range: [ 90, 91 ], source_range: [ 9090, 9091 ] }
    web:
      type: Application
      requirements: [ { host: runtime } ]
      artifacts: { image: { type: tosca.artifacts.Deployment.Image.Container.Docker, file: web } }
      interfaces: { Standard: { create: image } }
"""


def test_ports_and_volumes_are_those_of_the_capability_that_hosts_the_node(
    tmp_path: Path,
) -> None:
    """In the form that podman and docker have for them; properties of the node itself come first."""
    found = config(tmp_path, PORTS)
    assert found["ports"] == ["8080:80", "53:53/udp", "9090-9091:90-91"]
    assert found["volumes"] == ["/srv:/data"]
    own = config(
        tmp_path,
        PORTS.replace(
            "    web:\n", "    web:\n      properties: { volumes: [ '/opt:/data' ] }\n"
        ),
    )
    assert own["volumes"] == ["/opt:/data"]


@pytest.mark.parametrize(
    ("artifact", "operation", "problem"),
    [
        ("file: web", "start", "the image of a container implements create, not start"),
        ("file: web.tar", "create", "web.tar is not loaded"),
    ],
)
def test_other_uses_of_images_are_refused(
    artifact: str, operation: str, problem: str, tmp_path: Path
) -> None:
    """With the position of the implementation."""
    with pytest.raises(UsageError) as raised:
        defined(tmp_path, IMAGES % (artifact, operation))
    assert problem in str(raised.value)
    assert "service.yaml:" in str(raised.value)


def test_validation_leaves_an_image_on_another_operation_open(tmp_path: Path) -> None:
    """As it stands in the way of applying the template."""
    path = tmp_path / "service.yaml"
    path.write_text(f"{TYPES}{IMAGES % ('file: web', 'start')}")
    found = Checker().check(str(path))
    assert (found.mistakes, [mistake.code for mistake in found.open]) == (
        [],
        ["open-tool"],
    )
