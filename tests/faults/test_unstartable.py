"""Commands that can never start: their deployment fails, and no other."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from heat_config_agent.cli.apply import command as apply
from heat_config_agent.runs import supervisor
from heat_config_agent.state import journal
from support.daemon import LONG, Daemon
from support.loopback import SignalServer, wait_until
from support.machine import BIN, Machine, deployment

pytestmark = [pytest.mark.takes(20), pytest.mark.new_process("daemons")]

HALF = "cannot start half: its arguments, variables or file names contain half of a character"


def batch(heat: SignalServer) -> list[dict[str, object]]:
    """Return a deployment that cannot be started, as JSON can write what no argument can be, and one that can."""
    half = deployment(
        "half",
        "notice('x')",
        group="puppet",
        options={"tags": ["\ud800"]},
        signal=heat.url("half"),
    )
    return [half, deployment("good", "#!/bin/sh\necho fine\n", signal=heat.url("good"))]


@pytest.mark.fault(
    2,
    "an argument of a deployment's command that no program can be given: half of a character",
    "that deployment fails, and says why; those after it are run",
)
def test_invalid_argument_fails_its_own_deployment(
    machine: Machine, heat: SignalServer
) -> None:
    """A command with such an argument fails its own deployment."""
    done = machine.apply(batch(heat), HEAT_PUPPET_CMD="/bin/true")
    assert "Traceback" not in done.err
    [values] = heat.values("half")
    assert values["deploy_status_code"] == 126
    assert values["deploy_stderr"].startswith(HALF)
    assert heat.values("good")[0]["deploy_stdout"] == "fine\n"
    assert done.code == 1


def test_the_daemon_goes_on_after_it(daemon: Daemon, heat: SignalServer) -> None:
    """The daemon sends the failure once, and continues."""
    daemon.put(batch(heat))
    daemon.start(HEAT_PUPPET_CMD="/bin/true")
    heat.wait_for(2, LONG)
    wait_until(lambda: set(daemon.states().values()) == {"signalled"}, LONG)
    assert heat.values("good")[0]["deploy_stdout"] == "fine\n"
    assert len(heat.values("half")) == 1
    assert daemon.stop() == 0


@pytest.mark.fault(
    2,
    "a run cannot be started, for an unforeseen reason or for lack of memory",
    "that deployment fails, or is postponed; those after it are run",
)
@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            ValueError("embedded null byte"),
            "cannot start d1: its arguments, variables or file names contain a NUL",
        ),
        (
            ValueError("s3cret"),
            "cannot start d1: ValueError (a defect of heat-config-agent; please report it)",
        ),
        (
            OSError(errno.E2BIG, "Argument list too long"),
            "cannot start d1: Argument list too long",
        ),
        (
            MemoryError(),
            "cannot start d1: the machine has no memory left for it; the next run tries again",
        ),
    ],
    ids=["nul", "unforeseen", "too-long", "memory"],
)
def test_failed_start_affects_no_other_deployment(
    machine: Machine,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: Exception,
    said: str,
) -> None:
    """An error that starts one run fails affects no other deployment; most kinds have to be simulated."""
    real = supervisor.start

    def start(directory: Path, *rest: Any, **more: Any) -> supervisor.Running:
        if directory.name == "d1":
            raise error
        return real(directory, *rest, **more)

    monkeypatch.setattr(supervisor, "start", start)
    document = machine.write([deployment("d1"), deployment("d2")])
    assert apply.main(["--state-dir", str(machine.state), str(document)]) == 1
    out = capsys.readouterr().out
    assert said in out
    assert "s3cret" not in out
    assert [
        each.key
        for each in journal.read(machine.state).values()
        if each.settled and not each.failed
    ] == ["d2"]


@pytest.mark.fault(
    5,
    "the limit on the size of the agent's files (ulimit -f) is too low",
    "the message names the limit, and not a full disk; nothing is lost, and everything is run with a higher limit",
)
def test_limit_on_file_size_is_not_called_a_full_disk(machine: Machine) -> None:
    """A limit on the size of files is reported as such, for the journal and for the files of a run."""
    document = machine.write([deployment("d1", "#!/bin/sh\necho fine\n")])
    before = ["prlimit", "--fsize=100", "--"]
    done = subprocess.run(
        [
            *before,
            str(BIN / "heat-config-apply"),
            "--state-dir",
            str(machine.state),
            str(document),
        ],
        env=machine.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 10
    assert os.strerror(errno.EFBIG) in done.stderr
    assert "No space left" not in done.stderr + done.stdout
    assert machine.apply(document).code == 0
