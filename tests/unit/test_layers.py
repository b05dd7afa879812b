"""Data flows one way: imports point from stack to agent to hooks, and from room to room down, never in a circle."""

from __future__ import annotations

import ast
import functools
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

ROWS = {
    "heat_config_agent": (
        {"cli"},
        {"daemon", "doctor", "migration"},
        {"verification"},
        {"engine"},
        {"signals", "sources", "state"},
        {"runs"},
        {"signing"},
        {"deployments", "settings", "web"},
        {"model", "masking", "diagnostics"},
    ),
    "heat_config_stack": (
        {"cli"},
        {"follow", "hosts", "plugins"},
        {"resource_types"},
        {"lifecycle"},
        {"resource"},
        {"hot", "tosca", "records"},
        {"definition"},
    ),
    "heat_config_stack.tosca": (
        {"export"},
        {"compilation"},
        {"checks"},
        {"evaluation"},
        {"topology"},
        {"files"},
        {"profiles"},
        {"language"},
    ),
}
"""The rooms of the packages, top to bottom. They import only from rows below their own; in the last row of a package
they may import one another."""

KNOWS_STACK = "heat_config_agent.cli.stack_package"
"""The one module of the agent that names the stack package, and loads it when one of its commands is called."""

LANGUAGES = {"hot": {"definition"}, "tosca": {"definition"}}
"""Room of a language → the rooms that it may know: languages and stacks meet in plain data."""

HOOKS = {
    "protocol",
    "processes",
    "options",
    "programs",
    "errors",
    "reply",
    "files",
    "load",
    "HOOKS",
}
HOOKS |= {
    "strict_json",
    "strict_yaml",
    "yaml_schema",
    "yaml_tree",
    "memory",
    "values",
    "alphabet",
    "artifacts",
}
HOOKS |= {"script_outputs", "isolation", "retry", "words", "needs", "health", "verdict"}
HOOKS |= {"on_failure"}
"""The modules of the hooks that the agent and the stack package may know."""

UNIT_TESTS = {
    "agent": "agent/heat_config_agent",
    "stack": "agent/heat_config_stack",
    "hooks": "hooks/heat_config_hooks",
}
"""Folder of `tests/unit` → the package whose modules it tests."""


@functools.cache
def imports(path: Path) -> frozenset[str]:
    """Return the dotted names that a module imports."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return frozenset(names)


def modules(*folders: str) -> dict[str, Path]:
    """Return dotted name → path of all modules of packages."""
    paths = [
        path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))
    ]
    return {".".join(_parts(path)): path for path in paths}


def _parts(path: Path) -> tuple[str, ...]:
    parts = path.relative_to(ROOT).with_suffix("").parts[1:]
    return parts[:-1] if parts[-1] == "__init__" else parts


MODULES = modules("agent/heat_config_agent", "agent/heat_config_stack")
HOOK_MODULES = modules("hooks/heat_config_hooks", "hooks/heat_config_compat")


def uses(name: str) -> set[str]:
    """Return the modules of both packages that a module imports, also those that only type checkers load."""
    used = set()
    for imported in imports(MODULES[name]):
        used.add(imported if imported in MODULES else imported.rpartition(".")[0])
    return (used & MODULES.keys()) - {name}


def room(name: str, package: str) -> str:
    """Return the room of a module in a package; empty for the package itself, and for modules outside of it."""
    return (
        name.removeprefix(f"{package}.").partition(".")[0]
        if name.startswith(f"{package}.")
        else ""
    )


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
    groups = {
        frozenset(other for other in reached[name] if name in reached.get(other, ()))
        for name in arrows
    }
    return [set(group) for group in groups if group]


@pytest.mark.parametrize("package", ROWS)
def test_imports_point_down(package: str) -> None:
    """No module of a package imports from a row above its own, nor from another room of its row but the last."""
    rows = ROWS[package]
    position = {name: number for number, names in enumerate(rows) for name in names}
    last = len(rows) - 1
    wrong = []
    for module in MODULES:
        own = room(module, package)
        for used in uses(module) if own else ():
            other = room(used, package)
            if other and other != own and position[other] <= position[own] < last:
                wrong.append(f"{module} imports {used}")
    assert wrong == []


@pytest.mark.parametrize("package", ROWS)
def test_every_room_has_a_row_and_says_what_it_is_for(package: str) -> None:
    """A new room is put into a row, and its `__init__` has a docstring."""
    folder = ROOT.joinpath("agent", *package.split("."))
    rooms = {path.parent.name: path for path in folder.glob("*/__init__.py")}
    assert rooms.keys() == set().union(*ROWS[package])
    assert not [
        name
        for name, path in rooms.items()
        if not ast.get_docstring(ast.parse(path.read_text()))
    ]


def test_the_agent_knows_the_stack_package_in_one_module() -> None:
    """Whoever reads the agent never has to open the stack package."""
    agent = [module for module in MODULES if module.startswith("heat_config_agent")]
    assert [
        module
        for module in agent
        if any(used.startswith("heat_config_stack") for used in uses(module))
    ] == [KNOWS_STACK]
    at_top = [
        node
        for node in ast.parse(MODULES[KNOWS_STACK].read_text()).body
        if isinstance(node, ast.ImportFrom)
    ]
    assert not [
        node.module
        for node in at_top
        if str(node.module).startswith("heat_config_stack")
    ]


@pytest.mark.parametrize("language", LANGUAGES)
def test_languages_and_stacks_meet_in_plain_data(language: str) -> None:
    """A language knows of the stack package only the definition, never the other language."""
    package = "heat_config_stack"
    used = {
        other
        for module in MODULES
        if room(module, package) == language
        for other in uses(module)
    }
    assert {room(other, package) for other in used} - {"", language} <= LANGUAGES[
        language
    ]


@pytest.mark.parametrize(
    "room_", sorted({".".join(module.split(".")[:2]) for module in MODULES})
)
def test_little_of_the_hooks_is_known(room_: str) -> None:
    """The agent and the stack package import only shared modules of the package of hooks, and no hook."""
    for module in MODULES:
        if f"{module}.".startswith(f"{room_}."):
            for name in imports(MODULES[module]):
                package, _, rest = name.partition(".")
                assert (
                    package != "heat_config_hooks"
                    or not rest
                    or rest.split(".")[0] in HOOKS
                ), f"{module}: {name}"


def test_hooks_know_nothing_of_the_agent() -> None:
    """A hook can be used by any agent that speaks its protocol."""
    known = {name for path in HOOK_MODULES.values() for name in imports(path)}
    assert not [
        name
        for name in known
        if name.startswith(("heat_config_agent", "heat_config_stack"))
    ]


def test_modules_form_no_circle() -> None:
    """There is no circle among the modules of the agent and of stacks, nor among those of the hooks."""
    arrows = {name: uses(name) - {KNOWS_STACK} for name in MODULES if name not in ROWS}
    assert circles(arrows) == []

    hooks = {
        name: (imports(path) & HOOK_MODULES.keys()) - {name}
        for name, path in HOOK_MODULES.items()
    }
    assert any(hooks.values())
    assert circles(hooks) == []


@pytest.mark.parametrize("package", ROWS)
def test_rooms_form_no_circle(package: str) -> None:
    """There is no circle among the rooms of a package."""
    arrows: dict[str, set[str]] = {}
    for module in MODULES:
        if own := room(module, package):
            arrows.setdefault(own, set()).update(
                {room(used, package) for used in uses(module)} - {own, ""}
            )
    assert any(arrows.values())
    assert circles(arrows) == []


@pytest.mark.parametrize("tests", UNIT_TESTS)
def test_unit_tests_have_the_folders_of_their_package(tests: str) -> None:
    """Tests of a module lie in the folder of `tests/unit` that has the name of the module's room."""
    package = ROOT / UNIT_TESTS[tests]
    folder = ROOT / "tests" / "unit" / tests
    paths = sorted(folder.rglob("test_*.py"))
    assert paths
    assert not [
        path
        for path in paths
        if not (package / path.parent.relative_to(folder)).is_dir()
    ]


def test_unit_tests_of_agent_and_hooks_do_without_the_stack_package() -> None:
    """Only the tests of the stack package import it."""
    paths = [
        path
        for tests in ("agent", "hooks")
        for path in (ROOT / "tests" / "unit" / tests).rglob("*.py")
    ]
    assert not [
        path
        for path in paths
        if any(name.startswith("heat_config_stack") for name in imports(path))
    ]


def test_circle_is_reported() -> None:
    """The search itself: all that reach one another, and nothing else."""
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set()}) == [
        {"a", "b", "c"}
    ]
    assert circles({"a": {"b"}, "b": set()}) == []
