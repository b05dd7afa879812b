"""One stack that is opened for work: carries out commands, and continues after an interruption.

A snapshot is one of the records of its stack. It has the source of the definition, and the state of each resource,
with the data that its handlers have stored. A process that is killed leaves a snapshot that is in progress;
the next one completes or deletes it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from heat_config_agent.diagnostics.mistakes import Invalid
from heat_config_agent.diagnostics.words import among
from heat_config_agent.model.errors import (
    AgentError,
    AmbiguousError,
    ExistsError,
    NotFoundError,
    StateError,
    UsageError,
    blame,
)
from heat_config_agent.model.positions import Json
from heat_config_hooks import processes
from heat_config_stack.definition import Definition, Identity, Loader
from heat_config_stack.definition.procedures import DEPLOY, UNDEPLOY
from heat_config_stack.lifecycle import procedure, traversal, validation
from heat_config_stack.lifecycle.live import Servers, Stack, World
from heat_config_stack.records import exception, records
from heat_config_stack.records.records import (
    COMPLETE,
    CREATE,
    DELETE,
    FAILED,
    IN_PROGRESS,
    ROLLBACK,
    UPDATE,
    ProcedureRecord,
    SnapshotRecord,
    StackRecord,
)
from heat_config_stack.records.store import Memory, Store
from heat_config_stack.resource import actions
from heat_config_stack.resource.resource import NoActionRequired, Resource
from heat_config_stack.resource.scheduler import Scheduler, Task
from heat_config_stack.resource.snippet import Snippet
from heat_config_stack.resource.types import HANDLES, Types

if TYPE_CHECKING:
    from heat_config_stack.lifecycle.endpoint import Endpoint
    from heat_config_stack.lifecycle.preview import Change

CATCHING_UP = 5.0
"""Seconds in which scripts may deliver signals that nothing accepted while no process worked on the stack."""


class Machine(Servers, Protocol):
    """Servers that carry out deployments."""

    def work(self, world: World, timeout: float | None, also: Sequence[int]) -> None:
        """Carry out deployments until there is a result, or for that many seconds. Results go to `deployments.take`.

        Return also if one of the descriptors in `also` is readable.
        """

    def stop(self, world: World, reason: str) -> None:
        """Begin to end the current runs, whose results come later; other deployments never begin."""

    @property
    def busy(self) -> bool:
        """True if deployments are pending."""


class Session:
    """A stack in a folder of its own, with its procedures and snapshots."""

    def __init__(
        self,
        folder: Path,
        types: Types,
        machine: Machine,
        load: Loader,
        *,
        happened: Callable[[dict[str, Json]], None] = lambda _event: None,
        warn: Callable[[str], None] = lambda _text: None,
        unusable: Callable[[str], None] | None = None,
    ) -> None:
        """Open the stack in a folder, or a new one. Raises LockedError, StateError, UsageError."""
        self._types, self._machine, self._load, self._warn = types, machine, load, warn
        self.store = Store(folder, warn=warn)
        self._scheduler = Scheduler()
        self._endpoint: Endpoint | None = None
        self.world = World(
            self.store,
            types,
            machine,
            self._scheduler,
            self._expect,
            happened,
            warn,
            unusable=unusable,
        )
        self.world.meanwhile = self._carry_on
        self.root: Stack | None = None
        self._resumed = False
        """True if an earlier process was interrupted: its scripts may still be running."""
        self._trouble: StateError | Invalid | None = None
        """The reason why the stack can only be deleted; None if there is no such reason."""
        try:
            self._take_up()
        except BaseException:
            self.close()
            raise

    def _take_up(self) -> None:
        """Read the records of the stack, if there are any. First listen again where its scripts send their signals."""
        record = self.store.root
        if self.store.damage:
            self._trouble = damaged(self.store)
        if record is None:
            return
        self._resumed = record.status == IN_PROGRESS
        try:
            if self._resumed and record.port:
                self._listen_again(record.port)
        except StateError as error:
            self._trouble = self._trouble or error
        try:
            definition = _definition(record, record.source, self._load)
            # Only an interrupted update may still roll back: others begin with the definition of the stack.
            goes_back = self._resumed and record.action == UPDATE
            earlier = (
                _definition(record, record.source_before, self._load)
                if goes_back
                else None
            )
        except (StateError, Invalid) as error:
            definition = earlier = None
            self._trouble = self._trouble or error
        self.root = Stack(self.world, record, definition)
        self.root.earlier = earlier
        if self._trouble is None:
            if (
                self.interrupted
                and record.action == records.RESTORE
                and definition is not None
            ):
                snapshot = find_snapshot(self.store, record.restores)
                self.root.define(self._restored(self.root, definition, snapshot))
            self._complete_snapshots()

    def _listen_again(self, port: int) -> None:
        """Accept signals for all handles of the stack: running scripts may know the address."""
        tokens = {
            each.id: each.data.get("token")
            for each in self.store.resources.values()
            if each.type in HANDLES
        }
        expected = {
            handle: token
            for handle, token in tokens.items()
            if isinstance(token, str) and token
        }
        if expected:
            from heat_config_stack.lifecycle.endpoint import Endpoint  # noqa: PLC0415  # few stacks have handles

            self._endpoint = Endpoint(port, fixed=True)
            for handle, token in expected.items():
                self._endpoint.expect(handle, token)
            self.world.catching_up_until = processes.since_boot() + CATCHING_UP

    def close(self) -> None:
        """Close the stack, so that other programs can open it."""
        if self._endpoint is not None:
            self._endpoint.close()
            self._endpoint = None
        self.store.close()

    @property
    def interrupted(self) -> bool:
        """True if an earlier process began an action and did not finish it."""
        return self.root is not None and self.root.record.status == IN_PROGRESS

    # Commands.

    def create(self, definition: Definition, *, rollback: bool = False) -> Stack:
        """Create the stack, or continue to create it. Raises `Invalid`, UsageError."""
        self._check_usable()
        stack = self.root
        if (
            stack is not None
            and self.interrupted
            and (stack.record.action == CREATE or self._goes_back(definition))
        ):
            return self.go_on()
        if (
            stack is not None
            and self.interrupted
            and stack.record.action == ROLLBACK
            and not stack.records()
        ):
            self.go_on()  # of its rollback, only the end is left
        if stack is not None and not stack.is_gone:
            raise ExistsError(
                f"there is a stack {stack.name} already",
                hint="update it, or delete it first",
            )
        validation.check(definition, self._types)
        if stack is not None:
            self.store.drop(stack.record)
            self._forget_procedures(stack)
        identity = definition.identity
        record = StackRecord(
            identity.id,
            identity.name,
            identity.project,
            source=definition.source,
            rollback=rollback,
        )
        self.root = Stack(self.world, record, None)
        traversal.converge(self.root, CREATE, definition)
        return self._run()

    def update(self, definition: Definition, *, rollback: bool = False) -> Stack:
        """Update the stack. Raises `Invalid`, UsageError."""
        self._check_usable()
        root = self._there()
        if self._goes_back(definition):
            return self.go_on()
        self._finish_procedure(root)
        if self.interrupted and not self._is_corrected(
            root, definition, rollback=rollback
        ):
            self.go_on()
        if self.interrupted and root.record.source == definition.source:
            return self.go_on()
        if root.is_gone and definition.procedures:  # one of them creates the operations
            return self.create(definition, rollback=rollback)
        refuse_suspended(root)
        if root.defined and (changed := root.defined.immutable_changes(definition)):
            problem = str(exception.ImmutableParameterModified(*changed))
            raise Invalid(
                [definition.mistake(problem, ("parameters", changed[0]))],
                definition.conceal,
            )
        validation.check(definition, self._types)
        record = root.record
        root.earlier = root.defined
        record.source_before, record.source, record.rollback = (
            record.source,
            definition.source,
            rollback,
        )
        traversal.converge(root, UPDATE, definition)
        return self._run()

    def _is_corrected(
        self, root: Stack, definition: Definition, *, rollback: bool
    ) -> bool:
        """Return whether an update takes the place of the interrupted action: nothing more begins for that one.

        A creation with a procedure, or to which the update may have to return, is finished first.
        """
        if root.record.action != CREATE or root.record.source == definition.source:
            return root.record.action == UPDATE
        procedures = root.defined.procedures if root.defined else {}
        return not rollback and DEPLOY not in {*procedures, *definition.procedures}

    def preview(self, definition: Definition) -> list[Change]:
        """Return the effects of an update. Raises `Invalid`."""
        from heat_config_stack.lifecycle import preview  # noqa: PLC0415  # only for previews

        validation.check(definition, self._types)
        return list(preview.changes(self._there(), definition))

    def delete(self, *, force: bool = False) -> None:
        """Delete the stack with its snapshots, even if another action is in progress or nothing else is possible.

        With `force`, snapshots and resources whose deletion fails are forgotten, each with a warning. Raises AgentError
        if a snapshot cannot be deleted.
        """
        for snapshot in (
            list(self.store.snapshots.values()) if self.root is not None else ()
        ):
            try:
                self.delete_snapshot(snapshot.id)
            except AgentError as error:
                if not force:
                    raise
                self._warn(f"{error}; it is forgotten")
                self.store.drop(snapshot)
        if self.root is None and (self.store.damage or self.store.blank):
            if self.store.damage:
                self._warn(
                    "the records of its deployments are lost: everything that they created stays"
                )
            self.store.remove()
            return
        root = self._there()
        if not self._undeploy(root):
            return
        root.traversal = None
        self.world.forget = self._forgotten if force else None
        traversal.converge(root, DELETE, None)
        self._run()
        if root.record.status != FAILED:
            self.store.remove()
            self.root = None

    def _forgotten(self, path: str, failure: str) -> None:
        self._warn(f"{path} may still exist, and is forgotten: {failure}")

    def suspend(self) -> Stack:
        """Suspend the stack; do nothing if it is suspended."""
        return self._turn(records.SUSPEND)

    def resume(self) -> Stack:
        """Resume the stack."""
        return self._turn(records.RESUME)

    def check(self) -> Stack:
        """Check the stack. Raises UsageError if it is suspended."""
        self._refuse_asleep()
        return self._turn(records.CHECK)

    def _refuse_asleep(self) -> None:
        """Raise UsageError if a stack is suspended whose deployments would not be known to be suspended any more."""
        root = self.root
        if root is None or root.record.action != records.SUSPEND or self.interrupted:
            return
        if any(each.sleeps() for each in root.resources.values()):
            raise UsageError(
                f"the stack {root.name} is suspended", hint="resume it first"
            )

    def signal(self, resource: str, details: Json) -> None:
        """Signal a resource: `NAME`, or `GROUP/MEMBER` for one of a child stack. Raises UsageError."""
        stack: Stack | None = self._there()
        *parents, name = resource.split("/")
        for each in parents:
            stack = getattr(stack.resources.get(each), "child", None) if stack else None
        found = stack.resources.get(name) if stack else None
        if found is None:
            hint = among(name, stack.resources) if stack else ""
            name = self._there().name
            raise NotFoundError(
                f"there is no resource {resource} in {name}",
                hint=hint,
                subject=("resource", f"{name}/{resource}"),
            )
        try:
            _signal(found, details)
        except ValueError as error:
            raise UsageError(f"{resource} does not take the signal: {error}") from error
        self._settle()

    def carry_out(self, name: str, inputs: Mapping[str, Json]) -> ProcedureRecord:
        """Carry out a procedure, or finish it if an earlier process began it.

        Raises `Invalid`, UsageError, Refused.
        """
        self._check_usable()
        if self.interrupted:
            self.go_on()
        stack = self._there()
        if stack.record.action == records.SUSPEND:
            raise UsageError(
                f"the stack {stack.name} is suspended", hint="resume it first"
            )
        begun = procedure.unfinished(stack)
        if begun is not None:
            self._finish(procedure.go_on(stack, begun))
            if (begun.name, begun.inputs) == (name, dict(inputs)):
                return begun
        run = procedure.begin(stack, name, inputs)
        self._finish(run)
        return run.record

    def _finish_procedure(self, stack: Stack) -> None:
        """Finish the procedure that an earlier process began, before the stack changes."""
        begun = (
            procedure.unfinished(stack)
            if stack.defined and stack.record.status != IN_PROGRESS
            else None
        )
        if begun is not None:
            self._finish(procedure.go_on(stack, begun))
        undeployed = procedure.last(stack, UNDEPLOY)
        if undeployed is not None:
            stack.drop(undeployed)

    def _forget_procedures(self, stack: Stack) -> None:
        """Drop the records of all runs."""
        for record in list(stack.world.store.procedures.values()):
            stack.drop(record)

    def _undeploy(self, stack: Stack) -> bool:
        """Carry out the procedure that deletes the operations, if there is one; return whether it has succeeded."""
        procedure.abandon(stack)
        if (
            stack.defined is None
            or UNDEPLOY not in stack.defined.procedures
            or not stack.records()
        ):
            return True
        record = procedure.last(stack, UNDEPLOY)
        if record is None or record.status != COMPLETE:
            run = (
                procedure.begin(stack, UNDEPLOY, {})
                if record is None
                else procedure.go_on(stack, record)
            )
            self._finish(run)
            record = run.record
        if record.status == COMPLETE:
            return True
        of = stack.record
        of.action, of.status, of.reason = (
            DELETE,
            FAILED,
            f"the workflow {UNDEPLOY} failed: {record.reason}",
        )
        stack.keep(of)
        return False

    def _finish(self, run: procedure.Run) -> None:
        self._scheduler.add(run.task())
        self._run(run.record)

    def _settle(self) -> None:
        """Finish the work of a signal in a child stack. Raises UsageError if it fails."""
        changing = self.store.changing()
        while self.store.changing() or self._machine.busy:
            self._scheduler.turn()
            self.store.flush()
            if self.store.changing() or self._machine.busy:
                self._wait()
        self.store.flush(durable=True)
        if failed := [
            stack.failure
            for stack in self.store.stacks.values()
            if stack.id in changing and stack.failure
        ]:
            raise AgentError(
                f"the signal was accepted, and the change failed: {self.world.conceal.text(str(failed[0]))}"
            )

    def go_on(self) -> Stack:
        """Finish the action that an earlier process began."""
        self._check_usable()
        root = self._there()
        if self.interrupted:
            traversal.go_on(root, root.defined)
            self._run()
        return root

    def cancel(self, *, rollback: bool) -> str:
        """End the action or the workflow that an earlier process began, and return its name.

        Runs that are going on are ended, and their results recorded. With `rollback`, an action that was begun so is
        rolled back.
        """
        self._check_usable()
        root = self._there()
        begun = procedure.unfinished(root)
        is_changing = root.id in self.store.changing()
        action = root.record.action if is_changing or begun is None else begun.name
        reason = f"{action}{records.CANCELLED}"
        self._machine.stop(self.world, reason)
        while self._machine.busy:
            self._wait()
        traversal.cancel(root, reason, rollback=rollback)
        for each in self.store.procedures.values():
            if each.status == IN_PROGRESS:
                each.status, each.reason, each.updated = FAILED, reason, time.time()
                self.store.put(each)
        self._run()
        return action

    # Snapshots.

    def snapshot(self, name: str) -> SnapshotRecord:
        """Take a snapshot of the stack. An interrupted snapshot is completed instead. Raises AgentError."""
        self._check_usable()
        self._refuse_asleep()
        root = self._there()
        if self.interrupted:
            begun = [
                each
                for each in self.store.snapshots.values()
                if each.action == CREATE and each.status == IN_PROGRESS
            ]
            action = root.record.action
            self.go_on()
            if action == records.SNAPSHOT and begun:
                return begun[-1]
        record = SnapshotRecord(
            records.new_id(), name, root.id, source=root.record.source
        )
        # After the stack: a snapshot whose handlers have not begun must not be taken for one whose handlers have run.
        traversal.turn(root, records.SNAPSHOT)
        self.store.put(record)
        self._run()
        return record

    def _complete_snapshots(self) -> None:
        """Store the state of the stack in a snapshot whose handlers have run."""
        root = self._there()
        if root.record.action != records.SNAPSHOT or root.record.status == IN_PROGRESS:
            return
        for each in self.store.snapshots.values():
            if (each.action, each.status) == (CREATE, IN_PROGRESS):
                each.data, each.status, each.reason = (
                    root.abandoned(),
                    root.record.status,
                    root.record.reason,
                )
                self.store.put(each)

    def restore(self, name: str) -> Stack:
        """Restore the stack to a snapshot. Raises AgentError, `Invalid`."""
        self._check_usable()
        self._refuse_asleep()
        root = self._there()
        snapshot = find_snapshot(self.store, name)
        if self.interrupted:
            continued = (
                root.record.action == records.RESTORE
                and root.record.restores == snapshot.id
            )
            self.go_on()
            if continued:
                return root
        if snapshot.status != COMPLETE:
            raise UsageError(
                f"the snapshot {name} is not complete: {snapshot.action}_{snapshot.status}",
                hint="take another one",
            )
        definition = definition_of(root.record, snapshot.source, self._load)
        definition = self._restored(root, definition, snapshot)
        validation.check(definition, self._types)
        record = root.record
        record.source_before, record.source, record.restores = (
            record.source,
            snapshot.source,
            snapshot.id,
        )
        traversal.converge(root, records.RESTORE, definition)
        return self._run()

    def _restored(
        self, root: Stack, definition: Definition, snapshot: SnapshotRecord
    ) -> Definition:
        """Return the definition of a snapshot as the handlers of its resources change it. Raises UsageError."""
        saved_stack = root.if_it_were(definition)
        saved: Mapping[str, Json] = snapshot.data.get("resources") or {}
        resources = dict(definition.resources)
        for name, defined in definition.resources.items():
            resource = _resource(root, saved_stack, name)
            handle = getattr(resource, "handle_restore", None)
            if handle is None or name not in saved:
                continue
            try:
                changed = handle(Snippet(defined, resource.resolve), saved[name])
            except AgentError:
                raise
            except BaseException as error:
                problem = (
                    f"{name} cannot be restored: {type(error).__name__}: {blame(error)}"
                )
                raise UsageError(self.world.conceal.text(problem)) from error
            if not isinstance(changed, Snippet):
                raise UsageError(
                    f"{name} cannot be restored: its handler returns no definition"
                )
            resources[name] = changed.definition
        return replace(definition, resources=resources)

    def delete_snapshot(self, name: str) -> None:
        """Delete a snapshot, and what the handlers of its resources have stored for it. Raises AgentError."""
        root = self._there()
        snapshot = find_snapshot(self.store, name)
        if self.interrupted and root.record.action == records.SNAPSHOT:
            self.go_on()
        snapshot.action, snapshot.status, snapshot.reason = DELETE, IN_PROGRESS, ""
        self.store.put(snapshot)
        self.store.flush()
        try:
            definition = definition_of(root.record, snapshot.source, self._load)
        except AgentError as error:
            self._end_removal(snapshot, str(error))
        else:
            self._scheduler.add(self._removal(root, definition, snapshot))
            while self._scheduler.busy:
                self._scheduler.turn()
                self.store.flush()
                if self._scheduler.busy:
                    self._wait()
        self.store.flush(durable=True)
        if snapshot.status == FAILED:
            problem = f"the snapshot {snapshot.name or snapshot.id} is not deleted: {snapshot.reason}"
            raise AgentError(
                problem,
                hint="its deleted parts stay deleted; fix the cause, and delete it again",
            )

    def _removal(
        self, root: Stack, definition: Definition, snapshot: SnapshotRecord
    ) -> Task:
        other = root.if_it_were(definition)
        saved: dict[str, Json] = snapshot.data.get("resources") or {}
        for name in [name for name in definition.resources if name in saved]:
            try:
                yield from actions.delete_snapshot(
                    _resource(root, other, name), saved[name]
                )
            except GeneratorExit:
                raise
            except BaseException as error:  # noqa: BLE001  # plug-ins may raise anything
                self._end_removal(
                    snapshot, f"{name}: {type(error).__name__}: {blame(error)}"
                )
                return
            del saved[name]
            self.store.put(snapshot)
        self.store.drop(snapshot)

    def _end_removal(self, snapshot: SnapshotRecord, reason: str) -> None:
        snapshot.status, snapshot.reason = FAILED, self.world.conceal.text(reason)
        self.store.put(snapshot)

    # Adopting and abandoning.

    def adopt(
        self,
        definition: Definition,
        resources: Mapping[str, Json],
        *,
        rollback: bool = False,
    ) -> Stack:
        """Adopt a stack: each resource exists already, in the state that is given by its name. Raises as `create`."""
        self._check_usable()
        there = self.root
        if (
            there is not None
            and self.interrupted
            and there.record.action == records.ADOPT
        ):
            return self.go_on()
        if there is not None:
            raise ExistsError(
                f"there is a stack {there.name} already",
                hint="adopt it under another name",
            )
        validation.check(definition, self._types)
        identity = definition.identity
        record = StackRecord(
            identity.id,
            identity.name,
            identity.project,
            source=definition.source,
            rollback=rollback,
        )
        record.adopted = dict(resources)
        self.root = Stack(self.world, record, None)
        traversal.converge(self.root, records.ADOPT, definition)
        return self._run()

    def abandoned(self) -> dict[str, Json]:
        """Return the state of the stack, for another program that adopts it. Raises AgentError."""
        self._check_usable()
        return self._there().abandoned()

    def end_runs(self) -> None:
        """End the runs of the stack that are going on, because its records will go. Raises StateError."""
        for each in list(self.store.deployments.values()):
            self._machine.withdraw(each)
        while self._machine.busy:
            self._wait()

    def abandon(self) -> None:
        """Forget the stack, and leave everything that it created as it is."""
        self.store.remove()
        self.root = None

    # Execution.

    def _check_usable(self) -> None:
        """Raise an error if the stack can only be deleted."""
        if self._trouble is not None:
            raise self._trouble

    def _turn(self, action: str) -> Stack:
        self._check_usable()
        root = self._there()
        self._finish_procedure(root)
        if self.interrupted and root.record.action != action:
            self.go_on()
        if self.interrupted:
            return self.go_on()
        if action != records.CHECK and (root.record.action, root.record.status) == (
            action,
            COMPLETE,
        ):
            return root  # nothing to do
        traversal.turn(root, action)
        return self._run()

    def _run(self, procedure: ProcedureRecord | None = None) -> Stack:
        """Work until an action of the stack, or a procedure, has ended."""
        root = self._there()
        record = procedure or root.record
        try:
            while record.status == IN_PROGRESS or self._machine.busy:
                self._scheduler.turn()
                self.store.flush()
                if record.status == IN_PROGRESS or self._machine.busy:
                    self._wait()
        finally:
            self.store.flush(durable=True)
        self._complete_snapshots()
        self.store.flush(durable=True)
        return root

    def _wait(self, longest: float | None = None) -> None:
        """Wait for the next event, or for that many seconds."""
        due = _least(self._scheduler.due, longest)
        if due is None and not self._machine.busy:
            raise StateError("the stack waits for an event that cannot happen")
        if self._endpoint is None:
            self._machine.work(self.world, due, [])
        else:
            self._machine.work(
                self.world, _least(due, self._endpoint.due), [self._endpoint.fileno()]
            )
        if self._endpoint is not None:
            self._endpoint.take(self._signalled)

    def _carry_on(self, seconds: float) -> None:
        """Carry out all other tasks while a handler of a plug-in waits.

        Return after that many seconds, or when an action of a stack has begun or ended.
        """
        until, changing = time.monotonic() + seconds, self.store.changing()
        while (left := until - time.monotonic()) > 0:
            self._scheduler.turn()
            self.store.flush()
            if self.store.changing() != changing:
                return
            self._wait(left)

    def _expect(self, handle: str, token: str) -> str:
        """Accept signals for a handle from now on, and return the URL for them."""
        root = self._there()
        if self._endpoint is None:
            from heat_config_stack.lifecycle.endpoint import Endpoint  # noqa: PLC0415  # few stacks have handles

            self._endpoint = Endpoint(
                root.record.port, fixed=self._resumed and bool(root.record.port)
            )
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
            raise ValueError("the handle no longer exists")
        _signal(found, details)
        self.store.flush(durable=True)

    def _there(self) -> Stack:
        if self.root is None:
            name = self.store.folder.name
            raise NotFoundError(f"there is no stack {name}", subject=("stack", name))
        return self.root

    def _goes_back(self, definition: Definition) -> bool:
        """Return whether an interrupted rollback followed a failed attempt of the same definition."""
        record = self._there().record
        return (
            self.interrupted
            and record.action == ROLLBACK
            and record.source_before == definition.source
        )


def refuse_suspended(root: Stack) -> None:
    """Raise UsageError if a stack is suspended, which no update changes."""
    if root.record.action == records.SUSPEND and root.record.status != IN_PROGRESS:
        hint = "resume it first" + (
            "; the update is possible even if that fails"
            if root.record.status == FAILED
            else ""
        )
        raise UsageError(
            "Updating a stack when it is suspended is not supported.", hint=hint
        )


def find_snapshot(store: Memory, name: str) -> SnapshotRecord:
    """Return the snapshot with that id, or the only one with that name. Raises UsageError."""
    if name in store.snapshots:
        return store.snapshots[name]
    namesakes = [
        snapshot for snapshot in store.snapshots.values() if snapshot.name == name
    ]
    if len(namesakes) == 1:
        return namesakes[0]
    stack = store.root.name if store.root else ""
    if namesakes:
        raise AmbiguousError(
            f"{name!r} is the name of {len(namesakes)} snapshots of {stack}",
            hint="name one by its id",
        )
    names = [snapshot.name or snapshot.id for snapshot in store.snapshots.values()]
    raise NotFoundError(
        f"{stack} has no snapshot {name!r}",
        hint=among(name, names),
        subject=("snapshot", f"{stack}/{name}"),
    )


def _least(*times: float | None) -> float | None:
    return min((each for each in times if each is not None), default=None)


def _signal(resource: Resource, details: Json) -> None:
    """Signal a resource. Raises ValueError if it refuses, for any exception of its class."""
    try:
        resource.signal(details)
    except NoActionRequired:
        return
    except (AgentError, ValueError):
        raise
    except BaseException as error:
        raise ValueError(f"{type(error).__name__}: {blame(error)}") from error


def _resource(root: Stack, saved: Stack, name: str) -> Resource:
    """Return the current resource with the name and type of one in a snapshot, else the resource of the snapshot."""
    try:
        defined = saved.as_defined(name)
    except Invalid as error:
        raise UsageError(str(error)) from error
    current = root.resources.get(name)
    return (
        current
        if current is not None and current.record.type == defined.record.type
        else defined
    )


def _definition(record: StackRecord, source: Json, load: Loader) -> Definition | None:
    return None if source is None else definition_of(record, source, load)


def definition_of(record: StackRecord, source: Json, load: Loader) -> Definition:
    """Return the definition of a stack from its record. Raises `Invalid`, StateError."""
    try:
        return load(source, Identity(record.name, record.id, record.project))
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise StateError(
            f"cannot read the definition of the stack {record.name}: {error}",
            hint=f"delete it with `heat-config-agent stack delete {record.name}`, and create it again",
        ) from error


def damaged(store: Store) -> StateError:
    """Return the error for a stack that has lost records and can only be deleted."""
    return StateError(
        store.damage,
        hint=f"nothing was begun; delete the stack with `heat-config-agent stack delete {store.folder.name}`, "
        "and create it again",
    )
