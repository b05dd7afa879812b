"""What was measured, as JSON and as a page to read: `docs/benchmarks.json`, of which `docs/benchmarks.md` is made."""

from __future__ import annotations

import json
import os
import platform
import textwrap
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.measure import Found
from bench.scenario import LIMIT, OURS, THEIRS, Goal, Scenario

DOCS = Path(__file__).parents[2] / "docs"
JSON, PAGE = DOCS / "benchmarks.json", DOCS / "benchmarks.md"

NAMES = {OURS: "heat-config-agent", THEIRS: "os-collect-config and heat-agents", LIMIT: "the limit"}

_SIZES: Mapping[str, tuple[tuple[float, str], ...]] = {
    "s": ((1, "s"), (1e-3, "ms"), (1e-6, "µs")),
    "B": ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B")),
    "%": ((0.01, "%"),),
}
"""The units of what is measured in a unit, the greatest first."""

_HEAD = """\
# What it costs

Measured by `make bench` beside the programs that are replaced (os-collect-config, os-refresh-config, os-apply-config
and heat-agents 13.0.0, as released) and beside the limit: a C program (`tests/bench/limit.c`) that does the least that
keeps the promises, or the user's bare command. All of them run in turn, A B A B, after a warm-up. Shown are medians, in
brackets the least and the most. A ratio says how much of a row's value heat-config-agent takes: «5 times less», or
«1.4 times» as much. The machine is a shared one: the ratios hold, the times are its own. What gates changes are counts,
which no machine's mood touches: `tests/test_counters.py`.

Written by `make bench` from `benchmarks.json`."""


def record(scenario: Scenario, found: Found) -> dict[str, Any]:
    """Return what was measured in a scenario, as JSON."""
    return {
        "title": scenario.title,
        "note": scenario.note,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": machine(),
        "figures": {each.name: {"title": each.title, "unit": each.unit} for each in scenario.figures},
        "subjects": {
            subject: {name: asdict(spread) for name, spread in values.items()} for subject, values in found.items()
        },
        "goals": [goal(each, found) for each in scenario.goals],
    }


def goal(wanted: Goal, found: Found) -> dict[str, Any]:
    """Return a goal, and what was reached: a ratio, or a value. None where there is nothing to compare with."""
    reached: float | None = found[OURS][wanted.figure].median
    if wanted.against:
        other = found.get(wanted.against, {}).get(wanted.figure)
        reached = _ratio(reached, other.median if other else None)
    return {**asdict(wanted), "reached": reached, "met": None if reached is None else reached <= wanted.at_most}


def _ratio(ours: float | None, other: float | None) -> float | None:
    """Return how much ours is of another's. Beside nothing, there is no ratio."""
    return ours / other if ours is not None and other is not None and other > 0 else None


def machine() -> str:
    """Return what machine this is, in one line."""
    model = next(
        (line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")),
        platform.machine(),
    )
    memory = next((int(line.split()[1]) for line in _lines("/proc/meminfo") if line.startswith("MemTotal")), 0)
    system = next(
        (line.partition("=")[2].strip('"') for line in _lines("/etc/os-release") if line.startswith("PRETTY_NAME")), ""
    )
    kernel = platform.release().partition("-")[0]
    return (
        f"{len(os.sched_getaffinity(0))} × {model}, {memory / 2**20:.0f} GiB, {system}, Linux {kernel}, "
        f"Python {platform.python_version()}"
    )


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []


def save(new: Mapping[str, Any]) -> None:
    """Put what was measured in the place of what was measured of the same scenarios before, and write the page anew."""
    known = json.loads(JSON.read_text()) if JSON.exists() else {}
    known.update(new)
    JSON.write_text(json.dumps(known, indent=1, ensure_ascii=False) + "\n")
    PAGE.write_text(page(known))


def page(known: Mapping[str, Any]) -> str:
    """Return the page."""
    from bench.scenarios import NAMES as ORDER  # noqa: PLC0415  # they import what is above

    listed = {name: known[name] for name in (*ORDER, *sorted(set(known) - set(ORDER))) if name in known}
    machines = sorted({f"{each['machine']} ({each['date']})" for each in known.values()})
    parts = [_HEAD, "\n".join(f"- {each}" for each in machines), "## Goals", _goals(listed)]
    return "\n\n".join([*parts, *(section(name, each) for name, each in listed.items())]) + "\n"


def section(name: str, each: Mapping[str, Any]) -> str:
    """Return what the page says of one scenario."""
    figures, subjects = each["figures"], each["subjects"]
    head = ["", *(word for about in figures.values() for word in (about["title"], "ratio"))]
    rows = [[f"**{NAMES[OURS]}**", *_cells(figures, subjects[OURS], None)]]
    rows += [
        [_name(subject), *_cells(figures, found, subjects[OURS])]
        for subject, found in subjects.items()
        if subject != OURS
    ]
    used = [place for place in range(len(head)) if not place or any(row[place] for row in rows)]
    table = _table([[row[place] for place in used] for row in [head, ["---"] * len(head), *rows]])
    note = [textwrap.fill(each["note"], 120, break_long_words=False, break_on_hyphens=False)] if each["note"] else []
    return "\n\n".join([f"## {name}", f"{each['title']}.", *note, table])


def goals(name: str, each: Mapping[str, Any]) -> str:
    """Return what the page says of one scenario's goals, if it has any."""
    return _goals({name: each}) if each["goals"] else ""


def _goals(listed: Mapping[str, Any]) -> str:
    rows = [["scenario", "figure", "goal", "reached", ""], ["---"] * 5]
    for name, scenario in listed.items():
        for each in scenario["goals"]:
            figure = scenario["figures"][each["figure"]]
            rows.append(
                [
                    f"[{name}](#{name})",
                    figure["title"],
                    _wanted(each, figure["unit"]),
                    _reached(each, figure["unit"]),
                    {True: "met", False: "**not met**", None: ""}[each["met"]],
                ]
            )
    return _table(rows)


def _wanted(each: Mapping[str, Any], unit: str) -> str:
    most, other = each["at_most"], _name(each["against"])
    if not other:
        return f"at most {amount(most, unit)}"
    if most == 1:
        return f"no more than {other}"
    return f"{times(most)} than {other}" if most < 1 else f"at most {times(most)} {other}"


def _reached(each: Mapping[str, Any], unit: str) -> str:
    if each["reached"] is None:
        return "not measured"
    return times(each["reached"]) if each["against"] else amount(each["reached"], unit)


def _name(subject: str) -> str:
    """Return who it is: a name, or a command, which is shown as such."""
    return NAMES.get(subject) or (f"`{subject}`" if "-" in subject else subject)


def times(ratio: float) -> str:
    """Return a ratio in words: «80 times less», or «1.4 times»."""
    return f"{_number(1 / ratio)} times less" if 0 < ratio < 1 else f"{_number(ratio)} times"


def _cells(figures: Mapping[str, Any], found: Mapping[str, Any], ours: Mapping[str, Any] | None) -> Iterator[str]:
    """Yield for each figure what was found, and how much ours is of that; nothing where there is nothing."""
    for figure, about in figures.items():
        values = found.get(figure)
        compared = None
        if ours is not None and values is not None and figure in ours:
            compared = _ratio(ours[figure]["median"], values["median"])
        yield "" if values is None else _spread(values, about["unit"])
        yield "" if compared is None else times(compared)


def _spread(values: Mapping[str, Any], unit: str) -> str:
    if values["least"] == values["most"]:
        return amount(values["median"], unit)
    size, _ = scale(values["median"], unit)
    least, most = (_number(values[end] / size) for end in ("least", "most"))
    return f"{amount(values['median'], unit)} ({least} – {most})"


def amount(value: float, unit: str) -> str:
    """Return a value as people write it."""
    size, word = scale(value, unit)
    return f"{_number(value / size)} {word}".rstrip()


def _number(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 999.5 else f"{value:.0f}"


def scale(value: float, unit: str) -> tuple[float, str]:
    """Return the unit in which people write such a value: how much it is, and its name."""
    sizes = _SIZES.get(unit, ())
    return next((each for each in sizes if abs(value) >= each[0]), sizes[-1] if sizes else (1, ""))


def _table(rows: Sequence[Sequence[str]]) -> str:
    """Return a table whose columns are in line where it is read as it is, too. Its second row is the rule."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        [cell.ljust(width, "-" if number == 1 else " ") for cell, width in zip(row, widths, strict=True)]
        for number, row in enumerate(rows)
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":  # what was measured may be shown in another way without being measured again
    PAGE.write_text(page(json.loads(JSON.read_text())))
