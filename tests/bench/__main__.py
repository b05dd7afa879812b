"""`python -m bench [SCENARIO …]`: measure, print, and write what was measured into `docs/`."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench import measure, peers, report, scenarios
from bench.scenario import LackingError, Scenario


def main() -> int:
    """Measure."""
    parser = argparse.ArgumentParser(prog="make bench ARGS=…", description=__doc__)
    parser.add_argument("scenario", nargs="*", help=f"which: all, or some of {', '.join(scenarios.NAMES)}")
    parser.add_argument("--dry", action="store_true", help="write nothing into docs/")
    options = parser.parse_args()
    unknown = [each for each in options.scenario if not _chosen(each)]
    if unknown:
        parser.error(f"there is no scenario {unknown[0]!r}; there are {', '.join(scenarios.NAMES)}")
    chosen = [
        each
        for each in scenarios.ALL
        if (not options.scenario and not each.long) or any(each in _chosen(n) for n in options.scenario)
    ]
    lacking = 0
    for scenario in chosen:
        begun = time.monotonic()
        try:
            measured = _measured(scenario)
        except LackingError as lack:
            _say("")
            print(f"{scenario.name} cannot be measured here: {lack}", file=sys.stderr)
            lacking += 1
        else:
            _say("")
            parts = filter(None, (report.section(scenario.name, measured), report.goals(scenario.name, measured)))
            print(*parts, sep="\n\n", end="\n\n")
            print(f"It took {time.monotonic() - begun:.0f} s.", end="\n\n", flush=True)
            if not options.dry:
                report.save({scenario.name: measured})
    return 1 if lacking else 0


def _chosen(name: str) -> list[Scenario]:
    """Return the scenarios that a word names: one, or all whose names begin with it, but for the long ones."""
    return [each for each in scenarios.ALL if each.name == name or (each.name.startswith(f"{name}-") and not each.long)]


def _measured(scenario: Scenario) -> dict[str, Any]:
    # Not in a folder for temporary files, which may be memory: what is flushed to disk has to get there.
    folder = Path(tempfile.mkdtemp(prefix="bench-", dir=peers.FOLDER.parent))
    try:
        with scenario.subjects(folder) as subjects:
            return report.record(scenario, measure.in_turn(scenario, subjects, _say))
    finally:
        shutil.rmtree(folder)


def _say(text: str) -> None:
    """Show what is going on, on a terminal."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
