"""The hosts file: a host for each server of a template, by the name of the server.

database: db1.example
web: ssh://admin@10.0.0.7:2222
cache: {address: cache.example, become: true, command: /opt/agent/bin/heat-config-agent, state_dir: /srv/agent}
group/0/server: local
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from heat_config_agent.diagnostics.mistakes import Invalid
from heat_config_agent.diagnostics.text import Language, Text
from heat_config_agent.diagnostics.words import among, meant
from heat_config_agent.masking.redaction import OPEN
from heat_config_agent.model.errors import UsageError
from heat_config_agent.model.mistake import Mistake
from heat_config_agent.model.positions import Json, Path, Place
from heat_config_hooks.files import take
from heat_config_hooks.yaml_schema import YAML_1_2
from heat_config_stack.hosts.host import Host

LOCAL = "local"
"""The word for this machine in the place of a host."""

_LARGEST = 1024 * 1024
_LANGUAGE = Language("a hosts file", YAML_1_2, unique_keys=True, all_mistakes=True)
_KEYS: Mapping[str, type] = {
    "address": str,
    "user": str,
    "port": int,
    "state_dir": str,
    "command": str,
    "become": bool,
    "ssh_config": str,
}
_WAYS = ("user", "command", "become", "ssh_config")
"""The values of a host that say how it is reached, and not which one it is."""
_NOUNS = {str: "a text", int: "a number", bool: "true or false"}
_ANSIBLE = frozenset({"all", "ungrouped"})
"""The first key of an inventory of Ansible in YAML."""


@dataclass(frozen=True)
class Hosts:
    """The hosts of servers, as a file has them."""

    file: str
    by_server: Mapping[str, Host | None]
    """The host of each server by name; None stands for this machine."""
    places: Mapping[str, Place]
    is_inventory: bool = False
    """True for an inventory of Ansible, which may have machines that are not servers of the template."""

    def to_json(self) -> dict[str, Json]:
        """Return the hosts of the servers that are not this machine, as they are kept with a stack."""
        return {
            name: host.to_json()
            for name, host in self.by_server.items()
            if host is not None
        }

    def only(
        self,
        servers: Collection[str],
        groups: Collection[str],
        inner: Callable[[str], tuple[str, str]] = lambda _name: ("", ""),
    ) -> Hosts:
        """Return the hosts of servers of a template. Raises `Invalid` for names of others.

        `groups` are its resources with servers of their own; `inner` returns why there is no server of such a name, and
        a hint, or nothing if there is one, or if that is not known yet.
        """
        chosen = [
            name
            for name in self.by_server
            if name in servers or name.partition("/")[0] in groups
        ]
        if self.is_inventory and chosen:
            chosen = [name for name in chosen if name in servers or not inner(name)[0]]
            by_server = {name: self.by_server[name] for name in chosen}
            if twice := list(_of_one_place(by_server, self.places)):
                raise Invalid(twice, OPEN)
            return replace(self, by_server=by_server)
        wrong = [
            Mistake(
                f"the template has no server {name!r}",
                (name,),
                self.places.get(name),
                _hint(name, servers),
                code="server-unknown",
            )
            for name in self.by_server
            if name not in chosen
        ]
        for name in chosen:
            problem, hint = ("", "") if name in servers else inner(name)
            if problem:
                place = self.places.get(name)
                code = "server-unknown"
                wrong.append(Mistake(problem, (name,), place, hint, code=code))
        if wrong:
            raise Invalid(wrong, OPEN)
        return self


def _of_one_place(
    by_server: Mapping[str, Host | None], places: Mapping[str, Place]
) -> Iterator[Mistake]:
    """Yield the servers whose host is that of an earlier one, but is reached in another way: there is one session."""
    first: dict[object, tuple[str, Host]] = {}
    for name, host in by_server.items():
        if host is None:
            continue
        other, same = first.setdefault(host.place, (name, host))
        different = [key for key in _WAYS if getattr(host, key) != getattr(same, key)]
        if different:
            yield Mistake(
                f"it is the same host as {other}, with another {' and '.join(different)}",
                (name,),
                places.get(name),
                "write the same for both, or give each a state_dir of its own",
                code="hosts",
            )


def _hint(name: str, servers: Collection[str]) -> str:
    if not servers:
        return "it has no servers"
    return meant(name, servers) or among(name, sorted(servers))


def read(path: str) -> Hosts:
    """Return the hosts of a file, or of an inventory of Ansible. Raises `Invalid`, UsageError."""
    if os.path.isdir(path) or os.access(path, os.X_OK):  # noqa: PTH112  # a folder, or a program that prints one
        return _of_inventory(path)
    try:
        content = take(path, _LARGEST)
    except OSError as error:
        raise UsageError(
            f"cannot read the hosts file {path}: {error.strerror or error}"
        ) from error
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise UsageError(
            f"cannot read the hosts file {path}: it is not UTF-8"
        ) from error
    if _is_ini(text):
        return _of_inventory(path)
    parsed = Text(path, text, "hosts", _LANGUAGE)
    value: Any = parsed.value
    if isinstance(value, dict) and value and value.keys() <= _ANSIBLE:
        return _of_inventory(path)
    return _Reading(path, parsed).hosts()


def _is_ini(text: str) -> bool:
    """Return whether a text is an inventory in Ansible's own form, whose groups are in brackets."""
    lines = (line.strip() for line in text.splitlines())
    return any(line.startswith("[") and line.endswith("]") for line in lines)


def _of_inventory(path: str) -> Hosts:
    from heat_config_stack.hosts import inventory  # noqa: PLC0415  # few files are one

    by_server = inventory.read(path)
    return Hosts(path, by_server, dict.fromkeys(by_server, Place(path, 1, 1)), True)


class _Reading:
    """One hosts file, with its mistakes."""

    def __init__(self, path: str, text: Text) -> None:
        self._path, self._text = path, text
        self._mistakes: list[Mistake] = list(text.mistakes)

    def hosts(self) -> Hosts:
        """Return the hosts. Raises `Invalid`."""
        value: Any = self._text.value
        by_server: dict[str, Host | None] = {}
        if not isinstance(value, dict):
            self._wrong(
                "it has to be a map of servers to hosts",
                (),
                "web: ssh://admin@10.0.0.7",
            )
        elif not value:
            self._wrong("it names no server", (), "web: ssh://admin@10.0.0.7")
        else:
            for name, given in value.items():
                by_server[str(name)] = self._host(str(name), given)
        places = {
            name: self._text.place((name,)) or Place(self._path, 1, 1)
            for name in by_server
        }
        self._mistakes += _of_one_place(by_server, places)
        if self._mistakes:
            raise Invalid(self._mistakes, OPEN)
        return Hosts(self._path, by_server, places)

    def _host(self, name: str, given: Json) -> Host | None:
        if given == LOCAL:
            return None
        if isinstance(given, str):
            return self._at((name,), given)
        if not isinstance(given, dict):
            self._wrong(
                "a host is a name that ssh knows, a URL such as ssh://admin@10.0.0.7, local, or a map",
                (name,),
            )
            return None
        return self._of_map(name, given)

    def _of_map(self, name: str, given: Mapping[str, Json]) -> Host | None:
        values: dict[str, Any] = {}
        right = True
        for key, value in given.items():
            wanted = _KEYS.get(str(key))
            if wanted is None:
                right = self._wrong(
                    f"a host has no {str(key)!r}",
                    (name, str(key)),
                    among(str(key), _KEYS, "it may have"),
                )
            elif type(value) is not wanted or value == "":
                right = self._wrong(
                    f"{key} has to be {_NOUNS[wanted]}", (name, str(key))
                )
            else:
                values[str(key)] = value
        if "address" not in given:
            right = self._wrong("the host has no address", (name,))
        if not right:
            return None
        if (
            "ssh_config" in values
        ):  # else it would be looked for where each command runs
            values["ssh_config"] = os.path.abspath(  # noqa: PTH100  # as the user writes it
                os.path.expanduser(values["ssh_config"])  # noqa: PTH111
            )
        host = self._at((name, "address"), values.pop("address"))
        if host is None:
            return None
        host = replace(host, **values)
        try:
            host.check()
        except ValueError as error:
            self._wrong(str(error), (name,))
        return host

    def _at(self, path: Path, place: str) -> Host | None:
        try:
            return Host.at(place)
        except ValueError as error:
            self._wrong(str(error), path)
            return None

    def _wrong(self, problem: str, path: Path, hint: str = "") -> bool:
        place = self._text.place(path) or Place(self._path, 1, 1)
        self._mistakes.append(Mistake(problem, path, place, hint, code="hosts"))
        return False


def shown(hosts: Mapping[str, Json]) -> Sequence[tuple[str, str]]:
    """Return the servers of a stack that are on other hosts, each with its host."""
    return [(name, Host.from_json(values).title) for name, values in hosts.items()]
