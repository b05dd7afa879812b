"""The real puppet, and a program in its place, for tests of its hook."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.machine import deployment
from support.tools import need

START = ["apply", "--color", "false", "--detailed-exitcodes", "--logdest", "console"]


@dataclass(frozen=True)
class Puppet:
    """A puppet that keeps its state to itself and tells how it was called."""

    folder: Path
    command: Path

    @property
    def arguments(self) -> list[str]:
        """The arguments of the last call."""
        return (self.folder / "arguments").read_text().split("\0")[:-1]

    @property
    def environment(self) -> dict[str, str]:
        """The environment of the last call."""
        items = (self.folder / "environment").read_bytes().decode().split("\0")[:-1]
        return dict(each.split("=", 1) for each in items)

    @property
    def hiera_yaml(self) -> Path:
        """Puppet's configuration of Hiera."""
        return self.folder / "etc" / "hiera.yaml"


def recorder(folder: Path, then: str) -> Puppet:
    """Return a program called puppet that says how it was called, and then does something."""
    command = folder / "bin" / "puppet"
    for each in (command.parent, folder / "etc", folder / "var"):
        each.mkdir(exist_ok=True)
    place = shlex.quote(str(folder))
    command.write_text(
        f'#!/bin/sh\nprintf "%s\\0" "$@" >{place}/arguments\n/usr/bin/env -0 >{place}/environment\n{then}\n'
    )
    command.chmod(0o755)
    return Puppet(folder, command)


def real(folder: Path) -> Puppet:
    """Return the real puppet, but for its own folders."""
    program, place = need("puppet", "puppet"), shlex.quote(str(folder))
    own = " ".join(
        f"--{name} {place}/{where}"
        for name, where in (("confdir", "etc"), ("vardir", "var"))
    )
    return recorder(
        folder,
        f'shift\nexec {program} apply {own} --rundir {place}/var --logdir {place}/var "$@"',
    )


def a_manifest(identity: str, config: object, **fields: Any) -> dict[str, Any]:
    """Return a deployment for puppet."""
    return deployment(identity, config, group="puppet", **fields)
