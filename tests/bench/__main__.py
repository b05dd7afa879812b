"""`python -m bench [SCENARIO …]`: measure, print, and write what was measured into `docs/evidence/`."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
import traceback
from collections.abc import Sequence

from bench import apart, measure, report, scenarios
from bench.scenario import OURS, LackingError, Scenario

TOTAL = 600.0
"""Seconds that all scenarios have that do not take long."""

SPARE = 1.2
"""Time beyond the shares of the scenarios, as a factor: for installation, and for slower machines."""


def main() -> int:
    """Measure."""
    parser = argparse.ArgumentParser(prog="make bench ARGS=…", description=__doc__)
    parser.add_argument(
        "scenario",
        nargs="*",
        help=f"which: all, or some of {', '.join(scenarios.NAMES)}",
    )
    parser.add_argument(
        "--dry", action="store_true", help="write nothing into docs/evidence/"
    )
    parser.add_argument(
        "--list",
        action="store_true",
        help="only say which there are, and how long each may take",
    )
    options = parser.parse_args()
    unknown = [each for each in options.scenario if not _chosen(each)]
    if unknown:
        parser.error(
            f"there is no scenario {unknown[0]!r}; there are {', '.join(scenarios.NAMES)}"
        )
    chosen = [
        each
        for each in scenarios.ALL
        if (not options.scenario and not each.long)
        or any(each in _chosen(n) for n in options.scenario)
    ]
    if options.list:
        _list(chosen)
        return 0
    if (load := os.getloadavg()[0]) > 1:
        print(
            f"This machine is busy with something else (load {load:.1f}): times will be too long.",
            file=sys.stderr,
        )
    ends = (signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(each, signal.default_int_handler) for each in ends]
    try:
        return _Run(chosen, dry=options.dry).measured()
    finally:
        for each, handler in zip(ends, before, strict=True):
            signal.signal(each, handler)


def _chosen(name: str) -> list[Scenario]:
    """Return the scenarios that a word names: one, or all whose names begin with it, but for the long ones."""
    return [
        each
        for each in scenarios.ALL
        if each.name == name or (each.name.startswith(f"{name}-") and not each.long)
    ]


def _list(chosen: Sequence[Scenario]) -> None:
    for each in chosen:
        print(f"{each.name:26}{each.seconds:5.0f} s  {each.rounds:2} rounds")
    print(f"{'all of them':26}{sum(each.seconds for each in chosen):5.0f} s")


class _Run:
    """Runs one scenario after the other."""

    def __init__(self, chosen: Sequence[Scenario], *, dry: bool) -> None:
        self._left = list(chosen)
        self._dry = dry
        self._begun = time.monotonic()
        shares = sum(each.seconds for each in chosen)
        self._end = self._begun + max(TOTAL, SPARE * shares)
        self._not: dict[str, str] = {}
        """The scenarios that were not measured, with the reasons."""
        self._cut: list[str] = []
        """Of which there is something, but not all."""
        self._done = 0

    def measured(self) -> int:
        """Measure them, each in its share and at most half of what is to spare, and say what was not."""
        try:
            while self._left:
                scenario = self._left.pop(0)
                try:
                    self._measure(scenario)
                except Exception as error:  # noqa: BLE001  # the others are to be measured all the same
                    traceback.print_exc()
                    self._lacks(scenario, f"it failed: {error!r}")
                except BaseException:
                    self._not[scenario.name] = "it was interrupted"
                    raise
        except KeyboardInterrupt:
            self._not.update(
                {each.name: "it was interrupted before" for each in self._left}
            )
        _say("")
        self._tell()
        return 1 if self._not else 0

    def _measure(self, scenario: Scenario) -> None:
        """Measure one, show it, and keep it."""
        _say(f"{scenario.name}: setting up")
        try:
            if scenario.needs:
                scenario.needs()
        except LackingError as lack:
            self._lacks(scenario, f"it cannot be measured here: {lack}")
            return
        begun = time.monotonic()
        spare = (
            self._end
            - begun
            - scenario.seconds
            - sum(each.seconds for each in self._left)
        )
        seconds = scenario.seconds + min(spare, spare / 2)
        if seconds < min(scenario.seconds, 1):
            self._lacks(scenario, "the others have taken all of the time")
            return
        outcome = apart.measured(scenario, seconds, _say)
        _say("")
        took = f"{time.monotonic() - begun:.0f} s of its {scenario.seconds:.0f}"
        figures = measure.found(outcome.samples)
        if outcome.lacks:
            self._lacks(scenario, f"it cannot be measured here: {outcome.lacks}")
        elif outcome.failed:
            print(outcome.failed, file=sys.stderr)
            self._lacks(
                scenario, f"it failed: {outcome.failed.strip().splitlines()[-1]}"
            )
        elif OURS not in figures:
            self._lacks(
                scenario, f"its time was over before there was anything: {took}"
            )
        else:
            recorded = report.record(scenario, figures)
            parts = filter(
                None,
                (
                    report.section(scenario.name, recorded),
                    report.goals(scenario.name, recorded),
                ),
            )
            print(*parts, f"It took {took}.", sep="\n\n", end="\n\n", flush=True)
            if outcome.cut:
                self._cut.append(scenario.name)
            if not self._dry:
                report.save({scenario.name: recorded})
            self._done += 1

    def _lacks(self, scenario: Scenario, why: str) -> None:
        """Say at once that there is nothing of a scenario; it is said again at the end."""
        self._not[scenario.name] = why
        _say("")
        print(f"{scenario.name} is not measured: {why}", file=sys.stderr)

    def _tell(self) -> None:
        """Say what was measured, what was not, and of which the figures are older."""
        now = time.monotonic()
        print(
            f"{self._done} scenarios in {now - self._begun:.0f} s, of at most {self._end - self._begun:.0f}."
        )
        for name in self._cut:
            print(f"Ended before it was through, as there was no more time: {name}")
        for name, why in self._not.items():
            print(f"Not measured: {name}: {why}")
        dates = {name: each["date"] for name, each in report.known().items()}
        for each in scenarios.ALL:
            if each.long:
                since = (
                    f"its figures are of {dates[each.name]}"
                    if each.name in dates
                    else "there are no figures of it"
                )
                print(
                    f"{each.name} takes long, and is measured by `make bench ARGS={each.name}`: {since}."
                )
        for name, wanted in [] if self._dry else report.unexplained():
            print(f"{name} does not say what stands in the way of its goal: {wanted}.")


def _say(text: str) -> None:
    """Show what is going on, on a terminal."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
