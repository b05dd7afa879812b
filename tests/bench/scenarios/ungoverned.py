"""The cost of the code for a policy on a machine that has none."""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

from bench import measure, server, work
from bench.scenario import OURS, Figure, Goal, Sample, Scenario, Subject

_WITHOUT = "without the code"

_START = "import sys, types\n{0}from heat_config_agent.cli.main import apply\nraise SystemExit(apply())"
_BYPASS = """\
module = types.ModuleType("heat_config_agent.settings.in_force")
module.policy_in_force, module.refused_url = lambda: None, lambda url: ""
sys.modules[module.__name__] = module
"""
_COUNT = 10


@contextlib.contextmanager
def _subjects(folder: Path) -> Iterator[list[Subject]]:
    numbers = itertools.count()
    with server.running(folder / "documents") as heat:

        def subject(name: str, first: str) -> Subject:
            ours = work.Ours(folder / name.replace(" ", "-"))
            program = (sys.executable, "-I", "-c", _START.format(first))
            places = ("--state-dir", ours.state, "--hooks-dir", ours.hooks)

            def apply() -> Sample:
                ours.write(work.deployments(_COUNT, heat, mark=f"run{next(numbers)}"))
                with heat.expecting(_COUNT):
                    return measure.run(
                        (*program, *places, ours.document), env=ours.environment
                    ).sample

            return Subject(name, apply)

        yield [subject(OURS, ""), subject(_WITHOUT, _BYPASS)]


SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        "ungoverned",
        f"A batch of {_COUNT} deployments on a machine without a policy, and the same without the code for policies",
        (Figure("wall", "wall time", "s"), Figure("cpu", "processor time", "s")),
        _subjects,
        (Goal("cpu", _WITHOUT, 1.02),),
        rounds=31,
        long=True,
        note="Without the code: the one module that looks for a policy is replaced by one that finds none.",
    ),
)
