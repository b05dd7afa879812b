"""Machines of a service that ask for more than this machine has."""

from __future__ import annotations

from pathlib import Path

import pytest

from heat_config_stack.definition import Identity
from heat_config_stack.tosca.compilation import reader

SERVICE = """\
tosca_definitions_version: tosca_simple_yaml_1_3
topology_template:
  inputs: { cpus: { type: integer, default: 4 } }
  node_templates:
    large:
      type: tosca.nodes.Compute
      capabilities: { host: { properties: { num_cpus: { get_input: cpus }, mem_size: 4 GiB, disk_size: 9 TB } } }
    small:
      type: tosca.nodes.Compute
      capabilities: { host: { properties: { num_cpus: 2, mem_size: 1000 MB } } }
    any: { type: tosca.nodes.Compute }
"""

FACTS = {"host": {"num_cpus": 2, "mem_size": "4000 MiB"}, "os": {}}


@pytest.mark.parametrize(
    ("server", "cpus", "properties"),
    [
        ("", 4, ["num_cpus", "mem_size"]),
        ("large", 2, ["mem_size"]),
        ("small", 4, []),
        ("any", 4, []),
    ],
)
def test_less_than_a_machine_asks_for_is_a_warning(
    server: str, cpus: int, properties: list[str], tmp_path: Path
) -> None:
    """At its place; with a server, only that one is this machine."""
    path = tmp_path / "service.yaml"
    path.write_text(SERVICE)
    wish = reader.Wish({"cpus": cpus}, {}, {}, FACTS, server=server)
    made = reader.define(str(path), wish, Identity("s", "i", "p"))
    warnings = [each for each in made.warnings if each.code == "small-machine"]
    assert [each.path[-1] for each in warnings] == properties
    assert all(each.place and each.place.line == 7 for each in warnings)
    assert all("this machine has" in each.problem for each in warnings)
