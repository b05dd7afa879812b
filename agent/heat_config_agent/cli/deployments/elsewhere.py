"""The deployments of stacks that other hosts carry out: as things that are named, and as their hosts verify them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from heat_config_agent.cli import stack_package
from heat_config_agent.cli.deployments.named import Named
from heat_config_agent.cli.stack_package import Elsewhere
from heat_config_agent.model.entry import Entry, State
from heat_config_agent.model.errors import AgentError
from heat_config_agent.model.states import Shown
from heat_config_agent.settings.effective import Settings
from heat_config_agent.verification.machine import Finding
from heat_config_hooks.verdict import Change, Standing, Verdict


def verified(
    settings: Settings, chosen: Sequence[Elsewhere]
) -> Iterator[tuple[Named, Finding]]:
    """Yield what their hosts find about deployments; of a host that is not reached, that they are unknown."""
    by_host: dict[tuple[str, str], list[Elsewhere]] = {}
    for each in chosen:
        by_host.setdefault((each.stack, each.place), []).append(each)
    for group in by_host.values():
        by_run, why = _asked(group)
        for each in group:
            values = by_run.get(each.run, {"state": "unknown", "message": why})
            yield _row(settings, each, values)


def _asked(group: Sequence[Elsewhere]) -> tuple[dict[str, Mapping[str, Any]], str]:
    """Return the rows of `verify --json` on a host by the ids of the runs, and why some are missing."""
    place = group[0].place
    try:
        printed = stack_package.verify_elsewhere(group)
    except AgentError as error:
        return {}, str(error)
    lines = printed.strip().splitlines()
    try:
        told = json.loads(lines[-1] if lines else "")
        rows = told["data"]["deployments"] if told["data"] else []
        why = (told["error"] or {}).get("message", "")
        return {str(row["id"]): row for row in rows}, why or f"{place} does not have it"
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}, f"{place} has given no answer"


def _row(
    settings: Settings, one: Elsewhere, values: Mapping[str, Any]
) -> tuple[Named, Finding]:
    changes = tuple(
        Change(what=str(each["what"]), how=str(each["how"]), diff=str(each["diff"]))
        for each in values.get("changes") or ()
    )
    state = Shown(values["state"])
    verdict = Verdict(
        standing=Standing.DRIFTED if changes else Standing.UNKNOWN,
        changes=changes,
        left_out=int(values.get("left_out") or 0),
    )
    message = str(values.get("message") or "")
    target = thing(
        settings, one, str(values.get("action") or ""), str(values.get("tool") or "")
    )
    finding = Finding(
        entry=target.entry,
        state=state,
        reason=f"on {one.place}{f': {message}' if message else ''}",
        verdict=verdict if changes else None,
    )
    return target, finding


def thing(
    settings: Settings, one: Elsewhere, action: str = "", tool: str = ""
) -> Named:
    """Return a deployment as one that a name has led to, of which this machine has no journal."""
    entry = Entry(
        key=one.run,
        id=one.run,
        name=one.title.rpartition("/")[2],
        action=action,
        tool=tool,
        source="",
        addressee="",
        document={},
        state=State.SIGNALLED,
        at=0,
        accepted=0,
    )
    return Named(
        entry=entry,
        title=one.title,
        settings=settings,
        stack=one.title.partition("/")[0],
        deployment=one.deployment,
    )
