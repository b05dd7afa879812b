"""A plan says for every resource which value changes from what to what, and what happens to parameters."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.machine import Done, Machine

TEMPLATE = """\
heat_template_version: 2018-08-31
parameters:
  title: {type: string, default: Hi}
  pw: {type: string, hidden: true, default: first-hidden-value}
  size: {type: number, default: 1}
resources:
  server: {type: OS::Nova::Server, properties: {image: x, flavor: y}}
  config:
    type: OS::Heat::SoftwareConfig
    properties:
      group: script
      inputs: [{name: title}, {name: pw}]
      config: |
        #!/bin/sh
        echo $title
  app:
    type: OS::Heat::SoftwareDeployment
    properties:
      config: {get_resource: config}
      server: {get_resource: server}
      input_values: {title: {get_param: title}, pw: {get_param: pw}}
"""


def apply(machine: Machine, text: str, *words: str) -> Done:
    """Apply the template with a text as the stack `web`."""
    path = machine.folder / "web.yaml"
    path.write_text(text)
    done = machine.apply(path, *words)
    assert done.code == 0, done.err
    return done


def plan(machine: Machine, text: str, *words: str) -> str:
    """Return the plan with single spaces."""
    return "\n".join(
        " ".join(line.split())
        for line in apply(machine, text, "--plan", *words).out.splitlines()
    )


@pytest.fixture
def web(machine: Machine) -> Machine:
    """Return a machine with the stack."""
    apply(machine, TEMPLATE)
    return machine


def test_changed_input_and_parameter_are_named(web: Machine) -> None:
    """Values of secret parameters are not shown, neither the old nor the new one."""
    words = ("--parameter", "title=Hello", "--parameter", "pw=second-hidden-value")
    shown = plan(web, TEMPLATE, *words)
    assert (
        " input_values.title: Hi → Hello; input_values.pw: ***; runs UPDATE\n" in shown
    )
    assert "\nparameters title: Hi → Hello\npw: ***\n" in shown
    assert "hidden-value" not in shown
    values: list[dict[str, Any]] = json.loads(
        apply(web, TEMPLATE, "--plan", "--json", *words).out
    )["data"]["changes"]
    assert {each["name"]: each["values"] for each in values} == {
        "server": [],
        "config": [],
        "app": ["input_values.title: Hi → Hello", "input_values.pw: ***"],
    }


def test_changed_default_is_named(web: Machine) -> None:
    """The template alone has changed."""
    shown = plan(web, TEMPLATE.replace("default: Hi", "default: Hey"))
    assert "input_values.title: Hi → Hey" in shown
    assert "title: Hi → Hey (its default)" in shown


def test_changed_lines_of_a_script_are_shown(web: Machine) -> None:
    """A deployment whose config is replaced changes with it, and the plan says so."""
    shown = plan(web, TEMPLATE.replace("echo $title", "printf $title"))
    assert (
        "replace config OS::Heat::SoftwareConfig config: 2 changed lines\n- echo $title\n+ printf $title\n"
        in shown
    )
    assert (
        "update app OS::Heat::SoftwareDeployment config: config is replaced; runs UPDATE\n"
        in shown
    )


def test_unchanged_stack_has_no_values(web: Machine) -> None:
    """The plan of an update without a change is as short as before."""
    assert plan(web, TEMPLATE).splitlines() == [
        "CHANGE NAME TYPE WHY",
        "unchanged 3 (--all shows them)",
        "stack web: nothing to do; nothing was done",
    ]
    assert len(plan(web, TEMPLATE, "--all").splitlines()) == 5


def test_end_of_a_long_value_is_shown(web: Machine) -> None:
    """Two long values are cut where they begin to differ."""
    long = "x" * 200
    apply(web, TEMPLATE, "--parameter", f"title={long}1")
    assert f"input_values.title: …{'x' * 20}1 → …{'x' * 20}2" in plan(
        web, TEMPLATE, "--parameter", f"title={long}2"
    )


def test_parameter_that_falls_back_to_its_default_is_named(web: Machine) -> None:
    """The plan and the apply say so; a parameter that was never given is not worth a word."""
    assert apply(web, TEMPLATE, "--parameter", "title=Hello").err == ""
    assert (
        "title: Hello → Hi (its default: --parameter title=… keeps another value)"
        in plan(web, TEMPLATE)
    )
    done = apply(web, TEMPLATE)
    assert (
        "warning: title had another value in the stack, and has the default now"
        in done.err
    )
    assert apply(web, TEMPLATE).err == ""


def test_member_of_a_group_has_its_values(machine: Machine) -> None:
    """Values of child stacks have the name of their resource."""
    text = """\
heat_template_version: 2018-08-31
parameters: {length: {type: number, default: 5}}
resources:
  group:
    type: OS::Heat::ResourceGroup
    properties: {count: 2, resource_def: {type: OS::Heat::RandomString, properties: {length: {get_param: length}}}}
"""
    apply(machine, text)
    assert "0.length: 5 → 6; 1.length: 5 → 6" in plan(
        machine, text, "--parameter", "length=6"
    )


def test_misspelt_property_and_tool_have_a_hint(machine: Machine) -> None:
    """An unknown property is a mistake with the one that was meant; a tool close to a known one is a warning."""
    path = machine.folder / "bad.yaml"
    text = TEMPLATE.replace("group: script", "gruop: script")
    path.write_text(text)
    done = machine.apply(path, "--plan")
    assert (done.code, "Unknown Property gruop (did you mean group?)" in done.err) == (
        2,
        True,
    ), done.err
    path.write_text(TEMPLATE.replace("group: script", "group: scirpt"))
    done = machine.command("heat-config-agent", ["template", "validate", str(path)], {})
    assert (
        done.code,
        "no hook for the tool scirpt is installed" in done.err + done.out,
    ) == (0, True), done.err
    assert "did you mean script?" in done.err + done.out
