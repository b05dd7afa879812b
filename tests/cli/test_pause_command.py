"""heat-config-agent pause: its reason, and what ends it."""

from __future__ import annotations

from datetime import datetime

from support import pace
from support.loopback import wait_until
from support.machine import Machine
from support.repositories import template


def test_reason_is_one_line_and_the_command_that_ends_the_pause_is_complete(
    machine: Machine,
) -> None:
    """The reason is one line, and the command that ends the pause is complete."""
    done = machine.agent("pause", "--reason", "moving\n  house")
    assert (
        done.out
        == f"paused: moving house; `heat-config-agent resume --state-dir {machine.state}` ends it\n"
    )
    assert "moving house" in machine.agent("status").out
    assert machine.agent("pause", "--reason", " ").code == 2


def test_pause_and_resume_answer_programs(machine: Machine) -> None:
    """The answer has the reason, the beginning and the end; a time may have several units."""
    done = machine.agent("pause", "--reason", "moving", "--for", "1h30m", "--json").data
    assert (done["paused"], done["reason"], done["process"]) == (True, "moving", None)
    since, until = (
        datetime.fromisoformat(done[key].replace("Z", "+00:00"))
        for key in ("since", "until")
    )
    assert abs((until - since).total_seconds() - 5400) < 5
    nothing = {"reason": None, "since": None, "until": None, "process": None}
    for _ in range(2):
        done = machine.agent("resume", "--json").data
        assert done == {"paused": False, **nothing}


def test_pause_holds_stacks_too(machine: Machine) -> None:
    """A paused agent begins neither a document nor an action of a stack; afterwards both begin."""
    stack = machine.folder / "web.yaml"
    stack.write_text(template(machine.folder / "log", "one"))
    machine.agent("pause", "--reason", "maintenance")
    for words in ([], ["--name", "other"]):
        done = machine.apply(stack, *words)
        assert (done.code, done.out) == (1, "")
        assert "nothing new begins: the agent is paused (maintenance)" in done.err
        assert "heat-config-agent resume" in done.err
    assert machine.apply(stack, "--plan").code == 0
    assert not (machine.state / "stacks").exists()
    machine.agent("resume")
    assert machine.apply(stack).code == 0
    machine.agent("pause", "--reason", "maintenance")
    deleted = machine.command(
        "heat-config-agent",
        ["stack", "delete", "web", "-y", "--state-dir", str(machine.state)],
        {},
    )
    assert (deleted.code, "is paused" in deleted.err) == (1, True)
    assert (machine.folder / "log").read_text() == "one red\n"


def test_second_command_on_a_stack_names_the_first(machine: Machine) -> None:
    """It is called a command, with its process, and no other state directory is advised."""
    stack = machine.folder / "slow.yaml"
    stack.write_text(
        template(
            machine.folder / "log",
            "one",
            f"until [ -e {machine.folder}/go ]; do sleep 0.02; done",
        )
    )
    first = machine.start(
        "heat-config-apply", str(stack), "--state-dir", str(machine.state)
    )
    try:
        wait_until((machine.folder / "log").exists, pace.seconds(30))
        second = machine.apply(stack)
    finally:
        (machine.folder / "go").touch()
        first.communicate(timeout=pace.seconds(60))
    assert second.code == 4
    sentence = (
        f"error: another command works on the stack slow (process {first.pid}) "
        "(wait for it to end, and try again)"
    )
    assert second.err.splitlines()[-1] == sentence
