"""Templates on this machine: what it takes to read and to check one, and whether that grows with its size."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest import mock

from bench.scenario import OURS, Figure, Goal, Sample, Scenario, Subject
from heat_config_stack.definition import Identity, limits
from heat_config_stack.definition.files import File
from heat_config_stack.hot import loader
from heat_config_stack.hot.source import Source
from heat_config_stack.lifecycle import validation
from heat_config_stack.resource_types import known_types


def template(deployments: int) -> str:
    """Return a template of that many deployments of one config, each with an input of its own."""
    lines = [
        "heat_template_version: 2021-04-16",
        "resources:",
        "  config:",
        "    type: OS::Heat::SoftwareConfig",
        "    properties: {group: script, config: 'true', inputs: [{name: word}]}",
    ]
    for number in range(deployments):
        lines += [
            f"  deployment-{number}:",
            "    type: OS::Heat::SoftwareDeployment",
            "    properties:",
            "      server: here",
            "      config: {get_resource: config}",
            f"      input_values: {{word: number {number}}}",
        ]
    return "\n".join(lines) + "\n"


def checked(text: str, largest: int) -> None:
    """Read a template and check it as before its stack is created. Raises `Invalid`."""
    made = loader.define(
        Source(File("template.yaml", text), (), {}, {}), Identity("stack", "id")
    )
    validation.check(replace(made, largest=largest), known_types())


@contextlib.contextmanager
def _subjects(_folder: Path, *, deployments: int) -> Iterator[list[Subject]]:
    text = template(deployments)

    def ours() -> Sample:
        began = time.process_time()
        checked(text, deployments + 1)
        took = time.process_time() - began
        return {"cpu": took, "each": took / deployments}

    with mock.patch.object(limits, "LARGEST_TEMPLATE", len(text)):
        yield [Subject(OURS, ours)]


def _checks(deployments: int, goal: float, *, rounds: int, seconds: float) -> Scenario:
    return Scenario(
        f"check-{deployments}",
        f"A template of {deployments:,} deployments is read and checked, in one process that is running already",
        (
            Figure("cpu", "processor time", "s"),
            Figure("each", "processor time for each deployment", "s"),
        ),
        functools.partial(_subjects, deployments=deployments),
        (Goal("cpu", "", goal),) if goal else (),
        rounds=rounds,
        seconds=seconds,
        long=True,
        note="The limits of size are lifted for it: a stack has at most 1,000 resources."
        if deployments > 999
        else "",
    )


SCENARIOS: tuple[Scenario, ...] = (
    _checks(100, 0.0, rounds=7, seconds=2),
    _checks(1_000, 0.2, rounds=5, seconds=3),
    _checks(10_000, 2.0, rounds=5, seconds=25),
)
