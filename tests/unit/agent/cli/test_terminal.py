"""Lines and tables on a terminal of 40 columns, and where no terminal is."""

from __future__ import annotations

import pytest

from heat_config_agent.cli import terminal

ROWS = [
    ("NAME", "STATE", "DETAILS"),
    ("web", "failed", "the certificate of the shop is not there"),
]


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard output is a terminal of 40 columns."""
    monkeypatch.setattr(terminal, "is_live", lambda: True)
    monkeypatch.setattr(terminal, "width", lambda: 40)


@pytest.mark.usefixtures("narrow")
def test_the_last_column_is_wrapped_below_itself() -> None:
    """The columns before it stay aligned."""
    assert terminal.table(ROWS) == [
        "NAME  STATE   DETAILS",
        "web   failed  the certificate of the\n              shop is not there",
    ]


@pytest.mark.usefixtures("narrow")
def test_a_last_column_far_to_the_right_is_printed_below_its_row() -> None:
    """A last column far to the right is printed below its row, because it would be too narrow."""
    assert terminal.table(
        [("web", "a-column-that-is-quite-long", "the page is not there")]
    ) == ["web  a-column-that-is-quite-long\n    the page is not there"]


@pytest.mark.usefixtures("narrow")
def test_a_long_name_loses_its_middle_rather_than_the_columns_their_places() -> None:
    """A row that is too long is shortened at its name, down to 20 columns."""
    [row] = terminal.table(
        [("a-resource-with-a-very-long-name-indeed", "COMPLETE", "-")]
    )
    assert row.startswith("a-resource-")
    assert "…" in row
    assert len(row.split("\n")[0]) <= 40


def test_without_a_terminal_nothing_is_wrapped() -> None:
    """A program that reads the table gets a line for each row."""
    assert (
        terminal.table(ROWS)[1]
        == "web   failed  the certificate of the shop is not there"
    )


def test_words_and_commands_stay_whole() -> None:
    """A command in backquotes is copied as a whole, even where the line is longer then."""
    command = "`heat-config-agent log shop/database`"
    assert (
        terminal.wrapped(f"{command} shows all of its output", 2, 40)
        == f"{command}\n  shows all of its output"
    )
    assert terminal.wrapped(f"see {command}", 2, 20) == f"see\n  {command}"


def test_a_line_that_fits_is_unchanged() -> None:
    """A line that fits is unchanged, and a limit of 0 means no limit."""
    assert terminal.wrapped("one two", 2, 7) == "one two"
    assert terminal.wrapped("one two", 2, 0) == "one two"
