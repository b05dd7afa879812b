"""The native protocol of the system's journal, read from a datagram socket."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from heat_config_agent.cli.machine.run import Log
from heat_config_agent.deployments import metadata
from heat_config_agent.deployments.plan import Step, Verb
from heat_config_agent.engine import events
from heat_config_agent.engine.events import Event
from heat_config_agent.model.deployment import Document
from heat_config_agent.model.entry import Entry, State
from heat_config_agent.signals.delivery import Fate, Outcome
from heat_config_agent.signals.notices.journal import Journal, reader_of
from heat_config_hooks.values import replace
from support import entries
from support.entries import RUN
from support.machine import deployment


class Journald:
    """A socket as that of the system's journal."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(self.path)
        self._socket.settimeout(10)

    def read(self) -> dict[str, str]:
        """Return the fields of the next message."""
        data, fields = self._socket.recv(1024 * 1024), dict[str, str]()
        while data:
            line, _, rest = data.partition(b"\n")
            name, sign, value = line.partition(b"=")
            if sign:
                data = rest
            else:
                size = int.from_bytes(rest[:8], "little")
                value, data = rest[8 : 8 + size], rest[8 + size + 1 :]
            fields[name.decode()] = value.decode()
        return fields

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def journald(tmp_path: Path) -> Iterator[Journald]:
    """A socket as that of the system's journal."""
    found = Journald(tmp_path / "socket")
    yield found
    found.close()


def step() -> Step:
    """Return a step with a deployment of a stack."""
    given = deployment("d1", inputs={"deploy_stack_id": "shop/1f2e"})
    [parsed] = metadata.parse(Document(source="local", content=[given])).deployments
    return Step(verb=Verb.RUN, deployment=parsed, reason="new")


def entry(at: Step, **fields: Any) -> Entry:
    """Return the entry of a step that has succeeded."""
    usual: dict[str, Any] = {"at": 3.0, "accepted": 1.0, "started": 1.0, "ended": 3.0}
    usual |= {"run": RUN, "values": None}
    return entries.entry(at.deployment, State.FINISHED, **{**usual, **fields})


ABOUT = {
    "DEPLOYMENT_ID": "d1",
    "DEPLOYMENT_NAME": "d1",
    "STACK": "shop",
    "ACTION": "CREATE",
    "TOOL": "script",
}

EVENTS: list[tuple[Callable[[Step], Event], str, str, str]] = [
    (lambda at: events.Begun(at, RUN), "d1: begins CREATE (script)", "5", "running"),
    (lambda at: events.Ended(at, entry(at)), "d1: done after 2.00 s", "5", "ok"),
    (lambda at: events.Ended(at, entry(at, failed=True, reason="no")), "d1: FAILED after 2.00 s: no", "3", "failed"),
    (lambda at: events.Resent(at, entry(at)), "d1: the result is sent again", "6", "ok"),
    (lambda at: events.Delivered(entry(at), Outcome("d1", Fate.SENT)), "d1: the result is delivered", "6", "ok"),
    (lambda at: events.Message("d1: odd", step=at), "d1: odd", "4", "running"),
    (lambda at: events.Message("d1: no", False, replace(at, verb=Verb.SKIP)), "d1: no", "6", "skipped"),
    (lambda at: events.Postponed(at, "d1: no space"), "d1: no space; the agent retries", "4", "accepted"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("of", "text", "priority", "state"), EVENTS, ids=[each[1] for each in EVENTS]
)
def test_lines_about_a_deployment_have_fields(
    journald: Journald,
    of: Callable[[Step], Event],
    text: str,
    priority: str,
    state: str,
) -> None:
    """The deployment, its stack, its action and its state."""
    Log(Journal(journald.path)).event(of(step()))
    about = {
        "MESSAGE": text,
        "PRIORITY": priority,
        "SYSLOG_IDENTIFIER": "heat-config-agent",
    }
    assert journald.read() == {**about, **ABOUT, "STATE": state}


def test_other_lines_have_no_fields(journald: Journald) -> None:
    """Other lines go through the same channel, so that the order is kept."""
    Log(Journal(journald.path)).note("resumed")
    assert journald.read() == {
        "MESSAGE": "resumed",
        "PRIORITY": "6",
        "SYSLOG_IDENTIFIER": "heat-config-agent",
    }


def test_a_secret_in_a_reason_is_masked(journald: Journald) -> None:
    """A secret is masked in every field of the notice."""
    hidden = deployment(
        "d1",
        inputs=[{"name": "key", "value": "a-secret-word-of-its-own", "hidden": True}],
    )
    [parsed] = metadata.parse(Document(source="local", content=[hidden])).deployments
    at = Step(verb=Verb.RUN, deployment=parsed, reason="new")
    ended = events.Ended(
        at, entry(at, failed=True, reason="no a-secret-word-of-its-own")
    )
    Log(Journal(journald.path)).event(ended)
    assert journald.read()["MESSAGE"] == "d1: FAILED after 2.00 s: no ***"


def test_long_values_are_shortened(journald: Journald) -> None:
    """A field with a newline is framed by its length; a long one keeps its beginning."""
    sent = Journal(journald.path).send(
        4, "one", {"FIRST": "a\nb=c", "SECOND": "é" * 40_000, "THIRD": "end"}
    )
    found = journald.read()
    assert (sent, found["FIRST"], found["THIRD"]) == (True, "a\nb=c", "end")
    assert found["SECOND"].strip("é") == "…"
    assert len(found["SECOND"]) < 40_000


def test_without_a_journal_the_line_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is lost if its socket is away."""
    Log(Journal(str(tmp_path / "none"))).warn("text")
    assert capsys.readouterr().err.endswith(" text\n")


def test_the_journal_is_used_if_it_reads_the_descriptor(tmp_path: Path) -> None:
    """The variable may be inherited by a process whose standard error goes elsewhere."""
    with (tmp_path / "file").open("w") as file:
        found = os.fstat(file.fileno())
        assert reader_of(
            file.fileno(), {"JOURNAL_STREAM": f"{found.st_dev}:{found.st_ino}"}
        )
        for other in (f"{found.st_dev}:{found.st_ino + 1}", "", "x", "1:", "1:x"):
            assert reader_of(file.fileno(), {"JOURNAL_STREAM": other}) is None
    assert reader_of(999_999, {"JOURNAL_STREAM": "1:2"}) is None
