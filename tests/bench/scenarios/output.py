"""Much output: of a script that prints more than anybody reads."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import statistics
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from bench import measure, peers, server, work
from bench.scenario import LIMIT, OURS, THEIRS, Figure, Goal, Sample, Scenario, Subject

_MEBI = 1024 * 1024
_LINE = 10
"""Bytes of a line."""
_FIRST = 100_000_000
"""The text of the first line."""
_FILES, _NONE = "the command into files", "heat-config-agent, no output"

_FIGURES = (
    Figure("wall", "wall time", "s"),
    Figure("cpu", "processor time", "s"),
    Figure("peak", "peak memory", "B"),
    Figure("more", "of that more than without output", "B"),
    Figure("kept", "output kept on disk", "B"),
    Figure("signals", "signals that arrived", ""),
)

_NOTE = (
    "The script is `seq`, which prints lines of ten bytes, nine tenths of them to standard output and the rest to "
    "standard error. The limit is the bare script, both of its streams piped to `cat >/dev/null`: that keeps nothing, "
    f"tells nobody, and outlives nothing. «{_FILES}» is the bare script, too, its streams appended to files, as the "
    "agent has it. Ours is one `heat-config-apply`, from its start to its end; «no output» is one whose script prints "
    "a word, so that what is above that is what output costs. Memory is that of the process that took most of it."
)


def _script(size: int) -> str:
    """Return a script that prints so many bytes."""
    errors = size // _LINE // 10
    last = _FIRST + size // _LINE - 1
    return (
        f"#!/bin/sh\nseq {_FIRST} {last - errors}\nseq {last - errors + 1} {last} >&2\n"
    )


def _subjects(
    size: int, *, theirs: int
) -> Callable[[Path], AbstractContextManager[list[Subject]]]:
    """Return what sets up those that are compared, for so many bytes; `theirs` is run in so many rounds, or not."""

    @contextlib.contextmanager
    def subjects(folder: Path) -> Iterator[list[Subject]]:
        ours, image = (
            work.Ours(folder / "ours"),
            peers.Image(folder / "image") if theirs else None,
        )
        numbers = itertools.count()
        bare = folder / "script"
        bare.write_text(_script(size))

        def by_ours(script: str) -> measure.Took:
            ours.write(
                work.deployments(1, heat, mark=f"run{next(numbers)}", config=script)
            )
            with heat.expecting(1):
                return ours.apply()

        def by_ours_at_once() -> Sample:
            shutil.rmtree(ours.state, ignore_errors=True)
            took = by_ours(_script(size))
            _check(ours.state, size)
            kept = sum(
                each.stat().st_blocks * 512
                for each in (ours.state / "runs").glob("*/std*")
            )
            return {
                **took.sample,
                "more": took.peak - least,
                "kept": kept,
                "signals": 1,
            }

        def by_theirs() -> Sample:
            assert image is not None
            image.write(
                work.deployments(
                    1, heat, mark=f"run{next(numbers)}", config=_script(size)
                )
            )
            before = heat.count()
            took = measure.run(image.heat_config, env=image.environment)
            return {**took.sample, "signals": (heat.count() - before).signals}

        def bare_into(place: str) -> Sample:
            took = measure.run(
                ("/bin/sh", "-c", f"/bin/sh {bare} {place}"), env={"PATH": os.defpath}
            )
            for each in ("out", "err"):
                (folder / each).unlink(missing_ok=True)
            return {"wall": took.wall, "cpu": took.cpu}

        with server.running(folder / "documents") as heat:
            least = round(
                statistics.median(by_ours(work.SCRIPT).peak for _ in range(3))
            )
            yield [
                Subject(OURS, by_ours_at_once),
                *(
                    [Subject(THEIRS, by_theirs, rounds=theirs, warm_up=False)]
                    if theirs
                    else []
                ),
                Subject(LIMIT, lambda: bare_into("2>&1 | cat >/dev/null")),
                Subject(_FILES, lambda: bare_into(f">>{folder}/out 2>>{folder}/err")),
                Subject(_NONE, lambda: {**by_ours(work.SCRIPT).sample, "signals": 1}),
            ]

    return subjects


def _check(state: Path, size: int) -> None:
    """Have the result show how the output begins and how it ends."""
    (path,) = (state / "deployed").glob("*.notify.json")
    told = json.loads(path.read_text())
    errors = size // _LINE // 10
    last = _FIRST + size // _LINE - 1
    for name, first, end in (
        ("stdout", _FIRST, last - errors),
        ("stderr", last - errors + 1, last),
    ):
        text = told[f"deploy_{name}"]
        assert text.startswith(f"{first}\n"), f"{name} does not begin as it should"
        assert text.endswith(f"\n{end}\n"), f"{name} does not end as it should"
    assert told["deploy_status_code"] == 0


_KEPT = (
    "Much of it is the agent's start, as «no output» shows; and what is printed goes to files, so that it survives the "
    "agent, as «the command into files» shows without us, where its middle is removed as it comes."
)

SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        "output-1MB",
        "A script prints 1 MB",
        _FIGURES,
        _subjects(1_000_000, theirs=3),
        rounds=9,
        seconds=12,
        needs=peers.ready,
        note=(
            f"{_NOTE} heat-agents lose a result of more than 950,000 bytes: their heat-config-notify ends with an "
            "error, and nothing is signalled."
        ),
    ),
    Scenario(
        "output-10MB",
        "A script prints 10 MB",
        _FIGURES,
        _subjects(10_000_000, theirs=1),
        rounds=5,
        seconds=15,
        needs=peers.ready,
        warm_up=False,
        note="The largest for which theirs can be waited for each time; it is run once.",
    ),
    Scenario(
        "output-100MB",
        "A script prints 100 MB",
        _FIGURES,
        _subjects(100_000_000, theirs=0),
        (Goal("wall", LIMIT, 1.5, _KEPT), Goal("more", "", 10 * _MEBI)),
        rounds=7,
        seconds=15,
        note="Beside theirs it is measured in output-100MB-theirs.",
    ),
    Scenario(
        "output-1GB",
        "A script prints 1 GB",
        _FIGURES,
        _subjects(1_000_000_000, theirs=0),
        (Goal("more", "", 10 * _MEBI),),
        rounds=3,
        seconds=25,
        warm_up=False,
        note=(
            "Nothing here takes more memory for it, and the result arrives, with the output's beginning and end. Of "
            "heat-agents, the hook and all that pass on its reply would hold it several times over: it is not tried."
        ),
    ),
    Scenario(
        "output-100MB-theirs",
        "A script prints 100 MB, beside heat-agents",
        _FIGURES,
        _subjects(100_000_000, theirs=1),
        (
            Goal(
                "wall",
                THEIRS,
                1 / 300,
                "The script itself takes most of it, and the start of Python a third.",
            ),
            Goal(
                "peak",
                THEIRS,
                1 / 50,
                "The program takes nearly as much without any output.",
            ),
        ),
        rounds=3,
        seconds=300,
        needs=peers.ready,
        warm_up=False,
        long=True,
        note="It takes minutes, and so is measured where it is asked for by its name; theirs is run once.",
    ),
)
