"""A whole machine in software: a kernel of its own, a disk that can lose what was not flushed, real control groups.

qemu emulates it, without any help of the processor's, so that it takes minutes where `system.booted` takes seconds. It
is for what that one cannot show. Its disk is an image that was baked (see `baked`), and cloud-init finds what it finds
on an instance of OpenStack's: a config drive. Its network is our loopback, at `HOST`, and no more: it has no route.
"""

from __future__ import annotations

import base64
import contextlib
import json
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.machine import Done
from support.tools import need

HOST = "10.0.2.2"
"""Where the machine finds what listens on 127.0.0.1 here."""

MAC = "52:54:00:12:34:56"
NETWORK = {
    "links": [{"id": "link0", "type": "phy", "ethernet_mac_address": MAC}],
    "networks": [
        {
            "id": "network0",
            "type": "ipv4",
            "link": "link0",
            "ip_address": "10.0.2.15",
            "netmask": "255.255.255.0",
            "routes": [],
        }
    ],
    "services": [],
}
"""The content that Nova writes into `network_data.json`."""

BOOT = 900.0
"""Seconds in which a boot has to be over: one minute, or three where others are at work."""

_MASKED = [
    f"systemd.mask={each}"
    for each in (
        "apt-daily.timer",
        "apt-daily-upgrade.timer",
        "e2scrub_reap.service",
        "man-db.timer",
    )
]
"""Units that would slow down the boot, and do not matter here."""


class Emulated:
    """An emulated machine, which leaves the image unchanged."""

    def __init__(self, folder: Path, disk: Path, user_data: str) -> None:
        """Have a machine in a folder, with a disk over the image `disk` (qcow2, beside it its kernel and initrd)."""
        self._folder = folder
        self._image = disk
        self._disk = folder / "disk.qcow2"
        self._console = folder / "console"
        self._socket = folder / "agent"
        self._qemu: subprocess.Popen[bytes] | None = None
        self._line: socket.socket | None = None
        self._number = 0
        subprocess.run(
            [
                "qemu-img",
                "create",
                "-q",
                "-f",
                "qcow2",
                "-b",
                disk,
                "-F",
                "qcow2",
                self._disk,
            ],
            check=True,
            capture_output=True,
        )
        self._config_drive(user_data)

    def _config_drive(self, user_data: str) -> None:
        files = {
            "meta_data.json": json.dumps(
                {
                    "uuid": "6c8a4a5e-0e4c-4d25-8a2e-1b5e8c0a7d11",
                    "hostname": "m",
                    "name": "m",
                }
            ),
            "network_data.json": json.dumps(NETWORK),
            "user_data": user_data,
        }
        place = self._folder / "drive/openstack/latest"
        place.mkdir(parents=True)
        for name, text in files.items():
            (place / name).write_text(text)
        drive = place.parents[1]
        make = [
            "xorriso",
            "-as",
            "mkisofs",
            "-quiet",
            "-V",
            "config-2",
            "-JR",
            "-o",
            f"{drive}.iso",
            str(drive),
        ]
        subprocess.run(make, check=True, capture_output=True)

    def boot(self) -> float:
        """Boot the machine, wait until systemd has started all units, and return the seconds that it took."""
        begun = time.monotonic()
        self._socket.unlink(missing_ok=True)
        self._qemu = subprocess.Popen(self._command(), stdin=subprocess.DEVNULL)
        self._await(begun + BOOT)
        state = self.run(
            "systemctl", "is-system-running", "--wait", seconds=BOOT
        ).out.strip()
        assert state in ("running", "degraded"), self.console()
        return time.monotonic() - begun

    def _command(self) -> list[str]:
        return [
            *("setpriv", "--pdeathsig", "KILL"),  # it ends with us, however we end
            *(
                "qemu-system-x86_64",
                "-accel",
                "tcg,thread=multi",
                "-cpu",
                "max",
                "-smp",
                "2",
                "-m",
                "1024",
            ),
            *("-nodefaults", "-display", "none", "-no-reboot"),
            *(
                "-kernel",
                str(self._image.with_name("vmlinuz")),
                "-initrd",
                str(self._image.with_name("initrd")),
            ),
            *(
                "-append",
                "root=LABEL=cloudimg-rootfs rw console=ttyS0 panic=-1 quiet "
                + " ".join(_MASKED),
            ),
            # A flush of the machine's reaches the file. What it has not written goes with it, and what it wrote and has
            # not flushed may: where that is in the file is in qemu's memory until then.
            *(
                "-drive",
                f"file={self._disk},if=virtio,format=qcow2,cache=writeback,l2-cache-size=16M",
            ),
            *(
                "-drive",
                f"file={self._folder}/drive.iso,if=virtio,format=raw,readonly=on",
            ),
            *(
                "-netdev",
                "user,id=net,ipv6=off",
                "-device",
                f"virtio-net-pci,netdev=net,mac={MAC},romfile=",
            ),
            *("-device", "virtio-rng-pci", "-serial", f"file:{self._console}"),
            *(
                "-chardev",
                f"socket,id=agent,path={self._socket},server=on,wait=off",
                "-device",
                "virtio-serial-pci",
            ),
            *("-device", "virtserialport,chardev=agent,name=org.qemu.guest_agent.0"),
        ]

    def _await(self, deadline: float) -> None:
        """Wait until qemu's guest agent answers in it."""
        while True:
            assert self._qemu is not None
            assert self._qemu.poll() is None, f"qemu has ended: {self.console()}"
            assert time.monotonic() < deadline, f"it did not boot: {self.console()}"
            with contextlib.suppress(OSError):
                self._line = self._line or self._connect()
                self._number += 1
                if self._ask("guest-sync", 2, id=self._number) == self._number:
                    return
            time.sleep(0.2)

    def _connect(self) -> socket.socket:
        line = socket.socket(socket.AF_UNIX)
        try:
            line.connect(str(self._socket))
        except OSError:
            line.close()
            raise
        return line

    def _ask(self, command: str, seconds: float, **arguments: object) -> Any:
        """Ask qemu's guest agent."""
        assert self._line is not None
        self._line.settimeout(seconds)
        self._line.sendall(
            json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n"
        )
        answer = b""
        while not answer.endswith(b"\n"):
            found = self._line.recv(1 << 20)
            if not found:
                raise ConnectionError
            answer += found
        value = json.loads(answer.splitlines()[-1])
        assert "return" in value, value
        return value["return"]

    def run(self, *argv: str, stdin: str = "", seconds: float = 120) -> Done:
        """Run a command in it to its end."""
        deadline = time.monotonic() + seconds
        given = {
            "path": argv[0],
            "arg": list(argv[1:]),
            "capture-output": True,
            "env": ["PATH=/usr/sbin:/usr/bin"],
        }
        if stdin:
            given["input-data"] = base64.b64encode(stdin.encode()).decode()
        process = self._ask("guest-exec", 60, **given)["pid"]
        while not (done := self._ask("guest-exec-status", 60, pid=process))["exited"]:
            assert time.monotonic() < deadline, f"{argv} takes too long"
            time.sleep(0.1)
        out, err = (
            base64.b64decode(done.get(each, "")).decode(errors="replace")
            for each in ("out-data", "err-data")
        )
        return Done(done.get("exitcode", -done.get("signal", 0)), out, err)

    def cut(self) -> None:
        """Cut its power."""
        if self._qemu is not None:
            self._qemu.kill()
            self._qemu.wait()
            self._qemu = None
        if self._line is not None:
            self._line.close()
            self._line = None

    def console(self) -> str:
        """Return the last that was said on its console."""
        return (
            self._console.read_text(errors="replace")[-4000:]
            if self._console.exists()
            else ""
        )


@contextmanager
def emulated(folder: Path, disk: Path, user_data: str) -> Iterator[Emulated]:
    """Have a machine, switched off; skip the test where that cannot be."""
    need("qemu-system-x86_64", "qemu-system-x86")
    need("qemu-img", "qemu-utils")
    need("xorriso", "xorriso")
    need("setpriv", "util-linux")
    machine = Emulated(folder, disk, user_data)
    try:
        yield machine
    finally:
        machine.cut()
