"""The self-contained Debian package: what is in it, where it is refused, and how the two forms change places."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tarfile
from io import BytesIO
from pathlib import Path

import pytest

from heat_config_agent import __version__
from package.built import ROOT, package
from package.test_package import install, read
from support.machine import deployment
from support.tools import need
from system.booted import booted
from system.test_service import SETTINGS, deploy, eventually, state_of

pytestmark = [pytest.mark.takes(120), pytest.mark.timeout(600)]

PACKAGES = "usr/lib/heat-config-agent/lib/"

MODULES = """
import importlib, pkgutil, sys
import heat_config_agent, heat_config_hooks, heat_config_stack, requests, websocket
for top in (heat_config_agent, heat_config_hooks, heat_config_stack):
    for each in pkgutil.walk_packages(top.__path__, f"{top.__name__}."):
        importlib.import_module(each.name)
files = [str(getattr(each, "__file__", "")) for each in list(sys.modules.values())]
outside = [each for each in files if "dist-packages" in each]
assert not outside, outside
"""
"""Loads all there is of ours, and what it needs; nothing of that is the machine's own."""


@pytest.fixture(scope="module")
def deb() -> Path:
    """The package."""
    return package("deb-bundled")


@pytest.fixture(scope="module")
def content(deb: Path) -> tarfile.TarFile:
    """The files of the package."""
    text = subprocess.run(
        ["dpkg-deb", "--fsys-tarfile", deb], capture_output=True, check=True
    ).stdout
    return tarfile.open(fileobj=BytesIO(text))


def test_package_has_no_trace_of_its_build(content: tarfile.TarFile) -> None:
    """The package has no installer, no tests of other projects, and no trace of where it was built."""
    for each in content.getmembers():
        name = each.name.removeprefix("./")
        assert not re.search(r"/(pip|setuptools|pkg_resources|tests?)/", name), name
        found = content.extractfile(each) if each.isfile() else None
        text = found.read() if found else b""
        assert b"/debian/heat-config-agent-bundled/" not in text, name
        assert str(ROOT).encode() not in text, name
    modules = {
        each.name
        for each in content.getmembers()
        if re.search(r"^\./usr/lib/.*\.py$", each.name)
    }
    compiled = {
        each.name for each in content.getmembers() if each.name.endswith(".pyc")
    }
    assert {re.sub(r"([^/]+)\.py$", r"__pycache__/\1", each) for each in modules} == {
        re.sub(r"\.cpython-\d+\.pyc$", "", each) for each in compiled
    }


def test_each_module_inside_has_a_licence(content: tarfile.TarFile) -> None:
    """The versions of what is inside are listed, and debian/copyright says under which licence each is."""
    bundled = read(content, "usr/share/doc/heat-config-agent/bundled").splitlines()
    copyrights = read(content, "usr/share/doc/heat-config-agent-bundled/copyright")
    packages = [
        each.name.partition("/site-packages/")[2] for each in content.getmembers()
    ]
    folders = {each.partition("/")[0] for each in packages} - {"", "__pycache__"}
    named = re.findall(
        r"(?m)^Files: usr/lib/heat-config-agent/lib/\*/site-packages/(\w+)\*$",
        copyrights,
    )
    unnamed = {
        each
        for each in folders
        if not each.startswith((*named, "heat_config_", "_yaml", "pyyaml-"))
    }
    assert unnamed <= {
        "websocket_client-" + each.partition("==")[2] + ".dist-info" for each in bundled
    }
    assert {"requests", "PyYAML", "psutil", "websocket-client"} <= {
        each.partition("==")[0] for each in bundled
    }


def test_bundled_package_is_refused_for_another_python(
    deb: Path, tmp_path: Path
) -> None:
    """Before anything is unpacked: on a machine that has another minor version of Python, and not the one it is for."""
    subprocess.run(["dpkg-deb", "--control", deb, tmp_path / "control"], check=True)
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("sh", "python3"):
        (programs / name).symlink_to("/bin/sh")

    def before(action: str) -> subprocess.CompletedProcess[str]:
        script = ["/bin/sh", str(tmp_path / "control/preinst"), action]
        return subprocess.run(
            script,
            env={"PATH": str(programs)},
            capture_output=True,
            text=True,
            check=False,
        )

    [needed] = re.findall(r"python3\.\d+", (tmp_path / "control/control").read_text())
    for action in ("install", "upgrade"):
        done = before(action)
        assert done.returncode == 1
        assert f"with {needed}, and this machine is" in done.stderr
        assert (
            f"install {needed}, or the package that was built for this system"
            in done.stderr
        )
    (programs / needed).symlink_to("/bin/sh")
    assert (before("install").returncode, before("install").stderr) == (0, "")


def test_version_of_the_bundled_package_names_its_release(deb: Path) -> None:
    """The version sorts by release, so an upgrade of the distribution upgrades the package."""
    version = subprocess.run(
        ["dpkg-deb", "--field", deb, "Version"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    release = dict(
        re.findall(r'(?m)^(\w+)="?([^"\n]*)', Path("/etc/os-release").read_text())
    )
    assert (
        version.strip()
        == f"{re.sub('rc', '~rc', __version__)}+{release['ID'].removesuffix('ian')}{release['VERSION_ID']}"
    )
    newer = subprocess.run(
        ["dpkg", "--compare-versions", "1+deb13", "gt", "1+deb12"], check=False
    )
    assert newer.returncode == 0


def test_lintian_has_no_complaint(deb: Path, tmp_path: Path) -> None:
    """Each complaint of lintian is overridden with a reason, and each override is needed."""
    need("lintian", "lintian")
    all_tags = [
        "--allow-root",
        "--display-info",
        "--pedantic",
        "--fail-on",
        "error,warning,info,pedantic",
    ]
    # Each release of the modules has other compiled text in which lintian sees a misspelt word.
    others_words = ["--suppress-tags", "spelling-error-in-binary"]
    done = subprocess.run(
        ["lintian", *all_tags, *others_words, deb],
        env={**os.environ, "TMPDIR": str(tmp_path)},  # it leaves files there
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_the_two_forms_change_places(deb: Path) -> None:
    """Each package replaces the other and keeps the state, and purging the removed one leaves it."""
    with booted(commands=False) as machine:
        shutil.copy(deb, machine.disk / "root/bundled.deb")
        shutil.copy(package("deb"), machine.disk / "root/agent.deb")
        (machine.disk / "etc/heat-config-agent").mkdir()
        (machine.disk / "etc/heat-config-agent/agent.conf").write_text(SETTINGS)
        deploy(machine, deployment("d1", "#!/bin/sh\necho first >>/root/ran\n"))
        install(machine, "bundled.deb")
        eventually(machine, lambda: state_of(machine, "d1") == "ended")
        # the hooks for older tools are inside
        assert machine.run("heat-config-agent", "tool", "show", "kubelet").code == 0
        python = "/usr/lib/heat-config-agent/bin/python3"
        done = machine.run(python, "-I", "-c", MODULES)
        assert (done.code, done.err) == (0, "")
        trusted = "import certifi, os; print(os.path.realpath(certifi.where()))"
        assert (
            machine.run(python, "-I", "-c", trusted).out.strip()
            == "/etc/ssl/certs/ca-certificates.crt"
        )
        its = set(
            machine.run(
                "dpkg", "--listfiles", "heat-config-agent-bundled"
            ).out.splitlines()
        )
        assert (
            set(machine.run("find", "/usr/lib/heat-config-agent").out.splitlines())
            <= its
        )

        install(machine)
        done = machine.run("dpkg", "--purge", "heat-config-agent-bundled")
        assert done.code == 0, done.out + done.err
        eventually(
            machine,
            lambda: machine.run("heat-config-agent", "status", "--check").code == 0,
        )
        assert state_of(machine, "d1") == "ended"
        install(machine, "bundled.deb")
        eventually(
            machine,
            lambda: machine.run("heat-config-agent", "status", "--check").code == 0,
        )
        assert state_of(machine, "d1") == "ended"
        assert (machine.disk / "root/ran").read_text() == "first\n"
