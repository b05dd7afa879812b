"""Templates on this machine: what a stack costs beside its deployments alone, and whether that grows with its size."""

from __future__ import annotations

import contextlib
import functools
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

from bench import measure, work
from bench.scenario import OURS, Figure, Goal, Sample, Scenario, Subject

ALONE = "deployments alone"


def template(resources: int) -> str:
    """Return a template of that many: values, configs that use them, and their deployments."""
    lines = [
        "heat_template_version: 2021-04-16",
        "resources:",
        "  server: {type: OS::Heat::DeployedServer}",
    ]
    for number in range(resources // 3):
        lines += [
            f"  value-{number}:",
            "    type: OS::Heat::Value",
            f"    properties: {{value: {{list_join: [' ', [done, number, '{number}']]}}}}",
            f"  config-{number}:",
            "    type: OS::Heat::SoftwareConfig",
            "    properties:",
            "      group: script",
            "      inputs: [{name: word}]",
            "      config: |",
            *(f"        {line}" for line in work.SCRIPT.splitlines()),
            f"  deployment-{number}:",
            "    type: OS::Heat::SoftwareDeployment",
            "    properties:",
            "      server: {get_resource: server}",
            f"      config: {{get_resource: config-{number}}}",
            f"      input_values: {{word: {{get_attr: [value-{number}, value]}}}}",
        ]
    return "\n".join(lines) + "\n"


@contextlib.contextmanager
def _subjects(folder: Path, *, resources: int) -> Iterator[list[Subject]]:
    numbers = itertools.count()
    given = folder / "stack.yaml"
    given.write_text(template(resources))
    command = Path(sys.executable).with_name("heat-config-apply")

    def stack() -> Sample:
        ours = work.Ours(folder / f"stack{next(numbers)}")
        return _each(
            measure.run(
                (command, "--state-dir", ours.state, given), env=ours.environment
            ),
            resources,
        )

    def alone() -> Sample:
        ours = work.Ours(folder / f"alone{next(numbers)}")
        ours.write(work.deployments(resources // 3))
        return _each(ours.apply(), resources)

    yield [Subject(OURS, stack), Subject(ALONE, alone)]


def _each(took: measure.Took, resources: int) -> Sample:
    return {
        "wall": took.wall,
        "cpu": took.cpu,
        "peak": took.peak,
        "each": took.wall / resources,
    }


_FIGURES = (
    Figure("wall", "wall time", "s"),
    Figure("cpu", "processor time", "s"),
    Figure("each", "wall time for each resource", "s"),
    Figure("peak", "memory", "B"),
)


def _stack(resources: int, *, rounds: int, seconds: float, note: str = "") -> Scenario:
    return Scenario(
        f"stack-{resources}",
        f"A template of {resources} resources, a third of them deployments, is checked and created on this machine",
        _FIGURES,
        functools.partial(_subjects, resources=resources),
        (Goal("wall", ALONE, 3.0),) if resources > 900 else (),
        rounds=rounds,
        seconds=seconds,
        warm_up=resources < 1000,
        note=note,
    )


SCENARIOS: tuple[Scenario, ...] = (
    _stack(9, rounds=7, seconds=3),
    _stack(99, rounds=5, seconds=4),
    _stack(
        999,
        rounds=3,
        seconds=13,
        note=(
            f"«{ALONE}» are as many, applied from a document. No result leaves the machine with either. Heat's own "
            "engine, in one process with neither servers nor a database's server, took 151 s for the very same "
            "template, and 15 s for that of 99 resources (once each, by hand, on a busy machine; 10 s of both to load)."
        ),
    ),
)
