"""The hooks for older tools, which may not be installed: what the agent knows of them nevertheless."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

import heat_config_compat
import heat_config_hooks
from heat_config_agent.deployments import cleanup
from heat_config_agent.settings import policy
from heat_config_hooks.errors import MissingTool

SENTENCE = "the hook for the tool 'kubelet' is not installed; install the package heat-config-agent-compat"


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package is not installed."""
    for tool in heat_config_hooks.COMPAT:
        monkeypatch.delitem(heat_config_hooks.HOOKS, tool)


def test_the_rows_of_the_package_are_those_that_the_agent_names() -> None:
    """Every tool of the package is known to be in it, and its hook is where the row says."""
    assert heat_config_compat.HOOKS.keys() == heat_config_hooks.COMPAT
    for tool, module in heat_config_compat.HOOKS.items():
        assert heat_config_hooks.HOOKS[tool] == module
        assert heat_config_hooks.load(tool).ABOUT.config
        assert heat_config_hooks.absent(tool) == ""


def test_deprecated_hook_names_a_tool_to_use_instead() -> None:
    """Only `kubelet` is deprecated; the tool that its reason names is not."""
    reasons = {
        tool: heat_config_hooks.load(tool).ABOUT.deprecated
        for tool in heat_config_hooks.HOOKS
    }
    reason = reasons.pop("kubelet")
    assert set(reasons.values()) == {""}
    assert re.findall(r"use ([\w-]+)", reason) == ["quadlet"]


def test_cleanups_are_known_without_the_package() -> None:
    """Tools that leave something running are known even if the package is removed."""
    cleans = {
        tool: heat_config_hooks.load(tool).ABOUT.cleans
        for tool in heat_config_hooks.COMPAT
    }
    assert {
        tool: value for tool, value in cleans.items() if value
    } == cleanup._OF_ABSENT  # noqa: SLF001


@pytest.mark.usefixtures("without")
def test_a_hook_that_is_not_installed_names_its_package() -> None:
    """With one sentence; a name that no hook has is not among them."""
    assert heat_config_hooks.absent("kubelet") == SENTENCE
    assert (
        heat_config_hooks.absent("script") == heat_config_hooks.absent("nothing") == ""
    )
    with pytest.raises(MissingTool) as caught:
        heat_config_hooks.load("kubelet")
    assert (str(caught.value), caught.value.code) == (SENTENCE, 127)


@pytest.mark.usefixtures("without")
def test_a_policy_may_name_its_tools() -> None:
    """A policy of a machine on which the package was installed keeps the agent working."""
    assert policy._words("tools", "script, kubelet") == ("script", "kubelet")  # noqa: SLF001


def test_the_agent_starts_without_the_package() -> None:
    """Python finds no such package: its rows are missing, and nothing else."""
    code = (
        "import sys\nsys.modules['heat_config_compat'] = None\nimport heat_config_hooks\n"
        "print(*sorted(heat_config_hooks.COMPAT & heat_config_hooks.HOOKS.keys()), 'script' in heat_config_hooks.HOOKS)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")
