"""The daemon on the instance of a server resource: a process that begins with what cloud-init would have left there."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from support import pace, planted
from support.machine import BIN, Machine

SOURCES = "heat_local, heat, cfn, request, zaqar"
"""All but those that would look for a cloud's own services, beyond loopback."""


class Agent:
    """One daemon, with a folder of its own. Its log goes on when it is started again."""

    def __init__(
        self,
        folder: Path,
        first: Mapping[str, object],
        proxy: str = "",
        **settings: object,
    ) -> None:
        """Install it where `first` is the server's first metadata, with these settings of its own, and start it.

        It goes through an HTTP proxy where one is named.
        """
        self._proxy = {"http_proxy": proxy} if proxy else {}
        self.folder = folder
        folder.mkdir(parents=True)
        self.state = folder / "state"
        self.state.mkdir(0o700)
        self.learned_file = self.state / "learned.json"
        self.boot = folder / "cfn-init-data"
        self.boot.write_text(json.dumps(first))
        self.boot.chmod(0o600)
        usual = {
            "splay": 0,
            "polling_interval": 1,
            "min_polling_interval": 0.4,
            "collect_timeout": 30,
        }
        own = {
            "state_dir": self.state,
            "collectors": SOURCES,
            "environment": f"AGENT={folder.name}",
        }
        agent = "".join(
            f"{name} = {value}\n"
            for name, value in {**usual, **own, **settings}.items()
        )
        self._config = folder / "agent.conf"
        self._config.write_text(f"[agent]\n{agent}\n[heat_local]\npath = {self.boot}\n")
        self._log = folder / "log"
        self._since = planted.now()
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Start it, as after a boot."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [BIN / "heat-config-agent", "run", "--config", self._config],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={
                    "PATH": os.environ["PATH"],
                    "HOME": str(self.folder),
                    "LANG": "C.UTF-8",
                    "TZ": "UTC",
                    **self._proxy,
                },
                cwd=self.folder,
                start_new_session=True,
            )

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """Kill it. What it runs goes on."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """End it as systemd would."""
        assert self._process is not None
        assert self._process.poll() is None, (
            f"{self.folder.name} has ended by itself:\n{self.log}"
        )
        self._process.terminate()
        assert self._process.wait(pace.seconds(20)) == 0, self.log

    @property
    def log(self) -> str:
        """Return the output of the agent."""
        return self._log.read_text()

    @property
    def learned(self) -> dict[str, Any]:
        """Return the settings that it learned from the metadata."""
        path = self.learned_file
        found = (
            json.loads(path.read_text())["os-collect-config"] if path.exists() else {}
        )
        assert isinstance(found, dict)
        return found

    @property
    def sources(self) -> dict[str, bool | None]:
        """The sources that it uses, and whether they work."""
        sources = self._health().get("sources", [])
        return {each["name"]: each["working"] for each in sources if not each["seldom"]}

    @property
    def records(self) -> dict[str, dict[str, Any]]:
        """Return the entries by id."""
        machine = Machine(self.folder)
        machine.state = self.state
        return machine.status()

    def end(self) -> None:
        """End it, and all that it has started."""
        if self._process and self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        machine = Machine(self.folder)
        machine.state = self.state
        machine.end()

    def leaks(self) -> list[str]:
        """Return which of the credentials that Heat has given it can be seen by others."""
        given = planted.credentials(self.state, json.loads(self.boot.read_bytes()))
        assert given, "Heat has given it none that are known as such"
        machine = Machine(self.folder)
        machine.state, machine.config, machine.since = (
            self.state,
            self._config,
            self._since,
        )
        machine.logs.append(self._log)
        return planted.shown(machine, planted.pattern(*given))

    def _health(self) -> dict[str, Any]:
        path = self.state / "health.json"
        found = json.loads(path.read_text()) if path.exists() else {}
        assert isinstance(found, dict)
        return found


class Agents:
    """The agents of a test."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._all: list[Agent] = []

    def start(
        self,
        name: str,
        first: Mapping[str, object],
        proxy: str = "",
        **settings: object,
    ) -> Agent:
        """Start one, which goes through an HTTP proxy where one is named."""
        agent = Agent(self._folder / name, first, proxy, **settings)
        self._all.append(agent)
        return agent

    @property
    def logs(self) -> str:
        """Return the output of all agents, for the messages of failed assertions."""
        return "\n".join(f"--- {each.folder.name}\n{each.log}" for each in self._all)

    def close(self) -> None:
        """End them, and all that they have started. None may have shown what Heat has given it."""
        for each in self._all:
            each.end()
        leaks = [leak for each in self._all for leak in each.leaks()]
        assert not leaks, "\n".join(leaks)


def eventually(
    true: Callable[[], object], what: Callable[[], str] | str = "", seconds: float = 60
) -> None:
    """Wait until something is true."""
    deadline = time.monotonic() + pace.seconds(seconds)
    while not true():
        assert time.monotonic() < deadline, what() if callable(what) else what
        time.sleep(0.2)
