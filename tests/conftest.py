"""What the tests share: a server on loopback in the place of Heat, and the installed commands."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

import fault_table
import planted
from daemon import Daemon
from driver import Alone, Applied, Driver
from loopback import SignalServer
from machine import Machine

_TIMES = pytest.StashKey[int]()

FIRST, LAST = "/system/", "/faults/"
"""What is to begin first, as one process does most of it; and last, as it has the machine busy and does not mind."""


@pytest.fixture
def heat(request: pytest.FixtureRequest) -> Iterator[SignalServer]:
    """A server that takes signals."""
    server = SignalServer()
    server.start()
    yield server
    server.stop()
    if "machine" in request.fixturenames:  # then they are results, and each has to be one
        assert all(each.value for each in server.signals)
    assert_kept(request, planted.told(server))


@pytest.fixture
def other(request: pytest.FixtureRequest) -> Iterator[SignalServer]:
    """Another server that takes signals."""
    server = SignalServer()
    server.start()
    yield server
    server.stop()
    assert_kept(request, planted.told(server))


@pytest.fixture
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Machine]:
    """The installed commands with a state directory of their own. Whatever they run is ended with the test."""
    machine = Machine(tmp_path)
    yield machine
    machine.end()
    assert_kept(request, planted.shown(machine))


def assert_kept(request: pytest.FixtureRequest, leaks: list[str]) -> None:
    """Hold a test to it that no secret was shown, unless it says why that is meant to be."""
    if request.node.get_closest_marker("shows_secrets") is None:
        assert not leaks, "\n".join(leaks)


@pytest.fixture
def daemon(machine: Machine) -> Iterator[Daemon]:
    """The daemon, with settings and a state directory of its own; not started yet."""
    daemon = Daemon(machine)
    yield daemon
    daemon.end()


@pytest.fixture(params=["apply", "alone"])
def driver(request: pytest.FixtureRequest, tmp_path: Path, machine: Machine, heat: SignalServer) -> Driver:
    """What has a hook carry out deployments: the agent, and then again the hook by itself.

    Where the tool takes long, and which of them calls it makes no difference to what is tested, a test names one.
    """
    return Applied(tmp_path, machine, heat) if request.param == "apply" else Alone(tmp_path)


@pytest.fixture
def tried(request: pytest.FixtureRequest) -> Callable[[int], None]:
    """Say how often a test has tried its fault, where that is not once."""

    def note(times: int) -> None:
        request.node.stash[_TIMES] = times

    return note


def fault_of(item: pytest.Item) -> fault_table.Row | None:
    """Return the fault that a test is about."""
    mark = item.get_closest_marker("fault")
    return fault_table.Row(*mark.args) if mark else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests into the order that takes least time where several processes run them."""
    items.sort(key=lambda item: (FIRST not in str(item.path), LAST in str(item.path)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Have one process run all tests of a file, and another one all that share the cloud."""
    from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]  # noqa: PLC0415  # it asks

    scheduler = LoadScopeScheduling(config, log)
    scheduler._split_scope = lambda nodeid: FIRST if FIRST in nodeid else nodeid.partition("::")[0]  # noqa: SLF001
    return scheduler


def pytest_sessionstart(session: pytest.Session) -> None:
    """Begin the record of faults anew."""
    if not hasattr(session.config, "workerinput"):  # of several processes, the one that starts the others
        fault_table.LOG.unlink(missing_ok=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Record what came of a fault."""
    report = yield
    row = fault_of(item)
    if row and call.when == "call" and not report.skipped:
        fault_table.record(row, item.stash.get(_TIMES, 1), held=report.passed)
    return report
