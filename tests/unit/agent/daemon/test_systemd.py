from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from heat_config_agent.daemon.systemd import Notifier


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[socket.socket]:
    """A socket as the service manager's, at `notify`."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as found:
        found.bind(str(tmp_path / "notify"))
        found.setblocking(False)
        yield found


def heard(listener: socket.socket) -> list[str]:
    """Return all that has been said."""
    found = []
    while True:
        try:
            found.append(listener.recv(4096).decode())
        except BlockingIOError:
            return found


def test_status_is_reported_when_it_is_news(
    listener: socket.socket, tmp_path: Path
) -> None:
    """A status is sent to systemd when it changes, not at every turn."""
    notifier = Notifier({"NOTIFY_SOCKET": str(tmp_path / "notify")})
    for text in ("idle", "idle", "running d1 – é", "running d1 – é", "idle"):
        notifier.status(text)
    assert heard(listener) == ["STATUS=idle", "STATUS=running d1 – é", "STATUS=idle"]


@pytest.mark.parametrize(
    ("environ", "fed"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "30000000"}, 10.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}, 10.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({"WATCHDOG_USEC": ""}, None),
    ],
)
def test_the_watchdog_is_fed_as_often_as_it_says(
    environ: dict[str, str], fed: float | None
) -> None:
    """Well within its time, if it is ours."""
    assert Notifier(environ).watchdog == fed


def test_the_watchdog_is_not_fed_more_often_than_needed(
    listener: socket.socket, tmp_path: Path
) -> None:
    """The watchdog is notified no more often than needed, at any number of calls."""
    notifier = Notifier(
        {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "60000000"}
    )
    for _ in range(10):
        notifier.alive()
    assert heard(listener) == ["WATCHDOG=1"]


@pytest.mark.parametrize(
    "address",
    ["", "relative", "/no/such/socket", "@nobody-listens-here", "/" + "x" * 300],
)
def test_missing_listener_has_no_effect(address: str) -> None:
    """Without a listener there is neither an error nor a wait."""
    notifier = Notifier({"NOTIFY_SOCKET": address})
    notifier.ready()
    notifier.reloading()
    notifier.status("idle")
    notifier.stopping()
