"""Heat's first metadata, which cloud-init writes to files: it says how to reach Heat, and may contain deployments."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Mapping
from pathlib import Path

from heat_config_agent.model.deployment import Document
from heat_config_agent.model.errors import AgentError, SourceError, UsageError
from heat_config_agent.sources import document_text, file
from heat_config_agent.sources.base import Reach


class HeatLocal:
    """The first of the files that exists and can be used. cloud-init writes the same file to two places.

    The files contain a password, and cloud-init leaves them readable for everyone: their mode is set to 0600.
    """

    name = "heat_local"

    def __init__(
        self,
        values: Mapping[str, object],
        reach: Reach,  # noqa: ARG002  # as all sources are made
        *,
        tighten: bool = True,
    ) -> None:
        """Prepare to read the files in the settings. With `tighten`, their mode is set to 0600."""
        self.trouble = ""
        self._tighten = tighten
        paths = values["path"]
        self._paths = [Path(path) for path in paths] if isinstance(paths, tuple) else []
        self._seen: tuple[object, ...] | None = None
        self._last: Document | None = None

    def collect(self) -> Document | None:
        """Return the document, which is read again if a file has changed; None if there is no file."""
        states = tuple(_state(path) for path in self._paths)
        if states == self._seen:
            return self._last
        content, errors = self._read()
        if content is None and errors:
            raise errors[0]
        self.trouble = "; ".join(
            [error.brief for error in errors] + _readable(self._paths)
        )
        if self._last is None or not document_text.same(content, self._last.content):
            self._last = (
                None if content is None else Document(source=self.name, content=content)
            )
        self._seen = states
        return self._last

    def _read(self) -> tuple[dict[str, object] | None, list[AgentError]]:
        """Return the content of the first usable file, and the errors of the files before it."""
        errors: list[AgentError] = []
        content: dict[str, object] | None = None
        for path in self._paths:
            if not os.path.lexists(path):
                continue
            try:
                text = file.regular(path, tighten=self._tighten)
                if content is None:
                    content = _object(text, path)
            except (SourceError, UsageError) as error:
                if content is None:
                    errors.append(error)
        return content, errors


def _object(text: str, path: Path) -> dict[str, object]:
    if not text.strip():
        raise UsageError(f"cannot read {path}: line 1, column 1: it is empty")
    content = document_text.load(text, str(path))
    if not isinstance(content, dict):
        raise UsageError(
            f"cannot read {path}: line 1, column 1: it is not a JSON object"
        )
    return content


def _state(path: Path) -> tuple[int, ...] | None:
    """Return facts that change when the content of a file changes; None if there is no file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _readable(paths: list[Path]) -> list[str]:
    """Return messages about the files that other users can still read."""
    messages: list[str] = []
    for path in paths:
        with contextlib.suppress(OSError):
            mode = path.stat().st_mode
            if stat.S_ISREG(mode) and mode & 0o077:
                messages.append(
                    f"{path} contains a password, and other users can read it"
                )
    return messages
