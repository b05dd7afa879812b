"""Isolated runs on a machine with a real systemd: what they cannot reach, in a scope like all others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from support.loopback import wait_until
from support.machine import deployment
from system.booted import Booted, booted
from system.test_scopes import apply, running, shows
from system.test_service import (
    deploy,
    eventually,
    process,
    service,
    shown,
    start,
    state_of,
)

pytestmark = pytest.mark.takes(100)

__all__ = ["service"]

ALL = {"network": True, "home": True, "tmp": True, "system": "strict"}


@pytest.fixture(scope="module")
def machine() -> Iterator[Booted]:
    """A machine on which nothing of ours runs by itself."""
    with booted() as found:
        yield found


def test_an_isolated_run_has_a_scope_and_nothing_else_of_the_machine(
    machine: Booted,
) -> None:
    """Its network, the homes, temporary files and the system are out of its reach; what it leaves behind, too."""
    machine.run("useradd", "--create-home", "ada")
    machine.run(
        "sh",
        "-c",
        "echo secret >/home/ada/file; echo seen >/tmp/seen; echo seen >/root/seen",
    )
    apart = "readlink /proc/self/ns/net /proc/self/ns/mnt"
    script = (
        "#!/bin/sh\ncat /home/ada/file /tmp/seen /root/seen; touch /usr/made /etc/made /opt/made\n"
        f"{apart} >$heat_outputs_path.apart; ls /sys/class/net /proc/sys/net/ipv4/conf; mount -o remount,rw /\n"
        "systemctl is-system-running >$heat_outputs_path.asked\n"
        "echo mine >/tmp/mine; setsid sh -c 'sleep 1010; cat /tmp/mine' </dev/null >/dev/null 2>&1 &\n"
    )
    options = {"isolate": ALL}
    assert (
        apply(
            machine,
            deployment("i1", script, outputs=["apart", "asked"], options=options),
        ).code
        == 0
    )
    shown = shows(machine, "i1")
    stderr = shown["values"]["deploy_stderr"]
    assert stderr.count("No such file") == 3
    assert stderr.count("Read-only file system") == 3
    assert "remount" in stderr or "permission denied" in stderr
    assert not (machine.disk / "opt/made").exists()
    assert (
        set(shown["values"]["apart"].split())
        & set(machine.run("sh", "-c", apart).out.split())
        == set()
    )
    # services of the machine answer it
    assert shown["values"]["asked"].strip() in ("running", "degraded")
    assert shown["isolated"] == "network, home, tmp, system=strict"
    [left] = running(machine, "sleep", "1010")
    assert (
        left
        in machine.run(
            "cat", f"/sys/fs/cgroup/heat.slice/{shown['scope']}/cgroup.procs"
        ).out.split()
    )
    assert (
        machine.run("nsenter", "--target", left, "--mount", "cat", "/tmp/mine").out
        == "mine\n"
    )
    assert not (machine.disk / "tmp/mine").exists()
    assert machine.run("systemctl", "stop", shown["scope"]).code == 0
    assert running(machine, "sleep", "1010") == []


def test_limits_and_users_go_with_it(machine: Booted) -> None:
    """As without: the limit is that of the scope, and the user is that of the option."""
    controllers = machine.run("cat", "/sys/fs/cgroup/cgroup.controllers").out.split()
    options = {
        "isolate": ALL,
        "user": "nobody",
        **({"tasks_max": 50} if "pids" in controllers else {}),
    }
    script = "#!/bin/sh\nid -un; cat /sys/fs/cgroup$(cut -d: -f3 /proc/self/cgroup)/pids.max; echo $HOME\n"
    assert apply(machine, deployment("i2", script, options=options)).code == 0
    user, *limit, home = shows(machine, "i2")["values"]["deploy_stdout"].split()
    assert user == "nobody"
    assert limit == (["50"] if "pids" in controllers else limit)
    assert home.startswith("/var/lib/heat-config-users/")
    assert not list((machine.disk / "var/lib/heat-config-users").iterdir())


@pytest.mark.parametrize(
    ("name", "options"), [("i3", {"isolate": ALL}), ("i4", {"user": "nobody"})]
)
def test_a_timeout_ends_what_has_got_away(
    machine: Booted, name: str, options: dict[str, Any]
) -> None:
    """It has dropped the variable of the run and left its session; the scope has it."""
    script = (
        "#!/bin/sh\nenv -i setsid sleep 1011 </dev/null >/dev/null 2>&1 &\nsleep 1012\n"
    )
    done = apply(machine, deployment(name, script, options={**options, "timeout": 2}))
    assert done.code == 1
    assert "it timed out after 2 s" in done.out
    assert running(machine, "sleep", "1011") + running(machine, "sleep", "1012") == []


def test_stopping_the_agent_ends_no_isolated_run(service: Booted) -> None:
    """The next agent finds it where it is, with its result."""
    script = "#!/bin/sh\nwhile ! test -e /run/go; do sleep 0.1; done\necho went\n"
    deploy(
        service,
        deployment(
            "d1",
            script,
            options={"isolate": {"network": True, "home": True, "tmp": True}},
        ),
    )
    start(service)
    eventually(service, lambda: state_of(service, "d1") == "running")
    assert service.run("systemctl", "stop", "heat-config-agent").code == 0
    assert process(service) == 0
    start(service)
    service.run("touch", "/run/go")
    eventually(service, lambda: state_of(service, "d1") == "ended")
    found = shows(service, "d1")
    assert (found["values"]["deploy_stdout"], found["isolated"]) == (
        "went\n",
        "network, home, tmp",
    )
    wait_until(lambda: shown(service, "LoadState", found["scope"]) == "not-found", 10)
