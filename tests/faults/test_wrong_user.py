"""Commands of one user about the agent of another: they say whose agent works where, and advise nothing harmful."""

from __future__ import annotations

import os
import re
import subprocess

import pytest

from heat_config_agent.model.errors import ExitCode
from heat_config_agent.state import agents, lock
from support import endings
from support.daemon import LONG, Daemon, counting
from support.loopback import wait_until
from support.machine import BIN, deployment
from support.unprivileged import NOBODY, Unprivileged


def as_other(machine: Unprivileged, *words: str) -> subprocess.CompletedProcess[str]:
    """Run `heat-config-agent` as the user who is not root, with the default state directory."""
    command = [*machine.before, str(BIN / "heat-config-agent"), *words]
    options = {"env": machine.environment, "cwd": machine.folder, "timeout": LONG}
    return subprocess.run(  # type: ignore[call-overload, no-any-return]
        command, capture_output=True, text=True, check=False, **options
    )


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("status",), ExitCode.OK),
        (("status", "--check"), ExitCode.FAILED),
        (("poll",), ExitCode.NOT_THERE),
        (("show", "d1"), ExitCode.NOT_THERE),
        (("wait", "--wait-for", "0"), ExitCode.NOT_THERE),
        (("doctor",), None),
    ],
)
def test_a_user_is_told_where_the_agent_of_root_works(
    unprivileged: Unprivileged,
    daemon: Daemon,
    words: tuple[str, ...],
    code: ExitCode | None,
) -> None:
    """Commands without sudo name the agent of root and the command that shows it."""
    unprivileged.have_quick_tools()
    (unprivileged.folder / "quick-tools").chmod(0o755)
    daemon.begins_loaded = False
    daemon.start()
    done = as_other(unprivileged, *words)
    said = " ".join((done.stdout + done.stderr).split())
    assert re.search(
        r"the agent of root \(process \d+\) works on .*sudo heat-config-agent ", said
    ), said
    assert code is None or done.returncode == code
    assert "systemctl start" not in said


def test_state_directory_on_the_command_line_is_the_one_that_is_read(
    unprivileged: Unprivileged, daemon: Daemon
) -> None:
    """With --state-dir, nothing is said about other agents."""
    daemon.begins_loaded = False
    daemon.start()
    done = as_other(
        unprivileged, "status", "--state-dir", str(unprivileged.folder / "mine")
    )
    assert "agent of root" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("words", "options"),
    [
        (["/usr/bin/python3", "/usr/bin/heat-config-agent", "run"], ()),
        (
            ["heat-config-agent", "run", "--state-dir=/s", "--config", "/c"],
            ("--state-dir", "/s", "--config", "/c"),
        ),
        (["/usr/bin/heat-config-agent", "run", "--once"], None),
        (["/usr/bin/heat-config-agent", "status"], None),
        (["vim", "x", "y", "heat-config-agent", "run"], None),
    ],
)
def test_daemons_are_known_by_their_command_lines(
    words: list[str], options: tuple[str, ...] | None
) -> None:
    """The command line tells a daemon and its places."""
    assert agents._options(words) == options  # noqa: SLF001


def test_the_state_of_another_users_agent_is_not_to_be_taken_over(
    unprivileged: Unprivileged,
) -> None:
    """`doctor` as root advises to ask as that user; and an agent that has lost its folder for a while goes on."""
    machine = unprivileged
    local = machine.folder / "local"
    local.mkdir()
    settings = machine.write("")
    settings.write_text(
        f"[agent]\ncollectors = local\npolling_interval = 0.3\nsplay = 0\n[local]\npath = {local}\n"
    )
    words = ["--state-dir", str(machine.state), "--config", str(settings)]
    log = (machine.folder / "log").open("w")
    agent = subprocess.Popen(
        [*machine.before, str(BIN / "heat-config-agent"), "run", *words],
        env=machine.environment, cwd=machine.folder, stdout=log, stderr=log,
    )  # fmt: skip
    try:
        wait_until(
            lambda: (lock.holder(machine.state) or (0, ""))[1] == lock.DAEMON, LONG
        )
        done = machine.command("heat-config-agent", ["doctor", *words], {})
        said = " ".join(done.out.split())
        assert f"is the state of the agent of {NOBODY}" in said
        assert f"runuser -u {NOBODY} -- heat-config-agent doctor" in said
        assert "chown" not in said

        os.chown(machine.state, 0, 0)
        document = machine.write([deployment("d1", counting(machine))])
        document.rename(local / "a.json")
        wait_until(
            lambda: "Permission denied" in (machine.folder / "log").read_text(), LONG
        )
        assert agent.poll() is None
        os.chown(machine.state, NOBODY, NOBODY)
        wait_until((machine.folder / "ran").exists, LONG)
        assert "Traceback" not in (machine.folder / "log").read_text()
    finally:
        endings.end(agent)
        log.close()
