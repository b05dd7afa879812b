"""The verification of the `salt` hook: `test=True`, with the real salt-call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.machine import Machine, deployment
from support.tools import need_salt

pytestmark = [pytest.mark.slow, pytest.mark.takes(120)]

SECRET = "sesame-4711"


@pytest.fixture(autouse=True)
def salt(machine: Machine, tmp_path: Path) -> None:
    """Install the real salt-call in the PATH, with a minion configuration of the test alone."""
    machine.environment["PATH"] = f"{need_salt()}:{machine.environment['PATH']}"
    machine.environment["HEAT_SALT_MINION_CONFIG"] = str(tmp_path / "etc/minion")


def ours(machine: Machine, states: str, **fields: Any) -> None:
    """Carry out a deployment with a state file."""
    done = machine.apply([deployment("site", states, group="salt", **fields)])
    assert done.code == 0, done.out + done.err


def test_states_are_verified_changed_verified_repaired_and_verified(
    machine: Machine, tmp_path: Path
) -> None:
    """States that would change something are named, with the lines that differ; outputs count nothing.

    A state with `show_changes: False` shows nothing, and nothing is changed.
    """
    page, stamp, secret = (tmp_path / name for name in ("page", "stamp", "secret"))
    ours(
        machine,
        f"""
{page}:
  file.managed:
    - contents: |
        {{{{ pillar['greeting'] }}}}
        world
secret:
  file.managed:
    - name: {secret}
    - contents: {SECRET}
    - show_changes: False
output:
  file.managed:
    - name: {{{{ pillar['heat_outputs_path'] }}}}.x
    - contents: x
make:
  cmd.run:
    - name: touch {stamp}
    - creates: {stamp}
""",
        inputs={"greeting": "Hello"},
        outputs=[{"name": "x"}],
    )
    assert machine.verified()["message"] == ""
    page.write_text("Hello\nWorld\n")
    secret.write_text(f"no {SECRET}\n")
    stamp.unlink()
    working = machine.state / "heat-config-salt"
    before = {path: path.lstat().st_mtime_ns for path in working.rglob("*")}

    row = machine.verified()

    assert row["state"] == "drifted"
    changes = {change["what"]: change for change in row["changes"]}
    assert list(changes) == [
        f"file.managed {page}",
        "file.managed secret",
        "cmd.run make",
    ]
    change = changes[f"file.managed {page}"]
    assert change["how"] == f"The file {page} is set to be changed"
    assert change["diff"].splitlines()[1:] == [" Hello", "-World", "+world"]
    assert SECRET not in str(row)
    assert not stamp.exists()
    assert before == {path: path.lstat().st_mtime_ns for path in working.rglob("*")}
    assert machine.agent("verify", "--repair").code == 0
    assert page.read_text() == "Hello\nworld\n"
    assert stamp.exists()


def test_command_that_runs_every_time_is_unknown(machine: Machine) -> None:
    """Without a condition, a test says of any command that it would run; others are in effect."""
    states = "always: {cmd.run: [{name: echo a}]}\nnever: {cmd.run: [{name: echo b}, {onlyif: 'false'}]}\n"
    ours(machine, states)

    row = machine.verified()

    assert row["state"] == "unknown"
    assert row["message"] == "1 of 2 states cannot be checked: cmd.run always"


def test_states_that_fail_in_a_test_are_unknown(
    machine: Machine, tmp_path: Path
) -> None:
    """The reason is that of the state, or of the state file if salt cannot read it any more."""
    there, page = tmp_path / "there", machine.state / "heat-config-salt/page.sls"
    there.touch()
    page.parent.mkdir(parents=True)
    page.write_text(f"{there}: {{file.exists: []}}\n")
    ours(machine, "include: [page]\n")
    assert machine.verified()["message"] == ""
    there.unlink()
    assert "does not exist" in machine.verified()["message"]
    page.write_text("{{ no_such_thing() }}\n")

    row = machine.verified()

    assert row["state"] == "unknown"
    assert "no_such_thing" in row["message"]


def test_states_that_are_only_tested_are_unknown(
    machine: Machine, tmp_path: Path
) -> None:
    """With the option `test`, none of them was ever applied."""
    states = f"{tmp_path}/page: {{file.managed: [{{contents: x}}]}}\n"
    ours(machine, states, options={"test": True})

    row = machine.verified()

    assert row["state"] == "unknown"
    assert "only tests its states" in row["message"]
