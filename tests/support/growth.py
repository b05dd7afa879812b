"""Repeated measurements of the resources of a working daemon, and a check that they do not grow."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from support.walks import below

MIB = 1024 * 1024
FACTOR = 1.5
"""The factor by which a late figure may exceed an early one."""

SLACK: Mapping[str, float] = {
    "memory": 8 * MIB,
    "descriptors": 12,
    "threads": 6,
    "files": 200,
    "journal": MIB,
    "state": 8 * MIB,
}
"""The amount on top of that, for what comes and goes."""

LIMITS: Mapping[str, float] = {
    "memory": 120 * MIB,
    "descriptors": 100,
    "threads": 40,
    "files": 3000,
    "journal": 8 * MIB,
    "state": 64 * MIB,
}
"""The largest amounts at any time."""

LEAST = 30
"""Samples below which nothing can be said of growth."""

Sample = Mapping[str, float]
"""The resources that a daemon uses at one moment."""


def sample(pid: int, state: Path) -> Sample:
    """Return what a process takes, and its state directory; nothing where the process is gone."""
    try:
        process = psutil.Process(pid)
        with process.oneshot():
            usage = {
                "memory": float(process.memory_info().rss),
                "descriptors": float(process.num_fds()),
                "threads": float(process.num_threads()),
            }
    except psutil.Error:
        return {}
    sizes = [size for path in below(state) if (size := _size(path)) is not None]
    return {
        **usage,
        "files": len(sizes),
        "state": sum(sizes),
        "journal": _size(state / "journal") or 0,
    }


def _size(path: Path) -> int | None:
    with contextlib.suppress(FileNotFoundError):
        return path.lstat().st_size
    return None


def unbounded(samples: Sequence[Sample]) -> list[str]:
    """Return what there is too much of: at any moment; or late, against what it was early, after a warm-up."""
    wrong = []
    for what, limit in LIMITS.items():
        values = [each[what] for each in samples]
        third = len(values) // 3
        early, late = (
            max(part, default=0.0)
            for part in (values[third : 2 * third], values[2 * third :])
        )
        if max(values, default=0.0) > limit:
            wrong.append(
                f"{what}: {max(values):,.0f}, and no more than {limit:,.0f} was expected"
            )
        elif len(values) >= LEAST and late > early * FACTOR + SLACK[what]:
            wrong.append(
                f"{what} grows: up to {early:,.0f} in the middle, and {late:,.0f} at the end"
            )
    return wrong


def told(samples: Sequence[Sample]) -> str:
    """Return the least and the most of each, for people."""
    return ", ".join(
        f"{what} {min(each[what] for each in samples):,.0f} to {max(each[what] for each in samples):,.0f}"
        for what in LIMITS
        if samples
    )
