"""One stack that is worked on: what is asked of it, carried out to its end, or gone on with after an interruption."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from heat_config_agent.errors import StateError, UsageError
from heat_config_agent.stack import preview, records, traversal, validation
from heat_config_agent.stack.definition import Definition, Identity, Invalid, Json, Loader
from heat_config_agent.stack.endpoint import Endpoint
from heat_config_agent.stack.live import Servers, Stack, World
from heat_config_agent.stack.records import COMPLETE, CREATE, DELETE, FAILED, IN_PROGRESS, ROLLBACK, UPDATE, StackRecord
from heat_config_agent.stack.scheduler import Scheduler
from heat_config_agent.stack.store import Store
from heat_config_agent.stack.types import Types


class Machine(Servers, Protocol):
    """Servers that carry out what was delivered."""

    def work(self, world: World, timeout: float | None, also: Sequence[int]) -> None:
        """Carry out what was delivered until there is a result, or for that many seconds; tell `deployments.take`.

        Return also when one of the descriptors in `also` can be read.
        """

    @property
    def busy(self) -> bool:
        """Whether there is something that it works on."""


class Session:
    """A stack of one name, in a folder of its own."""

    def __init__(
        self,
        folder: Path,
        types: Types,
        machine: Machine,
        load: Loader,
        *,
        happened: Callable[[dict[str, Json]], None] = lambda _event: None,
    ) -> None:
        """Open the stack in a folder, or one that is yet to be made. Raises LockedError, StateError."""
        self._types, self._machine, self._load = types, machine, load
        self.store = Store(folder)
        self._scheduler = Scheduler()
        self._endpoint: Endpoint | None = None
        self.world = World(self.store, types, machine, self._scheduler, self._expect, happened)
        self.root: Stack | None = None
        try:
            self._take_up()
        except BaseException:
            self.store.close()
            raise

    def _take_up(self) -> None:
        """Go on with what is kept of the stack, if anything is."""
        record = next((each for each in self.store.stacks.values() if not each.owner), None)
        if record is not None:
            self.root = Stack(self.world, record, self._definition(record, record.source))
            self.root.earlier = self._definition(record, record.source_before)

    def close(self) -> None:
        """Let others work on it."""
        if self._endpoint is not None:
            self._endpoint.close()
        self.store.close()

    @property
    def interrupted(self) -> bool:
        """Whether an earlier process began something, and did not bring it to its end."""
        return self.root is not None and self.root.record.status == IN_PROGRESS

    # What is asked.

    def create(self, definition: Definition, *, rollback: bool = False) -> Stack:
        """Make the stack; go on with it where that was begun. Raises `Invalid`, UsageError."""
        there = self.root
        if there is not None and there.record.action == CREATE and self.interrupted:
            return self.go_on()
        if there is not None and not self._is_gone(there):
            raise UsageError(f"there is a stack {there.name} already", hint="update it, or delete it first")
        validation.check(definition, self._types)
        if there is not None:
            self.store.drop(there.record)
        identity = definition.identity
        record = StackRecord(identity.id, identity.name, identity.project, source=definition.source, rollback=rollback)
        self.root = Stack(self.world, record, None)
        traversal.converge(self.root, CREATE, definition)
        return self._run()

    def update(self, definition: Definition, *, rollback: bool = False) -> Stack:
        """Have the stack be something else. Raises `Invalid`, UsageError."""
        root = self._there()
        if self.interrupted and root.record.action != UPDATE:
            self.go_on()
        if self.interrupted and root.record.source == definition.source:
            return self.go_on()
        if root.record.action == records.SUSPEND:
            raise UsageError("Updating a stack when it is suspended is not supported.", hint="resume it first")
        if changed := _immutable(root.definition, definition):
            problem = f"The following parameters are immutable and may not be updated: {', '.join(changed)}"
            raise Invalid([definition.mistake(problem, ("parameters", changed[0]))])
        validation.check(definition, self._types)
        record = root.record
        root.earlier = root.definition
        record.source_before, record.source, record.rollback = record.source, definition.source, rollback
        traversal.converge(root, UPDATE, definition)
        return self._run()

    def preview(self, definition: Definition) -> list[preview.Change]:
        """Return what an update would do. Raises `Invalid`."""
        validation.check(definition, self._types)
        return list(preview.changes(self._there(), definition))

    def delete(self) -> None:
        """Remove the stack, also where something else is going on."""
        root = self._there()
        root.traversal = None
        traversal.converge(root, DELETE, None)
        self._run()
        if root.record.status != FAILED:
            self.store.remove()
            self.root = None

    def suspend(self) -> Stack:
        """Put the stack to rest; one that rests already, does so."""
        return self._turn(records.SUSPEND)

    def resume(self) -> Stack:
        """Wake the stack up."""
        return self._turn(records.RESUME)

    def check(self) -> Stack:
        """Look whether all is as it should be."""
        return self._turn(records.CHECK)

    def signal(self, resource: str, details: Json) -> None:
        """Signal a resource: `NAME`, or `GROUP/MEMBER` of a child."""
        stack: Stack | None = self._there()
        *parents, name = resource.split("/")
        for each in parents:
            stack = getattr(stack.resources.get(each), "child", None) if stack else None
        found = stack.resources.get(name) if stack else None
        if found is None:
            raise UsageError(f"there is no resource {resource} in {self._there().name}")
        found.signal(details)
        self.store.flush()

    def go_on(self) -> Stack:
        """Bring to its end what an earlier process began."""
        root = self._there()
        if self.interrupted:
            definition = root.defined
            traversal.go_on(root, definition)
            self._run()
        return root

    # How it is carried out.

    def _turn(self, action: str) -> Stack:
        root = self._there()
        if self.interrupted and root.record.action != action:
            self.go_on()
        if self.interrupted:
            return self.go_on()
        if action != records.CHECK and (root.record.action, root.record.status) == (action, COMPLETE):
            return root  # it is so already
        traversal.turn(root, action)
        return self._run()

    def _run(self) -> Stack:
        root = self._there()
        try:
            while root.record.status == IN_PROGRESS or self._machine.busy:
                self._scheduler.turn()
                self.store.flush()
                if root.record.status == IN_PROGRESS or self._machine.busy:
                    self._wait()
        finally:
            self.store.flush(durable=True)
        return root

    def _wait(self) -> None:
        due = self._scheduler.due
        if due is None and not self._machine.busy:
            raise StateError("the stack waits for something that nobody is going to do")
        self._machine.work(self.world, due, [self._endpoint.fileno()] if self._endpoint else [])
        if self._endpoint is not None:
            self._endpoint.take(self._signalled)

    def _expect(self, handle: str, token: str) -> str:
        """Take signals for a handle from here on, and return where they are to be sent."""
        root = self._there()
        if self._endpoint is None:
            self._endpoint = Endpoint(root.record.port)
        address = self._endpoint.expect(handle, token)
        if root.record.port != self._endpoint.port:
            root.record.port = self._endpoint.port
            self.store.put(root.record)
        return address

    def _signalled(self, handle: str, details: Json) -> None:
        record = self.store.resources.get(handle)
        stack = self.world.stacks.get(record.stack) if record else None
        found = stack.resources.get(record.name) if stack and record else None
        if found is None:
            raise ValueError("the handle is not there any more")
        found.signal(details)
        self.store.flush(durable=True)

    def _definition(self, record: StackRecord, source: Json) -> Definition | None:
        if source is None:
            return None
        return self._load(source, Identity(record.name, record.id, record.project))

    def _there(self) -> Stack:
        if self.root is None:
            raise UsageError(f"there is no stack in {self.store.folder}")
        return self.root

    @staticmethod
    def _is_gone(stack: Stack) -> bool:
        """Whether only the record of a stack is left, whose making was rolled back."""
        return stack.record.action == ROLLBACK and stack.record.status != FAILED and not stack.records()


def _immutable(former: Definition, wanted: Definition) -> list[str]:
    """Return the parameters whose values may not change, and do."""
    both = former.parameters.keys() & wanted.parameters.keys()
    changed = [name for name in both if former.parameters[name].value != wanted.parameters[name].value]
    return sorted(name for name in changed if former.parameters[name].schema.immutable)
