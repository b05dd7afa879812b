"""Rules of the specification, each with what keeps it and what breaks it.

A line of a file in `rules/` that has mistakes ends with a comment that names their codes: `# ! value`. `~` stands
before warnings and `?` before open points. These may be there without a comment; mistakes may not.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from heat_config_agent.model.mistake import Mistake
from heat_config_stack.tosca.checks.checker import Checker

FILES = sorted((Path(__file__).parent / "rules").glob("*.yaml"))


def wanted(text: str, sign: str) -> Counter[tuple[str, int]]:
    """Return the codes with their lines that comments name after a sign."""
    found: Counter[tuple[str, int]] = Counter()
    for number, line in enumerate(text.splitlines(), 1):
        match = re.search(rf"#(?:.*\s)?{re.escape(sign)}((?: [a-z-]+)+)", line)
        if match:
            found.update((code, number) for code in match.group(1).split())
    return found


def codes(mistakes: Iterable[Mistake]) -> Counter[tuple[str, int]]:
    """Return the codes with their lines."""
    return Counter(
        (mistake.code, mistake.place.line if mistake.place else 0)
        for mistake in mistakes
    )


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_has_exactly_the_mistakes_that_it_names(path: Path) -> None:
    """All are found in one pass, at their lines, and no others."""
    found = Checker().check(str(path))
    text = path.read_text()
    assert codes(found.mistakes) == wanted(text, "!"), "\n".join(
        map(str, found.mistakes)
    )
    assert codes(found.warnings) >= wanted(text, "~")
    assert codes(found.open) >= wanted(text, "?")


def test_each_mistake_says_where_it_is() -> None:
    """Each has a sentence, a path and a place, and they are in the order of the text."""
    for path in FILES:
        found = Checker().check(str(path))
        places = [
            (mistake.place.line, mistake.place.column)
            for mistake in found.mistakes
            if mistake.place
        ]
        assert places == sorted(places)
        assert len(places) == len(found.mistakes)
        for mistake in (*found.mistakes, *found.warnings, *found.open):
            assert mistake.problem
            assert mistake.place
            assert mistake.place.file == str(path)
            assert mistake.code
            assert mistake.path or mistake.place.line


def test_a_comment_is_read() -> None:
    """The reading of comments itself."""
    assert wanted("a: b # ! value required ? open-input\n", "!") == Counter(
        {("value", 1): 1, ("required", 1): 1}
    )
    assert wanted("a: b # ! value required ? open-input\n", "?") == Counter(
        {("open-input", 1): 1}
    )
