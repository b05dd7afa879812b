"""The levels of the option `isolate`."""

from __future__ import annotations

import pytest

from heat_config_hooks import isolation
from heat_config_hooks.errors import HookError


def test_levels_are_read_from_yaml_and_from_text() -> None:
    """Parameters of templates turn truth values into text."""
    given = {"network": True, "home": "read-only", "tmp": "False", "system": "true"}
    expected = {"network": "true", "home": "read-only", "tmp": "", "system": "true"}
    assert isolation.read(given, "options.isolate") == expected
    assert isolation.described(expected) == "network, home=read-only, system"
    assert isolation.read({}, "options.isolate") == {}


@pytest.mark.parametrize(
    ("given", "path"),
    [
        (None, "o"),
        ("network", "o"),
        ({"net": True}, "o.net"),
        ({"network": 1}, "o.network"),
        ({"network": None}, "o.network"),
        ({"network": "strict"}, "o.network"),
        ({"system": {"level": "full"}}, "o.system"),
        ({1: True}, "o.1"),
    ],
)
def test_anything_else_is_a_mistake(given: object, path: str) -> None:
    """An invalid value never means less isolation."""
    with pytest.raises(HookError) as found:
        isolation.read(given, "o")
    assert found.value.path == path


def test_of_several_words_the_strongest_counts() -> None:
    """In any order, as in a setting that is continued on another line."""
    assert isolation.of_words(
        ["system=strict", "system", "home", "home=read-only"]
    ) == {
        "system": "strict",
        "home": "true",
    }
    assert all(
        isolation.described(isolation.of_words([word])) == word
        for word in isolation.WORDS
    )


@pytest.mark.parametrize(
    ("has", "least", "lacks"),
    [
        ({}, {}, {}),
        ({"network": "true"}, {}, {}),
        ({}, {"network": "true"}, {"network": "true"}),
        ({"system": "full"}, {"system": "true"}, {}),
        ({"system": "full"}, {"system": "strict"}, {"system": "strict"}),
        (
            {"home": "read-only", "tmp": "true"},
            {"home": "true", "tmp": "true"},
            {"home": "true"},
        ),
    ],
)
def test_a_stronger_level_covers_a_weaker_one(
    has: dict[str, str], least: dict[str, str], lacks: dict[str, str]
) -> None:
    """Part by part."""
    assert isolation.missing(has, least) == lacks
    assert isolation.covers(has, least) == (not lacks)
