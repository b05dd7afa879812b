"""The deployments of stacks that other hosts carry out: as things that are named, and as their hosts know them.

Hosts are asked at the same time. One that is not reached has its reason, and holds up no other.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from heat_config_agent.cli import stack_package
from heat_config_agent.cli.deployments.named import Named
from heat_config_agent.cli.stack_package import Elsewhere
from heat_config_agent.model.entry import Entry, State
from heat_config_agent.model.errors import AgentError
from heat_config_agent.model.states import Shown
from heat_config_agent.settings.effective import Settings
from heat_config_agent.verification.machine import Finding
from heat_config_hooks.values import replace
from heat_config_hooks.verdict import Change, Standing, Verdict

_AT_ONCE = 16
"""The most hosts that are asked at the same time."""


def _of_each(
    chosen: Sequence[Elsewhere], ask: Callable[[Sequence[Elsewhere]], str]
) -> Iterator[tuple[Sequence[Elsewhere], list[dict[str, Any]], str]]:
    """Yield deployments of each host, the answers about them, and the reason why there are none."""
    by_host: dict[tuple[str, str], list[Elsewhere]] = {}
    for each in chosen:
        by_host.setdefault((each.stack, each.place), []).append(each)
    groups = list(by_host.values())
    if not groups:
        return
    with ThreadPoolExecutor(min(len(groups), _AT_ONCE)) as asking:
        answers = list(asking.map(lambda group: _answers(group, ask), groups))
    for group, (told, why) in zip(groups, answers, strict=True):
        yield group, told, why


def _answers(
    group: Sequence[Elsewhere], ask: Callable[[Sequence[Elsewhere]], str]
) -> tuple[list[dict[str, Any]], str]:
    """Return the answers with --json that a host has printed, and the reason why there are none."""
    try:
        lines = ask(group).strip().splitlines()
    except AgentError as error:
        return [], str(error)
    told = []
    for line in lines:
        try:
            value = json.loads(line)
        except ValueError:
            continue  # it is of the profile of a shell
        if isinstance(value, dict) and "data" in value:
            told.append(value)
    return told, "" if told else f"{group[0].place} has given no answer"


def printed(
    chosen: Sequence[Elsewhere], words: Sequence[str]
) -> tuple[list[dict[str, object]], list[str]]:
    """Return the output of deployments from their hosts, in the form of `log --json`, and the reasons for gaps."""
    titles = {each.run: each.title for each in chosen}
    runs: list[dict[str, object]] = []
    missing = []
    for group, told, why in _of_each(
        chosen, lambda ones: stack_package.logs_elsewhere(ones, words)
    ):
        for one, answer in zip(group, told, strict=False):
            for run in (answer["data"] or {}).get("runs") or ():
                title = titles.get(str(run.get("id")), one.title)
                texts = {
                    name: str(run.get(name) or "") for name in ("stdout", "stderr")
                }
                runs.append({**run, "name": title, **texts})
        if why:
            names = ", ".join(each.title for each in group)
            missing.append(f"the output of {names} is not shown: {why}")
    return runs, missing


def stopped(
    chosen: Sequence[Elsewhere], words: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Have hosts stop deployments; return a sentence for each that was, and the reasons why others were not."""
    done, failed = [], []
    for group, told, why in _of_each(
        chosen, lambda ones: stack_package.stop_elsewhere(ones, words)
    ):
        names = ", ".join(each.title for each in group)
        place = group[0].place
        for answer in told:
            error = (answer.get("error") or {}).get("message", "")
            if error:
                failed.append(f"{names}: on {place}: {error}")
            else:
                said = "; ".join(map(str, answer["data"]["messages"]))
                done.append(f"{names}: on {place}: {said}")
        if why:
            failed.append(f"{names}: {why}")
    return done, failed


def verified(
    settings: Settings, chosen: Sequence[Elsewhere]
) -> Iterator[tuple[Named, Finding]]:
    """Yield the verdicts of hosts about their deployments: "unknown" for those of a host that is not reached."""
    for group, told, why in _of_each(chosen, stack_package.verify_elsewhere):
        rows, error = _rows(told)
        by_run = {str(row.get("id")): row for row in rows}
        reason = why or error or f"{group[0].place} does not have it"
        for each in group:
            values = by_run.get(each.run)
            target, found = _row(
                settings, each, values or {"state": "unknown", "message": reason}
            )
            yield target, replace(found, has_answer=values is not None)


def verified_again(
    settings: Settings, targets: Sequence[Named]
) -> dict[str, tuple[Named, Finding]]:
    """Return the verdicts of hosts about deployments that have run again since, by title: each run has its own id."""
    titles = {each.title for each in targets}
    others = [
        each
        for stack in {each.stack for each in targets}
        for each in stack_package.elsewhere(settings, stack)
        if each.title in titles
    ]
    return {row[0].title: row for row in verified(settings, others)}


def _rows(told: Sequence[Mapping[str, Any]]) -> tuple[list[Mapping[str, Any]], str]:
    """Return the rows of `verify --json`, and why there are none."""
    last = told[-1] if told else {}
    data, error = last.get("data"), last.get("error")
    rows = data.get("deployments") if isinstance(data, dict) else None
    why = error.get("message") if isinstance(error, dict) else ""
    return [row for row in rows or () if isinstance(row, dict)], str(why or "")


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
    """Return a named deployment whose journal is on another machine."""
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
