"""The agent works without the stack package: `make test-agent` runs its tests without that package."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from support import agent_alone, pace
from support.machine import deployment

IMPORTS = """
import importlib, pkgutil, heat_config_agent
for module in pkgutil.walk_packages(heat_config_agent.__path__, "heat_config_agent."):
    importlib.import_module(module.name)
try:
    import heat_config_stack
except ModuleNotFoundError as error:
    print(error.name)
"""


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """The Python of an environment without the stack package."""
    return agent_alone.make(tmp_path / "alone")


def run(*words: str | Path) -> str:
    """Run a program to its end, and return what it prints."""
    done = subprocess.run(
        words,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=pace.seconds(60),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_module_of_the_agent_loads_without_the_stack_package(
    python: Path,
) -> None:
    """No module of the agent imports the stack package when it is loaded."""
    assert run(python, "-c", IMPORTS) == "heat_config_stack\n"


def test_commands_carry_out_deployments_without_the_stack_package(
    python: Path, tmp_path: Path
) -> None:
    """A document is applied, and its deployment shown."""
    document = tmp_path / "document.json"
    document.write_text(json.dumps([deployment("d1", "#!/bin/sh\necho done\n")]))
    state = tmp_path / "state"
    run(python.with_name("heat-config-apply"), "--state-dir", state, document)
    shown = json.loads(
        run(
            python.with_name("heat-config-agent"),
            "status",
            "--json",
            "--state-dir",
            state,
        )
    )
    assert [entry["id"] for entry in shown["data"]["deployments"]] == ["d1"]


@pytest.mark.slow
def test_tests_of_the_agent_are_collected_without_the_stack_package(
    python: Path,
) -> None:
    """Every test that `make test-agent` runs can be loaded."""
    words = [
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-n",
        "0",
        "--collect-only",
        *agent_alone.FOLDERS,
    ]
    done = subprocess.run(
        [python, *words],
        cwd=agent_alone.ROOT,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=pace.seconds(100),
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
