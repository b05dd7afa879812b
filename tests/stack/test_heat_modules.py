"""Heat's own resource modules as plug-ins: which load, and the reason for each that does not."""

from __future__ import annotations

import importlib.util
import re
import shutil
from pathlib import Path

import pytest

from heat_config_agent.stack import plugins
from heat_config_agent.stack.resources import known_types
from stack.made import made
from stack.working import Working

HEAT = next(iter(sorted((Path(__file__).parents[2] / ".venv/heat").glob("lib/python3.*/site-packages/heat"))), None)

OF_STACKS = {
    *("heat.common.pluginutils", "heat.common.grouputils", "heat.common.urlfetch", "heat.common.identifier"),
    *("heat.common.environment_format", "heat.common.auth_plugin", "heat.engine.output", "heat.engine.clients.os"),
}
"""Parts of Heat's own engine: its stacks within stacks, its groups, its access to other clouds."""

LIBRARIES = {"keystoneclient", "neutron_lib", "tenacity", "oslo_utils.reflection"}


@pytest.fixture
def resources(tmp_path: Path) -> Path:
    """Return a copy of Heat's own resources."""
    if HEAT is None:
        pytest.skip("no Heat in .venv/heat: run make test")
    return Path(shutil.copytree(HEAT / "engine" / "resources", tmp_path / "resources"))


def test_all_load_but_those_that_need_heats_engine_or_a_library(resources: Path) -> None:
    """The reason for each of the others is a part of Heat that we lack, or a library that is not installed."""
    found = plugins.load([resources])
    reasons = [each.partition(" is not used: it needs ")[2] for each in found.disabled]
    needed = {re.split(r", (?:a part of|which is not)", each)[0] for each in reasons}
    assert needed <= OF_STACKS | LIBRARIES
    for library in {each.partition(".")[0] for each in needed & LIBRARIES}:
        assert importlib.util.find_spec(library) is None
    modules = len(list(resources.rglob("*.py")))
    assert modules - len(found.disabled) >= modules * 0.85
    assert {"OS::Cinder::Volume", "AWS::EC2::Instance", "OS::Heat::SoftwareComponent"} <= found.types.keys()


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
                "cloud": {"type": "OS::Heat::CloudConfig", "properties": {"cloud_config": {"a": [1]}}},
                "both": {
                    "type": "OS::Heat::MultipartMime",
                    "properties": {"parts": [{"config": {"ref": "cloud"}}]},
                },
                "run": {
                    "type": "OS::Heat::SoftwareDeployment",
                    "properties": {"config": {"ref": "text"}, "server": "here"},
                },
            },
            {"cloud": {"attr": ["cloud", "config"]}, "both": {"attr": ["both", "config"]}},
        )
    )
    assert set(working.states().values()) == {"CREATE_COMPLETE"}
    assert working.root.output("cloud") == "#cloud-config\na:\n- 1\n"
    assert "#cloud-config\na:\n- 1\n" in str(working.root.output("both"))
    assert [each.outputs["deploy_stdout"] for each in working.root.world.store.deployments.values()] == ["hello\n"]
    working.session.delete()
    assert working.session.root is None
    working.close()
