"""The tests that concern a file: `make test-of FILE=…` runs them, and `make map` records them.

`python tests/support/concerning.py FILE …` prints the test files that concern files of the product or of the tests:

- the test files that have run the functions of a module, in the last recording;
- the tests of `tests/unit` that are named after it;
- the test files that import it, also through a module that tests share.

`python tests/support/concerning.py --record [TEST FILE …]` runs test files one by one under coverage, those of
`make test` by default, and writes `tests/concerning.json`: for each module the test files that ran most of it.
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]

RECORD = ROOT / "tests" / "concerning.json"
"""Module → test file → lines of functions that it ran."""

KEPT = 6
"""Test files that are kept for a module: those that run most of it."""

UNIT_TESTS = {
    "agent/heat_config_agent": "tests/unit/agent",
    "agent/heat_config_stack": "tests/unit/stack",
    "hooks/heat_config_hooks": "tests/unit/hooks",
}
"""Package → the folder of the tests of its modules."""

_IMPORT = re.compile(
    r"^[ \t]*(from [\w.]+ import (?:\([^)]*\)|[^(\n]+)|import [\w., ]+?)[ \t]*(?:#.*)?$",
    re.MULTILINE,
)
"""An import, also in code that a test gives to Python; the whole file takes twenty times as long to parse."""

Ran = dict[str, dict[str, int]]
"""Module → test file → lines."""


def concerning(path: str, recorded: Ran) -> list[str]:
    """Return the test files that concern a file, by its path in the repository; none for a file that is not Python."""
    if not path.endswith(".py"):
        return []
    if _is_test(path):
        return [path]
    tests = [*recorded.get(path, {}), *_named_after(path), *_importing(path)]
    return sorted({test for test in tests if (ROOT / test).exists()})


def _is_test(path: str) -> bool:
    return (
        path.startswith("tests/")
        and Path(path).name.startswith("test_")
        and path.endswith(".py")
    )


def _named_after(path: str) -> list[str]:
    """Return the tests in the folder of the module's room whose names begin with the module's name."""
    module = Path(path)
    for package, tests in UNIT_TESTS.items():
        if module.is_relative_to(package):
            room = tests / module.parent.relative_to(package)
            return [
                str(test.relative_to(ROOT))
                for test in (ROOT / room).glob(f"test_{module.stem}*.py")
            ]
    return []


def _importing(path: str) -> list[str]:
    """Return the test files that import a module directly, or through modules of `tests`."""
    reached, todo = set(), [path]
    while todo:
        name = _dotted(todo.pop())
        for module, imported in _imports().items():
            if module not in reached and name in imported:
                reached.add(module)
                # Hundreds of tests use the machine of `tests/support`; it is not imported to test its own imports.
                if not _is_test(module) and not path.startswith(("agent/", "hooks/")):
                    todo.append(module)
    return [module for module in reached if _is_test(module)]


def _dotted(path: str) -> str:
    parts = Path(path).with_suffix("").parts[1:]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def _imports() -> dict[str, set[str]]:
    """Return module of `tests` → the dotted names that it imports."""
    result = {}
    for path in sorted((ROOT / "tests").rglob("*.py")):
        names: set[str] = set()
        for statement in _IMPORT.finditer(path.read_text(encoding="utf-8")):
            node = ast.parse(statement[1]).body[0]
            if isinstance(node, ast.Import):
                names.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                names.add(node.module)
                names.update(f"{node.module}.{alias.name}" for alias in node.names)
        result[path.relative_to(ROOT).as_posix()] = names
    return result


def run_by(test: str) -> dict[str, int]:
    """Run a test file under coverage, and return module → lines of its functions that were run."""
    from coverage import CoverageData  # noqa: PLC0415  # only a recording needs it

    with tempfile.TemporaryDirectory(prefix="concerning-") as folder:
        environment = {**os.environ, "COVERAGE_FILE": f"{folder}/coverage"}
        command = [
            sys.executable,
            "-m",
            "coverage",
            "run",
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            test,
        ]
        subprocess.run(
            command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, check=False
        )
        ran: dict[str, set[int]] = {}
        for path in Path(folder).glob("coverage*"):
            data = CoverageData(str(path))
            data.read()
            for module in data.measured_files():
                ran.setdefault(module, set()).update(data.lines(module) or ())
    counts = {
        module: len(lines & in_functions(module)) for module, lines in ran.items()
    }
    return {
        Path(module).relative_to(ROOT).as_posix(): count
        for module, count in sorted(counts.items())
        if count
    }


@cache
def in_functions(module: str) -> set[int]:
    """Return the numbers of the lines of all functions of a module: an import runs the others."""
    path = Path(module)
    if not path.is_relative_to(ROOT) or not path.exists():
        return set()
    lines: set[int] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines.update(range(node.body[0].lineno, (node.end_lineno or 0) + 1))
    return lines


def merged(recorded: Ran, test: str, counts: dict[str, int]) -> Ran:
    """Return a recording with the result of one test file in the place of its earlier one."""
    result = {}
    for module in sorted(recorded.keys() | counts.keys()):
        tests = {
            name: lines
            for name, lines in recorded.get(module, {}).items()
            if name != test
        }
        if module in counts:
            tests[test] = counts[module]
        most = sorted(tests, key=lambda name: (-tests[name], name))[:KEPT]
        if most and (ROOT / module).exists():
            result[module] = {
                name: tests[name] for name in sorted(most) if (ROOT / name).exists()
            }
    return result


def read() -> Ran:
    """Return the recording; it is empty where there is none."""
    return json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}


def write(recorded: Ran) -> None:
    """Write a recording, one module on a line."""
    lines = ",\n".join(
        f"{json.dumps(module)}: {json.dumps(tests)}"
        for module, tests in recorded.items()
    )
    RECORD.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")


def usual() -> list[str]:
    """Return the test files of `make test`."""
    settings = (
        (ROOT / "pyproject.toml")
        .read_text(encoding="utf-8")
        .partition("\ntestpaths = [")[2]
    )
    folders = re.findall(r'"(.+)"', settings.partition("]")[0])
    paths = [
        path
        for folder in folders
        for path in sorted((ROOT / folder).rglob("test_*.py"))
    ]
    return [path.relative_to(ROOT).as_posix() for path in paths]


def record(tests: Iterable[str]) -> None:
    """Record test files, a few at a time; each is written when it has ended, so that a recording may be stopped."""
    with ThreadPoolExecutor(int(os.environ.get("WORKERS", "2"))) as pool:
        runs = {pool.submit(run_by, name): name for name in tests}
        for run in as_completed(runs):
            counts = run.result()
            write(merged(read(), runs[run], counts))
            print(f"{runs[run]}: {len(counts)} modules", flush=True)


def main() -> int:
    """Print the tests that concern files, or record them."""
    words = sys.argv[1:]
    if words[:1] == ["--record"]:
        record(words[1:] or usual())
        return 0
    recorded, paths = read(), [Path(word).resolve() for word in words]
    if not paths:
        print(
            "name a file: make test-of FILE=agent/heat_config_agent/state/lock.py",
            file=sys.stderr,
        )
        return 2
    tests: set[str] = set()
    for path in paths:
        if not path.is_relative_to(ROOT) or not path.exists():
            print(f"{path} is not a file of this repository", file=sys.stderr)
            return 2
        tests.update(concerning(path.relative_to(ROOT).as_posix(), recorded))
    if not tests:
        print(
            f"no test is known to concern {' '.join(words)}: record the tests with `make map`",
            file=sys.stderr,
        )
        return 1
    print(*sorted(tests))
    return 0


if __name__ == "__main__":
    sys.exit(main())
