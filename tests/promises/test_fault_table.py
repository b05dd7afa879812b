"""The table of faults says what the tests try."""

from __future__ import annotations

from pathlib import Path

import pytest

from support import fault_table

TESTS = Path(__file__).parents[1]


def test_the_table_is_of_these_tests(request: pytest.FixtureRequest) -> None:
    """Every fault that is tried is in the table; and where all of them were collected, nothing else is."""
    marks = [mark for item in request.session.items for mark in item.iter_markers("fault")]
    tried = {fault_table.Row(*mark.args) for mark in marks}
    text = fault_table.TABLE.read_text()

    assert fault_table.missing(tried, text) == set(), "`make faults` writes the table anew"
    options = request.config.option
    whole = [Path(each) for each in request.config.args] in ([TESTS], [Path("tests")])
    if whole and not (options.markexpr or options.keyword or options.lf):
        assert fault_table.rows(text) == tried, "`make faults` writes the table anew"


def test_what_did_not_hold_makes_no_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_what_was_skipped_makes_no_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that could not try a fault is not made a table of; one test of several that try it is enough."""
    monkeypatch.setattr(fault_table, "LOG", tmp_path / "log")
    row = fault_table.Row(3, "a server that stalls", "it is given up")
    fault_table.record(row, 0, held=True)
    with pytest.raises(ValueError, match="was skipped"):
        fault_table.recorded()
    fault_table.record(row, 2, held=True)
    assert fault_table.recorded() == {row: 2}
