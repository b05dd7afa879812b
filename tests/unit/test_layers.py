"""Data flows one way: imports point down the layers, and the hooks know nothing of the agent."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

LAYERS = (
    {"cli"},
    {"loop", "checks", "migration"},
    {"steering", "reboot"},
    {"hot"},
    {"stack"},
    {"settings"},
    {"apply", "collection"},
    {"pruning"},
    {"hook", "delivery", "report", "bounding"},
    {"sources", "documents", "journal", "runner", "signals", "lock", "asked", "deployed", "tools", "external"},
    {"streams", "learned", "instance", "scopes", "keystone", "web", "notify", "health"},
    {"plan", "polling", "steady"},
    {"retention"},
    {"clean_up"},
    {"selection", "result"},
    {"metadata", "redaction"},
    {"transports"},
    {"configuration"},
    {"constraints"},
    {"custom_constraints"},
    {"kill_points", "unchanged"},
    {"model", "errors"},
)
"""The modules of the agent, top to bottom. Those of one layer may know each other."""

HOOKS = {"protocol", "processes", "options", "programs", "errors", "reply", "files", "load", "HOOKS"}
HOOKS |= {"strict_json", "strict_yaml", "memory", "values"}
"""What the agent knows of the hooks."""


def imports(path: Path) -> set[str]:
    """Return the dotted names that a module imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def layer(name: str) -> int:
    """Return the position of a module's layer, from the top."""
    return next(position for position, names in enumerate(LAYERS) if name in names)


AGENT = sorted((ROOT / "agent/heat_config_agent").rglob("*.py"))


@pytest.mark.parametrize("path", AGENT, ids=lambda path: str(path.relative_to(ROOT / "agent")))
def test_imports_point_down(path: Path) -> None:
    """No module of the agent imports one of a layer above its own."""
    own = path.relative_to(ROOT / "agent/heat_config_agent").parts[0].removesuffix(".py")
    if own == "__init__":
        return
    for name in imports(path):
        parts = name.split(".")
        if parts[0] == "heat_config_agent" and parts[1] != "__version__":
            assert layer(parts[1]) >= layer(own), f"{own} imports {parts[1]}"
        if parts[0] == "heat_config_hooks" and len(parts) > 1:
            assert parts[1] in HOOKS, f"{own} imports {name}"


LANGUAGES = {"hot"}
"""What makes definitions of stacks out of text."""


@pytest.mark.parametrize("path", AGENT, ids=lambda path: str(path.relative_to(ROOT / "agent")))
def test_languages_and_the_stack_meet_in_plain_data(path: Path) -> None:
    """A language knows of the stack only its definition; the layers see to it that the stack knows of no language."""
    if path.relative_to(ROOT / "agent/heat_config_agent").parts[0] in LANGUAGES:
        of_stack = {name for name in imports(path) if f"{name}.".startswith("heat_config_agent.stack.")}
        assert {name.split(".")[2] for name in of_stack} <= {"definition"}


@pytest.mark.parametrize("path", sorted((ROOT / "hooks").rglob("*.py")), ids=lambda path: path.name)
def test_hooks_know_nothing_of_the_agent(path: Path) -> None:
    """A hook can be used by any agent that speaks its protocol."""
    assert not [name for name in imports(path) if name.startswith("heat_config_agent")]
