"""The page that compares this project with others: each answer of it is held by a test that exists."""

from __future__ import annotations

import ast
import re

import pytest

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

TEST = re.compile(r"\[`(test_\w+)`\]\(\.\./(tests/[\w/]+\.py)\)")
"""A link to a module of tests, whose text is the name of the test."""

ROW = re.compile(r"(?m)^\| (?!wish |here |missing |---)(.*) \|$")


def held(text: str) -> list[str]:
    """Return the rows of the tables whose last column says what holds them."""
    return [
        row
        for table in re.findall(r"(?m)^\|.* held by \|\n(?:\|.*\n)+", text)
        for row in ROW.findall(table)
    ]


def functions(name: str) -> set[str]:
    """Return the names of the functions in a module of tests."""
    tree = ast.parse((ROOT / name).read_text(encoding="utf-8"))
    return {each.name for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)}


def missing(text: str) -> list[str]:
    """Return the tests that a text names and that do not exist."""
    return [
        f"{path}: {name}"
        for name, path in TEST.findall(text)
        if not (ROOT / path).exists() or name not in functions(path)
    ]


def test_every_answer_is_held_by_an_existing_test() -> None:
    """A row names a test by its name and module, or a transcript in a page that the tests execute."""
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    assert missing(text) == []
    rows = held(text)
    assert len(rows) > 30
    assert [
        row for row in rows if not TEST.search(row) and "the transcript in [" not in row
    ] == []
    named = re.findall(r"`(test_\w+)`", text)
    assert sorted(named) == sorted(name for name, _ in TEST.findall(text))


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


def test_missing_test_is_named() -> None:
    """A renamed test or module is a mistake of the page."""
    text = "[`test_gone`](../tests/docs/test_comparison.py) [`test_a`](../tests/docs/test_none.py)"
    assert missing(text) == [
        "tests/docs/test_comparison.py: test_gone",
        "tests/docs/test_none.py: test_a",
    ]
