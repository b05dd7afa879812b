"""Documents that people and programs put on the machine, as os-collect-config reads them too."""

from __future__ import annotations

import os
from collections.abc import Mapping

from heat_config_agent.errors import AgentError, SourceError
from heat_config_agent.model import Document
from heat_config_agent.sources import Reach
from heat_config_agent.sources.file import Several, State, states_of, texts

SUFFIXES = (".json", ".yaml", ".yml")


class Local(Several):
    """The documents in some directories, each in the order of names."""

    name = "local"

    def __init__(self, values: Mapping[str, object], reach: Reach) -> None:  # noqa: ARG002  # as all sources are made
        """Read the directories that the settings name."""
        super().__init__()
        self._directories = texts(values)

    def collect(self) -> Document | None:
        """Read all files; None as long as there is no directory.

        Where a directory cannot be read, what was in it still counts. A file that is gone says nothing any more.
        """
        states: list[State] = []
        troubles: list[AgentError] = []
        there = False
        for directory in self._directories:
            try:
                names = sorted(os.listdir(directory))
            except FileNotFoundError:
                continue
            except OSError as error:
                troubles.append(SourceError(f"cannot read {directory}: {error.strerror}"))
                states += [(path, 0, 0, 0, 0) for path in self.good if os.path.dirname(path) == directory]  # noqa: PTH120
                continue
            there = True
            states += states_of(f"{directory}/{name}" for name in names if _wanted(name))
        if not there and not troubles and self.last is None:
            return None
        self.good = {path: self.good[path] for path, *_ in states if path in self.good}
        return self.together(states, troubles)


def _wanted(name: str) -> bool:
    """Whether a file is a document, and not what an editor keeps beside one."""
    return name.endswith(SUFFIXES) and not name.startswith(".")
