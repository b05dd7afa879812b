"""A machine that booted: a real systemd in a container, with the commands of this checkout installed in it.

It takes root and a few of Debian's programs, and seconds: the root folder is built once for a checkout
(`build-root`), and a machine is up in about a second. Its disk is in memory and outlives a crash of the machine, not
the tests: with them everything is gone, however they end (`hold-machine`). Its network is ours, without the privilege
to change it; or it has one of its own, with DHCP and DNS.
"""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib import metadata
from itertools import count
from pathlib import Path

import psutil
import pytest

from support import pace
from support.machine import Done
from support.tools import need, need_root

_HERE = Path(__file__).parent
_SOURCES = tuple(
    _HERE.parents[1] / name
    for name in (
        "agent/heat_config_agent",
        "agent/heat_config_stack",
        "hooks/heat_config_hooks",
        "hooks/heat_config_compat",
    )
)
_PACKAGES = "/usr/lib/python3/dist-packages"
_COMPILED = _HERE.parents[1] / ".venv/machine-code"
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_NUMBERS = count(1)
_CLONE_NEWNET = 0x40000000
"""The flag of setns(2) for a network namespace."""


class Booted:
    """One machine."""

    def __init__(self, root: Path, *, commands: bool = True, network: str = "") -> None:
        """Make a disk over a root folder, and install the commands on it, if asked. `boot` comes after that.

        With the address of its gateway, it has a network of its own, in which every name below «example» is that.
        """
        name = f"heat-config-{os.getpid()}-{next(_NUMBERS)}"
        apart, address = (["--net"], [network]) if network else ([], [])
        self._holder = subprocess.Popen(
            [
                "unshare",
                "--mount",
                *apart,
                _HERE / "hold-machine",
                root,
                name,
                *address,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            start_new_session=True,
        )
        self._answer("ready")
        self.disk = Path(f"/proc/{self._holder.pid}/root/mnt/root")
        """Its disk as seen from here, booted or not. An absolute link on it leads astray."""
        self._init: psutil.Process | None = None
        if commands:
            self.install()

    def install(self) -> None:
        """Put the commands of this checkout on it, as an installation from source does."""
        shutil.copytree(
            _compiled(), self.disk / _PACKAGES.lstrip("/"), dirs_exist_ok=True
        )
        for command in metadata.distribution("heat-config-agent").entry_points:
            path = self.disk / "usr/local/bin" / command.name
            path.write_text(
                f"#!/usr/bin/python3\nimport sys\nfrom {command.module} import {command.attr}\n"
                f"sys.exit({command.attr}())\n"
            )
            path.chmod(0o755)

    def boot(self, seconds: float = 60) -> None:
        """Boot it, and wait until systemd has started all that belongs to a boot."""
        self._say("boot")
        self._await_boot(seconds)

    def await_reboot(self, seconds: float = 60) -> None:
        """Wait until it has booted once more, as something in it has asked for."""
        before = self._init
        deadline = time.monotonic() + pace.seconds(seconds)
        while before is not None and before.is_running():
            assert time.monotonic() < deadline, f"it did not go down: {self.console()}"
            time.sleep(0.02)
        self._await_boot(seconds)

    def _await_boot(self, seconds: float) -> None:
        deadline = time.monotonic() + pace.seconds(seconds)
        state = ""
        while state not in ("running", "degraded"):
            assert time.monotonic() < deadline, (
                f"it did not boot ({state}): {self.console()}"
            )
            time.sleep(0.02)
            self._init = self._find_init()
            if self._init is not None:
                state = self.run(
                    "systemctl", "is-system-running", "--wait", seconds=seconds
                ).out.strip()

    @property
    def init(self) -> int:
        """The id of its first process, as seen from here."""
        assert self._init is not None
        return self._init.pid

    def crash(self) -> None:
        """Kill everything that runs in it, at once. It can be booted again, with the disk as it is then."""
        self._init = None
        self._say("crash")

    @property
    def process(self) -> int:
        """The process of its systemd, as seen from here; 0 if it is not booted."""
        return self._init.pid if self._init is not None else 0

    def run(
        self, *argv: str, stdin: str = "", seconds: float = 60, **environment: str
    ) -> Done:
        """Run a command in it to its end."""
        assert self._init is not None
        words = {"PATH": _PATH, "HOME": "/root", "LANG": "C.UTF-8", **environment}
        done = subprocess.run(
            ["nsenter", "--target", str(self._init.pid), "--all", *argv],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=pace.seconds(seconds),
            check=False,
            env=words,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def inside(self, *argv: str, seconds: float = 60, **environment: str) -> Done:
        """Run a command on its disk while it is not booted, as those do who make images."""
        words = {"PATH": _PATH, "HOME": "/root", "LANG": "C.UTF-8", **environment}
        done = subprocess.run(
            [
                "nsenter",
                "--target",
                str(self._holder.pid),
                "--mount",
                "chroot",
                "/mnt/root",
                *argv,
            ],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=pace.seconds(seconds),
            check=False,
            env=words,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def console(self) -> str:
        """Return what was said on its console."""
        path = self.disk.with_name("console")
        return path.read_text(errors="replace") if path.exists() else ""

    def listen(self, address: str, port: int) -> socket.socket:
        """Return a socket that listens at the gateway of its network."""

        def made() -> socket.socket:
            with Path(f"/proc/{self._holder.pid}/ns/net").open() as namespace:
                if ctypes.CDLL(None, use_errno=True).setns(
                    namespace.fileno(), _CLONE_NEWNET
                ):
                    raise OSError(
                        ctypes.get_errno(), "cannot enter the network of the machine"
                    )
            return socket.create_server((address, port), backlog=64)

        with ThreadPoolExecutor(
            1
        ) as apart:  # a thread that ends: this process stays in its own network
            return apart.submit(made).result()

    def end(self) -> None:
        """Have it gone."""
        self._holder.communicate(timeout=pace.seconds(30))

    def _say(self, what: str) -> None:
        assert self._holder.stdin is not None
        self._holder.stdin.write(f"{what}\n")
        self._answer(what)

    def _answer(self, expected: str) -> None:
        assert self._holder.stdout is not None
        answer = self._holder.stdout.readline().strip()
        assert answer == expected, f"it cannot be held (see standard error): {answer}"

    def _find_init(self) -> psutil.Process | None:
        """Return its first process: the one that systemd-nspawn has started, as soon as it is systemd itself."""
        for each in psutil.Process(self._holder.pid).children(recursive=True):
            try:
                if each.name() == "systemd":
                    return each
            except psutil.NoSuchProcess:
                continue
        return None


@contextmanager
def booted(
    *,
    boot: bool = True,
    commands: bool = True,
    root: Path | None = None,
    network: str = "",
) -> Iterator[Booted]:
    """Boot a machine, or only make it, with our commands or without; skip the test where that cannot be done.

    Its root folder is a small Debian, unless another one is named. `network` is as for `Booted`.
    """
    need_root()
    if network:
        need("dnsmasq", "dnsmasq-base")
        need("ip", "iproute2")
    need("systemd-nspawn", "systemd-container")
    if subprocess.run(
        ["unshare", "--mount", "true"], capture_output=True, check=False
    ).returncode:
        pytest.skip(
            "this machine gives no mount namespaces: run the tests where «unshare --mount true» works"
        )
    machine = Booted(root or small_debian(), commands=commands, network=network)
    try:
        if boot:
            machine.boot()
        yield machine
    finally:
        machine.end()


def _compiled() -> Path:
    """Return a folder with our packages as they are, compiled once for all machines: each would do it anew."""
    sources = {
        path: path.read_bytes()
        for source in _SOURCES
        for path in sorted(source.rglob("*"))
        if path.is_file()
    }
    digest = hashlib.sha256()
    for path, content in sources.items():
        if "__pycache__" not in path.parts:
            digest.update(
                f"{path} {path.stat().st_mode:o} {len(content)}\n".encode() + content
            )
    folder = _COMPILED / digest.hexdigest()[:12]
    _COMPILED.mkdir(parents=True, exist_ok=True)
    with (_COMPILED / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            for other in (each for each in _COMPILED.iterdir() if each.is_dir()):
                shutil.rmtree(other)
            part = folder.with_suffix(".part")
            for source in _SOURCES:
                shutil.copytree(
                    source,
                    part / source.name,
                    ignore=shutil.ignore_patterns("__pycache__"),
                )
            # This machine's own Python is that of the machines: they are of the same release.
            command = [
                "/usr/bin/python3",
                "-m",
                "compileall",
                "-q",
                "-s",
                str(part),
                "-p",
                _PACKAGES,
                str(part),
            ]
            subprocess.run(command, check=True)
            part.rename(folder)
    return folder


def small_debian(release: str = "", architecture: str = "") -> Path:
    """Return the root folder of a small Debian, of this machine's own release and architecture unless others are named.

    The test is skipped where none can be built.
    """
    need_root()
    need("mmdebstrap", "mmdebstrap")
    words = [each for each in (release, architecture) if each]
    built = subprocess.run(
        [_HERE / "build-root", *words], capture_output=True, text=True, check=False
    )
    if built.returncode:
        pytest.skip(f"there is no machine to boot: {built.stderr.strip()}")
    return Path(built.stdout.strip())
