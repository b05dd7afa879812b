"""Two ways to have a hook of ours carry out a deployment: by `heat-config-apply`, and alone, as others call it."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from support import loaded, schemas
from support.loopback import SignalServer
from support.machine import BIN, Machine


class Driver(ABC):
    """Carries out deployments, one after the other, on one machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment: dict[str, str] = {}
        """Variables beside the usual ones, for whoever carries out."""

    @abstractmethod
    def run(
        self, deployment: dict[str, Any], *, seconds: float = 110
    ) -> dict[str, Any]:
        """Carry out a deployment, whose id has to be new, and return its result as the server gets it."""

    @abstractmethod
    def working(self, tool: str) -> Path:
        """Return the folder in which the hook of a tool works."""


class Applied(Driver):
    """By the agent: `heat-config-apply` on a document with just that deployment."""

    def __init__(self, folder: Path, machine: Machine, heat: SignalServer) -> None:
        super().__init__(folder)
        self.machine = machine
        self._heat = heat

    def run(
        self, deployment: dict[str, Any], *, seconds: float = 110
    ) -> dict[str, Any]:
        signal = [
            {"name": "deploy_signal_id", "type": "String", "value": self._heat.url()},
            {"name": "deploy_signal_verb", "type": "String", "value": "POST"},
        ]
        before = len(self._heat.values())
        document = [{**deployment, "inputs": [*deployment["inputs"], *signal]}]
        done = self.machine.apply(document, seconds=seconds, **self.environment)
        values = self._heat.values()[before:]
        assert len(values) == 1, done.out + done.err
        assert done.code == (1 if int(values[0]["deploy_status_code"]) else 0), (
            done.out + done.err
        )
        return values[0]

    def working(self, tool: str) -> Path:
        return self.machine.state / f"heat-config-{tool}"


class Alone(Driver):
    """By itself: a link in a hook directory of heat-agents, which is given the deployment and prints its reply."""

    def run(
        self, deployment: dict[str, Any], *, seconds: float = 110
    ) -> dict[str, Any]:
        tool = deployment["group"]
        link = self.folder / "hook-directory" / tool
        link.parent.mkdir(exist_ok=True)
        if not link.is_symlink():
            link.symlink_to(BIN / "heat-config-hook")
        variable = "HEAT_" + tool.upper().replace("-", "_")
        environment = {
            "PATH": Machine(self.folder).environment["PATH"],
            "HOME": str(self.folder),
            f"{variable}_WORKING": str(self.working(tool)),
            f"{variable}_OUTPUTS": str(self.folder / "outputs" / tool),
            **loaded.STARTED,
            **self.environment,
        }
        done = loaded.hook(
            link,
            json.dumps(deployment),
            environment,
            folder=self.folder,
            seconds=seconds,
        )
        assert done.returncode == 0, done.stderr
        values = json.loads(done.stdout)
        assert isinstance(values, dict)
        assert schemas.wrong("result", values) == []
        return values

    def working(self, tool: str) -> Path:
        return self.folder / "working" / tool
