"""The verification of the `ansible` hook: check mode, with the real ansible-playbook."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from support.machine import Machine, deployment

pytestmark = [pytest.mark.slow, pytest.mark.takes(120)]

SECRET = "sesame-4711"

Task = dict[str, Any]


def playbook(*tasks: Task) -> str:
    """Return a playbook for this machine. Its interpreter is ours, so that none need be looked for."""
    variables = {"ansible_python_interpreter": sys.executable}
    play = {"hosts": "localhost", "connection": "local", "gather_facts": False}
    return json.dumps([{**play, "vars": variables, "tasks": list(tasks)}])


def ours(machine: Machine, *tasks: Task, **fields: Any) -> None:
    """Carry out a deployment with these tasks."""
    given = deployment("site", playbook(*tasks), group="ansible", **fields)
    done = machine.apply([given])
    assert done.code == 0, done.out + done.err


def written(path: Path, text: str, **more: Any) -> Task:
    """Return a task that writes a file."""
    copy = {"content": text, "dest": str(path), "mode": "0644"}
    return {"name": f"write {path.name}", "copy": copy, **more}


def command(name: str, text: str, **more: Any) -> Task:
    """Return a task that runs a command."""
    return {"name": name, "shell": text, **more}


def contents(folder: Path) -> dict[str, tuple[int, int]]:
    """Return the files of a machine with the times of their last changes, but for the record of verifications."""
    own = {"verifications", "verified.json", "verified.lock", ".ansible"}
    return {
        str(path): (path.stat().st_mtime_ns, path.stat().st_size)
        for path in folder.rglob("*")
        if path.is_file() and not own & set(path.parts)
    }


def test_playbook_is_verified_changed_verified_repaired_and_verified(
    machine: Machine,
) -> None:
    """Tasks that would change something are named, with the lines that differ; nothing is changed until the repair."""
    page, other = machine.folder / "page", machine.folder / "other"
    folder = {"path": f"{machine.folder}/{{{{ item }}}}", "state": "directory"}
    folders = {"name": "folders", "loop": ["a", "b"], "file": folder}
    tasks = (
        written(page, "{{ greeting }}\nworld\n"),
        written(other, "same\n"),
        folders,
    )
    ours(machine, *tasks, inputs={"greeting": "Hello {{ 1 + 1 }}"})
    assert machine.verified()["state"] == "ok"
    page.write_text("Hello {{ 1 + 1 }}\nWorld\n")
    (machine.folder / "b").rmdir()
    before = contents(machine.folder)

    row = machine.verified()

    assert row["state"] == "drifted"
    assert row["message"] == f"write page: would change {page}, and 1 more"
    text, item = row["changes"]
    assert text["how"] == f"would change {page}"
    assert text["diff"].splitlines()[1:] == [
        " Hello {{ 1 + 1 }}",
        "-World",
        "+world",
    ]
    assert item["what"] == "folders (item=b)"
    assert contents(machine.folder) == before, "the verification has changed something"
    assert machine.agent("verify", "--repair").code == 0
    assert page.read_text() == "Hello {{ 1 + 1 }}\nworld\n"
    assert machine.verified()["state"] == "ok"


@pytest.mark.parametrize(
    ("tasks", "reason"),
    [
        pytest.param(
            [command("greet", "echo hello")],
            "1 of 1 tasks cannot be checked: greet",
            id="a command",
        ),
        pytest.param(
            [
                command("greet", "echo hello"),
                command("read", "echo a", changed_when=False),
                {"name": "say", "debug": {"msg": "hi"}},
                command("never", "echo b", when=False),
            ],
            "1 of 3 tasks cannot be checked: greet",
            id="others are in effect",
        ),
        pytest.param(
            [command("greet", "echo hello", check_mode=False)],
            "1 of 1 tasks cannot be checked: greet",
            id="a command that always reports a change",
        ),
        pytest.param(
            [
                command("ask", "echo 1", register="asked"),
                {
                    "name": "use",
                    "fail": {"msg": "no answer"},
                    "when": "asked is skipped",
                },
            ],
            "check mode fails: use: no answer",
            id="a task fails in check mode only",
        ),
    ],
)
def test_task_that_check_mode_cannot_check_is_unknown(
    machine: Machine, tasks: list[Task], reason: str
) -> None:
    """Never ok: check mode skips it."""
    ours(machine, *tasks)

    row = machine.verified()

    assert (row["state"], row["message"]) == ("unknown", reason)


def test_command_that_can_be_checked_is_in_effect(machine: Machine) -> None:
    """It has `creates`, or never changes anything, or really runs in check mode.

    Outputs and failures that are ignored count nothing.
    """
    stamp = machine.folder / "stamp"
    ours(
        machine,
        command("make", f"touch {stamp}", args={"creates": str(stamp)}),
        command("read", "echo a", changed_when=False),
        command("ask", "echo b", changed_when=False, check_mode=False),
        command(
            "try", "false", changed_when=False, check_mode=False, ignore_errors=True
        ),
        {"name": "tell", "copy": {"content": "x", "dest": "{{ heat_outputs_path }}.x"}},
        outputs=[{"name": "x"}],
    )
    assert machine.verified()["state"] == "ok"
    stamp.unlink()

    row = machine.verified()

    assert row["state"] == "drifted"
    assert [change["what"] for change in row["changes"]] == ["make"]
    assert not stamp.exists()


def test_secret_task_shows_nothing_but_its_name(machine: Machine) -> None:
    """With `no_log`, neither the lines nor the item are shown."""
    path = machine.folder / "secret"
    task = written(path, SECRET, no_log=True)
    skipped = written(path, "{{ item }}", no_log=True, when=False, loop=[SECRET])
    ours(machine, task, skipped)
    assert machine.verified()["state"] == "ok"
    path.write_text(f"other {SECRET}")

    done = machine.agent("verify", "--diff")

    assert done.code == 9
    assert "write secret: would change" in done.out
    assert SECRET not in done.out
    assert SECRET not in (machine.state / "verified.json").read_text()


def test_playbook_beside_its_files_is_verified_without_its_own_copy(
    machine: Machine,
) -> None:
    """The playbook of the last run may be gone; the files beside it are those of the run."""
    working = machine.state / "heat-config-ansible"
    working.mkdir(parents=True)
    (working / "page.txt").write_text("hello\n")
    page = machine.folder / "page"
    task = {"name": "page", "copy": {"src": "page.txt", "dest": str(page)}}
    ours(machine, task)
    [kept] = working.glob("*_playbook.yaml")
    kept.unlink()

    assert machine.verified()["message"] == ""
    assert not kept.exists()
    page.unlink()
    assert machine.verified()["state"] == "drifted"


def test_broken_ansible_is_unknown(machine: Machine) -> None:
    """The reason is its own; a program that records nothing is never in effect."""
    ours(machine, {"name": "say", "debug": {"msg": "hi"}})
    program = machine.folder / "ansible-playbook"
    for script, reason in (
        ("echo 'ERROR! no such thing' >&2; exit 4", "ERROR! no such thing"),
        ("exit 0", "ansible has not recorded the outcome of its tasks"),
    ):
        program.write_text(
            f"#!/bin/sh\ncase $* in *--version*) exec true; esac\n{script}\n"
        )
        program.chmod(0o755)
        machine.environment["HEAT_ANSIBLE_CMD"] = str(program)

        row = machine.verified()

        assert row["state"] == "unknown"
        assert reason in row["message"]
