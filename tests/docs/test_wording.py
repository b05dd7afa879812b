"""The linter of names and docstrings finds the idioms that STYLE.md refuses, and only those."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs import wording


@pytest.mark.slow  # `make lint` reads all modules, too
@pytest.mark.takes(60)
def test_our_modules_have_no_new_findings() -> None:
    """Every finding is in the list of what is still to be rewritten; `make lint` says so too."""
    assert [
        str(finding)
        for finding in wording.unlisted(
            wording.all_findings(wording.modules()), wording.left()
        )
    ] == []


def test_list_is_sorted_by_path() -> None:
    """The list has one `path:name` on a line, in order."""
    entries = wording.left()
    assert entries == sorted(entries)
    assert all(entry.count(":") == 1 for entry in entries)


LINES = "\n".join("    step()" for _ in range(wording.SCOPE))
BODY = LINES.replace("    ", "        ")
LOOP = "    for each in steps:\n        use(each)\n"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("f", '"""Module."""\ndef f() -> None:\n    """What it does."""'),
        ("f", '"""Module."""\ndef f() -> None:\n    """Whether it does."""'),
        ("WIDTH", 'WIDTH = 1\n"""Of a line: its width."""'),
        ("module", '"""Of the steps: their names."""'),
        ("f", 'def f() -> None:\n    """Refuse a text that is no number."""'),
        ("comment", "# A text that is no number is refused.\n"),
        ("message", 'raise ValueError(f"{x} is no number")'),
        ("test_what_fails", "def test_what_fails() -> None: ..."),
        ("test_that_it_runs", "def test_that_it_runs() -> None: ..."),
        ("test_those_that_run", "def test_those_that_run() -> None: ..."),
        ("test_one_that_runs", "def test_one_that_runs() -> None: ..."),
        ("test_a_text_is_no_number", "def test_a_text_is_no_number() -> None: ..."),
        ("f.found", f"def f() -> None:\n    found = 1\n{LINES}\n    use(found)"),
        (
            "f.each",
            f"def f() -> None:\n    for each in steps:\n{BODY}\n        use(each)",
        ),
        ("f.known", f"def f(known: int) -> None:\n{LINES}\n    use(known)"),
    ],
)
def test_idiom_is_found(name: str, text: str) -> None:
    """Each idiom is found once, with its name."""
    assert [finding.name for finding in wording.findings("agent/a.py", text)] == [name]


@pytest.mark.parametrize(
    "text",
    [
        '"""Offer whatever there is."""',
        'def f() -> None:\n    """Return whether there is no number."""',
        'def f() -> None:\n    """Return whether it is no longer there."""',
        "def test_there_is_no_number() -> None: ...",
        "def test_onefold() -> None: ...",
        f"def f() -> None:\n    use([each for each in steps])\n{LINES}\n    use([each for each in steps])",
        f"def f() -> None:\n{LOOP}{LINES}\n{LOOP}",
        f"def f() -> None:\n    use(found)\n{LINES}\n    use(found)",
    ],
)
def test_plain_words_pass(text: str) -> None:
    """Words that only look like an idiom, and pronouns in short scopes, are left alone."""
    assert list(wording.findings("agent/a.py", text)) == []


def test_messages_in_tests_are_those_of_the_product() -> None:
    """A test quotes the product word for word."""
    assert (
        list(wording.findings("tests/test_a.py", 'assert shown == "x is no number"'))
        == []
    )


def test_listed_name_is_left_alone_where_it_moves_but_not_twice() -> None:
    """A list entry allows one finding of its name, in whatever file the name is now."""
    text = "def test_what_fails() -> None: ..."
    (first,) = wording.findings("tests/test_a.py", text)
    (second,) = wording.findings("tests/test_b.py", text)
    assert wording.unlisted([first, second], ["tests/test_c.py:test_what_fails"]) == [
        second
    ]


def test_renewed_list_has_no_rewritten_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--renew` removes names that no module has any more, and adds none."""
    module = tmp_path / "test_a.py"
    module.write_text(
        "def test_what_fails() -> None: ...\ndef test_what_runs() -> None: ...\n"
    )
    listed = tmp_path / "left.txt"
    listed.write_text("test_a.py:test_what_fails\ntest_a.py:test_what_was\n")
    monkeypatch.setattr(wording, "LEFT", listed)
    monkeypatch.setattr(wording, "ROOT", tmp_path)
    monkeypatch.setattr(wording, "modules", lambda: [module])
    wording.renew()
    assert listed.read_text() == "test_a.py:test_what_fails\n"
