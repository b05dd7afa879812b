"""Stacks as commands open them: to look at, which disturbs nobody, or to work on, which one at a time may."""

from __future__ import annotations

import contextlib
import functools
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from heat_config_agent import lock
from heat_config_agent.cli import terminal
from heat_config_agent.cli.stack.shown import Shown, Told
from heat_config_agent.errors import AgentError, UsageError
from heat_config_agent.hot.loading import load
from heat_config_agent.settings import Settings
from heat_config_agent.stack import listing, plugins
from heat_config_agent.stack.definition import Identity
from heat_config_agent.stack.live import Stack, World
from heat_config_agent.stack.machine import ThisMachine
from heat_config_agent.stack.records import DeploymentRecord
from heat_config_agent.stack.session import Session
from heat_config_agent.stack.store import FILE, Store
from heat_config_agent.stack.types import Types


class _Nobody:
    """Servers of a stack that is only looked at."""

    def deliver(self, deployment: DeploymentRecord) -> None:
        raise AssertionError(deployment)

    def withdraw(self, deployment: DeploymentRecord) -> None:
        raise AssertionError(deployment)


class _Watched:
    """This machine as the servers of a stack, for somebody who watches."""

    def __init__(self, machine: ThisMachine, shown: Shown, minutes: float | None) -> None:
        self._machine, self._shown = machine, shown
        self._end = time.monotonic() + minutes * 60 if minutes else None

    def deliver(self, deployment: DeploymentRecord) -> None:
        self._machine.deliver(deployment)

    def withdraw(self, deployment: DeploymentRecord) -> None:
        self._machine.withdraw(deployment)

    @property
    def busy(self) -> bool:
        return self._machine.busy

    def work(self, world: World, timeout: float | None, also: Sequence[int]) -> None:
        if self._end is not None and time.monotonic() > self._end:
            raise AgentError(
                "the time is over that --timeout gives; what is running goes on", hint="run the command again to go on"
            )
        self._machine.work(world, min(self._shown.interval, 60.0 if timeout is None else timeout), also)
        self._shown.refresh()


@functools.cache
def types(directories: tuple[str, ...]) -> Types:
    """Return the types that there are, those of plug-ins among them; say which of these are not used, and why."""
    found = plugins.load(map(Path, directories))
    for each in found.disabled:
        terminal.say(f"warning: {terminal.line(each)}", error=True)
    return Types(found.types)


def there(given: Settings, name: str) -> bool:
    """Whether there is a stack of that name. Raises UsageError."""
    return (listing.folder(given.state, name) / FILE).exists()


def look(given: Settings, name: str) -> Stack:
    """Return a stack as it is kept, also while another process works on it. Raises UsageError, StateError."""
    store = Store(listing.folder(given.state, name), write=False)
    record = next((each for each in store.stacks.values() if not each.owner), None)
    if record is None:
        raise UsageError(f"there is no stack {name}", hint=f"`{given.command('stack', 'list')}` shows them all")
    identity = Identity(record.name, record.id, record.project)
    definition = load(record.source, identity) if record.source else None
    return Stack(World(store, types(given.words("plugin_dirs")), _Nobody()), record, definition)


@contextlib.contextmanager
def work(
    given: Settings, name: str, shown: Shown, *, server: str = "", minutes: float | None = None
) -> Iterator[Session]:
    """Open a stack, or one that is yet to be made, and close it. Raises LockedError, StateError, UsageError."""
    folder = listing.folder(given.state, name)
    known = types(given.words("plugin_dirs"))
    with contextlib.ExitStack() as ending:
        machine = ThisMachine(folder, given, Told(shown), server=server)
        ending.callback(_forget, folder)
        ending.callback(machine.close)
        watched = _Watched(machine, shown, minutes)
        with contextlib.closing(Session(folder, known, watched, load, happened=shown.happened)) as session:
            try:
                yield session
            finally:
                shown.clear()


def _forget(folder: Path) -> None:
    """Remove what runs have left of a stack that is not there any more, or never was."""
    if (folder / FILE).exists():
        return
    with lock.held(folder):
        if not (folder / FILE).exists():
            shutil.rmtree(folder)
