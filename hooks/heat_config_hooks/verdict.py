"""The verdict of a verification: whether the machine is as a deployment says.

A verification changes nothing. A hook that can verify has two more functions, `verify` and `verdict`:
`hooks/README.md` describes them.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Iterable

from heat_config_hooks.reply import EDGE, STATUS, Reply
from heat_config_hooks.values import dataclass, replace

KEY = "heat_config_verdict"
"""The key of a reply that carries a verdict."""

MOST_CHANGES = 100
"""The most differences that a verdict lists: `left_out` counts the others."""

_DIFF = 40
"""The most lines of the text of one difference."""

_LINE = 500
"""The most characters of one of these lines, and of a sentence."""


class Standing(str, enum.Enum):
    """The answer to the question whether a deployment is in effect."""

    OK = "ok"
    DRIFTED = "drifted"
    UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True)
class Change:
    """One difference between the machine and what a deployment says."""

    what: str
    """The thing that differs: a file, a unit, a container, a resource or a task."""
    how: str
    """The difference in a few words: `it is missing`, `its content differs`."""
    diff: str = ""
    """The lines that differ, as `diff -u` shows them: `-` is the machine, and `+` is what the deployment says."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The answer of a verification."""

    standing: Standing
    reason: str = ""
    """One sentence; empty if the deployment is in effect."""
    changes: tuple[Change, ...] = ()
    left_out: int = 0
    """The number of further differences that are not listed."""
    files: tuple[str, ...] = ()
    """The paths of the files on which a verdict depends, if it depends on nothing else.

    As long as none of them changes, the caller may take the verdict for granted.
    """


def in_effect(files: Iterable[str] = ()) -> Verdict:
    """Return the verdict that everything is as the deployment says; `files` see `Verdict.files`."""
    return Verdict(standing=Standing.OK, files=tuple(files))


def drifted(changes: Iterable[Change], reason: str = "") -> Verdict:
    """Return the verdict that something differs. Without a `reason`, the first difference is the reason."""
    every = tuple(changes)
    if not reason and every:
        more = f", and {len(every) - 1} more" if len(every) > 1 else ""
        reason = f"{every[0].what}: {every[0].how}{more}"
    return Verdict(
        standing=Standing.DRIFTED,
        reason=reason,
        changes=every[:MOST_CHANGES],
        left_out=max(len(every) - MOST_CHANGES, 0),
    )


def unknown(reason: str) -> Verdict:
    """Return the verdict that it cannot be said."""
    return Verdict(standing=Standing.UNKNOWN, reason=reason)


def together(parts: Iterable[Verdict]) -> Verdict:
    """Return the verdict about all parts of a deployment: what has drifted comes first, then what is unknown."""
    every = tuple(parts)
    changed = [part for part in every if part.standing is Standing.DRIFTED]
    if len(changed) > 1:
        merged = drifted(change for part in changed for change in part.changes)
        left_out = merged.left_out + sum(part.left_out for part in changed)
        return replace(merged, left_out=left_out)
    doubtful = [part for part in every if part.standing is Standing.UNKNOWN]
    if changed or doubtful:
        return (changed or doubtful)[0]
    # the verdict depends on nothing but files only if all parts do
    lasting = all(part.files for part in every)
    return in_effect(path for part in every for path in part.files if lasting)


def text_diff(present: str, wanted: str) -> str:
    """Return the lines that differ between the text on the machine and that of the deployment, bounded in size."""
    import difflib  # noqa: PLC0415  # most verdicts need none

    lines = difflib.unified_diff(
        present.splitlines(), wanted.splitlines(), lineterm="", n=1
    )
    return bounded(line for line in lines if line[:3] not in ("---", "+++"))


def tool_diff(text: str) -> str:
    """Return the diff that a tool gave in the form of `diff -u`, without its head, bounded in size."""
    before, mark, after = text.partition("@@")
    return bounded(f"{mark}{after}".splitlines()) if mark else bounded([before.strip()])


def bounded(lines: Iterable[str]) -> str:
    """Return lines of a difference as text of bounded size."""
    every = list(lines)
    more = len(every) - _DIFF
    shown = [_cut(line, _LINE + EDGE) for line in every[:_DIFF]]
    return "\n".join([*shown, *([f"[{more} more lines]"] if more > 0 else [])])


def shortened(verdict: Verdict) -> Verdict:
    """Return a verdict whose secrets are masked with lines of their final length.

    They are `EDGE` characters longer before: a secret of which half was cut off could not be masked any more.
    """
    changes = tuple(
        Change(
            what=_cut(each.what, _LINE),
            how=_cut(each.how, _LINE),
            diff="\n".join(_cut(line, _LINE) for line in each.diff.split("\n")),
        )
        for each in verdict.changes
    )
    return replace(verdict, reason=_cut(verdict.reason, _LINE), changes=changes)


def _cut(line: str, length: int) -> str:
    return line if len(line) <= length else f"{line[:length]}…"


def unchecked(names: Iterable[str], total: int, word: str) -> Verdict:
    """Return the verdict that some of the tasks, resources or states of a config cannot be checked.

    `word` is their name in the plural.
    """
    every = list(dict.fromkeys(names))
    listed = ", ".join([*every[:_NAMED], *(["…"] if len(every) > _NAMED else [])])
    return unknown(f"{len(every)} of {total} {word} cannot be checked: {listed}")


_NAMED = 3
"""The most names that a sentence lists."""


def encoded(verdict: Verdict) -> Reply:
    """Return a verdict in the form of a reply: it takes the same way from the process of the hook to the agent."""
    values = {
        "state": verdict.standing.value,
        "reason": verdict.reason,
        "changes": [vars_of(change) for change in verdict.changes],
        "left_out": verdict.left_out,
        "files": list(verdict.files),
    }
    return {STATUS: 0, KEY: json.dumps(values)}


def vars_of(change: Change) -> dict[str, str]:
    """Return a difference as JSON."""
    return {"what": change.what, "how": change.how, "diff": change.diff}


def of_reply(reply: Reply) -> Verdict:
    """Return the verdict that a reply carries; `unknown` if it carries none, as of a command that could not start."""
    text = reply.get(KEY)
    if isinstance(text, str):
        return of_json(text)
    sentence = reply.get("deploy_stderr")
    first = sentence.strip().partition("\n")[0] if isinstance(sentence, str) else ""
    return unknown(first or "the verification has left no answer")


def of_json(text: str) -> Verdict:
    """Return the verdict in the JSON of a hook: an object with `state`, and perhaps `reason` and `changes`."""
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return unknown("the answer of the verification is not JSON")
    if not isinstance(values, dict):
        return unknown("the answer of the verification is not a JSON object")
    try:
        standing = Standing(str(values.get("state")))
    except ValueError:
        states = ", ".join(standing.value for standing in Standing)
        return unknown(f"the answer of the verification has no `state` of {states}")
    given, named = values.get("changes"), values.get("files")
    changes = [
        Change(
            what=_text(change, "what"),
            how=_text(change, "how"),
            diff=str(change.get("diff") or ""),
        )
        for change in (given if isinstance(given, list) else [])
        if isinstance(change, dict)
    ]
    reason = _text(values, "reason")
    if standing is Standing.DRIFTED:
        verdict = drifted(changes, reason or ("" if changes else "it gave no reason"))
    else:
        verdict = Verdict(standing=standing, reason=reason, changes=tuple(changes))
    left_out = values.get("left_out")
    return Verdict(
        standing=verdict.standing,
        reason=verdict.reason,
        changes=verdict.changes,
        left_out=verdict.left_out + (left_out if isinstance(left_out, int) else 0),
        files=tuple(map(str, named)) if isinstance(named, list) else (),
    )


def _text(values: dict[str, object], name: str) -> str:
    """Return a text of the JSON as one line of bounded length."""
    value = values.get(name)
    return (
        " ".join(str(value).split())[: _LINE + EDGE] if value not in (None, "") else ""
    )
