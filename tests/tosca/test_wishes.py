"""Wishes of users of other programs for TOSCA, tried here: docs/comparison.md has their threads."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.machine import Done, Machine

TWO = """\
tosca_definitions_version: tosca_simple_yaml_1_3
topology_template:
  inputs:
    fails: { type: boolean, default: false }
    size: { type: string, default: small }
  node_templates:
    vm: { type: tosca.nodes.Compute }
    base:
      type: tosca.nodes.SoftwareComponent
      requirements: [ host: vm ]
      interfaces:
        Standard:
          operations:
            create:
              implementation: base.sh
              inputs: { fails: { get_input: fails }, size: { get_input: size } }
            delete: gone.sh
    above:
      type: tosca.nodes.SoftwareComponent
      requirements: [ host: vm, dependency: base ]
      interfaces: { Standard: { operations: { create: above.sh } } }
"""
"""A node that may fail, and one that needs it."""

MAP = """\
tosca_definitions_version: tosca_simple_yaml_1_3
node_types:
  Group:
    derived_from: tosca.nodes.Root
    attributes:
      status: { type: map, entry_schema: { type: integer } }
      level: { type: integer }
topology_template:
  node_templates:
    group:
      type: Group
      attributes: { level: { get_attribute: [ SELF, status, processors ] } }
"""
"""An attribute that reads a key of another one, which has no value yet."""


class Service:
    """The service with two nodes, in a folder."""

    def __init__(self, machine: Machine, folder: Path) -> None:
        self.machine, self.file = machine, folder / "service.yaml"
        self.file.write_text(TWO)
        self.ran = folder / "ran"
        for name in ("base", "above", "gone"):
            script = f'echo "{name} $size" >>{self.ran}\n[ "$fails" != true ]\n'
            (folder / f"{name}.sh").write_text(script)

    def apply(self, *inputs: str) -> Done:
        """Apply the service with inputs."""
        words = [word for each in inputs for word in ("--input", each)]
        return self.machine.apply(None, str(self.file), *words)

    @property
    def lines(self) -> list[str]:
        """The lines that the scripts have written."""
        return [each.strip() for each in self.ran.read_text().splitlines()]


@pytest.fixture
def service(machine: Machine, tmp_path: Path) -> Service:
    """The service, not applied yet."""
    return Service(machine, tmp_path)


def test_nothing_begins_after_a_failed_operation(service: Service) -> None:
    """The node that needs the failed one waits, and the exit code says that the service failed."""
    done = service.apply("fails=true")
    assert (done.code, service.lines) == (1, ["base small"]), done
    assert "waiting  above" in done.out + done.err
    assert service.apply("fails=false").code == 0
    assert service.lines == ["base small", "base small", "above"]


def test_failed_node_is_deleted_with_its_service(service: Service) -> None:
    """The script for `delete` can remove what the failed one for `create` has left."""
    assert service.apply("fails=true").code == 1
    done = service.machine.agent("stack", "delete", "service", "--yes")
    assert (done.code, service.lines) == (0, ["base small", "gone"]), done


def test_input_can_be_removed_from_a_deployed_service(service: Service) -> None:
    """The operation that has used the input runs again without it, and nothing else does."""
    assert service.apply("size=large").code == 0
    kept = [
        line for line in TWO.splitlines() if "size: {" not in line or "fails" in line
    ]
    text = "\n".join(kept).replace(", size: { get_input: size }", "")
    service.file.write_text(text + "\n")
    done = service.apply("fails=false")
    assert (done.code, service.lines) == (0, ["base large", "above", "base"]), done


def test_key_of_an_attribute_may_be_unknown_before_it_has_a_value(
    machine: Machine, tmp_path: Path
) -> None:
    """The type of the attribute is checked: a key of a number is a mistake."""
    path = tmp_path / "map.yaml"
    path.write_text(MAP)
    done = validate(machine, path)
    assert (done.code, "is valid" in done.out) == (0, True), done
    path.write_text(MAP.replace("status, processors", "level, processors"))
    assert validate(machine, path).code == 1


def validate(machine: Machine, path: Path) -> Done:
    """Return the verdict on a document."""
    words = ["template", "validate", str(path)]
    return machine.command("heat-config-agent", words, {})
