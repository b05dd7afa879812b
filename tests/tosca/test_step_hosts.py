"""Machines of the operations that a step of a workflow calls."""

from __future__ import annotations

from pathlib import Path

from heat_config_stack.definition import Identity
from heat_config_stack.definition.procedures import Delivery
from heat_config_stack.tosca.compilation import reader
from heat_config_stack.tosca.compilation.compiler import Reference

SERVICE = """\
tosca_definitions_version: tosca_simple_yaml_1_3
topology_template:
  node_templates:
    first: { type: Compute }
    second: { type: Compute }
    one: &app
      type: SoftwareComponent
      requirements: [ host: first ]
      interfaces: { Standard: { start: start.sh } }
    two: { <<: *app, requirements: [ host: second ] }
  groups: { all: { type: tosca.groups.Root, members: [ one, two ] } }
  workflows:
    here: { steps: { a: { target: all, activities: [ { call_operation: Standard.start } ] } } }
    there:
      steps: { a: { target: all, operation_host: second, activities: [ { call_operation: Standard.start } ] } }
    outside:
      steps: { a: { target: all, operation_host: ORCHESTRATOR, activities: [ { call_operation: Standard.start } ] } }
"""


def test_a_step_on_a_group_may_name_the_node_that_runs_its_operations(
    tmp_path: Path,
) -> None:
    """Without one, each member's operation runs on the machine of that member."""
    path = tmp_path / "service.yaml"
    path.write_text(SERVICE)
    (tmp_path / "start.sh").write_text("true\n")
    wish = reader.Wish({}, {}, {}, {"host": {}, "os": {}})
    definition = reader.define(str(path), wish, Identity("s", "i", "p"))
    found = {}
    for name in ("here", "there", "outside"):
        works = definition.procedures[name].plan({}).steps.steps["a"].works
        activities = [activity for work in works for activity in work.activities]
        found[name] = [
            activity.properties["server"]
            for activity in activities
            if isinstance(activity, Delivery)
        ]
    assert found == {
        "here": [Reference("first"), Reference("second")],
        "there": [Reference("second"), Reference("second")],
        "outside": [Reference("ORCHESTRATOR"), Reference("ORCHESTRATOR")],
    }
