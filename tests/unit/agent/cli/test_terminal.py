"""Lines and tables on a terminal of 40 columns, and where no terminal is."""

from __future__ import annotations

import pytest

from heat_config_agent.cli import terminal
from heat_config_agent.model import states

ROWS = [
    ("NAME", "STATE", "DETAILS"),
    ("web", "failed", "the certificate of the shop is not there"),
]


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard output is a terminal of 40 columns."""
    monkeypatch.setattr(terminal, "is_live", lambda *, error=False: not error)
    monkeypatch.setattr(terminal, "width", lambda: 40)
    monkeypatch.setenv("NO_COLOR", "1")


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
    """A row that is too long is shortened at its name, down to 12 columns."""
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


TABLE = [
    ("shop", "failed", "-", "exit code 3: the page is not there"),
    ("a-name-that-is-longer-than-others", "ok", "-", ""),
]
HEADER = ("NAME", "STATE", "RESULT", "DETAILS")


def test_a_table_has_a_header_or_a_sentence() -> None:
    """A header stands above rows only, and an empty table is one sentence."""
    assert terminal.table([], HEADER, "no deployments") == ["no deployments"]
    assert terminal.table([], HEADER) == []
    assert terminal.table(TABLE, HEADER)[0].split() == list(HEADER)
    assert len(terminal.table(TABLE, HEADER)) == 3


@pytest.mark.usefixtures("narrow")
def test_narrow_table_leaves_out_columns_without_a_fact() -> None:
    """The column RESULT has no fact, so the details begin further to the left."""
    header, *rows = terminal.table(TABLE, HEADER)
    assert "RESULT" not in header
    assert rows[0].split()[1:3] == ["failed", "exit"]
    assert all(len(line) <= 40 for row in (header, *rows) for line in row.split("\n"))


@pytest.mark.usefixtures("narrow")
def test_only_the_state_is_coloured(monkeypatch: pytest.MonkeyPatch) -> None:
    """The word of the state has its colour, and with NO_COLOR it has none."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    _, failed, good = terminal.table(TABLE, HEADER)
    assert "\x1b[1;31mfailed\x1b[0m" in failed
    assert "\x1b[32mok\x1b[0m" in good
    assert failed.count("\x1b[0m") == 1
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in "".join(terminal.table(TABLE, HEADER))


def test_streams_have_colours_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal on standard output does not colour what goes to a file on standard error."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("CLICOLOR_FORCE", raising=False)
    monkeypatch.setattr(terminal, "is_live", lambda *, error=False: not error)
    assert terminal.styled("text", "warn") == "\x1b[33mtext\x1b[0m"
    assert terminal.styled("text", "warn", error=True) == "text"
    monkeypatch.setenv("CLICOLOR_FORCE", "1")
    assert terminal.styled("text", "warn", error=True) == "\x1b[33mtext\x1b[0m"


def test_every_state_has_a_style() -> None:
    """The words with a colour are those of the model."""
    assert set(terminal.STATE_STYLES) == {shown.value for shown in states.Shown}
