"""`make test-of FILE=…` finds the tests that concern a file, in a fresh clone too."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support import concerning

ROOT = concerning.ROOT
LOCK = "agent/heat_config_agent/state/lock.py"


def test_record_is_in_the_repository_and_small() -> None:
    """The record has modules of the product, and for each a few test files."""
    recorded = concerning.read()
    assert recorded
    assert {name.split("/")[0] for name in recorded} <= {"agent", "hooks"}
    assert {name.split("/")[0] for tests in recorded.values() for name in tests} == {
        "tests"
    }
    assert max(len(tests) for tests in recorded.values()) <= concerning.KEPT


def test_unit_tests_of_a_module_concern_it() -> None:
    """A test of `tests/unit` that has the name of a module concerns it, without any record."""
    assert "tests/unit/agent/state/test_lock.py" in concerning.concerning(LOCK, {})


def test_importing_tests_concern_a_module() -> None:
    """A test file that imports a module concerns it, without any record."""
    assert "tests/unit/agent/cli/test_log.py" in concerning.concerning(LOCK, {})


def test_recorded_tests_concern_a_module() -> None:
    """A test file that ran functions of a module concerns it; a removed test file is left out."""
    path = "agent/heat_config_stack/tosca/language/refinements.py"
    recorded = {
        path: {"tests/tosca/test_cases.py": 3, "tests/tosca/test_removed.py": 5}
    }
    assert "tests/tosca/test_cases.py" in concerning.concerning(path, recorded)
    assert "tests/tosca/test_removed.py" not in concerning.concerning(path, recorded)


def test_tests_that_use_a_shared_module_concern_it() -> None:
    """A test file concerns a module of `tests/support` that it imports through another one."""
    assert "tests/faults/test_power_cut.py" in concerning.concerning(
        "tests/support/kill_points.py", {}
    )
    assert concerning.concerning("tests/unit/test_layers.py", {}) == [
        "tests/unit/test_layers.py"
    ]


def test_lines_of_functions_are_told_from_those_of_imports() -> None:
    """An import runs no line of a function's body."""
    lines = concerning.in_functions(str(ROOT / LOCK))
    assert lines
    assert 1 not in lines
    assert concerning.in_functions("/etc/hostname") == set()


def test_recording_replaces_the_part_of_its_test_file() -> None:
    """The part of other test files stays; those that ran most of a module are kept."""
    recorded = {
        LOCK: {
            "tests/cli/test_pause_command.py": 5,
            "tests/unit/agent/state/test_lock.py": 50,
        }
    }
    assert concerning.merged(recorded, "tests/cli/test_pause_command.py", {}) == {
        LOCK: {"tests/unit/agent/state/test_lock.py": 50}
    }
    tests = sorted(
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "tests/cli").glob("test_*.py")
    )
    for number, test in enumerate(tests):
        recorded = concerning.merged(recorded, test, {LOCK: 100 + number})
    assert sorted(recorded[LOCK]) == tests[-concerning.KEPT :]


@pytest.mark.slow
@pytest.mark.takes(60)
@pytest.mark.timeout(600)
def test_recording_sees_the_functions_that_commands_run() -> None:
    """A module whose functions only a started command runs is recorded."""
    assert concerning.run_by("tests/cli/test_pause_command.py")[
        "agent/heat_config_agent/cli/machine/pause.py"
    ]


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        ([], 2, "name a file: make test-of FILE="),
        (["/etc/hostname"], 2, "/etc/hostname is not a file of this repository"),
        (
            ["LICENSE"],
            1,
            "no test is known to concern LICENSE: record the tests with `make map`",
        ),
    ],
)
def test_wrong_file_is_refused_with_one_sentence(
    words: list[str], code: int, text: str
) -> None:
    """The command says what is wrong, and prints no test."""
    command = [sys.executable, str(Path(concerning.__file__)), *words]
    done = subprocess.run(
        command,
        cwd=ROOT,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith(text)
    assert done.stderr.count("\n") == 1
