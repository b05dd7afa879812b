"""The verification of the deployments of a stack: whether the machine still is as they say.

The journal of a stack keeps the document of a deployment for a day only. The records of the stack have its config for
as long as the stack has the deployment, so it is made again from them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from heat_config_agent.deployments import metadata
from heat_config_agent.model.deployment import Deployment, Document
from heat_config_agent.runs.tools import Tools
from heat_config_agent.settings.effective import Settings
from heat_config_agent.state import journal
from heat_config_agent.state.deployed import Deployed
from heat_config_agent.verification import machine
from heat_config_agent.verification.machine import Finding, Ground
from heat_config_hooks import protocol
from heat_config_hooks.values import replace
from heat_config_stack.lifecycle.live import World
from heat_config_stack.lifecycle.machine import signatures_of, source
from heat_config_stack.records.records import (
    COMPLETE,
    DELETE,
    RESUME,
    SUSPEND,
    DeploymentRecord,
)
from heat_config_stack.records.store import Memory, Store


def documents(store: Memory) -> dict[str, Deployment]:
    """Return the deployments of a stack by their keys in its journal, as they were delivered last."""
    by_key: dict[str, Deployment] = {}
    for each in store.deployments.values():
        config = store.configs.get(each.config)
        if config is None:
            continue
        document = Document(
            source=source(each),
            content=[config.entry()],
            signatures=signatures_of(store),
        )
        for deployment in metadata.parse(document).deployments:
            key = protocol.file_key(config.id)
            by_key[key] = replace(deployment, key=key)
    return by_key


def is_in_force(store: Memory, deployment: DeploymentRecord) -> bool:
    """Return whether the machine has to be as a deployment says: its resource is neither suspended nor deleted."""
    record = store.resources.get(deployment.resource)
    if record is None or record.action in (SUSPEND, DELETE):
        return False
    return record.action != RESUME or record.status == COMPLETE


def ground(folder: Path, settings: Settings, tools: Tools, store: Memory) -> Ground:
    """Return the parts of the state directory of a stack that a verification needs: it runs as its deployments do."""
    environment = dict(settings.run_settings.environment)
    if store.files is not None and store.files.is_there:
        environment[protocol.STACK_FILES] = str(store.files.folder)
    return Ground(
        settings=replace(
            settings.run_settings,
            state=folder,
            root=settings.root and folder,
            environment=environment,
        ),
        deployed=Deployed(folder / "deployed"),
        tools=tools,
        documents=documents(store),
        are_as_run=True,
        parallel=max(int(settings.number("parallel")), 1),
    )


def stored(folder: Path, settings: Settings, tools: Tools) -> tuple[Ground, set[str]]:
    """Return the parts that the verification of a stack needs, and the ids of its deployments that are in force.

    Raises StateError.
    """
    store = Store(folder, write=False, warn=lambda _text: None)
    ids = {each.id for each in store.deployments.values() if is_in_force(store, each)}
    return ground(folder, settings, tools, store), ids


class Verification:
    """The findings about the deployments of a stack, which a check of the stack asks for.

    All are verified together, as many at once as may run; the first question begins it.
    """

    def __init__(self, folder: Path, settings: Settings, tools: Tools) -> None:
        """Verify in the folder of a stack."""
        self._folder, self._settings, self._tools = folder, settings, tools
        self._going: Iterator[Finding] | None = None
        self.findings: dict[str, Finding] = {}
        """The findings so far, by the ids of the deployments in the stack."""
        self._ids: dict[str, str] = {}

    def of(self, world: World, deployment: DeploymentRecord) -> Finding | None:
        """Return the finding about a deployment; None if nothing of it was carried out on this machine."""
        if self._going is None:
            self._going = self._begun(world)
        while deployment.id not in self.findings:
            finding = next(self._going, None)
            if finding is None:
                return None
            self.findings[self._ids[finding.entry.key]] = finding
        return self.findings[deployment.id]

    def _begun(self, world: World) -> Iterator[Finding]:
        store = world.store
        store.flush()
        entries = journal.read(self._folder)
        self._ids = {
            key: each.id
            for each in store.deployments.values()
            if (key := protocol.file_key(each.config)) in entries
        }
        every = [entries[key] for key in self._ids]
        return machine.verify(
            every, ground(self._folder, self._settings, self._tools, store)
        )

    def close(self) -> None:
        """End the commands that still run."""
        if self._going is not None:
            self._going.close()  # type: ignore[attr-defined]  # it is a generator
            self._going = None
