"""The time of the suite by folder: `python tests/support/suite_time.py REPORT`, a table for tests/README.md.

REPORT is what `make test-all ARGS=--junitxml=REPORT` has written. The time of a test is that on the clock, with its
fixtures and with all that it waits for.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path
from xml.etree import ElementTree as ET

SHARE = 0.02
"""Folders with a smaller share than this are counted as others."""


def seconds(report: Path) -> dict[str, float]:
    """Return the seconds of each folder below tests/."""
    times: dict[str, float] = defaultdict(float)
    for case in ET.parse(report).getroot().iter("testcase"):  # noqa: S314  # pytest has written it
        folder = case.get("classname", "").removeprefix("tests.").partition(".")[0]
        times[folder] += float(case.get("time", "0"))
    return times


def table(times: dict[str, float]) -> list[str]:
    """Return the lines of the table, the largest share first."""
    whole = sum(times.values())
    large = {name: time for name, time in times.items() if time >= SHARE * whole}
    lines = [
        f"| `tests/{name}/` | {large[name] / whole:.0%} | {large[name] / 60:.1f} min |"
        for name in sorted(large, key=lambda name: -large[name])
    ]
    rest = whole - sum(large.values())
    return [
        "| folder | share | time |",
        "|---|---|---|",
        *lines,
        f"| others | {rest / whole:.0%} | {rest / 60:.1f} min |",
    ]


if __name__ == "__main__":
    print("\n".join(table(seconds(Path(sys.argv[1])))))
