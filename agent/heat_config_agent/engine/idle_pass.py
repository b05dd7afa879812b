"""The last pass, if there was nothing to do in it: the same documents again need no plan."""

from __future__ import annotations

from collections.abc import Iterable

from heat_config_agent.deployments import cleanup
from heat_config_agent.deployments.plan import Step, Verb
from heat_config_agent.model.deployment import Document
from heat_config_agent.state.deployed import Deployed
from heat_config_agent.state.journal import Journal


class IdlePass:
    """The documents of the last pass and the state of the machine then, if there was nothing to do."""

    def __init__(self, journal: Journal, deployed: Deployed) -> None:
        self._journal = journal
        self._deployed = deployed
        self._last: tuple[list[Document], object] | None = None

    def forget(self) -> None:
        """Remember no pass."""
        self._last = None

    def remember(self, documents: list[Document], steps: Iterable[Step]) -> None:
        """Remember a pass with these documents, if its steps leave nothing to do and all deployments are settled.

        A failed cleanup is not settled: it is tried again.
        """
        entries = self._journal.entries
        if not all(step.verb is Verb.SKIP and step.deployment.key in entries for step in steps):
            return
        if all(
            entry.settled and not entry.again and not (entry.failed and entry.action == cleanup.ACTION)
            for entry in entries.values()
        ):
            self._last = documents, self._state()

    def is_repeated_by(self, documents: list[Document]) -> bool:
        """Return whether a pass with these documents would do nothing, like the last one."""
        if self._last is None or len(documents) != len(self._last[0]):
            return False
        same = all(document is last for document, last in zip(documents, self._last[0], strict=True))
        return same and self._state() == self._last[1]

    def _state(self) -> object:
        """Return everything but documents that decides whether there is something to do, once all is settled."""
        return self._journal.records, self._deployed.keys()
