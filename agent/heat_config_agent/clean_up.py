"""What is to be cleaned up after deployments that have left the metadata. Pure.

Some tools leave things running that belong to a deployment (`About.cleans`): containers, projects, pods. When it is in
the metadata no more, and no DELETE was asked for, they go. A clean-up is a deployment of its own, made here: it goes
the same way as any other, is on record and shown as any other, and nobody is signalled.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

import heat_config_hooks
from heat_config_agent import metadata, selection
from heat_config_agent.model import DELETE, Config, Deployment, Document, Entry, State, Tool
from heat_config_hooks import protocol

ACTION = "(left)"
"""The action of a clean-up, as people are told it."""

PATIENCE = 300.0
"""Seconds after which a clean-up that failed is tried again."""


@dataclass(frozen=True)
class Due:
    """What has left, and what is back."""

    left: list[Deployment] = field(default_factory=list)
    """The clean-ups that are to be carried out."""
    back: dict[str, str] = field(default_factory=dict)
    """Deployments that are in the metadata again after they were cleaned up, and so are to be run again: their keys,
    and the keys of their clean-ups."""


def due(
    deployments: Iterable[Deployment],
    sources: Collection[str],
    entries: Mapping[str, Entry],
    find: Callable[[str], Tool | None],
    now: float,
) -> Due:
    """Return what has left the metadata, and what is back.

    `sources` are those that answered: of one that did not, nothing is known. `entries` are the journal's, `now` is in
    seconds since the epoch.
    """
    found = Due()
    current = {each.key: each for each in deployments}
    for entry in _made(entries.values(), list(current.values()), find):
        clean_up = _clean_up(entry)
        done = entries.get(clean_up.key)
        if entry.key in current:
            if done and done.state not in (State.ACCEPTED, State.RUNNING):
                found.back[entry.key] = clean_up.key
            continue
        made = entry.action != DELETE or entry.failed
        gone = entry.source in sources and entry.state is not State.RUNNING
        if made and gone and (done is None or done.again or not done.settled or wants_another_try(done, now)):
            found.left.append(clean_up)
    return found


def wants_another_try(cleaned: Entry, now: float) -> bool:
    """Whether a clean-up failed, and long enough ago."""
    return cleaned.failed and not 0 <= now - (cleaned.ended or 0) < PATIENCE


def _made(entries: Iterable[Entry], current: Collection[Deployment], find: Callable[[str], Tool | None]) -> list[Entry]:
    """Return those after which there may be something to clean up.

    Of what belongs to a name that is the last one that had it, as long as nobody else has it now.
    """
    found: list[Entry] = []
    named: dict[tuple[str, str], Entry] = {}
    for entry in entries:
        cleans = cleans_after(entry, find)
        if cleans == "config":
            found.append(entry)
        elif cleans:
            last = named.setdefault((entry.tool, entry.name), entry)
            if last.accepted <= entry.accepted:
                named[entry.tool, entry.name] = entry
    keys = {each.key for each in current}
    taken = {(_tool_of(each), each.name) for each in current} if named else set()
    return found + [entry for name, entry in named.items() if entry.key in keys or name not in taken]


def cleans_after(entry: Entry, find: Callable[[str], Tool | None]) -> str:
    """Return what there may be to clean up after a deployment, see `About.cleans`; empty where there is nothing."""
    if entry.run is None or entry.action == ACTION or entry.tool not in heat_config_hooks.HOOKS:
        return ""
    cleans = heat_config_hooks.load(entry.tool).ABOUT.cleans
    tool = find(entry.tool) if cleans else None
    return cleans if tool and tool.builtin else ""


def _clean_up(entry: Entry) -> Deployment:
    """Return the deployment that cleans up after another one."""
    document = {
        "id": f"{entry.id}-left",
        "name": entry.name,
        "group": entry.tool,
        "inputs": [{"name": "deploy_action", "type": "String", "value": ACTION}],
        protocol.LEAVES: entry.id,
    }
    parsed = metadata.parse(Document(source=entry.source, content=[document]))
    return replace(parsed.deployments[0], where=f"clean-up of {entry.name}")


def _tool_of(deployment: Deployment) -> str:
    """Return the tool that carries out a deployment; empty where none does."""
    chosen = selection.select(deployment)
    return chosen.tool if isinstance(chosen, Config) else ""
