"""heat-agents' folder `deployed/`, kept up to date for the programs that read it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from heat_config_agent.deployments.plan import Step, Verb
from heat_config_agent.model.entry import Removed
from heat_config_agent.model.log import Log
from heat_config_agent.state.deployed import Deployed
from heat_config_agent.state.journal import Journal
from heat_config_hooks import protocol


class DeployedMirror:
    """Writes each deployment that is run, and its result, into heat-agents' folder.

    An error there, such as a full disk, is only a warning.
    """

    def __init__(self, deployed: Deployed, journal: Journal, log: Log) -> None:
        self._deployed = deployed
        self._journal = journal
        self._log = log

    def write_deployment(self, step: Step) -> None:
        """Write a deployment whose command has started."""
        self._write(lambda: self._keep(step, None))

    def write_result(self, step: Step, values: Mapping[str, object] | None) -> None:
        """Write the result of a deployment, if its command was run."""
        if step.verb is not Verb.ANSWER:
            self._write(lambda: self._keep(step, values))

    def mark(self, present: Collection[str] | None = None) -> bool:
        """Put on record which files are in the folder, so that the absence of one of them means «run it again».

        `present` has the keys of the files, for a caller who knows them already. Returns False if this failed.
        Raises StateError.
        """
        keys = [
            entry.key
            for entry in self._journal.entries.values()
            if not entry.marked and entry.ended and entry.run and entry.removed is not Removed.ALL
        ]
        if keys and present is None:
            present = self._deployed.keys()
        keys = [key for key in keys if key in (present or ())]
        if not keys:
            return True
        if not self._write(self._deployed.sync):  # a file that a power cut removes was not removed by a person
            return False
        self._journal.marked(keys, str(self._deployed.directory))
        return True

    def _keep(self, step: Step, values: Mapping[str, object] | None) -> None:
        key = step.deployment.key
        if self._deployed.keeps(key):
            self._deployed.keep(key, {}, values)
        elif step.job is not None and protocol.LEAVES not in step.deployment.document:
            self._deployed.keep(key, step.job.request, values)

    def _write(self, write: Callable[[], None]) -> bool:
        try:
            write()
        except OSError as error:
            self._log.warn(f"cannot write to {self._deployed.directory}: {error.strerror}")
            return False
        return True
