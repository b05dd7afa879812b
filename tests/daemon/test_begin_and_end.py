"""The daemon's start and its end: runs that outlive it, second daemons, streams that are closed."""

from __future__ import annotations

import os
import shlex
import signal
import time
from pathlib import Path

import psutil
import pytest

from support import endings, pace
from support.daemon import LONG, Daemon, counting, ran, until
from support.daemon_runs import meeting
from support.loopback import SignalServer, wait_until
from support.machine import Machine, deployment

pytestmark = pytest.mark.new_process("daemons")


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGTERM,
        pytest.param(signal.SIGINT, marks=pytest.mark.slow),
        signal.SIGKILL,
    ],
)
def test_run_outlives_the_daemon(
    daemon: Daemon, machine: Machine, heat: SignalServer, number: int
) -> None:
    """A run continues when the daemon ends, and the next daemon delivers its result exactly once."""
    daemon.put([deployment("d1", meeting(machine, "d1"), signal=heat.url())])
    daemon.start()
    wait_until(lambda: ran(machine) == ["d1"], LONG)
    before = time.monotonic()
    code = daemon.stop(number)
    assert time.monotonic() - before < pace.seconds(30)
    assert code == (-9 if number == signal.SIGKILL else 0), daemon.log

    daemon.start()
    daemon.wait_said(
        "d1: follows CREATE (script), which is already running as process "
    )
    assert daemon.states() == {"d1": "running"}
    assert not heat.signals
    (machine.folder / "go-d1").touch()
    heat.wait_for(1, LONG)
    daemon.wait_state("d1", "signalled")
    assert daemon.stop() == 0
    daemon.start()
    time.sleep(0.5)

    assert ran(machine) == ["d1"]
    assert len(heat.signals) == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_run_that_ended_without_a_daemon_is_reported_by_the_next(
    daemon: Daemon, machine: Machine, heat: SignalServer, number: int
) -> None:
    """The next one finds out how it ended."""
    daemon.put(
        [
            deployment(
                "d1",
                counting(machine, "d1", f"{until(machine.folder / 'go')}; exit 7"),
                signal=heat.url(),
            )
        ]
    )
    daemon.start()
    wait_until(lambda: ran(machine) == ["d1"], LONG)
    supervisor = psutil.Process(machine.status()["d1"]["process"])
    daemon.stop(number)
    (machine.folder / "go").touch()
    wait_until(lambda: endings.has_ended(supervisor), LONG)

    daemon.start()
    heat.wait_for(1, LONG)
    assert [each["deploy_status_code"] for each in heat.values()] == [7]
    assert ran(machine) == ["d1"]


def test_a_second_daemon_on_the_same_state_is_refused(
    daemon: Daemon, machine: Machine
) -> None:
    """On one state directory there is one agent: the second says so and ends with 4."""
    daemon.start()
    done = daemon.command("run")
    assert done.code == 4
    assert f"another agent works on {machine.state} (process {daemon.pid})" in done.err
    assert len(done.err.splitlines()) == 1
    assert daemon.command("run", "--once").code == 4
    assert not daemon.ended


def test_daemons_with_different_state_directories_do_not_meet(
    daemon: Daemon, machine: Machine, heat: SignalServer, tmp_path: Path
) -> None:
    """Daemons with different state directories do not affect each other."""
    (tmp_path / "other").mkdir()
    elsewhere = Machine(tmp_path / "other")
    other = Daemon(elsewhere)
    try:
        for each, name in ((daemon, "one"), (other, "two")):
            each.put(
                [deployment("d1", counting(each.machine, name), signal=heat.url(name))]
            )
            each.start()
        heat.wait_for(2, LONG)
        assert (ran(machine), ran(elsewhere)) == (["one"], ["two"])
        assert daemon.stop() == 0
        assert not other.ended
        wait_until(lambda: other.command("status", "--check").code == 0, LONG)
    finally:
        other.end()
        elsewhere.end()


def test_daemon_survives_the_reader_of_its_log(
    daemon: Daemon, machine: Machine, heat: SignalServer
) -> None:
    """The daemon continues when the reader of its log has gone, as when journald restarts."""
    pipe = machine.folder / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    daemon.start("/bin/sh", "-c", f'exec "$@" 2>{shlex.quote(str(pipe))}', "sh")
    os.close(reader)
    for identity in ("d1", "d2"):
        daemon.put(
            [
                deployment(
                    identity, counting(machine, identity), signal=heat.url(identity)
                )
            ]
        )
        wait_until(lambda name=identity: len(heat.values(name)) == 1, LONG)  # type: ignore[misc]
    assert ran(machine) == ["d1", "d2"]
    assert daemon.stop() == 0


@pytest.mark.parametrize("closed", ["2>&-", ">&- 2>&- <&-"])
def test_daemon_works_without_standard_streams(
    daemon: Daemon, machine: Machine, heat: SignalServer, closed: str
) -> None:
    """The daemon works without standard streams."""
    daemon.put([deployment("d1", counting(machine), signal=heat.url())])
    daemon.start("/bin/sh", "-c", f'exec "$@" {closed}', "sh")
    heat.wait_for(1, LONG)
    assert heat.values()[0]["deploy_status_code"] == 0
    assert daemon.stop() == 0
