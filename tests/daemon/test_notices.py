"""Notices of the daemon to those outside: CloudEvents to a server, lines to a console. Neither ever holds it up."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from support.daemon import LONG, Daemon
from support.http import Answer
from support.loopback import SignalServer, wait_until
from support.machine import Machine, deployment

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def events(server: SignalServer, identity: str) -> list[dict[str, Any]]:
    """Return the events about a deployment that a server was sent."""
    found = [json.loads(request.body) for request in server.signals]
    return [each for each in found if each["subject"] == identity]


def changes(server: SignalServer, identity: str) -> list[str]:
    """Return the last word of their types."""
    return [each["type"].rpartition(".")[2] for each in events(server, identity)]


@pytest.fixture
def console() -> Iterator[tuple[int, str]]:
    """A pseudo-terminal: the descriptor of those who read it, and its path."""
    reader, terminal = pty.openpty()
    yield reader, os.ttyname(terminal)
    os.close(terminal)
    os.close(reader)


def fill(terminal: str) -> None:
    """Write to a terminal until it takes no more."""
    descriptor = os.open(terminal, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(descriptor, b"x")
    os.close(descriptor)


def test_each_change_is_an_event(
    daemon: Daemon, heat: SignalServer, other: SignalServer
) -> None:
    """The events come in order, with the trace and without secrets, and the result goes to its own address."""
    daemon.configure(report_url=f"{other.origin}/events")
    inputs = {
        "deploy_stack_id": "shop/1f2e",
        "traceparent": TRACE,
        "db_password": "hunter2hunter2",
    }
    failing = '#!/bin/sh\necho "$TRACEPARENT $db_password"\nexit 3\n'
    daemon.put([deployment("d1", failing, inputs=inputs, signal=heat.url("d1"))])
    daemon.start()
    wait_until(lambda: changes(other, "d1") == ["begun", "ended", "delivered"], LONG)
    begun, ended, delivered = events(other, "d1")
    assert len({each["id"] for each in (begun, ended, delivered)}) == 3
    assert {each["traceparent"] for each in (begun, ended)} == {TRACE}
    assert [each["data"]["stack"] for each in (begun, ended, delivered)] == ["shop"] * 3
    assert [each["data"]["state"] for each in (begun, ended, delivered)] == [
        "running",
        "failed",
        "failed",
    ]
    assert ended["data"]["reason"] == "exit code 3"
    assert delivered["data"]["delivery"] == "accepted"
    assert b"hunter2" not in b"".join(request.body for request in other.signals)
    [result] = heat.values("d1")
    assert result["deploy_stdout"].startswith(TRACE)


@pytest.mark.fault(
    3,
    "a console that is not read, and a server for events that hangs",
    "no run and no result waits for them; the status says how many notices were lost, and why",
)
def test_a_server_that_hangs_and_a_console_that_is_not_read_hold_up_nothing(
    daemon: Daemon,
    machine: Machine,
    heat: SignalServer,
    other: SignalServer,
    console: tuple[int, str],
) -> None:
    """Results arrive, the end comes at once, and the status says what was lost."""
    other.always = Answer(delay=3600)
    fill(console[1])
    daemon.configure(
        report_url=f"{other.origin}/events",
        console=console[1],
        metrics_file=f"{machine.folder}/prom",
    )
    names = [f"d{number}" for number in range(5)]
    daemon.put([deployment(each, signal=heat.url(each)) for each in names])
    daemon.start()
    wait_until(lambda: list(daemon.states().values()) == ["signalled"] * 5, LONG)
    assert all(len(heat.values(each)) == 1 for each in names)
    wait_until(lambda: len(other.signals) >= 1, LONG)
    lost = 'heat_config_agent_notices_lost_total{channel="console"} 10.0\n'

    def is_told() -> bool:
        daemon.send(signal.SIGUSR1)
        return lost in (machine.folder / "prom").read_text()

    wait_until(is_told, LONG)
    shown = daemon.command("status").out
    assert (
        f"console: 10 notices lost: {console[1]} takes no more: it is not read" in shown
    )
    assert daemon.command("status", "--check").code == 0
    assert daemon.stop() == 0
    after = {each["name"]: each for each in daemon.health()["channels"]}
    assert after["report_url"]["lost"] + after["report_url"]["waiting"] == 15


def test_other_settings_are_used_after_a_reload(
    daemon: Daemon, other: SignalServer, console: tuple[int, str]
) -> None:
    """Channels are opened and closed with them."""
    daemon.start()
    daemon.put([deployment("d1")])
    daemon.wait_state("d1", "unasked")
    daemon.configure(report_url=f"{other.origin}/events", console=console[1])
    daemon.send(signal.SIGHUP)
    daemon.wait_said("the settings were read again")
    daemon.put([deployment("d2")])
    wait_until(lambda: changes(other, "d2") == ["begun", "ended"], LONG)
    read = b""
    while b"d2: done" not in read:
        read += os.read(console[0], 4096)
    assert b"d2: begins CREATE (script)\r\n" in read
    daemon.configure(report_url="", console="")
    daemon.send(signal.SIGHUP)
    daemon.wait_said("the settings were read again", times=2)
    daemon.put([deployment("d3")])
    daemon.wait_state("d3", "unasked")
    assert daemon.stop() == 0
    assert {
        each["subject"]
        for each in map(json.loads, (request.body for request in other.signals))
    } == {"d2"}
