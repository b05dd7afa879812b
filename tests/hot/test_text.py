"""Text → values and places."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import strategies as st

from fuzz.examples import tries
from heat_config_agent.diagnostics.mistakes import Invalid
from heat_config_agent.diagnostics.text import Text
from heat_config_agent.model.positions import Json, Path
from heat_config_stack.hot.source import heat_text

names = st.text(
    st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=6
)
printable = st.characters(codec="utf-8", exclude_categories=["Cc", "Cf", "Zl", "Zp"])
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(10**9), 10**9)
    | st.text(printable, max_size=8)
)
documents = st.dictionaries(
    names,
    st.recursive(
        scalars,
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3)
        ),
        max_leaves=10,
    ),
    max_size=4,
)


def read(text: str) -> Text:
    """Read a text as a template's is."""
    return heat_text("t.yaml", text, "template_format")


def paths(value: Json, path: Path = ()) -> list[Path]:
    """Return the path of everything in a value."""
    found = [path]
    for key, each in (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    ):
        found += paths(each, (*path, key))
    return found


def refused(text: str) -> str:
    """Return what is said of a text that cannot be read."""
    with pytest.raises(Invalid) as caught:
        read(text)
    [mistake] = caught.value.mistakes
    assert mistake.kind == "template_format"
    return str(mistake)


# Values.


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("yes", True),
        ("on", True),
        ("0755", 493),
        ("12:30", 750),
        ("1e3", "1e3"),
        ("1.0e+3", 1000.0),
        ("2015-10-15", "2015-10-15"),
        ("2015-10-15 10:00:00", "2015-10-15 10:00:00"),
        ("~", None),
        ("", None),
        ("'1'", "1"),
        (
            "{1: a, true: b, ~: c, 1.5: d}",
            {"1": "a", "true": "b", "null": "c", "1.5": "d"},
        ),
    ],
)
def test_values_are_those_of_yaml_1_1_as_json(written: str, value: Json) -> None:
    """Dates stay text, and keys become text."""
    assert read(f"a: {written}").value == {"a": value}


def test_merged_maps_yield_to_keys_beside_them() -> None:
    """Keys of the map override merged ones, wherever the merge is, and the first merge comes first."""
    text = "x: &x {a: 1, b: 1}\ny: &y {b: 2, c: 2}\nz: {c: 3, <<: [*x, *y]}\n"
    assert read(text).value["z"] == {"a": 1, "b": 1, "c": 3}


@pytest.mark.slow
@tries(40, documents)
def test_yaml_and_json_come_to_the_same(value: Any) -> None:
    """A value is read as the same from YAML and JSON."""
    assert read(json.dumps(value)).value == value
    assert read(yaml.safe_dump(value, allow_unicode=True)).value == value


def test_json_is_read_as_json() -> None:
    """JSON numbers that YAML reads as text are numbers, and tabs may precede them."""
    found = read('{\n\t"a": 1e3\n}')
    assert found.value == {"a": 1000.0}
    assert found.place(("a",)) is None or str(found.place(("a",))).startswith(
        "t.yaml:2"
    )


# Places.


@pytest.mark.slow
@tries(40, documents)
def test_every_part_has_its_place(value: Any) -> None:
    """The position of an entry is its key, and that of an item is the item."""
    text = yaml.safe_dump(value, allow_unicode=True, width=1000)
    found, lines = read(text), text.split("\n")
    for path in paths(value)[1:]:
        place = found.place(path)
        assert place is not None
        rest = lines[place.line - 1][place.column - 1 :]
        if isinstance(path[-1], str):
            assert (
                yaml.safe_load(f"{{{rest.partition(': ')[0].rstrip(':')}: 0}}")
                is not None
            )
            assert rest.lstrip("'\"? ").startswith(path[-1])


def test_places_are_lines_and_columns_from_one() -> None:
    """A missing part has the position of the part that would contain it."""
    text = read("a:\n  b: [1, {c: 2}]\n")
    places = {
        (): "1:1",
        ("a",): "1:1",
        ("a", "b"): "2:3",
        ("a", "b", 1): "2:10",
        ("a", "b", 1, "c"): "2:11",
    }
    assert {
        path: str(text.place(path)).removeprefix("t.yaml:") for path in places
    } == places
    assert text.place(("a", "b", 9, "x")) == text.place(("a", "b"))


def test_mistake_in_a_merged_value_is_shown_where_it_is_written() -> None:
    """A mistake in it is shown there."""
    assert str(read("x: &x\n  a: 1\ny: {<<: *x}\n").place(("y", "a"))) == "t.yaml:2:3"


# What is odd, and what is refused.


def test_a_key_that_is_there_twice_is_a_warning() -> None:
    """The last one counts, as with Heat."""
    found = read("a:\n  b: 1\n  b: 2\n")
    assert found.value == {"a": {"b": 2}}
    [warning] = found.warnings
    assert str(warning) == (
        "t.yaml:3:3: a.b: the key 'b' is there twice: the one in line 2 is not used (remove or rename one of them)"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "a: %x",
            "t.yaml:1:4: it is not YAML: while scanning for the next token, found character that cannot start any",
        ),
        ("a:\n\t- b", "t.yaml:2:1: it is not YAML"),
        ("a: [1, 2", "t.yaml:2:1: it is not YAML"),
        (
            "a: !include x",
            "t.yaml:1:4: a: the tag !include has no meaning in Heat (leave it out)",
        ),
        ("a: !!binary YQ==", "t.yaml:1:4: a: the tag !!binary has no meaning in Heat"),
        ("a: !!set {b}", "t.yaml:1:4: a: the tag !!set has no meaning in Heat"),
        ("a: =", "t.yaml:1:4: a: the value is not what its type says (quote it)"),
        ("a: .nan", "t.yaml:1:4: a: .nan is not a number in JSON (quote it)"),
        ("a: !!int x", "t.yaml:1:4: a: the value is not what its type says"),
        ("? [a]\n: b", "t.yaml:1:3: a key must be text"),
        ("a: {<<: 1}", "t.yaml:1:9: a: only maps can be merged by <<"),
        ("a: &a [*a]", "t.yaml:1:4: a[0][0]: it is nested too deeply, or in itself"),
        ("a: *b", "t.yaml:1:4: it is not YAML: found undefined alias"),
        (
            "a: 1\n---\nb: 2",
            "t.yaml:2:1: it is not YAML: expected a single document in the stream",
        ),
        ("[" * 200 + "]" * 200, "it is nested too deeply"),
        ("[" * 100_000, "it is nested too deeply"),
        ("a: \x01", "it is not YAML"),
    ],
)
def test_unreadable_text_is_reported_with_its_position(text: str, said: str) -> None:
    """Unreadable text is one sentence with a position, before memory or stack run out."""
    assert said in refused(text)


def test_aliases_do_not_multiply_without_end() -> None:
    """A few lines can stand for any number of values."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [
        f"a{number}: &a{number} [{', '.join([f'*a{number - 1}'] * 10)}]"
        for number in range(1, 9)
    ]
    assert "with all its aliases it has over 1,000,000 values" in refused(
        "\n".join(lines)
    )
