"""Runs as scopes of a real systemd: what they start is listed, bounded and ended with them, whatever it does."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support import kill_points
from support.loopback import wait_until
from support.machine import Done, deployment
from system.booted import Booted, booted
from system.test_service import (
    deploy,
    eventually,
    process,
    service,
    shown,
    start,
    state_of,
    status,
)

pytestmark = pytest.mark.takes(100)

__all__ = ["service"]

DAEMON = "#!/bin/sh\nenv -i setsid sleep {0} </dev/null >/dev/null 2>&1 &\n"
"""Leaves a process that has got away: it is in no session, has no parent and no variable of the run."""


NOT_ISOLATED = """
script=$(readlink -f "$(command -v heat-config-apply)")
exec "$(sed -n '1s/^#!\\([^ ]*\\).*/\\1/p' "$script")" -Xutf8 "$script" "$@"
"""
"""Runs `heat-config-apply` by an interpreter that heeds PYTHONPATH: as it is installed, it does not."""


@pytest.fixture(scope="module")
def machine() -> Iterator[Booted]:
    """A machine on which nothing of ours runs by itself."""
    with booted() as found:
        yield found


def apply(
    machine: Booted,
    *deployments: dict[str, Any],
    words: tuple[str, ...] = (),
    **environment: str,
) -> Done:
    """Apply deployments once."""
    text = json.dumps(deployments)
    return machine.run(
        "heat-config-apply",
        "--grace",
        "1",
        *words,
        "-",
        stdin=text,
        seconds=60,
        **environment,
    )


def shows(machine: Booted, identity: str) -> dict[str, Any]:
    """Return what the agent has on record of a deployment."""
    return machine.run("heat-config-agent", "show", identity, "--json").data


def running(machine: Booted, *argv: str) -> list[str]:
    """Return the ids of the processes with this command line."""
    return machine.run("pgrep", "--full", "--exact", " ".join(argv)).out.split()


def test_a_run_has_a_scope_of_its_own(machine: Booted) -> None:
    """It has its name, is listed with all that it has left behind, and nothing of systemd-run is seen in the run."""
    listing = "env\nls -l /proc/self/fd\ncat /proc/self/cgroup\n"
    done = apply(
        machine, deployment("d/1 é", DAEMON.format(1001) + listing, name="web\nserver")
    )
    assert (done.code, done.err) == (0, "")
    properties = shows(machine, "d/1 é")
    scope = properties["scope"]
    [left] = running(machine, "sleep", "1001")
    assert shown(machine, "ControlGroup", scope) == f"/heat.slice/{scope}"
    assert shown(machine, "Description", scope) == "Heat deployment web?server (CREATE)"
    assert shown(machine, "ActiveState", scope) == "active"
    assert left in machine.run("systemctl", "status", "--no-pager", "heat.slice").out
    assert f"{scope}; 1 alive" in machine.run("heat-config-agent", "show", "d/1 é").out
    printed = properties["values"]["deploy_stdout"]
    assert f"::/heat.slice/{scope}\n" in printed
    assert "INVOCATION_ID" not in printed
    assert "SYSTEMD" not in printed
    assert printed.count("/proc/") == 1
    # 0, 1 and 2, and that with which the list is read
    assert printed.count(" -> ") == 4

    assert machine.run("systemctl", "stop", scope).code == 0
    assert running(machine, "sleep", "1001") == []
    assert shown(machine, "LoadState", scope) == "not-found"


def test_escaped_processes_end_with_their_run(machine: Booted) -> None:
    """A time limit is one for all that a run has started."""
    text = DAEMON.format(1002) + "sleep 1003\n"
    done = apply(machine, deployment("d2", text, options={"timeout": 1}))
    assert done.code == 1
    assert "it timed out after 1 s" in done.out
    assert running(machine, "sleep", "1002") == []


@pytest.mark.fault(
    1,
    "the scope of a run is stopped by hand",
    "the result says which signal ended it",
)
def test_who_stops_a_scope_ends_its_run(machine: Booted) -> None:
    """Stopping a scope ends its run, and the result says truly that a signal ended it."""
    ender = "#!/bin/sh\nsystemctl stop $(cut -d/ -f3 /proc/self/cgroup | grep scope)\nsleep 1004\n"
    done = apply(machine, deployment("d3", ender))
    assert done.code == 1
    assert shows(machine, "d3")["values"]["deploy_status_code"] == 128 + 15
    assert running(machine, "sleep", "1004") == []


def test_a_limit_holds_or_nothing_is_run(machine: Booted) -> None:
    """Systemd is told of the limits; where the kernel gives it no means to hold them, that is said."""
    controllers = machine.run("cat", "/sys/fs/cgroup/cgroup.controllers").out.split()
    doctor = machine.run("heat-config-agent", "doctor", "--all").out
    bounds = {"memory_max": "64M", "cpu_quota": "50%", "tasks_max": 7}
    behind = {"memory_max": "memory", "cpu_quota": "cpu", "tasks_max": "pids"}
    for bound, value in bounds.items():
        done = apply(
            machine, deployment(bound, "#!/bin/sh\necho ran\n", options={bound: value})
        )
        if behind[bound] in controllers:
            assert done.code == 0
            assert bound not in doctor.partition(" unavailable: ")[0].rpartition(";")[2]
        else:
            assert bound in doctor.partition(" unavailable: ")[0].rpartition(";")[2]
            assert done.code == 1
            why = f"{bound} cannot be enforced: the kernel gives systemd no control of {behind[bound]} here"
            assert f"cannot start {bound}: {why}" in done.out
            assert done.err == ""
            assert shows(machine, bound)["values"]["deploy_status_code"] == 126
            assert shows(machine, bound)["values"]["deploy_stdout"] == ""


@pytest.mark.fault(
    1,
    "the agent is killed while it makes a scope for a run, and right after that",
    "the run is begun once, by it or by the next",
)
@pytest.mark.parametrize("point", ["runner.spawned", "runner.announced", "runner.word"])
def test_the_agent_is_killed_while_a_scope_is_made(machine: Booted, point: str) -> None:
    """The process that waited in the scope has run nothing, and the scope is removed."""
    given = deployment(point, f"#!/bin/sh\necho {point} >>/root/begun\n")
    once = machine.disk / "root/once"
    once.touch()
    injected = Path(kill_points.INJECTED)
    shutil.copytree(
        injected, machine.disk / "root/support/injected", dirs_exist_ok=True
    )
    shutil.copy(kill_points.__file__, machine.disk / "root/support/kill_points.py")
    armed = kill_points.environment(point, 1, "/root/once", "/root/support/injected")
    words = ("sh", "-c", NOT_ISOLATED, "sh", "--grace", "1", "-")
    done = machine.run(*words, stdin=json.dumps([given]), seconds=60, **armed)
    assert done.code in {-9, 137}
    assert not once.exists()
    assert apply(machine, given).code == 0
    assert (machine.disk / "root/begun").read_text().splitlines().count(point) == 1
    wait_until(
        lambda: (
            point
            not in machine.run("systemctl", "list-units", "--plain", "heat-*.scope").out
        ),
        10,
    )


def test_without_scopes_runs_are_plain_sessions(machine: Booted) -> None:
    """With the setting off, runs are plain sessions, and a limit that needs a scope is refused."""
    config = machine.disk / "root/plain.conf"
    config.write_text("[agent]\nscopes = false\n")
    words = ("--config", "/root/plain.conf", "--state-dir", "/root/plain")
    done = apply(
        machine, deployment("d5", "#!/bin/sh\ncat /proc/self/cgroup\n"), words=words
    )
    assert (done.code, done.err) == (0, "")
    printed = (machine.disk / "root/plain/runs/d5/stdout").read_text()
    assert "heat.slice" not in printed
    done = apply(
        machine, deployment("d6", "#!/bin/sh\n", options={"tasks_max": 5}), words=words
    )
    assert (
        "cannot start d6: tasks_max cannot be enforced: the setting `scopes` is off"
        in done.out
    )


@pytest.mark.fault(
    3,
    "systemd makes no scope, or does not answer at all",
    "the run is a plain session, once, with a sentence; one with a limit is refused",
)
def test_where_systemd_makes_none_the_run_is_begun_all_the_same(
    machine: Booted,
) -> None:
    """After ten seconds at the latest, and once: who waited for a scope has run nothing."""
    program = machine.disk / "usr/bin/systemd-run"
    kept = program.read_bytes()
    try:
        for identity, text, why in (
            ("d7", "#!/bin/sh\necho no bus >&2\nexit 1\n", "no bus"),
            ("d8", "#!/bin/sh\nexec sleep 1005\n", "systemd made no scope within 10 s"),
        ):
            program.write_text(text)
            done = apply(
                machine, deployment(identity, "#!/bin/sh\necho ran >>/root/ran\n")
            )
            assert (done.code, done.err) == (
                0,
                f"warning: {identity} has no scope of its own: {why}\n",
            )
            assert shows(machine, identity)["scope"] is None
        assert (machine.disk / "root/ran").read_text() == "ran\nran\n"
        program.write_text("#!/bin/sh\nexit 1\n")
        done = apply(
            machine,
            deployment("d9", "#!/bin/sh\necho ran\n", options={"memory_max": "1G"}),
        )
        assert done.code == 1
        assert "cannot start d9: memory_max cannot be enforced" in done.out
        assert running(machine, "sleep", "1005") == []
    finally:
        program.write_bytes(kept)


@pytest.mark.fault(
    1,
    "the machine is rebooted in the middle of a run",
    "reported as interrupted after the boot, or run again if its options allow that",
)
def test_the_machine_is_rebooted_in_the_middle_of_runs(service: Booted) -> None:
    """The agent goes down first, so it does not take the signals of the machine's end for the runs' own."""
    wait = "#!/bin/sh\necho begun >>/root/{0}\ntest -e /root/go || sleep 1006\n"
    deploy(
        service,
        deployment("d1", wait.format("d1")),
        deployment("d2", wait.format("d2"), options={"idempotent": True}),
    )
    (service.disk / "etc/heat-config-agent/more.conf").write_text(
        "[agent]\nparallel = 2\n"
    )
    start(service)
    eventually(service, lambda: len(running(service, "sleep", "1006")) == 2)
    (service.disk / "root/go").touch()
    service.run("systemctl", "reboot")
    service.await_reboot()
    eventually(
        service,
        lambda: {state_of(service, each) for each in ("d1", "d2")} == {"ended"},
    )
    first, second = sorted(
        status(service)["deployments"], key=lambda each: str(each["id"])
    )
    assert (first["state"], second["state"]) == ("failed", "ok")
    assert "the machine went down while it ran" in first["reason"]
    assert (service.disk / "root/d1").read_text() == "begun\n"
    assert (service.disk / "root/d2").read_text() == "begun\nbegun\n"


def test_stopping_the_agent_ends_nothing(service: Booted) -> None:
    """Runs do not belong to its service; the next agent finds them where they are."""
    deploy(
        service,
        deployment("d1", "#!/bin/sh\nwhile ! test -e /root/go; do sleep 0.1; done\n"),
    )
    start(service)
    eventually(service, lambda: state_of(service, "d1") == "running")
    scope = status(service)["deployments"][0]["scope"]
    assert service.run("systemctl", "stop", "heat-config-agent").code == 0
    assert shown(service, "ActiveState", scope) == "active"
    assert shown(service, "ControlGroup") in {
        "",
        "/system.slice/heat-config-agent.service",
    }
    assert process(service) == 0
    start(service)
    (service.disk / "root/go").touch()
    eventually(service, lambda: state_of(service, "d1") == "ended")
    wait_until(lambda: shown(service, "LoadState", scope) == "not-found", 10)
