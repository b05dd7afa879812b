"""The inputs of runs, among them secrets: removed when a run ends, and again later where that failed."""

from __future__ import annotations

import functools

from heat_config_agent.model.entry import Entry, Removed, State
from heat_config_agent.model.log import Log
from heat_config_agent.model.run_settings import RunSettings
from heat_config_agent.runs import run_folder
from heat_config_agent.state.journal import Journal
from heat_config_hooks import files, processes


class RunInputs:
    """The run folders that may still have the inputs of their runs."""

    def __init__(self, journal: Journal, settings: RunSettings, log: Log) -> None:
        """Start with the folders that an earlier agent may have left untidy."""
        self._journal = journal
        self._settings = settings
        self._log = log
        self._untidy = {key for key, entry in journal.entries.items() if _may_be_untidy(entry)}

    def __contains__(self, key: object) -> bool:
        """Return whether the inputs of a deployment's run may still be there."""
        return key in self._untidy

    def __bool__(self) -> bool:
        """Return whether the inputs of any run may still be there."""
        return bool(self._untidy)

    def tidy(self, key: str) -> None:
        """Remove the inputs of a deployment's run. A failure is a warning, and `tidy_all` tries again."""
        self._untidy.discard(key)
        try:
            run_folder.tidy(self._settings.run(key), functools.partial(self._remove_written, key))
            entry = self._journal.entries.get(key)
            if entry is not None and entry.run is not None and entry.run.user:
                from heat_config_agent.runs import as_user  # noqa: PLC0415  # few runs are of other users

                as_user.remove(entry.run)
        except OSError as error:
            self._untidy.add(key)
            self._log.warn(f"cannot remove the inputs of {key}: {error.strerror}: {error.filename}")

    def _remove_written(self, key: str) -> None:
        """Remove what a hook has written into its folders, if the inputs of the run referred to secrets."""
        from heat_config_agent.state import requests  # noqa: PLC0415  # few runs have such inputs

        entry = self._journal.entries.get(key)
        for path in requests.written(entry) if entry is not None else ():
            files.remove(path)

    def tidy_all(self) -> None:
        """Remove the inputs of all runs that have ended, where that has failed so far."""
        for key in sorted(self._untidy):
            entry = self._journal.entries.get(key)
            if entry is not None and entry.state not in (State.ACCEPTED, State.RUNNING):
                self.tidy(key)
            else:
                self._untidy.discard(key)


def _may_be_untidy(entry: Entry) -> bool:
    """Return whether a run folder may still have the inputs of its run.

    They are removed before the deployment settles. A power cut may bring the files back, and keep the record that the
    deployment has settled.
    """
    if entry.removed is Removed.ALL or not entry.ended:
        return False
    return entry.untidy or not entry.settled or (entry.run is not None and entry.run.boot != processes.boot_id())
