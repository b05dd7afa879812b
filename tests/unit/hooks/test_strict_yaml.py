from __future__ import annotations

import re

import pytest

from heat_config_hooks import strict_yaml, yaml_tree


def merges(levels: int, last: int) -> str:
    """Return maps of which each merges the one before twice, and one that merges the last one so many times."""
    lines = ["a0: &a0 {" + ", ".join(f"k{number}: 1" for number in range(1000)) + "}"]
    lines += [
        f"a{level}: &a{level} {{<<: [*a{level - 1}, *a{level - 1}]}}"
        for level in range(1, levels + 1)
    ]
    return "\n".join([*lines, f"x: {{<<: [{', '.join([f'*a{levels}'] * last)}]}}"])


def test_merge_keys_do_as_yaml_says() -> None:
    """The map's own keys come first, then those of the first merge."""
    text = "a: &a {x: 1, y: 1}\nb: &b {<<: *a, y: 2}\nc: {<<: [*b, *a], z: 3}"
    assert strict_yaml.loads(text) == {
        "a": {"x": 1, "y": 1},
        "b": {"x": 1, "y": 2},
        "c": {"x": 1, "y": 2, "z": 3},
    }


@pytest.mark.parametrize("last", [1, 50])
def test_maps_that_are_merged_again_and_again_are_read_once(last: int) -> None:
    """PyYAML copies their entries each time: half a million for nine levels."""
    value = strict_yaml.loads(merges(9, last))
    assert isinstance(value, dict)
    assert value["x"] == value["a0"]


def test_merge_keys_are_counted_before_they_are_copied() -> None:
    """Ten kilobytes of them can stand for millions of entries."""
    with pytest.raises(
        ValueError, match="with all its aliases it has over 1,000,000 values"
    ):
        strict_yaml.loads(merges(9, 5000))


def test_a_map_that_merges_itself_is_refused() -> None:
    """A map that merges itself is refused, because it has no end."""
    with pytest.raises(ValueError, match="nested too deeply, or in itself"):
        strict_yaml.loads("a: &a {<<: *a}")


def test_of_several_merge_keys_the_last_wins() -> None:
    """PyYAML, and therefore Heat, merges in this order."""
    assert strict_yaml.loads("a: &a {x: 1}\nb: &b {x: 2}\nc: {<<: *a, <<: *b}")[
        "c"
    ] == {"x": 2}  # type: ignore[index]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "a: [",
            "line 2, column 1: while parsing a flow node, did not find expected node content",
        ),
        (
            "a: !secret s3cr3t",
            "line 1, column 4: the tag !secret has no counterpart in JSON",
        ),
        (
            "a: !!binary aGk=",
            "line 1, column 4: the tag !!binary has no counterpart in JSON",
        ),
        ("a: .inf", "line 1, column 4: .inf is not a number in JSON"),
        ("- a: !!int x", "line 1, column 6: the value is not what its type says"),
        (
            "a: " + "9" * 1001,
            "line 1, column 4: a number of over 1000 digits is not a JSON value",
        ),
        (
            "a: " + ":".join(["59"] * 100_000),
            "line 1, column 4: a number of over 1000 digits is not a JSON value",
        ),
        ("? {a: b}\n: c", "line 1, column 3: a key must be text"),
        ("[" * 200 + "]" * 200, "it is nested too deeply"),
        ("a: \ud800", "not Unicode text"),
    ],
)
def test_a_fault_has_its_position(text: str, problem: str) -> None:
    """Every fault is one sentence with line and column."""
    with pytest.raises(ValueError, match=re.escape(problem)):
        strict_yaml.loads(text)


def test_all_scalars_can_be_text() -> None:
    """As they are written, and with no merge keys."""
    text = "a: [010, yes, ~, 2020-01-01]\n<<: {b: 1.50}\n1: !!int 2"
    assert strict_yaml.loads(text, texts=True) == {
        "a": ["010", "yes", "~", "2020-01-01"],
        "<<": {"b": "1.50"},
        "1": "2",
    }


def test_dates_are_text_and_keys_become_text() -> None:
    """JSON has no others."""
    assert strict_yaml.loads("{2020-01-01: 2020-01-02, 1: a, ~: b, yes: c, =: d}") == {
        "2020-01-01": "2020-01-02",
        "1": "a",
        "null": "b",
        "true": "c",
        "=": "d",
    }


def test_ordered_maps_and_pairs_are_lists() -> None:
    """Each entry is a list of its key and its value."""
    assert strict_yaml.loads("[!!omap [a: 1, b: {c: 2}], !!pairs [a: 1, a: 2]]") == [
        [["a", 1], ["b", {"c": 2}]],
        [["a", 1], ["a", 2]],
    ]


@pytest.mark.parametrize(
    "line",
    [
        "[",
        "[ !a]",
        "[ !<]>",
        "['a]',",
        '["]", ',
        "[ # ]",
        "[{",
        "{a: ",
        "[ a, [b]",
        "- [",
        "? [",
        "[ &a",
    ],
)
def test_no_text_is_nested_more_deeply_than_is_seen(line: str) -> None:
    """Libyaml would need as much stack as a text likes: it is refused before."""
    with pytest.raises(
        ValueError, match=r"nested too deeply|while|mapping values|duplicate anchor"
    ):
        strict_yaml.loads("\n".join([line] * 5000))


@pytest.mark.slow
def test_many_short_lists_do_not_count_as_nesting() -> None:
    """Many short lists and maps are not nested deeply, and are read in one pass."""
    text = "\n".join(f"k{number}: {{a: [1, {{b: 2}}]}}" for number in range(5000))
    value = strict_yaml.loads(text)
    assert isinstance(value, dict)
    assert value["k4999"] == {"a": [1, {"b": 2}]}
    assert yaml_tree._depth(text) < 100  # noqa: SLF001


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("a:\n\tb: 1\n", "indent with spaces: YAML allows no tabs there"),
        ("a: @b\n", "quote text that begins with % @ ` or a bracket"),
    ],
)
def test_a_character_that_begins_no_value_is_explained(text: str, hint: str) -> None:
    """The two usual causes have the same message in YAML; the hint tells them apart."""
    with pytest.raises(ValueError, match=r"line \d, column \d") as caught:
        strict_yaml.loads(text)
    assert str(caught.value).endswith(f"({hint})")
