"""Help for a stack or template with mistakes: all mistakes at once, warnings, and ways out."""

from __future__ import annotations

import json

import pytest

from support.machine import Done, Machine
from support.stacking import stack

STACK = """\
heat_template_version: 2018-08-31
resources:
  server: {type: OS::Heat::DeployedServer}
  config:
    type: OS::Heat::SoftwareConfig
    properties: {group: script, config: "#!/bin/sh\\nexit CODE\\n"}
  d:
    type: OS::Heat::SoftwareDeployment
    metadata: {team: ops, password: opensesame}
    properties:
      config: {get_resource: config}
      server: {get_resource: server}
      actions: [ACTION]
"""


def write(machine: Machine, action: str, code: int) -> str:
    """Write a template whose deployment ends with that code, and return its path."""
    path = machine.folder / "t.yaml"
    path.write_text(STACK.replace("ACTION", action).replace("CODE", str(code)))
    return str(path)


def validate(machine: Machine, text: str, *words: str) -> Done:
    """Write a template, and validate it."""
    path = machine.folder / "v.yaml"
    path.write_text(f"heat_template_version: 2018-08-31\n{text}")
    return machine.command(
        "heat-config-agent", ["template", "validate", "v.yaml", *words], {}
    )


def test_rollback_takes_no_name_for_its_value(machine: Machine) -> None:
    """`--rollback NAME` enables it; a word that says so or not is its value."""
    template = write(machine, "CREATE", 0)
    assert stack(machine, "create", "-t", template, "--rollback", "one").code == 0
    assert (
        json.loads(stack(machine, "show", "one", "--json").out)["data"][
            "disable_rollback"
        ]
        is False
    )
    assert (
        stack(machine, "create", "-t", template, "--rollback", "disable", "two").code
        == 0
    )
    assert (
        json.loads(stack(machine, "show", "two", "--json").out)["data"][
            "disable_rollback"
        ]
        is True
    )
    assert stack(machine, "create", "three", "-t", template, "--rollback").code == 0


def test_the_timeout_is_in_seconds(machine: Machine) -> None:
    """A timeout without a unit is in seconds, and an unknown unit is refused."""
    template = write(machine, "CREATE", 0)
    assert stack(machine, "create", "-t", template, "one", "--wait-for", "2m").code == 0
    done = stack(machine, "create", "-t", template, "two", "--wait-for", "soon")
    assert done.code == 2
    assert (
        "--wait-for: expected a time, such as 90, 90s, 5m, 1h30m or 7d, and not 'soon'"
        in done.err
    )


def test_a_stack_whose_deletion_always_fails(machine: Machine) -> None:
    """The command names the way out: --force deletes all others, and says what it has forgotten."""
    assert stack(machine, "create", "-t", write(machine, "DELETE", 1), "s").code == 0
    done = stack(machine, "delete", "s", "--yes")
    assert done.code == 1
    assert "  give up     heat-config-agent stack delete --force s" in done.err
    done = stack(machine, "delete", "s", "--yes", "--force")
    assert done.code == 0
    assert (
        "warning: d may still exist, and is forgotten: Error: resources.d: Deployment to server failed"
        in done.err
    )
    assert "ok       server     DELETE" in done.out
    assert json.loads(stack(machine, "list", "--json").out)["data"]["stacks"] == []


def test_a_broken_suspend_has_a_way_out(machine: Machine) -> None:
    """The commands that the messages name repair the stack."""
    assert stack(machine, "create", "-t", write(machine, "SUSPEND", 1), "s").code == 0
    done = stack(machine, "suspend", "s")
    assert done.code == 1
    assert "  resume      heat-config-agent stack resume s" in done.err
    template = write(machine, "SUSPEND", 0)
    done = stack(machine, "update", "-t", template, "s")
    assert (done.code, "the update is possible even if that fails" in done.err) == (
        2,
        True,
    )
    assert stack(machine, "resume", "s").code == 1
    assert stack(machine, "update", "-t", template, "s").code == 0
    assert stack(machine, "suspend", "s").code == 0


def test_metadata_of_a_resource_is_shown(machine: Machine) -> None:
    """With values that are secret by their names masked."""
    assert stack(machine, "create", "-t", write(machine, "CREATE", 0), "s").code == 0
    shown = json.loads(stack(machine, "resource", "show", "s", "d", "--json").out)[
        "data"
    ]
    assert shown["metadata"] == {"team": "ops", "password": "***"}
    assert (
        "metadata\n  team = ops\n  password = ***\n"
        in stack(machine, "resource", "show", "s", "d").out
    )


def test_table_of_parameters_follows_their_groups(machine: Machine) -> None:
    """The groups come in order with their labels and descriptions, and the other parameters follow."""
    done = validate(
        machine,
        "parameters: {a: {type: string}, b: {type: number}, c: {type: json}, d: {type: json}}\n"
        "parameter_groups: [{label: Sizes, description: how many, parameters: [c, b]},"
        " {description: where, parameters: [d]}]\n",
    )
    assert done.out.splitlines()[2:] == [
        "  PARAMETER  TYPE    DEFAULT  DESCRIPTION",
        "Sizes: how many",
        "  c          json    -",
        "  b          number  -",
        "where",
        "  d          json    -",
        "other parameters",
        "  a          string  -",
    ]


def test_configs_that_never_run_are_warnings(machine: Machine) -> None:
    """Actions that no stack has, and tools without a hook, each with what may be meant."""
    done = validate(
        machine,
        "resources:\n  c:\n    type: OS::Heat::SoftwareComponent\n    properties:\n      configs:\n"
        "      - {actions: [BACKUP, create], tool: script, config: x}\n"
        "      - {actions: [CREATE], tool: scirpt, config: x}\n",
    )
    assert done.code == 0
    assert [
        line.partition("warning: resources.c.properties.")[2]
        for line in done.err.splitlines()
    ] == [
        (
            "configs[0].actions[0]: a stack has no action BACKUP: the config never runs for it "
            "(one of CREATE, UPDATE, SUSPEND, RESUME, DELETE)"
        ),
        "configs[0].actions[1]: a stack has no action create: the config never runs for it (did you mean CREATE?)",
        (
            "configs[1].tool: no hook for the tool scirpt is installed on this machine: the config fails here "
            "(did you mean script?)"
        ),
    ]


@pytest.mark.parametrize(
    ("resource", "problem"),
    [
        (
            "{type: OS::Heat::SoftwareDeployments, properties: {servers: {}, config: a}}",
            "type: OS::Heat::SoftwareDeployments is obsolete since Heat 7.0.0 (use OS::Heat::SoftwareDeploymentGroup)",
        ),
        (
            "{type: OS::Neutron::LBaaS::Pool}",
            "type: OS::Neutron::LBaaS::Pool is obsolete since Heat 21.0.0",
        ),
        (
            "{type: OS::Nova::Server, properties: {flavor: a, networks: [{network: n}, {uuid: a}]}}",
            "properties.networks[1].uuid: the property networks.1.uuid is obsolete since Heat 5.0.0",
        ),
        (
            "{type: OS::Neutron::ExtraRoute, properties: {router_id: r, destination: 10.0.0.0/24, nexthop: 10.0.0.1}}",
            "type: OS::Neutron::ExtraRoute is unsupported",
        ),
    ],
)
def test_outdated_types_and_properties_give_a_warning(
    machine: Machine, resource: str, problem: str
) -> None:
    """Types and properties with a doubtful support status, with its version and the replacement."""
    done = validate(machine, f"resources:\n  r: {resource}\n")
    assert (done.code, f"warning: resources.r.{problem}\n" in done.err) == (0, True), (
        done
    )


def test_validation_reports_all_mistakes_at_once(machine: Machine) -> None:
    """All mistakes of form, types, properties and attributes are shown, except those that follow from another."""
    text = """\
parameters:
  b: {type: strin}
resources:
  x: {type: OS::Nova::Server, properties: {flavour: small, flavor: {get_param: aa}}}
  y: {type: OS::Nova::Servr}
  z: {type: OS::Heat::Value, properties: {value: {get_attr: [x, adresses]}}, dependson: x}
  w: {type: OS::Heat::Value, properties: {value: {get_attr: [x, wrong]}}}
  v: {type: OS::Heat::RandomString, properties: {get_param: b}}
  u: {properties: {value: 1}}
"""
    expected = [
        "parameters.b.type: Invalid type (strin) (did you mean string?)",
        "resources.x.properties: Unknown Property flavour",
        "resources.x.properties.flavor: The Parameter (aa) was not provided.",
        "resources.y.type: The Resource Type (OS::Nova::Servr) could not be found. (did you mean OS::Nova::Server?)",
        "resources.z.properties.value.get_attr: The Referenced Attribute (x adresses) is incorrect.",
        'resources.z: "dependson" is not a valid keyword inside a resource definition (did you mean depends_on?)',
        "resources.w.properties.value.get_attr: The Referenced Attribute (x wrong) is incorrect.",
        "resources.v: a function cannot stand for all properties at once (write it for each property)",
        "resources.u: Each resource must contain a type key.",
    ]
    done = validate(machine, text)
    assert done.code == 1
    assert [
        line.partition("error: ")[2]
        for line in done.err.splitlines()
        if "error: " in line
    ] == expected
    done = stack(machine, "create", "-t", str(machine.folder / "v.yaml"), "s")
    assert done.code == 2
    assert [line.partition("error: ")[2] for line in done.err.splitlines()] == expected


def test_a_deployment_is_found_by_its_resource_alone(machine: Machine) -> None:
    """If several stacks have it, one sentence lists the full names; a stack that cannot be read hides none of them."""
    template = write(machine, "CREATE", 0)
    assert stack(machine, "create", "-t", template, "one").code == 0
    assert (
        json.loads(machine.agent("show", "d", "--json").out)["data"]["inputs"][
            "deploy_resource_name"
        ]
        == "d"
    )
    assert machine.agent("log", "d").code == 0

    assert stack(machine, "create", "-t", template, "two").code == 0
    broken = machine.state / "stacks" / "broken"
    broken.mkdir()
    (broken / "stack").write_text("damaged\n")
    done = machine.agent("retry", "d")
    assert (done.code, done.out) == (2, "")
    assert (
        done.err
        == "error: 'd' is more than one deployment: one/d, two/d (give one of these names or ids)\n"
    )
    done = machine.agent("show", "d")
    assert done.code == 0
    assert "one/d, two/d; this is two/d, the newest deployment" in done.err
    assert machine.agent("show", "two/d").code == 0
    assert "stack or source 'config'" in machine.agent("show", "config").err


TWO = """\
heat_template_version: 2018-08-31
resources:
  server: {type: OS::Heat::DeployedServer}
  config:
    type: OS::Heat::SoftwareConfig
    properties: {group: script, config: "#!/bin/sh\\necho $deploy_resource_name $deploy_action >&2\\nexit 1\\n"}
  former:
    type: OS::Heat::SoftwareDeployment
    properties: {config: {get_resource: config}, server: {get_resource: server}, actions: [SUSPEND]}
  latter:
    type: OS::Heat::SoftwareDeployment
    depends_on: former
    properties: {config: {get_resource: config}, server: {get_resource: server}, actions: [RESUME]}
"""


def test_only_what_failed_in_the_last_action_is_named(machine: Machine) -> None:
    """The message of a failed resume has nothing of a deployment that only the suspension before had failed."""
    path = machine.folder / "two.yaml"
    path.write_text(TWO)
    assert stack(machine, "create", "-t", str(path), "s").code == 0
    done = stack(machine, "suspend", "s")
    assert done.code == 1
    assert "         | former SUSPEND\n" in done.out
    done = stack(machine, "resume", "s")
    assert done.code == 1
    assert (
        "resources.server: State ('CREATE', 'COMPLETE') invalid for resume" in done.err
    )
    assert "heat-config-agent log" not in done.err

    path.write_text(TWO.replace("[SUSPEND]", "[UPDATE]"))
    assert stack(machine, "create", "-t", str(path), "other").code == 0
    assert stack(machine, "suspend", "other").code == 0
    done = stack(machine, "resume", "other")
    assert done.code == 1
    assert "         | latter RESUME\n" in done.out
    assert "  all output  heat-config-agent log other/latter" in done.err


STUCK = """\
heat_template_version: 2018-08-31
resources:
  server: {type: OS::Heat::DeployedServer}
  config:
    type: OS::Heat::SoftwareConfig
    properties: {group: script, config: "#!/bin/sh\\ntest $deploy_action = CREATE -o -e FIXED\\n"}
  former:
    type: OS::Heat::SoftwareDeployment
    properties: {config: {get_resource: config}, server: {get_resource: server}, actions: [CREATE, DELETE]}
  latter: {type: OS::Heat::TestResource, depends_on: former, properties: {fail: true}}
"""


def test_failed_rollback_lists_the_remaining_resources(machine: Machine) -> None:
    """The resources that are left are listed; `stack delete` tries again, and an update tries to create all of it."""
    path = machine.folder / "stuck.yaml"
    path.write_text(STUCK)
    done = stack(machine, "create", "--enable-rollback", "-t", str(path), "s")
    assert done.code == 1
    assert "error: stack s: ROLLBACK failed after" in done.err
    assert "former: exit code 1" in done.err
    assert "  try again   heat-config-agent stack delete s" in done.err
    assert "  give up     heat-config-agent stack delete --force s" in done.err
    listed = json.loads(stack(machine, "resource", "list", "s", "--json").out)["data"][
        "resources"
    ]
    states = {each["resource_name"]: each["resource_status"] for each in listed}
    assert states == {
        "server": "CREATE_COMPLETE",
        "config": "CREATE_COMPLETE",
        "former": "DELETE_FAILED",
    }
    assert stack(machine, "delete", "s", "--yes").code == 1
    done = stack(machine, "delete", "s", "--yes", "--force")
    assert done.code == 0
    assert "warning: former may still exist, and is forgotten" in done.err


def test_an_update_whose_rollback_fails(machine: Machine) -> None:
    """The next update tries again to delete what is left."""
    path, fixed = machine.folder / "stuck.yaml", machine.folder / "fixed"
    former = "heat_template_version: 2018-08-31\nresources: {other: {type: OS::Heat::TestResource}}\n"
    path.write_text(former)
    assert stack(machine, "create", "--enable-rollback", "-t", str(path), "s").code == 0
    path.write_text(STUCK.replace("FIXED", str(fixed)))
    done = stack(machine, "update", "--rollback", "enabled", "-t", str(path), "s")
    assert done.code == 1
    assert "error: stack s: ROLLBACK failed after" in done.err
    assert "  try again   heat-config-agent stack update --existing s" in done.err
    path.write_text(former)
    assert stack(machine, "update", "-t", str(path), "s").code == 1
    fixed.touch()
    assert stack(machine, "update", "--existing", "s").code == 0
    listed = json.loads(stack(machine, "resource", "list", "s", "--json").out)["data"][
        "resources"
    ]
    assert [each["resource_name"] for each in listed] == ["other"]
