"""The examples of fuzz tests: the same few at every run, and others for as long as asked in the long form."""

from __future__ import annotations

import functools
import json
import os
import random
import time
from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from support.shares import FOR

TESTS = Path(__file__).parents[1]

SHARE = 0.5
"""The share that the properties of one file have of the long form's time."""

SEED = int(os.environ.get("TORTURE_SEED") or 0) or random.SystemRandom().randrange(
    1, 10**6
)
"""The seed of the long form: with it, the same examples are made again."""

ROUND = 50
"""Examples of one round of the long form."""

tried: Counter[str] = Counter()
"""The examples that each test has tried."""


quiet = pytest.mark.filterwarnings("ignore:Generating overly large repr")
"""Large documents are what it is about."""


def tries(
    number: int, *given_in_order: st.SearchStrategy[Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Have a test tried with so many examples; in the long form with others, round after round."""

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def counted(**arguments: Any) -> None:
            tried[test.__name__] += 1
            test(**arguments)

        examined = settings(
            max_examples=ROUND if FOR else number,
            deadline=None,
            database=None,
            derandomize=not FOR,
            print_blob=True,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
        )(given(*given_in_order)(counted))
        if not FOR:
            silent: Callable[..., None] = quiet(examined)
            return silent

        def for_long(seconds: float) -> None:
            until, number = time.monotonic() + seconds, SEED
            while time.monotonic() < until:
                print(
                    f"{test.__name__}: seed {number}, {tried[test.__name__]:,} examples so far"
                )
                seed(number)(examined)()
                number += 1

        for_long.__name__, for_long.__doc__, for_long.__module__ = (
            test.__name__,
            test.__doc__,
            test.__module__,
        )
        return quiet(for_long)

    return decorate


# JSON values.

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
values = st.recursive(
    scalars,
    lambda each: (
        st.lists(each, max_size=4) | st.dictionaries(st.text(), each, max_size=4)
    ),
    max_leaves=12,
)

HUGE = 10**4000
odd: st.SearchStrategy[Any] = (
    st.sampled_from(
        [
            *(None, True, False, 0, -1, 1e308, -0.0, HUGE, -HUGE, 2**63, 10**400),
            *(
                "",
                " ",
                "\0",
                "\ud800",
                "\udfff\ud800",
                "\ufeff",
                "\u202e",
                "\x1b[2J",
                "a\nb",
                "<0>",
                "x" * 5000,
            ),
            *(
                "../../x",
                "/etc/passwd",
                "..",
                "-rf",
                "$(touch x)",
                "`id`",
                "%s%n",
                "{{ 1 }}",
                "null",
                "NaN",
                "1e999",
            ),
            *(
                [],
                {},
                [[]],
                [None],
                {"": None},
                {"a\0": 1},
                {"__class__": "os"},
                {"$ref": "#"},
                {"<<": {}},
            ),
            *(
                ["a", 1, None],
                {"name": ["x"]},
                {"value": {}},
                [["a"]],
                {"deployments": []},
            ),
        ]
    )
    | values
)
"""Values that no code expects."""


def objects(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Objects with any of these keys, or others; each value as it should be, or not."""
    return st.builds(
        lambda right, other: {**other, **right},
        st.fixed_dictionaries(
            {}, optional={name: each | odd for name, each in fields.items()}
        ),
        st.dictionaries(st.text(max_size=3), values, max_size=2),
    )


# Documents.

names = st.sampled_from(
    [
        "x",
        "deploy_action",
        "deploy_status",
        "deploy_signal_id",
        "deploy_password",
        "out",
        "a/b",
        "",
    ]
)
inputs = objects(
    name=names,
    value=st.sampled_from(["CREATE", "http://h/", "IN_PROGRESS"]),
    type=st.just("String"),
)
outputs = objects(name=names, error_output=st.booleans())
config = objects(
    actions=st.lists(st.sampled_from(["CREATE", "DELETE"])),
    tool=st.just("script"),
    config=st.text(),
)
component = objects(configs=st.lists(config, max_size=3))
options = objects(
    timeout=st.just(5),
    script=st.dictionaries(st.just("timeout"), scalars),
    deploy_credentials=st.just(True),
)
entries = objects(
    id=st.sampled_from(["a", "b", "../x", "", 7]),
    name=st.text(),
    group=st.sampled_from(["script", "component", "chef", "Heat::Ungrouped", "✗"]),
    config=component | component.map(json.dumps) | st.text(),
    inputs=st.lists(inputs, max_size=3),
    outputs=st.lists(outputs, max_size=3),
    options=options,
)
lists = st.lists(entries | values, max_size=4)
documents = values | lists | objects(deployments=lists)


def _known() -> list[Any]:
    """Return the documents that the other tests have: real ones, and those of the cases."""
    real = [
        json.loads(path.read_text())
        for path in sorted((TESTS / "samples").glob("*.json"))
    ]
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    texts = [path.read_text() for path in sorted((TESTS / "cases").glob("*.yaml"))]
    cases = [yaml.load(text, Loader=loader) for text in texts]  # noqa: S506  # one of the safe ones
    return real + [case["document"] for case in cases if "document" in case]


KNOWN = _known()


def places(value: Any) -> list[tuple[Any, Any]]:
    """Return each place in a JSON value, as what it is in and its key there."""
    found: list[tuple[Any, Any]] = []
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, each in inner:
        found += [(value, key), *places(each)]
    return found


@st.composite
def changed(draw: st.DrawFn) -> Any:
    """Return one of the known documents with a few things changed in it."""
    value = deepcopy(draw(st.sampled_from(KNOWN)))
    for _ in range(draw(st.integers(1, 3))):
        here = places(value)
        if not here:
            return value
        holder, key = here[draw(st.integers(0, len(here) - 1))]
        match draw(st.sampled_from(["replace", "remove", "double", "swap", "rename"])):
            case "remove":
                del holder[key]
            case "double" if isinstance(holder, list):
                holder.insert(key, deepcopy(holder[key]))
            case "swap":
                other, name = here[draw(st.integers(0, len(here) - 1))]
                holder[key] = deepcopy(other[name])
            case "rename" if isinstance(holder, dict):
                holder[draw(st.text(max_size=5))] = holder.pop(key)
            case _:
                holder[key] = deepcopy(draw(odd))  # it may be changed next
    return value


yamlish = st.text(
    alphabet=" \n\t-:{}[],&*!|>'\"#%?@`~0123456789aexb._\\/+é\x00\x85\ufeff",
    max_size=40,
)


@st.composite
def damaged(draw: st.DrawFn, whole: st.SearchStrategy[bytes]) -> bytes:
    """Return bytes of which some are other ones, are missing, or were put in."""
    content = draw(whole)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(content)))
        to = min(len(content), at + draw(st.integers(0, 20)))
        put = draw(st.binary(max_size=6) | yamlish.map(lambda each: each.encode()[:8]))
        match draw(st.sampled_from(["cut", "put", "over", "again"])):
            case "cut":
                content = content[:at]
            case "put":
                content = content[:at] + put + content[at:]
            case "over":
                content = content[:at] + put + content[to:]
            case _:
                content = content[:to] + content[at:]
    return content
