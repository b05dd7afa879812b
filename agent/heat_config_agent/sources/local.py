"""Documents that people and programs put on the machine, in the same directories as for os-collect-config."""

from __future__ import annotations

import os
from collections.abc import Mapping

from heat_config_agent.model.deployment import Document
from heat_config_agent.model.errors import AgentError, SourceError
from heat_config_agent.sources.base import Reach
from heat_config_agent.sources.file import Several, State, states_of, texts

SUFFIXES = (".json", ".yaml", ".yml")


class Local(Several):
    """The documents in some directories, in the order of the directories and then of the file names."""

    name = "local"

    def __init__(self, values: Mapping[str, object], reach: Reach) -> None:  # noqa: ARG002  # as all sources are made
        """Prepare to read the directories in the settings."""
        super().__init__()
        self._directories = texts(values)

    def collect(self) -> Document | None:
        """Return the merged document of all files; None as long as there is no directory.

        If a directory cannot be read, its files from before still count. A removed file does not count any more.
        """
        states: list[State] = []
        errors: list[AgentError] = []
        exists = False
        for directory in self._directories:
            try:
                names = sorted(os.listdir(directory))
            except FileNotFoundError:
                continue
            except OSError as error:
                errors.append(SourceError(f"cannot read {directory}: {error.strerror}"))
                states += [
                    (path, 0, 0, 0, 0)
                    for path in self.good
                    if os.path.dirname(path) == directory  # noqa: PTH120
                ]
                continue
            exists = True
            states += states_of(
                f"{directory}/{name}" for name in names if _is_document(name)
            )
        if not exists and not errors and self.last is None:
            return None
        self.good = {path: self.good[path] for path, *_ in states if path in self.good}
        return self.together(states, errors)


def _is_document(name: str) -> bool:
    """Return True if a file is a document, and not a temporary file of an editor."""
    return name.endswith(SUFFIXES) and not name.startswith(".")
