"""The generated pages of the documentation: they are current, and nothing that is declared is missing in them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import manual
import reference
from docs.console import ROOT
from heat_config_agent.cli import agent
from heat_config_agent.cli.apply import command as apply
from heat_config_agent.settings.kinds import written
from heat_config_agent.settings.schema import SETTINGS

PAGES = reference.pages()


@pytest.mark.parametrize("name", PAGES)
def test_a_generated_page_is_current(name: str) -> None:
    """The page agrees with the present declarations of settings and commands."""
    shown = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert shown == PAGES[name], (
        f"docs/{name} is out of date: `make reference` writes it"
    )


def test_every_setting_is_listed_with_its_default() -> None:
    """Each setting has a row below the heading of its section."""
    for setting in SETTINGS:
        section = (
            PAGES["settings.md"]
            .partition(f"## `[{setting.section}]`\n")[2]
            .partition("\n## ")[0]
        )
        [row] = [
            line
            for line in section.splitlines()
            if line.startswith(f"| `{setting.name}` |")
        ]
        default = written(setting.kind, setting.default)
        assert setting.required or not default or f"| `{default}` |" in row


def test_every_command_is_listed_with_its_options() -> None:
    """Each command has a section, with a row for each option and argument."""
    for program in (agent.parser(), apply.parser()):
        for parser in (program, *manual.every(program).values()):
            _, found, rest = PAGES["commands.md"].partition(f"# `{parser.prog}`\n")
            assert found, parser.prog
            section = rest.partition("\n## ")[0].partition("\n### ")[0]
            named = [
                word
                for action in manual.arguments(parser)
                for word in action.option_strings
            ]
            assert [word for word in named if word not in section] == [], parser.prog


def test_the_program_writes_the_pages_into_a_folder(tmp_path: Path) -> None:
    """`make reference` runs it for docs/."""
    subprocess.run(
        [sys.executable, ROOT / "packaging/reference.py", tmp_path], check=True
    )
    assert {
        path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()
    } == PAGES
