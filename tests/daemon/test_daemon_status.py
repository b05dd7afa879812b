"""The reports of the daemon: to systemd, in its status, and as metrics."""

from __future__ import annotations

import os
import re
import signal
import socket
import stat
import sys
import time
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from heat_config_agent import __version__
from heat_config_agent.model.errors import ExitCode
from support import pace
from support.daemon import LONG, Daemon, counting, ran
from support.daemon_runs import meeting
from support.loopback import SignalServer, wait_until
from support.machine import BIN, Machine, deployment
from support.service_manager import Systemd


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[Systemd]:
    """A socket at `$NOTIFY_SOCKET`, as systemd has it."""
    manager = Systemd(tmp_path / "notify")
    yield manager
    manager.close()


def test_systemd_is_told_when_the_daemon_is_ready_and_what_it_does(
    daemon: Daemon, machine: Machine, systemd: Systemd
) -> None:
    """The daemon tells systemd that it is ready, busy, alive, reloading or stopping."""
    daemon.start(NOTIFY_SOCKET=str(systemd.path), WATCHDOG_USEC="900000")
    assert systemd.until("READY=1")[-1] == "READY=1"
    systemd.until("STATUS=idle")
    daemon.put([deployment("d1", meeting(machine, "d1"))])
    systemd.until("STATUS=running d1")
    moments = [time.monotonic()]
    for _ in range(6):
        systemd.until("WATCHDOG=1")
        moments.append(time.monotonic())
    assert max(after - before for before, after in pairwise(moments)) < 0.9
    for _ in range(2):
        daemon.send(signal.SIGHUP)
        found = systemd.until("RELOADING=1")[-1]
        moment = int(re.fullmatch(r"RELOADING=1\nMONOTONIC_USEC=(\d+)", found)[1])  # type: ignore[index]
        assert abs(moment / 1e6 - time.monotonic()) < LONG
        assert systemd.until("READY=1")[-1] == "READY=1"
    daemon.path.write_text("nonsense")
    daemon.send(signal.SIGHUP)
    systemd.until("RELOADING=1")
    systemd.until("READY=1")
    assert daemon.stop() == 0
    systemd.until("STOPPING=1")


@pytest.mark.parametrize(
    ("content", "said", "code"),
    [
        ("[agent]\nnonsense = 1\n", "cannot use the settings in ", ExitCode.USAGE),
        (
            "[agent]\nstate_dir = /dev/null/state\n",
            "cannot use the state directory /dev/null/state: /dev/null is",
            ExitCode.LACKING,
        ),
    ],
)
def test_daemon_without_a_start_tells_systemd_why(
    daemon: Daemon, systemd: Systemd, content: str, said: str, code: ExitCode
) -> None:
    """The last status line has the sentence of the error: `systemctl status` shows it when the process has ended."""
    daemon.path.write_text(content)
    daemon.start(wait=False, NOTIFY_SOCKET=str(systemd.path))
    assert systemd.until("STATUS=")[-1].startswith(f"STATUS=not running: {said}")
    assert daemon.wait() == code


@pytest.mark.parametrize(
    "address", ["@heat-config-agent-{pid}", "{folder}/nobody", "relative", ""]
)
def test_daemon_notifies_an_abstract_socket_or_goes_without(
    daemon: Daemon, machine: Machine, address: str
) -> None:
    """The daemon writes to an abstract socket, and a missing listener has no effect."""
    address = address.format(pid=os.getpid(), folder=machine.folder)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        if address.startswith("@"):
            listener.bind(f"\0{address[1:]}")
            listener.settimeout(LONG)
        daemon.start(NOTIFY_SOCKET=address)
        assert not address.startswith("@") or listener.recv(100) == b"READY=1"
    assert daemon.stop() == 0


def test_status_shows_whether_the_daemon_runs_and_what_it_does(
    daemon: Daemon, machine: Machine
) -> None:
    """`status` says whether it runs and what it does; `--check` says by its exit code whether all is well."""
    daemon.configure()
    done = daemon.command("status", "--check")
    assert (done.code, done.out) == (1, "no agent is running\n")
    daemon.put([deployment("d1", meeting(machine, "d1"))])
    daemon.start()
    wait_until(lambda: daemon.health().get("doing") == "running d1", LONG)
    done = daemon.command("status", "--check")
    assert (done.code, done.out) == (0, "the agent is well: running d1\n")
    said = daemon.command("status", "--json").data
    assert (said["healthy"], said["problems"]) == (True, [])
    assert (said["agent"]["running"], said["agent"]["process"]) == (True, daemon.pid)
    [source] = said["sources"]
    assert (source["name"], source["state"], source["message"]) == ("local", "ok", "")
    shown = daemon.command("status").out
    assert f"agent: running d1 (process {daemon.pid})" in shown
    [row] = [line.split() for line in shown.splitlines() if line.startswith("local ")]
    assert row[:5] == ["local", "ok", "-", "source", "-"]
    daemon.stop()
    said = daemon.command("status", "--json").data
    assert (said["healthy"], said["agent"]["running"], said["agent"]["doing"]) == (
        False,
        False,
        "not running",
    )
    assert daemon.command("status").code == 0


_LABEL = re.compile(r'([a-z_]+)="((?:[^"\\\n]|\\["\\n])*)"')
_SAMPLE = re.compile(
    rf"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{{({_LABEL.pattern}(?:,{_LABEL.pattern})*)\}})? (-?[0-9.e+-]+)"
)


def samples(text: str) -> dict[tuple[str, str], float]:
    """Return name and labels → value of metrics in Prometheus' text format, which they have to have."""
    assert text.endswith("\n")
    values: dict[tuple[str, str], float] = {}
    described: Counter[tuple[str, str]] = Counter()
    for line in text.splitlines():
        if line.startswith("#"):
            _, kind, name, _ = line.split(" ", 3)
            described[kind, name] += 1
            continue
        match = _SAMPLE.fullmatch(line)
        assert match, line
        assert described["HELP", match[1]] == described["TYPE", match[1]] == 1, line
        labels = " ".join(value for _, value in _LABEL.findall(match[2] or ""))
        assert (match[1], labels) not in values
        values[match[1], labels] = float(match[7])
    return values


EARLIER = """
import sys
import heat_config_agent
heat_config_agent.__version__ = "0.9.0"
sys.argv = sys.argv[1:]
from heat_config_agent.cli.main import agent
sys.exit(agent())
"""
"""A program that runs the command as another version."""


@pytest.mark.new_process("daemons")
def test_daemon_that_is_older_than_its_files_is_named(daemon: Daemon) -> None:
    """After an upgrade that did not restart it, `status`, `status --check` and `doctor` say so."""
    daemon.machine.have_quick_tools()
    daemon.start(sys.executable, "-c", EARLIER)
    daemon.put([])
    wait_until(lambda: daemon.source().get("working") is True, LONG)
    says = (
        f"the running agent is version 0.9.0, and its files are version {__version__}"
    )
    assert f"{says}: restart it" in daemon.command("status").out
    done = daemon.command("status", "--check")
    assert (done.code, f"{says}: restart it" in done.out) == (1, True)
    assert says in daemon.command("doctor").out
    daemon.stop()
    daemon.start()
    wait_until(lambda: daemon.source().get("working") is True, LONG)
    assert daemon.command("status", "--check").code == 0
    assert says not in daemon.command("doctor").out


def test_metrics_are_in_the_text_format_of_prometheus_without_secrets(
    daemon: Daemon, machine: Machine, heat: SignalServer
) -> None:
    """Metrics have Prometheus' text format, are readable for all, and contain no secret."""
    path = machine.folder / "metrics" / "heat.prom"
    path.parent.mkdir()
    daemon.configure(metrics_file=str(path))
    daemon.put(
        [
            deployment(
                "d1",
                counting(machine, "d1", "exit 3"),
                inputs={"password": "geheim"},
                signal=heat.url(),
            ),
            deployment("d2", meeting(machine, "d2")),
            deployment("d3", meeting(machine, "d3")),
        ]
    )
    before, doing = time.time(), "running d2; 1 waiting; 1 deployment failed"
    os.umask(os.umask(0o077))
    daemon.start()
    wait_until(
        lambda: len(heat.signals) == 1 and daemon.health().get("doing") == doing, LONG
    )
    prefix = "heat_config_agent"
    expected = {
        (f"{prefix}_up", ""): 1,
        (f"{prefix}_paused", ""): 0,
        (f"{prefix}_deployments", "signalled"): 1,
        (f"{prefix}_deployments", "running"): 1,
        (f"{prefix}_deployments", "accepted"): 1,
        (f"{prefix}_deployments_waiting", ""): 1,
        (f"{prefix}_deployments_failed", ""): 1,
        (f"{prefix}_results_undelivered", ""): 0,
        (f"{prefix}_source_working", "local"): 1,
        (f"{prefix}_source_failures", "local"): 0,
        (f"{prefix}_deployment_state", "d1 CREATE script failed"): 1,
        (f"{prefix}_deployment_state", "d2 CREATE script running"): 1,
        (f"{prefix}_deployment_state", "d3 CREATE script accepted"): 1,
    }
    wait_until(lambda: expected.items() <= samples(path.read_text()).items(), LONG)
    metrics = samples(path.read_text())
    assert before - 1 <= metrics[f"{prefix}_start_time_seconds", ""] <= time.time() + 1
    for name in ("d1 CREATE script", "d2 CREATE script"):
        assert (
            before - 1
            <= metrics[f"{prefix}_deployment_start_time_seconds", name]
            <= time.time() + 1
        )
        assert (
            0
            <= metrics[f"{prefix}_deployment_duration_seconds", name]
            <= time.time() - before + 1
        )
    assert (
        f"{prefix}_deployment_start_time_seconds",
        "d3 CREATE script",
    ) not in metrics
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert "geheim" not in path.read_text()
    assert "Signature" not in path.read_text()
    assert daemon.stop() == 0
    assert samples(path.read_text())[f"{prefix}_up", ""] == 0
    assert [each.name for each in path.parent.iterdir()] == ["heat.prom"]


def test_help_describes_the_command_run(daemon: Daemon) -> None:
    """`run` is said in the help, with its signals and exit codes."""
    done = daemon.machine.start(
        str(BIN / "heat-config-agent"), "run", "--help"
    ).communicate(timeout=pace.seconds(20))[0]
    assert all(word in done for word in ("--once", "HUP", "USR1", "TERM", "130"))


def test_skipped_entry_is_shown_with_the_reason(
    daemon: Daemon, machine: Machine
) -> None:
    """An entry without a group, and one that heat-agents has begun: the log names each once, and so does the status."""
    deployed = machine.state / "deployed"
    deployed.mkdir(parents=True, mode=0o700)
    machine.state.chmod(0o700)
    (deployed / "d2.json").write_text("{}")
    daemon.start()
    daemon.put([{"id": "d1", "name": "idle"}, deployment("d2", "#!/bin/sh\n")])
    wait_until(lambda: machine.agent("status", "--json").data["deployments"], LONG)
    skipped = machine.agent("status", "--json").data["deployments"]
    assert {each["state"] for each in skipped} == {"skipped"}
    assert [(each["id"], each["reason"]) for each in skipped] == [
        ("d1", "no `group` is given: nothing to run"),
        ("d2", "another agent began it and recorded no result"),
    ]
    row = next(
        line
        for line in machine.agent("status").out.splitlines()
        if line.startswith("idle")
    )
    assert (
        " ".join(row.split())
        == "idle skipped - - - - no `group` is given: nothing to run"
    )
    daemon.put([{"id": "d1", "name": "idle"}, deployment("d3", "#!/bin/sh\n")])
    wait_until(lambda: "d3" in machine.status(), LONG)
    daemon.stop()
    log = daemon.log
    assert log.count("idle: skipped: no `group` is given: nothing to run") == 1
    assert log.count("another agent began d2 and recorded no result") == 1


@pytest.mark.parametrize("command", [["retry"], ["forget", "--yes"]])
def test_an_alarm_about_another_agent_ends(
    daemon: Daemon, machine: Machine, command: list[str]
) -> None:
    """It ends when the metadata has the deployment no longer, or when a person has it run here."""
    deployed = machine.state / "deployed"
    deployed.mkdir(parents=True, mode=0o700)
    machine.state.chmod(0o700)
    (deployed / "d2.json").write_text("{}")
    given = [
        deployment("d1", counting(machine)),
        deployment("d2", counting(machine, "d2")),
    ]
    daemon.put(given)
    daemon.start()
    alarm = "another agent began d2 and recorded no result"
    wait_until(lambda: daemon.health().get("current") is True, LONG)
    assert daemon.command("status", "--check").out == f"{alarm}\n"
    daemon.put(given[:1])
    wait_until(lambda: daemon.command("status", "--check").code == 0, LONG)
    daemon.put(given)
    wait_until(lambda: alarm in daemon.command("status", "--check").out, LONG)
    assert daemon.command(*command, "d2").code == 0
    daemon.wait_state("d2", "unasked")
    assert daemon.command("status", "--check").code == 0
    assert ran(machine) == ["d1", "d2"]


def test_mistake_in_new_settings_is_reported_once(daemon: Daemon) -> None:
    """`status --check` does not repeat what the daemon has said about its settings."""
    daemon.start()
    daemon.path.write_text(f"{daemon.path.read_text()}nonsense = 1\n")
    daemon.send(signal.SIGHUP)
    wait_until(
        lambda: (
            "the settings stay as they were" in daemon.command("status", "--check").out
        ),
        LONG,
    )
    assert daemon.command("status", "--check").out.count("nonsense") == 1
    wait_until(
        lambda: "the settings stay as they were" in str(daemon.health().get("doing")),
        LONG,
    )


def test_failure_that_has_left_the_metadata_is_counted_no_longer(
    daemon: Daemon,
) -> None:
    """The line for systemd and `status` says it as long as the failed deployment is in the document."""
    daemon.start()
    daemon.put([deployment("d1", "#!/bin/sh\nexit 3\n"), deployment("d2")])
    wait_until(
        lambda: daemon.health().get("doing") == "idle; 1 deployment failed", LONG
    )
    daemon.put([deployment("d2")])
    wait_until(lambda: daemon.health().get("doing") == "idle", LONG)
    daemon.put([deployment("d1", "#!/bin/sh\nexit 3\n"), deployment("d2")])
    wait_until(
        lambda: daemon.health().get("doing") == "idle; 1 deployment failed", LONG
    )
