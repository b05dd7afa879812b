"""Requests of one user for the agent of another: they are refused, and leave nothing that the other cannot read."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from heat_config_agent.model.errors import StateError
from heat_config_agent.state import asked, followed, requests
from heat_config_agent.state.requests import Wish
from support.machine import Machine, deployment

REQUESTS: dict[str, Callable[[Path], None]] = {
    "pause": lambda state: requests.pause(state, "why"),
    "prune": requests.prune,
    "retry": lambda state: requests.ask(state, "d1", Wish.AGAIN),
    "forget": lambda state: requests.ask(state, "d1", Wish.FORGET),
    "follow --again": lambda state: followed.ask_again(state, "site"),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_request_of_another_user_is_refused_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Also root's: the file would be root's, and the agent of the other user could neither read nor remove it."""
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    another = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: another)

    with pytest.raises(StateError, match="belongs to another user"):
        REQUESTS[name](state)

    assert list(state.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a folder away")
def test_commands_of_root_leave_nothing_in_the_state_of_another_user(
    machine: Machine,
) -> None:
    """The agent of that user goes on as before."""
    assert machine.apply([deployment("d1")]).code == 0
    for path in (machine.state, *machine.state.rglob("*")):
        os.lchown(path, 4321, 4321)

    for words in (["retry", "d1"], ["forget", "d1", "-y"], ["pause"], ["prune"]):
        done = machine.agent(*words)
        assert (done.code, "belongs to another user" in done.err) == (10, True), words
    others = [each for each in machine.state.rglob("*") if each.stat().st_uid != 4321]
    assert others == []


def test_pause_that_cannot_be_read_has_no_beginning(machine: Machine) -> None:
    """It holds, and nothing says that it began in 1970."""
    machine.state.mkdir(mode=0o700)
    (machine.state / asked.PAUSED).write_text("{")

    shown = machine.agent("status").out
    assert "paused: for a reason that cannot be read" in shown
    assert machine.agent("status", "--json").data["agent"]["paused"]["since"] is None
