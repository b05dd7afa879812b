"""Texts of a language with YAML 1.2, unique keys and all mistakes together."""

from __future__ import annotations

import pytest

from heat_config_agent.diagnostics.diagnostics import Diagnostics
from heat_config_agent.diagnostics.mistakes import Invalid
from heat_config_agent.diagnostics.text import Language, Text
from heat_config_agent.masking.redaction import OPEN
from heat_config_agent.model.positions import Json
from heat_config_hooks.yaml_schema import YAML_1_2

OTHER = Language("Other", YAML_1_2, unique_keys=True, all_mistakes=True)


def read(text: str) -> Text:
    """Read a text in a language other than Heat's."""
    return Text("t.yaml", text, "text", OTHER)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        *(
            (word, word)
            for word in (
                "yes",
                "no",
                "on",
                "off",
                "y",
                "n",
                "=",
                "12:30",
                "2020-01-02",
                "1_000",
                "0b1",
            )
        ),
        *((word, True) for word in ("true", "True", "TRUE")),
        *((word, False) for word in ("false", "False", "FALSE")),
        *((word, None) for word in ("~", "null", "Null", "NULL", "")),
        ("nUll", "nUll"),
        *(("0o17", 15), ("0x1F", 31), ("012", 12), ("-7", -7), ("+7", 7), ("0", 0)),
        *(
            ("14.10", 14.1),
            (".5", 0.5),
            ("5.", 5.0),
            ("1e3", 1000.0),
            ("-1.5E-1", -0.15),
        ),
        *(
            ("'12'", "12"),
            ('"true"', "true"),
            ("!!str 12", "12"),
            ("!!timestamp 2020-01-02", "2020-01-02"),
        ),
        ("!!float 1", 1.0),
    ],
)
def test_scalars_are_those_of_the_core_schema(written: str, value: Json) -> None:
    """YAML 1.2, section 10.3."""
    found = read(f"a: {written}").value
    assert found == {"a": value}
    assert type(found["a"]) is type(value)


def test_the_written_form_is_kept() -> None:
    """A version may be written as a number."""
    text = read(
        "a: &a {version: 14.10, quoted: '1.0', list: [0x10, null]}\nb: {<<: *a, c: 1}"
    )
    assert text.value["a"]["version"] == 14.1
    assert text.written(("a", "version")) == "14.10"
    assert text.written(("b", "version")) == "14.10"
    assert text.written(("a", "quoted")) == "1.0"
    assert text.written(("a", "list", 0)) == "0x10"
    assert text.written(("a", "list", 1)) == "null"
    for path in [
        ("a",),
        ("a", "none"),
        ("a", "list", 2),
        ("a", "list", "x"),
        ("a", "version", "x"),
    ]:
        assert text.written(path) is None


def test_all_mistakes_are_found_together() -> None:
    """The rest of the text has its values."""
    text = read(
        "a: 1\nb: !secret x\na: 2\nc: {d: .nan, e: !!int x, e: 5, f: 6}\n<<: {g: 7}\n<<: {h: 8}\n"
    )
    report = Diagnostics(text)
    with pytest.raises(Invalid) as caught:
        report.finish(OPEN)
    assert [str(mistake) for mistake in caught.value.mistakes] == [
        "t.yaml:2:4: b: the tag !secret has no meaning in Other (leave it out)",
        "t.yaml:3:1: a: the key 'a' is there twice: first in line 1 (remove or rename one of them)",
        "t.yaml:4:8: c.d: .nan is not a number in JSON (quote it)",
        "t.yaml:4:17: c.e: the value is not what its type says (quote it)",
        "t.yaml:4:26: c.e: the key 'e' is there twice: first in line 4 (remove or rename one of them)",
        "t.yaml:6:1: <<: the key '<<' is there twice: first in line 5 (remove or rename one of them)",
    ]
    assert [mistake.code for mistake in caught.value.mistakes] == [
        *("yaml", "duplicate", "yaml", "yaml", "duplicate", "duplicate")
    ]
    assert text.value == {
        "g": 7,
        "h": 8,
        "a": 2,
        "b": None,
        "c": {"d": None, "e": 5, "f": 6},
    }


def test_a_text_that_cannot_be_read_is_refused() -> None:
    """Syntax, depth and size end the reading."""
    with pytest.raises(Invalid) as caught:
        read("a: [b")
    [mistake] = caught.value.mistakes
    assert mistake.code == "yaml"
    assert str(mistake).startswith("t.yaml:2:1: it is not YAML: ")
    with pytest.raises(Invalid) as caught:
        read("a: &a [*a]")
    [mistake] = caught.value.mistakes
    assert mistake.code == "depth"


def test_json_is_read_too() -> None:
    """JSON is read too, with tabs that YAML refuses."""
    text = read('{\n\t"a": 1e3,\n\t"b": true\n}')
    assert text.value == {"a": 1000.0, "b": True}
