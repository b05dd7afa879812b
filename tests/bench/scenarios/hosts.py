"""Several hosts by ssh: small scripts on all of them, by a template with a hosts file and by a playbook of Ansible."""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import below
from bench.scenario import OURS, Figure, Goal, LackingError, Sample, Scenario, Subject

PLAYBOOK = "ansible-playbook"
IN_ORDER = "in the order of the playbook"

HOSTS, SCRIPTS = 10, 10
"""The number of hosts, and of scripts on each."""

_SECONDS = 10.0
"""For how long a server has to begin to listen."""


class Hosts:
    """Hosts that are this machine, each with an sshd on a port of its own, and the client's settings."""

    def __init__(self, folder: Path, short: Path, number: int) -> None:
        """Write the settings into the folder; `short` is one for sockets, whose paths are short."""
        self.folder, self.short = folder, short
        self.names = [f"host{place}" for place in range(number)]
        self.config = folder / "ssh_config"
        self.environment = {
            "PATH": f"{Path(sys.executable).parent}:{os.defpath}",
            "HOME": str(folder),
            "LANG": "C.UTF-8",
        }
        for key in ("host", "user"):
            words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key]
            subprocess.run(words, cwd=folder, check=True)
        lines = ["Host *", "  HostName 127.0.0.1", f'  IdentityFile "{folder}/user"']
        lines += ["  IdentitiesOnly yes", "  StrictHostKeyChecking accept-new"]
        lines += [f'  UserKnownHostsFile "{folder}/known_hosts"', "  LogLevel ERROR"]
        self._ports = {name: _free() for name in self.names}
        for name, port in self._ports.items():
            lines += [f"Host {name}", f"  Port {port}"]
            (folder / f"{name}.sshd").write_text(
                f'ListenAddress 127.0.0.1:{port}\nHostKey "{folder}/host"\n'
                f'AuthorizedKeysFile "{folder}/user.pub"\nPidFile none\n'
                "StrictModes no\nUsePAM no\nPermitRootLogin yes\n"
            )
        self.config.write_text("\n".join([*lines, ""]))
        self.servers: list[subprocess.Popen[bytes]] = []

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Have the servers run. A first login on each notes its key."""
        program = _sshd()
        try:
            for name, port in self._ports.items():
                words = [program, "-D", "-f", str(self.folder / f"{name}.sshd")]
                quiet = subprocess.DEVNULL
                self.servers.append(
                    subprocess.Popen(words, stdin=quiet, stdout=quiet, stderr=quiet)
                )
                _await(port)
                words = ["ssh", "-F", str(self.config), "-o", "BatchMode=yes"]
                subprocess.run([*words, name, "true"], check=True)
            yield
        finally:
            for each in self.servers:
                each.kill()
                each.wait()
            below.end()  # of an interrupted command

    def took(
        self, words: Sequence[str | Path], more: Mapping[str, str] | None = None
    ) -> Sample:
        """Run a command, and return what it took with all that was done for it, also on the hosts."""
        pids = [each.pid for each in self.servers]
        below.settle(pids, "ssh")
        before, begun = below.spent(pids), time.perf_counter()
        done = subprocess.run(
            [str(word) for word in words],
            env={**self.environment, **(more or {})},
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        wall = time.perf_counter() - begun
        assert done.returncode == 0, done.stdout[-2000:]
        below.settle(pids, "ssh")
        return {"wall": wall, "cpu": below.spent(pids) - before}


def _free() -> int:
    """Return a port on which nobody listens."""
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        return int(place.getsockname()[1])


def _await(port: int) -> None:
    """Wait until somebody listens on a port."""
    end = time.monotonic() + _SECONDS
    while True:
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", port), 1),
        ):
            return
        assert time.monotonic() < end, f"no sshd listens on port {port}"
        time.sleep(0.02)


class Work:
    """The scripts of all hosts, as a template and as a playbook: each leaves a file in a folder of its own."""

    def __init__(self, hosts: Hosts, scripts: int, name: str) -> None:
        """Write both into a new folder of that name."""
        self._hosts, self._scripts = hosts, scripts
        self.folder = hosts.folder / name
        self.done = self.folder / "done"
        self.done.mkdir(parents=True)

    @property
    def missing(self) -> int:
        """The number of scripts that have not run."""
        return len(self._hosts.names) * self._scripts - len(list(self.done.iterdir()))

    def by_ours(self, *, in_order: bool) -> Callable[[], Sample]:
        """Return what applies the template."""
        resources: dict[str, Any] = {}
        for host in self._hosts.names:
            resources[host] = {
                "type": "OS::Nova::Server",
                "properties": {"image": "any", "flavor": "any"},
            }
            for number in range(self._scripts):
                resources |= self._deployment(host, number, in_order=in_order)
        template = {
            "heat_template_version": "2018-08-31",
            "resources": resources,
        }
        (self.folder / "site.yaml").write_text(json.dumps(template))
        agent = Path(sys.executable).with_name("heat-config-agent")
        hosts = {
            name: {
                "address": name,
                "ssh_config": str(self._hosts.config),
                "command": shlex.quote(str(agent)),
                "state_dir": str(self.folder / name),
            }
            for name in self._hosts.names
        }
        (self.folder / "hosts.yaml").write_text(json.dumps(hosts))
        return functools.partial(
            self._hosts.took,
            [
                agent.with_name("heat-config-apply"),
                "--state-dir",
                self.folder / "state",
                "--hosts",
                self.folder / "hosts.yaml",
                self.folder / "site.yaml",
            ],
        )

    def _deployment(self, host: str, number: int, *, in_order: bool) -> dict[str, Any]:
        name = f"{host}-{number}"
        config = {
            "group": "script",
            "config": f"#!/bin/sh\necho done >{self.done}/{name}\n",
        }
        deployment: dict[str, Any] = {
            "type": "OS::Heat::SoftwareDeployment",
            "properties": {
                "config": {"get_resource": f"{name}-config"},
                "server": {"get_resource": host},
            },
        }
        if in_order and number:
            deployment["depends_on"] = f"{host}-{number - 1}"
        return {
            f"{name}-config": {
                "type": "OS::Heat::SoftwareConfig",
                "properties": config,
            },
            name: deployment,
        }

    def by_ansible(self) -> Callable[[], Sample]:
        """Return what runs the playbook, as quickly as Ansible can."""
        tasks = []
        for number in range(self._scripts):
            path = f"{self.done}/{{{{ inventory_hostname }}}}-{number}"
            command = {"cmd": f"echo done >{path}", "creates": path}
            tasks.append({"name": f"task {number}", "ansible.builtin.shell": command})
        play = {"hosts": "all", "gather_facts": False, "tasks": tasks}
        (self.folder / "site.yml").write_text(json.dumps([play]))
        (self.folder / "inventory").write_text("\n".join([*self._hosts.names, ""]))
        settings = {
            "ANSIBLE_PIPELINING": "1",
            "ANSIBLE_FORKS": str(len(self._hosts.names)),
            "ANSIBLE_SSH_ARGS": (
                f"-F {shlex.quote(str(self._hosts.config))} -o ControlMaster=auto -o ControlPersist=60s"
            ),
            "ANSIBLE_SSH_CONTROL_PATH_DIR": str(self._hosts.short),
            "ANSIBLE_PYTHON_INTERPRETER": sys.executable,
        }
        words: list[str | Path] = [
            PLAYBOOK,
            "-i",
            self.folder / "inventory",
            self.folder / "site.yml",
        ]
        return functools.partial(self._hosts.took, words, settings)


@contextlib.contextmanager
def subjects(
    folder: Path,
    *,
    hosts: int = HOSTS,
    scripts: int = SCRIPTS,
    unchanged: bool = False,
) -> Iterator[list[Subject]]:
    """Set up the hosts, and yield what is compared: on new hosts each time, or where all is done already."""
    below.adopt()
    with contextlib.ExitStack() as ending:
        short = Path(tempfile.mkdtemp(prefix="hosts-", dir="/tmp"))
        ending.callback(shutil.rmtree, short, ignore_errors=True)
        several = Hosts(folder, short, hosts)
        ending.enter_context(several.running())
        numbers = itertools.count()

        def made(kind: str) -> tuple[Work, Callable[[], Sample]]:
            work = Work(several, scripts, f"{kind}{next(numbers)}")
            if kind == "ansible":
                return work, work.by_ansible()
            return work, work.by_ours(in_order=kind == "order")

        def new(kind: str) -> Sample:
            work, run = made(kind)
            sample = run()
            assert not work.missing, f"{work.missing} scripts have not run"
            shutil.rmtree(work.folder)
            return sample

        kinds = {OURS: "ours", IN_ORDER: "order", PLAYBOOK: "ansible"}
        if not unchanged:
            yield [
                Subject(name, functools.partial(new, kind))
                for name, kind in kinds.items()
            ]
            return
        again: list[Subject] = []
        for name in (OURS, PLAYBOOK):
            _, run = made(kinds[name])
            run()  # the first one does all of it
            again.append(Subject(name, run))
        yield again


def _sshd() -> str:
    """Return the path of sshd, which has to be started with its whole path. Raises LackingError."""
    program = shutil.which("sshd", path=f"{os.defpath}:/usr/sbin:/sbin")
    if program is None:
        raise LackingError(
            "sshd is not installed; install it with «apt install openssh-server»"
        )
    return program


def needs() -> None:
    """Have both programs here. Raises LackingError."""
    _sshd()
    if shutil.which("ssh") is None:
        raise LackingError(
            "ssh is not installed; install it with «apt install openssh-client»"
        )
    if not Path(sys.executable).with_name(PLAYBOOK).exists():
        raise LackingError(f"{PLAYBOOK} is not installed: make test-all installs it")
    if os.geteuid() == 0:  # of sshd itself, whose package makes it at the boot
        Path("/run/sshd").mkdir(exist_ok=True)


_FIGURES = (Figure("wall", "wall time", "s"), Figure("cpu", "processor time", "s"))

_NOTE = """\
Each host is this machine, with a real sshd of its own. The processor time is that of all processes of both sides.
Ansible has pipelining, ControlPersist, as many forks as hosts, and no facts to gather; its connections are new in each
run, as after the minute for which they persist."""

SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        "hosts-new",
        f"{HOSTS} hosts by ssh have {SCRIPTS} small scripts each",
        _FIGURES,
        subjects,
        (Goal("cpu", PLAYBOOK, 1 / 10), Goal("wall", PLAYBOOK, 1 / 5)),
        rounds=3,
        seconds=150.0,
        warm_up=False,
        long=True,
        needs=needs,
        note=(
            f"{_NOTE} The scripts of a host do not depend on each other, so several run at once; «{IN_ORDER}» is the "
            "same with each after the one before it."
        ),
    ),
    Scenario(
        "hosts-unchanged",
        f"{HOSTS} hosts by ssh have {SCRIPTS} small scripts each, which have run already",
        _FIGURES,
        functools.partial(subjects, unchanged=True),
        (Goal("cpu", "", 0.4), Goal("cpu", PLAYBOOK, 1 / 10)),
        rounds=3,
        seconds=150.0,
        warm_up=False,
        long=True,
        needs=needs,
        note=f"{_NOTE} In the playbook, each script has the file that it `creates`.",
    ),
)
