"""Completion: lines that are typed into real shells, as their users do."""

from __future__ import annotations

import fcntl
import os
import pty
import subprocess
import termios
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from package import wheels
from package.built import package
from support import endings, pace
from support.machine import BIN, Machine, deployment
from support.tools import need

pytestmark = [pytest.mark.slow, pytest.mark.takes(300)]

LINES = {
    "heat-config-agent doct\t": "[doctor]",
    "heat-config-agent status --ch\t": "[status][--check]",
    "heat-config-agent stack output sh\t": "[stack][output][show]",
    "heat-config-agent show gree\t": "[show][greeting]",
    "heat-config-agent show my\t": "[show][my $5; deployment's]",
    "heat-config-agent show 'my\t": "[show][my $5; deployment's]",
    'heat-config-agent show "my\t': "[show][my $5; deployment's]",
    "heat-config-agent log 4be\t": "[log][4be13a2c]",
    "heat-config-agent log -- gree\t": "[log][--][greeting]",
    "heat-config-agent stack show --state-dir other wa\t": "[stack][show][--state-dir][other][warehouse]",
    "heat-config-agent stack resource show shop st\t": "[stack][resource][show][shop][stock]",
    "heat-config-agent stack resource type show OS::Heat::Val\t": "[stack][resource][type][show][OS::Heat::Value]",
    "heat-config-agent doctor --state-dir sto\tx": "[doctor][--state-dir][store/x]",
    "heat-config-agent doctor --config sett\t": "[doctor][--config][settings.conf]",
    "heat-config-agent doctor --config=sett\t": "[doctor][--config=settings.conf]",
    "heat-config-apply --pl\t si\t": "[--plan][site.yaml]",
    "heat-config-apply a.yaml si\t": "[a.yaml][site.yaml]",
    "heat-config-apply store/on\t": "[store/one.yaml]",
    "heat-config-apply with\t": "[with blank.yaml]",
    "heat-config-apply ~/sho\t": "[{home}/shop.yaml]",
    "heat-config-apply ~/shop.yaml --parameter si\tla\t": "[{home}/shop.yaml][--parameter][size=large]",
    "heat-config-apply ~/shop.yaml --parameter=si\tla\t": "[{home}/shop.yaml][--parameter=size=large]",
    "heat-config-apply ~/shop.yaml --parameter-file size=si\t": "[{home}/shop.yaml][--parameter-file][size=site.]",
    "heat-config-hook docker-co\t": "[docker-compose]",
    "heat-config-hook ru\t": "[ru]",  # there is no such hook
    "{bin}/heat-config-agent doct\t": "[doctor]",
}
"""The text that is typed → the words with which the command is called."""

SHOP = """\
heat_template_version: 2018-08-31
parameters:
  size: {type: string, default: small, constraints: [{allowed_values: [small, large]}]}
resources: {stock: {type: OS::Heat::Value, properties: {value: 3}}}
"""

SHELLS: Mapping[str, tuple[list[str], str, str]] = {
    "bash": (
        ["bash", "--norc", "--noprofile", "-i"],
        'bind "set bell-style none"\nfor each in {}/*; do . "$each"; done\n',
        "{0}() {{ printf '[%s]' \"$@\" >>'{1}'; echo >>'{1}'; }}\n",
    ),
    "zsh": (
        ["zsh", "-f", "-i"],
        "fpath=({} $fpath)\nautoload -U compinit\ncompinit -u -D\nunsetopt beep\n",
        "{0}() {{ printf '[%s]' \"$@\" >>'{1}'; echo >>'{1}'; }}\n",
    ),
    "fish": (
        ["fish", "--no-config", "-i"],
        "for each in {}/*; source $each; end\n",
        "function {0}; printf '[%s]' $argv >>'{1}'; echo >>'{1}'; end\n",
    ),
}
"""Shell → how to start it without settings, what loads the completion, and a function that records how it is called."""

PACKAGED = {
    "bash": "usr/share/bash-completion/completions",
    "zsh": "usr/share/zsh/vendor-completions",
    "fish": "usr/share/fish/vendor_completions.d",
}
"""The folder of the Debian package with the completion for a shell."""


def stubs(folder: Path, shell: str, origin: str) -> Path:
    """Return a folder with what `completion` prints, or with what the package has."""
    if origin == "package":
        subprocess.run(["dpkg-deb", "--extract", package("deb"), folder], check=True)
        return folder / PACKAGED[shell]
    folder.mkdir()
    done = subprocess.run(
        [BIN / "heat-config-agent", "completion", shell],
        check=True,
        capture_output=True,
    )
    (folder / "_heat-config-agent").write_bytes(done.stdout)
    return folder


def prepare(machine: Machine) -> Path:
    """Give the machine deployments and stacks; return the folder in which lines are typed."""
    here = machine.folder / "here"
    (here / "store").mkdir(parents=True)
    for name in ("site.yaml", "store/one.yaml", "settings.conf", "with blank.yaml"):
        (here / name).touch()
    (here / "site.txt").touch()
    documents = [
        deployment("4be13a2c", name="greeting"),
        deployment("77aa01b9", name="my $5; deployment's"),
    ]
    machine.apply(documents)
    machine.apply(machine.write(SHOP, "shop.yaml"))
    other = machine.write(SHOP, "warehouse.yaml")
    done = machine.command(
        "heat-config-apply", ["--state-dir", str(here / "other"), str(other)], {}
    )
    assert done.code == 0, done
    return here


@pytest.mark.parametrize("origin", ["command", "package"])
@pytest.mark.parametrize("shell", SHELLS)
def test_typed_line_is_completed(machine: Machine, shell: str, origin: str) -> None:
    """Commands, options, names with any character, values and files are completed, each where it belongs."""
    command, begin, record = SHELLS[shell]
    need(shell, shell)
    scripts = stubs(machine.folder / "stubs", shell, origin)
    here, called = prepare(machine), machine.folder / "called"
    commands = ("heat-config-agent", "heat-config-apply", "heat-config-hook")
    programs = machine.folder / "bin"
    programs.mkdir()
    (programs / "heat-config-agent").write_text(
        f'#!/bin/sh\n[ "$1" != __complete ] && {{ printf "[%s]" "$@"; echo; }} >>{called} && exit\n'
        f'exec {BIN}/heat-config-agent "$@"\n'
    )
    (programs / "heat-config-agent").chmod(0o755)
    lines = {
        line.replace("{bin}", str(programs)): expected.replace(
            "{home}", str(machine.folder)
        )
        for line, expected in LINES.items()
    }
    ours, its = pty.openpty()
    process = subprocess.Popen(
        command,
        cwd=here,
        stdin=its,
        stdout=its,
        stderr=its,
        env={
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "HEAT_CONFIG_AGENT_STATE": str(machine.state),
            "HEAT_CONFIG_AGENT_COMPLETION": f"{pace.seconds(30)}",
            "HOME": str(machine.folder),
            "TERM": "dumb",
            "LANG": "C.UTF-8",
        },
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509  # fish wants a controlling terminal
    )
    try:
        os.close(its)
        typed = [
            begin.format(scripts),
            *(record.format(each, called) for each in commands),
            *(f"{line}\n" for line in lines),
            "exit 0\n",
        ]
        os.write(ours, "".join(typed).encode())
        seen = read_all(ours)
        assert process.wait(pace.seconds(30)) == 0, seen
    finally:
        endings.end(process)
        os.close(ours)
    assert called.read_text().splitlines() == list(lines.values()), seen


def test_wheel_has_completion_and_schemas() -> None:
    """Pip puts the files where the shells of the environment look for them; the schemas are in the package."""
    with zipfile.ZipFile(wheels.wheel()) as archive:
        names = archive.namelist()
    for path in (
        "data/share/bash-completion/completions/heat-config-apply",
        "data/share/fish/vendor_completions.d/heat-config-hook.fish",
        "data/share/zsh/site-functions/_heat-config-agent",
        "heat_config_agent/schemas/envelope.json",
        "heat_config_agent/cli/completion/stubs/bash/heat-config-agent",
    ):
        assert any(name.endswith(path) for name in names), path


def read_all(descriptor: int) -> str:
    """Return all that a terminal shows, until it closes."""
    seen = b""
    while True:
        try:
            part = os.read(descriptor, 65536)
        except OSError:  # what a terminal says at its end
            part = b""
        if not part:
            return seen.decode(errors="replace")
        seen += part
