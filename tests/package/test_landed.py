"""The package as it is on a machine of each release: its units, its manual pages and its completion."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from heat_config_agent import __version__
from package.built import COMPAT, package
from support.machine import deployment
from support.tools import need
from system.booted import Booted, booted, small_debian
from system.test_service import NAME, SETTINGS, deploy, eventually, shown, state_of

pytestmark = [pytest.mark.slow, pytest.mark.takes(120), pytest.mark.timeout(600)]

RELEASES = ("bookworm", "trixie")

UNITS = (
    "heat-config-agent.service",
    "heat-config-agent@games.service",
    "heat-config-apply.service",
    "heat-config-settled.service",
    "heat-config-settled.target",
    "heat.slice",
)
"""The units of the package; that of a template with the name of a user."""

PAGES = (
    "man1/heat-config-agent.1.gz",
    "man1/heat-config-apply.1.gz",
    "man1/heat-config-hook.1.gz",
    "man5/heat-config-agent.conf.5.gz",
)

TYPED = {
    "heat-config-agent doct": "doctor",
    "heat-config-agent log gree": "greeting",
    "heat-config-agent stack resource type show OS::Heat::Val": "OS::Heat::Value",
    "heat-config-apply --pl": "--plan",
    "heat-config-hook docker-co": "docker-compose",
}
"""The beginning of a line → the only word that completes it."""

COMPLETE = r"""
source "/usr/share/bash-completion/completions/${1%% *}"
COMP_LINE=$1 COMP_POINT=${#1}
compopt() { :; }
_heat_config_agent "${1%% *}" "${1##* }"
printf '%s\n' "${COMPREPLY[@]%% }"
"""
"""Commands of bash that complete a line as the tab key at its end does."""


@pytest.fixture(scope="module", params=RELEASES)
def landed(request: pytest.FixtureRequest) -> Iterator[Booted]:
    """A machine of a release on which the packages were installed, and which has a deployment."""
    packages = [package("deb"), package("deb", COMPAT)]
    root = small_debian(request.param)
    with booted(commands=False, root=root) as machine:
        # Small machines leave manual pages out.
        (machine.disk / "etc/dpkg/dpkg.cfg.d/99mmdebstrap").unlink(missing_ok=True)
        users = machine.disk / "etc/heat-config-agent/users"
        users.mkdir(parents=True)
        (users.parent / "agent.conf").write_text(SETTINGS)
        (users / "games.conf").write_text(SETTINGS)
        for path in packages:
            shutil.copy(path, machine.disk / "root")
        deploy(machine, deployment("d1", name="greeting"))
        names = [f"/root/{path.name}" for path in packages]
        done = machine.run("dpkg", "--install", *names, seconds=120)
        assert done.code == 0, done.out + done.err
        yield machine


def test_units_are_valid_for_the_systemd_of_the_release(landed: Booted) -> None:
    """Its systemd has no complaint about any unit, and knows every key of it."""
    done = landed.run("systemd-analyze", "--man=no", "verify", *UNITS)
    assert (done.code, done.out, done.err) == (0, "", "")
    shipped = landed.run("dpkg", "--listfiles", "heat-config-agent").out
    names = set(re.findall(r"/systemd/system/([\w@-]+\.\w+)\n", shipped))
    assert names == {name.replace("@games", "@") for name in UNITS}


def test_units_do_their_work(landed: Booted) -> None:
    """The daemon applies a document, the target is reached, and another user has a daemon of their own."""
    eventually(landed, lambda: state_of(landed, "d1") == "ended")
    assert landed.run("systemctl", "start", "heat-config-settled.target").code == 0
    assert shown(landed, "ActiveState", "heat-config-settled.target") == "active"
    own = "heat-config-agent@games"
    try:
        done = landed.run("systemctl", "start", own)
        assert done.code == 0, landed.run("journalctl", "--no-pager", "-u", own).out
        assert shown(landed, "User", own) == "games"
        assert shown(landed, "ActiveState", own) == "active"
    finally:
        landed.run("systemctl", "stop", own)
    assert landed.run("systemctl", "stop", NAME).code == 0
    try:
        done = landed.run("systemctl", "start", "heat-config-apply")
        assert done.code == 0, done.err
    finally:
        landed.run("systemctl", "stop", "heat-config-apply")
        landed.run("systemctl", "start", NAME)


def test_manual_pages_can_be_read(landed: Booted) -> None:
    """Each page is there, names its command in the first lines, and has nothing that a reader complains about."""
    need("groff", "groff-base")
    folder = landed.disk / "usr/share/man"
    for name in PAGES:
        text = subprocess.run(
            ["gzip", "--decompress", "--stdout", folder / name],
            capture_output=True,
            check=True,
        ).stdout
        done = subprocess.run(
            ["groff", "-man", "-ww", "-Tutf8", "-P-cbou", "-rHY=0"],
            input=text,
            capture_output=True,
            check=True,
        )
        title = Path(name).name.removesuffix(".gz").rpartition(".")[0]
        assert done.stderr == b"", name
        assert f"{title} - ".encode() in b" ".join(done.stdout.split()), name


def test_bash_completes_lines(landed: Booted) -> None:
    """The bash of the release completes commands, options, tools, and the names of this machine's deployments."""
    eventually(landed, lambda: state_of(landed, "d1") == "ended")
    for line, word in TYPED.items():
        done = landed.run(
            "bash", "-c", COMPLETE, "bash", line, HEAT_CONFIG_AGENT_COMPLETION="30"
        )
        assert (done.out.split(), done.err) == ([word], ""), line


def test_commands_run_on_the_python_of_the_release(landed: Booted) -> None:
    """The commands say their version, a hook runs, and no file of the package differs from what was shipped."""
    for command in ("heat-config-agent", "heat-config-apply"):
        done = landed.run(command, "--version")
        assert (done.code, done.out.split()[-1:]) == (0, [__version__]), done
    given = json.dumps(deployment("d2", "#!/bin/sh\necho by hand\n"))
    done = landed.run("heat-config-hook", "script", stdin=given)
    assert json.loads(done.out)["deploy_stdout"] == "by hand\n", done.err
    changed = landed.run("dpkg", "--verify", "heat-config-agent")
    assert (changed.code, changed.out) == (0, "")
