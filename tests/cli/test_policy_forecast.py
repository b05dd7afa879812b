"""Refusals of stacks that dry runs and `policy explain` show in advance."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from support import planted
from support.governed import POLICY, Governed
from support.machine import Machine

TOOLS = f"refused by the rule tools of {POLICY}: the tool 'script' is not in it"

OUTER = """\
heat_template_version: 2018-08-31
parameters: {tool: {type: string, default: script}}
resources:
  config: {type: OS::Heat::SoftwareConfig, properties: {group: {get_param: tool}, config: {get_file: run.sh}}}
  component:
    type: OS::Heat::SoftwareComponent
    properties:
      configs: [{actions: [CREATE], tool: python, config: pass}, {actions: [DELETE], tool: script, config: x}]
  server: {type: OS::Nova::Server, properties: {name: this, flavor: m1}}
  plain:
    type: OS::Heat::SoftwareDeployment
    properties: {config: {get_resource: config}, server: {get_resource: server}, actions: [CREATE, DELETE]}
  of_component:
    type: OS::Heat::SoftwareDeployment
    properties: {config: {get_resource: component}, server: {get_resource: server}}
  servers:
    type: OS::Heat::SoftwareDeploymentGroup
    properties: {config: {get_resource: config}, servers: {one: {get_resource: server}}, actions: [CREATE]}
  group: {type: OS::Heat::ResourceGroup, properties: {count: 2, resource_def: {type: inner.yaml}}}
"""

INNER = """\
heat_template_version: 2018-08-31
resources:
  config: {type: OS::Heat::StructuredConfig, properties: {group: script, config: {}}}
  server: {type: OS::Nova::Server, properties: {name: this, flavor: m1}}
  deployment:
    type: OS::Heat::StructuredDeployment
    properties: {config: {get_resource: config}, server: {get_resource: server}, actions: [CREATE]}
"""

SERVICE = """\
tosca_definitions_version: tosca_simple_yaml_1_3
topology_template:
  node_templates:
    app:
      type: tosca.nodes.Root
      interfaces: {Standard: {operations: {create: {implementation: {primary: run.sh, timeout: 100}}, delete: run.sh}}}
"""


@pytest.fixture
def governed(machine: Machine) -> Governed:
    """A machine with a policy, and a template and a service in its folder."""
    made = Governed(machine)
    script = f"#!/bin/sh\necho ran >>{shlex.quote(str(machine.folder))}/proof\n"
    for name, text in (
        ("site.yaml", OUTER),
        ("inner.yaml", INNER),
        ("service.yaml", SERVICE),
        ("run.sh", script),
    ):
        (machine.folder / name).write_text(text)
    return made


def apply(governed: Governed, *words: str) -> str:
    """Return what `heat-config-apply` prints, with one space between two words."""
    done = governed.run(
        "heat-config-apply", "--state-dir", str(governed.machine.state), *words
    )
    return "\n".join(
        " ".join(line.split()) for line in f"{done.out}{done.err}".splitlines()
    )


def explained(governed: Governed) -> list[str]:
    """Return the lines of `policy explain` about deployments."""
    lines = governed.agent("policy", "explain").out.splitlines()
    return [" ".join(line.split()) for line in lines if "refused by" in line]


def test_a_dry_run_of_a_template_says_what_is_refused(governed: Governed) -> None:
    """It looks into groups and nested templates, and only at the actions that follow."""
    governed.policy("tools = python")
    planned = apply(governed, "--plan", "site.yaml")
    names = ("plain", "servers/one", "group/0/deployment")
    refused = [line for line in planned.splitlines() if "refused" in line]
    assert [line.rpartition("; ")[2] for line in refused] == [
        f"{name} CREATE {TOOLS}" for name in names
    ]
    values = json.loads(apply(governed, "--plan", "--json", "site.yaml"))
    values = values["data"]["changes"]
    assert {each["name"]: each["refused"] for each in values if each["refused"]} == {
        name.partition("/")[0]: [{"name": name, "action": "CREATE", "message": TOOLS}]
        for name in names
    }
    governed.policy("tools = script, python")
    assert "refused" not in apply(governed, "--plan", "site.yaml")
    assert not (governed.machine.folder / "proof").exists()


def test_policy_explains_refusals_of_future_actions(governed: Governed) -> None:
    """`policy explain` has all actions of a stack, and a dry run of an update those that it needs."""
    apply(governed, "site.yaml")
    governed.policy("tools = python")
    assert explained(governed) == [
        f"site/{name} refused {action} {TOOLS}"
        for name, action in (
            ("plain", "CREATE"),
            ("plain", "DELETE"),
            ("of_component", "DELETE"),
            ("servers/one", "CREATE"),
            ("group/0/deployment", "CREATE"),
        )
    ]
    (governed.machine.folder / "site.yaml").write_text(
        OUTER.partition("  group:")[0].replace("of_component:", "new:")
    )
    planned = apply(governed, "--plan", "site.yaml")
    refused = [line for line in planned.splitlines() if "refused" in line]
    assert [line.rpartition("; ")[2] for line in refused] == [
        f"of_component DELETE {TOOLS}"
    ]
    governed.policy("tools =")
    update = (
        "stack",
        "update",
        "--existing",
        "--dry-run",
        "--state-dir",
        str(governed.machine.state),
        "site",
    )
    assert (
        "nothing new begins: cannot use the policy"
        in governed.run("heat-config-agent", *update).out
    )


def test_a_refusal_shows_no_secret_parameter(governed: Governed) -> None:
    """The name of a user may be one, and the parameter of a nested template is hidden there or outside."""
    options = "options: {user: {get_param: who}}, group: script, config: x"
    hidden = "parameters: {who: {type: string, hidden: true}}\nresources:\n"
    inner = INNER.replace("resources:\n", hidden).replace(
        "group: script, config: {}", options.replace("config: x", "config: {}")
    )
    outer = OUTER.partition("parameters:")[0] + hidden
    outer += "  nested: {type: inner.yaml, properties: {who: {get_param: who}}}\n"
    outer += (
        f"  config: {{type: OS::Heat::SoftwareConfig, properties: {{{options}}}}}\n"
    )
    outer += (
        "  server: {type: OS::Nova::Server, properties: {name: this, flavor: m1}}\n"
    )
    outer += "  plain:\n    type: OS::Heat::SoftwareDeployment\n"
    outer += "    properties: {config: {get_resource: config}, server: {get_resource: server}}\n"
    for name, text in (("site.yaml", outer), ("inner.yaml", inner)):
        (governed.machine.folder / name).write_text(text)
    governed.policy("users = nobody")
    planned = apply(
        governed, "--plan", "site.yaml", "--parameter", f"who={planted.WORD}-user"
    )
    assert planned.count("the user '***' is not in it") == 2, planned


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ("tools = script", "the tool 'tosca' is not in it"),
        ("max_timeout = 60", "the timeout of 100 s is longer than 60 s"),
        ("users = nobody", "the user 'root' is not in it"),
        ("isolate = network", "the run is not isolated by network"),
        ("sources = file", "the source stack:"),
        ("actions = DELETE", "the action 'CREATE' is not in it"),
    ],
)
def test_an_operation_of_a_service_obeys_each_rule(
    governed: Governed, rule: str, why: str
) -> None:
    """The dry run says so before, and the operation does not run."""
    governed.policy(rule)
    for words in (("--plan",), ()):
        said = apply(governed, *words, "service.yaml")
        assert (
            f"refused by the rule {rule.partition(' ')[0]} of {POLICY}: {why}" in said
        )
    assert not Path(governed.machine.folder, "proof").exists()
