"""The last good document of each source, on disk: in force while its source is away, and after a restart."""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Collection, Mapping
from pathlib import Path

from heat_config_agent import kill_points, metadata
from heat_config_agent.configuration import BOOT, COLLECTORS, TRANSPORTS
from heat_config_agent.model import Document
from heat_config_hooks import files


class Documents:
    """The documents of one state directory."""

    def __init__(self, state: Path, *, change: bool = True) -> None:
        """Read what is there. A file that cannot be read is set aside: its source will give another.

        Without `change`, nothing is written, and nothing set aside.
        """
        self._change = change
        self._directory = state / "documents"
        self.held: dict[str, Document] = {}
        self.at: dict[str, float] = {}
        """When each was put in force, in seconds since the epoch."""
        self.warnings: list[str] = []
        for name in COLLECTORS:
            path = self._directory / f"{name}.json"
            try:
                said = json.loads(files.read(path))
                content, self.at[name] = said["content"], float(said["at"])
            except FileNotFoundError:
                continue
            except (OSError, ValueError, KeyError, TypeError, RecursionError, OverflowError) as error:
                self._set_aside(path, error)
                continue
            self.held[name] = Document(source=name, content=content)

    def take(self, document: Document) -> str:
        """Put a document in force, `refusal` permitting; return why it is not safe on disk; empty where it is.

        One that says nothing of deployments, not even that there are none, is about settings alone.
        """
        content, before = document.content, self.held.get(document.source)
        entries = _entries(before.content) if before else None
        if isinstance(content, Mapping) and content.get("deployments") is None and entries is not None:
            document = Document(source=document.source, content={**content, "deployments": entries})
        self.held[document.source], self.at[document.source] = document, time.time()
        if not self._change:
            return ""
        try:
            files.make_directory(self._directory, durable=True)
            said = {"source": document.source, "at": self.at[document.source], "content": document.content}
            text = json.dumps(said)
            files.replace(self._directory / f"{document.source}.json", text.encode(), durable=True)
        except OSError as error:
            return f"cannot keep the document of {document.source}: {error.strerror}"
        return ""

    def drop(self, name: str) -> None:
        """Let go of the document of a source that is not in use any more."""
        self.held.pop(name, None)
        self.at.pop(name, None)
        if not self._change:
            return
        try:
            (self._directory / f"{name}.json").unlink(missing_ok=True)
            kill_points.reached("documents.dropped")
        except OSError as error:
            self.warnings.append(f"cannot remove the document of {name}: {error.strerror}")

    def _set_aside(self, path: Path, error: Exception) -> None:
        aside = path.with_name(f"{path.name}.corrupt-{time.time_ns()}")
        why = error.strerror if isinstance(error, OSError) else "it is no document"
        if not self._change:
            self.warnings.append(f"cannot read {path}: {why}")
            return
        try:
            path.rename(aside)
            self.warnings.append(f"cannot read {path}: {why}; it is set aside as {aside.name}")
        except OSError as other:
            self.warnings.append(f"cannot read {path}: {why}, nor set it aside: {other.strerror}")


def refusal(document: Document) -> str:
    """Return why a document cannot be put in force: it is no metadata, so the one before it stays."""
    parsed = metadata.parse(document)
    if parsed.understood:
        return ""
    return f"{document.source} answered with something that is no metadata: {parsed.mistakes[0]}"


def _entries(content: object) -> list[object] | None:
    entries = content.get("deployments") if isinstance(content, Mapping) else content
    return entries if isinstance(entries, list) else None


def in_force(held: Mapping[str, Document], used: Collection[str]) -> list[Document]:
    """Return the documents that count, those of Heat's transports first.

    As soon as one of those has answered, what the instance was given when it was made counts no more: its deployments
    are either in Heat's document too, or have been replaced. A source that is not in use has no deployments any more.
    """
    transport = any(name in held for name in TRANSPORTS)
    found: list[Document] = []
    for name in COLLECTORS:
        if name in held and not (transport and name in BOOT):
            found.append(held[name])
        elif (transport and name in BOOT) or (name not in used and (transport or name not in TRANSPORTS)):
            found.append(_none_of(name))
    return found


@functools.cache
def _none_of(name: str) -> Document:
    """Return a document without deployments, the very same each time: what was made of it is known then."""
    return Document(source=name, content=[])
