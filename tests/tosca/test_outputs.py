"""Outputs that operations declare: those that do not come, those of another type, and those that an update asks for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.machine import Done, Machine

SERVICE = """\
tosca_definitions_version: tosca_simple_yaml_1_3
node_types:
  App:
    derived_from: tosca.nodes.SoftwareComponent
    attributes:
      text: { type: string }
      number: { type: integer }
      names: { type: list, entry_schema: string }
      default: { type: string, default: fallback }
    interfaces:
      Standard:
        type: tosca.interfaces.node.lifecycle.Standard
        operations:
          create:
            implementation: create.sh
            outputs:
              text: [ SELF, text ]
              number: [ SELF, number ]
              names: [ SELF, names ]
              default: [ SELF, default ]
topology_template:
  node_templates:
    vm: { type: tosca.nodes.Compute }
    app: { type: App, requirements: [ host: vm ] }
    other:
      type: tosca.nodes.SoftwareComponent
      requirements: [ host: vm ]
      interfaces: { Standard: { operations: { create: { implementation: other.sh, inputs: @INPUTS@ } } } }
  outputs: @OUTPUTS@
"""
ASKED = {
    name: {"value": {"get_attribute": ["app", name]}}
    for name in ("text", "number", "names", "default")
}


class Service:
    """A service in a folder, whose first operation gives the outputs of a script."""

    def __init__(self, machine: Machine, folder: Path) -> None:
        self.machine, self.folder = machine, folder
        self.ran = folder / "ran"

    def apply(
        self,
        script: str,
        *,
        inputs: dict[str, Any] | None = None,
        outputs: dict[str, Any] | None = None,
    ) -> Done:
        """Apply the service with what the second operation and the outputs of the service ask for."""
        texts = {
            "@INPUTS@": json.dumps(inputs or {}),
            "@OUTPUTS@": json.dumps(ASKED if outputs is None else outputs),
        }
        service = SERVICE
        for name, text in texts.items():
            service = service.replace(name, text)
        (self.folder / "service.yaml").write_text(service)
        (self.folder / "create.sh").write_text(f"echo >> {self.ran}\n{script}\n")
        (self.folder / "other.sh").write_text("true\n")
        return self.machine.apply(None, str(self.folder / "service.yaml"))


@pytest.fixture
def service(machine: Machine, tmp_path: Path) -> Service:
    """A service whose outputs a test chooses."""
    return Service(machine, tmp_path)


def test_output_that_did_not_come_is_warned_of(service: Service) -> None:
    """People read null, and are told why; an attribute that was set keeps its value."""
    done = service.apply("export number=7 names='[]'")
    assert done.code == 0
    assert "warning: app.create: the output text did not come" in done.err
    assert "the output default" in done.err
    assert "  default = fallback" in done.out
    done = service.apply("export text=a number=7 default=x names='[]'")
    assert (done.code, done.err) == (0, "")
    done = service.apply("export number=8 names='[]'")
    assert (done.code, "  text = a" in done.out, "  number = 8" in done.out) == (
        0,
        True,
        True,
    )


def test_output_that_another_operation_needs_must_come(service: Service) -> None:
    """The operation that declares it fails, and continues once its script gives it."""
    needs = {"x": {"get_attribute": ["app", "text"]}}
    done = service.apply("true", inputs=needs)
    assert done.code == 1
    assert (
        "app.create: the output text did not come, and other operations need it"
        in done.out + done.err
    )
    assert (
        service.apply("export text=a number=7 default=x names='[]'", inputs=needs).code
        == 0
    )


def test_output_with_a_value_in_its_place_may_stay_away(service: Service) -> None:
    """The default of the attribute is what the other operation gets."""
    done = service.apply(
        "true", inputs={"x": {"get_attribute": ["app", "default"]}}, outputs={}
    )
    assert done.code == 0
    assert "warning: app.create: the output default did not come" in done.err


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("export number=seven", "number must be a whole number"),
        ("export number=true", "number must be a whole number"),
        ("export names=a,b", "names must be a list"),
        ("export names='{\"a\": 1}'", "names must be a list"),
    ],
)
def test_output_of_another_type_is_warned_of(
    script: str, problem: str, service: Service
) -> None:
    """The attribute has a type, and what came is kept as it is."""
    done = service.apply(f"export text=a default=x number=1 names='[]'\n{script}")
    assert done.code == 0
    assert f"warning: app.create: the output {problem}" in done.err


def test_json_of_a_list_can_be_indexed(service: Service) -> None:
    """Scripts write lists and numbers as text; the attribute says what they are."""
    outputs = {
        "first": {"value": {"get_attribute": ["app", "names", 0]}},
        "number": {"value": {"get_attribute": ["app", "number"]}},
    }
    done = service.apply('export names=\'["p", "q"]\' number=7', outputs=outputs)
    assert done.code == 0, done.err
    assert "  first = p" in done.out
    assert "  number = 7" in done.out


def test_operation_runs_again_for_an_output_that_nothing_had_asked_for(
    service: Service,
) -> None:
    """Its value was not kept when the operation ran."""
    script = "export text=a number=7 default=x names='[]'"
    assert service.apply(script, outputs={"text": ASKED["text"]}).code == 0
    assert (
        service.apply(
            script, outputs={"text": ASKED["text"], "number": ASKED["number"]}
        ).code
        == 0
    )
    done = service.apply(
        script, outputs={"text": ASKED["text"], "number": ASKED["number"]}
    )
    assert "  number = 7" in done.out
    assert service.ran.read_text() == "\n\n"


def test_list_that_is_nested_too_deeply_is_not_a_list(service: Service) -> None:
    """It comes from a script, and is kept as text."""
    deep = "[" * 5000 + "]" * 5000
    done = service.apply(f"export text=a default=x number=1 names='{deep}'")
    assert done.code == 0, done.err[-2000:]
    assert "warning: app.create: the output names must be a list" in done.err
