from __future__ import annotations

import random

import pytest
import yaml

from heat_config_hooks.tools import ansible_values

RESOLVER = yaml.resolver.Resolver()


def _resolved(text: str) -> bool:
    """Return whether YAML takes a plain text for a value of another type."""
    tag = RESOLVER.resolve(yaml.ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]
    return str(tag) != "tag:yaml.org,2002:str"


def test_text_that_yaml_resolves_has_no_mark() -> None:
    """With the mark, such a text would become a number, a date or a truth value; without it, it stays text."""
    texts = [
        "",
        "~",
        "<<",
        "=",
        "yes",
        "NULL",
        "0x1F",
        "1e3",
        "-.INF",
        ".NaN",
        "190:20:30.15",
        "2001-12-14 21:59:43.1 -5",
    ]
    generator = random.Random(1)  # noqa: S311
    letters = "0123456789+-.:_eExXbTZ ~=<ynotsuflIN"
    texts += [
        "".join(generator.choices(letters, k=generator.randint(1, 6)))
        for _ in range(50_000)
    ]
    for text in filter(_resolved, texts):
        written = ansible_values.as_yaml({"v": text})
        assert b"!unsafe" not in written.partition(b" : ")[2], text
        assert yaml.safe_load(written.replace(b"!unsafe", b"")) == {"v": text}


@pytest.mark.parametrize(
    "text",
    [
        "{{ x }}",
        "{% x %}",
        "{# x #}",
        "a",
        "1 {{ 2 }}",
        "{",
        "}}",
        "yes{{",
        "-",
        "x: y",
    ],
)
def test_text_that_yaml_does_not_resolve_has_its_mark(text: str) -> None:
    """The mark is on the key, the value and the item."""
    assert ansible_values.as_yaml({text: [text]}).count(b"!unsafe") == 2


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        0,
        -7,
        10**30,
        1.5,
        1e22,
        1e-7,
        float("inf"),
        [],
        {},
        [[{}]],
        {"a": {"b": [1, "c"]}},
        "\x00\x7f\x85\u2028\ufeff\uffff😀\r\n\t",
    ],
)
def test_values_keep_their_types(value: object) -> None:
    """YAML reads each value as it was, also long keys and characters that it does not allow as they are."""
    written = ansible_values.as_yaml({"v": value, "k" * 2000: 1})
    assert yaml.safe_load(written.replace(b"!unsafe", b"")) == {
        "v": value,
        "k" * 2000: 1,
    }


def test_half_of_a_surrogate_pair_is_replaced() -> None:
    """YAML cannot have it."""
    assert yaml.safe_load(
        ansible_values.as_yaml({"v": "a\ud800"}).replace(b"!unsafe", b"")
    ) == {"v": "a\ufffd"}


@pytest.mark.parametrize(
    ("value", "is_exposed"),
    [
        ({"{{ x }}": 1}, True),
        ({"{{ x }}": "text"}, False),
        ({"a": {"{{ x }}": 1}, "b": "text"}, True),
        ([{"{{ x }}": [None]}], True),
        ({"{{ x }}": [["text"]]}, False),
        ({"x": 1}, False),
        ("{{ x }}", False),
        (1, False),
    ],
)
def test_key_without_a_text_in_its_map_is_exposed(
    value: object, is_exposed: bool
) -> None:
    """Before ansible-core 2.19, only the texts among the values of a map show that it is marked."""
    assert ansible_values.exposed(value) is is_exposed


def test_version_of_ansible_is_read() -> None:
    """The version of a text without one is lower than any."""
    assert ansible_values.version("ansible-playbook [core 2.14.18]\n") == (2, 14)
    assert (
        ansible_values.version("ansible-playbook [core 2.19.14]\n")
        >= ansible_values.MARKED
    )
    assert ansible_values.version("ansible-playbook 2.9.6\n") < ansible_values.MARKED
