"""The work on a stack whose template has not changed: each text is read once, and each definition is made once.

Calls of functions are counted, and modules, because both do not depend on the load of the machine.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from support import pace
from support.machine import Machine

pytestmark = pytest.mark.new_process

TEMPLATE = """\
heat_template_version: 2018-08-31
resources:
  config:
    type: OS::Heat::SoftwareConfig
    properties: {group: script, config: "#!/bin/sh\\ntrue\\n"}
  deployment:
    type: OS::Heat::SoftwareDeployment
    properties: {config: {get_resource: config}, server: a-server}
"""

SERVICE = """\
tosca_definitions_version: tosca_simple_yaml_1_3
topology_template:
  node_templates:
    app:
      type: tosca.nodes.SoftwareComponent
      requirements: [{host: server}]
      interfaces: {Standard: {operations: {create: create.sh}}}
    server: {type: tosca.nodes.Compute}
"""

COUNTING = """
import collections, json, sys

calls = collections.Counter()


def count(frame, event, _):
    if event == "call" and "heat_config" in frame.f_code.co_filename:
        calls[frame.f_code.co_filename.rpartition("heat_config_")[2] + ":" + frame.f_code.co_name] += 1


from heat_config_agent.cli import agent, runner
from heat_config_agent.cli.apply import options as apply_options

is_apply = sys.argv.pop(1) == "apply"
run = apply_options.run_template if is_apply and apply_options.is_of_template(sys.argv[1:]) else agent.main
sys.setprofile(count)
code = runner.run(run)
sys.setprofile(None)
print(json.dumps({"code": code, "calls": calls, "modules": sorted(sys.modules)}), file=sys.stderr)
"""
"""A program that runs a command, and prints which functions it has called, and which modules it has loaded."""

RUNS = ("heat_config_agent.engine.applier", "heat_config_stack.lifecycle.machine")
"""Only where something runs."""

OUTGOING = ("socket", "ssl", "heat_config_stack.lifecycle.endpoint")
"""Only for results and signals."""


def counted(machine: Machine, *words: str) -> Any:
    """Return what a command has called and loaded."""
    done = subprocess.run(
        [sys.executable, "-c", COUNTING, *words],
        env=machine.environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=pace.seconds(60),
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stderr.splitlines()[-1])
    assert found["code"] == 0, done.stdout
    return found


def applied(machine: Machine, text: str) -> tuple[Any, Any]:
    """Return what the apply of a template has called and loaded: of a new one, and then of the same again."""
    folder = machine.folder / "template"
    folder.mkdir()
    (folder / "create.sh").write_text("#!/bin/sh\ntrue\n")
    (folder / "site.yaml").write_text(text)
    words = "apply", "--state-dir", str(machine.state), str(folder / "site.yaml")
    return counted(machine, *words), counted(machine, *words)


def loaded(found: Any, *names: str) -> list[str]:
    """Return the modules of these packages that were loaded."""
    return [
        each
        for each in found["modules"]
        if f"{each}.".startswith(tuple(f"{name}." for name in names))
    ]


def test_template_is_read_and_made_once(machine: Machine) -> None:
    """A template is composed once, with one empty text, and its definition is made once; it loads no TOSCA."""
    for found in applied(machine, TEMPLATE):
        assert found["calls"]["hooks/yaml_tree.py:_composed"] <= 2
        assert found["calls"]["stack/hot/compiler.py:definition"] == 1
        assert not loaded(found, "heat_config_stack.tosca")


def test_service_is_read_and_made_once(machine: Machine) -> None:
    """Each file and each profile of a service is composed once, its definition is made once; it loads no HOT."""
    for found in applied(machine, SERVICE):
        assert found["calls"]["hooks/yaml_tree.py:_composed"] <= 3
        assert found["calls"]["stack/tosca/compilation/loader.py:define"] == 1
        assert not loaded(found, "heat_config_stack.hot", "email")


@pytest.mark.parametrize("text", [TEMPLATE, SERVICE], ids=["template", "service"])
def test_unchanged_stack_loads_nothing_that_runs(machine: Machine, text: str) -> None:
    """Where no deployment runs, the machine is not opened; of the types only those of the template are loaded."""
    new, unchanged = applied(machine, text)
    assert loaded(new, *RUNS)
    assert not loaded(unchanged, *RUNS, *OUTGOING, "email")
    assert not loaded(
        unchanged,
        *(f"heat_config_stack.resource_types.{name}" for name in ("groups", "scaling")),
    )


@pytest.mark.slow
def test_changed_template_is_made_once(machine: Machine) -> None:
    """Beside the new definition, only that of the stack is made."""
    applied(machine, TEMPLATE)
    path = machine.folder / "template" / "site.yaml"
    path.write_text(TEMPLATE.replace("true", "echo changed"))
    found = counted(machine, "apply", "--state-dir", str(machine.state), str(path))
    assert found["calls"]["stack/hot/compiler.py:definition"] == 2


@pytest.mark.slow
def test_list_loads_no_stack(machine: Machine) -> None:
    """The list reads the records alone: it loads no template language, no resource, and nothing that works on one."""
    applied(machine, TEMPLATE)
    found = counted(
        machine, "agent", "stack", "list", "--state-dir", str(machine.state)
    )
    rooms = ("hot", "tosca", "lifecycle", "resource", "resource_types", "plugins")
    assert not loaded(
        found, *(f"heat_config_stack.{room}" for room in rooms), "yaml", "difflib"
    )
