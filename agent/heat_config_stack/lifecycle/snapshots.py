"""Snapshots of a stack, and stacks that come from elsewhere or go there: snapshot, restore, adopt, abandon.

A snapshot is one of the records of its stack. It has the source of the definition, and the state of each resource,
with the data that its handlers have stored. A process that is killed leaves a snapshot that is in progress;
the next one completes or deletes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from heat_config_agent.diagnostics.mistakes import Invalid
from heat_config_agent.diagnostics.words import among
from heat_config_agent.model.errors import AgentError, UsageError, blame
from heat_config_agent.model.positions import Json
from heat_config_stack.definition import Definition
from heat_config_stack.lifecycle import traversal, validation
from heat_config_stack.lifecycle.live import Stack
from heat_config_stack.lifecycle.session import Session, definition_of
from heat_config_stack.records import records
from heat_config_stack.records.records import (
    COMPLETE,
    CREATE,
    DELETE,
    FAILED,
    IN_PROGRESS,
    ProcedureRecord,
    SnapshotRecord,
    StackRecord,
)
from heat_config_stack.records.store import Memory
from heat_config_stack.resource import actions
from heat_config_stack.resource.resource import Resource
from heat_config_stack.resource.scheduler import Task
from heat_config_stack.resource.snippet import Snippet


def find(store: Memory, name: str) -> SnapshotRecord:
    """Return the snapshot with that id, or the only one with that name. Raises UsageError."""
    if name in store.snapshots:
        return store.snapshots[name]
    namesakes = [snapshot for snapshot in store.snapshots.values() if snapshot.name == name]
    if len(namesakes) == 1:
        return namesakes[0]
    stack = store.root.name if store.root else ""
    if namesakes:
        raise UsageError(f"{name!r} is the name of {len(namesakes)} snapshots of {stack}", hint="name one by its id")
    names = [snapshot.name or snapshot.id for snapshot in store.snapshots.values()]
    raise UsageError(f"{stack} has no snapshot {name!r}", hint=among(name, names))


class ArchivingSession(Session):
    """A session that also takes snapshots of its stack, restores it, adopts it and abandons it."""

    def _take_up(self) -> None:
        super()._take_up()
        root = self.root
        if root is None or self._trouble is not None:
            return
        if self.interrupted and root.record.action == records.RESTORE and root.defined is not None:
            root.define(self._restored(root, root.defined, find(self.store, root.record.restores)))
        self._complete_snapshots()

    def _run(self, procedure: ProcedureRecord | None = None) -> Stack:
        root = super()._run(procedure)
        self._complete_snapshots()
        self.store.flush(durable=True)
        return root

    # Snapshots.

    def snapshot(self, name: str) -> SnapshotRecord:
        """Take a snapshot of the stack. An interrupted snapshot is completed instead. Raises AgentError."""
        self._check_usable()
        root = self._there()
        if self.interrupted:
            begun = [
                each for each in self.store.snapshots.values() if each.action == CREATE and each.status == IN_PROGRESS
            ]
            action = root.record.action
            self.go_on()
            if action == records.SNAPSHOT and begun:
                return begun[-1]
        record = SnapshotRecord(records.new_id(), name, root.id, source=root.record.source)
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
                each.data, each.status, each.reason = root.abandoned(), root.record.status, root.record.reason
                self.store.put(each)

    def restore(self, name: str) -> Stack:
        """Restore the stack to a snapshot. Raises AgentError, `Invalid`."""
        self._check_usable()
        root = self._there()
        snapshot = find(self.store, name)
        if self.interrupted:
            continued = root.record.action == records.RESTORE and root.record.restores == snapshot.id
            self.go_on()
            if continued:
                return root
        if snapshot.status != COMPLETE:
            raise UsageError(
                f"the snapshot {name} is not complete: {snapshot.action}_{snapshot.status}", hint="take another one"
            )
        definition = definition_of(root.record, snapshot.source, self._load)
        definition = self._restored(root, definition, snapshot)
        validation.check(definition, self._types)
        record = root.record
        record.source_before, record.source, record.restores = record.source, snapshot.source, snapshot.id
        traversal.converge(root, records.RESTORE, definition)
        return self._run()

    def _restored(self, root: Stack, definition: Definition, snapshot: SnapshotRecord) -> Definition:
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
                problem = f"{name} cannot be restored: {type(error).__name__}: {blame(error)}"
                raise UsageError(self.world.conceal.text(problem)) from error
            if not isinstance(changed, Snippet):
                raise UsageError(f"{name} cannot be restored: its handler returns no definition")
            resources[name] = changed.definition
        return replace(definition, resources=resources)

    def delete_snapshot(self, name: str) -> None:
        """Delete a snapshot, and what the handlers of its resources have stored for it. Raises AgentError."""
        root = self._there()
        snapshot = find(self.store, name)
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
            raise AgentError(problem, hint="its deleted parts stay deleted; fix the cause, and delete it again")

    def _removal(self, root: Stack, definition: Definition, snapshot: SnapshotRecord) -> Task:
        other = root.if_it_were(definition)
        saved: dict[str, Json] = snapshot.data.get("resources") or {}
        for name in [name for name in definition.resources if name in saved]:
            try:
                yield from actions.delete_snapshot(_resource(root, other, name), saved[name])
            except GeneratorExit:
                raise
            except BaseException as error:  # noqa: BLE001  # plug-ins may raise anything
                self._end_removal(snapshot, f"{name}: {type(error).__name__}: {blame(error)}")
                return
            del saved[name]
            self.store.put(snapshot)
        self.store.drop(snapshot)

    def _end_removal(self, snapshot: SnapshotRecord, reason: str) -> None:
        snapshot.status, snapshot.reason = FAILED, self.world.conceal.text(reason)
        self.store.put(snapshot)

    def delete(self, *, force: bool = False) -> None:
        """Delete the stack with its snapshots. Raises AgentError if a snapshot cannot be deleted."""
        for snapshot in list(self.store.snapshots.values()) if self.root is not None else ():
            try:
                self.delete_snapshot(snapshot.id)
            except AgentError as error:
                if not force:
                    raise
                self._warn(f"{error}; it is forgotten")
                self.store.drop(snapshot)
        super().delete(force=force)

    # Adopting and abandoning.

    def adopt(self, definition: Definition, resources: Mapping[str, Json], *, rollback: bool = False) -> Stack:
        """Adopt a stack: each resource exists already, in the state that is given by its name. Raises as `create`."""
        self._check_usable()
        there = self.root
        if there is not None and self.interrupted and there.record.action == records.ADOPT:
            return self.go_on()
        if there is not None:
            raise UsageError(f"there is a stack {there.name} already", hint="adopt it under another name")
        validation.check(definition, self._types)
        identity = definition.identity
        record = StackRecord(identity.id, identity.name, identity.project, source=definition.source, rollback=rollback)
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


def _resource(root: Stack, saved: Stack, name: str) -> Resource:
    """Return a resource of a snapshot: the current one of that name and type, or one that is only looked at."""
    try:
        defined = saved.as_defined(name)
    except Invalid as error:
        raise UsageError(str(error)) from error
    current = root.resources.get(name)
    return current if current is not None and current.record.type == defined.record.type else defined
