"""heat-config-agent pause: its reason, and what ends it."""

from __future__ import annotations

from support.machine import Machine


def test_a_reason_is_one_line_and_what_ends_the_pause_is_said_in_full(machine: Machine) -> None:
    """The reason is one line, and the command that ends the pause is complete."""
    done = machine.agent("pause", "--reason", "moving\n  house")
    assert done.out == f"paused: moving house; `heat-config-agent resume --state-dir {machine.state}` ends it\n"
    assert "moving house" in machine.agent("status").out
    assert machine.agent("pause", "--reason", " ").code == 2
