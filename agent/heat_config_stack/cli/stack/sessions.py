"""Opening stacks: for reading, which disturbs nothing, or for work, which only one process may do at a time."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heat_config_agent.cli import terminal
from heat_config_agent.diagnostics.kinds import TOSCA
from heat_config_agent.diagnostics.words import meant
from heat_config_agent.model.entry import Entry
from heat_config_agent.model.errors import (
    AgentError,
    ExitCode,
    LockedError,
    NotFoundError,
    StateError,
)
from heat_config_agent.model.positions import Json
from heat_config_agent.settings.effective import Settings
from heat_config_agent.state import journal, lock, record_file
from heat_config_agent.state.records import Reader
from heat_config_hooks import processes
from heat_config_stack.cli.stack.live_view import Progress, View
from heat_config_stack.definition import Definition, Identity
from heat_config_stack.lifecycle import deployments
from heat_config_stack.lifecycle.live import Stack, World
from heat_config_stack.lifecycle.session import Session, damaged, definition_of
from heat_config_stack.records import listing, placing
from heat_config_stack.records.records import (
    ADOPT,
    CANCELLED,
    FAILED,
    DeploymentRecord,
    ResourceRecord,
    StackRecord,
)
from heat_config_stack.records.store import FILE, Store
from heat_config_stack.resource.types import Types
from heat_config_stack.resource_types import known_types

if TYPE_CHECKING:
    from heat_config_agent.verification.machine import Finding
    from heat_config_stack.hosts.fleet import Fleet
    from heat_config_stack.lifecycle.machine import ThisMachine
    from heat_config_stack.lifecycle.verification import Verification


def stored_definition(source: Json, identity: Identity) -> Definition:
    """Return the definition of a stack from its stored source, in whichever language it is. Raises `Invalid`."""
    if isinstance(source, dict) and source.get("language") == TOSCA:
        from heat_config_stack.tosca.compilation import loader as tosca  # noqa: PLC0415  # HOT needs none of it

        return tosca.load(source, identity)
    from heat_config_stack.hot import loader as hot  # noqa: PLC0415  # TOSCA needs none of it

    return hot.load(source, identity)


class _Nobody:
    """The servers of a stack that is only read."""

    def deliver(self, deployment: DeploymentRecord) -> None:
        raise AssertionError(deployment)

    def withdraw(self, deployment: DeploymentRecord) -> None:
        raise AssertionError(deployment)


class TimeIsOverError(AgentError):
    """The time is over that the command may wait."""

    exit_code = ExitCode.TIMED_OUT
    code = "timeout"


FORGETTING = 20.0
"""Seconds that hosts have to forget a stack that was deleted."""


class _Watched:
    """This machine, and other hosts, as the servers of a stack, with a view of the progress.

    Either part is opened when there is work for it.
    """

    def __init__(
        self,
        folder: Path,
        settings: Settings,
        view: View,
        limit: float | None,
        most: int = 0,
    ) -> None:
        """Work in the folder of the stack, whose lock the caller holds; on `most` hosts at once, 0 for all."""
        self._folder, self._settings, self._view = folder, settings, view
        self._end = processes.since_boot() + limit if limit is not None else None
        self.progress = Progress(view)
        self._opened: ThisMachine | None = None
        self._fleet: Fleet | None = None
        self._most = most

    @property
    def _machine(self) -> ThisMachine:
        if self._opened is None:
            from heat_config_stack.lifecycle.machine import ThisMachine  # noqa: PLC0415  # slow to load

            self._opened = ThisMachine(self._folder, self._settings, self.progress)
        return self._opened

    @property
    def _hosts(self) -> Fleet:
        if self._fleet is None:
            from heat_config_stack.hosts.fleet import Fleet  # noqa: PLC0415  # few stacks have hosts
            from heat_config_stack.hosts.leftovers import Register  # noqa: PLC0415

            limit = self._settings.run_settings.limit
            register = Register(self._settings.state, self._folder.name)
            self._fleet = Fleet(self._view, limit, self._most, register=register)
        return self._fleet

    def tidy(self) -> None:
        """Open the machine if an earlier command has left it something to do. Raises AgentError."""
        if not _is_at_rest(self._folder):
            _ = self._machine

    def close(self) -> None:
        """Write everything to disk."""
        if self._fleet is not None:
            self._fleet.close()
        if self._opened is not None:
            self._opened.close()

    def forget(self, world: World, *, is_gone: bool) -> None:
        """Have other hosts forget a stack that is gone, or that has nothing there any more.

        Those that are reached forget others that are gone, too: they may have been away when that was asked of them.
        """
        if self._fleet is None:
            return
        from heat_config_stack.hosts import leftovers  # noqa: PLC0415  # few stacks have hosts

        kept = set() if is_gone else placing.places(world.store)
        self._fleet.forget(world, FORGETTING, kept)
        state = self._settings.state
        others = leftovers.of_gone_stacks(state, self._fleet.reached)
        for host, stack, problem in leftovers.remove(state, others):
            if not problem:
                terminal.note(f"{host.title} has removed {stack.words}")

    def deliver(self, deployment: DeploymentRecord) -> None:
        self._view.queued(self.progress.path_of(deployment.id), deployment.action)
        self._of(deployment).deliver(deployment)

    def withdraw(self, deployment: DeploymentRecord) -> None:
        self._of(deployment).withdraw(deployment)

    def _of(self, deployment: DeploymentRecord) -> ThisMachine | Fleet:
        return self._hosts if placing.is_elsewhere(deployment) else self._machine

    def stop(self, world: World, reason: str) -> None:
        self._machine.stop(world, reason)
        if any(map(placing.is_elsewhere, world.store.deployments.values())):
            self._hosts.stop(world, reason)

    @property
    def busy(self) -> bool:
        return any(each.busy for each in (self._opened, self._fleet) if each)

    def work(self, world: World, timeout: float | None, also: Sequence[int]) -> None:
        if self._end is not None and processes.since_boot() > self._end:
            raise TimeIsOverError(
                "the time of --wait-for is over; runs that have begun go on",
                hint="run the command again to continue",
            )
        wait = min(self._view.interval, 60.0 if timeout is None else timeout)
        if self._fleet is None:
            self._machine.work(world, wait, also)
        else:
            self._work_with(self._fleet, world, wait, also)
        self._view.refresh()

    def _work_with(
        self, fleet: Fleet, world: World, wait: float, also: Sequence[int]
    ) -> None:
        """Carry out deployments here and on hosts."""
        has_results = fleet.turn(world)
        due = fleet.due
        wait = 0 if has_results else wait if due is None else min(wait, due)
        if self._opened is not None and self._opened.busy:
            self._opened.work(world, wait, [*also, *fleet.descriptors])
        elif wait > 0:
            fleet.raise_if_stuck()
            fleet.wait(wait, also)
            fleet.turn(world)


def warned(text: str) -> None:
    """Print a warning."""
    terminal.warn(text)


@functools.cache
def types(directories: tuple[str, ...]) -> Types:
    """Return all types, including types of plug-ins, and print which plug-ins are not used, and why."""
    if not directories:
        return known_types()
    from heat_config_stack.plugins import plugins  # noqa: PLC0415  # what stands for Heat is slow to load

    loaded = plugins.load(map(Path, directories))
    for each in (*loaded.disabled, *loaded.remarks):
        terminal.warn(each)
    return known_types(loaded.types)


def there(settings: Settings, name: str) -> bool:
    """Return whether there is a stack of that name, in any state. Raises UsageError."""
    kept = listing.kept(settings.state, name)
    return kept is not None and not kept.blank


def missing(settings: Settings, name: str) -> NotFoundError:
    """Return the error that there is no stack of that name."""
    close = meant(name, listing.names(settings.state))
    return NotFoundError(
        f"there is no stack {name}",
        hint=close or f"`{settings.command('stack', 'list')}` shows them all",
        subject=("stack", name),
    )


def look(settings: Settings, name: str, warn: Callable[[str], None] = warned) -> Stack:
    """Return a stack as it is stored, even while another process works on it. Raises UsageError, StateError.

    `warn` is called with a description of damaged files.
    """
    store = Store(listing.folder(settings.state, name), write=False, warn=warn)
    record = store.root
    if record is None:
        raise damaged(store) if store.damage else missing(settings, name)
    if store.damage:
        warn(store.damage)
    definition = (
        definition_of(record, record.source, stored_definition)
        if record.source
        else None
    )
    return _seen(settings, store, record, definition, warn)


def outline(settings: Settings, name: str) -> Stack | None:
    """Return a stack without its resources and its definition, which take long to read and to make; None for no stack.

    Damage is not reported here, but when the stack is opened for work. Raises UsageError, StateError.
    """
    store = Store(
        listing.folder(settings.state, name), write=False, only=StackRecord.KIND
    )
    if store.root is None and store.damage:
        raise damaged(store)
    return (
        _seen(settings, store, store.root, None, warned)
        if store.root is not None
        else None
    )


def _seen(
    settings: Settings,
    store: Store,
    record: StackRecord,
    definition: Definition | None,
    warn: Callable[[str], None],
) -> Stack:
    world = World(
        store,
        types(settings.words("plugin_dirs")),
        _Nobody(),
        unusable=functools.cache(warn),
    )
    world.expect_signals = lambda handle, _token: _address(record.port, handle)
    return Stack(world, record, definition)


def _address(port: int, handle: str) -> str:
    from heat_config_stack.lifecycle.endpoint import address  # noqa: PLC0415  # few stacks have handles

    return address(port, handle)


@contextlib.contextmanager
def work(
    settings: Settings,
    name: str,
    view: View,
    *,
    server: str = "",
    limit: float | None = None,
    without_types: bool = False,
    user_data: bool = False,
    definition: Definition | None = None,
    max_hosts: int = 0,
    reach: Callable[[Stack], None] | None = None,
) -> Iterator[Session]:
    """Open a stack for work, which may be a new one. Raises LockedError, StateError, UsageError.

    `reach` is called with a stack that exists, before the work: it says how its hosts are reached from here on.

    With `user_data`, the scripts in the user data of new servers are carried out.
    Without types, a type that cannot be used is only a warning, because the stack will be forgotten.
    A `definition` that the caller has made is not made again if it is that of the stack.
    """
    lock.guard(settings.state)
    folder = listing.folder(settings.state, name)
    all_types = types(settings.words("plugin_dirs"))
    with contextlib.ExitStack() as ending:
        ending.callback(forget, folder)
        try:
            ending.enter_context(lock.held(folder))
        except LockedError as error:
            holder = lock.holder(folder)
            process = f" (process {holder[0]})" if holder else ""
            raise LockedError(
                f"another command works on the stack {name}{process}",
                hint="wait for it to end, and try again",
            ) from error
        machine = _Watched(folder, settings, view, limit, max_hosts)
        ending.callback(machine.close)
        machine.tidy()
        opened = Session(
            folder,
            all_types,
            machine,
            stored_definition
            if definition is None
            else functools.partial(_loaded, definition),
            happened=lambda event: view.happened(_with_why(event, opened)),
            warn=view.warn,
            unusable=functools.cache(view.warn) if without_types else None,
        )
        opened.world.server = server
        opened.world.left_unchanged = view.left_unchanged
        opened.world.user_data = user_data
        verifying = _Verifying(folder, settings)
        opened.world.verified = functools.partial(verifying.of, opened.world)
        ending.callback(verifying.close)
        machine.progress.path_of = functools.partial(deployments.path_of, opened.store)
        with contextlib.closing(opened) as session:
            try:
                stack = session.root.id if session.root is not None else ""
                if reach is not None and session.root is not None:
                    reach(session.root)
                yield session
                machine.forget(opened.world, is_gone=bool(stack) and not session.root)
            finally:
                view.clear()


class _Verifying:
    """The verification of a stack, which is loaded when a check asks for it."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self._folder, self._settings = folder, settings
        self._opened: Verification | None = None
        self._of_hosts: dict[str, Finding] | None = None

    def of(self, world: World, deployment: DeploymentRecord) -> Finding | None:
        if placing.is_elsewhere(deployment):
            return self._there(world).get(deployment.id)
        if self._opened is None:
            from heat_config_agent.runs.tools import Tools  # noqa: PLC0415  # only a check needs them
            from heat_config_stack.lifecycle.verification import Verification  # noqa: PLC0415

            tools = Tools(self._settings.hooks, warned)
            self._opened = Verification(self._folder, self._settings, tools)
        return self._opened.of(world, deployment)

    def _there(self, world: World) -> dict[str, Finding]:
        """Return the findings of all hosts, by the ids of the deployments; the first question asks the hosts."""
        if self._of_hosts is None:
            from heat_config_agent.cli import stack_package  # noqa: PLC0415  # few stacks have hosts
            from heat_config_agent.cli.deployments import elsewhere  # noqa: PLC0415

            world.store.flush()
            others = stack_package.elsewhere(self._settings, self._folder.name)
            rows = elsewhere.verified(self._settings, others)
            self._of_hosts = {target.deployment: found for target, found in rows}
        return self._of_hosts

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()


def _loaded(made: Definition, source: Json, identity: Identity) -> Definition:
    """Return the definition of a source, without making it again if it was made already."""
    return (
        made
        if (made.source, made.identity) == (source, identity)
        else stored_definition(source, identity)
    )


def _is_at_rest(folder: Path) -> bool:
    """Return whether nothing runs, waits or has to be tidied up of the deployments in a folder's journal."""
    try:
        content = record_file.read(folder / journal.FILE)
    except OSError:
        return False
    reader = Reader(content)
    return (
        not reader.damaged
        and reader.good == len(content)
        and all(map(_is_over, reader.entries.values()))
    )


def _is_over(entry: Entry) -> bool:
    if entry.run is not None and not (
        entry.marked and entry.run.boot == processes.boot_id()
    ):
        return False  # a power cut may have brought back the inputs of its run
    return entry.settled and not entry.untidy


def _with_why(event: dict[str, Any], session: Session) -> dict[str, Any]:
    """Return an event, with the reason in the words of the tool if its resource is a deployment that has failed."""
    if event["status"] != FAILED or event["reason"].endswith(CANCELLED):
        return event
    for deployment in session.store.deployments.values():
        if (
            deployment.status == FAILED
            and deployments.path_of(session.store, deployment.id) == event["path"]
        ):
            conceal = session.world.conceal
            stderr = str(deployment.outputs.get("deploy_stderr") or "")
            return {
                **event,
                "why": conceal.text(deployments.why(deployment)),
                "stderr": conceal.text(stderr),
            }
    return event


def why_failed(settings: Settings, name: str) -> str:
    """Return the state of a stack that has failed, and why, in the words of the tools of its deployments."""
    stack = look(settings, name)
    why = reason_of(stack)
    return f"{stack.record.action}_{stack.record.status}{f': {why}' if why else ''}"


def reason(settings: Settings, name: str) -> str:
    """Return why a stack has failed, in the words of the tools of its deployments."""
    return reason_of(look(settings, name, lambda _text: None))


def reason_of(stack: Stack) -> str:
    """Return why a stack has failed, or was rolled back, in the words of the tools of its deployments."""
    store, record = stack.world.store, stack.record
    failed = [
        f"{deployments.path_of(store, each.id)}: {deployments.why(each)}"
        for each in deployments.failed_last(stack)
    ]
    why = "; ".join(failed) or record.reason
    if record.reason.endswith(CANCELLED) or record.action == ADOPT:
        why = record.reason
    undone = rolled_back_after(stack)
    parts = [why] if record.status == FAILED or not undone else []
    return stack.conceal.text("; ".join([*parts, *([undone] if undone else [])]))


def rolled_back_after(stack: Stack) -> str:
    """Return why a stack was rolled back, in the words of the tools of its deployments; empty if it was not."""
    undone = stack.record.undone
    if not undone:
        return ""
    runs = [
        f"{each['path']}: {each['why']}" for each in undone["runs"] if each.get("why")
    ]
    return f"rolled back after: {'; '.join(runs) or undone['reason']}"


def all_resources(settings: Settings, name: str) -> dict[str, ResourceRecord]:
    """Return the records of all resources of a stack by their paths; none if they cannot be read."""
    try:
        store = Store(listing.folder(settings.state, name), write=False)
    except StateError:
        return {}
    return {
        placing.path_to(store, identity): record
        for identity, record in store.resources.items()
    }


def why_left(settings: Settings, name: str, paths: Sequence[str]) -> str:
    """Return that resources of a stack are still to be deleted, and why that has failed, in the words of tools."""
    stack = look(settings, name)
    store = stack.world.store
    reasons = {
        deployments.path_of(store, each.id): f": {deployments.why(each)}"
        for each in store.deployments.values()
        if each.status == FAILED
    }
    return stack.conceal.text(
        "; ".join(
            f"the DELETE of {path} has failed, and is due again{reasons.get(path, '')}"
            for path in paths
        )
    )


def all_deployments(settings: Settings) -> list[tuple[str, Path, str]]:
    """Return `STACK/RESOURCE`, folder and id of each deployment of the stacks that can be read, by name."""
    named = []
    for name in listing.names(settings.state):
        folder = listing.folder(settings.state, name)
        try:
            store = Store(folder, write=False)
        except StateError:
            continue
        paths = {
            deployments.path_of(store, identity): identity
            for identity in store.deployments
        }
        named += [(f"{name}/{path}", folder, paths[path]) for path in sorted(paths)]
    return named


def forget(folder: Path) -> None:
    """Remove the folder of a stack that no longer exists, or was never created; nothing if there is none.

    A folder that another process works on is left to that process.
    """
    if os.path.lexists(folder / FILE) or not folder.is_dir():
        return
    with contextlib.suppress(LockedError), lock.held(folder):
        if not os.path.lexists(folder / FILE):
            shutil.rmtree(folder)
