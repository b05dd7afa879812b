"""Paths that a command looks at without having been told to, in folders that its user may not enter."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from support.machine import BIN
from support.unprivileged import Unprivileged

TEMPLATE = "heat_template_version: 2018-08-31\nresources: {a: {type: OS::Heat::None}}\n"

CLOSED = (
    'mount -t tmpfs -o mode=755 tmpfs /run; mkdir -m 700 /run/heat-config; exec "$@"'
)
"""A command of a shell that has root's folder with the document of heat-agents."""

COMMANDS = [
    "heat-config-apply stack.yaml",
    "heat-config-agent status",
    "heat-config-agent prune",
    "heat-config-agent collect-logs",
    "heat-config-agent stack list",
    "heat-config-agent stack show stack",
    "heat-config-agent stack delete stack --yes",
    "heat-config-agent stack abandon stack",
    "heat-config-agent stack preview -t stack.yaml stack",
    "heat-config-agent run --once",
]


def run(
    machine: Unprivileged, *words: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a command as the machine's user."""
    return subprocess.run(
        words,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env={**machine.environment, **environment},
        cwd=machine.folder,
        check=False,
    )


@pytest.mark.fault(
    5,
    "the folder of heat-agents' document belongs to root, and another user names no document",
    "one sentence says that the document cannot be read",
)
def test_document_of_heat_agents_in_a_closed_folder_is_named(
    unprivileged: Unprivileged,
) -> None:
    """The user learns which file was looked for, and that a file can be named."""
    if subprocess.run(
        ["unshare", "--mount", "true"], check=False, capture_output=True
    ).returncode:
        pytest.skip(
            "this machine gives no mount namespaces: run the tests where «unshare --mount true» works"
        )
    words = (
        "unshare",
        "--mount",
        "sh",
        "-ec",
        CLOSED,
        "sh",
        *unprivileged.before,
        str(BIN / "heat-config-apply"),
    )
    for option in ((), ("--plan",)):
        done = run(unprivileged, *words, *option)
        assert done.returncode == 3
        assert done.stderr == (
            "error: nothing to apply: no FILE is named, and /var/run/heat-config/heat-config cannot be read: "
            "Permission denied (try heat-config-apply FILE; see --help)\n"
        )


@pytest.mark.fault(
    5,
    "the state directory is in a folder that the user may not enter",
    "every command says so in one sentence, or has nothing to show",
)
def test_state_in_a_closed_folder_is_named(
    unprivileged: Unprivileged, tmp_path: Path
) -> None:
    """No command ends with a traceback."""
    unprivileged.write(TEMPLATE, "stack.yaml")
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    for command in COMMANDS:
        program, *words = command.split()
        full = (*unprivileged.before, str(BIN / program), *words)
        done = run(unprivileged, *full, HEAT_CONFIG_AGENT_STATE=str(closed / "state"))
        assert "Traceback" not in done.stderr, command
        if done.returncode not in (0, 3):
            assert "Permission denied" in done.stderr, command
