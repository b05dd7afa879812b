"""The RPM package: the layout of the self-contained Debian package, and what a system with RPM is told of it.

None is here to install it on: what its scripts do is what that system's own macros make of them.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from package.built import ROOT, package
from support.tools import need

pytestmark = pytest.mark.timeout(600)

SPEC = ROOT / "packaging/rpm/heat-config-agent.spec"

OTHERWISE = {
    "/usr/share/zsh/site-functions/": "/usr/share/zsh/vendor-completions/",
    "/usr/lib/systemd/system/": "/lib/systemd/system/",  # Debian 12
}
"""Where the one has what the other has elsewhere."""

DEBIAN = {
    "/usr/share/doc/heat-config-agent-bundled/copyright",
    "/usr/share/doc/heat-config-agent-bundled/changelog",
    "/usr/share/lintian/overrides/heat-config-agent-bundled",
}
"""What Debian wants beside that."""

MACROS = {
    "systemd_post": "was put there",
    "systemd_preun": "is about to go",
    "systemd_postun_with_restart": "has gone",
}
"""What is called when it comes and goes, on a system that has systemd's macros."""


@pytest.fixture(scope="module")
def rpm() -> Path:
    """The package."""
    return package("rpm")


def asked(rpm: Path, *what: str) -> list[str]:
    """Return what the package says of itself."""
    done = subprocess.run(["rpm", "--query", *what, "--package", rpm], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_it_has_the_layout_of_the_other(rpm: Path) -> None:
    """File by file, what the self-contained Debian package has."""
    tar = subprocess.run(["dpkg-deb", "--fsys-tarfile", package("deb-bundled")], capture_output=True, check=True).stdout
    names = subprocess.run(["tar", "-t"], input=tar, capture_output=True, check=True).stdout.decode().splitlines()
    expected = {each.removeprefix(".").removesuffix(".gz") for each in names if not each.endswith("/")} - DEBIAN
    found = set()
    for line in asked(rpm, "--qf", "[%{FILEMODES:perms} %{FILENAMES}\n]"):
        mode, _, name = line.partition(" ")
        if mode.startswith("d") or name.startswith("/usr/share/licenses/"):
            continue
        for ours, theirs in OTHERWISE.items():
            name = name.replace(ours, theirs)
        found.add(name)
    moved = {each.replace("/usr/lib/systemd/system/", "/lib/systemd/system/") for each in expected}
    assert found == moved


def test_it_needs_the_python_that_it_was_built_for(rpm: Path) -> None:
    """What is inside is for one minor version, which is needed by name; none of it is offered to others."""
    [interpreter] = [each for each in asked(rpm, "--requires") if each.startswith("/usr/bin/python3.")]
    assert Path(interpreter).exists()
    assert "ca-certificates" in asked(rpm, "--requires")
    assert all(each.startswith("heat-config-agent") for each in asked(rpm, "--provides"))


def test_units_are_told_to_systemd() -> None:
    """Where systemd's macros are, they are called with the units."""
    need("rpmspec", "rpm")
    words = [word for name, says in MACROS.items() for word in ("--define", f"{name}() it {says}: %{{*}}")]
    done = subprocess.run(
        ["rpmspec", "--parse", "--define", "agent_version 1", *words, SPEC], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.splitlines() if line.startswith("it ")] == [
        "it was put there: heat-config-agent.service heat-config-apply.service",
        "it is about to go: heat-config-agent.service heat-config-apply.service",
        "it has gone: heat-config-agent.service",
    ]


def test_it_is_not_built_without_a_version() -> None:
    """What builds it is `packaging/build`."""
    need("rpmspec", "rpm")
    done = subprocess.run(["rpmspec", "--parse", SPEC], capture_output=True, text=True, check=False)
    assert done.returncode
    assert "build it with packaging/build rpm" in done.stderr


def test_on_a_system_without_rpms_macros_it_is_refused(tmp_path: Path) -> None:
    """An RPM that would not restart the daemon is not built by accident: one plain sentence says so."""
    need("rpmbuild", "rpm")
    if not subprocess.run(["rpm", "--quiet", "-q", "systemd-rpm-macros"], check=False).returncode:
        pytest.skip("this system has the macros")
    environment = {name: value for name, value in os.environ.items() if name != "BUILD_OPTIONS"}
    done = subprocess.run(
        [ROOT / "packaging/build", "rpm", tmp_path], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.startswith(
        "this system has no systemd-rpm-macros, so an RPM that is built here would not restart"
    )
    assert list(tmp_path.iterdir()) == []
