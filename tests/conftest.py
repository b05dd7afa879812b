"""The fixtures of all tests: a server on loopback in the place of Heat, and the installed commands."""

from __future__ import annotations

import gc
import itertools
import os
import re
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

from support import (
    compiled,
    distribution,
    endings,
    fault_table,
    leftovers,
    outcomes_before,
    pace,
    planted,
    shares,
    suite_time,
    tested_on,
)
from support.cloud import Cloud
from support.daemon import Daemon
from support.driver import Alone, Applied, Driver
from support.loopback import SignalServer
from support.machine import Machine

_TIMES = pytest.StashKey[int]()
_SHARES = pytest.StashKey[shares.Shares]()
_COUNTED = pytest.StashKey[Counter[str]]()
_FAILED = pytest.StashKey[bool]()
_BEGAN = time.monotonic()
_NUMBERS = itertools.count()
_LONG = 300
"""Characters that the name of a value may have in the name of a test."""


@pytest.fixture
def tmp_path(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A folder of the test's own. For a name, pytest looks through the folders of all tests before: 3 ms each."""
    name = re.sub(r"\W", "_", request.node.name)[:30]
    folder = tmp_path_factory.getbasetemp() / f"{name}{next(_NUMBERS)}"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def heat(request: pytest.FixtureRequest) -> Iterator[SignalServer]:
    """A server that takes signals."""
    server = SignalServer()
    server.start()
    yield server
    server.stop()
    if "machine" in request.fixturenames:
        # then they are results, and each has to be one
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
def openstack() -> Iterator[Cloud]:
    """A cloud in the place of OpenStack's: Keystone lets everybody in."""
    cloud = Cloud()
    cloud.start()
    yield cloud
    cloud.stop()


@pytest.fixture
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Machine]:
    """The installed commands with a state directory of their own. Whatever they run is ended with the test."""
    machine = Machine(tmp_path)
    machine.begins_loaded = not _new_processes(request, "commands")
    yield machine
    machine.end()
    assert_kept(request, planted.shown(machine))


def _new_processes(request: pytest.FixtureRequest, programs: str) -> bool:
    """Return whether a test has these programs start as new processes."""
    mark = request.node.get_closest_marker("new_process")
    return mark is not None and programs in (mark.args or ("commands", "daemons"))


def assert_kept(request: pytest.FixtureRequest, leaks: list[str]) -> None:
    """Hold a test to it that no secret was shown, unless it says why that is meant to be."""
    if request.node.get_closest_marker("shows_secrets") is None:
        assert not leaks, "\n".join(leaks)


@pytest.fixture
def daemon(request: pytest.FixtureRequest, machine: Machine) -> Iterator[Daemon]:
    """The daemon, with settings and a state directory of its own; not started yet."""
    daemon = Daemon(machine)
    daemon.begins_loaded = not _new_processes(request, "daemons")
    yield daemon
    daemon.end()


@pytest.fixture(params=["apply", pytest.param("alone", marks=pytest.mark.slow)])
def driver(
    request: pytest.FixtureRequest, tmp_path: Path, machine: Machine, heat: SignalServer
) -> Driver:
    """The way in which a hook carries out deployments: by the agent, and then by the hook alone.

    A test whose tool is slow names one of the two, if they make no difference to the test.
    """
    return (
        Applied(tmp_path, machine, heat)
        if request.param == "apply"
        else Alone(tmp_path)
    )


@pytest.fixture
def tried(request: pytest.FixtureRequest) -> Callable[[int], None]:
    """Say how often a test has tried its fault, where that is not once."""

    def note(times: int) -> None:
        request.node.stash[_TIMES] = times

    return note


@pytest.fixture
def seconds(request: pytest.FixtureRequest) -> float:
    """The seconds that a test of `make torture` may take; 0 in the short form."""
    return (
        request.config.stash[_SHARES].take(request.node.nodeid) if shares.FOR else 0.0
    )


@pytest.fixture(scope="session")
def counted(request: pytest.FixtureRequest) -> Counter[str]:
    """The counts of the tests of `make torture` by subject, printed at the end."""
    return request.config.stash.setdefault(_COUNTED, Counter())


def pytest_collection_finish(session: pytest.Session) -> None:
    """Divide the time of the long form among the tests that were chosen."""
    session.config.stash[_SHARES] = shares.of(session.items)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what the long form has done."""
    found = terminalreporter.config.stash.get(_COUNTED, Counter())
    if shares.FOR and found:
        what = ", ".join(f"{number:,} {name}" for name, number in sorted(found.items()))
        terminalreporter.write_line(
            f"torture: {what}; in {time.monotonic() - _BEGAN:.0f} of {shares.FOR:.0f} s"
        )


def fault_of(item: pytest.Item) -> fault_table.Row | None:
    """Return the fault that a test is about."""
    mark = item.get_closest_marker("fault")
    return fault_table.Row(*mark.args) if mark else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without looking for garbage: all that is made then stays."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Leave out the tests that have passed before, if that is asked for, and order the rest."""
    outcomes_before.leave_out(config, items)
    distribution.distribute(items)


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name a long value by its size: the name of a test is in the environment of whatever it starts."""
    return (
        f"{argname} of {len(val)}"
        if isinstance(val, str | bytes) and len(val) > _LONG
        else None
    )


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the option that leaves out tests."""
    outcomes_before.declare(parser)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Give each test the time that it may take on this machine, and have all processes end with this one."""
    distribution.assert_grouped(config)
    if (
        not config.option.basetemp
        and os.statvfs(tempfile.gettempdir()).f_flag & os.ST_NOEXEC
    ):
        raise pytest.UsageError(
            f"no program can run in {tempfile.gettempdir()}, which has noexec: set TMPDIR=FOLDER"
        )
    if config.option.timeout is None:
        config.option.timeout = pace.seconds(float(config.getini("timeout")))
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(
            outcomes_before.Outcomes(config), "outcomes of the tests"
        )
        config.pluginmanager.register(suite_time.Times(), "times of the tests")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Begin the record of faults anew, but not in a process of a run, nor in a run that a test of it starts."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        fault_table.LOG.unlink(missing_ok=True)
    leftovers.watch(session.config)
    compiled.have_compiled(session.config)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Pass on what this process has used."""
    suite_time.tell(session.config)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Have no failed test make another fail."""
    done = yield
    if item.stash.get(_FAILED, False):
        endings.clean_up_after_a_failure()
    return done


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Record what came of a fault, and of a test on another system."""
    report = yield
    item.stash[_FAILED] = report.failed or item.stash.get(_FAILED, False)
    row = fault_of(item)
    if row and report.skipped:
        fault_table.record(row, 0, held=True)
    elif row and call.when == "call":
        fault_table.record(row, item.stash.get(_TIMES, 1), held=report.passed)
    mark = item.get_closest_marker("tested_on")
    if mark and (call.when == "call" or (call.when == "setup" and not report.passed)):
        tested_on.note(mark.args, report, item.stash.get(tested_on.FOUND, ""))
    return report
