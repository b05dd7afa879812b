"""Workflows of an inner service in the place of a substituted node's operations (section 3.7.11)."""

from __future__ import annotations

import stat
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from heat_config_agent.diagnostics.mistakes import Invalid
from heat_config_stack.definition import Definition, Identity
from heat_config_stack.definition.procedures import DEPLOY, UNDEPLOY
from heat_config_stack.tosca.compilation import reader
from heat_config_stack.tosca.export import hot_export
from support.machine import Machine

FACTS: dict[str, dict[str, Any]] = {"host": {"num_cpus": 4}, "os": {"type": "linux"}}
HEAD = "tosca_definitions_version: tosca_simple_yaml_1_3\n"

TYPES = f"""\
{HEAD}node_types:
  Outer:
    derived_from: tosca.nodes.Root
    interfaces: {{ Standard: {{ create: {{ inputs: {{ word: {{ type: string, required: false }} }} }} }} }}
"""

INNER = """\
{head}imports: [ types.yaml ]
topology_template:
  substitution_mappings:
    node_type: Outer
    interfaces: {interfaces}
  node_templates:
    a: {{ type: Root, interfaces: {{ Standard: {{ create: a.sh, delete: a.sh }} }} }}
    b: {{ type: Root, interfaces: {{ Standard: {{ create: a.sh, delete: a.sh }} }}, requirements: [ dependency: a ] }}
  workflows:
    make: {{ {inputs} steps: {{ one: {{ target: a, activities: [ {{ call_operation: Standard.create }} ] }} }} }}
    clear: {{ steps: {{ one: {{ target: a, activities: [ {{ call_operation: Standard.delete }} ] }} }} }}
"""

OUTER = f"""\
{HEAD}imports: [ types.yaml, inner.yaml ]
topology_template:
  node_templates:
    first: {{ type: Root, interfaces: {{ Standard: {{ create: a.sh, delete: a.sh }} }} }}
    x: {{ type: Outer, directives: [ substitute ], requirements: [ dependency: first ] }}
    last: {{ type: Root, interfaces: {{ Standard: {{ create: a.sh }} }}, requirements: [ dependency: x ] }}
"""


def compiled(
    folder: Path, interfaces: str, inputs: str = "", outer: str = OUTER
) -> Definition:
    """Return the definition of a service with an inner one."""
    (folder / "a.sh").write_text("#!/bin/bash\n")
    (folder / "types.yaml").write_text(TYPES)
    (folder / "inner.yaml").write_text(
        INNER.format(head=HEAD, interfaces=interfaces, inputs=inputs)
    )
    (folder / "service.yaml").write_text(outer)
    return reader.define(
        str(folder / "service.yaml"),
        reader.Wish({}, {}, {}, FACTS),
        Identity("service", "1"),
    )


def outline(definition: Definition, name: str) -> list[str]:
    """Return the operations of a workflow in the order of its text."""
    names = [*definition.procedures[name].plan({}).outline()]
    return [each for each in names if ".Standard." in each]


@pytest.mark.parametrize(
    "interfaces",
    [
        "{ Standard: { create: make, delete: clear } }",
        "{ tosca.interfaces.node.lifecycle.Standard: { operations: { create: make, delete: clear } } }",
        "{ create: make, delete: clear }",
        "{ Standard.create: make, Standard.delete: clear }",
    ],
)
def test_the_order_of_all_nodes_is_a_workflow(interfaces: str, tmp_path: Path) -> None:
    """The mapped workflows stand in it, in the place of the operations of the inner nodes."""
    made = compiled(tmp_path, interfaces)
    assert outline(made, DEPLOY) == [
        "first.Standard.create",
        "x.a.Standard.create",
        "last.Standard.create",
    ]
    assert outline(made, UNDEPLOY) == ["x.a.Standard.delete", "first.Standard.delete"]


def test_creation_can_be_mapped_without_deletion(tmp_path: Path) -> None:
    """Without mapped operations that delete, all nodes are deleted in the usual order."""
    assert [*compiled(tmp_path, "{ Standard: { create: make } }").procedures] == [
        DEPLOY
    ]


def test_all_inside_waits_for_what_the_node_needs(tmp_path: Path) -> None:
    """A requirement that no mapping hands on to an inner node is one of all of them."""
    made = compiled(tmp_path, "{ }")
    assert "first" in made.resources["x.a.create"].depends_on
    assert "first" in made.resources["x.b.create"].depends_on
    assert "x.b" in made.resources["last.create"].depends_on


def test_other_operations_leave_the_order_alone(tmp_path: Path) -> None:
    """Only those of the normative interface create and delete nodes."""
    assert [
        *compiled(tmp_path, "{ Own: { create: make } }", outer=OUTER).procedures
    ] == []


def test_a_workflow_of_the_service_goes_before(tmp_path: Path) -> None:
    """A workflow of the service replaces the one that calls the operations of the substituted node."""
    steps = (
        "{ one: { target: x, activities: [ { call_operation: Standard.create } ] } }"
    )
    outer = f"{OUTER}  workflows: {{ deploy: {{ steps: {steps} }} }}\n"
    made = compiled(tmp_path, "{ Standard: { create: make } }", outer=outer)
    assert outline(made, DEPLOY) == ["x.a.Standard.create"]


def test_an_input_without_value_is_refused(tmp_path: Path) -> None:
    """Before anything runs."""
    with pytest.raises(
        Invalid, match="the workflow make for create of x needs the input word"
    ):
        compiled(
            tmp_path,
            "{ Standard: { create: make } }",
            "inputs: { word: { type: string } },",
        )
    given = OUTER.replace(
        "directives:",
        "interfaces: { Standard: { create: { inputs: { word: now } } } }, directives:",
    )
    compiled(
        tmp_path,
        "{ Standard: { create: make } }",
        "inputs: { word: { type: string } },",
        given,
    )


def test_an_export_says_that_the_inner_nodes_have_their_own_order(
    tmp_path: Path,
) -> None:
    """Heat has no workflows."""
    remark = "Workflows stand for operations of a substituted node"
    for interfaces, is_said in (
        ("{ Standard: { create: make } }", True),
        ("{ }", False),
    ):
        compiled(tmp_path, interfaces)
        wish, identity, path = (
            reader.Wish({}, {}, {}, FACTS),
            Identity("s", "1"),
            str(tmp_path / "service.yaml"),
        )
        read = partial(reader.define_for_export, path, wish, identity)
        _, remarks = hot_export.exported(read, deployed=True)
        assert any(remark in each for each in remarks) is is_said


def test_artifacts_are_copied_before_a_workflow_creates_nodes(machine: Machine) -> None:
    """Artifacts are there before the first operation, and are removed with their node."""
    there, log, state = (
        machine.folder / "new/placed",
        machine.folder / "log",
        ["--state-dir", str(machine.state)],
    )
    (machine.folder / "a.sh").write_text(f"#!/bin/bash\ncat {there} >{log}\n")
    (machine.folder / "text").write_text("artifact\n")
    (machine.folder / "text").chmod(0o640)
    (machine.folder / "s.yaml").write_text(
        f"{HEAD}topology_template:\n  node_templates:\n    a:\n      type: Root\n"
        f"      artifacts: {{ text: {{ type: File, file: text, deploy_path: {there} }} }}\n"
        "      interfaces: { Standard: { create: a.sh } }\n  workflows:\n"
        "    deploy: { steps: { s: { target: a, activities: [ { call_operation: Standard.create } ] } } }\n"
        "    undeploy: { steps: { s: { target: a, activities: [ { set_state: gone } ] } } }\n"
    )
    done = machine.command(
        "heat-config-apply", [str(machine.folder / "s.yaml"), *state], {}
    )
    assert done.code == 0, done.out + done.err
    assert log.read_text() == "artifact\n"
    assert [stat.S_IMODE(path.stat().st_mode) for path in (there, there.parent)] == [
        0o640,
        0o750,
    ]
    done = machine.command(
        "heat-config-agent", ["stack", "delete", "s", "--yes", *state], {}
    )
    assert done.code == 0, done.out + done.err
    assert not there.exists()


@pytest.mark.parametrize(
    ("file", "why"),
    [
        ("absent", "there is no file absent"),
        ("../outside", "there is no file ../outside"),
        ("https://example.com/x", "https://example.com/x is not on this machine"),
    ],
)
def test_artifact_that_cannot_be_copied_is_warned_of(
    file: str, why: str, machine: Machine
) -> None:
    """The rest of the service is carried out, and its end does not hide what was left out."""
    folder = machine.folder / "service"
    folder.mkdir()
    (folder / "a.sh").write_text("#!/bin/bash\ntrue\n")
    (folder / "s.yaml").write_text(
        f"{HEAD}topology_template:\n  node_templates:\n    a:\n      type: Root\n"
        f"      artifacts: {{ text: {{ type: File, file: {file!r}, deploy_path: {machine.folder}/there }} }}\n"
        "      interfaces: { Standard: { create: a.sh } }\n"
    )
    done = machine.command(
        "heat-config-apply",
        [str(folder / "s.yaml"), "--state-dir", str(machine.state)],
        {},
    )
    assert done.code == 0, done.out + done.err
    assert (
        f"warning: topology_template.node_templates.a: the artifact text is not copied: {why}"
        in done.err
    )
