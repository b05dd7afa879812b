"""The table of faults: what was tried against each promise, and what came of it, in the last run of the tests.

A test says what it is about by `@pytest.mark.fault(PROMISE, "the fault", "the outcome")`, and by the fixture `tried`
how often it has tried that, where that is not once. `python tests/support/fault_table.py docs/evidence/faults.md`
writes what the last run has left in `.faults.jsonl`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

LOG = Path(__file__).parents[2] / ".faults.jsonl"
TABLE = Path(__file__).parents[2] / "docs" / "evidence" / "faults.md"

PROMISES = {
    1: "Exactly one truthful result",
    2: "Never a false success",
    3: "Never stuck",
    4: "Never leaks",
    5: "Always explains itself",
}

_HEAD = """\
# Faults

Every fault that the tests try against the five [promises](../../README.md), and what has to come of it.
Real processes, disks and servers show it wherever they can be made to.
`make faults` writes this page from the last run of the tests, in which every outcome held; do not edit it.
[SECURITY.md](../../SECURITY.md) says who is trusted with what.

## In short

| cause | what comes of it |
| --- | --- |
| the agent, a command, a supervisor or a run is killed, at any point \
| the next one continues; each deployment runs once, and its one result is true |
| the power goes, or the machine reboots | a run that was cut short is reported as interrupted; nothing runs twice |
| the disk is full, read-only, failing or without inodes \
| nothing begins that cannot be recorded; a sentence names the path; work continues once there is room |
| files of the state are damaged, removed or replaced \
| intact records are kept, the others are set aside with a sentence; a deployment that may have run does not run again |
| a server is away, hangs, cuts its answers short or answers nonsense \
| the last good document stays in force, and results are kept and sent again; no other server waits |
| a deployment is replaced before its result is delivered \
| the old result is not sent, because it would complete the new action |
| a hook, script, tool or plug-in misbehaves \
| a failure with its reason, or its true exit code; all its processes are ended in time |
| a document, template, archive or answer is hostile or too large \
| a mistake that names the place and the limit, in bounded time and memory; nothing of it is run as code |
| a name, id or path leads elsewhere | nothing is written, removed or read outside of its folder |
| a secret is in inputs, output, errors or names \
| it is masked wherever people look, and gone from disk when its run has ended, also after a kill |
| a certificate, redirect or proxy is wrong | nothing is sent to a server that is not verified |
| the clock is wrong | waits, timeouts and ages stay what they are |
| two agents, two commands, or an upgrade in the middle of a run \
| one works, the others name it; the next version takes the run over |
| processes, memory or open files run out \
| the deployment is postponed or fails with a sentence; the next ones have their turn |

## Counts
"""


VAGUE = re.compile(
    r"\b(all goes on|(that|it|which) is said|told falsely|what is the matter|tidying|anew)\b"
)
"""Words that say too little to a reader who does not know the test."""


@dataclass(frozen=True, order=True)
class Row:
    """A fault that was tried against a promise, and the expected outcome."""

    promise: int
    fault: str
    outcome: str


def record(row: Row, times: int, *, held: bool) -> None:
    """Note what came of a test."""
    line = json.dumps(
        {
            "promise": row.promise,
            "fault": row.fault,
            "outcome": row.outcome,
            "times": times,
            "held": held,
        }
    )
    with LOG.open("a") as file:
        file.write(f"{line}\n")


def recorded() -> dict[Row, int]:
    """Return what the last run has tried, and how often.

    Raises ValueError where something did not hold, or was skipped: a page without it would fail the next whole run.
    """
    counts: dict[Row, int] = {}
    for line in LOG.read_text().splitlines():
        said = json.loads(line)
        row = Row(said["promise"], said["fault"], said["outcome"])
        if not said["held"]:
            raise ValueError(f"it did not hold: {row}")
        counts[row] = counts.get(row, 0) + said["times"]
    for row, times in counts.items():
        if not times:
            raise ValueError(f"it was skipped; pytest -rs says what it needs: {row}")
    return counts


def rows(text: str) -> set[Row]:
    """Return what a table says."""
    parsed, promise = set(), 0
    for line in text.splitlines():
        if heading := re.match(r"## (\d)\. ", line):
            promise = int(heading[1])
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if (
            line.startswith("| ")
            and len(cells) == 3
            and cells[0] not in ("fault", "---")
        ):
            parsed.add(Row(promise, cells[0], cells[1]))
    return parsed


def table(counts: dict[Row, int]) -> str:
    """Return the document: a summary that fits on one screen, then a table for each promise."""
    parts = [_HEAD, _summary(counts)]
    for promise, name in PROMISES.items():
        mine = [
            (row, times)
            for row, times in sorted(counts.items())
            if row.promise == promise
        ]
        lines = [f"| {row.fault} | {row.outcome} | {times} |" for row, times in mine]
        parts.append(
            "\n".join(
                [
                    f"## {promise}. {name}",
                    "",
                    "| fault | outcome | tried |",
                    "| --- | --- | ---: |",
                    *lines,
                    "",
                ]
            )
        )
    return "\n".join(parts)


def _summary(counts: dict[Row, int]) -> str:
    """Return how many faults were tried against each promise, and how often."""
    lines = [
        f"**{len(counts)} faults were tried, {sum(counts.values())} times in all, and every outcome held.**",
        "",
    ]
    for promise, name in PROMISES.items():
        mine = [times for row, times in counts.items() if row.promise == promise]
        anchor = f"{promise}-{name.lower().replace(' ', '-')}"
        lines.append(
            f"- [{name}](#{anchor}): {len(mine)} faults, tried {sum(mine)} times."
        )
    return "\n".join([*lines, ""])


def missing(wanted: Iterable[Row], text: str) -> set[Row]:
    """Return the rows that a table does not have."""
    return set(wanted) - rows(text)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(table(recorded()))
