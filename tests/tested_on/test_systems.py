"""The package for every release, on each system that can be had: `make tested-on` tries those that take long."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

import pytest

from image.baked import BY_HAND
from package.built import package
from support.machine import deployment
from system.booted import booted, small_debian
from system.emulation import arm64
from system.test_service import SETTINGS, deploy, eventually, state_of
from tested_on.conftest import Found

pytestmark = pytest.mark.timeout(1800)

LOADED = """
import importlib, pkgutil
import heat_config_agent, heat_config_hooks, heat_config_stack
for top in (heat_config_agent, heat_config_hooks, heat_config_stack):
    for module in pkgutil.walk_packages(top.__path__, f"{top.__name__}."):
        if module.name != "heat_config_agent.sources.cloud.websocket":  # Zaqar's, which takes python3-websocket
            importlib.import_module(module.name)
"""
"""Loads all there is of ours, but the one module that takes more than the package does."""

VERSIONS = """
import platform, psutil, requests, yaml, importlib.metadata as metadata
names = ("psutil", "requests", "PyYAML")
print(f"Python {platform.python_version()},", ", ".join(f"{each} {metadata.version(each)}" for each in names))
"""

SYSTEMS = {
    "Debian 12 (bookworm), amd64": ("bookworm", ""),
    "Debian 13 (trixie), amd64": ("trixie", ""),
    "Debian testing (forky), amd64": ("forky", ""),
    "Debian unstable (sid), amd64": ("sid", ""),
    "Debian 12 (bookworm), arm64, emulated": ("bookworm", "arm64"),
}
"""The systems that boot here, with their release and, if it differs from the machine's, their architecture."""

QUICK = ("bookworm", "trixie")
"""The systems that the whole suite tries too."""

ABSENT = {
    "Ubuntu 22.04, amd64": "the archives of Debian, from which the tests make machines, do not have it",
    "Ubuntu 24.04, amd64": "the archives of Debian, from which the tests make machines, do not have it",
    "Fedora": "the archives of Debian, from which the tests make machines, do not have it",
    "Enterprise Linux 9 and 10": "the archives of Debian, from which the tests make machines, do not have it",
}
"""Systems that the packages support too, with the reason why they are not tried."""


@pytest.mark.parametrize(
    ("release", "architecture"),
    [
        pytest.param(
            *where,
            id=" ".join(where).strip(),
            marks=[
                pytest.mark.tested_on("system", subject),
                *([] if where in {(each, "") for each in QUICK} else [BY_HAND]),
            ],
        )
        for subject, where in SYSTEMS.items()
    ],
)
def test_package_works_on_every_release(
    tell_found: Found, release: str, architecture: str
) -> None:
    """On each, with its own Python and modules: by the daemon and by a command that is called once."""
    deb = package("deb")
    with contextlib.ExitStack() as stack:
        if architecture:
            stack.enter_context(arm64())
        machine = stack.enter_context(
            booted(commands=False, boot=False, root=small_debian(release, architecture))
        )
        machine.boot(600 if architecture else 60)
        shutil.copy(deb, machine.disk / "root/agent.deb")
        deploy(machine, deployment("d1", "#!/bin/sh\necho first >>/root/ran\n"))
        (machine.disk / "etc/heat-config-agent").mkdir(exist_ok=True)
        (machine.disk / "etc/heat-config-agent/agent.conf").write_text(SETTINGS)
        done = machine.run("dpkg", "--install", "/root/agent.deb", seconds=600)
        assert done.code == 0, done.out + done.err
        eventually(
            machine,
            lambda: state_of(machine, "d1") == "ended",
            300 if architecture else 40,
        )
        assert (machine.disk / "root/ran").read_text() == "first\n"
        example = "/usr/share/doc/heat-config-agent/examples/hello.yaml"
        done = machine.run(
            "heat-config-apply", "--state-dir", "/root/state", example, seconds=300
        )
        assert (done.code, done.err) == (0, "")
        assert "greeting = Hello, world!" in done.out
        done = machine.run("python3", "-IWerror", "-c", LOADED, seconds=300)
        assert (done.code, done.err) == (0, "")
        systemd = machine.run("systemctl", "--version").out.split()[1]
        tell_found(
            f"systemd {systemd}, {machine.run('python3', '-c', VERSIONS, seconds=300).out.strip()}"
        )


@BY_HAND
@pytest.mark.parametrize(
    "reason",
    [
        pytest.param(why, id=name, marks=pytest.mark.tested_on("system", name))
        for name, why in ABSENT.items()
    ],
)
def test_unavailable_system_is_listed_with_the_reason(reason: str) -> None:
    """A system that cannot be had is in the table, with the reason."""
    pytest.skip(reason)


def test_the_package_is_for_all_of_them() -> None:
    """The package has one architecture, which is all of them."""
    assert Path(package("deb")).name.endswith("_all.deb")
