from __future__ import annotations

import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from heat_config_agent.deployments import metadata
from heat_config_agent.model.deployment import Document, Result
from heat_config_agent.model.entry import State
from heat_config_agent.model.errors import StateError
from heat_config_agent.state import asked, requests
from heat_config_agent.state.deployed import Deployed
from heat_config_agent.state.journal import Journal
from heat_config_agent.state.requests import Wish
from heat_config_hooks import processes
from support.entries import RUN
from support.machine import deployment

CarryOut = Callable[[], list[str]]


@pytest.fixture
def book(tmp_path: Path) -> Iterator[Journal]:
    """A journal with a deployment in each state, named after it."""
    book = Journal(tmp_path)
    for state in State:
        (given,) = metadata.parse(
            Document(source="test", content=[deployment(state.value)])
        ).deployments
        book.accepted(given, tool="script")
        if state is not State.ACCEPTED:
            book.running(given.key, RUN)
        if state not in (State.ACCEPTED, State.RUNNING):
            book.finished(
                given.key, Result(values={"deploy_status_code": 0}, failed=False)
            )
        if book.entries[given.key].state is not state:
            book.settled(given.key, state)
    yield book
    book.close()


@pytest.fixture
def carry_out(tmp_path: Path, book: Journal) -> CarryOut:
    """Carry out what was asked for, as an agent does at its next run."""
    return lambda: requests.carry_out(tmp_path, book, Deployed(tmp_path / "deployed"))[
        0
    ]


def test_nothing_is_done_without_requests(carry_out: CarryOut) -> None:
    """Without requests nothing is done, also where the folder for them does not exist."""
    assert carry_out() == []


def test_a_request_is_a_file_for_nobody_else(tmp_path: Path) -> None:
    """A request is a private file, which the holder of the lock reads."""
    requests.ask(tmp_path, "a", Wish.AGAIN)
    (path,) = (tmp_path / "asked").iterdir()
    assert path.name == "a.again"
    assert (
        stat.S_IMODE(path.stat().st_mode),
        stat.S_IMODE(path.parent.stat().st_mode),
    ) == (0o600, 0o700)


@pytest.mark.parametrize("state", [each for each in State if each is not State.RUNNING])
def test_a_deployment_is_run_again(
    tmp_path: Path, book: Journal, carry_out: CarryOut, state: State
) -> None:
    """At the next run; the request is carried out once."""
    requests.ask(tmp_path, state.value, Wish.AGAIN)
    assert carry_out() == [f"{state.value} will run again"]
    assert book.entries[state.value].again
    assert carry_out() == []


@pytest.mark.parametrize("state", [State.FINISHED, State.REFUSED])
def test_a_result_is_sent_again(
    tmp_path: Path, book: Journal, carry_out: CarryOut, state: State
) -> None:
    """Where there is one that was not delivered."""
    requests.ask(tmp_path, state.value, Wish.SEND)
    assert carry_out() == [f"the result of {state.value} will be sent again"]
    assert book.entries[state.value].state is State.FINISHED


@pytest.mark.parametrize("state", [State.ACCEPTED, State.RUNNING])
def test_a_result_that_there_is_not_cannot_be_sent(
    tmp_path: Path, book: Journal, carry_out: CarryOut, state: State
) -> None:
    """A request that does not fit the present state does nothing, and no false result is sent."""
    requests.ask(tmp_path, state.value, Wish.SEND)
    assert not [each for each in carry_out() if "will be sent again" in each]
    assert book.entries[state.value].state is state


@pytest.mark.parametrize("state", [each for each in State if each is not State.RUNNING])
def test_a_deployment_is_forgotten(
    tmp_path: Path, book: Journal, carry_out: CarryOut, state: State
) -> None:
    """With its files; nothing of any other is touched."""
    deployed = Deployed(tmp_path / "deployed")
    for key in (state.value, "other"):
        deployed.keep(key, {})
        (tmp_path / "runs" / key).mkdir(parents=True)
        (tmp_path / "runs" / key / "stdout").touch()
    requests.ask(tmp_path, state.value, Wish.FORGET)
    assert carry_out() == [f"{state.value} is forgotten"]
    assert state.value not in book.entries
    assert deployed.keys() == frozenset({"other"})
    assert [each.name for each in (tmp_path / "runs").iterdir()] == ["other"]


@pytest.mark.parametrize("wish", list(Wish))
def test_request_does_not_change_a_run(
    tmp_path: Path, book: Journal, carry_out: CarryOut, wish: Wish
) -> None:
    """A request does not change a run, which is followed to its end."""
    before = book.entries["running"]
    requests.ask(tmp_path, "running", wish)
    assert carry_out() == []
    assert book.entries["running"] == before


@pytest.mark.parametrize(
    "name", ["unknown.again", "signalled.later", "signalled", ".again", "a.b.c"]
)
def test_invalid_request_is_removed(
    tmp_path: Path, carry_out: CarryOut, name: str
) -> None:
    """An invalid request is removed, so that later passes do not see it again."""
    (tmp_path / "asked").mkdir()
    (tmp_path / "asked" / name).touch()
    assert carry_out() == []
    assert list((tmp_path / "asked").iterdir()) == []


def test_a_request_that_is_being_written_is_left_alone(
    tmp_path: Path, carry_out: CarryOut
) -> None:
    """A half-written request is left for its writer."""
    (tmp_path / "asked").mkdir()
    (tmp_path / "asked" / ".signalled.again.new").touch()
    assert carry_out() == []
    assert [each.name for each in (tmp_path / "asked").iterdir()] == [
        ".signalled.again.new"
    ]


def test_a_request_that_cannot_be_written_is_an_error_of_its_own(
    tmp_path: Path,
) -> None:
    """The error names the file."""
    (tmp_path / "asked").touch()
    with pytest.raises(StateError, match="cannot write to"):
        requests.ask(tmp_path, "a", Wish.AGAIN)


DAYS = 5 * 24 * 3600.0


@pytest.mark.parametrize("jump", [-DAYS, DAYS])
def test_pause_lasts_as_long_as_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jump: float
) -> None:
    """The machine's clock may be set meanwhile: the kernel's counts, which nobody sets."""
    wall, up = time.time, processes.since_boot
    requests.pause(tmp_path, "why", wall() + 60)

    monkeypatch.setattr(time, "time", lambda: wall() + jump)
    pause = asked.paused(tmp_path)
    assert pause is not None
    assert pause[2] is not None
    assert 0 < pause[2] - time.time() <= 60

    monkeypatch.setattr(processes, "since_boot", lambda: up() + 61)
    assert asked.paused(tmp_path) is None


def test_pause_ends_in_another_boot_although_the_clock_was_set_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine has been up for longer than the pause was to last."""
    wall = time.time
    requests.pause(tmp_path, "why", wall() + 60)
    monkeypatch.setattr(time, "time", lambda: wall() - DAYS)
    monkeypatch.setattr(processes, "boot_id", lambda: "another")

    monkeypatch.setattr(processes, "since_boot", lambda: 59.0)
    assert asked.paused(tmp_path) is not None
    monkeypatch.setattr(processes, "since_boot", lambda: 61.0)
    assert asked.paused(tmp_path) is None
