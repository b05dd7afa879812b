"""Completion: lines that are typed into real shells, as their users do."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import subprocess
import sys
import termios
from collections.abc import Mapping
from pathlib import Path

import pytest

import completion
from package.built import package
from support import pace
from support.machine import BIN, deployment
from support.tools import need

pytestmark = pytest.mark.takes(300)

SCRIPT = Path(completion.__file__)

LINES = {
    "heat-config-agent stat\t": "status",
    "heat-config-agent status --ch\t": "status --check",
    "heat-config-agent stack output sh\t": "stack output show",
    "heat-config-agent show --state-dir sto\t": "show --state-dir store/",
    "heat-config-agent doctor --config sett\t": "doctor --config settings.conf",
    "heat-config-agent tool show pup\t": "tool show puppet",
    "heat-config-agent show greet\t": "show greeting",
    "heat-config-agent log -f 4be\t": "log -f 4be13a2c",
    "heat-config-agent stack show sh\t": "stack show shop",
    "heat-config-agent stack delete sh\t": "stack delete shop",
    "heat-config-apply --pl\tsi\t": "--plan site.yaml",
    "heat-config-apply a.yaml si\t": "a.yaml site.yaml",
    "heat-config-apply store/on\t": "store/one.yaml",
    "heat-config-hook docker-co\t": "docker-compose",
    "heat-config-hook ru\t": "ru",  # there is no such hook
}
"""The text that is typed → the words with which the command is called."""

DOCUMENTS = {
    "site.json": json.dumps([deployment("4be13a2c", name="greeting")]),
    "shop.yaml": "heat_template_version: 2018-08-31\nresources: {nothing: {type: OS::Heat::None}}\n",
}
"""Documents for a deployment and a stack, each named in the lines."""

OTHERWISE = {
    "zsh": {
        "heat-config-agent show --state-dir sto\t": "show --state-dir store",  # zsh removes what it has added
        "heat-config-apply a.yaml si\t": "a.yaml si",  # of several files, shtab has zsh complete the first
    }
}

_RECORDED = "{0}() {{ echo \"$*\" >>'{1}'; }}\n"

SHELLS: Mapping[str, tuple[list[str], str, str]] = {
    "bash": (
        ["bash", "--norc", "--noprofile", "-i"],
        'bind "set bell-style none"\nfor each in {}/*; do . "$each"; done\n',
        _RECORDED,
    ),
    "zsh": (
        ["zsh", "-f", "-i"],
        "fpath=({} $fpath)\nautoload -U compinit\ncompinit -u -D\nunsetopt beep\n",
        _RECORDED,
    ),
    "fish": (
        ["fish", "--no-config", "-i"],
        "for each in {}/*; source $each; end\n",
        "function {0}; echo \"$argv\" >>'{1}'; end\n",
    ),
}
"""Shell → how to start it without settings, what loads the completion, and a function that records how it is called."""


PACKAGED = {
    "bash": "usr/share/bash-completion/completions",
    "zsh": "usr/share/zsh/vendor-completions",
    "fish": "usr/share/fish/vendor_completions.d",
}
"""The folder of the Debian package with the completion for a shell."""


def made(folder: Path, shell: str, origin: str) -> Path:
    """Return a folder with the completion of this checkout, or of the package, which another shtab has written."""
    if origin == "checkout":
        subprocess.run([sys.executable, SCRIPT, folder], check=True)
        return folder / shell
    subprocess.run(["dpkg-deb", "--extract", package("deb"), folder], check=True)
    return folder / PACKAGED[shell]


@pytest.mark.parametrize("origin", ["checkout", "package"])
@pytest.mark.parametrize("shell", SHELLS)
def test_a_line_is_completed(tmp_path: Path, shell: str, origin: str) -> None:
    """Commands, options, tools, files and folders are completed, each where it belongs."""
    command, begin, record = SHELLS[shell]
    need(shell, shell)
    scripts = made(tmp_path / "made", shell, origin)
    here = tmp_path / "here"
    (here / "store").mkdir(parents=True)
    for name in ("site.yaml", "store/one.yaml", "settings.conf"):
        (here / name).touch()
    state = {"HEAT_CONFIG_AGENT_STATE": str(tmp_path / "state")}
    for name, content in DOCUMENTS.items():
        (tmp_path / name).write_text(content)
        subprocess.run(
            [BIN / "heat-config-apply", tmp_path / name],
            env={**os.environ, **state},
            check=True,
        )
    commands = ("heat-config-agent", "heat-config-apply", "heat-config-hook")
    recorded = "".join(record.format(each, tmp_path / "called") for each in commands)
    ours, its = pty.openpty()
    with subprocess.Popen(
        command,
        cwd=here,
        stdin=its,
        stdout=its,
        stderr=its,
        env={
            "PATH": f"{BIN}:{os.environ['PATH']}",
            **state,
            "HOME": str(tmp_path),
            "TERM": "dumb",
            "LANG": "C.UTF-8",
        },
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509  # fish wants a controlling terminal
    ) as process:
        os.close(its)
        typed = [
            begin.format(scripts),
            recorded,
            *(f"{line}\n" for line in LINES),
            "exit 0\n",
        ]
        os.write(ours, "".join(typed).encode())
        seen = read_all(ours)
        assert process.wait(pace.seconds(30)) == 0, seen
    os.close(ours)
    called = (tmp_path / "called").read_text().splitlines()
    assert called == list({**LINES, **OTHERWISE.get(shell, {})}.values()), seen


def read_all(descriptor: int) -> str:
    """Return all that a terminal shows, until it closes."""
    seen = b""
    while True:
        try:
            found = os.read(descriptor, 65536)
        except OSError:  # what a terminal says at its end
            found = b""
        if not found:
            return seen.decode(errors="replace")
        seen += found
