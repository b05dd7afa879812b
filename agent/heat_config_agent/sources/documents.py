"""Keeps the last valid document of each source on disk: it is in force while its source is away and after a restart."""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Collection, Mapping
from pathlib import Path

from heat_config_agent.deployments.metadata import Parsed
from heat_config_agent.model.deployment import Document
from heat_config_agent.settings.schema import BOOT, COLLECTORS, TRANSPORTS
from heat_config_hooks import files


class Documents:
    """The documents in one state directory."""

    def __init__(self, state: Path, *, change: bool = True) -> None:
        """Read the files. A file that cannot be read is set aside, because its source will give another one.

        Without `change`, nothing is written and nothing is set aside.
        """
        self._change = change
        self._directory = state / "documents"
        self.held: dict[str, Document] = {}
        self.at: dict[str, float] = {}
        """The time at which each document came into force, in seconds since the epoch."""
        self.warnings: list[str] = []
        for name in COLLECTORS:
            path = self._directory / f"{name}.json"
            try:
                record = json.loads(files.read(path))
                content, self.at[name] = record["content"], float(record["at"])
                signatures = tuple(map(str, record.get("signatures", ())))
            except FileNotFoundError:
                continue
            except (
                OSError,
                ValueError,
                KeyError,
                TypeError,
                RecursionError,
                OverflowError,
            ) as error:
                self._set_aside(path, error)
                continue
            self.held[name] = Document(
                source=name, content=content, signatures=signatures
            )

    def take(self, document: Document) -> str:
        """Put a document in force that has no `refusal`; return why it could not be written to disk, else empty text.

        A document without a list of deployments is about settings alone: the deployments before it stay.
        """
        content, before = document.content, self.held.get(document.source)
        entries = _entries(before.content) if before else None
        if (
            isinstance(content, Mapping)
            and content.get("deployments") is None
            and entries is not None
        ):
            content = {**content, "deployments": entries}
            document = Document(
                source=document.source,
                content=content,
                signatures=before.signatures if before else (),
            )
        self.held[document.source], self.at[document.source] = document, time.time()
        if not self._change:
            return ""
        try:
            files.make_directory(self._directory, durable=True)
            record = {
                "source": document.source,
                "at": self.at[document.source],
                "content": document.content,
            }
            if document.signatures:
                record["signatures"] = document.signatures
            text = json.dumps(record)
            files.replace(
                self._directory / f"{document.source}.json", text.encode(), durable=True
            )
        except OSError as error:
            return f"cannot keep the document of {document.source}: {error.strerror}"
        return ""

    def drop(self, name: str) -> None:
        """Remove the document of a source that is not in use any more."""
        self.held.pop(name, None)
        self.at.pop(name, None)
        if not self._change:
            return
        try:
            (self._directory / f"{name}.json").unlink(missing_ok=True)
        except OSError as error:
            self.warnings.append(
                f"cannot remove the document of {name}: {error.strerror}"
            )

    def _set_aside(self, path: Path, error: Exception) -> None:
        aside = path.with_name(f"{path.name}.corrupt-{time.time_ns()}")
        why = error.strerror if isinstance(error, OSError) else "it is not a document"
        if not self._change:
            self.warnings.append(f"cannot read {path}: {why}")
            return
        try:
            path.rename(aside)
            self.warnings.append(
                f"cannot read {path}: {why}; it is set aside as {aside.name}"
            )
        except OSError as other:
            self.warnings.append(
                f"cannot read {path}: {why}, nor set it aside: {other.strerror}"
            )


def refusal(source: str, parsed: Parsed) -> str:
    """Return why a parsed document of a source cannot come into force; empty if it can.

    A document that is not metadata is refused, and the one before it stays in force.
    """
    if parsed.understood:
        return ""
    return (
        f"{source} answered with something that is not metadata: {parsed.mistakes[0]}"
    )


def _entries(content: object) -> list[object] | None:
    entries = content.get("deployments") if isinstance(content, Mapping) else content
    return entries if isinstance(entries, list) else None


def in_force(held: Mapping[str, Document], used: Collection[str]) -> list[Document]:
    """Return the documents in force, those of Heat's transports first.

    As soon as a transport has answered, the documents that the instance has from its creation do not count any more:
    their deployments are either in Heat's document too, or have been replaced. A source that is not in use has no
    deployments any more.
    """
    transport = any(name in held for name in TRANSPORTS)
    documents: list[Document] = []
    for name in COLLECTORS:
        if name in held and not (transport and name in BOOT):
            documents.append(held[name])
        elif (transport and name in BOOT) or (
            name not in used and (transport or name not in TRANSPORTS)
        ):
            documents.append(_empty(name))
    return documents


@functools.cache
def _empty(name: str) -> Document:
    """Return a document without deployments: the same object each time, so that it is parsed once."""
    return Document(source=name, content=[])
