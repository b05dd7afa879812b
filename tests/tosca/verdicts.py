"""Folders of documents with `verdicts.jsonl`: what a validator has to say of each.

A line has `file` and `valid`; with `wants`, a mistake of that code at that line is among those that are found; with
`mistakes`, all of these are; `warnings` and `open` are codes that are among those that are found.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from heat_config_stack.tosca.checks.checker import Checked

VERSIONS = ("1_0", "1_1", "1_2", "1_3")


def verdicts(folder: Path) -> list[tuple[Path, dict[str, Any]]]:
    """Return the verdicts of a folder, each with the folder."""
    lines = (folder / "verdicts.jsonl").read_text().splitlines()
    return [(folder, json.loads(line)) for line in lines]


def difference(verdict: dict[str, Any], checked: Checked) -> str:
    """Return how an answer differs from a verdict; nothing where it does not."""
    has = [
        (mistake.code, mistake.place.line if mistake.place else None)
        for mistake in checked.mistakes
    ]
    if verdict["valid"] == bool(has):
        return (
            f"it is {'valid' if verdict['valid'] else 'not valid'}: {checked.mistakes}"
        )
    wanted = [verdict["wants"]] if "wants" in verdict else verdict.get("mistakes") or []
    missing = [
        mistake for mistake in wanted if (mistake["code"], mistake["line"]) not in has
    ]
    if missing:
        return f"{missing} is not among {has}"
    for key, mistakes in (("warnings", checked.warnings), ("open", checked.open)):
        codes = {mistake.code for mistake in mistakes}
        if not set(verdict.get(key, ())) <= codes:
            return f"{key}: {verdict[key]} is not among {codes}"
    return ""
