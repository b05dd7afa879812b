"""What is to be cleaned up after deployments that have left the metadata. Pure.

Some tools leave things running that belong to a deployment (`About.cleans`): containers, projects, pods. When it is in
the metadata no more, and no DELETE has seen to them, they go. A clean-up is a deployment of its own, made here: it goes
the same way as any other, is on record and shown as any other, and nobody is signalled. What belongs to a name, and not
to a config, has one clean-up for all deployments that ever had it.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Mapping

import heat_config_hooks
from heat_config_agent import metadata, selection
from heat_config_agent.model import BUILTIN, DELETE, Config, Deployment, Document, Entry, State
from heat_config_hooks import protocol
from heat_config_hooks.values import dataclass, field, replace

ACTION = "(left)"
"""The action of a clean-up, as people are told it."""

PATIENCE = 300.0
"""Seconds after which a clean-up that failed is tried again."""


@dataclass(frozen=True)
class Due:
    """What has left, and what is back."""

    left: list[Deployment] = field(default_factory=list)
    """The clean-ups that are to be carried out."""
    back: set[str] = field(default_factory=set)
    """Keys of deployments that are in the metadata again after they were cleaned up, and so are to be run again."""


def due(deployments: Iterable[Deployment], sources: Collection[str], entries: Mapping[str, Entry], now: float) -> Due:
    """Return what has left the metadata, and what is back.

    `sources` are those that answered: of one that did not, nothing is known. `entries` are the journal's, `now` is in
    seconds since the epoch.
    """
    found = Due()
    current = {each.key: each for each in deployments}
    last: dict[str, Entry] = {}
    for entry in entries.values():
        key = key_of(entry)
        if not key:
            continue
        if entry.key in current and _was_cleaned(entry, entries.get(key)):
            found.back.add(entry.key)
        if last.setdefault(key, entry).accepted <= entry.accepted:
            last[key] = entry
    for key, entry in last.items():
        gone = entry.key not in current and entry.source in sources and entry.state is not State.RUNNING
        made = entry.action != DELETE or entry.failed
        if gone and made and not _is_kept(entry, current.values()) and not _is_done(entry, entries.get(key), now):
            found.left.append(_clean_up(entry, key))
    return found


def key_of(entry: Entry) -> str:
    """Return the key of the clean-up after a deployment; empty where there is nothing to clean up.

    No id has such a key: it has a dot in it.
    """
    tool = _tool(entry)
    cleans = _cleans(tool) if tool else ""
    if cleans == "name":
        return f"{protocol.file_key(entry.name)}.{tool}.left"
    return f"{entry.key}.left" if cleans else ""


@functools.cache
def _cleans(tool: str) -> str:
    return heat_config_hooks.load(tool).ABOUT.cleans


def is_pending(entry: Entry, entries: Mapping[str, Entry]) -> bool:
    """Whether something is still to be cleaned up after a deployment."""
    key = key_of(entry)
    done = entries.get(key)
    return bool(key) and not (done and _is_of(entry, done) and done.settled and not done.failed)


def _tool(entry: Entry) -> str:
    """Return the tool with which a hook of ours ran a deployment; empty where none did."""
    if entry.run is None or entry.action == ACTION or not entry.run.hook.startswith(BUILTIN):
        return ""
    tool = entry.run.hook.removeprefix(BUILTIN)
    return tool if tool in heat_config_hooks.HOOKS else ""


def _is_of(entry: Entry, clean_up: Entry) -> bool:
    """Whether a clean-up is after what the deployment made last, and not after an earlier life of it."""
    return clean_up.accepted >= entry.accepted


def _was_cleaned(entry: Entry, done: Entry | None) -> bool:
    """Whether a clean-up has removed, perhaps, something of what a deployment made, and has come to an end."""
    if done is None or not _is_of(entry, done) or done.state is State.RUNNING:
        return False
    return done.state is not State.ACCEPTED or done.run is not None


def _is_done(entry: Entry, done: Entry | None, now: float) -> bool:
    """Whether there is nothing more to do about a clean-up, for now at least."""
    if done is None or not _is_of(entry, done) or done.again or not done.settled:
        return False
    return not done.failed or 0 <= now - (done.ended or 0) < PATIENCE


def _is_kept(entry: Entry, current: Iterable[Deployment]) -> bool:
    """Whether something in the metadata still has what a deployment made, or sees to it itself."""
    tool = _tool(entry)
    by_name = heat_config_hooks.load(tool).ABOUT.cleans == "name"
    for each in current:
        if tool not in selection.tools(each):
            continue
        if by_name and each.name == entry.name:
            return True
        # A component whose action has another tool: it goes on to have what this one made.
        chosen = selection.select(each)
        other = isinstance(chosen, Config) and selection.tool_name(chosen.tool) != tool
        if not by_name and other and each.action != DELETE and each.owner == (entry.owner or entry.name):
            return True
    return False


def _clean_up(entry: Entry, key: str) -> Deployment:
    """Return the deployment that cleans up after another one."""
    document = {
        "id": f"{entry.id}-left",
        "name": entry.name,
        "group": _tool(entry),
        "inputs": [{"name": "deploy_action", "type": "String", "value": ACTION}],
        protocol.LEAVES: entry.id,
    }
    parsed = metadata.parse(Document(source=entry.source, content=[document]))
    return replace(parsed.deployments[0], key=key, where=f"clean-up of {entry.name}")
