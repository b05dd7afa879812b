"""Stacks as resources, and groups of instances: carried out on this machine by the installed commands."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.machine import Machine
from support.stacking import stack

CHILD = """\
heat_template_version: 2018-08-31
parameters:
  word: {type: string}
  list: {type: comma_delimited_list, default: [a]}
resources:
  v:
    type: OS::Heat::Value
    properties: {value: {str_replace: {template: {get_file: text.txt}, params: {WORD: {get_param: word}}}}}
outputs:
  said: {value: {get_attr: [v, value]}}
  list: {value: {get_param: list}}
"""
PARENT = """\
heat_template_version: 2018-08-31
parameters: {word: {type: string, default: Ada}}
resources:
  r: {type: OS::Heat::RandomString}
  s:
    type: OS::Heat::Stack
    properties: {template: {get_file: inner/child.yaml}, parameters: {word: {get_param: word}, list: [x, y]}}
  late:
    type: OS::Heat::Stack
    properties: {template: {get_file: inner/child.yaml}, parameters: {word: {get_attr: [r, value]}}}
  c:
    type: AWS::CloudFormation::Stack
    properties: {TemplateURL: inner/child.yaml, Parameters: {word: {get_param: word}}}
outputs:
  all: {value: {get_attr: [s, outputs]}}
  name: {value: {get_attr: [s, stack_name]}}
  late: {value: {get_attr: [late, outputs, said]}}
  cfn: {value: {get_attr: [c, Outputs.said]}}
  arn: {value: {get_resource: c}}
"""
GROUPS = """\
heat_template_version: 2018-08-31
parameters: {size: {type: number, default: 2}, image: {type: string, default: one}}
resources:
  conf:
    type: AWS::AutoScaling::LaunchConfiguration
    metadata: {team: ops}
    properties: {ImageId: {get_param: image}, InstanceType: small}
  group:
    type: OS::Heat::InstanceGroup
    properties:
      AvailabilityZones: [a]
      LaunchConfigurationName: {get_resource: conf}
      Size: {get_param: size}
    update_policy: {RollingUpdate: {MaxBatchSize: 1, PauseTime: PT0S}}
  scaled:
    type: AWS::AutoScaling::AutoScalingGroup
    properties: {AvailabilityZones: [a], LaunchConfigurationName: {get_resource: conf}, MinSize: 1, MaxSize: 2}
  up:
    type: AWS::AutoScaling::ScalingPolicy
    properties: {AutoScalingGroupName: {get_resource: scaled}, AdjustmentType: ChangeInCapacity, ScalingAdjustment: 1}
outputs:
  group: {value: {get_attr: [group, InstanceList]}}
  scaled: {value: {get_attr: [scaled, InstanceList]}}
"""


def outputs(machine: Machine) -> dict[str, Any]:
    """Return the outputs of the stack."""
    shown = json.loads(stack(machine, "output", "show", "p", "--all", "--json").out)[
        "data"
    ]["outputs"]
    return {each["output_key"]: each["output_value"] for each in shown}


def write(machine: Machine, text: str) -> str:
    """Write a template, with the files that it may name, and return its path."""
    inner = machine.folder / "inner"
    inner.mkdir(exist_ok=True)
    (inner / "child.yaml").write_text(CHILD)
    (inner / "text.txt").write_text("Hello WORD")
    path = machine.folder / "p.yaml"
    path.write_text(text)
    return str(path)


def test_stacks_are_created_updated_and_deleted(machine: Machine) -> None:
    """A template in a property and one in a file become child stacks, which find the files beside the template."""
    template = write(machine, PARENT)
    assert stack(machine, "create", "-t", template, "p").code == 0
    created = outputs(machine)
    assert created["all"] == {"said": "Hello Ada", "list": ["x", "y"]}
    assert created["name"].startswith("p-s-")
    assert created["late"].startswith("Hello ")
    assert created["cfn"] == "Hello Ada"
    assert created["arn"].startswith("arn:openstack:heat:::stacks/p-c-")
    (
        machine.folder / "inner" / "child.yaml"
    ).unlink()  # everything that was read is kept with the stack
    assert (
        stack(machine, "update", "--existing", "--parameter", "word=Bob", "p").code == 0
    )
    assert (outputs(machine)["all"]["said"], outputs(machine)["cfn"]) == (
        "Hello Bob",
        "Hello Bob",
    )
    assert outputs(machine)["name"] == created["name"]
    for action in ("suspend", "resume", "check"):
        assert stack(machine, action, "p").code == 0
    assert stack(machine, "delete", "-y", "p").code == 0
    assert json.loads(stack(machine, "list", "--json").out)["data"]["stacks"] == []


@pytest.mark.parametrize(
    ("properties", "problem"),
    [
        (
            "{context: {region_name: Two}, template: {get_file: inner/child.yaml}, parameters: {word: w}}",
            "a stack in another region or cloud cannot be created on this machine: remove its context",
        ),
        (
            "{context: {credential_secret_id: x}, template: {get_file: inner/child.yaml}, parameters: {word: w}}",
            "a stack in another region or cloud cannot be created on this machine: remove its context",
        ),
        (
            "{template: {get_file: inner/child.yaml}}",
            "The Parameter (word) was not provided.",
        ),
        ("{template: 'nonsense: ['}", "it is not YAML"),
        (
            "{template: '{heat_template_version: 2018-08-31, resources: {a: {type: OS::Heat::Valu}}}'}",
            "The Resource Type (OS::Heat::Valu) could not be found. (did you mean OS::Heat::Value?)",
        ),
    ],
)
def test_mistakes_of_child_stacks_are_reported_first(
    machine: Machine, properties: str, problem: str
) -> None:
    """Mistakes of children are mistakes of the parent, and nothing begins."""
    resource = f"{{type: OS::Heat::Stack, properties: {properties}}}"
    template = write(
        machine, f"heat_template_version: 2018-08-31\nresources: {{s: {resource}}}\n"
    )
    done = stack(machine, "create", "-t", template, "p")
    assert (done.code, done.out) == (2, "")
    assert problem in done.err


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        (
            "http://127.0.0.1:9/t.yaml",
            "http://127.0.0.1:9/t.yaml is not fetched: name a file of this machine",
        ),
        ("nowhere.yaml", "cannot read nowhere.yaml: No such file or directory"),
    ],
)
def test_templates_of_cloudformation_stacks_are_files(
    machine: Machine, url: str, problem: str
) -> None:
    """A URL of the network is not fetched, and a missing file is reported once."""
    resource = (
        f"{{type: AWS::CloudFormation::Stack, properties: {{TemplateURL: '{url}'}}}}"
    )
    template = write(
        machine, f"heat_template_version: 2018-08-31\nresources: {{s: {resource}}}\n"
    )
    done = stack(machine, "create", "-t", template, "p")
    assert done.code == 2
    assert len(done.err.splitlines()) == 1
    assert problem in done.err.replace(str(machine.folder) + "/", "")


def test_groups_of_instances_follow_their_size(machine: Machine) -> None:
    """Their members are like the launch configuration, at the group's size, which an update or a policy changes."""
    template = write(machine, GROUPS)
    assert stack(machine, "create", "-t", template, "p").code == 0
    assert outputs(machine) == {"group": "127.0.0.1,127.0.0.1", "scaled": "127.0.0.1"}
    shown = json.loads(
        stack(machine, "resource", "show", "p", "group/0", "--json").out
    )["data"]
    assert (shown["resource_type"], shown["metadata"]) == (
        "AWS::EC2::Instance",
        {"team": "ops"},
    )
    assert stack(machine, "resource", "signal", "p", "up").code == 0
    # the group has its maximum
    assert stack(machine, "resource", "signal", "p", "up").code == 0
    assert outputs(machine)["scaled"] == "127.0.0.1,127.0.0.1"
    done = stack(
        machine,
        "update",
        "-t",
        template,
        "p",
        "--parameter",
        "size=3",
        "--parameter",
        "image=two",
    )
    assert done.code == 0
    assert outputs(machine)["group"].count("127.0.0.1") == 3
    assert stack(machine, "delete", "-y", "p").code == 0


def test_the_members_of_a_group_are_a_template(machine: Machine) -> None:
    """An environment maps `OS::Heat::ScaledResource`, as with Heat; the template has what an instance has."""
    (machine.folder / "member.yaml").write_text(
        "heat_template_version: 2018-08-31\n"
        "parameters: {ImageId: {type: string}, InstanceType: {type: string}, Tags: {type: json}}\n"
        "resources: {v: {type: OS::Heat::Value, properties: {value: {get_param: ImageId}}}}\n"
        "outputs: {PublicIp: {value: {get_attr: [v, value]}}}\n"
    )
    (machine.folder / "env.yaml").write_text(
        "resource_registry: {'OS::Heat::ScaledResource': member.yaml}\n"
    )
    done = stack(
        machine,
        "create",
        "-t",
        write(machine, GROUPS),
        "-e",
        str(machine.folder / "env.yaml"),
        "p",
    )
    assert done.code == 0, done
    assert outputs(machine) == {"group": "one,one", "scaled": "one"}


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (
            "{get_resource: conf}\n",
            "conf\n",
            "requires a reference to the configuration not just the name",
        ),
        (
            "{get_resource: conf}\n",
            "other\n",
            "LaunchConfigurationName (other) reference can not be found.",
        ),
        ("PT0S", "PT2H", "Maximum PauseTime is 1 hour."),
        (
            "PT0S",
            "soon",
            "Only ISO 8601 duration format of the form PT#H#M#S is supported.",
        ),
        ("MinSize: 1", "MinSize: 3", "MinSize can not be greater than MaxSize"),
        (
            "MinSize: 1",
            "MinSize: 1, DesiredCapacity: 5",
            "DesiredCapacity must be between MinSize and MaxSize",
        ),
        (
            "MinSize: 1",
            "MinSize: 1, InstanceId: i",
            "Either 'InstanceId' or 'LaunchConfigurationName' must be",
        ),
        (
            ", InstanceType: small",
            "",
            "If without InstanceId, ImageId and InstanceType are required.",
        ),
        (
            "ScalingAdjustment: 1",
            "ScalingAdjustment: 1, MinAdjustmentStep: 1",
            "should only be specified for",
        ),
    ],
)
def test_mistakes_in_groups_have_the_sentences_of_heat(
    machine: Machine, old: str, new: str, problem: str
) -> None:
    """The sentences are Heat's."""
    assert old in GROUPS
    done = stack(
        machine, "create", "-t", write(machine, GROUPS.replace(old, new, 1)), "p"
    )
    assert done.code == 2
    assert problem in done.err


WARNED = """\
heat_template_version: 2018-08-31
resources:
  one: {type: inner/odd.yaml}
  two: {type: inner/odd.yaml}
  group:
    type: OS::Heat::ResourceGroup
    properties:
      count: 3
      resource_def:
        type: OS::Heat::SoftwareComponent
        properties: {configs: [{actions: [BACKUP], tool: script, config: text}]}
  chain: {type: OS::Heat::ResourceChain, properties: {resources: [inner/odd.yaml, inner/odd.yaml]}}
  stack: {type: OS::Heat::Stack, properties: {template: {get_file: inner/other.yaml}}}
"""
ODD = """\
heat_template_version: 2018-08-31
resources:
  v: {type: OS::Heat::Value, properties: {value: {get_parm: p}}}
"""


@pytest.mark.parametrize(
    "command", [["template", "validate"], ["stack", "create", "p", "--dry-run", "-t"]]
)
def test_warnings_of_children_are_shown_once(
    machine: Machine, command: list[str]
) -> None:
    """Warnings of a shared template, of members of a group, and of a stack as a resource appear once."""
    template = write(machine, WARNED)
    (machine.folder / "inner" / "odd.yaml").write_text(ODD)
    (machine.folder / "inner" / "other.yaml").write_text(f"# another\n{ODD}")
    done = machine.command(
        "heat-config-agent",
        [*command, template],
        {"HEAT_CONFIG_STATE_DIR": str(machine.state)},
    )
    assert done.code == 0
    warnings = [line for line in done.err.splitlines() if "warning: " in line]
    assert [
        line.partition("/inner/")[2].partition(": ")[0]
        for line in warnings
        if "get_parm is not" in line
    ] == [
        "odd.yaml:3:51",
        "other.yaml:4:51",
    ]
    (member,) = [line for line in warnings if "a stack has no action BACKUP" in line]
    assert "p.yaml:5:3: " in member
    assert len(warnings) == 3
