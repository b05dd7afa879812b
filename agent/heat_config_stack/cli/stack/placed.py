"""The servers of a stack that are other hosts than this machine: `--hosts`, and what is kept of it."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from heat_config_agent.model.errors import StateError, UsageError
from heat_config_agent.model.positions import Json
from heat_config_agent.settings.effective import Settings
from heat_config_stack.definition import Definition
from heat_config_stack.hosts import hosts_file
from heat_config_stack.hosts.host import Host
from heat_config_stack.hosts.hosts_file import Hosts
from heat_config_stack.lifecycle.live import Stack
from heat_config_stack.records import listing, placing
from heat_config_stack.records.exception import EntityNotFound
from heat_config_stack.records.records import IN_PROGRESS
from heat_config_stack.records.store import Store
from heat_config_stack.resource.types import Types
from heat_config_stack.resource_types.nested import StackResource


def choose(options: argparse.Namespace, former: Json) -> None:
    """Use the hosts of --hosts, or else the hosts of the stack, for the next definition.

    Raises `Invalid`, UsageError.
    """
    options.hosts_read = None
    if path := getattr(options, "hosts", None):
        read = hosts_file.read(path)
        options.hosts_read, options.on_hosts = read, read.to_json()
    else:
        options.on_hosts = kept(former)


def kept(source: Json) -> dict[str, Json]:
    """Return the hosts that are kept with the source of a stack; none if all servers are this machine."""
    return dict(placing.hosts_in(source))


def checked(
    options: argparse.Namespace,
    definition: Definition,
    types: Types,
    stack: Stack | None = None,
) -> Definition:
    """Return the definition with the hosts of its servers. Raises `Invalid` for hosts of unknown servers.

    `stack` is None if it does not exist yet.
    """
    read: Hosts | None = options.hosts_read
    if read is None:
        return definition
    from heat_config_stack.cli.stack.inner_servers import Inner  # noqa: PLC0415  # few commands name hosts

    inner = Inner(definition, types, stack)
    chosen = read.only(*_servers(definition, types), inner.missing).to_json()
    source: Any = definition.source
    if chosen == kept(source):
        return definition
    rest = {name: value for name, value in source.items() if name != "hosts"}
    return replace(definition, source={**rest, "hosts": chosen} if chosen else rest)


def _servers(
    definition: Definition, types: Types
) -> tuple[Collection[str], Collection[str]]:
    """Return the names of the servers of a template, and of the resources that may have some inside."""
    from heat_config_stack.cli.stack import forecast, inner_servers  # noqa: PLC0415  # few commands name hosts

    servers: set[str] = set()
    groups: set[str] = set()
    for name, resource in definition.resources.items():
        try:
            mapped = types.mapped_type(resource, definition.environment)
        except EntityNotFound:
            continue
        if mapped.template or issubclass(types.class_of(mapped), StackResource):
            groups.add(name)
        elif inner_servers.is_server(mapped.type):
            servers.add(name)
    named = set(forecast.servers(definition, types).values())
    return servers | (named - definition.resources.keys()), groups


def reaching(
    options: argparse.Namespace, definition: Definition | None
) -> Callable[[Stack], None]:
    """Return the function that has a stack reach its hosts as a new definition says, or else the file of --hosts.

    Raises `Invalid`, UsageError.
    """
    if definition is not None:
        known = kept(definition.source)
        return lambda stack: placing.reach(stack.world.store, known)
    read = hosts_file.read(options.hosts)
    return lambda stack: _reach(stack, read)


def agreed(stack: Stack, read: Hosts) -> dict[str, Json]:
    """Return the hosts of a stack with the ways to reach them that a file has.

    Raises `Invalid` for a name that is not that of a server, and UsageError for a server that would move.
    """
    hosts = kept(stack.record.source)
    if stack.defined is not None:
        from heat_config_stack.cli.stack.inner_servers import Inner  # noqa: PLC0415  # as above

        types = stack.world.types
        inner = Inner(stack.defined, types, stack)
        read = read.only(*_servers(stack.defined, types), inner.missing)
    told = read.to_json()
    for name in read.by_server:
        old, new = hosts.get(name), told.get(name)
        if placing.place(old) != placing.place(new):
            raise UsageError(
                f"{name} is {_title(old)}, and not {_title(new)}: only an update moves a server",
                hint=f"`stack update --existing {stack.name} --hosts {read.file}` moves it",
            )
    return {name: told.get(name, host) for name, host in hosts.items()}


def _title(host: Json) -> str:
    return "this machine" if host is None else Host.from_json(host).title


def _reach(stack: Stack, read: Hosts) -> None:
    known = agreed(stack, read)
    store, record = stack.world.store, stack.record
    record.source = _reached(record.source, known)
    record.source_before = _reached(record.source_before, known)
    store.put(record)
    for snapshot in store.snapshots.values():
        snapshot.source = _reached(snapshot.source, known)
        store.put(snapshot)
    placing.reach(store, known)


def _reached(source: Any, known: Mapping[str, Json]) -> Any:
    """Return the source of a definition with other ways to reach the same hosts."""
    hosts = kept(source)
    if not hosts:
        return source
    by_place = {placing.place(host): host for host in known.values()}
    changed = {
        name: by_place.get(placing.place(host), host) for name, host in hosts.items()
    }
    return {**source, "hosts": changed}


class Elsewhere(NamedTuple):
    """A deployment of a stack that another host carries out."""

    path: str
    host: Json
    place: str
    stack: str
    deployment: str
    run: str
    source: str
    is_open: bool


def elsewhere(settings: Settings, name: str) -> list[Elsewhere]:
    """Return the deployments of a stack that other hosts carry out; none if its records cannot be read."""
    from heat_config_stack.lifecycle.machine import source  # noqa: PLC0415  # slow to load

    try:
        store = Store(listing.folder(settings.state, name), write=False)
    except StateError:
        return []
    root = store.root.id if store.root is not None else ""
    return [
        Elsewhere(
            placing.path_to(store, each.resource),
            each.host,
            Host.from_json(each.host).title,
            root,
            each.id,
            each.config,
            source(each),
            each.status == IN_PROGRESS,
        )
        for each in store.deployments.values()
        if placing.is_elsewhere(each)
    ]


def lines(source: Json) -> list[str]:
    """Return which host each server of a stack is, for people; nothing if all are this machine."""
    pairs = hosts_file.shown(kept(source))
    return [", ".join(f"{name} is {host}" for name, host in pairs)] if pairs else []
