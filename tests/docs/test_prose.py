"""The linter of the documentation's source finds what it is to find, and nothing in our pages."""

from __future__ import annotations

import pytest

from docs import prose


def test_our_pages_have_one_sentence_per_line_and_120_columns() -> None:
    """`make lint` says so too."""
    found = [
        f"{path.relative_to(prose.ROOT)}:{number}: {problem}"
        for path in prose.pages()
        for number, problem in prose.findings(path.read_text(encoding="utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize(
    "line",
    [
        "One sentence. And another.",
        "- An item. `code` begins the second sentence.",
        "1. An item! *Emphasis* begins the second.",
        'He asked "why?" Nobody knew.',
        "It ends in brackets (as here). Then more.",
        "**Bold ends.** Then more.",
        f"A line that is too long {'and ' * 30}",
        f"| {'a' * 20} |\n\nA paragraph after a table {'and ' * 30}",
    ],
)
def test_a_line_that_breaks_a_rule_is_found(line: str) -> None:
    """A bad line is found in a paragraph and in an item of a list."""
    assert len(list(prose.findings(line))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "One sentence, e.g. This one.",
        "A list: `a.b`, `c. D`, and others.",
        "Debian 12, Ubuntu 24.04 or similar.",
        "It says `Done. Next` and ends.",
        f"| a table. With sentences. | {'and ' * 40} |",
        f"```console\n$ run. And run {'x' * 120}\n```",
        f"See [the page](https://example.org/{'x' * 120}).",
        "# A heading. With two sentences",
        f"<!-- a comment. Which is long. {'x' * 120} -->",
        "1. First.\n2. Second.",
    ],
)
def test_unbreakable_lines_may_be_longer(text: str) -> None:
    """Tables, code, comments, headings and the targets of links."""
    assert list(prose.findings(text)) == []


def test_text_is_split_into_its_sentences() -> None:
    """Text is split into sentences, for the programs that write pages."""
    assert prose.sentences("It ran. `make bench` did, e.g. Here. Was it fast? Yes") == [
        "It ran.",
        "`make bench` did, e.g. Here.",
        "Was it fast?",
        "Yes",
    ]
