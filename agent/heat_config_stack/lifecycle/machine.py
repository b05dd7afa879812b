"""This machine as the servers of a stack: deployments of the stack take the same path as those from Heat.

Each deployment is a source of its own, whose document has the entry that the metadata of a server would have. The
`Applier` plans, runs and records it like any other. Its result goes to the `Inbox`, and is in the records of the stack
before it counts as delivered.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from heat_config_agent.deployments import plan
from heat_config_agent.engine.events import Report
from heat_config_agent.engine.workplace import open_state
from heat_config_agent.model.deployment import (
    DELETE,
    TOOLLESS,
    Document,
    Result,
    Target,
)
from heat_config_agent.model.entry import Entry, State
from heat_config_agent.model.errors import AgentError, ExitCode, StateError
from heat_config_agent.model.waking import Waker
from heat_config_agent.settings.effective import Settings
from heat_config_agent.signals.delivery import Fate, Outcome
from heat_config_agent.state import record_file
from heat_config_hooks import files, processes, protocol
from heat_config_hooks.values import replace
from heat_config_stack.lifecycle import deployments
from heat_config_stack.lifecycle.live import World
from heat_config_stack.records.records import FAILED, IN_PROGRESS, DeploymentRecord
from heat_config_stack.records.store import Memory

LONGEST = 60.0
"""The longest wait in seconds if nothing is due."""


def source(deployment: DeploymentRecord) -> str:
    """Return the name of the source for a deployment."""
    return f"stack:{deployment.stack}/{deployment.id}"


class Inbox:
    """Accepts results instead of sending them to servers: an `Outbox` whose letters stay here."""

    is_stored = True

    def __init__(
        self,
        take: Callable[[str, Mapping[str, object]], None],
        are_safe: Callable[[], bool],
    ) -> None:
        """Give each result to `take`, with the key of the deployment. They are delivered when `are_safe` says so."""
        self._take, self._are_safe = take, are_safe
        self._accepted: list[Outcome] = []
        self._waker = Waker()

    def trust(self, ca_file: str | None) -> None:
        """Ignore the file: nothing is sent."""

    def fileno(self) -> int:
        """Return a descriptor that is readable when results were accepted."""
        return self._waker.fileno()

    def expect(self, target: Target) -> None:
        """Do nothing: the inbox is always ready."""

    def post(self, key: str, target: Target, values: Mapping[str, object]) -> None:  # noqa: ARG002  # all letters stay here
        """Accept a result. It counts as delivered once the records of the stack that have it are on disk."""
        self._take(key, values)
        self._accepted.append(Outcome(key, Fate.SENT))
        self._waker.wake()

    @property
    def pending(self) -> bool:
        """True if there are results that do not count as delivered yet."""
        return bool(self._accepted)

    def withdraw(self, key: str) -> None:
        """Discard the outcome of a result."""
        self._accepted = [each for each in self._accepted if each.key != key]

    def outcomes(self) -> list[Outcome]:
        """Return the outcomes since the last call; none while results are not on disk."""
        if not self._are_safe():
            return []
        self._waker.drain()
        found, self._accepted = self._accepted, []
        return found

    def close(self) -> None:
        """Close the inbox."""
        self._waker.close()


class RebootError(AgentError):
    """A deployment waits for a reboot of the machine."""

    exit_code = ExitCode.REBOOT


class ThisMachine:
    """The servers of a stack."""

    def __init__(self, folder: Path, settings: Settings, report: Report) -> None:
        """Use a stack's folder as a state directory, whose lock the caller holds. Raises AgentError."""
        files.make_directory(folder, durable=True)
        self._folder = folder
        self._settings, self._report = settings, report
        self._parallel = max(int(settings.number("parallel")), 1)
        self._inbox = Inbox(
            self._take, lambda: self._world is None or not self._world.store.owed
        )
        self._environment = dict(settings.run_settings.environment)
        """The environment of all runs."""
        run_settings = replace(
            settings.run_settings,
            state=folder,
            root=settings.root and folder,
            parallel=self._parallel,
            environment=self._environment,
        )
        place = open_state(
            settings,
            self._inbox,
            report,
            run_settings=run_settings,
            deployed=folder / "deployed",
            patience=settings.delivery,
        )
        self._journal, self._applier, self._announcer = (
            place.journal,
            place.applier,
            place.announcer,
        )
        self._journal.flush_with = self._flush_with
        self._world: World | None = None
        self._new: dict[str, DeploymentRecord] = {}
        self._pending: dict[str, DeploymentRecord] = {}
        """The deployments that were offered and have not ended, by id."""
        self._documents: dict[str, Document] = {}
        """The document of each deployment that is in the metadata of a server, by id."""
        self._named: dict[object, set[str]] = {}
        """The ids of deployments by the identity that a tool sees, see `_alike`."""
        self._by_key: dict[str, DeploymentRecord] = {}
        self._gone: list[Document] = []

    def close(self) -> None:
        """Write everything to disk."""
        self._applier.settle()
        self._journal.close()
        self._inbox.close()
        self._announcer.close()

    # The interface for stacks.

    def deliver(self, deployment: DeploymentRecord) -> None:
        """Carry out a deployment with the next `work`."""
        self._new[deployment.id] = deployment

    def withdraw(self, deployment: DeploymentRecord) -> None:
        """Discard a deployment that its stack has withdrawn."""
        self._new.pop(deployment.id, None)
        self._pending.pop(deployment.id, None)
        known = self._documents.pop(deployment.id, None) is not None
        if known or any(
            each.source == source(deployment) and _runs(each)
            for each in self._journal.entries.values()
        ):
            self._gone.append(Document(source=source(deployment), content=[]))

    def stop(self, world: World, reason: str) -> None:
        """Begin to end the current runs, whose results are still taken; other deployments never begin."""
        if self._world is None:
            self._recall(world)
        self._world = world
        running = {
            each.source for each in self._journal.entries.values() if _runs(each)
        }
        self._new, self._pending, self._gone = {}, {}, []
        ours = [
            each for each in world.store.deployments.values() if source(each) in running
        ]
        for deployment in ours:
            self._know(world, deployment)
        known = {self._documents[each.id].source for each in ours}
        documents = [self._documents[each.id] for each in ours]
        documents += [
            Document(source=each, content=[]) for each in sorted(running - known)
        ]
        self._applier.offer(documents, mark=False)
        for each in sorted(running):
            self._applier.end_runs(each, reason)

    @property
    def busy(self) -> bool:
        """True if deployments are pending or running, or their results are not on disk yet."""
        return (
            bool(self._new or self._gone or self._inbox.pending)
            or self._applier.work.busy
        )

    def work(self, world: World, timeout: float | None, also: Sequence[int]) -> None:
        """Carry out deployments until there is a result, or for that many seconds."""
        if self._world is None:
            self._recall(world)
            self._end_forgotten(world)
        self._world = world
        if world.store.files is not None and world.store.files.is_there:
            self._environment[protocol.STACK_FILES] = str(world.store.files.folder)
        if (self._new or self._gone) and len(self._applier.work.queue) < self._parallel:
            if not self._offer(world):
                timeout = 0
        elif self._inbox.pending:  # else the flush before the next run secures them
            world.store.flush(durable=True)
        self._applier.turn(LONGEST if timeout is None else timeout, also)
        if not self.busy:
            self._applier.secure()  # of runs for which no resource waits
            self._raise_if_stuck()

    def _end_forgotten(self, world: World) -> None:
        """End the runs whose deployments a command that was killed has already removed from the stack."""
        sources = {source(each) for each in world.store.deployments.values()}
        running = {
            each.source for each in self._journal.entries.values() if _runs(each)
        }
        self._gone += [
            Document(source=each, content=[]) for each in sorted(running - sources)
        ]

    def _flush_with(self, flush_journal: Callable[[], None]) -> None:
        """Flush the journal and the records of the stack. Raises StateError."""
        if self._world is None or self._world.store.safe:
            flush_journal()
        else:
            record_file.flush_both(
                flush_journal, functools.partial(self._world.store.flush, durable=True)
            )

    def _recall(self, world: World) -> None:
        """Settle the deployments whose results the stack has, and put back the results that the journal lacks.

        A power cut takes from the journal what was not flushed, and a kill may come before the delivery is on record.
        """
        store = world.store
        of_config = {each.config: each for each in store.deployments.values()}
        for entry in [
            each for each in self._journal.entries.values() if _may_have_ended(each)
        ]:
            deployment = of_config.get(entry.id)
            if deployment is None:
                # the stack has gone on since; or it has lost the record, and nothing has begun
                self._applier.recall(entry.key, None, None)
            elif deployment.status != IN_PROGRESS:
                failed = deployment.status == FAILED
                result = Result(
                    values=deployment.outputs,
                    failed=failed,
                    reason=deployment.reason if failed else "",
                )
                resource = store.resources.get(deployment.resource)
                self._applier.recall(
                    entry.key,
                    result,
                    resource.updated if resource is not None else None,
                )

    def _raise_if_stuck(self) -> None:
        """Raise StateError or RebootError if a pending deployment cannot be carried out now."""
        if self._applier.postponed:
            raise StateError(
                f"{self._applier.postponed}; the stack is in {self._folder}",
                hint="fix that, and run the command again to continue",
            )
        if waiting := self._applier.work.reboots:
            names = ", ".join(each.name for each in waiting)
            raise RebootError(
                f"{names} asked for a reboot of the machine, and waits for it",
                hint="reboot it, and run the command again to continue",
            )

    def _offer(self, world: World) -> bool:
        """Offer the new deployments to the Applier, after all records are written: a kill loses none of them.

        Before one of them begins, they are flushed together with the journal. Return whether there is something to wait
        for: a refused deployment ends nothing.
        """
        world.store.flush()
        new, self._new = self._new, {}
        for deployment in new.values():
            self._know(world, deployment)
        self._pending = {
            key: deployment
            for key, deployment in self._pending.items()
            if self._is_open(deployment)
        }
        wanted = dict.fromkeys(self._pending)
        for deployment in new.values():
            wanted.update(dict.fromkeys(self._beside(world, deployment)))
        gone, self._gone = self._gone, []
        documents = [
            *(
                self._documents[deployment]
                for deployment in wanted
                if deployment in self._documents
            ),
            *gone,
        ]
        self._applier.offer(documents, mark=False)
        for document in gone:
            self._applier.end_runs(
                document.source, "its deployment was removed from the stack"
            )
        return (
            all(deployment.status == IN_PROGRESS for deployment in new.values())
            and self._applier.work.busy
        )

    def _know(self, world: World, deployment: DeploymentRecord) -> None:
        config = world.store.configs.get(deployment.config)
        if config is None:
            return
        if config.group in TOOLLESS:
            self._refuse(world, deployment, config.group)
            return
        self._by_key[protocol.file_key(config.id)] = deployment
        self._documents[deployment.id] = Document(
            source=source(deployment),
            content=[config.entry()],
            signatures=signatures_of(world.store),
        )
        for each in self._alike(world, deployment, config.name):
            self._named.setdefault(each, set()).add(deployment.id)
        self._pending[deployment.id] = deployment

    def _refuse(self, world: World, deployment: DeploymentRecord, group: str) -> None:
        """Fail a deployment that no agent would answer, so that the stack does not wait forever."""
        sentence = f"no tool carries out the group {group}: set the group to a tool, such as script"
        deployments.refuse(world, deployment, sentence)
        self._report.warn(
            f"{world.store.resources[deployment.resource].name}: {sentence}"
        )

    def _beside(self, world: World, deployment: DeploymentRecord) -> Iterable[str]:
        """Return other deployments of the name or resource of a DELETE, whose work it has to spare."""
        config = world.store.configs.get(deployment.config)
        if deployment.action != DELETE or config is None:
            return ()
        alike = self._alike(world, deployment, config.name)
        return [
            each
            for of in alike
            for each in self._named.get(of, ())
            if each in self._documents
        ]

    @staticmethod
    def _alike(
        world: World, deployment: DeploymentRecord, name: str
    ) -> tuple[object, object]:
        """Return the keys that make deployments the same to a tool: the name of the entry, and that of the resource."""
        return name, (deployment.stack, world.store.resources[deployment.resource].name)

    def _is_open(self, deployment: DeploymentRecord) -> bool:
        """Return whether a deployment has to be offered again: it runs, or its result has not been accepted."""
        entry = self._journal.entries.get(protocol.file_key(deployment.config))
        return deployment.status == IN_PROGRESS or entry is None or not entry.settled

    def _take(self, key: str, values: Mapping[str, object]) -> None:
        """Give a result to the stack, and record it. The record is flushed before the stack begins anything else."""
        deployment = self._by_key.get(key)
        if deployment is None or self._world is None:
            return
        deployments.take(self._world, deployment, values)
        self._pending.pop(deployment.id, None)
        self._world.store.flush()
        self._world.store.owed = True


def _runs(entry: Entry) -> bool:
    """Return whether a run of an entry may be going on."""
    return entry.state is State.RUNNING


def _may_have_ended(entry: Entry) -> bool:
    """Return whether a stack may have the result of a deployment that is not settled."""
    if entry.state is State.RUNNING:
        may = entry.run is not None and entry.run.boot != processes.boot_id()
    else:
        # one that was accepted may be answered without a run
        may = entry.state in (State.ACCEPTED, State.FINISHED)
    return may and plan.deployment_of(entry).target.wanted


def signatures_of(store: Memory) -> tuple[str, ...]:
    """Return the evidence that the files of a stack are signed."""
    root = store.root
    kept = (
        root.source.get("signatures", ())
        if root is not None and isinstance(root.source, dict)
        else ()
    )
    return tuple(kept)
