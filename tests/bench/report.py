"""The figures as JSON and as a page.

`docs/evidence/benchmarks.json` has the figures, and `docs/evidence/benchmarks.md` is made of them.
"""

from __future__ import annotations

import json
import os
import platform
import textwrap
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.measure import Found
from bench.scenario import LIMIT, OURS, THEIRS, Goal, Scenario, Spread
from docs.prose import sentences

DOCS = Path(__file__).parents[2] / "docs" / "evidence"
JSON, PAGE = DOCS / "benchmarks.json", DOCS / "benchmarks.md"

NAMES = {
    OURS: "heat-config-agent",
    THEIRS: "os-collect-config and heat-agents",
    LIMIT: "the limit",
}

_SIZES: Mapping[str, tuple[tuple[float, str], ...]] = {
    "s": ((1, "s"), (1e-3, "ms"), (1e-6, "µs")),
    "B": ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B")),
    "%": ((0.01, "%"),),
}
"""The units of what is measured in a unit, the greatest first."""

_WIDE = 132
"""Signs in a line of a table that can just be read."""

_HEAD = """\
# Benchmarks

The cost of heat-config-agent, compared with the programs that it replaces:
os-collect-config, os-refresh-config, os-apply-config and heat-agents 13.0.0, as released.
`make bench` writes this page from `benchmarks.json`; do not edit it."""

_HEADLINES = (
    ("one-shot-idle", "wall", "apply a document that is done already"),
    ("one-shot", "wall", "apply one new deployment and signal its result"),
    ("batch-marginal", "wall", "each further deployment of a batch"),
    ("re-scan", "marginal", "look at 1000 deployments that are done"),
    ("polls-heat-10kB", "cpu", "one poll of Heat, processor time"),
    ("polls-heat-10kB", "resident", "memory of the daemon"),
    ("change-to-hook", "latency", "from a change in Heat to its hook"),
    ("size", "size", "installed size"),
)
"""The rows of the summary: a scenario, its figure, and a label."""

_REPLACED = {"one-shot-idle": "os-collect-config --one-time"}
"""The command to compare with in the summary, where the replaced programs have several."""

_METHOD = """\
## How it is measured

The programs run in turn, A B A B, after a warm-up where a run is short, unless a scenario says otherwise.
Shown are medians; the least and the most are in brackets.
A ratio says how much of another's value heat-config-agent needs: «5 times less», or «1.4 times» as much.
*The limit* is a C program (`tests/bench/limit.c`) that does the least that keeps the promises,
or the user's bare command.
The machine is shared: the ratios hold, the times are its own.
Times never gate a change; the counts in `tests/cost/test_counters.py` do, as no machine's load changes them."""


def record(scenario: Scenario, figures: Found) -> dict[str, Any]:
    """Return what was measured in a scenario, as JSON."""
    words = _words(scenario, figures)
    return {
        "title": words["title"],
        "note": words["note"],
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": machine(),
        "figures": words["figures"],
        "subjects": {
            subject: {name: asdict(spread) for name, spread in values.items()}
            for subject, values in figures.items()
        },
        "goals": words["goals"],
    }


def goal(aim: Goal, found: Found) -> dict[str, Any]:
    """Return a goal, and what was reached: a ratio, or a value. None where there is nothing to compare with."""
    ours, other = (found.get(each, {}).get(aim.figure) for each in (OURS, aim.against))
    reached = ours.median if ours else None
    if aim.against and reached is not None:
        reached = reached / other.median if other and other.median > 0 else None
    return {
        **asdict(aim),
        "reached": reached,
        "met": None if reached is None else reached <= aim.at_most,
    }


def machine() -> str:
    """Return what machine this is, in one line."""
    model = next(
        (
            line.partition(":")[2].strip()
            for line in _lines("/proc/cpuinfo")
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    memory = next(
        (
            int(line.split()[1])
            for line in _lines("/proc/meminfo")
            if line.startswith("MemTotal")
        ),
        0,
    )
    system = next(
        (
            line.partition("=")[2].strip('"')
            for line in _lines("/etc/os-release")
            if line.startswith("PRETTY_NAME")
        ),
        "",
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


def known() -> dict[str, Any]:
    """Return what was measured until now: scenario → what is recorded of it."""
    return json.loads(JSON.read_text()) if JSON.exists() else {}


def save(new: Mapping[str, Any]) -> None:
    """Put what was measured in the place of what was measured of the same scenarios before, and write the page anew."""
    every = {**known(), **new}
    _write(JSON, json.dumps(every, indent=1, ensure_ascii=False) + "\n")
    _write(PAGE, page(every))


def _write(path: Path, text: str) -> None:
    """Write a file whole, or not at all."""
    partial = path.with_name(f"{path.name}.new")
    partial.write_text(text)
    partial.replace(path)


def reworded(every: Mapping[str, Any], now: Iterable[Scenario]) -> dict[str, Any]:
    """Return what was measured, with the words and the goals that its scenarios have now."""
    scenarios = {each.name: each for each in now}
    return {
        name: {**each, **_words(scenarios[name], _found(each))}
        for name, each in every.items()
    }


def _words(scenario: Scenario, found: Found) -> dict[str, Any]:
    """Return what is recorded of a scenario and may change without its being measured anew."""
    figures = {
        each.name: {"title": each.title, "unit": each.unit} for each in scenario.figures
    }
    goals = [goal(each, found) for each in scenario.goals]
    return {
        "title": scenario.title,
        "note": scenario.note,
        "figures": figures,
        "goals": goals,
    }


def _found(each: Mapping[str, Any]) -> Found:
    """Return what was measured, of what is recorded."""
    return {
        subject: {figure: Spread(**values) for figure, values in figures.items()}
        for subject, figures in each["subjects"].items()
    }


def unexplained() -> list[tuple[str, str]]:
    """Return the goals that are not met, and of which nobody says why: the scenario, and what is wanted."""
    return [
        (name, f"{title}, {wanted}")
        for name, title, wanted, each in _missed(known())
        if not each["because"]
    ]


def _missed(
    every: Mapping[str, Any],
) -> Iterator[tuple[str, str, str, Mapping[str, Any]]]:
    """Yield the goals that are not met: the scenario, the figure's title, what is wanted, and the goal."""
    for name, scenario in every.items():
        for each in scenario["goals"]:
            if each["met"] is False:
                figure = scenario["figures"][each["figure"]]
                yield name, figure["title"], _wanted(each, figure["unit"]), each


def page(every: Mapping[str, Any]) -> str:
    """Return the page."""
    from bench.scenarios import NAMES as ORDER  # noqa: PLC0415  # they import what is above

    listed = {
        name: every[name]
        for name in (*ORDER, *sorted(set(every) - set(ORDER)))
        if name in every
    }
    measured = {(each["date"], each["machine"]) for each in listed.values()}
    newest = max(measured, default=None)
    machines = [f"- {name} ({date})" for date, name in sorted(measured, reverse=True)]
    parts = [
        _HEAD,
        _summary(listed),
        _METHOD,
        "\n".join(machines),
        "## Goals",
        _goals(listed),
        _reasons(listed),
    ]
    sections = (
        section(
            name,
            each,
            ""
            if (each["date"], each["machine"]) == newest
            else f"Measured on {each['date']}.",
        )
        for name, each in listed.items()
    )
    return "\n\n".join(filter(None, [*parts, *sections])) + "\n"


def section(name: str, each: Mapping[str, Any], when: str = "") -> str:
    """Return what the page says of one scenario."""
    parts = [
        f"## {name}",
        f"{each['title']}.",
        _filled(" ".join(filter(None, (each["note"], when)))),
    ]
    return "\n\n".join(
        filter(None, [*parts, _figures(each["figures"], each["subjects"])])
    )


def _summary(listed: Mapping[str, Any]) -> str:
    """Return what fits on one screen: how many goals are met, which are not, and a figure of each kind of work."""
    judged = [
        each["met"]
        for scenario in listed.values()
        for each in scenario["goals"]
        if each["met"] is not None
    ]
    missed = [
        f"- [{name}](#{name.lower()}): {title}, {wanted}"
        for name, title, wanted, _ in _missed(listed)
    ]
    rows = [["work", NAMES[OURS], "the programs it replaces", "ratio"]]
    for name, figure, words in _HEADLINES:
        found = listed.get(name, {}).get("subjects", {})
        ours, theirs = (
            found.get(each, {}).get(figure)
            for each in (OURS, _REPLACED.get(name, THEIRS))
        )
        if ours:
            unit = listed[name]["figures"][figure]["unit"]
            compared = theirs and min(ours["median"], theirs["median"]) > 0
            rows.append(
                [
                    f"[{words}](#{name.lower()})",
                    amount(ours["median"], unit),
                    amount(theirs["median"], unit) if theirs else "",
                    times(ours["median"] / theirs["median"]) if compared else "",
                ]
            )
    met = f"{judged.count(True)} of {len(judged)} [goals](#goals) are met."
    but = "These are not met; the reasons are below the table of goals:"
    parts = [
        "## Summary",
        met,
        _table(rows) if rows[1:] else "",
        *([but, "\n".join(missed)] if missed else []),
    ]
    return "\n\n".join(filter(None, parts))


def _filled(text: str, after: str = "") -> str:
    """Return text with one sentence per line, a long one in several."""
    return f"\n{after}".join(
        textwrap.fill(
            each,
            120 - len(after),
            subsequent_indent=after,
            break_long_words=False,
            break_on_hyphens=False,
        )
        for each in sentences(text)
    )


def _figures(figures: Mapping[str, Any], subjects: Mapping[str, Any]) -> str:
    """Return a table of what was measured: a row for each that is compared, or for each figure if that is narrower.

    Or for each figure of each, where both are too wide to be read.
    """
    ours = subjects[OURS]
    others = {name: found for name, found in subjects.items() if name != OURS and found}
    figures = {
        name: about
        for name, about in figures.items()
        if any(name in found for found in (ours, *others.values()))
    }
    rows = [
        [
            "",
            *(word for about in figures.values() for word in (about["title"], "ratio")),
        ]
    ]
    rows += [[f"**{NAMES[OURS]}**", *_cells(figures, ours, None)]]
    rows += [
        [_name(name), *_cells(figures, found, ours)] for name, found in others.items()
    ]
    columns = [
        [
            "",
            f"**{NAMES[OURS]}**",
            *(word for name in others for word in (_name(name), "ratio")),
        ]
    ]
    for number, about in enumerate(figures.values()):
        of_others = (row[1 + 2 * number + side] for row in rows[2:] for side in (0, 1))
        columns.append([about["title"], rows[1][1 + 2 * number], *of_others])
    values = [
        [title if number == 0 else "", row[0], *row[1 + 2 * place : 3 + 2 * place]]
        for place, title in enumerate(rows[0][1::2])
        for number, row in enumerate(row for row in rows[1:] if row[1 + 2 * place])
    ]
    runs = [
        max((each["runs"] for each in found.values()), default=0)
        for found in (ours, *others.values())
    ]
    if max(runs) > 1:
        rows = [
            [*row, word]
            for row, word in zip(rows, ["runs", *map(str, runs)], strict=True)
        ]
        columns.append(
            [
                "runs",
                str(runs[0]),
                *(word for number in runs[1:] for word in (str(number), "")),
            ]
        )
        by = {row[0]: row[-1] for row in rows}
        values = [[*row, by[row[1]]] for row in values]
    narrower = min((_table(_used(each)) for each in (rows, columns)), key=_width)
    head = ["", "", "", "ratio", *(["runs"] if max(runs) > 1 else [])]
    return narrower if _width(narrower) <= _WIDE else _table(_used([head, *values]))


def _width(table: str) -> int:
    return table.index("\n")


def _used(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return a table without the columns that have nothing but a title."""
    places = [
        place
        for place in range(len(rows[0]))
        if not place or any(row[place] for row in rows[1:])
    ]
    return [[row[place] for place in places] for row in rows]


def goals(name: str, each: Mapping[str, Any]) -> str:
    """Return what the page says of one scenario's goals, if it has any."""
    return (
        "\n\n".join(filter(None, (_goals({name: each}), _reasons({name: each}))))
        if each["goals"]
        else ""
    )


def _goals(listed: Mapping[str, Any]) -> str:
    rows = [["scenario", "figure", "goal", "reached", ""]]
    for name, scenario in listed.items():
        for goal in scenario["goals"]:
            figure = scenario["figures"][goal["figure"]]
            rows.append(
                [
                    f"[{name}](#{name.lower()})",
                    figure["title"],
                    _wanted(goal, figure["unit"]),
                    _reached(goal, figure["unit"]),
                    {True: "met", False: "**not met**", None: ""}[goal["met"]],
                ]
            )
    return _table(rows)


def _reasons(listed: Mapping[str, Any]) -> str:
    """Return what stands in the way of goals that are not met, as a list."""
    return "\n".join(
        _filled(
            f"- {name}, {title}, {wanted}: {each['because'] or 'nobody has said yet why it is not met.'}",
            "  ",
        )
        for name, title, wanted, each in _missed(listed)
    )


def _wanted(each: Mapping[str, Any], unit: str) -> str:
    most, other = each["at_most"], _name(each["against"])
    if not other:
        return f"at most {amount(most, unit)}"
    if most == 1:
        return f"no more than {other}"
    return (
        f"{times(most)} than {other}" if most < 1 else f"at most {times(most)} {other}"
    )


def _reached(each: Mapping[str, Any], unit: str) -> str:
    if each["reached"] is None:
        return "not measured"
    return times(each["reached"]) if each["against"] else amount(each["reached"], unit)


def _name(subject: str) -> str:
    """Return who it is: a name, or a command, which is shown as such."""
    return NAMES.get(subject) or (f"`{subject}`" if "-" in subject else subject)


def times(ratio: float) -> str:
    """Return a ratio in words: «80 times less», or «1.4 times». What is below nothing was lost in noise."""
    if ratio <= 0:
        return "nothing to be seen"
    if _number(ratio) == "1" or _number(1 / ratio) == "1":
        return "as much"
    return (
        f"{_number(1 / ratio)} times less" if ratio < 1 else f"{_number(ratio)} times"
    )


def _cells(
    figures: Mapping[str, Any], found: Mapping[str, Any], ours: Mapping[str, Any] | None
) -> Iterator[str]:
    """Yield for each figure what was found, and how much ours is of that; nothing where there is nothing."""
    for figure, about in figures.items():
        values = found.get(figure)
        yield "" if values is None else _spread(values, about["unit"])
        both = [
            each[figure]["median"] for each in (ours, found) if each and figure in each
        ]
        yield (
            times(both[0] / both[1])
            if ours and len(both) == 2 and min(both) > 0
            else ""
        )


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
    return next(
        (each for each in sizes if abs(value) >= each[0]),
        sizes[-1] if sizes else (1, ""),
    )


def _table(rows: Sequence[Sequence[str]]) -> str:
    """Return a table whose columns are in line where it is read as it is, too. The first row is its head."""
    widths = [max(3, *map(len, column)) for column in zip(*rows, strict=True)]
    head, *lines = (
        [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        for row in rows
    )
    return "\n".join(
        f"| {' | '.join(line)} |"
        for line in (head, ["-" * width for width in widths], *lines)
    )


def main() -> None:
    """Write what was measured anew, with the words and the goals of today."""
    from bench import scenarios  # noqa: PLC0415  # they import what is above

    save(reworded(known(), scenarios.ALL))


if __name__ == "__main__":
    main()
