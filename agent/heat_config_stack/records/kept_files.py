"""Files of operations, kept in the folder of their stack under their digests.

A file that many operations have is written once: the records of the stack and the configs of deployments name it by
its digest, and the hook `tosca` reads it from the folder that `HEAT_STACK_FILES` names. In memory, records have the
content.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from heat_config_agent.model.errors import StateError
from heat_config_agent.model.positions import Json
from heat_config_hooks import files
from heat_config_stack.definition import OPERATION
from heat_config_stack.records.records import ConfigRecord, ResourceRecord, StackRecord

LEAST = 4096
"""The length of the shortest file that is kept so: a shorter one costs less where it is."""

_FOLDER = "files"
_SCRIPTS = ("config", "inverse_config")
"""The properties of an operation that have files."""

_NAMED = re.compile(r'"sha256":"([0-9a-f]{64})"')


class KeptFiles:
    """The kept files of one stack."""

    def __init__(self, folder: Path, *, write: bool) -> None:
        """Use a folder within that of a stack; it is made with the first file."""
        self.folder = folder / _FOLDER
        self.is_there = self.folder.is_dir()
        self._write = write
        self._digests: dict[str, str] = {}
        """Content as JSON has it → digest, of the files that are known to be there."""
        self._contents: dict[str, Json] = {}

    def keep(self, content: Json) -> Json:
        """Return a file as `{"sha256": …}` after its content is safe on disk; a short file as it is. Raises StateError.

        A file is text, or `{"base64": …}`.
        """
        text = _text(content)
        if len(text) < LEAST or not self._write:
            return content
        digest = self._digests.get(text)
        if digest is None:
            raw = _raw(content) or b""
            digest = hashlib.sha256(raw).hexdigest()
            self._put(digest, raw)
            self._digests[text], self._contents[digest] = digest, content
        return {"sha256": digest}

    def content(self, kept: Json) -> Json:
        """Return the content of a file that `keep` has returned; as it is if it is not kept, or no longer there."""
        if not isinstance(kept, dict) or kept.keys() != {"sha256"}:
            return kept
        digest = str(kept["sha256"])
        if digest not in self._contents:
            try:
                raw = files.read(self.folder / digest)
            except OSError:  # the hook says which file it misses
                return kept
            if hashlib.sha256(raw).hexdigest() != digest:
                return kept
            try:
                self._contents[digest] = raw.decode("utf-8", "surrogatepass")
            except UnicodeDecodeError:
                self._contents[digest] = {"base64": base64.b64encode(raw).decode()}
        return self._contents[digest]

    def _put(self, digest: str, content: bytes) -> None:
        path = self.folder / digest
        try:
            files.make_directory(self.folder, durable=True)
            if not path.exists() or files.read(path) != content:
                files.replace(path, content, durable=True)
        except OSError as error:
            raise StateError(
                f"cannot write {path}: {error.strerror}",
                hint="fix that, and run the command again to continue",
            ) from error
        self.is_there = True

    # Records.

    def outside(self, values: dict[str, Json]) -> dict[str, Json]:
        """Return the JSON of an operation's resource with its files named by digest. Raises StateError."""
        return _with_files(values, self.keep)

    def restore(
        self, stacks: Iterable[StackRecord], resources: Iterable[ResourceRecord]
    ) -> None:
        """Give the records of operations the content of their files: from the sources of stacks, or else from disk."""
        if not self.is_there:
            return
        for stack in stacks:
            for source in (stack.source, stack.source_before):
                known: Any = (
                    source.get("files") if isinstance(source, Mapping) else None
                )
                for content in known.values() if isinstance(known, Mapping) else ():
                    raw = _raw(content)
                    if raw is not None:
                        self._contents[hashlib.sha256(raw).hexdigest()] = content
        for record in resources:
            if record.definition is not None:
                found = _with_files(
                    {"type": record.type, "definition": record.definition}, self.content
                )
                record.definition = found["definition"]

    def sweep(
        self, resources: Iterable[ResourceRecord], configs: Iterable[ConfigRecord]
    ) -> None:
        """Remove the files that no record names. Raises OSError."""
        if not self.is_there:
            return
        names = set[str]().union(*(named(each.config) for each in configs))

        def note(content: Json) -> Json:
            kept = self.keep(content)
            if isinstance(kept, dict) and "sha256" in kept:
                names.add(kept["sha256"])
            return content

        for record in resources:
            _with_files({"type": record.type, "definition": record.definition}, note)
        for path in self.folder.iterdir():
            if path.name not in names:
                files.remove(path)


def named(config: Json) -> set[str]:
    """Return the digests of the kept files that the config of a deployment names."""
    return set(_NAMED.findall(str(config)))


def _text(content: Json) -> str:
    text = content.get("base64") if isinstance(content, dict) else content
    return text if isinstance(text, str) else ""


def _raw(content: Json) -> bytes | None:
    """Return the bytes of a file; None if it is too short to be kept."""
    text = _text(content)
    if len(text) < LEAST:
        return None
    return (
        base64.b64decode(text)
        if isinstance(content, dict)
        else text.encode("utf-8", "surrogatepass")
    )


def _with_files(
    values: dict[str, Json], change: Callable[[Json], Json]
) -> dict[str, Json]:
    """Return the JSON of a resource with each file of an operation changed."""
    definition: Any = values.get("definition")
    if values.get("type") != OPERATION or not isinstance(definition, Mapping):
        return values
    properties: Any = definition.get("properties")
    if not isinstance(properties, Mapping):
        return values
    changed: dict[str, Json] = {}
    for name in _SCRIPTS:
        script: Any = properties.get(name)
        if isinstance(script, Mapping) and isinstance(script.get("files"), Mapping):
            own = {path: change(content) for path, content in script["files"].items()}
            if any(
                own[path] is not content for path, content in script["files"].items()
            ):
                changed[name] = {**script, "files": own}
    if isinstance(properties.get("files"), Mapping):
        changed["files"] = {
            path: change(content) for path, content in properties["files"].items()
        }
    return (
        {
            **values,
            "definition": {**definition, "properties": {**properties, **changed}},
        }
        if changed
        else values
    )


__all__ = ["LEAST", "KeptFiles", "named"]
