"""The RPM packages: the layouts of the Debian packages, and what becomes of a machine on which one comes and goes.

The machine is a small Debian whose package manager is RPM: what the package depends on is declared by another package
(`stub`), and systemd's macros are those of `rpm.macros`. No system that has RPM of its own is here to try it on.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from heat_config_agent import __version__
from package.built import ROOT, build, package
from support.loopback import wait_until
from support.machine import deployment
from support.tools import need
from system.booted import Booted, booted
from system.test_service import shown

pytestmark = [pytest.mark.takes(120), pytest.mark.timeout(600)]

SPEC = ROOT / "packaging/rpm/heat-config-agent.spec"

OTHERWISE = {
    "/usr/share/zsh/site-functions/": "/usr/share/zsh/vendor-completions/",
    "/usr/lib/systemd/system/": "/lib/systemd/system/",  # Debian 12
}
"""Where the one has what the other has elsewhere."""

DOCUMENTS = "/usr/share/doc/heat-config-agent"

DEBIAN = ("copyright", "changelog")
"""The files that Debian wants in a package's folder of documents."""

MACROS = {
    "systemd_post": "was put there",
    "systemd_preun": "is about to go",
    "systemd_postun_with_restart": "has gone",
}
"""The macros that run at installation and removal, on a system with systemd's macros."""

UNIT = "heat-config-agent@app.service"

SETTINGS = "[agent]\nmin_polling_interval = 0.2\npolling_interval = 1\nsplay = 0\n"

STUB = """\
Name: stub
Version: 1
Release: 1
Summary: Declares what a system with RPM would have
License: Apache-2.0
BuildArch: noarch
Provides: {provides}
%description
It is empty.
%files
"""


@pytest.fixture(scope="module")
def rpm() -> Path:
    """The package on the distribution's modules."""
    return package("rpm")


@pytest.fixture
def machine() -> Iterator[Booted]:
    """A machine before its first boot, as where an image is made, with a database of RPM's."""
    with booted(boot=False, commands=False) as machine:
        assert rpm_on(machine, "--initdb") == ""
        yield machine


def rpm_on(machine: Booted, *words: str | Path) -> str:
    """Have RPM do something on a machine, and return what it says; it has to be able to."""
    done = rpm_tried_on(machine, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def rpm_tried_on(
    machine: Booted, *words: str | Path
) -> subprocess.CompletedProcess[str]:
    """Have RPM do something on a machine."""
    # its database takes the path by which the holder sees it
    _, _, holder, _, *disk = machine.disk.parts
    there = ["nsenter", "--target", holder, "--mount"]
    command = ["rpm", "--root", Path("/", *disk), "--dbpath", "/var/lib/rpm", *words]
    return subprocess.run(
        [*there, *command], capture_output=True, text=True, check=False
    )


def asked(rpm: Path, *what: str) -> list[str]:
    """Return what the package says of itself."""
    done = subprocess.run(
        ["rpm", "--query", *what, "--package", rpm],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def stub(folder: Path, rpm: Path) -> Path:
    """Return a package that declares what another one requires, but for what RPM itself is able to do."""
    wanted = [
        each.replace(">=", "=")
        for each in asked(rpm, "--requires")
        if not each.startswith("rpmlib(")
    ]
    spec = folder / "stub.spec"
    spec.write_text(STUB.format(provides=", ".join(dict.fromkeys(wanted))))
    topdir = f"_topdir {folder}/rpm"
    subprocess.run(
        ["rpmbuild", "-bb", "--define", topdir, spec], capture_output=True, check=True
    )
    return folder / "rpm/RPMS/noarch/stub-1-1.noarch.rpm"


@pytest.mark.parametrize("bundled", ["", "-bundled"])
def test_rpm_has_the_layout_of_the_debian_package(bundled: str) -> None:
    """File by file, each has what the Debian package of its kind has."""
    tar = subprocess.run(
        ["dpkg-deb", "--fsys-tarfile", package(f"deb{bundled}")],
        capture_output=True,
        check=True,
    ).stdout
    names = (
        subprocess.run(["tar", "-t"], input=tar, capture_output=True, check=True)
        .stdout.decode()
        .splitlines()
    )
    theirs = {f"/usr/share/doc/heat-config-agent{bundled}/{name}" for name in DEBIAN}
    theirs.add(f"/usr/share/lintian/overrides/heat-config-agent{bundled}")
    expected = {
        each.removeprefix(".").removesuffix(".gz")
        for each in names
        if not each.endswith("/")
    } - theirs
    paths = set()
    for line in asked(
        package(f"rpm{bundled}"), "--qf", "[%{FILEMODES:perms} %{FILENAMES}\n]"
    ):
        mode, _, name = line.partition(" ")
        if mode.startswith("d") or name.startswith("/usr/share/licenses/"):
            continue
        for ours, other in OTHERWISE.items():
            name = name.replace(ours, other)
        paths.add(name.removesuffix(".gz"))
    moved = {
        each.replace("/usr/lib/systemd/system/", "/lib/systemd/system/")
        for each in expected
    }
    assert paths == moved


def test_rpm_requires_the_modules_of_the_project(rpm: Path) -> None:
    """The package requires the Python and the modules of its release, none older than the project supports."""
    assert asked(rpm, "--qf", "%{ARCH}") == ["noarch"]
    project = (
        (ROOT / "pyproject.toml")
        .read_text()
        .partition("\ndependencies = [")[2]
        .partition("]")[0]
    )
    modules = {
        f"python3-{name.lower()} >= {oldest}"
        for name, oldest in re.findall(r'"(\w+)>=(.*)"', project)
    }
    version = subprocess.run(
        ["/usr/bin/python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    others = {
        "ca-certificates",
        f"python(abi) = {version}",
        "/usr/bin/python3",
        "/bin/sh",
    }
    assert {
        each for each in asked(rpm, "--requires") if not each.startswith("rpmlib(")
    } == modules | others
    assert all(
        each.startswith("heat-config-agent") for each in asked(rpm, "--provides")
    )


def test_the_self_contained_one_needs_the_python_that_it_was_built_for() -> None:
    """The package requires the minor version of Python that it was built for, and provides no modules."""
    bundled = package("rpm-bundled")
    [interpreter] = [
        each
        for each in asked(bundled, "--requires")
        if each.startswith("/usr/bin/python3.")
    ]
    assert Path(interpreter).exists()
    assert "ca-certificates" in asked(bundled, "--requires")
    assert all(
        each.startswith("heat-config-agent") for each in asked(bundled, "--provides")
    )
    assert asked(bundled, "--conflicts") == ["heat-config-agent"]


def test_rpmlint_has_nothing_to_say(rpm: Path) -> None:
    """Each complaint of rpmlint is in its settings, with a reason."""
    need("rpmlint", "rpmlint")
    settings = ROOT / "packaging/rpm/rpmlint.toml"
    done = subprocess.run(
        ["rpmlint", "--config", settings, rpm],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert " 0 errors, 0 warnings" in done.stdout, done.stdout


def test_a_machine_on_which_it_comes_and_goes(
    machine: Booted, rpm: Path, tmp_path: Path
) -> None:
    """RPM installs it with what it requires, replaces it by the next one, and takes away all but what it has run."""
    refused = rpm_tried_on(machine, "--install", rpm)
    assert "python3-psutil >= 5.9 is needed by heat-config-agent" in refused.stderr
    assert refused.returncode
    rpm_on(machine, "--install", stub(tmp_path, rpm))
    rpm_on(machine, "--install", rpm)
    assert not [
        line
        for line in rpm_on(machine, "--verify", "heat-config-agent").splitlines()
        if line
    ]
    # our preset
    assert (
        machine.inside("systemctl", "is-enabled", "heat-config-apply").out.strip()
        == "disabled"
    )
    # Debian's own
    assert (
        machine.inside("systemctl", "is-enabled", "heat-config-agent").out.strip()
        == "enabled"
    )
    assert (
        machine.inside("heat-config-agent", "--version").out
        == f"heat-config-agent {__version__}\n"
    )
    apply = (
        "heat-config-apply",
        "--state-dir",
        "/root/state",
        f"{DOCUMENTS}/examples/hello.yaml",
    )
    done = machine.inside(*apply)  # a chroot of its own, with nothing mounted
    assert (done.code, done.err.startswith("error: /proc is not mounted")) == (
        1,
        True,
    ), done.err
    settings = machine.disk / "etc/heat-config-agent/agent.conf"
    settings.write_text("[agent]\npolling_interval = 60\n")
    machine.boot()
    assert machine.run("systemctl", "is-active", "heat-config-agent").out == "active\n"
    done = machine.run(*apply)
    assert (done.code, "greeting = Hello, world!" in done.out) == (0, True), done.err

    machine.crash()
    rpm_on(machine, "--upgrade", "--replacepkgs", rpm)
    assert (
        machine.inside("systemctl", "is-enabled", "heat-config-agent").out.strip()
        == "enabled"
    )
    machine.boot()
    done = machine.run(*apply)
    assert (done.code, "2 deployments: nothing to do" in done.out) == (0, True), (
        done.err
    )

    machine.crash()
    rpm_on(machine, "--erase", "heat-config-agent")
    assert machine.inside("systemctl", "is-enabled", "heat-config-agent").code
    assert settings.read_text() == "[agent]\npolling_interval = 60\n"
    assert (machine.disk / "var/lib/heat-config-agent/journal").exists()
    left = machine.inside("find", "/usr", "-name", "*heat?config*").out.split()
    compiled = "/usr/lib/python3/dist-packages/heat_config_"  # as those have done who ran it: this build has not
    assert [each for each in left if not each.startswith(compiled)] == []


def test_units_are_told_to_systemd() -> None:
    """Where systemd's macros are, they are called with the units."""
    need("rpmspec", "rpm")
    words = [
        word
        for name, says in MACROS.items()
        for word in ("--define", f"{name}() it {says}: %{{*}}")
    ]
    done = subprocess.run(
        ["rpmspec", "--parse", "--define", "agent_version 1", *words, SPEC],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.splitlines() if line.startswith("it ")] == [
        "it was put there: heat-config-agent.service heat-config-apply.service",
        "it is about to go: heat-config-agent.service heat-config-apply.service",
        "it has gone: heat-config-agent.service",
    ]


def test_scriptlets_restart_stop_and_name_the_daemons_of_users(rpm: Path) -> None:
    """On a booted machine, what RPM runs at an upgrade and a removal reaches the daemons of users too."""
    with booted() as machine:
        for command in ("heat-config-agent", "heat-config-apply"):
            (machine.disk / "usr/bin" / command).symlink_to(f"/usr/local/bin/{command}")
        for unit in (ROOT / "systemd").glob("heat*"):
            (machine.disk / "etc/systemd/system" / unit.name).write_text(
                unit.read_text()
            )
        settings = machine.disk / "etc/heat-config-agent/users/app.conf"
        settings.parent.mkdir(parents=True)
        settings.write_text(
            f"{SETTINGS}collectors = file\n[file]\npath = /etc/site.json\n"
        )
        given = deployment(
            "d1", "#!/bin/sh\nuntil test -e /tmp/go; do sleep 0.1; done\n"
        )
        (machine.disk / "etc/site.json").write_text(json.dumps([given]))
        (machine.disk / "etc/site.json").chmod(0o644)
        assert machine.run("useradd", "app").code == 0
        assert machine.run("systemctl", "daemon-reload").code == 0
        assert machine.run("systemctl", "start", UNIT).code == 0
        words = (
            "heat-config-agent",
            "status",
            "--unfinished",
            "--state-dir",
            "/var/lib/heat-config-agent-app",
        )
        wait_until(lambda: machine.run(*words).out == "d1 (CREATE) is running\n", 40)
        first = shown(machine, "MainPID", UNIT)

        scripts = {
            kind: "\n".join(asked(rpm, "--qf", f"%{{{kind}}}"))
            for kind in ("PREUN", "POSTUN")
        }
        assert machine.run("sh", "-c", scripts["POSTUN"], "sh", "1").code == 0
        assert shown(machine, "MainPID", UNIT) not in (first, "0")
        done = machine.run("sh", "-c", scripts["PREUN"], "sh", "0")
        assert (
            done.code,
            "warning: heat-config-agent@app: d1 (CREATE) is running"
            in done.err.splitlines(),
        ) == (
            0,
            True,
        )
        assert shown(machine, "ActiveState", UNIT) == "inactive"


def test_rpm_without_a_version_is_not_built() -> None:
    """The spec file refuses to build without a version, which `packaging/build` passes."""
    need("rpmspec", "rpm")
    done = subprocess.run(
        ["rpmspec", "--parse", SPEC], capture_output=True, text=True, check=False
    )
    assert done.returncode
    assert "build it with packaging/build rpm" in done.stderr


def test_the_same_commit_makes_the_same_bytes(rpm: Path, tmp_path: Path) -> None:
    """Nothing of the time and place of a build is in it."""
    build("rpm", tmp_path)
    assert (tmp_path / rpm.name).read_bytes() == rpm.read_bytes()


def test_build_without_the_macros_of_rpm_is_refused(tmp_path: Path) -> None:
    """An RPM that would not restart the daemon is not built by accident: one plain sentence says so."""
    need("rpmbuild", "rpm")
    if not subprocess.run(
        ["rpm", "--quiet", "-q", "systemd-rpm-macros"], check=False
    ).returncode:
        pytest.skip("this system has the macros")
    environment = {
        name: value for name, value in os.environ.items() if name != "BUILD_OPTIONS"
    }
    done = subprocess.run(
        [ROOT / "packaging/build", "rpm", tmp_path],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith(
        "this system has no systemd-rpm-macros, so an RPM that is built here would not restart"
    )
    assert list(tmp_path.iterdir()) == []
