"""Whatever stands in a template or an environment: it is a definition, or each mistake is a sentence with its place."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest
import yaml
from hypothesis import strategies as st

from fuzz.examples import TESTS, damaged, odd, places, tries
from heat_config_agent.hot import loading
from heat_config_agent.hot.source import File, Source
from heat_config_agent.stack.definition import Definition, Identity, Mistake, Unresolved, requires, resolve
from hot.language import Nothing

pytestmark = pytest.mark.torture

IDENTITY = Identity("s1", "i", "p")
LONGEST = 20_000
"""Characters of a sentence at most: a value that somebody has written may be in it."""

LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
TEXTS = [
    yaml.load(path.read_text(), Loader=LOADER)  # noqa: S506  # one of the safe ones
    for path in sorted((TESTS / "hot" / "cases").glob("*.yaml"))
]
"""The cases that the other tests have."""

FUNCTIONS: st.SearchStrategy[Any] = st.sampled_from(
    [
        *({"get_param": "p"}, {"get_attr": ["r", "x"]}, {"get_resource": "r"}, {"get_file": "f"}, {"if": ["c", 1, 2]}),
        *(
            {"get_param": ["p", {"get_attr": ["r", "a"]}]},
            {"list_join": [",", ["a"]]},
            {"equals": [1, 1]},
            {"not": "c"},
        ),
        *({"repeat": {"template": "%a%", "for_each": {"%a%": [1]}}}, {"str_replace": {"template": 1, "params": {}}}),
        *({"yaql": {"expression": "$.data", "data": 1}}, {"resource_facade": "metadata"}, {"digest": ["md5", "a"]}),
    ]
)


def parsed(text: str) -> Any:
    """Return the value of a text; None where it has none."""
    try:
        return yaml.load(text, Loader=LOADER)  # noqa: S506
    except (yaml.YAMLError, ValueError):
        return None


@st.composite
def changed(draw: st.DrawFn, text: str) -> str:
    """Return a template or an environment with a few things changed in it."""
    value = deepcopy(parsed(text))
    for _ in range(draw(st.integers(1, 3))):
        here = places(value)
        if not here:
            break
        holder, key = here[draw(st.integers(0, len(here) - 1))]
        match draw(st.sampled_from(["function", "odd", "remove", "rename"])):
            case "remove":
                del holder[key]
            case "rename" if isinstance(holder, dict):
                holder[draw(st.sampled_from(["type", "if", "get_attr", "condition", "params", "x"]))] = holder.pop(key)
            case "odd":
                holder[key] = deepcopy(draw(odd))
            case _:
                holder[key] = deepcopy(draw(FUNCTIONS))
    return json.dumps(value, default=str)


@st.composite
def sources(draw: st.DrawFn) -> Source:
    """Return a case of which the template, and perhaps its environment, has been changed."""
    case = draw(st.sampled_from(TEXTS))
    said = case.get("environment") or []
    texts = [said] if isinstance(said, str) else said
    environments = [draw(changed(each)) if draw(st.booleans()) else each for each in texts]
    return Source(
        File("t.yaml", draw(changed(case["template"]))),
        tuple(File(f"e{index}.yaml", each) for index, each in enumerate(environments)),
        case.get("files") or {},
        case.get("parameters") or {},
        draw(st.booleans()),
    )


def check_sentences(mistakes: list[Mistake]) -> None:
    """Hold it that each says something, and not too much."""
    for each in mistakes:
        assert each.problem
        assert len(str(each)) < LONGEST
        assert each.place is None or each.place.line > 0


def check(made: Definition | None, mistakes: list[Mistake], warnings: list[Mistake]) -> None:
    """Hold a definition to what the stack relies on."""
    check_sentences([*mistakes, *warnings])
    assert made is not None or mistakes
    if made is None or mistakes:
        return
    json.dumps(made.source)
    for output in made.outputs.values():
        if next(requires(output.value), None) is None:
            try:
                json.dumps(resolve(output.value, Nothing()))
            except Unresolved as error:
                assert str(error)  # noqa: PT017  # some can be had
    for resource in made.resources.values():
        needed = {each.resource for each in requires([resource.properties, resource.metadata])}
        assert needed <= set(made.resources)
        assert isinstance(resource.type, str)
        assert resource.deletion_policy in {"Delete", "Retain", "Snapshot"}


@tries(150, sources())
def test_any_template_is_looked_at(source: Source) -> None:
    """As one that is to be made, and as one of which not all is known; its nested templates, too."""
    check(*loading.examine(source, IDENTITY))
    made, mistakes, warnings = loading.examine(source, IDENTITY, known=False)
    check(made, mistakes, warnings)
    if made is not None:
        check_sentences([each for found in loading.check_children(made, 2) for each in found])


@tries(100, damaged(st.sampled_from([each["template"].encode() for each in TEXTS])))
def test_damaged_text_is_refused_or_read(content: bytes) -> None:
    """Whatever bytes it is made of, so long as they are text."""
    source = Source(File("t.yaml", content.decode(errors="replace")))
    check(*loading.examine(source, IDENTITY))
