"""What the tests share: a server on loopback that stands where Heat's signal endpoint is, and the installed commands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from loopback import SignalServer
from machine import Machine


@pytest.fixture
def heat() -> Iterator[SignalServer]:
    """A server that takes signals."""
    server = SignalServer()
    server.start()
    yield server
    server.stop()


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """A machine with the commands installed and a state directory of its own. Whatever runs on it is ended with the test."""
    machine = Machine(tmp_path)
    yield machine
    machine.end()
