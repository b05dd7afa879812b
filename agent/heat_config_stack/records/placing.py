"""The place of a stack's parts: the path of a resource among all, and the host of a server or a deployment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from heat_config_agent.model.positions import Json
from heat_config_stack.records.records import DeploymentRecord, ResourceRecord
from heat_config_stack.records.store import Memory

HERE = "127.0.0.1"
"""The address of every server that is this machine."""


def path_to(store: Memory, identity: str) -> str:
    """Return the path of a resource in the root stack; empty if it is not there."""
    names = list[str]()
    while (resource := store.resources.get(identity)) is not None:
        names.insert(0, resource.name)
        stack = store.stacks.get(resource.stack)
        identity = stack.owner if stack else ""
    return "/".join(names)


def hosts(store: Memory) -> Mapping[str, Any]:
    """Return the hosts of the servers that are not this machine, by the paths of the servers."""
    if store.planned_hosts is not None:
        return store.planned_hosts
    return hosts_in(store.root.source if store.root is not None else None)


def hosts_in(source: Json) -> Mapping[str, Any]:
    """Return the hosts in the source of a definition."""
    return (source.get("hosts") or {}) if isinstance(source, dict) else {}


def host_of(store: Memory, server: str) -> Json:
    """Return the host of a server, by its id, as `hosts.host.Host` has it; None for this machine."""
    known = hosts(store)
    if not known:
        return None
    records = store.resources.values()
    paths = [path_to(store, each.id) for each in records if each.physical == server]
    return next((known[path] for path in paths if path in known), known.get(server))


def host_of_resource(store: Memory, record: ResourceRecord) -> Json:
    """Return the host of a resource: the host that a server is, or that has carried out a deployment."""
    deployment = store.deployments.get(record.physical or "")
    if deployment is not None:
        return deployment.host
    known = hosts(store)
    return known.get(path_to(store, record.id)) if known else None


def address_of(store: Memory, path: str) -> str:
    """Return the address of the server at a path, as templates ask for it."""
    host = hosts(store).get(path)
    return str(host["address"]) if host else HERE


def place(host: Json) -> tuple[Json, Json, Json] | None:
    """Return the identity of a host's place, as `hosts.host.Host.place` does; None for this machine."""
    if host is None:
        return None
    return host["address"], host.get("port", 0), host.get("state_dir", "")


def places(store: Memory) -> set[tuple[Json, Json, Json]]:
    """Return the places of all hosts that a stack has servers or deployments on."""
    every = [each.host for each in store.deployments.values()]
    return {
        found
        for host in (*every, *hosts(store).values())
        if (found := place(host)) is not None
    }


def reach(store: Memory, known: Mapping[str, Any]) -> None:
    """Have the deployments on hosts reach them as the hosts of servers say: with another user or command, perhaps."""
    by_place = {place(host): host for host in known.values()}
    for deployment in store.deployments.values():
        host = by_place.get(place(deployment.host)) if deployment.host else None
        if host is not None and host != deployment.host:
            deployment.host = host
            store.put(deployment)


def is_elsewhere(deployment: DeploymentRecord) -> bool:
    """Return whether another host carries out a deployment."""
    return deployment.host is not None
