"""The meaning of scalars in YAML documents: the schemas of YAML's versions."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping
from typing import Any

import yaml

CORE = "tag:yaml.org,2002:"
"""The prefix of YAML's own tags."""

_STR, _SEQ, _MAP = CORE + "str", CORE + "seq", CORE + "map"
_BASE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Schema:
    """The meaning of scalars in a document: a version of YAML."""

    def __init__(
        self,
        implicit: Mapping[str, tuple[str, re.Pattern[str]]],
        scalars: Mapping[str, Callable[[str], object]],
    ) -> None:
        """Take what a scalar without a tag or quotes is, and what makes a value of its text, both by the tag's name.

        `implicit`: the characters with which such a scalar may begin (an empty text has none), and its form.
        """
        self.values = {CORE + name: make for name, make in scalars.items()}
        first: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
        for name, (characters, form) in implicit.items():
            for character in characters or [""]:
                first.setdefault(character, []).append((CORE + name, form))
        if "null" in implicit:
            first.setdefault("", []).append((CORE + "null", implicit["null"][1]))
        self.loader = _loader(first)

    def with_values(self, scalars: Mapping[str, Callable[[str], object]]) -> Schema:
        """Return this schema with other constructors for the named tags; the rules that resolve a tag stay."""
        other = copy.copy(self)
        other.values = {
            **self.values,
            **{CORE + name: make for name, make in scalars.items()},
        }
        return other


_REMEMBERED = 5000
"""Texts of which a loader remembers the tag: keys of maps and many values recur."""

_SHORT = 40
"""Characters of such a text at most."""


def _loader(first: Mapping[str, list[tuple[str, re.Pattern[str]]]]) -> Any:
    scalar, sequence, text = yaml.ScalarNode, yaml.SequenceNode, CORE + "str"
    of_sequence, of_map = CORE + "seq", CORE + "map"
    texts: dict[str, str] = {}

    def tag_of(value: str) -> str:
        resolved = next(
            (tag for tag, form in first.get(value[:1], ()) if form.match(value)), text
        )
        if len(value) <= _SHORT:
            if len(texts) >= _REMEMBERED:
                texts.clear()
            texts[value] = resolved
        return resolved

    class Loader(_BASE):  # type: ignore[misc]  # it depends on how PyYAML was built
        """Composes nodes, and gives each scalar its tag."""

        def resolve(self, kind: Any, value: Any, implicit: Any) -> str:
            if kind is scalar:
                return (texts.get(value) or tag_of(value)) if implicit[0] else text
            return of_sequence if kind is sequence else of_map

    return Loader


def _as_before(name: str) -> Callable[[str], object]:
    """Return what makes a value of a text as PyYAML does, which follows YAML 1.1."""
    make = yaml.constructor.SafeConstructor.yaml_constructors[CORE + name]
    constructor = yaml.constructor.SafeConstructor()
    return lambda text: make(constructor, yaml.ScalarNode(CORE + name, text))


def _refuse(_text: str) -> object:
    raise ValueError


_RESOLVERS: Mapping[str, Any] = yaml.resolver.Resolver.yaml_implicit_resolvers


def _of_yaml_1_1(name: str) -> tuple[str, re.Pattern[str]]:
    """Return the characters with which PyYAML expects a scalar of that tag, and its form."""
    forms = {
        (first, form)
        for first, pairs in _RESOLVERS.items()
        for tag, form in pairs
        if first and tag == CORE + name
    }
    return "".join(first for first, _ in forms), next(form for _, form in forms)


YAML_1_1 = Schema(
    {
        name: _of_yaml_1_1(name)
        for name in ("bool", "float", "int", "merge", "null", "value")
    },
    {
        "str": str,
        "timestamp": str,
        "null": lambda _: None,
        "value": _refuse,
        **{name: _as_before(name) for name in ("bool", "int", "float")},
    },
)
"""The scalars as Heat reads them: `yes` is true, `0755` is 493 and `12:30` is 750."""


def _boolean(text: str) -> bool:
    return {"true": True, "false": False}[text.lower()]


def _integer(text: str) -> int:
    return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))


def _float(text: str) -> float:
    return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))


YAML_1_2 = Schema(
    {
        "null": ("~nN", re.compile(r"(?:~|null|Null|NULL)?\Z")),
        "bool": ("tTfF", re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z")),
        "int": (
            "-+0123456789",
            re.compile(r"(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)\Z"),
        ),
        "float": (
            "-+.0123456789",
            re.compile(
                r"(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
                r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))\Z"
            ),
        ),
        "merge": ("<", re.compile(r"<<\Z")),
    },
    {
        "str": str,
        "timestamp": str,
        "null": lambda _: None,
        "bool": _boolean,
        "int": _integer,
        "float": _float,
    },
)
"""The core schema of YAML 1.2 (section 10.3), with the merge keys of 1.1."""

TEXTS = Schema(
    {}, dict.fromkeys(("str", "timestamp", "null", "bool", "int", "float"), str)
)
"""Every scalar is text, and there are no merge keys."""
