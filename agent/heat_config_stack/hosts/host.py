"""One host: where it is, how the agent is started there, and the command line that does it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from heat_config_agent.model.positions import Json

PROGRAM = "heat-config-agent"
"""The agent on a host, as long as nothing else is said."""

PATIENCE = 15
"""Seconds in which a host has to accept a connection, and between two questions whether it is still there."""

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:%-]*", re.ASCII)
"""An address that is neither an option of the client nor anything that a shell understands."""

_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@\\$-]*", re.ASCII)

_URL = re.compile(
    r"(?:ssh://)?(?:(?P<user>[^@/]+)@)?(?:\[(?P<six>[0-9A-Fa-f:.]+(?:%\w+)?)\]|(?P<name>[^@/:\[\]]+))(?::(?P<port>[^:/]*))?/?"
)


@dataclass(frozen=True)
class Host:
    """A host that carries out deployments."""

    address: str
    """A name that ssh knows, or an address."""
    user: str = ""
    """The user; empty if ssh chooses it."""
    port: int = 0
    """The port; 0 if ssh chooses it."""
    state_dir: str = ""
    """The state directory of the agent there; empty for the usual one."""
    command: str = PROGRAM
    """The command of the agent on the host, as words of a shell."""
    become: bool = False
    """True if the agent there is started with `sudo -n`."""
    ssh_config: str = ""
    """The configuration of the ssh client; empty for that of the user."""

    @classmethod
    def at(cls, place: str) -> Host:
        """Return the host at `NAME`, `USER@NAME` or `ssh://USER@NAME:PORT`. Raises ValueError."""
        parts = _URL.fullmatch(place)
        if parts is None or (parts["port"] is not None and "://" not in place):
            raise ValueError(
                f"{_without_password(place)!r} is not the place of a host: it has the form "
                "NAME, USER@NAME or ssh://USER@NAME:PORT"
            )
        user, port = parts["user"] or "", parts["port"]
        if ":" in user:
            raise ValueError(
                "a password has no place here: ssh takes keys, and its agent has them"
            )
        number = int(port) if port and port.isdecimal() and len(port) < 6 else 0
        if port is not None and not 0 < number < 65536:
            raise ValueError(f"{port!r} is not a port: it is a number from 1 to 65535")
        host = cls(parts["six"] or parts["name"], user, number)
        host.check()
        return host

    def check(self) -> None:
        """Raise ValueError if a value could be taken for something else by the client or by a shell."""
        if not _NAME.fullmatch(self.address):
            raise ValueError(f"{self.address!r} is not the name or address of a host")
        if self.user and not _USER.fullmatch(self.user):
            raise ValueError(f"{self.user!r} is not the name of a user")
        try:
            words = shlex.split(self.command)
        except ValueError as error:
            raise ValueError(f"command cannot be split into words: {error}") from error
        if not words or any(not word.isprintable() for word in words):
            raise ValueError("command has to name a program")

    @property
    def title(self) -> str:
        """The host as people write it."""
        name = (
            f"[{self.address}]" if ":" in self.address and self.port else self.address
        )
        port = f":{self.port}" if self.port else ""
        return f"{self.user}@{name}{port}" if self.user else f"{name}{port}"

    @property
    def place(self) -> tuple[str, int, str]:
        """The values that make it this host: a deployment that is for another place has to move."""
        return self.address, self.port, self.state_dir

    def to_json(self) -> dict[str, Json]:
        """Return the values that are not the usual ones, as they are kept with a stack."""
        usual = Host(self.address)
        return {
            name: value
            for name in self.__dataclass_fields__
            if (value := getattr(self, name)) != getattr(usual, name, None)
            or name == "address"
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Json]) -> Host:
        """Return the host that `to_json` has written; values of newer versions are left out."""
        known = {
            name: values[name] for name in cls.__dataclass_fields__ if name in values
        }
        return cls(**known)

    def words(self, *task: str) -> list[str]:
        """Return the command line that starts a task of the agent on the host: two words and their arguments."""
        options = [
            "BatchMode=yes",  # never a question in the middle
            f"ConnectTimeout={PATIENCE}",
            f"ServerAliveInterval={PATIENCE}",
            "ServerAliveCountMax=3",
            "ClearAllForwardings=yes",
            "RemoteCommand=none",
            "RequestTTY=no",
        ]
        words = ["ssh", "-T"]
        for option in options:
            words += ["-o", option]
        words += ["-F", self.ssh_config] if self.ssh_config else []
        words += ["-p", str(self.port)] if self.port else []
        words += ["-l", self.user] if self.user else []
        return [*words, "--", self.address, self._remote(task)]

    def _remote(self, task: tuple[str, ...]) -> str:
        """Return the command for the shell of the user there: plain words in single quotes, which every shell has."""
        words = [*(["sudo", "-n", "--"] if self.become else [])]
        words += [*shlex.split(self.command), *task[:2]]
        words += ["--state-dir", self.state_dir] if self.state_dir else []
        return shlex.join([*words, *task[2:]])


def _without_password(place: str) -> str:
    return re.sub(r":[^@/]*@", ":…@", place)
