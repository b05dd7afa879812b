"""The end of a long run says where its time went."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import cast

import pytest

from support import suite_time


def report(worker: str, file: str, seconds: float) -> pytest.TestReport:
    """Return the report of a test, as pytest-xdist passes it on."""
    made = pytest.TestReport(
        f"tests/{file}.py::test_it", ("", 0, ""), {}, "passed", None, "call"
    )
    made.duration = seconds
    vars(made)["worker_id"] = worker
    return made


def test_each_process_has_a_line_with_its_longest_files() -> None:
    """The sum of its tests, its processor time, the end of its last test, and the files that took longest."""
    times = suite_time.Times()
    for worker, file, seconds in (
        ("gw0", "system/test_a", 30.0),
        ("gw0", "cli/test_b", 2.0),
        ("gw0", "system/test_a", 12.0),
        ("gw1", "cli/test_c", 5.0),
    ):
        times.pytest_runtest_logreport(report(worker, file, seconds))
    node = SimpleNamespace(
        workerinput={"workerid": "gw0"}, workeroutput={"processor seconds": 21.4}
    )
    times.pytest_testnodedown(cast("suite_time.Node", node))

    first, second, processors = times.lines()

    assert re.fullmatch(
        r"gw0: 44 s of tests, 21 s of processor, the last one ended after \d+ s; system/test_a 42 s, cli/test_b 2 s",
        first,
    )
    assert second.startswith("gw1: 5 s of tests, 0 s of processor, ")
    assert re.fullmatch(r"\d+% of the processors' time was idle", processors)


def test_process_tells_its_own_processor_time() -> None:
    """A process that runs tests passes it on; the one that commands them has nothing to pass."""
    output: dict[str, object] = {}
    suite_time.tell(cast("pytest.Config", SimpleNamespace(workeroutput=output)))
    suite_time.tell(cast("pytest.Config", SimpleNamespace()))
    [seconds] = output.values()
    assert isinstance(seconds, float)
    assert seconds > 0
