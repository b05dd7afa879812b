"""Plug-ins and signals on the command line: every command that reads a template knows the plug-ins of the settings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.machine import Done, Machine

PLUGIN = """
from heat.engine import attributes, properties, resource


class Bell(resource.Resource):
    properties_schema = {'tone': properties.Schema(properties.Schema.STRING, required=True)}
    attributes_schema = {'rung': attributes.Schema()}

    def handle_create(self):
        self.resource_id_set('bell')
        if self.properties['tone'] == 'broken':
            raise RuntimeError('the bell is broken')

    def handle_signal(self, details=None):
        self.data_set('rung', details)

    def _resolve_attribute(self, name):
        return self.data().get('rung')


def resource_mapping():
    return {'My::Bell': Bell}
"""

TEMPLATE = """\
heat_template_version: 2018-08-31
parameters: {tone: {type: string, default: high}}
resources:
  bell: {type: My::Bell, properties: {tone: {get_param: tone}}}
outputs:
  rung: {value: {get_attr: [bell, rung]}}
"""


def command(machine: Machine, *words: str) -> Done:
    """Run the agent's command with settings that name the folder of the plug-in."""
    folder = machine.folder / "plugins"
    folder.mkdir(exist_ok=True)
    (folder / "bell.py").write_text(PLUGIN)
    (machine.folder / "t.yaml").write_text(TEMPLATE)
    settings = machine.folder / "agent.conf"
    settings.write_text(f"[agent]\nplugin_dirs = {folder}\n")
    return machine.command("heat-config-agent", [*words, "--config", str(settings)], {})


def test_a_template_with_a_type_of_a_plugin_is_valid(machine: Machine) -> None:
    """`template validate` loads the plug-ins that `--config` names."""
    done = command(machine, "template", "validate", str(machine.folder / "t.yaml"))
    assert (done.code, done.err) == (0, "")
    assert "is valid: 1 resource" in done.out


def stack(machine: Machine, *words: str) -> Done:
    """Run a command about stacks."""
    return command(machine, "stack", *words, "--state-dir", str(machine.state))


def test_a_resource_of_a_plugin_is_signalled(machine: Machine) -> None:
    """With JSON as the details of the signal."""
    template = Path(machine.folder / "t.yaml")
    assert stack(machine, "create", "-t", str(template), "s").code == 0
    done = stack(machine, "resource", "signal", "s", "bell", "--data", '{"times": 3}')
    assert done.code == 0, done
    assert json.loads(stack(machine, "output", "show", "s", "rung", "--json").out)[
        "data"
    ]["output_value"] == {"times": 3}
    assert stack(machine, "resource", "signal", "s", "bell", "--data", "{").code == 2
    assert (
        "there is no resource whistle"
        in stack(machine, "resource", "signal", "s", "whistle").err
    )


def test_a_failing_plugin_shows_its_traceback(machine: Machine) -> None:
    """The traceback is on standard error, which is the log of the command."""
    template = Path(machine.folder / "t.yaml")
    done = stack(
        machine, "create", "-t", str(template), "--parameter", "tone=broken", "s"
    )
    assert done.code == 1
    assert "bell.py" in done.err
    assert "raise RuntimeError('the bell is broken')" in done.err


def without_plugin(machine: Machine, *words: str) -> Done:
    """Run a command about stacks with settings that name no plug-ins."""
    return machine.command(
        "heat-config-agent", ["stack", *words, "--state-dir", str(machine.state)], {}
    )


@pytest.mark.slow
def test_a_stack_whose_plugin_is_gone_is_shown_and_forgotten(machine: Machine) -> None:
    """Its records can be read, but only the plug-in could change or delete the resource."""
    template = Path(machine.folder / "t.yaml")
    assert stack(machine, "create", "-t", str(template), "s").code == 0
    missing = "bell has the type My::Bell, which does not exist (is a plug-in missing?)"
    shown = without_plugin(machine, "resource", "show", "s", "bell")
    assert (shown.code, shown.err) == (0, f"warning: {missing}\n")
    assert "state        ok (CREATE_COMPLETE)" in shown.out
    assert without_plugin(machine, "event", "list", "s").code == 0
    assert (
        "the attribute rung of bell is not known"
        in without_plugin(machine, "output", "show", "s", "rung").err
    )
    for change in (["suspend", "s"], ["delete", "s", "--yes"]):
        refused = without_plugin(machine, *change)
        assert (refused.code, refused.err) == (2, f"error: {missing}\n")
    forgotten = without_plugin(machine, "delete", "s", "--yes", "--force")
    assert forgotten.code == 0
    assert "bell may still exist, and is forgotten" in forgotten.err
    assert without_plugin(machine, "show", "s").code == 8


def test_a_stack_whose_plugin_is_gone_is_abandoned(machine: Machine) -> None:
    """Another machine with the plug-in can adopt what is printed."""
    assert stack(machine, "create", "-t", str(machine.folder / "t.yaml"), "s").code == 0
    abandoned = without_plugin(machine, "abandon", "s", "--yes")
    assert json.loads(abandoned.out)["resources"]["bell"]["resource_id"] == "bell"
    (machine.folder / "s.json").write_text(abandoned.out)
    assert (
        stack(
            machine, "adopt", "s", "--adopt-file", str(machine.folder / "s.json")
        ).code
        == 0
    )


def test_status_names_the_stacks(machine: Machine) -> None:
    """A stack is one row; its deployments have journals of their own, so the table does not have them."""
    assert stack(machine, "create", "-t", str(machine.folder / "t.yaml"), "s").code == 0
    lines = machine.agent("status").out.splitlines()
    rows = [line.split() for line in lines if " stack " in line]
    assert [row[:5] for row in rows] == [["s", "ok", "CREATE", "stack", "-"]]
    [shown] = machine.agent("status", "--json").data["stacks"]
    assert (shown["stack_name"], shown["state"], shown["stack_status"]) == (
        "s",
        "ok",
        "CREATE_COMPLETE",
    )
