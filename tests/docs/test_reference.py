"""The generated pages of the documentation: they are current, and nothing that is declared is missing in them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import manual
import reference
from docs.console import ROOT
from heat_config_agent.cli import agent
from heat_config_agent.cli.apply import command as apply
from heat_config_agent.model.errors import ExitCode
from heat_config_agent.settings.kinds import written
from heat_config_agent.settings.schema import SETTINGS
from support import together

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
            if re.match(rf"\| \[?`{setting.name}`(\]\(\S+\))? \|", line)
        ]
        default = written(setting.kind, setting.default)
        assert setting.required or not default or f"| `{default}` |" in row


COMMANDS = {
    each.prog: each
    for program in (agent.parser(), apply.parser())
    for each in (program, *manual.every(program).values())
}
"""Command → its parser."""

SECTIONS_OF_PAGE = {
    section.partition("\n")[0].strip("`"): section
    for section in re.split(r"(?m)^##+ ", PAGES["commands.md"])[1:]
}
"""Heading → its section of the page of commands."""


def section_of(command: str) -> str:
    """Return the section that explains a command."""
    own = SECTIONS_OF_PAGE.get(command)
    return own or next(
        text
        for text in SECTIONS_OF_PAGE.values()
        if f"`{command}` does the same" in text
    )


def options_in(section: str) -> set[str]:
    """Return the options that a section explains, names, or refers to."""
    told, _, lacking = section.partition("Without the common options ")
    words = set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", told))
    for title in reference.GROUPS:
        is_common = title == "Common options"
        if section != SECTIONS_OF_PAGE[title] and (
            is_common or f"[{title.lower()}](#" in told
        ):
            words |= set(re.findall(r"--[\w-]+", SECTIONS_OF_PAGE[title]))
    return words - set(re.findall(r"`(--[\w-]+)`", lacking.partition("\n")[0]))


PLAIN = [
    name
    for name, parser in COMMANDS.items()
    if name not in reference.ALIASES and (manual.arguments(parser) or parser.epilog)
]
"""The commands that are more than a group of others."""


@together.cases("command", PLAIN)
def test_every_command_is_explained_with_its_options(command: str) -> None:
    """A section explains an option, or leads to where it is explained."""
    told = options_in(section_of(command))
    assert [
        action.option_strings
        for action in manual.arguments(COMMANDS[command])
        if action.option_strings and not told & set(action.option_strings)
    ] == []


@together.cases("command", PLAIN)
def test_common_options_that_a_command_lacks_are_named(command: str) -> None:
    """A section that names none of them promises all of them."""
    common = reference.GROUPS["Common options"][1]
    options = {
        word
        for action in manual.arguments(COMMANDS[command])
        for word in action.option_strings
    }
    if command != "heat-config-agent" and options:
        lacking = {each for each in common if each not in options}
        _, _, line = section_of(command).partition("Without the common options ")
        assert set(re.findall(r"`(--[\w-]+)`", line.partition("\n")[0])) == lacking


@together.cases("command", PLAIN)
def test_every_exit_code_of_a_command_is_named(command: str) -> None:
    """A section names each code, apart from those that all commands have."""
    section = section_of(command)
    _, rows = reference.parted(COMMANDS[command])
    assert rows
    if command != "heat-config-agent":
        named = set(re.findall(r"`(\d+)`", section)) | {*reference.ALWAYS}
        assert {code for code, _ in rows} - named == set()


def test_general_list_of_exit_codes_is_complete() -> None:
    """Each code that a command can end with has a general meaning."""
    section = SECTIONS_OF_PAGE["Exit codes"]
    assert re.findall(r"(?m)^\| `(\d+)` \|", section) == [
        str(int(each)) for each in ExitCode
    ]


def test_every_command_is_in_a_table_that_leads_to_its_section() -> None:
    """A group inside of a group has no section: the outer group has its commands."""
    page = PAGES["commands.md"]
    linked = set(re.findall(r"\]\(#(heat-config-[\w-]+)\)", page))
    headings = {each.replace(" ", "-") for each in SECTIONS_OF_PAGE}
    assert linked <= headings
    for name in SECTIONS_OF_PAGE:
        if name in COMMANDS and " " in name:
            assert name.replace(" ", "-") in linked, name


def test_the_program_writes_the_pages_into_a_folder(tmp_path: Path) -> None:
    """`make reference` runs it for docs/."""
    subprocess.run(
        [sys.executable, ROOT / "packaging/reference.py", tmp_path], check=True
    )
    assert {
        path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()
    } == PAGES
