"""Hosts of a stack, each with a state directory of its own; a program in the place of ssh leads there."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from support import endings, origins, ports, tools
from support.loopback import wait_until
from support.machine import BIN, Done, Machine

_SSH = """\
#!/bin/sh
[ "$1" = -G ] && exit 0
while [ "$1" != -- ]; do shift; done
host=$2
echo "$host" >>FOLDER/begun
printf '%s\\n' "$3" >>FOLDER/commands
[ -e "FOLDER/$host.says" ] && { cat "FOLDER/$host.says" >&2; exit "$(cat "FOLDER/$host.code")"; }
[ -e "FOLDER/$host.banner" ] && cat "FOLDER/$host.banner"
echo $$ >"FOLDER/$host.pid"
[ -z "$HEAT_CONFIG_AGENT_STATE" ] || export HEAT_CONFIG_AGENT_STATE="$HEAT_CONFIG_AGENT_STATE-$host"
[ -e "FOLDER/$host.shell" ] && exec "FOLDER/$host.shell" -c "$3"
exec sh -c "exec $3"
"""
"""It takes the words of the OpenSSH client, and becomes the command that would run on the host.

If a variable names the state directory of the caller, that of the host is the one of `Hosts.state`.
"""


_SHELL = """\
#!PYTHON
import os, re, sys
pieces = re.findall(r"'[^']*'|[ ]+|.", sys.argv[2])
words = [""]
for piece in pieces:
    if piece.strip(" ") == "":
        words.append("")
    elif piece[0] == "'" or re.fullmatch(r"[A-Za-z0-9_./:@%+=,-]", piece):
        words[-1] += piece.strip("'")
    else:
        sys.exit(f"shell: {piece!r} is not understood")
os.execvp(words[0], words)
"""
"""A shell that is not POSIX: it knows words and single quotes, and nothing else."""

_WRONG_CLOCK = """\
#!PYTHON
import sys, time
now = time.time
time.time = lambda: now() + SECONDS
from heat_config_agent.cli import agent
sys.exit(agent.main(sys.argv[1:]))
"""
"""The agent on a host whose clock is wrong."""

_SLOW = """\
#!PYTHON
import json, os, subprocess, sys, threading, time, queue
words = sys.argv[1:]
if words[0] == "-G":
    sys.exit(0)
host, task = words[words.index("--") + 1 :]
with open("FOLDER/begun", "a") as begun:
    begun.write(host + "\\n")
process = subprocess.Popen(["sh", "-c", "exec " + task], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
sides = {">": (0, process.stdin.fileno()), "<": (process.stdout.fileno(), 1)}
log = os.open("FOLDER/" + host + ".flights", os.O_CREAT | os.O_APPEND | os.O_WRONLY)

def read(side, under_way):
    while piece := os.read(sides[side][0], 1 << 16):
        under_way.put((time.monotonic() + DELAY, piece))
    under_way.put((time.monotonic() + DELAY, b""))

def write(side, under_way):
    rest = b""
    while True:
        due, piece = under_way.get()
        time.sleep(max(due - time.monotonic(), 0))
        if not piece:
            os.close(sides[side][1])
            return
        *lines, rest = (rest + piece).split(b"\\n")
        for line in lines:
            message = json.loads(line[line.index(b"{") :]) if b"{" in line else {}
            kind = message.get("is") or message.get("do")
            if kind:
                os.write(log, (side + kind + "\\n").encode())
        while piece:
            piece = piece[os.write(sides[side][1], piece) :]

threads = []
for side in sides:
    under_way = queue.Queue()
    for part in (read, write):
        threads.append(threading.Thread(target=part, args=(side, under_way), daemon=True))
for each in threads:
    each.start()
threads[3].join()
sys.exit(process.wait())
"""
"""It delays each byte in both directions, and notes the messages in the order in which they arrive."""

_BOOTED = """\
#!PYTHON
import os, sys
from pathlib import Path
from heat_config_hooks import processes
real, number = processes.boot_id(), Path("FOLDER/NAME.boot").read_text().strip()
processes.boot_id = lambda: f"{number}-{real}"

def kept(flush):
    def flushed(descriptor):
        flush(descriptor)
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        if os.path.basename(path) in ("journal", "journal.new"):
            with open(path, "rb") as file, open("FOLDER/NAME.kept", "wb") as copy:
                copy.write(file.read())
    return flushed

os.fsync, os.fdatasync = kept(os.fsync), kept(os.fdatasync)
from heat_config_agent.cli import agent
sys.exit(agent.main([*sys.argv[1:3], "--config", "FOLDER/NAME.conf", *sys.argv[3:]]))
"""
"""The agent on a host that can be rebooted. It keeps a copy of what a power cut leaves of its journal."""

_REBOOT = """\
#!/bin/sh
echo NAME >>FOLDER/reboots
[ -e "FOLDER/NAME.away" ] && { echo 255 >"FOLDER/NAME.code"; cp "FOLDER/NAME.away" "FOLDER/NAME.says"; }
echo "$(cat "FOLDER/NAME.boot")x" >"FOLDER/NAME.boot.new"
mv "FOLDER/NAME.boot.new" "FOLDER/NAME.boot"
kill -KILL "$(cat "FOLDER/NAME.pid")" 2>/dev/null || true
"""
"""The reboot of a host: its session ends, and the next one is in another boot."""


class Hosts:
    """Hosts that are reached by a program in the place of ssh."""

    def __init__(self, machine: Machine, *names: str) -> None:
        self.machine = machine
        self.folder = machine.folder / "hosts"
        self.folder.mkdir()
        self.names = names
        self._moves = 0
        self.log = machine.folder / "runs"
        self.go = machine.folder / "go"
        client = self.folder / "bin" / "ssh"
        client.parent.mkdir()
        client.write_text(_SSH.replace("FOLDER", str(self.folder)))
        client.chmod(0o755)
        machine.environment["PATH"] = f"{client.parent}:{machine.environment['PATH']}"

    def state(self, name: str) -> Path:
        """Return the state directory of a host. Whatever runs there is ended with the test, as of the machine."""
        return self.machine.state.with_name(f"{self.machine.state.name}-{name}")

    def values(self, name: str, **more: Any) -> dict[str, Any]:
        """Return the host of that name as the hosts file has it."""
        command = shlex.quote(str(BIN / "heat-config-agent"))
        values = {
            "address": name,
            "command": command,
            "state_dir": str(self.state(name)),
        }
        return {**values, **more}

    def file(self, **servers: Any) -> Path:
        """Write a hosts file; a server may be given with the name of its host alone."""
        content = {
            server.replace("__", "/"): self.values(host)
            if isinstance(host, str)
            else host
            for server, host in servers.items()
        }
        return self.machine.write(content, "hosts.yaml")

    def says(self, name: str, text: str, code: int = 255) -> None:
        """Have the client fail for a host."""
        (self.folder / f"{name}.code").write_text(str(code))
        (self.folder / f"{name}.says").write_text(text)

    def is_back(self, name: str) -> None:
        """Have the client reach a host again."""
        (self.folder / f"{name}.says").unlink()

    def banner(self, name: str, text: str) -> None:
        """Have the shell of a host print something first."""
        (self.folder / f"{name}.banner").write_text(text)

    def shell(self, name: str) -> None:
        """Have the user on a host have a shell that is not POSIX."""
        self._program(f"{name}.shell", _SHELL)

    def clock(self, name: str, seconds: int) -> dict[str, Any]:
        """Return a host whose clock is wrong."""
        text = _WRONG_CLOCK.replace("SECONDS", str(seconds))
        return self.values(name, command=self._program(f"{name}.agent", text))

    def _program(self, name: str, text: str) -> str:
        path = self.folder / name
        path.write_text(text.replace("PYTHON", sys.executable))
        path.chmod(0o755)
        return shlex.quote(str(path))

    def moving(self, name: str) -> dict[str, Any]:
        """Return a host whose agent is in a new place, and not where it was before."""
        for each in self.folder.glob(f"agent-{name}-*"):
            each.unlink()
        self._moves += 1
        agent = self.folder / f"agent-{name}-{self._moves}"
        agent.symlink_to(BIN / "heat-config-agent")
        return self.values(name, command=shlex.quote(str(agent)))

    def booted(self, name: str, **settings: str) -> dict[str, Any]:
        """Return a host that can be rebooted, with settings of its own."""
        folder = self.folder
        (folder / f"{name}.boot").write_text("1")
        places = {"PYTHON": sys.executable, "FOLDER": str(folder), "NAME": name}
        programs = {"agent": _BOOTED, "reboot": _REBOOT}
        for program, text in programs.items():
            filled = text
            for word, place in places.items():
                filled = filled.replace(word, place)
            path = folder / f"{name}.{program}"
            path.write_text(filled)
            path.chmod(0o755)
        settings = {"reboot_command": str(folder / f"{name}.reboot"), **settings}
        lines = [f"{key} = {value}" for key, value in settings.items()]
        (folder / f"{name}.conf").write_text("\n".join(["[agent]", *lines, ""]))
        return self.values(name, command=shlex.quote(str(folder / f"{name}.agent")))

    def slow(self, seconds: float) -> None:
        """Have the client delay everything in both directions."""
        client = self.folder / "bin" / "ssh"
        text = _SLOW.replace("PYTHON", sys.executable).replace("DELAY", str(seconds))
        client.write_text(text.replace("FOLDER", str(self.folder)))

    def flights(self, name: str) -> list[str]:
        """Return the messages of a slow connection that went in one direction without waiting, `>` to the host."""
        path = self.folder / f"{name}.flights"
        lines = path.read_text().splitlines() if path.exists() else []
        return [
            f"{side}{' '.join(line[1:] for line in each)}"
            for side, each in itertools.groupby(lines, lambda line: line[0])
        ]

    def journal(self, name: str) -> Path:
        """Return the journal of the only stack on a host."""
        (path,) = (self.state(name) / "hosted").glob("*/journal")
        return path

    def cut_power(self, name: str) -> None:
        """Have the power of a host that can be rebooted go: nothing runs on, and what was not flushed is lost.

        The host stays away until it is back.
        """
        self.says(name, f"ssh: connect to host {name} port 22: No route to host\n")
        wait_until(
            lambda: not endings.kill(*self.machine.processes_with(self.state(name)))
        )
        boot = self.folder / f"{name}.boot"
        boot.write_text(f"{boot.read_text()}x")
        self.journal(name).write_bytes((self.folder / f"{name}.kept").read_bytes())

    def stays_away(self, name: str, text: str) -> None:
        """Have the client fail for a host from its next reboot on."""
        (self.folder / f"{name}.away").write_text(text)

    def reboot(self, name: str) -> None:
        """Reboot a host as people do."""
        subprocess.run([str(self.folder / f"{name}.reboot")], check=True)

    @property
    def reboots(self) -> list[str]:
        """The names of the hosts that were rebooted, in order."""
        path = self.folder / "reboots"
        return path.read_text().split() if path.exists() else []

    @property
    def sessions(self) -> list[str]:
        """The names of the hosts to which sessions have begun, in order."""
        path = self.folder / "begun"
        return path.read_text().split() if path.exists() else []

    @property
    def commands(self) -> str:
        """The commands that the client was given."""
        return (self.folder / "commands").read_text()

    def pid(self, name: str) -> int:
        """Return the id of the process that is the last session on a host; 0 where it is not there yet."""
        text = (self.folder / f"{name}.pid").read_text()
        return int(text or 0)

    def kill(self, name: str) -> None:
        """Kill the session on a host, and with it the connection."""
        pid = self.pid(name)
        with contextlib.suppress(ProcessLookupError, psutil.NoSuchProcess):
            process = psutil.Process(pid)
            os.kill(pid, signal.SIGKILL)
            psutil.wait_procs([process], 10)

    @property
    def runs(self) -> list[str]:
        """The lines that the scripts of `deployment` have written."""
        return self.log.read_text().splitlines() if self.log.exists() else []

    def waits_for_run(self, line: str) -> None:
        """Wait until a script has begun."""
        wait_until(lambda: line in self.runs)

    def script(self, name: str, then: str = "") -> str:
        """Return a script that notes its runs."""
        return f'#!/bin/sh\necho "{name} $deploy_action" >>{self.log}\n{then}\n'

    @property
    def until_go(self) -> str:
        """The part of a script that waits for `go`."""
        return f"while ! [ -e {self.go} ]; do sleep 0.02; done\n"

    def template(self, *servers: str, then: str = "", **more: Any) -> Path:
        """Write a template with a server of each name and a script for it, named `SERVER_run`."""
        resources: dict[str, Any] = {}
        for server in servers:
            resources[server] = {
                "type": "OS::Nova::Server",
                "properties": {"image": "x", "flavor": "y"},
            }
            resources |= self.deployment(server, then)
        resources |= more.pop("resources", {})
        content = {"heat_template_version": "2018-08-31", "resources": resources}
        return self.machine.write({**content, **more}, "t.yaml")

    def deployment(self, server: str, then: str = "", **values: Any) -> dict[str, Any]:
        """Return the script of a server, and its deployment, with an output `out`."""
        name = f"{server}_run"
        config = {
            "group": "script",
            "config": self.script(name, then),
            "inputs": [{"name": each} for each in values],
            "outputs": [{"name": "out"}],
        }
        properties = {
            "config": {"get_resource": f"{name}_config"},
            "server": {"get_resource": server},
            "input_values": values,
            "actions": ["CREATE", "UPDATE", "DELETE"],
        }
        return {
            f"{name}_config": {
                "type": "OS::Heat::SoftwareConfig",
                "properties": config,
            },
            name: {"type": "OS::Heat::SoftwareDeployment", "properties": properties},
        }

    def apply(
        self, template: Path, hosts: Path | None, *more: str, seconds: float = 60
    ) -> Done:
        """Apply a template, with a hosts file."""
        words = ["--hosts", str(hosts)] if hosts is not None else []
        return self.machine.apply(template, *words, *more, seconds=seconds)

    def stack(self, *words: str) -> Done:
        """Run a command about stacks."""
        first, *rest = words
        place = ["--state-dir", str(self.machine.state)]
        return self.machine.command(
            "heat-config-agent", ["stack", first, *place, *rest], {}
        )

    def output(self, name: str = "out") -> Any:
        """Return the value of an output of the stack `t`."""
        return json.loads(self.stack("output", "show", "t", name, "--json").out)[
            "data"
        ]["output_value"]


class SshHosts(Hosts):
    """Hosts that a real sshd on loopback is, one for each, with the real client."""

    def __init__(self, machine: Machine, *names: str) -> None:
        server = tools.need("sshd", "openssh-server")
        tools.need("ssh", "openssh-client")
        super().__init__(machine, *names)
        (self.folder / "bin" / "ssh").unlink()
        for key in ("host", "other", "user"):
            words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key]
            subprocess.run(words, cwd=self.folder, check=True)
        shutil.copy(self.folder / "user.pub", self.folder / "authorized")
        if os.geteuid() == 0:  # of sshd itself, whose package makes it at the boot
            Path("/run/sshd").mkdir(exist_ok=True)
        self.ports = {name: ports.reserved() for name in names}
        self.client = self.folder / "ssh_config"
        self.trust("host")
        self.client.write_text(
            f'IdentityFile "{self.folder}/user"\nIdentitiesOnly yes\nUserKnownHostsFile "{self.folder}/known_hosts"\n'
            "GlobalKnownHostsFile /dev/null\nStrictHostKeyChecking yes\n"
        )
        self.servers: dict[str, origins.Programs] = {}
        for name, port in self.ports.items():
            settings = self.folder / f"sshd_config.{name}"
            settings.write_text(
                f"ListenAddress 127.0.0.1:{port}\nHostKey {self.folder}/host\nPidFile {self.folder}/{name}.sshd\n"
                f"AuthorizedKeysFile {self.folder}/authorized\nStrictModes no\nUsePAM no\nPermitRootLogin yes\n"
                "PasswordAuthentication no\n"
            )
            self.servers[name] = programs = origins.Programs(
                self.folder / f"sshd.{name}"
            )
            programs.commands = [([server, "-D", "-e", "-f", str(settings)], port)]

    def trust(self, key: str) -> None:
        """Have the client expect a key of all hosts."""
        public = (self.folder / f"{key}.pub").read_text()
        lines = [f"[127.0.0.1]:{port} {public}" for port in self.ports.values()]
        (self.folder / "known_hosts").write_text("".join(lines))

    def values(self, name: str, **more: Any) -> dict[str, Any]:
        """Return the host of that name as the hosts file has it."""
        more = {"port": self.ports[name], "ssh_config": str(self.client), **more}
        return super().values(name, **{"address": "127.0.0.1", **more})

    def clients(self, parent: int) -> list[psutil.Process]:
        """Return the ssh clients of a command."""
        with contextlib.suppress(psutil.NoSuchProcess):
            children = psutil.Process(parent).children()
            return [each for each in children if "ssh" in endings.words(each)[:1]]
        return []

    def remote_ends(self) -> list[psutil.Process]:
        """Return the sessions of the agent on all hosts."""
        found = []
        for each in psutil.process_iter():
            words = endings.words(each)
            if "session" in words and any(
                str(self.machine.state) in word for word in words
            ):
                found.append(each)
        return found


@contextlib.contextmanager
def by_ssh(machine: Machine, *names: str) -> Iterator[SshHosts]:
    """Yield hosts whose servers run while the context lasts."""
    hosts = SshHosts(machine, *names)
    try:
        for each in hosts.servers.values():
            each.start()
        yield hosts
    finally:
        for each in hosts.servers.values():
            each.stop()
