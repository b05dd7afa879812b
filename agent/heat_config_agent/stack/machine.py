"""This machine in the place of all servers: what a stack delivers goes the way of what Heat delivers.

Each deployment is a source of its own, whose document has the entry that a server's metadata would have; the `Applier`
plans, runs and keeps it as it does any other. A result goes to the `Inbox`, which is where all deployments of a stack
say that theirs are to go, and is on record with the stack before it counts as delivered.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from heat_config_agent import lock
from heat_config_agent.apply import Applier
from heat_config_agent.delivery import Delivery
from heat_config_agent.deployed import Deployed
from heat_config_agent.journal import Journal
from heat_config_agent.model import DELETE, TOOLLESS, Document, Target
from heat_config_agent.report import Report
from heat_config_agent.settings import Settings
from heat_config_agent.signals import Fate, Outcome
from heat_config_agent.stack import deployments
from heat_config_agent.stack.live import World
from heat_config_agent.stack.records import IN_PROGRESS, DeploymentRecord
from heat_config_agent.tools import Tools
from heat_config_hooks import protocol
from heat_config_hooks.values import replace

LONGEST = 60.0
"""Seconds that are waited at once where nothing is due."""


def source(deployment: DeploymentRecord) -> str:
    """Return the name of the source that a deployment is."""
    return f"stack:{deployment.stack}/{deployment.id}"


class Inbox:
    """Takes results, in the place of servers to which they would be sent: an `Outbox` whose letters stay here."""

    def __init__(self, take: Callable[[str, bytes], None]) -> None:
        """Have `take` put a result on record, by the deployment's key."""
        self._take = take
        self._outcomes: list[Outcome] = []
        self._wake, self._waker = os.pipe()
        os.set_blocking(self._wake, False)

    def trust(self, ca_file: str | None) -> None:
        """Trust nobody: nothing is sent."""

    def fileno(self) -> int:
        """Return a descriptor that is readable when there are outcomes."""
        return self._wake

    def expect(self, target: Target) -> None:
        """Be ready."""

    def post(self, key: str, target: Target, body: bytes) -> None:  # noqa: ARG002  # all are ours
        """Take a result."""
        self._take(key, body)
        self._outcomes.append(Outcome(key, Fate.SENT))
        with contextlib.suppress(BlockingIOError):
            os.write(self._waker, b".")

    def withdraw(self, key: str) -> None:
        """Forget what became of a result."""
        self._outcomes = [each for each in self._outcomes if each.key != key]

    def outcomes(self) -> list[Outcome]:
        """Return what has become of results since the last call."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake, 65536)
        found, self._outcomes = self._outcomes, []
        return found

    def close(self) -> None:
        """Take no more."""
        os.close(self._wake)
        os.close(self._waker)


class ThisMachine:
    """The servers of a stack."""

    def __init__(self, folder: Path, settings: Settings, report: Report, *, server: str = "") -> None:
        """Work in a stack's folder, which is a state directory of its own. Raises AgentError.

        With `server`, only what is for that one is carried out: its id, or the name of its resource. What is for the
        others counts as done, without any outputs, and says so.
        """
        self._held = contextlib.ExitStack()
        self._held.enter_context(lock.held(folder))
        self._settings, self._report, self._server = settings, report, server
        self._parallel = max(int(settings.number("parallel")), 1)
        self._inbox = Inbox(self._take)
        self._journal = Journal(folder)
        for warning in self._journal.warnings:
            report.warn(warning)
        self._applier = self._applies(folder)
        self._world: World | None = None
        self._new: dict[str, DeploymentRecord] = {}
        self._pending: dict[str, DeploymentRecord] = {}
        """What was offered and has not ended, by id."""
        self._documents: dict[str, Document] = {}
        """What was offered last of each deployment that is in some server's metadata, by id."""
        self._named: dict[object, set[str]] = {}
        """The ids of deployments by what makes them the same to a tool, see `_alike`."""
        self._by_key: dict[str, DeploymentRecord] = {}
        self._gone: list[Document] = []

    def _applies(self, folder: Path) -> Applier:
        given = self._settings
        return Applier(
            journal=self._journal,
            tools=Tools(given.hooks),
            deployed=Deployed(folder / "deployed"),
            delivery=Delivery(self._inbox, given.delivery),
            where=replace(given.where, state=folder, root=given.root and folder, parallel=self._parallel),
            report=self._report,
        )

    def close(self) -> None:
        """Have all be on disk, and let others work in the folder."""
        self._applier.settle()
        self._journal.close()
        self._inbox.close()
        self._held.close()

    # What a stack asks.

    def deliver(self, deployment: DeploymentRecord) -> None:
        """Carry out what a deployment says, with the next `work`."""
        self._new[deployment.id] = deployment

    def withdraw(self, deployment: DeploymentRecord) -> None:
        """Note that nobody wants anything of the deployment any more."""
        self._new.pop(deployment.id, None)
        self._pending.pop(deployment.id, None)
        if self._documents.pop(deployment.id, None) is not None:
            self._gone.append(Document(source=source(deployment), content=[]))

    @property
    def busy(self) -> bool:
        """Whether something is to be carried out, or is being."""
        return bool(self._new or self._gone) or self._applier.busy

    def work(self, world: World, timeout: float | None, also: Sequence[int]) -> None:
        """Carry out what was delivered until there is a result, or for that many seconds."""
        self._world = world
        if (self._new or self._gone) and self._applier.waiting < self._parallel and not self._offer(world):
            timeout = 0
        self._applier.turn(LONGEST if timeout is None else timeout, also)

    def _offer(self, world: World) -> bool:
        """Have the Applier know what there is to be done, all on record first: it may be done at once.

        Return whether there is something to wait for: nobody waits for what was refused.
        """
        world.store.flush(durable=True)
        new, self._new = self._new, {}
        for each in new.values():
            self._know(world, each)
        self._pending = {key: each for key, each in self._pending.items() if self._is_open(each)}
        wanted = dict.fromkeys(self._pending)
        for each in new.values():
            wanted.update(dict.fromkeys(self._beside(world, each)))
        gone, self._gone = self._gone, []
        self._applier.offer([*(self._documents[each] for each in wanted if each in self._documents), *gone])
        return all(each.status == IN_PROGRESS for each in new.values()) and self._applier.busy

    def _know(self, world: World, deployment: DeploymentRecord) -> None:
        config = world.store.configs.get(deployment.config)
        if config is None:
            return
        if not self._is_ours(world, deployment):
            note = f"not carried out: it is for the server {deployment.server}"
            deployments.take(world, deployment, {"deploy_stderr": note, "deploy_status_code": 0})
            return
        if config.group in TOOLLESS:
            self._refuse(world, deployment, config.group)
            return
        self._by_key[protocol.file_key(config.id)] = deployment
        self._documents[deployment.id] = Document(source=source(deployment), content=[config.entry()])
        for each in self._alike(world, deployment, config.name):
            self._named.setdefault(each, set()).add(deployment.id)
        self._pending[deployment.id] = deployment

    def _is_ours(self, world: World, deployment: DeploymentRecord) -> bool:
        if not self._server or deployment.server == self._server:
            return True
        stack = world.store.resources_of(world.root)
        return any(each.name == self._server and each.physical == deployment.server for each in stack)

    def _refuse(self, world: World, deployment: DeploymentRecord, group: str) -> None:
        """Fail a deployment that no agent would answer: the stack would wait for it for ever."""
        sentence = f"no tool carries out the group {group}, here as on any server: name one, such as group: script"
        deployments.take(world, deployment, {"deploy_stderr": sentence, "deploy_status_code": 1})
        self._report.warn(f"{world.store.resources[deployment.resource].name}: {sentence}")

    def _beside(self, world: World, deployment: DeploymentRecord) -> Iterable[str]:
        """Return the deployments that a DELETE has to see beside its own: it spares what they have taken over."""
        config = world.store.configs.get(deployment.config)
        if deployment.action != DELETE or config is None:
            return ()
        alike = self._alike(world, deployment, config.name)
        return [each for of in alike for each in self._named.get(of, ()) if each in self._documents]

    @staticmethod
    def _alike(world: World, deployment: DeploymentRecord, name: str) -> tuple[object, object]:
        """Return by what another deployment is the same to a tool: the name of its entry, and that of its resource."""
        return name, (deployment.stack, world.store.resources[deployment.resource].name)

    def _is_open(self, deployment: DeploymentRecord) -> bool:
        """Whether a deployment is to be offered again: it runs, or its result is not taken yet."""
        entry = self._journal.entries.get(protocol.file_key(deployment.config))
        return deployment.status == IN_PROGRESS or entry is None or not entry.settled

    def _take(self, key: str, body: bytes) -> None:
        """Have the stack take a result, and keep it."""
        deployment = self._by_key.get(key)
        if deployment is None or self._world is None:
            return
        deployments.take(self._world, deployment, json.loads(body))
        self._pending.pop(deployment.id, None)
        self._world.store.flush(durable=True)
