"""Data flows one way: imports point down, nothing imports in a circle, and the hooks know nothing of the agent."""

from __future__ import annotations

import ast
import functools
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

ROWS = (
    {"cli"},
    {"daemon", "doctor", "migration", "follow", "hot", "tosca"},
    {"stack"},
    {"engine"},
    {"signals", "sources", "state", "language"},
    {"runs"},
    {"signing"},
    {"deployments", "settings", "web"},
    {"model", "masking"},
)
"""The packages and modules of the agent, top to bottom. Each imports only from rows below its own; in the last row they
may import one another."""

HOOKS = {"protocol", "processes", "options", "programs", "errors", "reply", "files", "load", "HOOKS"}
HOOKS |= {"strict_json", "strict_yaml", "yaml_schema", "yaml_tree", "memory", "values", "alphabet", "artifacts"}
HOOKS |= {"script_outputs", "isolation", "retry"}
"""What the agent knows of the hooks."""


@functools.cache
def imports(path: Path) -> frozenset[str]:
    """Return the dotted names that a module imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return frozenset(found)


PACKAGE = ROOT / "agent/heat_config_agent"
AGENT = sorted(PACKAGE.rglob("*.py"))
HOOK_MODULES = sorted((ROOT / "hooks/heat_config_hooks").rglob("*.py"))


def module(path: Path) -> str:
    """Return the dotted name of a module of the agent, without the agent's own."""
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix("__init__").removesuffix(".")


MODULES = {module(path): path for path in AGENT}


def uses(path: Path) -> set[str]:
    """Return the modules of the agent that a module imports, also those that only type checkers load."""
    found = set()
    for name in imports(path):
        parts = name.split(".")
        if parts[0] == "heat_config_agent" and parts[1] != "__version__":
            inner = name.partition(".")[2]
            found.add(inner if inner in MODULES else inner.rpartition(".")[0])
    return found - {module(path)}


def row(name: str) -> int:
    """Return the position of the row in which a module or its package is."""
    return next(position for position, names in enumerate(ROWS) if name.partition(".")[0] in names)


def circles(arrows: Mapping[str, AbstractSet[str]]) -> list[set[str]]:
    """Return the groups of names of which each reaches all others."""
    reached: dict[str, set[str]] = {}
    for start in arrows:
        seen: set[str] = set()
        todo = [start]
        while todo:
            new = arrows.get(todo.pop(), frozenset()) - seen
            seen |= new
            todo += new
        reached[start] = seen
    groups = {frozenset(other for other in reached[name] if name in reached.get(other, ())) for name in arrows}
    return [set(group) for group in groups if group]


@pytest.mark.parametrize("path", AGENT, ids=lambda path: str(path.relative_to(ROOT / "agent")))
def test_imports_point_down(path: Path) -> None:
    """No module of the agent imports one of a row above its own, nor of another package of its row."""
    own = module(path)
    for name in uses(path) if own else ():
        same = own.partition(".")[0] == name.partition(".")[0] or row(own) == row(name) == len(ROWS) - 1
        assert same or row(name) > row(own), f"{own} imports {name}"


@pytest.mark.parametrize("path", AGENT, ids=lambda path: str(path.relative_to(ROOT / "agent")))
def test_the_agent_knows_little_of_the_hooks(path: Path) -> None:
    """The agent imports only shared modules of the package of hooks, and no hook."""
    for name in imports(path):
        parts = name.split(".")
        if parts[0] == "heat_config_hooks" and len(parts) > 1:
            assert parts[1] in HOOKS, f"{module(path)} imports {name}"


def test_no_modules_import_one_another() -> None:
    """There is no circle among the modules of the agent, nor among those of the hooks."""
    assert circles({name: uses(path) for name, path in MODULES.items() if name}) == []

    hooks = {".".join(path.relative_to(ROOT / "hooks").with_suffix("").parts): path for path in HOOK_MODULES}
    arrows = {name: (imports(path) & hooks.keys()) - {name} for name, path in hooks.items()}
    assert any(arrows.values())
    assert circles(arrows) == []


def test_no_packages_import_one_another() -> None:
    """There is no circle among the packages of the agent."""
    arrows: dict[str, set[str]] = {}
    for name, path in MODULES.items():
        own = name.partition(".")[0]
        arrows.setdefault(own, set()).update({used.partition(".")[0] for used in uses(path)} - {own})
    arrows.pop("")
    assert circles(arrows) == []


def test_a_circle_is_found() -> None:
    """The search itself: all that reach one another, and nothing else."""
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set()}) == [{"a", "b", "c"}]
    assert circles({"a": {"b"}, "b": set()}) == []


LANGUAGES = {"hot", "language", "tosca"}
"""The packages that make definitions of stacks out of text, and the one that they share. HOT and TOSCA are in one row:
neither knows the other."""


@pytest.mark.parametrize("path", AGENT, ids=lambda path: str(path.relative_to(ROOT / "agent")))
def test_languages_and_the_stack_meet_in_plain_data(path: Path) -> None:
    """A language knows of the stack only its definition; the rows see to it that the stack knows of no language."""
    if path.relative_to(ROOT / "agent/heat_config_agent").parts[0] in LANGUAGES:
        of_stack = {name for name in imports(path) if f"{name}.".startswith("heat_config_agent.stack.")}
        assert {name.split(".")[2] for name in of_stack} <= {"definition"}


@pytest.mark.parametrize("path", sorted((ROOT / "hooks").rglob("*.py")), ids=lambda path: path.name)
def test_hooks_know_nothing_of_the_agent(path: Path) -> None:
    """A hook can be used by any agent that speaks its protocol."""
    assert not [name for name in imports(path) if name.startswith("heat_config_agent")]
