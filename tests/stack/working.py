"""A stack in a folder, opened and closed as a command does it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from heat_config_agent.engine.events import Report
from heat_config_agent.model.positions import Json
from heat_config_agent.settings import effective
from heat_config_stack.definition import Definition, Loader
from heat_config_stack.lifecycle.live import Stack
from heat_config_stack.lifecycle.machine import ThisMachine
from heat_config_stack.lifecycle.session import Session
from heat_config_stack.resource.types import Types
from heat_config_stack.resource_types import known_types
from stack import made


class Working:
    """A stack that is worked on, now by one process and then by another."""

    def __init__(
        self, folder: Path, types: Types | None = None, load: Loader = made.load
    ) -> None:
        self.folder, self.types, self.load = folder, types or known_types(), load
        self.stack = folder / "stacks" / "s"
        self._open: tuple[Session, ThisMachine] | None = None
        self.events: list[dict[str, Any]] = []
        self.server = ""

    @property
    def session(self) -> Session:
        """Return the session, which is opened if need be."""
        if self._open is None:
            given = effective.make(
                {"PATH": os.environ["PATH"], "HOME": str(self.folder)},
                state=self.folder,
            )
            machine = ThisMachine(self.stack, given, Report())
            try:
                opened = Session(
                    self.stack,
                    self.types,
                    machine,
                    self.load,
                    happened=self.events.append,
                )
            except BaseException:
                machine.close()
                raise
            opened.world.server = self.server
            self._open = opened, machine
        return self._open[0]

    @property
    def root(self) -> Stack:
        """Return the stack."""
        assert self.session.root is not None
        return self.session.root

    def close(self) -> None:
        """End the process, as it were."""
        if self._open is not None:
            self._open[0].close()
            self._open[1].close()
            self._open = None

    def state(self) -> tuple[str, str]:
        """Return the stack's action and status."""
        return self.root.record.action, self.root.record.status

    def states(self) -> dict[str, str]:
        """Return the state of each resource."""
        return {
            name: "_".join(each.state) for name, each in self.root.resources.items()
        }

    def again(self, source: Json) -> Definition:
        """Return another definition for the stack that is there."""
        return self.load(source, self.root.identity)
