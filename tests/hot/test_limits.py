"""Templates that would take more time, memory or room than there is: a mistake at its place names what grows."""

from __future__ import annotations

import gc
import json
import os
import re
import signal
import subprocess
import time
import weakref
from pathlib import Path
from typing import Any

import pytest

from heat_config_agent.cli.runner import _interrupt
from heat_config_agent.diagnostics import diagnostics
from heat_config_agent.diagnostics.mistakes import Invalid
from heat_config_agent.model.errors import Interrupted
from heat_config_stack.definition import Identity, constraints, limits
from heat_config_stack.definition.files import File
from heat_config_stack.hot import loader
from heat_config_stack.hot.source import Source
from heat_config_stack.lifecycle import validation
from heat_config_stack.resource_types import known_types
from support import endings, pace

fault = pytest.mark.fault

HEAD = "heat_template_version: 2018-08-31\n"


def mistakes(text: str) -> list[str]:
    """Return what is wrong with a template."""
    try:
        made = loader.define(Source(File("t.yaml", text)), Identity("s", "1"))
        validation.check(made, known_types())
    except Invalid as invalid:
        return [str(each) for each in invalid.mistakes]
    return []


def value(tree: Any) -> str:
    """Return a template with a resource of that value."""
    return f"{HEAD}resources: {{v: {{type: OS::Heat::Value, properties: {{value: {json.dumps(tree)}}}}}}}\n"


SIXTY = [str(number) for number in range(60)]
COMMAS = {"str_replace": {"template": "a" * 1000, "params": {"a": "," * 2000}}}

GROWING = {
    "repeat": {
        "repeat": {"template": "abcdef", "for_each": dict.fromkeys("abcdef", SIXTY)}
    },
    "str_replace": {
        "str_replace": {"template": "a" * 100_000, "params": {"a": "b" * 100_000}}
    },
    "list_join": {"list_join": ["x" * 100_000, [""] * 1000]},
    "str_split": {"str_split": [",", COMMAS]},
}


@fault(
    3,
    "a template whose functions make more than the machine has: repeat of six lists of sixty, str_replace of a hundred "
    "thousand by as many, list_join, str_split",
    "a mistake at its place that names the function and the limit, before anything is made",
)
@pytest.mark.parametrize("name", GROWING)
def test_functions_make_no_more_than_that(name: str) -> None:
    """The size of a result is checked before it is made."""
    (found,) = mistakes(value(GROWING[name]))
    assert found.startswith("t.yaml:2:")
    assert f'resources.v.properties.value: "{name}" makes over' in found


def group(
    count: int, inner: str = "{type: OS::Heat::Value, properties: {value: '%index%'}}"
) -> str:
    """Return a group of resources."""
    return f"{{type: OS::Heat::ResourceGroup, properties: {{count: {count}, resource_def: {inner}}}}}"


@fault(
    3,
    "a group of 10^30 resources, or of groups of a hundred each",
    "a mistake: Heat's own limit of 1,000 is counted",
)
@pytest.mark.parametrize(
    "made", [group(1001), group(10**9), group(10**30), group(100, group(100))]
)
def test_a_stack_has_a_thousand_resources_at_most(made: str) -> None:
    """Resources of nested stacks count too."""
    (found,) = mistakes(f"{HEAD}resources: {{g: {made}}}\n")
    assert "Maximum resources per stack exceeded" in found
    assert found.startswith("t.yaml:2:")
    assert not mistakes(f"{HEAD}resources: {{g: {group(999)}}}\n")


PATTERN = f"{HEAD}parameters: {{p: {{type: string, default: {'a' * 40}b, constraints: [{{allowed_pattern: WHAT}}]}}}}\n"


@fault(
    3,
    "an allowed_pattern that goes back and forth without end",
    "a mistake, after a time limit",
)
def test_a_pattern_has_a_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow pattern is given up, and named."""
    monkeypatch.setattr(limits, "SECONDS", 0.2)
    (found,) = mistakes(PATTERN.replace("WHAT", "(a+)+$"))
    assert (
        "cannot match the pattern '(a+)+$' against a value of 41 characters: it takes over 0.2 s"
        in found
    )
    assert constraints.violated("allowed_pattern", "a+", "aaa", "string") == ""


@pytest.mark.parametrize("pattern", ["(" * 5000 + ")" * 5000, "a{99999999999}"])
def test_a_pattern_that_python_cannot_read_is_a_mistake(pattern: str) -> None:
    """Too deep, or too large a number."""
    (found,) = mistakes(PATTERN.replace("WHAT", json.dumps(pattern)))
    assert "the allowed_pattern" in found


EXPRESSIONS = {
    "pow(9, pow(9, 9))": "takes over 0.5 s",
    "generate(0, true, $ + 1).len()": "takes over 0.5 s",
    "regex('(a+)+$').matches('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab')": "takes over 0.5 s",
    "def(f, f($)) -> f(1)": "goes into itself too deeply",
    "-" * 5000 + "1": "too deeply",
}


@fault(
    3,
    "yaql that goes on without end, in itself, or with numbers of a billion digits",
    "a mistake, after a time limit",
)
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_yaql_has_a_time_limit(
    monkeypatch: pytest.MonkeyPatch, expression: str
) -> None:
    """The time of yaql is limited, because its own limits cover only elements and bytes."""
    pytest.importorskip("yaql")
    is_endless = "takes over" in EXPRESSIONS[expression]
    monkeypatch.setattr(limits, "SECONDS", 0.5 if is_endless else pace.seconds(30))
    found = " ".join(mistakes(value({"yaql": {"expression": expression, "data": {}}})))
    assert "yaql" in found
    assert EXPRESSIONS[expression] in found


def test_yaql_has_a_limit_of_memory() -> None:
    """The memory of yaql is limited, because its own limit applies only afterwards."""
    pytest.importorskip("yaql")
    (found,) = mistakes(value({"yaql": {"expression": "[1] * 1000000000", "data": {}}}))
    assert '"yaql" takes over 256 MiB of memory' in found


def test_the_template_as_a_whole_has_a_time_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The mistake is at the function that was at work."""
    monkeypatch.setattr(limits, "TEMPLATE_SECONDS", 0.3)

    started = time.monotonic()
    (found,) = mistakes(
        value({"list_concat_unique": [[{"x": index} for index in range(30_000)]]})
    )
    assert "the template takes over 60 s to evaluate" in found
    assert time.monotonic() - started < pace.seconds(30)


def test_first_misspelt_references_have_a_hint() -> None:
    """Every reference is a mistake; to look for a similar name of each would take longer than the template may."""
    most = diagnostics.HINTS
    names = [f"r{number:03}" for number in range(most + 5)]
    resources = "".join(
        f"  {name}: {{type: OS::Heat::Value, properties: {{value: {{get_resource: {name}x}}}}}}\n"
        for name in names
    )
    found = mistakes(f"{HEAD}resources:\n{resources}")
    assert len(found) == most + 5
    assert sum("did you mean" in each for each in found) == most


@pytest.mark.parametrize("depth", [500, 20_000])
def test_json_in_a_parameter_that_is_too_deep_is_a_mistake(depth: int) -> None:
    """JSON that is nested too deeply in a parameter is a mistake, not a traceback."""
    text = "[" * depth + "]" * depth
    found = mistakes(f"{HEAD}parameters: {{p: {{type: json, default: '{text}'}}}}\n")
    assert any("Value must be valid JSON" in each for each in found)


def test_a_template_has_the_size_that_heat_allows(tmp_path: Path) -> None:
    """A template is as long as Heat allows at most, and longer content belongs into a file."""
    (found,) = mistakes(f"{HEAD}description: {'x' * 600_000}\n")
    assert "the template is longer than the 524,288 bytes" in found
    path = tmp_path / "t.yaml"
    (tmp_path / "long").write_text("x" * 600_000)
    path.write_text(value({"get_file": "long"}))
    assert not loader.check(str(path), [], {}).mistakes


def test_values_that_stand_in_many_places_are_counted_in_each() -> None:
    """By an alias a few lines say it a thousand times, and each resource is kept with all that it says."""
    lines = "".join(
        f"  a{number}: {{type: OS::Heat::Value, properties: {{value: *a}}}}\n"
        for number in range(300)
    )
    text = f"{HEAD}resources:\n  a: {{type: OS::Heat::Value, properties: {{value: &a {'x' * 400_000}}}}}\n{lines}"
    (found,) = mistakes(text)
    assert "the properties of this one have over 67,108,864 characters" in found


def test_numbers_that_are_too_large_to_compare_are_a_mistake() -> None:
    """Python refuses to make fractions of them."""
    limit = "{modulo: {step: 3.0, offset: 0.0}}"
    (found,) = mistakes(
        f"{HEAD}parameters: {{p: {{type: number, default: {'9' * 900}, constraints: [{limit}]}}}}\n"
    )
    assert "the number is too large to be compared" in found


# The time limit itself.


def forever() -> None:
    """Go on."""
    while True:
        pass


def test_work_in_work_ends_with_it() -> None:
    """The deadline of the outer work ends the inner work, and later work has a deadline of its own."""
    with pytest.raises(limits.TooMuch, match=r"over 0\.1 s"):
        limits.within(5, lambda: limits.within(0.1, forever))

    def inner() -> None:
        with pytest.raises(limits.TooMuch, match=r"over 0\.05 s"):
            limits.within(0.05, forever)
        limits.within(60, forever)

    with pytest.raises(limits.TooMuch, match=r"over 0\.2 s"):
        limits.within(0.2, inner)
    assert limits.within(5, lambda: 3) == 3
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_ctrl_c_still_ends_it() -> None:
    """The command ends at once, before the time limit of a long pattern."""
    before = signal.signal(signal.SIGINT, _interrupt), signal.getsignal(signal.SIGTERM)
    try:
        # A process sends it, as a terminal does: a thread gets no turn while a pattern is matched.
        with endings.ended(
            subprocess.Popen(["sh", "-c", f"sleep 0.2; kill -INT {os.getpid()}"])
        ) as sender:
            with pytest.raises(Interrupted):
                limits.within(
                    pace.seconds(30), lambda: re.match("(a+)+$", "a" * 60 + "b")
                )
            assert sender.wait(pace.seconds(30)) == 0
    finally:
        signal.signal(signal.SIGINT, before[0])
        signal.signal(signal.SIGTERM, before[1])


class Circle:
    """Garbage that only a collection finds."""

    def __init__(self) -> None:
        self.itself = self


def test_a_process_that_reads_many_templates_frees_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only what the first few leave stays, because objects that are frozen are never collected."""
    monkeypatch.setattr(limits, "_freezes", [])
    gc.freeze()
    try:
        left = [weakref.ref(limits.within_template(Circle)) for _ in range(20)]
        gc.collect()
        alive = [circle() is not None for circle in left]
    finally:
        gc.unfreeze()
    assert not any(alive[limits._FREEZES :])  # noqa: SLF001  # as many as are frozen
