"""The Debian package and the daemons of users (`heat-config-agent@USER`): they go and come back as root's does."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from heat_config_agent import __version__
from package.built import package
from support.loopback import SignalServer, wait_until
from support.machine import deployment
from system.booted import Booted, booted
from system.test_service import NAME, eventually, progress, shown

pytestmark = [pytest.mark.takes(60), pytest.mark.timeout(600)]

USER = "app"
UNIT = f"{NAME}@{USER}.service"
STATE = f"var/lib/{NAME}-{USER}"
LONG = "#!/bin/sh\necho begun >>{0}/ran\nwhile ! test -e {0}/go; do sleep 0.1; done\necho ended >>{0}/ran\n"
LINKS = "etc/systemd/system/multi-user.target.wants"

SETTINGS = """\
[agent]
collectors = file
min_polling_interval = 0.2
polling_interval = 1
splay = 0
[file]
path = /home/app/site.json
"""


@pytest.fixture
def machine() -> Iterator[Booted]:
    """A machine with a user, the settings of his daemon, and the package in /root."""
    deb = package("deb")
    with booted(commands=False) as machine:
        shutil.copy(deb, machine.disk / "root/agent.deb")
        assert machine.run("useradd", "--create-home", USER).code == 0
        settings = machine.disk / f"etc/heat-config-agent/users/{USER}.conf"
        settings.parent.mkdir(parents=True)
        settings.write_text(SETTINGS)
        yield machine


def install(machine: Booted, name: str = "agent.deb") -> str:
    """Install a package, without any network."""
    done = machine.run("dpkg", "--install", f"/root/{name}")
    assert done.code == 0, done.out + done.err
    return done.out + done.err


def deploy(machine: Booted, *deployments: dict[str, Any]) -> None:
    """Give the user's daemon deployments."""
    path = machine.disk / f"home/{USER}/site.json"
    path.with_name("new").write_text(json.dumps(deployments))
    path.with_name("new").replace(path)


def states(machine: Booted) -> dict[str, str]:
    """Return the states of the user's deployments."""
    done = machine.run(
        "heat-config-agent", "status", "--state-dir", f"/{STATE}", "--json"
    )
    return {each["id"]: progress(each) for each in done.data["deployments"]}


def later(folder: Path) -> Path:
    """Return the package as its next version."""
    tree = folder / "tree"
    subprocess.run(["dpkg-deb", "--raw-extract", package("deb"), tree], check=True)
    for path in (
        tree / "DEBIAN/control",
        tree / "usr/lib/python3/dist-packages/heat_config_agent/__init__.py",
    ):
        path.write_text(path.read_text().replace(__version__, "99.0.0"))
    done = folder / "later.deb"
    subprocess.run(
        ["dpkg-deb", "-Zgzip", "-z1", "--root-owner-group", "--build", tree, done],
        check=True,
    )
    return done


@pytest.mark.fault(
    1,
    "the package is upgraded, removed and installed again in the middle of a run of a user's daemon",
    "the daemon is restarted, stopped and started as root's is, and the run ends once and is signalled once",
)
def test_daemons_of_users_are_restarted_stopped_and_named(
    machine: Booted, heat: SignalServer, tmp_path: Path
) -> None:
    """A user's daemon is restarted by an upgrade, named at the removal, and has left nothing after the purge."""
    home = machine.disk / f"home/{USER}"
    shutil.copy(later(tmp_path), machine.disk / "root/later.deb")
    install(machine)
    deploy(machine, deployment("d1", LONG.format(f"/home/{USER}"), signal=heat.url()))
    assert machine.run("systemctl", "enable", "--now", UNIT).code == 0
    eventually(machine, lambda: states(machine).get("d1") == "running")
    first = shown(machine, "MainPID", UNIT)

    install(machine, "later.deb")
    assert (
        machine.run("heat-config-agent", "--version").out
        == "heat-config-agent 99.0.0\n"
    )
    second = shown(machine, "MainPID", UNIT)
    assert (second not in (first, "0"), shown(machine, "ActiveState", UNIT)) == (
        True,
        "active",
    )
    health = json.loads((machine.disk / STATE / "health.json").read_text())
    assert (str(health["process"]), health["version"]) == (second, "99.0.0")
    assert states(machine)["d1"] == "running"

    done = machine.run("dpkg", "--remove", NAME)
    said = (done.out + done.err).splitlines()
    assert f"  {NAME}@{USER}: d1 (CREATE) is running" in said
    assert f"{NAME}@{USER} is stopped" in said
    assert shown(machine, "ActiveState", UNIT) == "inactive"
    assert machine.run("pgrep", "--uid", USER, "--full", f"{NAME} run").code == 1
    (home / "go").touch()
    wait_until(lambda: (home / "ran").read_text() == "begun\nended\n", 20)
    assert heat.signals == []

    install(machine)
    assert shown(machine, "ActiveState", UNIT) == "active"
    eventually(machine, lambda: states(machine)["d1"] == "sent")
    assert (home / "ran").read_text() == "begun\nended\n"
    assert [each.value["deploy_status_code"] for each in heat.signals] == [0]

    (home / "go").unlink()
    deploy(machine, deployment("d2", LONG.format(f"/home/{USER}")))
    eventually(machine, lambda: states(machine).get("d2") == "running")
    done = machine.run("dpkg", "--purge", NAME)
    assert (done.out + done.err).splitlines().count(
        f"  {NAME}@{USER}: d2 (CREATE) is running"
    ) == 2
    assert not (machine.disk / STATE).exists()
    assert not list((machine.disk / LINKS).glob("heat*"))
    assert (machine.disk / f"etc/heat-config-agent/users/{USER}.conf").exists()
    (home / "go").touch()


def test_stopped_daemon_of_a_user_stays_stopped(
    machine: Booted, tmp_path: Path
) -> None:
    """An upgrade starts only what it has stopped; the state of another installation outlives the purge."""
    shutil.copy(later(tmp_path), machine.disk / "root/later.deb")
    install(machine)
    assert machine.run("systemctl", "enable", "--now", UNIT).code == 0
    assert machine.run("systemctl", "stop", UNIT).code == 0
    install(machine, "later.deb")
    assert shown(machine, "ActiveState", UNIT) == "inactive"

    assert machine.run("dpkg", "--remove", NAME).code == 0
    unit = machine.disk / f"etc/systemd/system/{NAME}@.service"
    unit.write_text("[Service]\nExecStart=/opt/agent/bin/heat-config-agent run\n")
    assert machine.run("dpkg", "--purge", NAME).code == 0
    assert (machine.disk / STATE / "journal").exists()
    assert len(list((machine.disk / LINKS).glob("heat*"))) == 1
