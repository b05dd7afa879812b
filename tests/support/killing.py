"""Kills with `kill -9`: of an agent, of a run, or of all processes of a machine."""

from __future__ import annotations

import collections
import functools
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psutil

from support import endings
from support.loopback import wait_until
from support.machine import Machine

AGENT, MACHINE, EVERYTHING = "the agent", "the machine", "everything"
"""Victims; others are a supervisor, a tool, or a whole run, alone or together with the agent: `the agent and a run`."""

INIT = "import signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); print(flush=True); sys.stdin.read()"


class Boot:
    """A boot of a machine: a process id namespace with an init, with which all that runs in it ends."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._process = subprocess.Popen(
            [
                "unshare",
                "--pid",
                "--fork",
                "--kill-child",
                "--mount-proc",
                sys.executable,
                "-c",
                INIT,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        try:
            assert self._process.stdout
            assert self._process.stdout.readline() == b"\n"
            [self._init] = psutil.Process(self._process.pid).children()
        except BaseException:
            endings.end(self._process)
            raise
        self.before = (
            "nsenter",
            "--target",
            str(self._init.pid),
            "--pid",
            "--mount",
            "--",
        )

    @staticmethod
    @functools.cache
    def trouble() -> str:
        """Return why there can be none; empty where there can be."""
        command = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "true"]
        try:
            done = subprocess.run(command, capture_output=True, check=False)
        except FileNotFoundError:
            return "unshare is missing: install util-linux"
        return (
            "namespaces are not allowed: run the tests as root"
            if done.returncode
            else ""
        )

    def end(self) -> None:
        """Take the machine down: nothing of it runs any more when this returns."""
        endings.kill(self._init)
        endings.end(self._process)

    def again(self) -> None:
        """Take the machine down, and boot it."""
        self.end()
        self._begin()


@dataclass(frozen=True)
class Running:
    """A run that goes on."""

    id: str
    supervisor: psutil.Process
    others: tuple[psutil.Process, ...]

    def kill(self, victim: str) -> bool:
        """Kill its supervisor, its tool, or, for any other word, both; return whether anything was still there.

        The word is that of who tells it: it ends in `supervisor` or in `tool`.
        """
        targets = () if victim.endswith("supervisor") else self.others
        return endings.kill(
            *targets if victim.endswith("tool") else (self.supervisor, *targets)
        )


def runs(machine: Machine) -> list[Running]:
    """Return the runs that go on on a machine."""
    children: dict[str, list[psutil.Process]] = collections.defaultdict(list)
    supervisors: dict[str, psutil.Process] = {}
    for process in machine.processes():
        try:
            mark, words = process.environ().get("HEAT_RUN", ""), process.cmdline()
        except psutil.NoSuchProcess:
            continue
        if words[1:2] == ["-c"] and words[3:4] == ["heat-config-agent"]:
            supervisors[mark] = process
        elif mark:
            children[mark].append(process)
    made = [
        Running(mark.rpartition(".")[0], process, tuple(children[mark]))
        for mark, process in supervisors.items()
    ]
    return sorted(made, key=lambda run: run.id)


def kill_agent(agent: subprocess.Popen[bytes], boot: Boot | None = None) -> bool:
    """Kill an agent, which works in a boot if there is one; return whether it was still there."""
    hit = agent.poll() is None
    endings.kill(*inner(agent, boot, hold=True))
    agent.kill()
    agent.wait()
    return hit


def strike(
    victim: str,
    which: float,
    machine: Machine,
    agent: subprocess.Popen[bytes],
    boot: Boot | None = None,
) -> tuple[bool, list[str]]:
    """Kill a victim while an agent works; return whether any of it was still there, and the ids of the runs killed.

    `which`, from 0 to 1, chooses the run, and whether an agent that is killed too is killed before the run or after it.
    """
    if victim == MACHINE:
        assert boot
        hit = agent.poll() is None
        boot.again()
        agent.wait()
        return hit, []
    fatal = is_fatal(victim)
    hit = fatal and which < 0.5 and kill_agent(agent, boot)
    running = [] if victim == AGENT else runs(machine)
    first = int(which * len(running))
    chosen = running if victim == EVERYTHING else running[first : first + 1]
    killed = [each.id for each in chosen if each.kill(victim)]
    if fatal:
        hit = kill_agent(agent, boot) or hit
    return hit or bool(killed), killed


def is_fatal(victim: str) -> bool:
    """Return whether the agent is killed together with a victim."""
    return victim in (MACHINE, EVERYTHING) or victim.startswith(AGENT)


def ends_within(agent: subprocess.Popen[Any], seconds: float) -> bool:
    """Wait for a moment; return whether an agent has ended by itself before it."""
    try:
        agent.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def wait_for_a_run(
    runs_now: Callable[[], object], agent: subprocess.Popen[Any], seconds: float
) -> None:
    """Wait a while for something to kill, as long as an agent works."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and agent.poll() is None and not runs_now():
        time.sleep(0.02)


def inner(
    agent: subprocess.Popen[bytes], boot: Boot | None = None, *, hold: bool = False
) -> list[psutil.Process]:
    """Return the agent itself, which nsenter has started in a boot; with `hold`, nsenter starts nothing after this."""
    try:
        outer = psutil.Process(agent.pid)
        if not boot:
            return [outer]
        if hold:
            outer.suspend()
            wait_until(
                lambda: outer.status() in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE)
            )
        return outer.children()
    except psutil.NoSuchProcess:
        return []
