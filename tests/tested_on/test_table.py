"""The table of what the agent was tested on says what the tests try."""

from __future__ import annotations

from pathlib import Path

import pytest

from support import tested_on
from support.tested_on import Row
from tested_on.write import WANTED


def test_the_table_is_of_these_tests() -> None:
    """Every system, Python and Heat that a test is about is in the table, and nothing else is."""
    found = tested_on.rows(tested_on.TABLE.read_text(encoding="utf-8"))
    wanted = {kind: set(subjects) for kind, subjects in WANTED.items()}
    assert found == wanted, "`make tested-on` writes the table anew"


def test_table_has_the_last_success_of_each_subject(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last row of a subject counts; a failed run writes no table."""
    monkeypatch.setattr(tested_on, "LOG", tmp_path / "log")
    for row in (
        Row("heat", "Heat 9", "there is no interpreter", "not tried"),
        Row("python", "Python 3.9", "", "failed"),
        Row("heat", "Heat 9", "openstack-heat 9.1", "passed"),
    ):
        tested_on.record(row)
    with pytest.raises(ValueError, match=r"Python 3\.9"):
        tested_on.recorded()
    tested_on.record(Row("python", "Python 3.9", "1 test", "passed"))
    wanted = {"system": ["Debian 1"], "python": ["Python 3.9"], "heat": ["Heat 9"]}
    text = tested_on.table(tested_on.recorded(), wanted)
    assert "| Heat 9 | passed | openstack-heat 9.1 |" in text
    assert "| Debian 1 | not tried | the tests were not run with it |" in text
    assert tested_on.rows(text) == {
        kind: set(subjects) for kind, subjects in wanted.items()
    }
