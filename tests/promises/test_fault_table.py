"""The table of faults says what the tests try."""

from __future__ import annotations

from pathlib import Path

import pytest

from support import fault_table
from support.outcomes_before import COLLECTED

TESTS = Path(__file__).parents[1]


def _tried(config: pytest.Config) -> set[fault_table.Row]:
    """Return the faults that the collected tests try."""
    marks = [
        mark for item in config.stash[COLLECTED] for mark in item.iter_markers("fault")
    ]
    return {fault_table.Row(*mark.args) for mark in marks}


def test_every_tried_fault_is_in_the_table(request: pytest.FixtureRequest) -> None:
    """The table has the fault of each test."""
    missing = fault_table.missing(_tried(request.config), fault_table.TABLE.read_text())
    assert missing == set(), "`make faults` writes the table anew"


@pytest.mark.slow
def test_the_table_has_only_faults_that_are_tried(
    request: pytest.FixtureRequest,
) -> None:
    """Where all tests are collected, the table has their faults and no others."""
    options = request.config.option
    whole = [Path(each) for each in request.config.args] in ([TESTS], [Path("tests")])
    if not whole or options.markexpr or options.keyword or options.lf:
        pytest.skip("only a run of all tests can tell: make test-all")
    rows = fault_table.rows(fault_table.TABLE.read_text())
    assert rows == _tried(request.config), "`make faults` writes the table anew"


def test_rows_of_the_table_are_plain() -> None:
    """A row says what happens in words that need no other row, and names who says it."""
    vague = [
        row
        for row in sorted(fault_table.rows(fault_table.TABLE.read_text()))
        if fault_table.VAGUE.search(f"{row.fault}; {row.outcome}")
    ]
    assert vague == []


def test_broken_promise_gives_no_fault_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run in which something did not hold is not made a table of; one in which all held is, and can be read back."""
    monkeypatch.setattr(fault_table, "LOG", tmp_path / "log")
    row = fault_table.Row(3, "a server that stalls", "it is given up")
    fault_table.record(row, 2, held=True)
    fault_table.record(row, 3, held=True)
    found = fault_table.recorded()
    assert found == {row: 5}
    assert fault_table.rows(fault_table.table(found)) == {row}
    assert "**1 faults were tried, 5 times in all" in fault_table.table(found)

    fault_table.record(row, 1, held=False)
    with pytest.raises(ValueError, match="did not hold"):
        fault_table.recorded()


def test_skipped_fault_gives_no_fault_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that could not try a fault is not made a table of; one test of several that try it is enough."""
    monkeypatch.setattr(fault_table, "LOG", tmp_path / "log")
    row = fault_table.Row(3, "a server that stalls", "it is given up")
    fault_table.record(row, 0, held=True)
    with pytest.raises(ValueError, match="was skipped"):
        fault_table.recorded()
    fault_table.record(row, 2, held=True)
    assert fault_table.recorded() == {row: 2}
