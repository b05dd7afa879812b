"""One-shot runs: of what is done already, and of one deployment."""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

from bench import measure, peers, server, work
from bench.scenario import LIMIT, OURS, THEIRS, Figure, Goal, Sample, Scenario, Subject

_FIGURES = (Figure("wall", "wall time", "s"), Figure("cpu", "processor time", "s"))
_HEAT_CONFIG, _COLLECT, _FORCED, _PYTHON = (
    "55-heat-config",
    "os-collect-config --one-time",
    "os-collect-config --force",
    "python3 -I -S -c pass",
)

_LEFT = "Beside its start, it reads what it goes by, and compares that with what the last run has left."


@contextlib.contextmanager
def _idle(folder: Path) -> Iterator[list[Subject]]:
    image, ours = peers.Image(folder / "image"), work.Ours(folder / "ours")
    done = work.deployments(1)
    ours.write(done)
    ours.apply()
    image.write(done)
    (image.local / "document.json").write_text(ours.document.read_text())
    collect = image.collect(["local"], "--one-time")
    measure.run(collect, env=image.environment)
    assert (image.deployed / "d-0.notify.json").exists(), (
        "os-collect-config has applied nothing"
    )

    def theirs(*command: str | Path) -> Sample:
        return measure.run(command, env=image.environment).sample

    yield [
        Subject(OURS, lambda: ours.apply().sample),
        Subject(_HEAT_CONFIG, lambda: theirs(*image.heat_config)),
        Subject(_COLLECT, lambda: theirs(*collect)),
        Subject(_FORCED, lambda: theirs(*collect, "--force"), rounds=3),
        Subject(
            _PYTHON,
            lambda: (
                measure.run((sys.executable, "-I", "-S", "-c", "pass"), env={}).sample
            ),
        ),
    ]


@contextlib.contextmanager
def _one(folder: Path) -> Iterator[list[Subject]]:
    image, ours, limit = (
        peers.Image(folder / "image"),
        work.Ours(folder / "ours"),
        work.Limit(folder / "limit"),
    )
    numbers = itertools.count()
    with server.running(folder / "documents") as heat:

        def by_ours() -> Sample:
            ours.write(work.deployments(1, heat, mark=f"run{next(numbers)}"))
            with heat.expecting(1):
                return ours.apply().sample

        def by_theirs() -> Sample:
            image.write(work.deployments(1, heat, mark=f"run{next(numbers)}"))
            with heat.expecting(1):
                return measure.run(image.heat_config, env=image.environment).sample

        def by_limit() -> Sample:
            with heat.expecting(1):
                return limit.apply(
                    folder / "limit" / f"run{next(numbers)}", 1, heat
                ).sample

        yield [
            Subject(OURS, by_ours),
            Subject(THEIRS, by_theirs),
            Subject(LIMIT, by_limit),
        ]


SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        "one-shot-idle",
        "A document with one deployment, which is done already, is applied again",
        _FIGURES,
        _idle,
        (
            Goal(
                "wall",
                _HEAT_CONFIG,
                1.0,
                f"Most of what both take is the start of Python. {_LEFT}",
            ),
            Goal(
                "wall",
                _COLLECT,
                0.1,
                f"The start of Python is the most of what ours takes. {_LEFT}",
            ),
            Goal("wall", _PYTHON, 5.0, _LEFT),
        ),
        rounds=15,
        seconds=25,
        needs=peers.ready,
        note=(
            "Ours is `heat-config-apply FILE`. `os-collect-config --one-time` reads the same document from a local "
            "file, sees that it is as before, and ends: that is the least it does. With `--force` it runs "
            "os-refresh-config, os-apply-config and 55-heat-config all the same."
        ),
    ),
    Scenario(
        "one-shot",
        "A document with one new deployment is applied, and its result signalled",
        _FIGURES,
        _one,
        (
            Goal(
                "wall",
                THEIRS,
                1 / 4,
                "Both start Python more than once; most of what ours loads is what sends a result by HTTP, and it "
                "waits for the disk before it starts anything.",
            ),
        ),
        rounds=15,
        seconds=20,
        needs=peers.ready,
        note=(
            "Theirs is 55-heat-config on a list with that deployment, with its hook-script and heat-config-notify: "
            "what os-collect-config, os-refresh-config and os-apply-config take before that is not in it."
        ),
    ),
)
