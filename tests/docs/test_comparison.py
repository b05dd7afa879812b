"""The page that compares this project with others: each answer of it is held by a test that exists."""

from __future__ import annotations

import re

import pytest

from docs import prose
from docs.console import ROOT

PAGE = "docs/comparison.md"

OTHERS = (
    "heat-agents",
    "os-collect-config",
    "SSM",
    "CodeDeploy",
    "OS Config",
    "cloud-init",
    "ansible-pull",
    "Flight Control",
    "xOpera",
    "Unfurl",
    "Puccini",
)
"""The programs that the page has to have a heading for."""

ROW = re.compile(r"(?m)^\| (?!wish |here |missing |---)(.*) \|$")


def held(text: str) -> list[str]:
    """Return the rows of the tables whose last column says what holds them."""
    return [
        row
        for table in re.findall(r"(?m)^\|.* held by \|\n(?:\|.*\n)+", text)
        for row in ROW.findall(table)
    ]


def test_every_answer_is_held_by_an_existing_test() -> None:
    """A row names a test by its name and module, or a transcript in a page that the tests execute."""
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    assert [*prose.renamed(text)] == []
    rows = held(text)
    assert len(rows) > 30
    assert [
        row
        for row in rows
        if not prose.TEST.search(row) and "the transcript in [" not in row
    ] == []
    named = re.findall(r"`(test_\w+)`", text)
    assert sorted(named) == sorted(name for name, _ in prose.TEST.findall(text))


def test_every_wish_has_its_thread() -> None:
    """The wishes of users are links to what they have written."""
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    wishes = re.findall(r"(?m)^\| wish .*\n(?:\|.*\n)+", text)
    rows = [row for table in wishes for row in ROW.findall(table)]
    assert len(wishes) == len(OTHERS) - 1  # two of them are in one section
    assert [row for row in rows if "](https://" not in row.partition(" | ")[0]] == []


@pytest.mark.parametrize("name", OTHERS)
def test_every_program_has_a_section(name: str) -> None:
    """A reader finds each program by its heading, and first what is missing here."""
    headings = re.findall(r"(?m)^## (.*)", (ROOT / PAGE).read_text(encoding="utf-8"))
    assert any(name in heading for heading in headings)
    assert headings[0] == "What is missing here"


def test_renamed_test_is_a_mistake_of_the_page() -> None:
    """The lint of pages names the line of a test or a module that is not there."""
    text = "\n[`test_gone`](../tests/docs/test_comparison.py) [`test_a`](../tests/docs/test_none.py)"
    assert [*prose.renamed(text)] == [
        (
            2,
            "tests/docs/test_comparison.py has no test test_gone: name the test that it is now",
        ),
        (2, "tests/docs/test_none.py has no test test_a: name the test that it is now"),
    ]
