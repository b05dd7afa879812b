"""Files that a reader can take in."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).parents[1]
LINES = 600

LONGER = {"faults/test_kill_points.py"}
"""The files that are still to be split. None is to be added."""


def test_no_file_of_tests_is_longer_than_600_lines() -> None:
    """A file that grows beyond that has more than one subject: split it along them."""
    files = {path.relative_to(TESTS).as_posix(): path for path in TESTS.rglob("*.py")}
    assert "repository/test_size.py" in files
    longer = {name for name, path in files.items() if len(path.read_text().splitlines()) > LINES}
    assert longer - LONGER == set()


def test_no_exception_is_kept_for_a_file_that_has_been_split() -> None:
    """The list of longer files names files that exist."""
    assert [name for name in LONGER if not (TESTS / name).is_file()] == []
