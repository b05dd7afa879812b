"""Any template and environment is a definition, or each mistake is one sentence with its position."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import pytest
import yaml
from hypothesis import strategies as st

from fuzz.examples import SHARE, TESTS, damaged, odd, places, tries
from heat_config_agent.model.mistake import Mistake
from heat_config_hooks import processes
from heat_config_stack.definition import (
    Definition,
    Identity,
    Later,
    Unresolved,
    requires,
    resolve,
)
from heat_config_stack.definition.files import File
from heat_config_stack.hot import loader
from heat_config_stack.hot.source import Source
from heat_config_stack.lifecycle.live import World
from heat_config_stack.resource import scheduler
from hot import stacks
from hot.language import Nothing

pytestmark = [pytest.mark.takes(20), pytest.mark.torture(share=SHARE)]

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
        *(
            {"get_param": "p"},
            {"get_attr": ["r", "x"]},
            {"get_resource": "r"},
            {"get_file": "f"},
            {"if": ["c", 1, 2]},
        ),
        *(
            {"get_param": ["p", {"get_attr": ["r", "a"]}]},
            {"list_join": [",", ["a"]]},
            {"equals": [1, 1]},
            {"not": "c"},
        ),
        *(
            {"repeat": {"template": "%a%", "for_each": {"%a%": [1]}}},
            {"str_replace": {"template": 1, "params": {}}},
        ),
        *(
            {"yaql": {"expression": "$.data", "data": 1}},
            {"resource_facade": "metadata"},
            {"digest": ["md5", "a"]},
        ),
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
                holder[
                    draw(
                        st.sampled_from(
                            ["type", "if", "get_attr", "condition", "params", "x"]
                        )
                    )
                ] = holder.pop(key)
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
    environments = [
        draw(changed(each)) if draw(st.booleans()) else each for each in texts
    ]
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


def check(
    definition: Definition | None, mistakes: list[Mistake], warnings: list[Mistake]
) -> None:
    """Hold a definition to what the stack relies on."""
    check_sentences([*mistakes, *warnings])
    assert definition is not None or mistakes
    if definition is None or mistakes:
        return
    json.dumps(definition.source)
    for output in definition.outputs.values():
        if next(requires(output.value), None) is None:
            try:
                json.dumps(resolve(output.value, Nothing()))
            except Unresolved as error:
                assert str(error)  # noqa: PT017  # some can be had
    for resource in definition.resources.values():
        needed = {
            each.resource for each in requires([resource.properties, resource.metadata])
        }
        assert needed - {""} <= set(definition.resources)
        assert isinstance(resource.type, str)
        policy = resource.deletion_policy
        assert isinstance(policy, Later) or policy in {"Delete", "Retain", "Snapshot"}


@tries(150, sources())
def test_any_template_is_looked_at(source: Source) -> None:
    """Any template is checked with all values and with only some, and so are its nested templates."""
    check(*loader.examine(source, IDENTITY))
    made, mistakes, warnings = loader.examine(source, IDENTITY, known=False)
    check(made, mistakes, warnings)
    if made is not None:
        check_sentences(
            [each for found in loader.check_children(made, 2) for each in found]
        )


@tries(100, damaged(st.sampled_from([each["template"].encode() for each in TEXTS])))
def test_damaged_text_is_refused_or_read(content: bytes) -> None:
    """Any text is refused or read as a template."""
    source = Source(File("t.yaml", content.decode(errors="replace")))
    check(*loader.examine(source, IDENTITY))


@st.composite
def lives(draw: st.DrawFn) -> dict[str, Any]:
    """Return a case of which the template has been changed, and has been changed again for an update.

    Its deployments get the answers of the case, and its handles the signals.
    """
    case = draw(st.sampled_from(TEXTS))
    kept = {
        key: case[key]
        for key in ("environment", "files", "parameters", "signals", "wait_signals")
        if key in case
    }
    first = draw(changed(case["template"]))
    second = draw(st.sampled_from([case["template"], first]).flatmap(changed))
    steps = [{"op": "create"}, {"op": "update", "template": second}]
    steps += [
        {"op": each}
        for each in draw(
            st.lists(st.sampled_from(["check", "suspend", "resume"]), max_size=3)
        )
    ]
    back = draw(st.booleans())
    return {
        **kept,
        "template": first,
        "disable_rollback": back,
        "steps": [*steps, {"op": "delete"}],
    }


class Hurried(stacks.Agent):
    """Servers that answer at once, on a machine whose clocks advance instead of the stack having to wait."""

    def __init__(self, case: dict[str, Any]) -> None:
        super().__init__(case)
        self.ahead = 0.0
        """Seconds that the clocks are ahead."""
        self.turns = 0

    def work(self, world: World, timeout: float | None, also: Sequence[int]) -> None:
        self.turns += 1
        assert self.turns < 20_000, "it never ends"
        if not self.busy:
            assert timeout is not None, "it waits for nothing"
            self.ahead += max(timeout, self.ahead)
        super().work(world, 0.0, also)


@contextmanager
def hurried() -> Iterator[None]:
    """Have a stack carried out with clocks that advance."""
    agents: list[Hurried] = []
    clock, since_boot = time.monotonic, processes.since_boot

    def made(case: dict[str, Any]) -> Hurried:
        agents.append(Hurried(case))
        return agents[-1]

    def ahead() -> float:
        return agents[-1].ahead if agents else 0.0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stacks, "Agent", made)
        patch.setattr(time, "monotonic", lambda: clock() + ahead())
        patch.setattr(scheduler.Scheduler.__init__, "__defaults__", (time.monotonic,))
        patch.setattr(processes, "since_boot", lambda: since_boot() + ahead())
        yield


@tries(60, lives())
def test_any_template_is_carried_out_or_refused(case: dict[str, Any]) -> None:
    """Each resource succeeds or fails, and can be changed and deleted."""
    never = {
        each
        for each, answers in (case.get("signals") or {}).items()
        if "never" in str(answers)
    }
    if never:  # nobody would answer
        case = {
            **case,
            "signals": {
                key: each for key, each in case["signals"].items() if key not in never
            },
        }
    with hurried():
        stacks.run({**case, "mode": "lifecycle"})
