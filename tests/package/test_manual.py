"""The manual pages: all that the commands have is in them, and those who show pages find nothing wrong with them."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

import pytest

import manual
from heat_config_agent.cli import agent
from heat_config_agent.cli.apply import command as apply
from heat_config_agent.settings.schema import SECTIONS, SETTINGS
from heat_config_hooks import HOOKS
from support.tools import need

pytestmark = pytest.mark.takes(120)

SCRIPT = Path(manual.__file__)

PAGES = (
    "heat-config-agent.1",
    "heat-config-apply.1",
    "heat-config-hook.1",
    "heat-config-agent.conf.5",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages, as a package has them made."""
    folder = tmp_path_factory.mktemp("manual")
    subprocess.run([sys.executable, SCRIPT, folder], check=True)
    return folder


def page(folder: Path, name: str) -> Path:
    """Return where a page is."""
    return folder / f"man{name[-1]}" / name


def shown(path: Path) -> str:
    """Return what a reader sees, with each run of blanks as one."""
    text = subprocess.run(
        ["groff", "-man", "-Tutf8", "-P-cbou", "-rHY=0", "-dAD=l", path],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return " ".join(text.split())


def said(parser: argparse.ArgumentParser) -> list[str]:
    """Return the words of a help text that are to be below a command: of its own arguments, and of its notes."""
    arguments = manual.arguments(parser)
    shared = (
        {manual.explained(each) for each in manual.common(agent.parser())}
        if " " in parser.prog
        else set()
    )
    arguments = [each for each in arguments if manual.explained(each) not in shared]
    words = [option for each in arguments for option in each.option_strings]
    helps = [
        (each.help or "") % {**vars(each), "prog": parser.prog} for each in arguments
    ]
    blocks = [
        block
        for block in (parser.epilog or "").split("\n\n")
        if "exit codes:" not in block
    ]
    return [" ".join(each.split()) for each in (*words, *helps, *blocks) if each]


def test_all_of_each_command_is_in_its_page(folder: Path) -> None:
    """Commands, options, arguments, exit codes and notes: what `--help` says, a page says."""
    need("groff", "groff-base")
    whole = agent.parser()
    text = shown(page(folder, "heat-config-agent.1"))
    missing = [each for each in said(whole) if each not in text]
    assert list(manual.commands(whole)) == list(agent.COMMANDS)
    assert "template validate" in manual.every(whole)
    for name, parser in manual.every(whole).items():
        _, _, rest = text.partition(f" {name} heat-config-agent {name} [-h]")
        missing += [f"{name}: {each}" for each in said(parser) if each not in rest]
        assert " ".join((parser.description or "").split())[1:] in rest
    assert missing == []
    for each in manual.common(whole):
        assert (
            f"{', '.join(each.option_strings)} "
            in text.partition("COMMON OPTIONS")[2].partition("COMMANDS")[0]
        )
    text = shown(page(folder, "heat-config-apply.1"))
    assert [each for each in said(apply.parser()) if each not in text] == []


def test_exit_codes_are_listed_once_for_all_commands_that_share_them(
    folder: Path,
) -> None:
    """Below each list stand the codes and meanings of its commands; no list is there twice."""
    need("groff", "groff-base")
    _, _, text = shown(page(folder, "heat-config-agent.1")).partition(
        "EXIT STATUS The codes have"
    )
    _, _, listed = text.partition("command by command.")
    listed = listed.partition("NOTES")[0]
    for name, parser in manual.every(agent.parser()).items():
        _, _, codes = (parser.epilog or "").partition("exit codes:\n")
        rows = " ".join(codes.partition("\n\n")[0].split())
        if rows:
            assert listed.count(rows) == 1, name
            assert re.search(rf"(^|[ ,]) ?{name}[,:]", listed.partition(rows)[0]), name


@pytest.mark.parametrize("name", [name for name in PAGES if "hook" not in name])
def test_pages_have_examples_that_the_commands_accept(folder: Path, name: str) -> None:
    """Each example is in its page, and is a command line that the command can parse."""
    need("groff", "groff-base")
    text = shown(page(folder, name))
    parsers = {"heat-config-agent": agent.parser(), "heat-config-apply": apply.parser()}
    assert (" ENVIRONMENT " in text) == (
        name in ("heat-config-agent.1", "heat-config-apply.1")
    )
    for lines in manual.EXAMPLES[name.rpartition(".")[0]].values():
        assert " ".join(lines.split()) in text.partition(" EXAMPLES ")[2]
        program, *words = lines.rpartition(" | ")[2].split()
        if program in parsers:
            parsers[program].parse_args(words)


def test_all_hooks_and_settings_are_in_their_pages(folder: Path) -> None:
    """A new hook or setting is in its page without anybody having put it there."""
    need("groff", "groff-base")
    text = shown(page(folder, "heat-config-hook.1"))
    assert [each for each in HOOKS if each not in text] == []
    text = shown(page(folder, "heat-config-agent.conf.5"))
    assert set(SECTIONS) == {each.section for each in SETTINGS}
    for each in SETTINGS:
        _, _, section = text.partition(f"[{each.section}] {SECTIONS[each.section]}")
        assert (
            f"{each.name} {each.description[:1].upper()}{each.description[1:]}. It is "
            in section
        )


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize(
    ("package", "command"),
    [
        ("mandoc", ["mandoc", "-Tlint", "-Wwarning"]),
        ("groff-base", ["groff", "-ww", "-z", "-man", "-Tutf8"]),
        ("man-db", ["man", "--warnings", "-E", "UTF-8", "-l", "-Z"]),
    ],
    ids=["mandoc", "groff", "man"],
)
def test_readers_find_nothing_wrong(
    folder: Path, name: str, package: str, command: list[str]
) -> None:
    """No warning from any of the programs that show pages."""
    need(command[0], package)
    done = subprocess.run(
        [*command, page(folder, name)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert command[0] != "mandoc" or done.stdout == ""


def test_readers_would_find_something(tmp_path: Path) -> None:
    """The checker finds a planted mistake."""
    need("mandoc", "mandoc")
    (tmp_path / "bad.1").write_text(
        '.TH BAD 1 "2026-11-22"\n.SH NAME\nbad \\- page\n.nosuchmacro\n'
    )
    assert subprocess.run(
        ["mandoc", "-Tlint", "-Wwarning", tmp_path / "bad.1"], check=False
    ).returncode


def test_words_that_look_like_requests_are_none() -> None:
    """A sentence may begin with what roff would take for a request, and options are copied with their own signs."""
    lines = list(manual.words(".nf 'tis \\ --all ~root"))
    assert lines == ["\\&.nf \\(aqtis \\e \\-\\-all \\(tiroot"]
