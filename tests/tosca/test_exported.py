"""An exported service, applied as HOT, does the same as the service."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from support.machine import Done, Machine
from tosca.services import NAME, Case

CASES = Path(__file__).parent / "cases"

DIFFERENT = {
    "09-workflow": "workflows are not exported",
    "11-failure": "Heat replaces an operation that failed",
    "13-deploy": "workflows are not exported",
    "13-members": "on Heat, SOURCES and TARGETS count as inputs",
    "14-going-on": "Heat replaces an operation that failed",
    "19-group": "workflows are not exported",
    "20-mapped": "workflows are not exported",
    "23-steps": "workflows are not exported",
    "24-nested": "workflows are not exported",
    "25-operations-of-one-name": "workflows are not exported",
    "26-states": "on Heat, the state of each node is started",
    "27-variables": "workflows are not exported",
    "16-undoing": "on Heat, what undoes an operation cannot have the outputs of that operation",
}

ON_HEAT = {
    "18-other-target": {
        2: {"log": ["app create", "app add_target two", "app remove_target one"]}
    }
}
"""Steps of another version of a service whose lines differ: Heat updates a resource whose dependencies have changed."""


class Exported(Case):
    """A case whose service is exported before each step that applies it."""

    forms: tuple[str, ...] = ()

    def run(self, program: str, *words: str) -> Done:
        """Apply the exported template in place of the service."""
        if program != "heat-config-apply":
            return super().run(program, *words)
        service, _, _, *options = words
        servers = [
            item
            for at, item in enumerate(options)
            if "--server" in (item, options[at - 1])
        ]
        rest = [
            item
            for at, item in enumerate(options)
            if "--server" not in (item, options[at - 1])
        ]
        export = self.machine.command(
            "heat-config-agent", ["template", "export", service, *rest, *self.forms], {}
        )
        assert export.code == 0, export.err
        # What changes from step to step are the parameters of the template, unless the service is another one.
        template = self.machine.folder / f"exported-{Path(service).stem}.yaml"
        if not template.exists():
            template.write_text(export.out)
        pairs = [pair for pair in pairwise(rest) if pair[0] == "--input"]
        inputs = [
            f"--parameter={value}"
            for _, value in pairs
            if f"\n  {value.partition('=')[0]}:\n" in export.out
        ]
        return super().run(
            "heat-config-apply", str(template), "--name", NAME, *inputs, *servers
        )


def steps_of(case: Exported, name: str) -> list[dict[str, Any]]:
    """Return the steps with what an export promises: lines, outputs and exit codes."""
    kept = (
        "do",
        "inputs",
        "options",
        "service",
        "sequence",
        "log",
        "order",
        "outputs",
        "exit",
    )
    different = ON_HEAT.get(name, {})
    steps = enumerate(case.content["steps"], 1)
    return [
        {name: step[name] for name in kept if name in step} | different.get(number, {})
        for number, step in steps
    ]


NAMES = sorted(each.name for each in CASES.iterdir() if each.name not in DIFFERENT)
QUICK = ("01-lifecycle", "03-inputs", "08-substitution", "17-folder")
"""The cases that `make test` exports: all of them run as services there."""

ALL = [
    pytest.param(name, (), marks=() if name in QUICK else pytest.mark.slow)
    for name in NAMES
]
DEPLOYED = [("08-substitution", ("--deployed",))]
SCRIPTS = [
    ("03-inputs", ("--tool", "script")),
    *(
        pytest.param(name, ("--tool", "script"), marks=pytest.mark.slow)
        for name in ("05-archive", "15-python")
    ),
]
LONG = [
    pytest.param("10-update", forms, marks=pytest.mark.slow)
    for forms in (("--deployed",), ("--tool", "script"))
]


@pytest.mark.parametrize(("name", "forms"), [*ALL, *DEPLOYED, *SCRIPTS, *LONG])
def test_an_exported_service_does_the_same(
    machine: Machine, name: str, forms: tuple[str, ...]
) -> None:
    """Step by step: the same lines and the same outputs."""
    case = Exported(CASES / name, machine)
    case.forms = forms
    case.content["steps"] = steps_of(case, name)
    if "script" in forms and name == "15-python":
        # the outputs of scripts are text with every agent
        for step in case.content["steps"]:
            step.pop("outputs", None)

    differences = [*case.differences()]
    assert not differences, "\n".join(differences)


PROVIDED = """\
tosca_definitions_version: tosca_simple_yaml_1_3
topology_template:
  node_templates:
    server: { type: Compute }
    net: { type: tosca.nodes.network.Network }
    port: { type: tosca.nodes.network.Port, requirements: [ binding: server, link: net ] }
    disk: { type: BlockStorage, properties: { name: x, size: 1 GB } }
    made:
      type: ObjectStorage
      properties: { name: y }
      interfaces: { Standard: { create: create.yaml } }
"""


def test_export_lists_what_it_leaves_out(machine: Machine) -> None:
    """Networks, ports and storage are values; a node with an operation is carried out."""
    (machine.folder / "service.yaml").write_text(PROVIDED)
    (machine.folder / "create.yaml").write_text("[]\n")
    done = machine.command(
        "heat-config-agent",
        ["template", "export", str(machine.folder / "service.yaml")],
        {},
    )
    named = [
        line.split()[3]
        for line in done.out.splitlines()
        if "nothing is made for it" in line
    ]
    assert (done.code, named) == (0, ["net", "port", "disk"])


def test_export_refuses_playbooks(machine: Machine) -> None:
    """An operation that a script cannot express is refused with one sentence."""
    (machine.folder / "service.yaml").write_text(PROVIDED)
    (machine.folder / "create.yaml").write_text("[]\n")
    arguments = [
        "template",
        "export",
        "--tool",
        "script",
        str(machine.folder / "service.yaml"),
    ]
    done = machine.command("heat-config-agent", arguments, {})
    assert (done.code, done.out) == (2, "")
    assert "made.create.config: a script cannot do what ansible does" in done.err
