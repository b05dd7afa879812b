"""Heat's own resource modules as plug-ins: which load, and the reason for each that does not."""

from __future__ import annotations

import importlib.util
import re
import shutil
from collections import Counter
from pathlib import Path

import pytest

from heat_config_stack.plugins import plugins
from heat_config_stack.resource_types import known_types
from stack.made import made
from stack.plugin_stack import PluginStack
from stack.working import Working

HEAT = next(
    iter(
        sorted(
            (Path(__file__).parents[2] / ".venv/heat").glob(
                "lib/python3.*/site-packages/heat"
            )
        )
    ),
    None,
)

CLIENTS = {
    "keystoneauth1": 3,
    "keystoneclient": 1,
    "neutron_lib": 1,
    "stevedore": 1,
    "tenacity": 3,
}
"""The libraries that modules import and that are not installed, with the number of those modules."""


@pytest.fixture
def resources(tmp_path: Path) -> Path:
    """Return a copy of Heat's own resources."""
    if HEAT is None:
        pytest.skip("no Heat in .venv/heat: run make test-all")
    return Path(shutil.copytree(HEAT / "engine" / "resources", tmp_path / "resources"))


def test_modules_of_heat_load_unless_a_library_is_missing(resources: Path) -> None:
    """The reason for each of the others is a library that is not installed, with the way to install it."""
    loaded = plugins.load([resources])
    reasons = [each.partition(" is not used: it needs ")[2] for each in loaded.disabled]
    needed = Counter(
        library
        for reason in reasons
        for library in reason.partition(",")[0].split(" and ")
    )
    missing = {
        name: number
        for name, number in CLIENTS.items()
        if importlib.util.find_spec(name) is None
    }
    assert needed == missing
    assert all(
        re.search(r"not installed: install [a-z][a-z0-9, -]+ for /", each)
        for each in reasons
    )
    assert {
        "OS::Cinder::Volume",
        "AWS::EC2::Instance",
        "OS::Heat::SoftwareComponent",
    } <= loaded.types.keys()
    # Those that are carried out here, and whose classes need Heat's engine, stay ours.
    assert (
        not {
            "OS::Heat::ResourceGroup",
            "OS::Heat::Stack",
            "OS::Heat::SoftwareDeployment",
        }
        & loaded.types.keys()
    )
    assert not plugins.PARTNERS & loaded.types.keys()


DERIVED = """
from heat.engine import properties
from heat.engine.resources.aws.autoscaling import autoscaling_group as of_instances
from heat.engine.resources.openstack.heat import autoscaling_group, instance_group, resource_chain, resource_group


class Group(resource_group.ResourceGroup):
    def build_resource_definition(self, res_name, res_defn):
        made = super().build_resource_definition(res_name, res_defn)
        return made.freeze(properties={'value': 'derived ' + res_name})


class Chain(resource_chain.ResourceChain):
    pass


class Scaled(autoscaling_group.AutoScalingResourceGroup):
    pass


class Instances(instance_group.InstanceGroup):
    pass


class ScaledInstances(of_instances.AutoScalingGroup):
    pass


def resource_mapping():
    return {f'My::{each.__name__}': each for each in (Group, Chain, Scaled, Instances, ScaledInstances)}
"""

GROUPS = """
parameters: {size: {type: number, default: 2}, value: {type: string, default: one}}
resources:
  conf:
    type: AWS::AutoScaling::LaunchConfiguration
    properties: {ImageId: {get_param: value}, InstanceType: small}
  group:
    type: My::Group
    properties: {count: {get_param: size}, resource_def: {type: OS::Heat::Value, properties: {value: x}}}
    update_policy: {rolling_update: {max_batch_size: 1}, batch_create: {max_batch_size: 1, pause_time: 0.01}}
  chain:
    type: My::Chain
    properties: {resources: [OS::Heat::Value], resource_properties: {value: {get_param: value}}}
  scaled:
    type: My::Scaled
    properties:
      {min_size: 1, max_size: 5, desired_capacity: {get_param: size},
       resource: {type: OS::Heat::Value, properties: {value: {get_param: value}}}}
  instances:
    type: My::Instances
    properties: {AvailabilityZones: [a], LaunchConfigurationName: {get_resource: conf}, Size: {get_param: size}}
    update_policy: {RollingUpdate: {MaxBatchSize: 1}}
  ours:
    type: OS::Heat::InstanceGroup
    properties: {AvailabilityZones: [a], LaunchConfigurationName: {get_resource: conf}, Size: 1}
  scaled_instances:
    type: My::ScaledInstances
    properties:
      {AvailabilityZones: [a], LaunchConfigurationName: {get_resource: conf}, MinSize: 1, MaxSize: 3,
       DesiredCapacity: {get_param: size}}
outputs:
  group: {value: {get_attr: [group, value]}}
  second: {value: {get_attr: [group, resource.1.value]}}
  names: {value: {get_attr: [group, attributes, value]}}
  chain: {value: {get_attr: [chain, value]}}
  scaled: {value: {get_attr: [scaled, outputs_list, value]}}
  size: {value: {get_attr: [scaled, current_size]}}
  instances: {value: {get_attr: [instances, InstanceList]}}
  more: {value: {get_attr: [scaled_instances, InstanceList]}}
  ours: {value: {get_attr: [ours, InstanceList]}}
"""


def test_groups_derived_from_heats_are_carried_out(
    resources: Path, tmp_path: Path
) -> None:
    """Their members, outputs and batches are those of Heat's classes, with child stacks of this machine."""
    shutil.rmtree(resources / "aws" / "ec2")  # the members are this machine
    (resources / "mine.py").write_text(DERIVED)
    stack = PluginStack(Path(shutil.move(resources, tmp_path / "plugins")).parent)
    stack.create(GROUPS)
    assert stack.root.record.reason == ""
    assert (stack.output("group"), stack.output("second")) == (
        ["derived 0", "derived 1"],
        "derived 1",
    )
    assert (stack.output("chain"), stack.output("scaled"), stack.output("size")) == (
        ["one"],
        ["one"] * 2,
        2,
    )
    assert stack.output("instances") == stack.output("more") == "127.0.0.1,127.0.0.1"
    assert stack.output("ours") == "127.0.0.1"
    stack.update(GROUPS, size=3, value="two")
    assert stack.root.record.reason == ""
    assert stack.output("names") == {
        "0": "derived 0",
        "1": "derived 1",
        "2": "derived 2",
    }
    assert (stack.output("chain"), stack.output("scaled")) == (["two"], ["two"] * 3)
    assert (
        stack.output("instances")
        == stack.output("more")
        == "127.0.0.1,127.0.0.1,127.0.0.1"
    )
    stack.session.delete()
    assert stack.session.root is None
    stack.close()


def test_configs_of_heats_own_classes_are_carried_out(resources: Path) -> None:
    """They are stored where our deployments find them, also as parts of others, and are deleted with the stack."""
    heats = resources / "openstack" / "heat"
    wanted = ("software_config", "cloud_config", "multi_part", "software_component")
    for path in heats.glob("*.py"):
        if path.stem not in wanted:
            path.unlink()
    found = plugins.load([resources])
    config = found.types["OS::Heat::SoftwareConfig"]
    assert config.__module__.startswith("heat_config_agent_plugins_")
    working = Working(resources.parent, known_types(found.types))
    working.session.create(
        made(
            {
                "text": {
                    "type": "OS::Heat::SoftwareConfig",
                    "properties": {
                        "group": "script",
                        "config": "echo hello",
                        "inputs": [{"name": "i", "default": "x"}],
                    },
                },
                "cloud": {
                    "type": "OS::Heat::CloudConfig",
                    "properties": {"cloud_config": {"a": [1]}},
                },
                "both": {
                    "type": "OS::Heat::MultipartMime",
                    "properties": {"parts": [{"config": {"ref": "cloud"}}]},
                },
                "run": {
                    "type": "OS::Heat::SoftwareDeployment",
                    "properties": {"config": {"ref": "text"}, "server": "here"},
                },
            },
            {
                "cloud": {"attr": ["cloud", "config"]},
                "both": {"attr": ["both", "config"]},
            },
        )
    )
    assert set(working.states().values()) == {"CREATE_COMPLETE"}
    assert working.root.output("cloud") == "#cloud-config\na:\n- 1\n"
    assert "#cloud-config\na:\n- 1\n" in str(working.root.output("both"))
    assert [
        each.outputs["deploy_stdout"]
        for each in working.root.world.store.deployments.values()
    ] == ["hello\n"]
    working.session.delete()
    assert working.session.root is None
    working.close()
