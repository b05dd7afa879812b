"""Differences for people and as JSON: old and new side by side, in red and green on a terminal."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from heat_config_agent.cli import terminal
from heat_config_agent.deployments.differences import MISSING, Difference
from heat_config_hooks import verdict
from heat_config_hooks.verdict import Standing, Verdict

_SHORT = 120
"""The most characters of a value that stands in one line with its other value."""

_MOST = 256 * 1024
"""The most characters of two texts whose lines are compared."""

_LINES = 400
"""The most lines of one difference."""


def lines(found: Iterable[Difference]) -> Iterator[str]:
    """Yield the lines of differences, each harmless on a terminal, and coloured there."""
    for value in found:
        path = terminal.line(value.path)
        if value.is_secret:
            yield f"{path}: changed"
            continue
        old, new = _text(value.old), _text(value.new)
        if _is_short(old) and _is_short(new):
            yield (
                f"{path}: {terminal.styled(terminal.line(old), 'minus')} -> "
                f"{terminal.styled(terminal.line(new), 'good')}"
            )
            continue
        yield f"{path}:"
        yield from coloured(unified(old, new, value))


def unified(old: str, new: str, difference: Difference | None = None) -> list[str]:
    """Return the unified diff of two texts, bounded in size; a missing one has no lines."""
    import difflib  # noqa: PLC0415  # only for texts

    if len(old) + len(new) > _MOST:
        return [f"-{len(old)} characters", f"+{len(new)} characters"]
    before, after = old.splitlines(), new.splitlines()
    if difference is not None and difference.old is MISSING:
        before = []
    if difference is not None and difference.new is MISSING:
        after = []
    found = list(difflib.unified_diff(before, after, lineterm=""))[2:]
    if not found:
        return ["(only the ends of lines differ)"]
    more = len(found) - _LINES
    return [*found[:_LINES], *([f"[{more} more lines]"] if more > 0 else [])]


def coloured(diff: Iterable[str]) -> Iterator[str]:
    """Yield the lines of a unified diff, in red and green on a terminal."""
    for each in diff:
        style = {"-": "minus", "+": "good", "@": "live"}.get(each[:1], "")
        yield f"  {terminal.styled(terminal.line(each), style)}"


def would_lines(answer: Verdict, tool: str) -> Iterator[str]:
    """Yield the lines of what the dry run of a tool says."""
    begin = f"dry run of {terminal.line(tool)}:"
    if answer.standing is Standing.OK:
        yield f"{begin} nothing would change"
        return
    if answer.standing is Standing.UNKNOWN:
        yield f"{begin} not known: {terminal.line(answer.reason)}"
        return
    if not answer.changes:
        yield f"{begin} {terminal.line(answer.reason)}"
    for change in answer.changes:
        yield f"{begin} {terminal.line(f'{change.what}: {change.how}')}"
        yield from coloured(change.diff.splitlines())
    if answer.left_out:
        yield f"{begin} {answer.left_out} more changes"


def values(differences: Iterable[Difference]) -> list[dict[str, object]]:
    """Return differences as JSON."""
    return [
        {
            "path": each.path,
            "old": None if each.old is MISSING else each.old,
            "new": None if each.new is MISSING else each.new,
            "added": each.old is MISSING and not each.is_secret,
            "removed": each.new is MISSING and not each.is_secret,
            "secret": each.is_secret,
        }
        for each in differences
    ]


def would_values(answer: Verdict | None) -> dict[str, object] | None:
    """Return what the dry run of a tool says as JSON; null if it has none."""
    if answer is None:
        return None
    return {
        "state": "ok" if answer.standing is Standing.OK else answer.standing.value,
        "message": answer.reason,
        "changes": [verdict.vars_of(each) for each in answer.changes],
        "left_out": answer.left_out,
    }


def _text(value: object) -> str:
    if value is MISSING:
        return "(none)"
    if isinstance(value, str):
        return value or '""'
    indent = 2 if isinstance(value, dict | list) and len(repr(value)) > _SHORT else None
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _is_short(text: str) -> bool:
    return len(text) <= _SHORT and "\n" not in text.rstrip("\n")
