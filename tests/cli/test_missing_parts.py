"""Tools of which a part is missing: no command calls such a tool ready, and its run fails with the same sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import heat_config_hooks
from heat_config_agent.cli.apply import ready
from heat_config_agent.model.deployment import Tool
from heat_config_hooks import needs
from heat_config_hooks.errors import HookError
from heat_config_hooks.programs import Module, Program, title
from heat_config_hooks.tools import unit_start
from support.machine import Machine, deployment

CONFIGS: dict[str, object] = {
    "ansible": "- hosts: localhost\n",
    "apply-config": "",
    "cfn-init": {"config": {}},
    "chef": ["recipe[a]"],
    "docker-cmd": {"a": {"image": "x"}},
    "docker-compose": {"services": {"a": {"image": "x"}}},
    "puppet": "notice('a')",
    "python": "pass",
    "quadlet": {"a.container": "[Container]\nImage=x\n"},
    "salt": {"a": {"test.nop": []}},
    "systemd-unit": {"a.service": "[Service]\nExecStart=/bin/true\n"},
}
"""A config of each tool that needs something.

The kubelet's is not among them: crictl is one of two ways to learn of its pods.
"""

PARTS = [(tool, part) for tool in CONFIGS for part in needs.NEEDS[tool]]
NAMES = [
    f"{tool} without {Path(title(part, {})).name.partition(' or ')[0]}"
    for tool, part in PARTS
]
PROCESSED = [(name, part) for name, row in needs.PROCESSORS.items() for part in row]


class Parts:
    """The programs and modules that a machine has."""

    def __init__(self, machine: Machine) -> None:
        self.machine, self.programs, self.modules = (
            machine,
            machine.folder / "bin",
            machine.folder / "modules",
        )
        self.programs.mkdir()
        self.modules.mkdir()
        machine.environment.update(
            PATH=str(self.programs), PYTHONPATH=str(self.modules)
        )

    def have(self, part: Program | Module) -> None:
        """Have a part on the machine: a program that prints a version, or an empty module."""
        if isinstance(part, Module):
            (self.modules / part.name).mkdir()
            (self.modules / part.name / "__init__.py").write_text("")
            return
        path = self.programs / Path(part.names[0].split()[0]).name
        path.write_text("#!/bin/sh\necho 1.0\n")
        path.chmod(0o755)
        if part.variable:
            self.machine.environment[part.variable] = str(path)

    def lack(self, part: Program | Module) -> None:
        """Hide a part, also where this machine has it beside our interpreter or in a folder of its own."""
        if isinstance(part, Module):
            (self.modules / "sitecustomize.py").write_text(
                f"import sys\nsys.modules[{part.name!r}] = None\n"
            )
        elif part.variable:
            self.machine.environment[part.variable] = "no-such-program"
        elif any(
            (Path(folder) / name).exists()
            for folder in part.folders
            for name in part.names
        ):
            pytest.skip(
                f"{title(part, {})} is installed on this machine, and cannot be hidden"
            )


@pytest.fixture
def parts(machine: Machine) -> Parts:
    """The parts of a machine that has none of them."""
    return Parts(machine)


def test_every_tool_with_needs_is_in_the_table() -> None:
    """A hook has the row of its tool, and no tool has a program that is not in the table."""
    for tool in heat_config_hooks.HOOKS:
        assert heat_config_hooks.load(tool).ABOUT.needs == needs.NEEDS.get(tool, ())
    assert CONFIGS.keys() | {"kubelet"} == needs.NEEDS.keys()


@pytest.mark.parametrize(("tool", "part"), PARTS, ids=NAMES)
def test_tool_with_a_missing_part_is_not_ready(
    machine: Machine, parts: Parts, tool: str, part: Program
) -> None:
    """`tool show` says that the part is missing, and the run fails with the same sentence."""
    for other in needs.NEEDS[tool]:
        if other is part:
            parts.lack(part)
        else:
            parts.have(other)

    done = machine.command("heat-config-agent", ["tool", "show", tool, "--json"], {})
    failed = machine.apply([deployment("d1", CONFIGS[tool], group=tool)], "--json")

    said = done.data
    assert not said["ready"], said
    assert " is not installed; " in said["message"]
    [result] = failed.data["deployments"]
    assert (failed.code, result["values"]["deploy_status_code"]) == (1, 127), result
    assert said["message"] in result["values"]["deploy_stderr"]


@pytest.mark.parametrize(("processor", "part"), PROCESSED)
def test_service_with_a_missing_part_has_an_open_point(
    processor: str, part: Program | Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check of a service names each part that the processor of an artifact lacks, with the way to install it."""
    from heat_config_stack.tosca.files import processors  # noqa: PLC0415

    monkeypatch.setattr(needs, "is_here", lambda need, _: need is not part)
    processors.lacking.cache_clear()
    try:
        missing, install = processors.lacking(processor)
    finally:
        processors.lacking.cache_clear()
    assert missing == title(part, {})
    assert install == str(part.install)


def test_playbook_without_the_runner_is_an_open_point(
    machine: Machine, parts: Parts
) -> None:
    """A service with a playbook is not called ready where ansible-playbook is installed, and its runner is not."""
    parts.have(needs.ANSIBLE)
    parts.lack(needs.ANSIBLE_RUNNER)
    (machine.folder / "site.yml").write_text("- hosts: localhost\n")
    service = machine.write(
        {
            "tosca_definitions_version": "tosca_simple_yaml_1_3",
            "topology_template": {
                "node_templates": {
                    "app": {
                        "type": "tosca.nodes.Root",
                        "interfaces": {
                            "Standard": {
                                "operations": {"create": {"implementation": "site.yml"}}
                            }
                        },
                    }
                }
            },
        },
        "service.yaml",
    )

    done = machine.command(
        "heat-config-agent", ["template", "validate", str(service), "--json"], {}
    )

    [point] = json.loads(done.out)["data"]["files"][0]["open"]
    assert point["code"] == "open-tool"
    assert point["problem"] == "ansible-runner is not on this machine"
    assert point["hint"].startswith("install it with «")


@pytest.mark.parametrize("tool", sorted(needs.BOOTED))
@pytest.mark.parametrize("booted", [True, False])
def test_tool_of_units_is_ready_where_systemd_runs(
    machine: Machine,
    parts: Parts,
    monkeypatch: pytest.MonkeyPatch,
    tool: str,
    booted: bool,
) -> None:
    """Its run on any other machine fails with the same sentence, as in a container, and doctor does not warn of it."""
    for part in needs.NEEDS[tool]:
        parts.have(part)
    monkeypatch.setattr(needs, "is_booted", lambda: booted)
    found = Tool(tool, f"builtin:{tool}")

    [state] = ready.states([found], machine.environment)

    assert (state.problem, state.needs_systemd) == (
        ("", False) if booted else (needs.NOT_BOOTED, True)
    )
    assert not state.lacks
    if not booted:
        with pytest.raises(HookError, match=needs.NOT_BOOTED):
            unit_start.require()


def test_doctor_says_which_tools_need_systemd(machine: Machine) -> None:
    """No deployment needs them, so nothing is wrong."""
    if needs.is_booted():
        pytest.skip("systemd runs on this machine: try it in a container")
    machine.have_quick_tools()

    tools = next(
        line
        for line in machine.agent("doctor", "--all").out.splitlines()
        if line.split()[1:2] == ["tools"]
    )

    assert tools.startswith("ok ")
    assert "systemd does not run here for " in tools
