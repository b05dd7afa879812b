"""The package in an image that is built in a chroot, on a host that systemd has booted, as most hosts are.

systemctl then asks nothing of the host's systemd, and says so on standard error, with the exit code of success.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from package.built import package
from system.booted import Booted, booted
from system.test_service import NAME

pytestmark = [pytest.mark.takes(60), pytest.mark.timeout(600)]

IMAGE = """
mkdir -p /image /run/layer
mount -t tmpfs layer /run/layer
mkdir /run/layer/upper /run/layer/work
mount -t overlay image -o lowerdir=/,upperdir=/run/layer/upper,workdir=/run/layer/work /image
mount -t proc proc /image/proc
"""
"""Commands that make an image of the machine below `/image`, whose files are its own."""

OTHERS = (
    "[Service]\nExecStart=/usr/bin/sleep 1000\n[Install]\nWantedBy=multi-user.target\n"
)
"""The unit os-collect-config.service."""


@pytest.fixture(scope="module")
def host() -> Iterator[Booted]:
    """A booted machine with the package in /root, which builds an image."""
    deb = package("deb")
    with booted(commands=False) as machine:
        shutil.copy(deb, machine.disk / "root/agent.deb")
        yield machine


@pytest.fixture
def image(host: Booted) -> Iterator[Booted]:
    """The host with a new image."""
    done = host.run("sh", "-ec", IMAGE)
    assert done.code == 0, done.err
    yield host
    done = host.run("sh", "-ec", "umount -R /image; umount /run/layer")
    assert done.code == 0, done.err


@pytest.mark.parametrize(
    ("prepare", "variable"),
    [
        ("true", "A=1"),
        ("mount --bind /run /image/run", "A=1"),
        ("true", "SYSTEMD_OFFLINE=1"),
    ],
    ids=["proc", "run", "offline"],
)
def test_daemon_is_enabled_in_an_image_that_a_booted_host_builds(
    image: Booted, prepare: str, variable: str
) -> None:
    """The host's systemd decides nothing: the image has no os-collect-config, so its first boot starts the daemon."""
    assert image.run("sh", "-ec", prepare).code == 0
    done = image.run(
        "env", variable, "chroot", "/image", "dpkg", "--install", "/root/agent.deb"
    )
    assert (done.code, "os-collect-config" in done.out + done.err) == (0, False), (
        done.out + done.err
    )
    assert (
        image.run("chroot", "/image", "systemctl", "is-enabled", NAME).out
        == "enabled\n"
    )
    assert image.run("test", "-e", "/usr/bin/heat-config-agent").code == 1
    assert image.run("systemctl", "is-active", NAME).out == "inactive\n"


def test_image_that_a_booted_host_builds_starts_the_daemon_at_its_boot(
    image: Booted, tmp_path: Path
) -> None:
    """The first boot of the image starts the daemon, and each boot after that."""
    done = image.run("chroot", "/image", "dpkg", "--install", "/root/agent.deb")
    assert done.code == 0, done.out + done.err
    words = (
        "tar",
        "--create",
        "--one-file-system",
        "--exclude=./root/*",
        "--file=/root/image.tar",
    )
    done = image.run(*words, "--directory=/image", ".")
    assert done.code == 0, done.err
    root = tmp_path / "image"
    root.mkdir()
    archive = image.disk / "root/image.tar"
    subprocess.run(
        [
            "tar",
            "--extract",
            "--numeric-owner",
            f"--file={archive}",
            f"--directory={root}",
        ],
        check=True,
    )
    archive.unlink()
    with booted(boot=False, commands=False, root=root) as instance:
        for _ in range(2):
            instance.boot()
            assert instance.run("systemctl", "is-active", NAME).out == "active\n"
            head = instance.run("heat-config-agent", "status").out.splitlines()[0]
            assert re.search(r"\bagent: .+ \(process \d+\)$", head), head
            instance.crash()


def test_daemon_stays_disabled_in_an_image_with_os_collect_config(
    image: Booted,
) -> None:
    """An image whose os-collect-config is enabled keeps it."""
    unit = "/image/etc/systemd/system/os-collect-config.service"
    assert image.run("tee", unit, stdin=OTHERS).code == 0
    assert (
        image.run("chroot", "/image", "systemctl", "enable", "os-collect-config").code
        == 0
    )
    done = image.run("chroot", "/image", "dpkg", "--install", "/root/agent.deb")
    assert done.code == 0, done.out + done.err
    assert "os-collect-config is in use on this machine" in done.out
    assert (
        image.run("chroot", "/image", "systemctl", "is-enabled", NAME).out
        == "disabled\n"
    )


def test_daemon_stays_disabled_on_a_machine_whose_os_collect_config_runs_without_being_enabled(
    host: Booted,
) -> None:
    """A started os-collect-config is in use too."""
    assert (
        host.run(
            "tee", "/run/systemd/system/os-collect-config.service", stdin=OTHERS
        ).code
        == 0
    )
    assert host.run("systemctl", "daemon-reload").code == 0
    assert host.run("systemctl", "start", "os-collect-config").code == 0
    done = host.run("dpkg", "--install", "/root/agent.deb")
    assert done.code == 0, done.out + done.err
    assert "os-collect-config is in use on this machine" in done.out
    assert host.run("systemctl", "is-enabled", NAME).out == "disabled\n"
    assert host.run("systemctl", "is-active", "os-collect-config").out == "active\n"
