"""An installation from the wheel: what it has, and what `heat-config-agent setup` does on a booted machine."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import pytest

from package import wheels
from support.machine import deployment
from system.booted import Booted, booted
from system.test_service import NAME, SETTINGS, deploy, shown

pytestmark = [pytest.mark.takes(120), pytest.mark.timeout(600)]

PLACE = "opt/agent"
UNITS = (
    *(
        "heat-config-agent.service",
        "heat-config-agent@.service",
        "heat-config-apply.service",
    ),
    *("heat-config-settled.service", "heat-config-settled.target", "heat.slice"),
)


@pytest.fixture(scope="module")
def wheel() -> Path:
    """The wheel of this checkout."""
    return wheels.wheel()


def install(machine: Booted, wheel: Path, *, is_booted: bool = True) -> None:
    """Put the wheel into an environment, as pipx and uv do, over the modules of the machine."""
    run = machine.run if is_booted else machine.inside
    done = run(
        "python3", "-m", "venv", "--without-pip", "--system-site-packages", f"/{PLACE}"
    )
    assert done.code == 0, done.err
    [packages] = (machine.disk / PLACE).glob("lib/python3.*/site-packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    [data] = packages.glob("heat_config_agent-*.data/data")
    shutil.copytree(data, machine.disk / PLACE, dirs_exist_ok=True)
    command = machine.disk / PLACE / "bin/heat-config-agent"
    command.write_text(
        f"#!/{PLACE}/bin/python3\nimport sys\nfrom heat_config_agent.cli.main import agent\nsys.exit(agent())\n"
    )
    command.chmod(0o755)


def test_setup_puts_units_in_place_and_removes_them(wheel: Path) -> None:
    """The units call that installation, other files stay as they are, and the state stays."""
    with booted(commands=False) as machine:
        install(machine, wheel)
        command = f"/{PLACE}/bin/heat-config-agent"
        folder = machine.disk / "etc/systemd/system"
        (folder / "heat.slice").write_text("[Slice]\n")
        done = machine.run(command, "setup")
        assert (
            done.code,
            "/etc/systemd/system/heat.slice was not written by this command"
            in done.err,
        ) == (2, True)
        assert [path.name for path in folder.glob("*heat*")] == ["heat.slice"]
        (folder / "heat.slice").unlink()

        done = machine.run(command, "setup", "--dry-run")
        assert (done.code, "write   /etc/systemd/system/" in done.out) == (0, True)
        assert not list(folder.glob("*heat*"))
        for _ in range(2):
            done = machine.run(command, "setup")
            assert (done.code, done.err) == (0, "")
        assert f"to start the daemon: systemctl enable --now {NAME}" in done.out
        assert {path.name for path in folder.glob("*heat*")} == set(UNITS)
        assert {path.stat().st_mode & 0o777 for path in folder.glob("heat*")} == {0o644}
        assert machine.run("systemctl", "is-enabled", NAME).out.strip() == "disabled"

        (machine.disk / "etc/heat-config-agent/agent.conf").write_text(SETTINGS)
        deploy(machine, deployment("d1", "#!/bin/sh\ntouch /root/ran\n"))
        done = machine.run("systemctl", "enable", "--now", NAME)
        assert done.code == 0, done.err
        wait = machine.run(command, "wait", "d1", "--wait-for", "30")
        assert wait.code == 0, wait.out + wait.err
        assert (machine.disk / "root/ran").exists()

        assert machine.run("useradd", "app").code == 0
        users = machine.disk / "etc/heat-config-agent/users"
        users.mkdir()
        (users / "app.conf").write_text(SETTINGS)
        done = machine.run("systemctl", "enable", "--now", "heat-config-agent@app")
        assert done.code == 0, done.err

        done = machine.run(command, "setup", "--remove")
        assert (done.code, done.out) == (2, "")
        assert "give --yes" in done.err
        done = machine.run(command, "setup", "--remove", "--plan")
        header, *rows = done.out.splitlines()
        assert header.split() == ["CHANGE", "NAME", "TYPE", "WHY"]
        assert f"stop    {NAME}" in done.out
        assert rows[-1] == "nothing was done"
        assert {path.name for path in folder.glob("*heat*")} >= set(UNITS)
        done = machine.run(command, "setup", "--remove", "--yes")
        assert (done.code, done.err) == (0, "")
        assert not list(folder.glob("*heat*"))
        assert not list(folder.glob("*/heat*"))
        assert shown(machine, "ActiveState") == "inactive"
        assert shown(machine, "ActiveState", "heat-config-agent@app") == "inactive"
        assert (machine.disk / "var/lib/heat-config-agent/journal").exists()
        assert (machine.disk / "etc/heat-config-agent/agent.conf").exists()
        assert machine.run(command, "setup", "--remove").out == "nothing to remove\n"

        (machine.disk / "usr/lib/systemd/system" / UNITS[0]).write_text(
            "[Service]\nExecStart=true\n"
        )
        done = machine.run(command, "setup")
        assert (done.code, "a package has installed" in done.err) == (2, True)


def test_setup_works_in_an_image_that_is_being_built(wheel: Path) -> None:
    """Without a running systemd, units are put in place and removed again; nothing has to be stopped."""
    with booted(commands=False, boot=False) as machine:
        install(machine, wheel, is_booted=False)
        command, folder = (
            f"/{PLACE}/bin/heat-config-agent",
            machine.disk / "etc/systemd/system",
        )

        assert machine.inside(command, "setup").code == 0
        assert {path.name for path in folder.glob("*heat*")} == set(UNITS)
        assert machine.inside("systemctl", "enable", NAME).code == 0

        done = machine.inside(command, "setup", "--remove", "-y")
        assert (done.code, done.err) == (0, "")
        assert not list(folder.glob("*heat*"))
        assert not list(folder.glob("*/heat*"))
