"""Hosts with a real sshd each, in a network namespace of its own, and the links to them, which are broken and delayed.

The coordinator's ssh is in a namespace, too: nothing of it is on the network of this machine.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from support import endings, tools
from support.loopback import wait_until
from support.machine import Machine
from support.remote import SshHosts

_PORT = 22


class Linked(SshHosts):
    """Hosts at the end of a link each."""

    def __init__(self, machine: Machine, *names: str) -> None:
        tools.need_root()
        self._ip = tools.need("ip", "iproute2")
        self._enter = tools.need("nsenter", "util-linux")
        self._unshare = tools.need("unshare", "util-linux")
        self._sshd = tools.need("sshd", "openssh-server")
        self._ssh = tools.need("ssh", "openssh-client")
        self._holders: dict[str, subprocess.Popen[bytes]] = {}
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        super().__init__(machine, *names)
        self.addresses = {name: f"192.0.2.{4 * n + 2}" for n, name in enumerate(names)}
        key = (self.folder / "host.pub").read_text()
        lines = [f"{address} {key}" for address in self.addresses.values()]
        (self.folder / "known_hosts").write_text("".join(lines))

    def values(self, name: str, **more: Any) -> dict[str, Any]:
        """Return the host of that name as the hosts file has it."""
        address = self.addresses[name]
        return super().values(name, **{"address": address, "port": _PORT, **more})

    def begin(self) -> None:
        """Make the namespaces and the links, and start the servers."""
        for name in ("", *self.names):
            self._hold(name)
        client = self.folder / "bin" / "ssh"
        client.write_text(
            f'#!/bin/sh\nexec {self._enter} --net={self._place("")} -- {self._ssh} "$@"\n'
        )
        client.chmod(0o755)
        for n, name in enumerate(self.names):
            ours, theirs = f"192.0.2.{4 * n + 1}", self.addresses[name]
            peer = f"peer name eth0 netns {self._holders[name].pid}"
            self._set("", f"link add to{n} type veth {peer}")
            self._set("", f"address add {ours}/30 dev to{n}")
            self._set("", f"link set to{n} up")
            self._set(name, f"address add {theirs}/30 dev eth0")
            self.restore(name)
            self._serve(name)

    def end(self) -> None:
        """End the servers and the namespaces."""
        for process in (*self._running.values(), *self._holders.values()):
            process.kill()
            process.communicate()

    def silence(self, name: str) -> None:
        """Have nothing get through to a host any more, in either direction."""
        self._set(name, "link set eth0 down")

    def restore(self, name: str) -> None:
        """Have all get through again."""
        self._set(name, "link set eth0 up")

    def session(self, name: str) -> int:
        """Return the id of the process of the agent's session on a host; 0 if there is none."""
        place = str(self.state(name))
        there = [
            each.pid for each in self.remote_ends() if place in endings.words(each)
        ]
        return there[-1] if there else 0

    def reset(self, name: str) -> None:
        """Have the connections to a host end at once: sshd's side of each is gone."""
        with contextlib.suppress(psutil.NoSuchProcess):
            parents = psutil.Process(self.session(name)).parents()
            children = [each for each in parents if each.name().startswith("sshd")]
            for each in children[:-1]:  # the last one is the server itself
                each.kill()

    def delay(self, name: str, milliseconds: int) -> None:
        """Delay all that goes to a host, or skip the test where the kernel cannot."""
        tc, number = tools.need("tc", "iproute2"), self.names.index(name)
        words = ["qdisc", "add", "dev", f"to{number}", "root", "netem"]
        done = self._try("", tc, *words, "delay", f"{milliseconds}ms")
        if done.returncode:
            pytest.skip(
                f"tc cannot delay packets here (sch_netem): {done.stderr.strip()}"
            )

    def _place(self, name: str) -> str:
        return f"/proc/{self._holders[name].pid}/ns/net"

    def _hold(self, name: str) -> None:
        words = [self._unshare, "--net", "--", "sh", "-c", "echo; exec sleep infinity"]
        holder = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self._holders[name] = holder
        assert holder.stdout is not None
        assert holder.stderr is not None
        if holder.stdout.readline() != b"\n":
            why = holder.stderr.read().decode().strip()
            pytest.skip(
                f"this machine gives no network namespaces: «unshare --net»: {why}"
            )
        self._set(name, "link set lo up")

    def _set(self, name: str, words: str) -> None:
        """Run a command of ip in a namespace."""
        done = self._try(name, self._ip, *words.split())
        assert done.returncode == 0, (words, done.stderr)

    def _try(self, name: str, *words: str) -> subprocess.CompletedProcess[str]:
        line = [self._enter, f"--net={self._place(name)}", "--", *words]
        return subprocess.run(line, capture_output=True, text=True, check=False)

    def _serve(self, name: str) -> None:
        settings = self.folder / f"sshd_config.{name}"
        text = settings.read_text().split("\n", 1)[1]
        settings.write_text(f"ListenAddress {self.addresses[name]}:{_PORT}\n{text}")
        log = self.folder / f"sshd.{name}.log"
        words = [self._enter, f"--net={self._place(name)}", "--", self._sshd]
        with log.open("wb") as printed:
            self._running[name] = subprocess.Popen(
                [*words, "-D", "-e", "-f", str(settings)],
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=printed,
            )
        wait_until(lambda: b"Server listening" in log.read_bytes())


@contextlib.contextmanager
def linked(machine: Machine, *names: str) -> Iterator[Linked]:
    """Yield hosts whose links are there while the context lasts."""
    hosts = Linked(machine, *names)
    try:
        hosts.begin()
        yield hosts
    finally:
        hosts.end()
