"""Files that a hook has written anywhere on the machine, and may remove again: only while they are as it left them.

Which they are is kept in the hook's working folder, one small file for each: its path, whose it is, and a digest of
what was written. The note is on disk before the file is, so none is ever written that nobody knows of.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from heat_config_hooks import files
from heat_config_hooks.protocol import Request


def owner(request: Request) -> str:
    """Return whose files a deployment's are: the same for all actions of one deployment resource."""
    stack, resource = request.inputs.get("deploy_stack_id"), request.inputs.get("deploy_resource_name")
    return f"{stack}/{resource}" if stack and resource else request.name or request.id


@dataclass(frozen=True)
class _Note:
    path: Path
    owner: str
    digests: tuple[str, ...]
    """Of what was written, and of what was to be written when the note was made."""


class Written:
    """The files of one hook."""

    def __init__(self, working: Path) -> None:
        """Keep the notes in the hook's working folder."""
        self._notes = working / "written"

    def write(self, path: Path, content: bytes, *, owner: str, mode: int = 0o600) -> bool:
        """Write a file, durably and whole; return whether that changed it. Raises OSError."""
        digest = _digest(content)
        known = self._note(path)
        same = _content(path) == content
        earlier = known.digests[-1:] if known and not same else ()
        files.make_directory(self._notes)
        note = {"path": str(path), "owner": owner, "digests": [*earlier, digest]}
        files.replace(self._file(path), json.dumps(note).encode(), durable=True)
        if same:
            path.chmod(mode)
        else:
            files.replace(path, content, mode=mode, durable=True)
        return not same

    def of(self, owner: str) -> list[Path]:
        """Return the files that were written for an owner."""
        notes = self._notes.glob("*.json") if self._notes.is_dir() else ()
        found = [_read(each) for each in notes]
        return sorted(note.path for note in found if note and note.owner == owner)

    def remove(self, path: Path) -> str:
        """Remove a file if it is still as it was written; return in words what was done. Raises OSError."""
        known = self._note(path)
        if known is None:
            return f"{path} is left alone: it was not written here"
        content = _content(path)
        if content is not None and _digest(content) not in known.digests:
            return f"{path} is left alone: it was changed since it was written"
        if content is not None:
            path.unlink(missing_ok=True)
            files.sync_directory(path.parent)
        self._file(path).unlink(missing_ok=True)
        return f"{path} was removed" if content is not None else f"{path} was gone already"

    def forget(self, paths: Iterable[Path]) -> None:
        """Have nothing to do with files any more."""
        for path in paths:
            self._file(path).unlink(missing_ok=True)

    def _note(self, path: Path) -> _Note | None:
        return _read(self._file(path))

    def _file(self, path: Path) -> Path:
        return self._notes / f"{_digest(str(path).encode('utf-8', 'surrogateescape'))[:40]}.json"


def _read(path: Path) -> _Note | None:
    try:
        values = json.loads(path.read_bytes())
        return _Note(Path(values["path"]), values["owner"], tuple(values["digests"]))
    except (OSError, ValueError, TypeError, KeyError):  # nothing is known of what it was about, so it stays
        return None


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes() if path.is_file() else None
    except OSError:
        return None


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
