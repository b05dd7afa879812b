from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from system.agents import Agents
from system.openstack import TRANSPORTS, Lab, Stack

TEMPLATE = Path(__file__).with_name("lifecycle.yaml").read_text()

WAYS = {
    **{transport: (transport, signal, transport, signal) for transport, signal in TRANSPORTS.items()},
    "a mix": ("POLL_SERVER_CFN", "TEMP_URL_SIGNAL", "POLL_SERVER_HEAT", "CFN_SIGNAL"),
}
"""The transport and the signal of the first server, and those of the other one."""


class Life:
    """A stack with two servers, an agent for each, over one of the ways."""

    def __init__(self, cloud: Lab, agents: Agents, folder: Path, way: str) -> None:
        """Have it created, for who is "world"."""
        folder.mkdir()
        self._cloud = cloud
        self._agents = agents
        self._folder = folder
        self._way = way
        self._template = TEMPLATE.replace("FOLDER", str(folder))
        self.name = cloud.name("life")
        cloud.stack_create(self.name, self._template, self._words("world"))

    def boot(self) -> None:
        """Start the agents."""
        for server in ("one", "two"):
            self._agents.start(f"{self._folder.name}/{server}", self._cloud.settings(self.name, server))

    def update(self, who: str) -> None:
        self._cloud.stack_update(self.name, self._template, self._words(who))

    def wait(self, status: str) -> Stack:
        """Wait for the stack's status."""
        try:
            return self._cloud.wait(self.name, status)
        except AssertionError as error:
            pytest.fail(f"{self._way}: {error}\n{self._agents.logs}")

    def ran(self) -> Counter[str]:
        """Return what ran since this was asked before: how often each."""
        path = self._folder / "ran"
        lines = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return Counter(lines)

    @property
    def written(self) -> object:
        """What json-file has written."""
        path = self._folder / "written.json"
        return json.loads(path.read_text()) if path.exists() else None

    def _words(self, who: str) -> dict[str, str]:
        names = ("transport", "signal", "other_transport", "other_signal")
        return {**dict(zip(names, WAYS[self._way], strict=True)), "who": who}


def test_a_life(cloud: Lab, agents: Agents, tmp_path: Path) -> None:
    """Over every way, every action of a stack with every kind of resource ends as it should, and runs things once."""
    import time
    t0 = time.time()
    lives = {way: Life(cloud, agents, tmp_path / str(number), way) for number, way in enumerate(WAYS) if way in ("POLL_SERVER_HEAT", "ZAQAR_MESSAGE")}
    for life in lives.values():
        life.boot()
    print("booted", time.time()-t0)
    for way, life in lives.items():
        stack = life.wait("CREATE_COMPLETE")
        print("created", time.time()-t0)
        print(stack.outputs)
        print(life.ran(), life.written)
    for way, life in lives.items():
        life.update("moon")
    for way, life in lives.items():
        stack = life.wait("UPDATE_COMPLETE")
        print("updated", time.time()-t0)
        print(stack.outputs)
        print(life.ran(), life.written)
    for action in ("suspend", "resume", "delete"):
        for life in lives.values():
            getattr(cloud, f"stack_{action}")(life.name)
        for life in lives.values():
            life.wait(f"{action.upper()}_COMPLETE")
            print(action, time.time()-t0)
            print(life.ran(), life.written)
    print(agents.logs)
