"""The fixtures of all tests: a server on loopback in the place of Heat, and the installed commands."""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

from support import fault_table, planted, shares, tested_on
from support.cloud import Cloud
from support.collection import pytest_collection, pytest_make_collect_report
from support.daemon import Daemon
from support.driver import Alone, Applied, Driver
from support.loopback import SignalServer
from support.machine import Machine

__all__ = ["pytest_collection", "pytest_make_collect_report"]

_TIMES = pytest.StashKey[int]()
_SHARES = pytest.StashKey[shares.Shares]()
_COUNTED = pytest.StashKey[Counter[str]]()
_BEGAN = time.monotonic()

CLOUD = (
    *(
        f"tests/system/test_{name}"
        for name in (
            *("lifecycle_heat", "transports", "proxy_heat", "heat_faults", "exported_heat", "documented"),
            *("templates_heat", "signed_heat", "openstack", "real_barbican", "recipes"),
            *("swift_time", "replaced_heat"),
            "first_boot.py::test_the_stack_has_a_stock_image_install_it",
        )
    ),
    "tests/image/test_network.py::test_a_stack_is_complete",
)
"""The tests that share the cloud; one process runs them, and begins first."""

ORDER = (
    *CLOUD,
    "tests/system/test_playground",
    "tests/hooks/test_quadlet",
    "tests/docs/test_pages",
    "tests/docs/test_examples",
    "tests/repository/test_repository",
    "tests/repository/test_linters",
    "tests/package/",
    "tests/system/",
    "tests/faults/test_soak",
    "tests/faults/test_kill_points",
    "tests/faults/test_stack_torture",
    "tests/faults/test_system_calls",
    "tests/hooks/test_ansible",
    "tests/hooks/test_puppet",
    "tests/hooks/test_salt",
    "tests/hooks/test_systemd_unit",
    "tests/hooks/",
    "tests/faults/",
    "tests/stack/",
    "tests/fuzz/",
    "tests/cli/",
    "tests/daemon/",
    "tests/promises/",
    "",
    "tests/unit/",
)
"""In which order tests begin: what takes longest first, what takes least last, so that all processes end together.

An empty text is for all that no other one names."""

APART = (
    "tests/docs/test_pages",
    "tests/faults/test_kill_points",
    "tests/faults/test_system_calls",
    "tests/hooks/test_ansible",
)
"""Long files whose tests share nothing: each test is handed out by itself."""

ANEW = re.compile("/cli/test_(shortcut|help_and_usage|stack_examples)|/cost/|/promises/test_kill_points")
"""The tests whose commands always start as new processes, as for users; others may begin loaded (`support.loaded`)."""

DAEMONS_ANEW = re.compile(
    "/daemon/test_(begin_and_end|daemon|idle_daemon|follow|reboot)\\."
    "|/faults/test_(daemon_faults|login_process|process_table|two_agents|unstartable|watchdog)"
)
"""The tests about the start of daemons, their memory, descriptors and processes: there they are new processes, too."""

FORMS = re.compile("/cli/")
"""The tests that start a new process for each form of a command line, with its own options, once in a run."""


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
def openstack() -> Iterator[Cloud]:
    """A cloud in the place of OpenStack's: Keystone lets everybody in."""
    cloud = Cloud()
    cloud.start()
    yield cloud
    cloud.stop()


@pytest.fixture(scope="session")
def command_forms(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all processes of this run share, see `Machine.forms`."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "forms-of-commands"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture
def machine(request: pytest.FixtureRequest, tmp_path: Path, command_forms: Path) -> Iterator[Machine]:
    """The installed commands with a state directory of their own. Whatever they run is ended with the test."""
    machine = Machine(tmp_path)
    machine.begins_loaded = not ANEW.search(str(request.path))
    if FORMS.search(str(request.path)):
        machine.forms = command_forms
    yield machine
    machine.end()
    assert_kept(request, planted.shown(machine))


def assert_kept(request: pytest.FixtureRequest, leaks: list[str]) -> None:
    """Hold a test to it that no secret was shown, unless it says why that is meant to be."""
    if request.node.get_closest_marker("shows_secrets") is None:
        assert not leaks, "\n".join(leaks)


@pytest.fixture
def daemon(request: pytest.FixtureRequest, machine: Machine) -> Iterator[Daemon]:
    """The daemon, with settings and a state directory of its own; not started yet."""
    daemon = Daemon(machine)
    daemon.begins_loaded = machine.begins_loaded and not DAEMONS_ANEW.search(str(request.path))
    yield daemon
    daemon.end()


@pytest.fixture(params=["apply", "alone"])
def driver(request: pytest.FixtureRequest, tmp_path: Path, machine: Machine, heat: SignalServer) -> Driver:
    """The way in which a hook carries out deployments: by the agent, and then by the hook alone.

    A test whose tool is slow names one of the two, if they make no difference to the test.
    """
    return Applied(tmp_path, machine, heat) if request.param == "apply" else Alone(tmp_path)


@pytest.fixture
def tried(request: pytest.FixtureRequest) -> Callable[[int], None]:
    """Say how often a test has tried its fault, where that is not once."""

    def note(times: int) -> None:
        request.node.stash[_TIMES] = times

    return note


@pytest.fixture
def seconds(request: pytest.FixtureRequest) -> float:
    """The seconds that a test of `make torture` may take; 0 in the short form."""
    return request.config.stash[_SHARES].take(request.node.nodeid) if shares.FOR else 0.0


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
        terminalreporter.write_line(f"torture: {what}; in {time.monotonic() - _BEGAN:.0f} of {shares.FOR:.0f} s")


def fault_of(item: pytest.Item) -> fault_table.Row | None:
    """Return the fault that a test is about."""
    mark = item.get_closest_marker("fault")
    return fault_table.Row(*mark.args) if mark else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests into the order that takes least time where several processes run them."""
    others = [item.nodeid for item in items if _shares_the_cloud(item) and not item.nodeid.startswith(CLOUD)]
    if others:
        raise pytest.UsageError(f"tests that share the cloud are to be in CLOUD in tests/conftest.py: {others}")
    items.sort(key=lambda item: (_place(item.nodeid), item.nodeid.partition("::")[0]))


def _shares_the_cloud(item: pytest.Item) -> bool:
    return isinstance(item, pytest.Function) and "one_cloud" in item.fixturenames


def _place(nodeid: str) -> int:
    """Return where a test is in `ORDER`."""
    return next((number for number, part in enumerate(ORDER) if part and nodeid.startswith(part)), ORDER.index(""))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Have one process run all tests of a file, and one all that share the cloud; those of some files are apart."""
    from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]  # noqa: PLC0415  # it asks

    scheduler = LoadScopeScheduling(config, log)
    scheduler._split_scope = _scope  # noqa: SLF001
    return scheduler


def _scope(nodeid: str) -> str:
    """Return the name of the tests that one process runs together."""
    if nodeid.startswith(CLOUD):
        return "the cloud"
    return nodeid if nodeid.startswith(APART) else nodeid.partition("::")[0]


def pytest_sessionstart() -> None:
    """Begin the record of faults anew, but not in a process of a run, nor in a run that a test of it starts."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        fault_table.LOG.unlink(missing_ok=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Record what came of a fault, and of a test on another system."""
    report = yield
    row = fault_of(item)
    if row and report.skipped:
        fault_table.record(row, 0, held=True)
    elif row and call.when == "call":
        fault_table.record(row, item.stash.get(_TIMES, 1), held=report.passed)
    mark = item.get_closest_marker("tested_on")
    if mark and (call.when == "call" or (call.when == "setup" and not report.passed)):
        tested_on.note(mark.args, report, item.stash.get(tested_on.FOUND, ""))
    return report
