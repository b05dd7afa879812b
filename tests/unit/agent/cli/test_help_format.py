"""The layout of `--help`."""

from __future__ import annotations

import argparse

import pytest

from heat_config_agent.cli.help_format import HelpFormatter

EPILOG = """\
The command can be repeated, and nothing runs
twice.

exit codes:
  0    success
  130  interrupted; runs that have begun go on

  heat-config-agent status
"""


@pytest.mark.parametrize("columns", ["40", "200"])
def test_paragraphs_and_lists_fit_the_terminal(
    monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    """Paragraphs are filled, meanings are wrapped below themselves, and commands stay as they are."""
    monkeypatch.setenv("COLUMNS", columns)
    text = argparse.ArgumentParser(
        prog="x", epilog=EPILOG, formatter_class=HelpFormatter
    ).format_help()

    assert all(len(line) <= min(int(columns), 100) for line in text.splitlines())
    assert "\n  heat-config-agent status\n" in text
    if columns == "40":
        assert "\n  130  interrupted; runs that have\n       begun go on\n" in text
    else:
        assert "\nThe command can be repeated, and nothing runs twice.\n" in text
        assert "\n  130  interrupted; runs that have begun go on\n" in text
