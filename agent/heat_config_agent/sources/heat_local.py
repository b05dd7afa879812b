"""Heat's first metadata, which cloud-init leaves on the instance: how to reach Heat, and perhaps deployments."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Mapping
from pathlib import Path

from heat_config_agent.errors import AgentError, SourceError, UsageError
from heat_config_agent.model import Document
from heat_config_agent.sources import Reach, document, file


class HeatLocal:
    """The first of some files that is there and can be used; cloud-init writes the same one to two places.

    Each holds a password, and cloud-init leaves it readable for all: it is made 0600.
    """

    name = "heat_local"

    def __init__(
        self,
        values: Mapping[str, object],
        reach: Reach,  # noqa: ARG002  # as all sources are made
        *,
        tighten: bool = True,
    ) -> None:
        """Read the files that the settings name; make them 0600, if not told otherwise."""
        self.trouble = ""
        self._tighten = tighten
        paths = values["path"]
        self._paths = [Path(each) for each in paths] if isinstance(paths, tuple) else []
        self._seen: tuple[object, ...] | None = None
        self._last: Document | None = None

    def collect(self) -> Document | None:
        """Read the files, unless they are as they were; None where there is none."""
        seen = tuple(_state(path) for path in self._paths)
        if seen == self._seen:
            return self._last
        found, troubles = self._read()
        if found is None and troubles:
            raise troubles[0]
        self.trouble = "; ".join([each.brief for each in troubles] + _readable(self._paths))
        if self._last is None or not document.same(found, self._last.content):
            self._last = None if found is None else Document(source=self.name, content=found)
        self._seen = seen
        return self._last

    def _read(self) -> tuple[dict[str, object] | None, list[AgentError]]:
        """Return what the first file that can be used holds, and what is wrong with those before it."""
        troubles: list[AgentError] = []
        found: dict[str, object] | None = None
        for path in self._paths:
            if not os.path.lexists(path):
                continue
            try:
                text = file.regular(path, tighten=self._tighten)
                if found is None:
                    found = _object(text, path)
            except (SourceError, UsageError) as error:
                if found is None:
                    troubles.append(error)
        return found, troubles


def _object(text: str, path: Path) -> dict[str, object]:
    if not text.strip():
        raise UsageError(f"cannot read {path}: line 1, column 1: it is empty")
    found = document.load(text, str(path))
    if not isinstance(found, dict):
        raise UsageError(f"cannot read {path}: line 1, column 1: it is no JSON object")
    return found


def _state(path: Path) -> tuple[int, ...] | None:
    """Return what changes when what is in a file does; None where there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _readable(paths: list[Path]) -> list[str]:
    """Return which files others can still read, in words."""
    found: list[str] = []
    for path in paths:
        with contextlib.suppress(OSError):
            mode = path.stat().st_mode
            if stat.S_ISREG(mode) and mode & 0o077:
                found.append(f"{path} holds a password, and others can read it")
    return found
