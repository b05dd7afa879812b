"""One agent at a time for each state directory."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from heat_config_agent.state import lock
from support import endings, pace
from support.daemon import LONG, Daemon, counting, ran, until
from support.loopback import SignalServer, wait_until
from support.machine import BIN, Machine, deployment

pytestmark = [pytest.mark.takes(20), pytest.mark.new_process("daemons")]

LOCKED = 4


def waiting(machine: Machine) -> str:
    """Return a script that counts its runs and waits until it is let go."""
    return f"#!/bin/sh\necho ran >>{machine.folder}/ran\nuntil [ -e {machine.folder}/go ]; do sleep 0.02; done\n"


@pytest.mark.fault(
    1,
    "two agents on one state directory: started together, one after the other, or many",
    "one works, the others leave with exit code 4 and say who works; nothing is run twice",
)
def test_second_agent_leaves_with_exit_code_4(
    machine: Machine, heat: SignalServer
) -> None:
    """While one agent works the other leaves with exit code 4, says who is at work, and does nothing."""
    given = [deployment(config=waiting(machine), signal=heat.url())]
    first = machine.start_apply(given)
    wait_until((machine.folder / "ran").exists)

    second = machine.apply(given)

    assert second.code == LOCKED
    assert str(first.pid) in second.err
    assert second.out == ""
    (machine.folder / "go").touch()
    first.communicate(timeout=pace.seconds(10))
    assert first.returncode == 0
    assert (machine.folder / "ran").read_text() == "ran\n"
    assert len(heat.signals) == 1


@pytest.mark.fault(
    1,
    "two agents on one state directory: started together, one after the other, or many",
    "one works, the others leave with exit code 4 and say who works; nothing is run twice",
)
def test_agents_started_together_run_each_deployment_once(
    machine: Machine, heat: SignalServer
) -> None:
    """Many agents start at the same moment: none runs a deployment that another has run."""
    given = machine.write(
        [
            deployment(
                config=f"#!/bin/sh\necho ran >>{machine.folder}/ran\n",
                signal=heat.url(),
            )
        ]
    )
    agents = [machine.start_apply(given) for _ in range(8)]
    for each in agents:
        each.communicate(timeout=pace.seconds(20))

    assert {each.returncode for each in agents} <= {0, LOCKED}
    assert 0 in [each.returncode for each in agents]
    assert (machine.folder / "ran").read_text() == "ran\n"
    assert len(heat.signals) == 1


def test_agents_on_two_state_directories_are_independent(
    machine: Machine, heat: SignalServer, tmp_path: Path
) -> None:
    """Agents on different state directories do not know of each other."""
    first = machine.start_apply([deployment(config=waiting(machine))])
    wait_until((machine.folder / "ran").exists)
    (tmp_path / "elsewhere").mkdir()
    elsewhere = Machine(tmp_path / "elsewhere")

    assert elsewhere.apply([deployment(signal=heat.url())]).code == 0
    assert first.poll() is None
    elsewhere.end()


@pytest.mark.fault(
    1,
    "the agent killed while its run goes on",
    "the lock is free, and the next agent follows the run",
)
def test_a_run_does_not_hold_the_lock(machine: Machine, heat: SignalServer) -> None:
    """The lock ends with the agent that held it, even while the run that it started goes on."""
    given = [deployment(config=waiting(machine), signal=heat.url())]
    first = machine.start_apply(given)
    wait_until((machine.folder / "ran").exists)
    first.kill()
    first.communicate()
    assert machine.processes(), "the run goes on"

    second = machine.start_apply(given)
    wait_until(lambda: (machine.state / "lock").read_text().strip() == str(second.pid))
    (machine.folder / "go").touch()
    second.communicate(timeout=pace.seconds(10))

    assert second.returncode == 0
    assert (machine.folder / "ran").read_text() == "ran\n"
    assert len(heat.signals) == 1


@pytest.mark.fault(
    4,
    "a run looks for what the agent has open",
    "neither the journal nor the lock nor a connection is open in it",
)
def test_a_run_has_none_of_our_files_open(machine: Machine) -> None:
    """The processes of a run have neither the lock nor the journal open."""
    machine.start_apply([deployment(config=waiting(machine))])
    wait_until((machine.folder / "ran").exists)
    supervisor = psutil.Process(machine.status()["d1"]["process"])

    for each in [supervisor, *endings.children(supervisor, recursive=True)]:
        names = [
            str(path.readlink()) for path in Path(f"/proc/{each.pid}/fd").iterdir()
        ]
        assert not [
            name
            for name in names
            if name.endswith(("/lock", "/journal")) or name.startswith("socket")
        ]


def test_looking_needs_no_lock(machine: Machine) -> None:
    """Commands that only read work next to an agent; those that have to wait for it say so."""
    machine.start_apply([deployment(config=waiting(machine)), deployment("d2")])
    wait_until((machine.folder / "ran").exists)

    assert machine.status()["d1"]["state"] == "running"
    assert "d1" in machine.agent("show", "d1").out
    forget = machine.agent("forget", "--yes", "d2")
    assert forget.code == 0
    assert "next run" in forget.out


@pytest.mark.fault(
    1,
    "the lock removed, replaced by another file, or emptied, while an agent holds it",
    "a second agent still exits: the directory itself is locked",
)
@pytest.mark.parametrize("what", ["removed", "replaced", "emptied"])
def test_a_lock_that_is_gone(machine: Machine, heat: SignalServer, what: str) -> None:
    """No second agent begins when the file of the lock is removed or replaced."""
    given = [deployment(config=waiting(machine), signal=heat.url())]
    first = machine.start_apply(given)
    wait_until((machine.folder / "ran").exists, LONG)
    path = machine.state / "lock"
    if what != "emptied":
        path.unlink()
    if what != "removed":
        path.write_text("")
        path.chmod(0o600)

    second = machine.apply(given)

    assert second.code == LOCKED
    assert "another command works on" in second.err
    assert machine.status()["d1"]["state"] == "running"
    (machine.folder / "go").touch()
    first.communicate(timeout=pace.seconds(LONG))
    assert first.returncode == 0
    assert (machine.folder / "ran").read_text() == "ran\n"
    assert len(heat.signals) == 1


@pytest.mark.fault(
    1,
    "one state directory by two paths: a link, a bind mount",
    "a second agent leaves with exit code 4",
)
@pytest.mark.parametrize("how", ["link", "bind mount"])
def test_lock_belongs_to_the_directory_whatever_its_path(
    machine: Machine, heat: SignalServer, how: str
) -> None:
    """The lock belongs to the directory, whatever path leads to it."""
    given = [deployment(config=waiting(machine), signal=heat.url())]
    first = machine.start_apply(given)
    wait_until((machine.folder / "ran").exists, LONG)
    other = machine.folder / "other"
    if how == "link":
        other.symlink_to(machine.state)
        before: list[str] = []
    else:
        if os.geteuid() != 0:
            pytest.skip("only root may mount: run the tests as root")
        other.mkdir()
        before = [
            "unshare",
            "--mount",
            "/bin/sh",
            "-c",
            f'mount --bind {machine.state} {other} && exec "$@"',
            "sh",
        ]

    path = machine.write(given)
    words = [
        *before,
        str(BIN / "heat-config-apply"),
        "--state-dir",
        str(other),
        str(path),
    ]
    second = subprocess.run(
        words,
        env=machine.environment,
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
    )

    if before and "mount:" in second.stderr:
        pytest.skip(f"nothing can be mounted here: {second.stderr.strip()}")
    assert second.returncode == LOCKED, second.stderr
    (machine.folder / "go").touch()
    first.communicate(timeout=pace.seconds(LONG))
    assert (machine.folder / "ran").read_text() == "ran\n"


@pytest.mark.fault(
    1,
    "one state directory in two containers: the agent of one is killed, and its run goes on",
    "the other follows the run to its end, and starts no second copy",
)
@pytest.mark.parametrize(
    ("idempotent", "then"),
    [(False, "wait; sleep 600"), (True, "wait; sleep 600"), (False, "exec sleep 600")],
)
def test_run_of_another_container_is_followed(
    machine: Machine, heat: SignalServer, *, idempotent: bool, then: str
) -> None:
    """Process ids mean nothing there, but the status file of the run is still open to be written.

    The exit code counts also where nothing reaps the agent, so that its run takes it for alive and flushes nothing.
    """
    user = () if os.geteuid() == 0 else ("--user", "--map-root-user")
    apart = ("unshare", *user, "--pid", "--fork", "--mount-proc")
    if subprocess.run([*apart, "true"], check=False, capture_output=True).returncode:
        pytest.skip(
            "this machine gives no namespaces of processes: run the tests where «unshare --pid --fork» works"
        )
    given = deployment(
        config=waiting(machine), signal=heat.url(), options={"idempotent": idempotent}
    )
    path = machine.write([given])
    words = [
        str(BIN / "heat-config-apply"),
        "--state-dir",
        str(machine.state),
        str(path),
    ]
    init = [
        *apart,
        "/bin/sh",
        "-c",
        f'"$@" & agent=$!; {until(machine.folder / "die")}; kill -9 $agent; {then}',
        "sh",
    ]
    first = subprocess.Popen(
        [*init, *words], env=machine.environment, stderr=subprocess.DEVNULL
    )
    second = None
    try:
        wait_until((machine.folder / "ran").exists, LONG)
        (machine.folder / "die").touch()
        wait_until(lambda: lock.holder(machine.state) is None, LONG)
        assert machine.status()["d1"]["state"] == "running"
        second = subprocess.Popen(
            [*apart, *words], env=machine.environment, stdout=subprocess.PIPE, text=True
        )
        wait_until(lambda: lock.holder(machine.state) is not None, LONG)
        (machine.folder / "go").touch()
        said, _ = second.communicate(timeout=pace.seconds(LONG))
        assert second.returncode == 0, said
    finally:
        endings.end(first, second)
    assert (machine.folder / "ran").read_text() == "ran\n"
    assert [each["deploy_status_code"] for each in heat.values()] == [0]


@pytest.mark.fault(
    1,
    "a second daemon, `run --once` or heat-config-apply next to a daemon, also while the daemon starts",
    "it leaves with exit code 4, names the daemon, and does nothing",
)
def test_command_leaves_the_work_of_a_daemon_alone(
    daemon: Daemon, machine: Machine, heat: SignalServer
) -> None:
    """No other command takes over the daemon's work."""
    go = machine.folder / "go"
    given = [
        deployment("d1", counting(machine, "d1", until(go)), signal=heat.url("d1"))
    ]
    daemon.put(given)
    daemon.start(wait=False)
    rival = machine.start("heat-config-agent", "run", "--config", str(daemon.path))
    wait_until(lambda: daemon.ended or rival.poll() is not None, LONG)
    if daemon.ended:  # it was the later one
        assert daemon.process
        assert daemon.process.returncode == LOCKED
        rival.terminate()
        rival.communicate(timeout=pace.seconds(LONG))
        daemon.start()
    else:
        rival.communicate(timeout=pace.seconds(LONG))
        assert rival.returncode == LOCKED
    wait_until(lambda: ran(machine) == ["d1"], LONG)

    for done in (
        daemon.command("run", "--once"),
        daemon.command("run"),
        machine.apply([*given, deployment("d2", counting(machine, "d2"))]),
    ):
        assert done.code == LOCKED, done.err
        assert str(daemon.pid) in done.err
    go.touch()
    heat.wait_for(1, LONG)
    daemon.wait_state("d1", "signalled")
    assert ran(machine) == ["d1"]
    assert len(heat.signals) == 1


@pytest.mark.fault(
    1,
    "the state directory removed, or moved away and another put in its place, while the daemon works",
    "it says so, and begins and records nothing more until the directory is back or the agent is restarted",
)
@pytest.mark.parametrize("what", ["moved", "replaced"])
def test_the_state_directory_goes(
    daemon: Daemon, machine: Machine, heat: SignalServer, what: str
) -> None:
    """Without the state directory nothing new begins, and known deployments are not forgotten."""
    given = [deployment("d1", counting(machine), signal=heat.url("d1"))]
    daemon.put(given)
    daemon.start()
    daemon.wait_state("d1", "signalled")
    aside = machine.folder / "aside"
    machine.state.rename(aside)
    if what == "replaced":
        machine.state.mkdir(mode=0o700)
    daemon.put(
        [*given, deployment("d2", counting(machine, "d2"), signal=heat.url("d2"))]
    )
    daemon.wait_said("the journal", "removed")
    assert ran(machine) == ["d1"]
    assert not daemon.ended

    for number in range(100):
        # the daemon may make it anew at any moment, for its documents
        if machine.state.exists():
            machine.state.rename(machine.folder / f"other-{number}")
        with contextlib.suppress(OSError):
            aside.rename(machine.state)
            break
    daemon.send(signal.SIGUSR1)
    daemon.wait_state("d2", "signalled")
    assert daemon.stop() == 0
    assert ran(machine) == ["d1", "d2"]
    assert "Traceback" not in daemon.log
