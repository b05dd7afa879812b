"""The table of what the agent was tested on: systems, versions of Python, releases of Heat.

A test says what it is about by `@pytest.mark.tested_on(KIND, SUBJECT)`, and by the fixture `found` what exactly was
there. `tested_on/write.py` writes what the tests have left in `.tested-on.jsonl`: of each subject, what its last test
has come to, or the reason why it was not tried.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

FOUND = pytest.StashKey[str]()
"""The exact version that a test has found."""

BY_HAND = "it takes minutes: `make test-machine`"
"""Why a test is skipped where no target asks for it."""

LOG = Path(__file__).parents[2] / ".tested-on.jsonl"
TABLE = Path(__file__).parents[2] / "docs/evidence/tested-on.md"

KINDS = {
    "system": (
        "Systems",
        """\
The Debian package is installed on a booted machine.
The daemon carries out a deployment, a command carries out an example, and every module of the agent loads.
Where arm64 is emulated, each program is, and not the kernel.""",
    ),
    "python": (
        "Python",
        "The tests of modules pass under each version, with the newest modules that it takes.",
    ),
    "heat": (
        "Heat",
        """\
A stack of two servers is created, updated, suspended, resumed and deleted, over each transport and signal.
Heat and Keystone are real, and of the same day.
A server whose metadata is at a temporary URL is not suspended: no Heat can do that.""",
    ),
}
"""The kinds of subjects, each with its heading and with what is done."""

_HEAD = """\
# Tested on

What the agent was tested on, and what was not tried, with the reason.
`make tested-on` writes this page from what its tests have done; do not edit it.
"""


@dataclass(frozen=True)
class Row:
    """The outcome of a test on a system."""

    kind: str
    """One of `KINDS`."""
    subject: str
    """For example «Debian 13 (trixie), amd64»."""
    found: str
    """The exact version that was there, or the reason why it was not tried."""
    outcome: str
    """«passed», «failed» or «not tried»."""


def record(row: Row) -> None:
    """Note what has come of a test."""
    with LOG.open("a", encoding="utf-8") as file:
        file.write(f"{json.dumps([row.kind, row.subject, row.found, row.outcome])}\n")


def note(about: tuple[str, str], report: pytest.TestReport, version: str) -> None:
    """Record what a test has come to, unless it was left out because it was not asked for."""
    kind, subject = about
    if report.skipped and isinstance(report.longrepr, tuple):
        reason = report.longrepr[2].removeprefix("Skipped: ")
        if reason != BY_HAND:
            record(Row(kind, subject, reason, "not tried"))
    else:
        record(Row(kind, subject, version, report.outcome))


def recorded() -> list[Row]:
    """Return the last row of each subject. Raises ValueError where a test has failed."""
    latest: dict[tuple[str, str], Row] = {}
    for line in LOG.read_text(encoding="utf-8").splitlines():
        row = Row(*json.loads(line))
        latest[row.kind, row.subject] = row
    failed = [row.subject for row in latest.values() if row.outcome == "failed"]
    if failed:
        raise ValueError(
            f"these tests have failed, so there is no table: {', '.join(failed)}"
        )
    return list(latest.values())


def rows(text: str) -> dict[str, set[str]]:
    """Return the subjects of a table, by their kind."""
    subjects: dict[str, set[str]] = {kind: set() for kind in KINDS}
    kinds = {heading: kind for kind, (heading, _) in KINDS.items()}
    kind = ""
    for line in text.splitlines():
        if line.startswith("## "):
            kind = kinds[line.removeprefix("## ")]
        elif line.startswith("| ") and not line.startswith(("| on ", "| --- ")):
            subjects[kind].add(line.split("|")[1].strip())
    return subjects


def table(outcomes: list[Row], subjects: Mapping[str, Sequence[str]]) -> str:
    """Return the page, with a row for each wanted subject of each kind: what no test has come to was not tried."""
    by_subject = {(row.kind, row.subject): row for row in outcomes}
    parts = [_HEAD]
    for kind, (heading, what) in KINDS.items():
        lines = [
            f"## {heading}",
            "",
            what,
            "",
            "| on | outcome | there |",
            "| --- | --- | --- |",
        ]
        for subject in subjects[kind]:
            row = by_subject.get(
                (kind, subject),
                Row(kind, subject, "the tests were not run with it", "not tried"),
            )
            lines.append(f"| {row.subject} | {row.outcome} | {row.found} |")
        parts.append("\n".join([*lines, ""]))
    return "\n".join(parts)
