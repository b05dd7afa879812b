from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from heat_config_agent import kill_points, settings
from heat_config_agent.errors import ExitCode, UsageError

AGENT = Path(kill_points.__file__).parent

PASSES = """
import sys
from heat_config_agent import kill_points
kill_points.arm(sys.argv[1])
for point in sys.argv[2:]:
    kill_points.reached(point)
print("alive")
"""


def run(armed: str, *points: str) -> subprocess.CompletedProcess[str]:
    """Have a process pass these points."""
    return subprocess.run(
        [sys.executable, "-c", PASSES, armed, *points], capture_output=True, text=True, check=False, timeout=60
    )


def calls(name: str) -> Iterator[tuple[ast.expr, Path]]:
    """Return the first arguments with which anything of that name is called in the agent, and where."""
    for path in sorted(AGENT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == name:
                yield node.args[0], path


def test_the_points_are_those_that_are_passed() -> None:
    """Every point in the table is passed somewhere in the agent, and every one that is passed is in the table."""
    records = {arg.value for arg, path in calls("_write") if path.stem == "journal" and isinstance(arg, ast.Constant)}
    passed = set()
    for arg, path in calls("reached"):
        if isinstance(arg, ast.Constant):
            passed.add(ast.literal_eval(arg))
        else:
            assert isinstance(arg, ast.JoinedStr), path
            assert path.stem == "journal", "a name that is put together is known of a record of the journal alone"
            end = ast.literal_eval(arg.values[-1])
            passed |= {"journal." + str(record) + str(end) for record in records}
    assert passed == set(kill_points.POINTS)
    assert len(set(kill_points.POINTS)) == len(kill_points.POINTS)


def test_every_point_is_passed_at_one_place() -> None:
    """One name is one moment."""
    names = [arg.value for arg, _ in calls("reached") if isinstance(arg, ast.Constant)]
    assert sorted(names, key=str) == sorted(set(names), key=str)


@pytest.mark.parametrize(
    "value",
    [
        *("runner.word", "runner.word 1", "runner.word x /tmp/file", "runner.word -1 /tmp/file", "nowhere 1 /tmp/file"),
        *("runner.word 0 /tmp/file", "runner.word \u00b2 /tmp/file", "journal.{record}.after 1 /tmp/file", " "),
    ],
)
def test_what_cannot_be_armed(value: str) -> None:
    """What is not understood is one sentence that says what is expected, and no agent goes on without it."""
    with pytest.raises(UsageError) as raised:
        kill_points.arm(value)
    assert f"{kill_points.VARIABLE} is {value!r}: expected «POINT N FILE»" in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("program", ["heat-config-agent", "heat-config-apply"])
def test_a_command_that_cannot_be_armed(tmp_path: Path, program: str) -> None:
    """The command says so in one line, and does nothing."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), kill_points.VARIABLE: "nowhere 1 /tmp/file"}
    words = [str(Path(sys.executable).parent / program), *(["status"] if program == "heat-config-agent" else [])]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == ExitCode.USAGE
    assert done.stderr.startswith(f"error: {kill_points.VARIABLE} is 'nowhere 1 /tmp/file'")
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_unarmed_nothing_happens() -> None:
    """Without the variable, points are passed."""
    for point in kill_points.POINTS:
        kill_points.reached(point)


def test_it_dies_once(tmp_path: Path) -> None:
    """It dies at the N-th passing, by SIGKILL, if the file is there; with that gone, never again."""
    file = tmp_path / "a file"
    file.touch()
    armed = f"runner.word 2 {file}"
    assert run(armed, "runner.word", "runner.closed", "runner.closed").stdout == "alive\n"
    assert file.exists()
    done = run(armed, "runner.word", "runner.closed", "runner.word")
    assert (done.returncode, done.stdout) == (-9, "")
    assert not file.exists()
    assert run(armed, "runner.word", "runner.word", "runner.word").stdout == "alive\n"


def test_which_points_are_passed(tmp_path: Path) -> None:
    """The point `?` notes all that are passed, and which process has passed them."""
    file = tmp_path / "passed"
    run(f"? 0 {file}", "runner.word", "runner.closed", "runner.word")
    lines = [line.split() for line in file.read_text().splitlines()]
    assert [point for _, point in lines] == ["runner.word", "runner.closed", "runner.word"]
    assert len({process for process, _ in lines}) == 1


def test_no_run_has_the_variable() -> None:
    """What a deployment runs knows nothing of it, though it begins as those do that are handed on."""
    given = {kill_points.VARIABLE: "runner.word 1 /tmp/file", "HEAT_X": "handed on"}
    kept = settings.run_environment(given)
    assert kill_points.VARIABLE not in kept
    assert kept["HEAT_X"] == "handed on"
