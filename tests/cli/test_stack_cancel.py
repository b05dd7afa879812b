"""`stack cancel`: the running action ends, and so do its scripts, each with a result that says why."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from support import endings, pace
from support.loopback import wait_until
from support.machine import Machine
from support.stacking import LONG, Stacks, ends

WAITS = "echo $$ >{}; while :; do sleep 0.05; done"
"""A script that tells its process, and never ends."""


@pytest.fixture
def stacks(machine: Machine) -> Stacks:
    """The commands."""
    return Stacks(machine)


def begun(
    stacks: Stacks, path: Path, *words: str
) -> tuple[subprocess.Popen[str], psutil.Process]:
    """Begin to apply a template, and return the command and its script that runs."""
    command = stacks.start(path, *words)
    told = stacks.machine.folder / "process"
    wait_until(lambda: told.exists() and told.read_text().endswith("\n"), LONG)
    return command, psutil.Process(int(told.read_text()))


def is_gone(process: psutil.Process) -> bool:
    """Return whether a process has ended."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def template(stacks: Stacks) -> Path:
    """Write a template with a script that never ends, and a resource that needs it."""
    then = WAITS.format(stacks.machine.folder / "process")
    after = {"after": {"type": "OS::Heat::Value", "properties": {"value": 1}}}
    after["after"]["depends_on"] = "one"
    return stacks.template({**stacks.script("one", then), **after})


def test_running_action_and_its_script_are_ended(stacks: Stacks) -> None:
    """The command that worked on it ends as interrupted; the stack has failed, and says why."""
    command, script = begun(stacks, template(stacks))
    with endings.ended(command):
        done = stacks("cancel", "t")
        assert ends(command).code == 130
    assert done.out.splitlines()[-1].startswith("stack t: CREATE was cancelled in ")
    wait_until(lambda: is_gone(script), LONG)
    assert stacks.state() == "CREATE_FAILED"
    shown = stacks("show", "t", "--json").data
    assert (shown["state"], shown["message"]) == ("failed", "CREATE was cancelled")
    [failure] = stacks("failures", "list", "t", "--json").data["failures"]
    assert failure["resource_name"] == "one"
    assert failure["message"] == "CREATE was cancelled"
    assert "ended because CREATE was cancelled" in failure["last_lines"]
    assert stacks.ran == ["one CREATE"]


def test_cancelled_action_runs_again_with_the_next_update(stacks: Stacks) -> None:
    """The cancelled deployment runs once more, and those that need it follow."""
    command, _ = begun(stacks, template(stacks))
    with endings.ended(command):
        assert stacks("cancel", "t", "--json").data["stack_status"] == "CREATE_FAILED"
        ends(command)
    done = stacks.apply(stacks.template(stacks.script("one")))
    assert "ok (UPDATE_COMPLETE)" in done.out
    assert stacks.ran == ["one CREATE"] * 2


def test_action_whose_command_was_killed_is_cancelled(stacks: Stacks) -> None:
    """Its script goes on without any command, until it is ended."""
    command, script = begun(stacks, template(stacks))
    with endings.ended(command):
        command.send_signal(signal.SIGKILL)
        command.wait(pace.seconds(LONG))
    assert not is_gone(script)
    stacks("cancel", "t")
    wait_until(lambda: is_gone(script), LONG)
    assert stacks.state() == "CREATE_FAILED"


@pytest.mark.parametrize(
    ("option", "state"), [("", "ROLLBACK_COMPLETE"), ("--no-rollback", "UPDATE_FAILED")]
)
def test_action_that_was_begun_with_rollback_is_rolled_back(
    stacks: Stacks, option: str, state: str
) -> None:
    """Unless that is not wanted."""
    stacks.apply(stacks.template(stacks.script("one")))
    then = f"[ $deploy_action = CREATE ] || [ -e {stacks.go} ] || "
    then += (
        f"{{ touch {stacks.go}; {WAITS.format(stacks.machine.folder / 'process')}; }}"
    )
    path = stacks.template(stacks.script("one", then))
    command, script = begun(stacks, path, "--rollback")
    with endings.ended(command):
        stacks("cancel", "t", *filter(None, [option]))
        ends(command)
    wait_until(lambda: is_gone(script), LONG)
    assert stacks.state() == state


def test_stack_at_rest_is_not_cancelled(stacks: Stacks) -> None:
    """It is bad usage, and the state is named; a stack that is not there has its own exit code."""
    stacks.apply(stacks.template(stacks.script("one")))
    done = stacks("cancel", "t", code=2)
    assert done.err == "error: the stack t has no running action: CREATE_COMPLETE\n"
    assert stacks("cancel", "other", "--json", code=8).json["error"]["code"] == (
        "not_found"
    )
