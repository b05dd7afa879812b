"""Hints for misspelt names."""

from __future__ import annotations

import pytest

from heat_config_agent.diagnostics.words import among, meant
from heat_config_hooks.words import CERTAIN, closest


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("gruop", "group"),
        ("GROUP", "group"),
        ("conifg", "config"),
        ("x", ""),
        ("", ""),
        ("g" * 101, ""),
    ],
)
def test_close_name_is_the_hint(word: str, name: str) -> None:
    """Letters that are missing, exchanged or of another case do not matter; words that are far away have no hint."""
    assert closest(word, ["group", "config", "inputs"]) == name
    assert meant(word, ["group", "config", "inputs"]) == (
        f"did you mean {name}?" if name else ""
    )


def test_certain_names_are_closer() -> None:
    """A word that may be right as it is has to be closer than one that is certainly wrong."""
    assert closest("contents", ["contains"]) == "contains"
    assert not closest("contents", ["contains"], CERTAIN)


def test_all_names_are_shown_without_a_close_one() -> None:
    """The hint for an unknown name has the close one, or else all of them."""
    assert among("wb", ["web", "db"]) == "did you mean web?"
    assert among("x", ["web", "db"]) == "it has web, db"
    assert among("x", [], "there are") == "there are none"
