"""A real podman whose containers, images and networks are the tests' own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support import leftovers, pace
from support.tools import need

IMAGE = "localhost/busybox:test"
"""Nothing but busybox, under the names in `APPLETS`."""

APPLETS = (
    "sh",
    "sleep",
    "echo",
    "cat",
    "true",
    "false",
    "env",
    "id",
    "kill",
    "printf",
    "touch",
    "ls",
    "httpd",
)

LASTING = ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.05; done"]
"""A command that goes on until it is asked to end."""

_TRIES = 20
"""The number of times that the folder is removed, until nothing is written into it any more."""

_CONFIGURATION = """\
[containers]
netns = "host"
{containers}
[engine]
events_logger = "file"
lock_type = "file"
tmp_dir = "{folder}/tmp"
{engine}
[network]
network_config_dir = "{folder}/networks"
"""

_WRAPPER = """\
#!/bin/sh
export CONTAINERS_CONF={folder}/containers.conf
exec {within}{podman} --root {folder}/root --runroot {folder}/runroot "$@"
"""

_DOCKER = """\
#!/bin/sh
echo "Cannot connect to the Docker daemon. Is the docker daemon running?" >&2
exit 1
"""
"""Stands before whatever docker there may be: its containers are not the tests'."""

_HOLDER = """\
mount -t cgroup2 none /sys/fs/cgroup && mount -t tmpfs none /run && mkdir /run/netns || exit
[ ! -d /var/lib/cni ] || mount -t tmpfs none /var/lib/cni
ip link set lo up
echo ready
exec cat
"""


class Podman:
    """Podman with storage of its own, as the program `podman` in a folder at the head of `path`.

    Beside it is a docker that finds no daemon, as there is one on many machines.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = f"{folder / 'bin'}:{os.environ['PATH']}"
        self._real = need("podman", "podman crun")
        self._holder: subprocess.Popen[str] | None = None

    def set_up(self) -> None:
        """Make it work on this machine: as it is, else in namespaces of its own. Skips the test where it cannot."""
        self._write("", "", "")
        troubles = [self._trouble()]
        if troubles[0] and os.geteuid() == 0:
            self._hold()
            troubles.append(self._trouble())
        if troubles[-1]:
            pytest.skip(
                f"podman runs no containers here; see «podman run», which says: {' / '.join(troubles)}"
            )

    def __call__(self, *arguments: str) -> str:
        """Run podman and return what it prints."""
        done = self._run(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def containers(self) -> dict[str, dict[str, Any]]:
        """Return what podman says of each container, by name."""
        ids = self("ps", "--all", "--quiet").split()
        found = json.loads(self("container", "inspect", *ids)) if ids else []
        return {each["Name"]: each for each in found}

    def running(self) -> set[str]:
        """Return the names of the containers that are running."""
        return {
            name for name, each in self.containers().items() if each["State"]["Running"]
        }

    def labels(self) -> dict[str, dict[str, str]]:
        """Return the labels of each container, by name."""
        return {
            name: each["Config"]["Labels"] for name, each in self.containers().items()
        }

    def clear(self) -> None:
        """Remove all containers."""
        self("rm", "--force", "--all", "--volumes", "--time=0")

    def end(self) -> None:
        """Leave nothing behind."""
        if (self.folder / "bin").is_dir():
            self._run("rm", "--force", "--all", "--time=0")
            self._run("network", "prune", "--force")
        if self._holder is not None:
            self._holder.communicate()  # and with it go its namespaces, with all that is mounted in them
        for _ in range(_TRIES):
            self._unmount("--lazy")
            shutil.rmtree(self.folder, ignore_errors=True)
            if not self.folder.exists():
                break
            time.sleep(0.1)  # a process that ends with the last container still writes

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.folder / "bin/podman"), *arguments],
            capture_output=True,
            text=True,
            timeout=pace.seconds(100),
            check=False,
        )

    def _unmount(self, *options: str) -> None:
        mounts = [
            line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()
        ]
        for mount in reversed(
            [each for each in mounts if each.startswith(f"{self.folder}/")]
        ):
            subprocess.run(["umount", *options, mount], check=False)

    def _write(self, within: str, containers: str, engine: str) -> None:
        self._unmount()
        for name in ("root", "runroot", "tmp", "networks"):
            shutil.rmtree(self.folder / name, ignore_errors=True)
        wrapper = self.folder / "bin/podman"
        wrapper.parent.mkdir(parents=True, exist_ok=True)
        (self.folder / "containers.conf").write_text(
            _CONFIGURATION.format(
                folder=self.folder, containers=containers, engine=engine
            )
        )
        wrapper.write_text(
            _WRAPPER.format(folder=self.folder, podman=self._real, within=within)
        )
        (wrapper.parent / "docker").write_text(_DOCKER)
        for program in wrapper.parent.iterdir():
            program.chmod(0o755)

    def _hold(self) -> None:
        """Have podman run in mounts and a network of its own, where it finds cgroups as it wants them.

        A process keeps them as long as we hold the other end of its standard input. Limits are left alone, as perhaps
        nobody may raise them.
        """
        self._holder = subprocess.Popen(
            [need("unshare", "util-linux"), "--mount", "--net", "sh", "-c", _HOLDER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._holder.stdout is not None
        if self._holder.stdout.readline() != "ready\n":
            pytest.skip(
                "this machine gives no mount namespaces: run the tests where «unshare --mount true» works"
            )
        inside = f"{need('nsenter', 'util-linux')} --target {self._holder.pid} --mount --net -- "
        # The other mounts have another working folder.
        self._write(
            f"""{inside}sh -c 'cd "$0" && exec "$@"' "$PWD" """,
            'default_ulimits = []\ncgroups = "disabled"',
            'cgroup_manager = "cgroupfs"',
        )

    def _trouble(self) -> str:
        """Return why no container can be run; empty where it can, and then the image is there."""
        source = self.folder / "image"
        if not source.is_dir():
            (source / "bin").mkdir(parents=True)
            shutil.copy(need("busybox", "busybox-static"), source / "bin/busybox")
            for name in APPLETS:
                (source / "bin" / name).symlink_to("busybox")
            subprocess.run(
                [
                    "tar",
                    "--create",
                    f"--file={source}.tar",
                    f"--directory={source}",
                    "bin",
                ],
                check=True,
            )
        for arguments in (
            ("import", "--change=ENV PATH=/bin", f"{source}.tar", IMAGE),
            ("run", "--rm", IMAGE, "true"),
        ):
            done = self._run(*arguments)
            if done.returncode:
                return done.stderr.strip() or f"exit code {done.returncode}"
        return ""


@pytest.fixture(scope="session")
def own_podman() -> Iterator[Podman]:
    """Podman for all tests of a session."""
    # podman takes no path of more than 50 characters
    folder = Path(tempfile.mkdtemp(prefix="podman-", dir="/tmp"))
    leftovers.belongs(folder)
    podman = Podman(folder)
    try:
        podman.set_up()
        yield podman
    finally:
        podman.end()
        # some of it may be mounted still, where the machine is slow
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def podman(own_podman: Podman) -> Iterator[Podman]:
    """Podman without any containers but the test's."""
    yield own_podman
    own_podman.clear()
