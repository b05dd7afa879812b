"""Daemons that poll: the agent and os-collect-config, with their time compressed, and what they take."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.heat import Heat
from bench.scenario import Sample

INTERVAL, LEAST = 30.0, 1.0
"""Seconds between two polls at most, and at least: what both have where nobody sets them."""

_COMPRESSED = """if True:
    import sys
    from heat_config_agent.daemon import agent, status
    from heat_config_agent.sources import schedule, active
    from heat_config_agent.cli import main
    by = float(sys.argv[1])
    agent.LOOK_INTERVAL /= by
    status.INTERVAL /= by
    status.LEAST_INTERVAL /= by
    active.LEAST = schedule.PAUSE = 0.0
    sys.argv = ["heat-config-agent", *sys.argv[2:]]
    sys.exit(main.agent())
"""


@dataclass(frozen=True)
class Used:
    """The resources that a process has used so far."""

    cpu: float
    """Seconds, of user and system."""
    resident: int
    """Bytes of memory."""
    anonymous: int
    """Bytes of it that are not of programs and libraries on disk, of which more is resident once it was used."""


class Daemon:
    """A process that polls. It is stopped whenever it is not measured, so that another can be beside it."""

    def __init__(
        self, argv: Sequence[str | Path], environment: Mapping[str, str], folder: Path
    ) -> None:
        """Start it, in a folder in which it may leave what it says."""
        self.log = folder / "log"
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                argv,
                env=dict(environment),
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    def used(self) -> Used:
        """Return what it has used, all its threads together; nothing of what those that it started have."""
        tasks = Path(f"/proc/{self.pid}/task")
        spent = sum(
            int((each / "schedstat").read_text().split()[0]) for each in tasks.iterdir()
        )
        lines = Path(f"/proc/{self.pid}/smaps_rollup").read_text().splitlines()[1:]
        memory = {
            name: int(rest.split()[0]) * 1024
            for name, _, rest in (line.partition(":") for line in lines)
        }
        return Used(spent / 1e9, memory["Rss"], memory["Anonymous"])

    @contextlib.contextmanager
    def going(self) -> Iterator[None]:
        """Let it go on for a while."""
        os.kill(self.pid, signal.SIGCONT)
        try:
            yield
        finally:
            os.kill(self.pid, signal.SIGSTOP)

    def said(self, words: str) -> int:
        """Return how often it has said something."""
        return self.log.read_text().count(words)

    def check(self) -> None:
        """Raise AssertionError if it has ended."""
        assert self._process.poll() is None, self.log.read_text()[-2000:]

    def close(self) -> None:
        """End it."""
        if self._process.poll() is None:
            os.kill(self.pid, signal.SIGCONT)
            self._process.kill()
        self._process.wait()


def ours(
    folder: Path,
    heat: Heat,
    compressed: float,
    transports: Sequence[str],
    **settings: object,
) -> tuple[str | Path, ...]:
    """Return the command of the agent that polls over some transports, with its time compressed so many times."""
    general = {
        "state_dir": folder / "state",
        "collectors": " ".join(transports),
        "polling_interval": INTERVAL / compressed,
        "min_polling_interval": LEAST / compressed,
        "splay": 0,
        **settings,
    }
    lines = ["[agent]", *(f"{name} = {value}" for name, value in general.items())]
    for each in transports:
        lines += [
            f"[{each}]",
            *(f"{name} = {value}" for name, value in heat.sections()[each].items()),
        ]
    path = folder / "agent.conf"
    path.write_text("\n".join(lines) + "\n")
    return (sys.executable, "-c", _COMPRESSED, str(compressed), "run", "--config", path)


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of an agent that keeps all below a folder."""
    kept = {"DEPLOYED": "deployed", "DEPLOYED_OLD": "deployed.old"}
    places = {
        f"HEAT_CONFIG_{name}": str(folder / place) for name, place in kept.items()
    }
    places |= {
        f"HEAT_SCRIPT_{name}": str(folder / name.lower())
        for name in ("WORKING", "OUTPUTS")
    }
    return {"PATH": os.defpath, "HOME": str(folder), "LANG": "C.UTF-8", **places}


def wait(condition: Callable[[], bool], daemon: Daemon, seconds: float = 60.0) -> None:
    """Wait until something is so. Raises AssertionError if that takes longer, or the daemon ends before."""
    deadline = time.monotonic() + seconds
    while not condition():
        daemon.check()
        assert time.monotonic() < deadline, (
            f"it does not come: {daemon.log.read_text()[-2000:]}"
        )
        time.sleep(0.005)


def polled(polls: int, heat: Heat, kind: str, daemon: Daemon) -> None:
    """Wait until the daemon has asked so many times."""
    begun = heat.counts()[kind]
    wait(lambda: heat.counts()[kind] >= begun + polls, daemon)


def measured(polls: int, heat: Heat, kind: str, daemon: Daemon) -> Sample:
    """Let the daemon ask so many times, and return what each poll took."""
    with daemon.going():
        # what has become due since it was stopped is done
        polled(2, heat, kind, daemon)
        before, counted = daemon.used(), heat.counts()
        polled(polls, heat, kind, daemon)
        after, count = daemon.used(), heat.counts()
    number = count[kind] - counted[kind]
    return {
        "cpu": (after.cpu - before.cpu) / number,
        "requests": (count.total() - counted.total()) / number,
        "resident": after.resident,
    }
