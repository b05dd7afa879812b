"""Finds the deployments that have left the metadata and need a cleanup. Pure.

Some tools leave something running for a deployment (`About.cleans`): containers, projects, pods. Once the deployment
has left the metadata without a DELETE of its own, that is removed by a cleanup. A cleanup is a deployment, made here:
it is planned, recorded and shown like any other, and no result is signalled. If the tool cleans by name, and not by
config, one cleanup serves all deployments that had the name.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Mapping

import heat_config_hooks
from heat_config_agent.deployments import metadata, selection
from heat_config_agent.model.deployment import (
    BUILTIN,
    CLEANUP,
    CLEANUP_KEY,
    DELETE,
    Config,
    Deployment,
    Document,
    Mistake,
)
from heat_config_agent.model.entry import Entry, State
from heat_config_hooks import protocol
from heat_config_hooks.values import dataclass, field, replace

ACTION = CLEANUP
"""The action of a cleanup, as people see it."""

PATIENCE = 300.0
"""Seconds after which a failed cleanup is retried."""


@dataclass(frozen=True)
class Due:
    """The cleanups that are due, and the deployments that came back after one."""

    left: list[Deployment] = field(default_factory=list)
    """The cleanups that are due, as deployments."""
    back: set[str] = field(default_factory=set)
    """The keys of deployments that are in the metadata again after their cleanup, so that they have to run again."""


def due(
    deployments: Iterable[Deployment],
    sources: Collection[str],
    entries: Mapping[str, Entry],
    now: float,
) -> Due:
    """Return the cleanups that are due, and the deployments that came back after one.

    `sources` are the sources that answered: a source that did not answer has lost no deployment. `entries` are the
    journal's; `now` is in seconds since the epoch.
    """
    work = Due()
    current = {deployment.key: deployment for deployment in deployments}
    last: dict[str, Entry] = {}
    for entry in entries.values():
        key = key_of(entry)
        if not key:
            continue
        if entry.key in current and _was_cleaned(entry, entries.get(key)):
            work.back.add(entry.key)
        if last.setdefault(key, entry).accepted <= entry.accepted:
            last[key] = entry
    for key, entry in last.items():
        gone = (
            entry.key not in current
            and entry.source in sources
            and entry.state is not State.RUNNING
        )
        made = entry.action != DELETE or entry.failed
        if (
            gone
            and made
            and not _is_kept(entry, current.values())
            and not _is_done(entry, entries.get(key), now)
        ):
            work.left.append(_cleanup(entry, key))
    return work


def key_of(entry: Entry) -> str:
    """Return the key of a deployment's cleanup; empty if there is nothing to clean up.

    A follow-up of a failure leaves the metadata when it ends, and the processes that it has started stay.
    """
    if entry.is_follow_up:
        return ""
    tool = _tool(entry)
    cleans = _cleans(tool) if tool else ""
    if cleans == "name":
        return f"{protocol.file_key(entry.given_name)}.{tool}{CLEANUP_KEY}"
    return f"{entry.key}{CLEANUP_KEY}" if cleans else ""


@functools.cache
def _cleans(tool: str) -> str:
    return (
        _OF_ABSENT.get(tool, "")
        if heat_config_hooks.absent(tool)
        else heat_config_hooks.load(tool).ABOUT.cleans
    )


_OF_ABSENT = {"kubelet": "config"}
"""`About.cleans` of hooks that may not be installed any more: their cleanup fails and says so, until they are back."""


def pretences(deployment: Deployment) -> tuple[Mistake, ...]:
    """Return the mistakes of a deployment that claims to be a cleanup, which only the agent makes."""
    if deployment.action and (
        deployment.action == ACTION or protocol.LEAVES not in deployment.document
    ):
        return ()
    claims = {
        "inputs": deployment.input("deploy_action") == ACTION,
        protocol.LEAVES: protocol.LEAVES in deployment.document,
    }
    problem = "only the agent makes cleanups"
    return tuple(
        Mistake(path=f"{deployment.where}.{path}", problem=problem)
        for path, made in claims.items()
        if made
    )


def is_pending(entry: Entry, entries: Mapping[str, Entry]) -> bool:
    """Return True if a deployment still needs its cleanup."""
    key = key_of(entry)
    done = entries.get(key)
    return bool(key) and not (
        done and _is_of(entry, done) and done.settled and not done.failed
    )


def _tool(entry: Entry) -> str:
    """Return the tool if a built-in hook ran the deployment; else empty text."""
    return (
        _builtin(entry.run.hook)
        if entry.run is not None and entry.action != ACTION
        else ""
    )


@functools.cache
def _builtin(hook: str) -> str:
    tool = hook.removeprefix(BUILTIN)
    known = tool in heat_config_hooks.HOOKS or tool in heat_config_hooks.COMPAT
    return tool if hook.startswith(BUILTIN) and known else ""


def _is_of(entry: Entry, cleanup: Entry) -> bool:
    """Return True if a cleanup is newer than the deployment, and not left from an earlier acceptance of it."""
    return cleanup.accepted >= entry.accepted


def _was_cleaned(entry: Entry, done: Entry | None) -> bool:
    """Return True if a cleanup of the deployment has ended and may have removed something."""
    if done is None or not _is_of(entry, done) or done.state is State.RUNNING:
        return False
    return done.state is not State.ACCEPTED or done.run is not None


def _is_done(entry: Entry, done: Entry | None, now: float) -> bool:
    """Return True if a cleanup needs no work, at least for now."""
    if done is None or not _is_of(entry, done) or done.again or not done.settled:
        return False
    return not done.failed or 0 <= now - (done.ended or 0) < PATIENCE


def _is_kept(entry: Entry, current: Iterable[Deployment]) -> bool:
    """Return True if a deployment in the metadata still uses what the tool left running."""
    tool = _tool(entry)
    by_name = _cleans(tool) == "name"
    for deployment in current:
        if tool not in selection.tools(deployment):
            continue
        if by_name and deployment.given_name == entry.given_name:
            return True
        # A component that uses another tool for its present action keeps what this tool left running.
        config = selection.select(deployment)
        other = isinstance(config, Config) and selection.tool_name(config.tool) != tool
        if (
            not by_name
            and other
            and deployment.action != DELETE
            and deployment.owner == entry.owner
        ):
            return True
    return False


def _cleanup(entry: Entry, key: str) -> Deployment:
    """Return the deployment that cleans up after another one."""
    document = {
        "id": f"{entry.id}-left",
        "name": entry.given_name,
        "group": _tool(entry),
        "inputs": [{"name": "deploy_action", "type": "String", "value": ACTION}],
        protocol.LEAVES: entry.id,
    }
    parsed = metadata.parse(Document(source=entry.source, content=[document]))
    return replace(parsed.deployments[0], key=key, where=f"cleanup of {entry.name}")
