"""Kill points kill the agent where and when they say, and the product has no part of them."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support import kill_points, pace
from support.machine import BIN, Machine, deployment

pytestmark = pytest.mark.new_process

ROOT = Path(__file__).parents[2]

PRODUCT = [
    path
    for folder in ("agent", "hooks/heat_config_hooks")
    for path in (ROOT / folder).rglob("*.py")
]

WRITES = """
import os, sys
for number in range(int(sys.argv[2])):
    path = f"{sys.argv[1]}/asked/{number}"
    os.close(os.open(path + ".new", os.O_CREAT | os.O_WRONLY))
    os.rename(path + ".new", path)
print("alive", *sorted({"KILL_POINT", "PYTHONPATH"} & os.environ.keys()), flush=True)
os.system("env")
"""


def run(
    folder: Path,
    times: int,
    point: str,
    passing: int,
    file: Path,
    *,
    armed: dict[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Have a process make so many requests."""
    asked = folder / "asked"
    asked.mkdir(exist_ok=True)
    for each in asked.iterdir():
        each.unlink()
    return subprocess.run(
        [sys.executable, "-c", WRITES, str(folder), str(times)],
        env={
            "PATH": os.environ["PATH"],
            **(armed or kill_points.environment(point, passing, file)),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=pace.seconds(60),
    )


def test_process_dies_once_at_its_kill_point(tmp_path: Path) -> None:
    """It dies at the N-th passing, by SIGKILL, if the file is there; with that gone, never again."""
    file = tmp_path / "a file"
    file.touch()
    assert run(tmp_path, 1, "asked.left", 2, file).stdout.startswith("alive\n")
    assert file.exists()
    done = run(tmp_path, 3, "asked.left", 2, file)
    assert (done.returncode, done.stdout) == (-9, "")
    assert sorted(os.listdir(tmp_path / "asked")) == ["0", "1"]
    assert not file.exists()
    assert run(tmp_path, 3, "asked.left", 2, file).stdout.startswith("alive\n")


def test_process_dies_before_the_call(tmp_path: Path) -> None:
    """The call that a kill precedes is never made."""
    file = tmp_path / "file"
    file.touch()
    script = "import os, sys; os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_TRUNC); print('alive')"
    (tmp_path / "journal.new").write_text("as it was")
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "journal.new")],
        env=kill_points.environment("journal.anew.before", 1, file),
        capture_output=True,
        check=False,
        timeout=pace.seconds(60),
    )
    assert (done.returncode, done.stdout) == (-9, b"")
    assert (tmp_path / "journal.new").read_text() == "as it was"


def test_process_dies_at_the_first_of_several_points(tmp_path: Path) -> None:
    """A process dies at the one that it passes first; the process after it at the next one."""
    files = [tmp_path / name for name in ("left", "later", "folder", "never")]
    for each in files:
        each.touch()
    points = [
        "asked.left",
        "asked.left",
        f"rename@{tmp_path}/asked/",
        "journal.flush.before",
    ]
    armed = kill_points.environment_of(zip(points, (2, 3, 1, 1), files, strict=True))
    ends = [run(tmp_path, 3, "", 0, tmp_path, armed=armed).returncode for _ in range(4)]
    assert ends == [-9, -9, -9, 0]
    assert [each.exists() for each in files] == [False, False, False, True]


def test_which_points_are_passed(tmp_path: Path) -> None:
    """The point `?` notes all that are passed, and which process has passed them."""
    file = tmp_path / "passed"
    run(tmp_path, 3, "?", 0, file)
    lines = [line.split() for line in file.read_text().splitlines()]
    assert [point for _, point in lines] == ["asked.left"] * 3
    assert len({process for process, _ in lines}) == 1


def test_every_call_that_changes_a_folder_is_a_point(tmp_path: Path) -> None:
    """All calls that change a folder can be listed, and each is a point."""
    file = tmp_path / "calls"
    run(tmp_path, 2, "??", 0, file)
    asked = str(tmp_path / "asked")
    found = [
        line.split()[1:] for line in file.read_text().splitlines() if asked in line
    ]
    expected = [["create", f"{asked}/{each}.new"] for each in range(2)] + [
        ["rename", f"{asked}/{each}"] for each in range(2)
    ]
    assert sorted(found) == sorted(expected)
    assert run(tmp_path, 2, f"rename@{asked}/", 2, file).returncode == -9
    assert sorted(os.listdir(asked)) == ["0", "1.new"]


def test_children_do_not_inherit_kill_points(tmp_path: Path) -> None:
    """Neither the process nor its children have the variables of kill points."""
    done = run(tmp_path, 0, "?", 0, tmp_path / "passed")
    assert done.stdout.startswith("alive\n")
    assert kill_points.VARIABLE not in done.stdout
    assert kill_points.INJECTED not in done.stdout


def test_runs_do_not_inherit_kill_points(machine: Machine) -> None:
    """The command of a deployment does not, either."""
    seen = machine.folder / "seen"
    given = [deployment("d1", f"#!/bin/sh\nenv >{seen}\n")]
    assert (
        machine.apply(
            given, **kill_points.environment("?", 0, machine.folder / "passed")
        ).code
        == 0
    )
    assert "HEAT_RUN=" in seen.read_text()
    assert kill_points.VARIABLE not in seen.read_text()
    assert kill_points.INJECTED not in seen.read_text()
    assert "runner.word" in (machine.folder / "passed").read_text()


@pytest.mark.parametrize(
    "value",
    [
        *(
            "runner.word",
            "runner.word 1",
            "runner.word x /tmp/file",
            "runner.word -1 /tmp/file",
            "nowhere 1 /tmp/file",
        ),
        *(
            "listdir@/x 1 /tmp/file",
            "write@ 1 /tmp/file",
            "@/x 1 /tmp/file",
            "write@/x 0 /tmp/file",
        ),
        *(
            "runner.word 0 /tmp/file",
            "runner.word \u00b2 /tmp/file",
            "journal.{record}.after 1 /tmp/file",
            " ",
        ),
    ],
)
def test_invalid_kill_point_is_refused(value: str) -> None:
    """An invalid kill point is one sentence that says what is expected."""
    with pytest.raises(ValueError, match="expected «POINT N FILE»") as raised:
        kill_points.Watch(value)
    assert str(raised.value).startswith(f"{kill_points.VARIABLE} is {value!r}: ")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("program", ["heat-config-agent", "heat-config-apply"])
def test_a_command_with_an_unknown_kill_point_does_nothing(
    tmp_path: Path, program: str
) -> None:
    """An unknown kill point ends the command at once, so that a misspelt one fails the test."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    environment |= kill_points.environment("nowhere", 1, "/tmp/file")
    words = [
        str(BIN / program),
        *(["status"] if program == "heat-config-agent" else []),
    ]
    done = subprocess.run(
        words,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=pace.seconds(60),
    )
    assert done.returncode == 2
    assert done.stderr.startswith(
        f"error: {kill_points.VARIABLE} is 'nowhere 1 /tmp/file'"
    )
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_product_does_not_kill_itself() -> None:
    """There is no way to have the agent, or a hook, end by a signal of its own or without its ending.

    Four programs end at once where they have nothing left to do, as Python's own ending takes long or waits.
    The answer to a shell ends when its time is over: it reads only, and a shell waits for it.
    The display of a stack stops itself at ^Z, as the terminal expects, and is continued by the shell.
    """
    endings = {
        "cli/canvas.py: os.kill(os.getpid(), signal_numbers.SIGTSTP)",
        "cli/first_process.py: os._exit(code if code >= 0 else 128 - code)",
        "cli/main.py: os._exit(code)",
        "completion/command.py: os._exit(0)",
        "deployments/scheduled.py: os._exit(0)",
    }
    suicides = {"abort", "_exit", "raise_signal", "pthread_kill"}
    found = []
    for path in PRODUCT:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                itself = "getpid()" in ast.unparse(node) and "kill" in node.func.attr
                if itself or node.func.attr in suicides:
                    found.append(f"{path.parent.name}/{path.name}: {ast.unparse(node)}")
    assert sorted(found) == sorted(endings)


@pytest.mark.slow
def test_the_product_has_no_faults_in_it() -> None:
    """The product has no variable and no module for fault injection, and does not refer to the tests."""
    assert PRODUCT
    for path in PRODUCT:
        text = path.read_text()
        assert kill_points.VARIABLE not in text, path
        assert "_AGENT_KILL" not in text, path
        assert "kill_point" not in text, path
        names = {
            alias.name
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.Import)
            for alias in node.names
        }
        names |= {
            node.module or ""
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.ImportFrom)
        }
        assert not {
            name
            for name in names
            if name.partition(".")[0] in {"support", "pytest", "tests"}
        }, path
