"""A hook that is somebody's own executable, beside starting that same executable and nothing else."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Iterator
from pathlib import Path

from bench import server, work
from bench.scenario import LIMIT, OURS, Figure, Goal, Sample, Scenario, Subject

_HOOK = """\
#!/bin/sh
read -r deployment
printf '{"deploy_stdout": "", "deploy_stderr": "", "deploy_status_code": 0, "length": "%s"}' "${#deployment}"
"""
_FEW, _MANY = 10, 110


@contextlib.contextmanager
def _subjects(folder: Path) -> Iterator[list[Subject]]:
    limit = work.Limit(folder / "limit")
    hook, given = folder / "own", folder / "given.json"
    hook.write_text(_HOOK)
    hook.chmod(0o755)
    numbers = itertools.count()
    with server.running(folder / "documents") as heat:

        def apply(count: int) -> float:
            ours = work.Ours(folder / f"ours{next(numbers)}")
            ours.hooks.mkdir()
            (ours.hooks / "own").symlink_to(hook)
            ours.write(work.deployments(count, heat, group="own", config="anything"))
            with heat.expecting(count):
                return ours.apply().wall

        def spawn() -> float:
            return (
                limit.spawn(hook, given, _MANY).wall
                - limit.spawn(hook, given, _FEW).wall
            ) / (_MANY - _FEW)

        def by_ours() -> Sample:
            wall = (apply(_MANY) - apply(_FEW)) / (_MANY - _FEW)
            return {"wall": wall, "above": wall - spawn()}

        given.write_text(
            json.dumps(work.deployments(1, heat, group="own", config="anything")[0])
        )
        yield [Subject(OURS, by_ours), Subject(LIMIT, lambda: {"wall": spawn()})]


SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        "own-hook",
        "What one deployment more costs in a batch whose hook is somebody's own executable",
        (
            Figure("wall", "wall time", "s"),
            Figure("above", "above starting that executable", "s"),
        ),
        _subjects,
        (
            Goal(
                "above",
                "",
                0.003,
                "Each run has a supervisor, a process by which it goes on without the agent; the disk is waited for "
                "before it is started, and the result is signalled.",
            ),
        ),
        rounds=7,
        seconds=20,
        note=(
            f"The time for {_MANY} deployments less that for {_FEW}, divided by {_MANY - _FEW}. The hook is a shell "
            "script; the limit starts it with the same input and waits, without journal and signal."
        ),
    ),
)
