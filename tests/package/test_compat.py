"""The package of the hooks for older tools: what is in it, and a machine with it and without."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from heat_config_hooks import COMPAT as TOOLS
from package.built import COMPAT, ROOT, package
from support.machine import deployment
from support.tools import need
from system.booted import Booted, booted
from system.test_service import SETTINGS, deploy, eventually, status

pytestmark = [pytest.mark.takes(120), pytest.mark.timeout(600)]

SENTENCE = "the hook for the tool 'hiera' is not installed; install the package heat-config-agent-compat"


@pytest.fixture(scope="module")
def deb() -> Path:
    """The package."""
    return package("deb", COMPAT)


@pytest.fixture
def bare(deb: Path) -> Iterator[Booted]:
    """A machine with nothing of ours on it but settings, and with both packages in /root."""
    with booted(commands=False) as machine:
        shutil.copy(package("deb"), machine.disk / "root/agent.deb")
        shutil.copy(deb, machine.disk / "root/compat.deb")
        (machine.disk / "etc/heat-config-agent").mkdir()
        (machine.disk / "etc/heat-config-agent/agent.conf").write_text(SETTINGS)
        yield machine


def field(deb: Path, name: str) -> str:
    """Return a field of a package."""
    return subprocess.run(
        ["dpkg-deb", "--field", deb, name], capture_output=True, text=True, check=True
    ).stdout.strip()


def test_compat_package_has_the_modules_of_its_folder(deb: Path) -> None:
    """All of them, and the package of the agent has none."""
    modules = {}
    for name, path in (("compat", deb), ("agent", package("deb"))):
        done = subprocess.run(
            ["dpkg-deb", "--contents", path], capture_output=True, text=True, check=True
        )
        words = [line.split() for line in done.stdout.splitlines()]
        modules[name] = {
            each[-1].rpartition("/")[2]
            for each in words
            if "/heat_config_compat/" in each[-1]
        } - {""}
    assert modules["compat"] == {
        path.name for path in (ROOT / "hooks/heat_config_compat").glob("*.py")
    }
    assert modules["agent"] == set()


def test_agent_package_recommends_the_compat_package(deb: Path) -> None:
    """The agent's package recommends it, so apt installs the same version by default."""
    agent, version = package("deb"), field(deb, "Version")
    assert (field(deb, "Architecture"), field(agent, "Version")) == ("all", version)
    assert f"heat-config-agent (= {version})" in field(deb, "Depends").split(", ")
    assert field(agent, "Recommends") == f"heat-config-agent-compat (= {version})"


def test_lintian_has_nothing_to_say(deb: Path, tmp_path: Path) -> None:
    """Each complaint of lintian is overridden with a reason, and each override is needed."""
    need("lintian", "lintian")
    words = [
        "--allow-root",
        "--display-info",
        "--pedantic",
        "--fail-on",
        "error,warning,info,pedantic",
    ]
    done = subprocess.run(
        ["lintian", *words, deb],
        env={**os.environ, "TMPDIR": str(tmp_path)},  # it leaves files there
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.fault(
    5,
    "the agent's package is upgraded without the hooks that earlier versions had inside",
    "the upgrade, the result and `doctor` name the package to install, and nothing else is lost",
)
def test_a_machine_without_it_says_what_it_needs(bare: Booted) -> None:
    """An upgrade loses no tool silently; with the package, the deployment is retried and succeeds."""
    config = {"hierarchy": ["common"], "datafiles": {"common": {"colour": "green"}}}
    deploy(bare, deployment("d1", config, group="hiera"))
    done = bare.run("dpkg", "--install", "/root/agent.deb")
    # no deployment is known yet
    assert (done.code, "heat-config-agent-compat" in done.out) == (0, False)
    eventually(
        bare,
        lambda: [each["state"] for each in status(bare)["deployments"]] == ["failed"],
    )
    assert SENTENCE in bare.run("heat-config-agent", "status").out
    assert SENTENCE in bare.run("heat-config-agent", "doctor").out

    done = bare.run("dpkg", "--install", "/root/agent.deb")
    assert done.code == 0
    assert done.out.splitlines()[-1].endswith(f"  {SENTENCE}")

    done = bare.run("dpkg", "--install", "/root/agent.deb", "/root/compat.deb")
    assert (done.code, SENTENCE in done.out) == (0, False)
    hooks = bare.run("heat-config-agent", "tool", "list").out
    assert {line.split()[0] for line in hooks.splitlines()} >= TOOLS
    assert bare.run("heat-config-agent", "retry", "d1").code == 0
    eventually(bare, (bare.disk / "etc/puppet/hieradata/common.json").exists)
