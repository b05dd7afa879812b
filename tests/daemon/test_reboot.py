"""Reboots: those that a deployment asks for, those that nobody asked for, and a disk that wakes up in another machine.

The machine is not rebooted. A boot is told from another by the kernel's boot id: where root may, a daemon is started
with another file in its place.
"""

from __future__ import annotations

import json
import shlex
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support import endings, pace
from support.daemon import LONG, Daemon, counting, ran, until
from support.loopback import Answer, SignalServer, wait_until
from support.machine import BIN, Machine, deployment
from support.mounts import after_a_boot, may_mount, on_instance
from support.repositories import template

pytestmark = pytest.mark.new_process("daemons")

ASK = "exit 194"

GOES_ON = f'echo "boot ${{HEAT_REBOOTS:-0}}"; [ -n "$HEAT_REBOOTS" ] || {ASK}'
"""A script that asks for a reboot once."""


@pytest.fixture
def _mounts() -> None:
    """A boot id, or an instance, can be another one."""
    if not may_mount():
        pytest.skip(
            "a boot id can only be changed where mounts are allowed: run the tests as root"
        )


@pytest.fixture
def boot(_mounts: None, tmp_path: Path) -> Callable[[], tuple[str, ...]]:
    """Return a function for the command with which a daemon starts after another boot."""
    return lambda: after_a_boot(tmp_path)


@pytest.fixture
def reboots(daemon: Daemon, machine: Machine) -> Path:
    """A file to which the `reboot_command` of the settings writes a line each time."""
    path, command = machine.folder / "reboots", machine.folder / "reboot now"
    command.write_text(f'#!/bin/sh\necho "$*" >>{path}\n')
    command.chmod(0o755)
    daemon.configure(reboot_command=f"{shlex.quote(str(command))} --force 'a b'")
    return path


def lines(path: Path) -> list[str]:
    """Return the lines of a file, none where it is not there."""
    return path.read_text().splitlines() if path.exists() else []


def kill_all(machine: Machine) -> None:
    """End all processes of a machine, as a power cut does."""
    endings.kill(*machine.processes())
    wait_until(lambda: all(map(endings.has_ended, machine.processes())), LONG)


def test_requested_reboot_waits_for_the_other_runs(
    daemon: Daemon,
    machine: Machine,
    heat: SignalServer,
    reboots: Path,
    boot: Callable[[], tuple[str, ...]],
) -> None:
    """The machine is rebooted once nothing runs any more; nothing new begins before; then the deployment goes on."""
    daemon.configure(parallel=2)
    go = machine.folder / "go"
    began = machine.folder / "began"
    given = [
        deployment(
            "d1",
            counting(machine, "d1", f"{until(began)}\n{GOES_ON}"),
            signal=heat.url("d1"),
        ),
        deployment(
            "d2",
            counting(machine, "d2", f"touch {began}\n{until(go)}"),
            signal=heat.url("d2"),
        ),
        deployment("d3", counting(machine, "d3"), signal=heat.url("d3")),
    ]
    daemon.put(given)
    daemon.start()
    wait_until(lambda: daemon.states().get("d1") == "reboot", LONG)
    daemon.wait_said("d1: asks for a reboot of the machine")
    time.sleep(1.2)
    assert lines(reboots) == [], "d2 still runs"
    assert "d3" not in ran(machine), "that would be interrupted"
    assert "about to reboot" in daemon.health()["doing"]
    assert machine.status()["d3"]["what"] == "waits for a reboot of the machine"
    go.touch()
    wait_until(lambda: lines(reboots) == ["--force a b"], LONG)
    assert len(heat.values("d2")) == 1, "what had ended was delivered before"
    time.sleep(1.2)
    assert len(lines(reboots)) == 1
    assert "d3" not in ran(machine)
    assert heat.values("d1") == []
    assert "d1" in str(daemon.command("status", "--json").data["agent"]["reboot"])
    daemon.stop()

    daemon.start()  # without a boot in between it still waits for one
    wait_until(lambda: len(lines(reboots)) == 2, LONG)
    assert sorted(ran(machine)) == ["d1", "d2"]
    daemon.stop()

    daemon.start(*boot())
    wait_until(lambda: len(heat.values("d1")) == len(heat.values("d3")) == 1, LONG)
    [value] = heat.values("d1")
    assert (value["deploy_status_code"], value["deploy_stdout"]) == (0, "boot 1\n")
    assert sorted(ran(machine)) == ["d1", "d1", "d2", "d3"]
    assert len(lines(reboots)) == 2
    assert machine.status()["d1"]["reboots"] == 1


def test_reboot_is_left_to_people_where_the_settings_say_so(
    daemon: Daemon, machine: Machine, reboots: Path, heat: SignalServer
) -> None:
    """The machine is not rebooted, and the health file says what is waited for."""
    daemon.configure(may_reboot="no")
    daemon.put([deployment("d1", counting(machine, "d1", ASK), signal=heat.url("d1"))])
    daemon.start()
    wait_until(lambda: "waits for a reboot" in daemon.health()["doing"], LONG)
    assert (lines(reboots), heat.values("d1")) == ([], [])
    daemon.configure(may_reboot="yes")
    daemon.send(signal.SIGHUP)
    wait_until(lambda: len(lines(reboots)) == 1, LONG)


@pytest.mark.slow
def test_deployment_fails_after_ten_reboots(
    daemon: Daemon,
    machine: Machine,
    heat: SignalServer,
    reboots: Path,
    boot: Callable[[], tuple[str, ...]],
) -> None:
    """A deployment that asks for a reboot each time gets ten, and then fails."""
    daemon.put([deployment("d1", counting(machine, "d1", ASK), signal=heat.url())])
    for number in range(1, 11):
        daemon.start(*boot())
        wait_until(lambda count=number: len(lines(reboots)) == count, LONG)  # type: ignore[misc]
        daemon.stop()
    assert not heat.signals
    daemon.start(*boot())
    heat.wait_for(1, LONG)
    daemon.wait_said("d1: FAILED", "more than 10 times")
    assert ran(machine) == ["d1"] * 11
    assert len(lines(reboots)) == 10
    assert heat.values()[0]["deploy_status_code"] == 194


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (
            "/no/such/command",
            "«/no/such/command» cannot be started: No such file or directory",
        ),
        (
            "sh -c 'echo it is inhibited >&2; exit 3'",
            "ended with exit code 3: it is inhibited",
        ),
    ],
)
def test_failed_reboot_fails_its_deployment(
    daemon: Daemon, machine: Machine, heat: SignalServer, command: str, why: str
) -> None:
    """The deployment has failed, with the reason, and what waited goes on."""
    daemon.configure(reboot_command=command)
    daemon.put(
        [
            deployment(
                "d1",
                counting(machine, "d1", f"echo before; {ASK}"),
                signal=heat.url("d1"),
            ),
            deployment("d2", counting(machine, "d2"), signal=heat.url("d2")),
        ]
    )
    daemon.start()
    wait_until(lambda: len(heat.values("d1")) == len(heat.values("d2")) == 1, LONG)
    [value] = heat.values("d1")
    assert value["deploy_status_code"] != 0
    assert value["deploy_stdout"] == "before\n"
    assert "it asked for a reboot, and" in value["deploy_stderr"]
    assert why in value["deploy_stderr"]
    assert ran(machine) == ["d1", "d2"]


def test_reboot_waits_for_the_delivery_of_results(
    daemon: Daemon, machine: Machine, heat: SignalServer, reboots: Path
) -> None:
    """A server that answers slowly gets every result before the machine goes down."""
    heat.named["d1"] = Answer(delay=2)
    daemon.put(
        [
            deployment("d1", counting(machine, "d1"), signal=heat.url("d1")),
            deployment("d2", counting(machine, "d2", ASK), signal=heat.url("d2")),
        ]
    )
    daemon.start()
    wait_until(lambda: bool(lines(reboots)), LONG)
    assert daemon.states()["d1"] == "signalled"


def test_replaced_deployment_causes_no_reboot(
    daemon: Daemon, machine: Machine, heat: SignalServer, reboots: Path
) -> None:
    """A deployment that was replaced while it ran, or waited for the reboot, causes none."""
    go = machine.folder / "go"
    daemon.put(
        [
            deployment(
                "d1", counting(machine, "d1", f"{until(go)}; {ASK}"), signal=heat.url()
            )
        ]
    )
    daemon.start()
    wait_until(lambda: ran(machine) == ["d1"], LONG)
    given = [deployment("d2", counting(machine, "d2"), signal=heat.url())]
    daemon.put(given)
    wait_until(lambda: "d2" in daemon.states(), LONG)
    go.touch()
    heat.wait_for(1, LONG)
    assert daemon.states()["d1"] == "superseded"

    assert daemon.command("pause", "--reason", "no reboot now").code == 0
    daemon.stop()
    assert daemon.command("resume").code == 0
    given.append(
        deployment(
            "d3",
            counting(machine, "d3", f"touch {machine.state}/paused; {ASK}"),
            signal=heat.url("d3"),
        )
    )
    daemon.put(given)
    daemon.start()
    daemon.wait_state("d3", "reboot")
    time.sleep(1.2)
    assert lines(reboots) == [], "a pause holds it up too"
    daemon.put(given[:1])
    daemon.wait_state("d3", "superseded")
    assert daemon.command("resume").code == 0
    time.sleep(1.2)
    assert lines(reboots) == []
    assert ran(machine) == ["d1", "d2", "d3"]
    assert len(heat.signals) == 1


def test_run_that_the_reboot_interrupted_is_reported_at_start(
    daemon: Daemon,
    machine: Machine,
    heat: SignalServer,
    boot: Callable[[], tuple[str, ...]],
) -> None:
    """An interrupted run is reported at the next start, before any source answers."""
    path = machine.write(
        [
            deployment(
                "d1",
                counting(machine, "d1", "echo begun; sleep 600"),
                signal=heat.url(),
            )
        ]
    )
    daemon.settings["file"] = {"path": str(path)}
    daemon.configure(collectors="file")
    daemon.start()
    wait_until(lambda: ran(machine) == ["d1"], LONG)
    daemon.end()
    kill_all(machine)
    path.unlink()

    daemon.start(*boot())
    heat.wait_for(1, LONG)
    [value] = heat.values()
    assert value["deploy_status_code"] != 0
    assert "interrupted: the machine went down while it ran" in value["deploy_stderr"]
    assert value["deploy_stdout"] == "begun\n"
    wait_until(lambda: daemon.source("file").get("working") is False, LONG)
    assert ran(machine) == ["d1"]


def test_reboot_is_left_to_the_user_by_one_shot_commands(
    daemon: Daemon,
    machine: Machine,
    heat: SignalServer,
    reboots: Path,
    boot: Callable[[], tuple[str, ...]],
) -> None:
    """The one-shot commands exit with code 6 and do not reboot; after the reboot they continue."""
    given: list[dict[str, Any]] = [
        deployment("d1", counting(machine, "d1", GOES_ON), signal=heat.url("d1"))
    ]
    daemon.put(given)
    for _ in range(2):
        assert daemon.command("run", "--once").code == 6
    path = machine.write(
        [deployment("d2", counting(machine, "d2", GOES_ON), signal=heat.url("d2"))]
    )
    done = machine.apply(path)
    assert done.code == 1
    assert "nothing new is begun" in done.err
    assert not heat.signals
    assert lines(reboots) == []

    command = [
        str(BIN / "heat-config-agent"),
        "run",
        "--once",
        "--config",
        str(daemon.path),
    ]
    program = machine.start("/usr/bin/env", *boot(), *command)
    program.communicate(timeout=pace.seconds(LONG))
    assert program.returncode == 0
    assert [each["deploy_stdout"] for each in heat.values("d1")] == ["boot 1\n"]
    assert ran(machine) == ["d1", "d1"]


@pytest.mark.usefixtures("_mounts")
def test_state_of_a_copied_disk_is_set_aside(
    daemon: Daemon, machine: Machine, heat: SignalServer
) -> None:
    """The state of the instance that the disk was copied from is set aside: nothing of it is sent or skipped."""
    heat.refuse()
    daemon.put([deployment("d1", counting(machine, "old"), signal=heat.url("old"))])
    daemon.start(*on_instance("i-1"))
    daemon.wait_state("d1", "finished")
    daemon.stop()
    daemon.start(*on_instance("i-1"))
    assert daemon.states() == {"d1": "finished"}
    daemon.stop()

    heat.start()
    daemon.put([deployment("d1", counting(machine, "new"), signal=heat.url("new"))])
    daemon.start(*on_instance("i-2"))
    heat.wait_for(1, LONG)
    time.sleep(0.5)

    assert ran(machine) == ["old", "new"]
    assert (len(heat.values("old")), len(heat.values("new"))) == (0, 1)
    assert (machine.state / "of-i-1" / "journal").is_file()
    assert len(daemon.said("another instance", "i-1", "i-2")) == 1


@pytest.mark.fault(
    1,
    "a followed revision asks for a reboot, and a power cut",
    "one reboot; then the revision goes on",
)
def test_a_followed_stack_asks_for_a_reboot(
    daemon: Daemon, machine: Machine, reboots: Path, boot: Callable[[], tuple[str, ...]]
) -> None:
    """The machine is rebooted once; then the revision goes on where it was, and the next one counts."""
    folder, log = machine.folder / "site", machine.folder / "log"
    folder.mkdir()
    (folder / "stack.yaml").write_text(template(log, "one", GOES_ON))
    daemon.settings["follow web"] = {
        "url": str(folder),
        "path": "stack.yaml",
        "interval": 0.2,
    }
    daemon.configure()
    daemon.start()
    wait_until(lambda: len(lines(reboots)) == 1, LONG)
    assert (
        "waits for a reboot of the machine"
        in daemon.command("status", "--json").data["sources"][-1]["message"]
    )
    time.sleep(1.2)
    assert len(lines(reboots)) == len(lines(log)) == 1
    daemon.stop(signal.SIGKILL)
    kill_all(machine)

    daemon.start(*boot())
    wait_until(
        lambda: (
            daemon.command("status", "--json").data["sources"][-1]["revision"]
            is not None
        ),
        LONG,
    )
    assert lines(log) == ["one red"] * 2
    assert len(lines(reboots)) == 1
    (folder / "stack.yaml").write_text(template(log, "two"))
    wait_until(lambda: lines(log)[-1] == "two red", LONG)


@pytest.mark.parametrize(
    "kind", ["template", pytest.param("document", marks=pytest.mark.slow)]
)
@pytest.mark.fault(
    5,
    "a power cut while a followed revision runs",
    "its reason names the deployment and the power cut everywhere, and `source sync --again` carries it out again",
)
def test_revision_that_a_power_cut_interrupts_says_so(
    daemon: Daemon, machine: Machine, boot: Callable[[], tuple[str, ...]], kind: str
) -> None:
    """The journal, `status`, `source list` and `doctor` have the reason, and the command that they name helps."""
    machine.have_quick_tools()
    folder, log, go = (
        machine.folder / "site",
        machine.folder / "log",
        machine.folder / "go",
    )
    folder.mkdir()
    script = f"[ -e {go} ] || sleep 600"
    if kind == "template":
        path, text = folder / "stack.yaml", template(log, "one", script)
    else:
        bare = {
            "id": "d1",
            "name": "deployment",
            "group": "script",
            "inputs": [],
            "outputs": [],
        }
        path = folder / "site.json"
        text = json.dumps(
            [{**bare, "config": f"#!/bin/sh\necho one red >>{log}\n{script}\n"}]
        )
    path.write_text(text)
    daemon.settings["follow web"] = {
        "url": str(folder),
        "path": path.name,
        "interval": 0.2,
    }
    daemon.configure()
    daemon.start()
    wait_until(lambda: lines(log) == ["one red"], LONG)
    daemon.stop(signal.SIGKILL)
    kill_all(machine)

    daemon.start(*boot())
    reason = "interrupted: the machine went down while it ran"
    wait_until(lambda: bool(daemon.said("has failed", "deployment", reason)), LONG)
    # the record of the source is written after the deployment's
    wait_until(lambda: reason in daemon.command("status", "--check").out, LONG)
    for words in (["status"], ["source", "list"], ["doctor"]):
        assert reason in daemon.command(*words).out
    assert "source sync web --again" in daemon.command("doctor").out
    go.touch()
    assert daemon.command("source", "sync", "web", "--again").code == 0
    wait_until(
        lambda: daemon.command("status", "--json").data["sources"][-1]["state"] == "ok",
        LONG,
    )
    assert lines(log) == ["one red"] * 2
