"""What the tests share: a server on loopback in the place of Heat, and the installed commands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon import Daemon
from driver import Alone, Applied, Driver
from loopback import SignalServer
from machine import Machine


@pytest.fixture
def heat(request: pytest.FixtureRequest) -> Iterator[SignalServer]:
    """A server that takes signals."""
    server = SignalServer()
    server.start()
    yield server
    server.stop()
    if "machine" in request.fixturenames:  # then they are results, and each has to be one
        assert all(each.value for each in server.signals)


@pytest.fixture
def other() -> Iterator[SignalServer]:
    """Another server that takes signals."""
    server = SignalServer()
    server.start()
    yield server
    server.stop()


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """The installed commands with a state directory of their own. Whatever they run is ended with the test."""
    machine = Machine(tmp_path)
    yield machine
    machine.end()


@pytest.fixture
def daemon(machine: Machine) -> Iterator[Daemon]:
    """The daemon, with settings and a state directory of its own; not started yet."""
    daemon = Daemon(machine)
    yield daemon
    daemon.end()


@pytest.fixture(params=["apply", "alone"])
def driver(request: pytest.FixtureRequest, tmp_path: Path, machine: Machine, heat: SignalServer) -> Driver:
    """What has a hook carry out deployments: the agent, and then again the hook by itself."""
    return Applied(tmp_path, machine, heat) if request.param == "apply" else Alone(tmp_path)
