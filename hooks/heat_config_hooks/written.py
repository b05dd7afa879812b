"""Files that a hook writes anywhere on the machine, and removes again only if no one has changed them since.

For each file, the hook's working folder has a note: the path, all owners, and a digest of the content.
The note is on disk before the file is, so every file that was written has a note.
If the hook replaces a file that it has not written, it keeps the old file next to the note.
When its own file is removed, the old one is put back.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

from heat_config_hooks import files
from heat_config_hooks.protocol import Request
from heat_config_hooks.reply import Reply, failure
from heat_config_hooks.values import dataclass

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from heat_config_hooks.verdict import Change, Verdict  # few runs verify

FAILED = 1
"""Status code of a deployment that could not write or remove a file."""

_RESOURCE = "resource "
"""The beginning of an owner that is a deployment resource."""

_MANY = 100
"""The largest number of owners of one file: where each action has a new name, old owners never remove the file."""


def owner(request: Request) -> str:
    """Return the owner of a deployment's files, which is the same for all actions of one deployment resource.

    If the inputs do not name the resource, the owner is the name of the deployment.
    """
    stack, resource = (
        request.inputs.get("deploy_stack_id"),
        request.inputs.get("deploy_resource_name"),
    )
    return (
        f"{_RESOURCE}{stack}/{resource}"
        if stack and resource
        else request.name or request.id
    )


@dataclass(frozen=True)
class _Note:
    path: Path
    owners: tuple[str, ...]
    """All that have written the file, the latest last."""
    digests: tuple[str, ...]
    """Digests of the content that was written, and of the content that was to be written when the note was made."""

    def others(self, owner: str) -> tuple[str, ...]:
        """Return the owners that still need the file if `owner` does not.

        If `owner` is not among the owners, it may have written the file under another name.
        A name may change, but a resource does not, so in that case only resources count as others.
        """
        rest = tuple(other for other in self.owners if other != owner)
        return (
            rest
            if owner in self.owners
            else tuple(other for other in rest if other.startswith(_RESOURCE))
        )


class Written:
    """The files that one hook has written."""

    def __init__(self, working: Path) -> None:
        """Keep the notes in `working`, the hook's working folder."""
        self._notes = working / "written"

    def write_all(
        self, contents: Mapping[Path, bytes], *, owner: str, mode: int = 0o600
    ) -> Reply:
        """Write files one after the other, and return the reply of a deployment that does nothing else.

        As in heat-agents, a reply of success is empty.
        The first file that cannot be written ends it; the reply then names the files that were not written.
        """
        paths = list(contents)
        for index, (path, content) in enumerate(contents.items()):
            try:
                self.write(path, content, owner=owner, mode=mode)
            except OSError as error:
                rest = ", ".join(map(str, paths[index + 1 :]))
                remark = (
                    f"; because of that, these were not written: {rest}" if rest else ""
                )
                return failure(
                    FAILED, f"cannot write {path}: {_reason(error, path)}{remark}"
                )
        return {"deploy_stdout": "", "deploy_stderr": "", "deploy_status_code": 0}

    def remove_all(self, paths: Iterable[Path], *, owner: str) -> Reply:
        """Remove `paths` and all files of an owner, and return the reply of a deployment that does nothing else.

        Standard error says what was done with each file.
        If a file cannot be removed, the others are removed nevertheless, and the reply is a failure.
        """
        sentences, code = [], 0
        for path in sorted(
            {*paths, *(note.path for note in self._all() if owner in note.owners)}
        ):
            try:
                sentences.append(self.remove(path, owner=owner))
            except OSError as error:
                sentences.append(f"cannot remove {path}: {_reason(error, path)}")
                code = FAILED
        stderr = "".join(
            f"{sentence}\n" for sentence in sentences or ["there is nothing to remove"]
        )
        return {
            "deploy_stdout": "",
            "deploy_stderr": stderr,
            "deploy_status_code": code,
        }

    def write(
        self, path: Path, content: bytes, *, owner: str, mode: int = 0o600
    ) -> bool:
        """Write a file durably, with its folders, and return whether that changed it. Raises OSError.

        A link is replaced and not followed, because everybody who may write to its folder could choose its target.
        An existing file keeps its user and group.
        The exception is a file that we have not written, in a folder to which everybody may write:
        someone may have put it there to become the owner of our file.
        """
        digest, present = _digest(content), _digest_at(path)
        if present == _NO_FILE and not path.is_symlink():
            raise OSError(
                errno.EEXIST,
                f"{'a folder' if path.is_dir() else 'something else'} is in its place",
            )
        note, old = self._note(path), path.lstat() if present else None
        kept = (
            old is not None
            and present != _NO_FILE
            and (note is not None or not _is_shared(path.parent))
        )
        same = (
            present == digest
            and old is not None
            and (kept or old.st_uid == os.geteuid())
        )
        if note is None and old and present not in (_NO_FILE, digest):
            self._set_aside(path, old)
        self._keep(path, note, owner, digest, present)
        if not same:
            # Missing folders can be searched by all who may read the file.
            files.make_directory(
                path.parent, durable=True, mode=files.with_search(mode & 0o644 | 0o700)
            )
            files.replace(path, content, mode=mode, durable=True)
            if kept and old:
                with contextlib.suppress(PermissionError):
                    # without root's rights, the file is now our user's
                    os.chown(path, old.st_uid, old.st_gid)
        elif old and stat.S_IMODE(old.st_mode) != mode:
            path.chmod(mode)
            return True
        return not same

    def verified(
        self, contents: Mapping[Path, bytes], *, owner: str, mode: int = 0o600
    ) -> Verdict:
        """Return whether files are as a deployment of this owner has written them. This changes nothing."""
        from heat_config_hooks import verdict  # noqa: PLC0415  # few runs verify

        changes, others = [], []
        for path, content in contents.items():
            try:
                change = difference(path, content, mode)
            except OSError as error:
                return verdict.unknown(f"cannot read {path}: {_reason(error, path)}")
            note = self._note(path) if change else None
            if change and note and note.owners[-1] != owner:
                others.append(path)
            elif change:
                changes.append(change)
        if changes:
            return verdict.drifted(changes)
        if others:
            return verdict.unknown(f"another deployment has written {others[0]} since")
        return verdict.in_effect(map(str, contents))

    def has(self, path: Path) -> bool:
        """Return whether this hook has written a file, for whatever owner."""
        return self._note(path) is not None

    def of(self, owner: str) -> list[Path]:
        """Return the files whose latest owner is `owner`."""
        return sorted(note.path for note in self._all() if note.owners[-1] == owner)

    def remove(self, path: Path, *, owner: str = "") -> str:
        """Remove a file unless it has changed since it was written; return a sentence about it. Raises OSError.

        A file that has other owners besides `owner` stays. Without `owner`, no other owners are considered.
        """
        note, present = self._note(path), _digest_at(path)
        if present is None:
            self.forget([path])
            return f"{path} does not exist"
        if note is None:
            return f"{path} is left alone: it was not written here"
        if owner and (others := note.others(owner)):
            if owner in note.owners:
                self._write(_Note(path, others, note.digests))
            return f"{path} is left alone: another deployment has it too"
        if present not in note.digests:
            return f"{path} is left alone: it was changed since it was written"
        if self._put_back(path):
            sentence = f"{path} was put back as it was before"
        else:
            path.unlink(missing_ok=True)
            files.sync_directory(path.parent)
            sentence = f"{path} was removed"
        self.forget([path])
        return sentence

    def forget(self, paths: Iterable[Path]) -> None:
        """Remove the notes of files, and what was set aside for them."""
        for path in paths:
            self._file(path).unlink(missing_ok=True)
            self._before(path).unlink(missing_ok=True)

    def _set_aside(self, path: Path, status: os.stat_result) -> None:
        """Keep a copy of a file that we have not written and are about to replace."""
        with open(
            os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC),
            "rb",
        ) as file:
            content = file.read()
        head = json.dumps([status.st_mode & 0o777, status.st_uid, status.st_gid])
        files.make_directory(self._notes, durable=True)
        files.replace(self._before(path), f"{head}\n".encode() + content, durable=True)

    def _put_back(self, path: Path) -> bool:
        """Put back the file that was set aside; return whether there was one. Raises OSError."""
        try:
            head, _, content = self._before(path).read_bytes().partition(b"\n")
        except FileNotFoundError:
            return False
        mode, user, group = json.loads(head)
        files.replace(path, content, mode=mode, durable=True)
        with contextlib.suppress(PermissionError):
            # without root's rights, the file is now our user's
            os.chown(path, user, group)
        return True

    def _before(self, path: Path) -> Path:
        """Return the copy of a file that was set aside."""
        return self._file(path).with_suffix(".before")

    def _keep(
        self,
        path: Path,
        old: _Note | None,
        owner: str,
        digest: str,
        present: str | None,
    ) -> None:
        """Write the note of a file that is about to be written; `present` is the digest of its present content."""
        earlier = (
            (present,)
            if old and present and present != digest and present in old.digests
            else ()
        )
        others = tuple(other for other in old.owners if other != owner) if old else ()
        note = _Note(path, (*others, owner)[-_MANY:], (*earlier, digest))
        if note != old:
            self._write(note)

    def _write(self, note: _Note) -> None:
        files.make_directory(self._notes, durable=True)
        values = {
            "path": str(note.path),
            "owners": note.owners,
            "digests": note.digests,
        }
        files.replace(self._file(note.path), json.dumps(values).encode(), durable=True)

    def _all(self) -> list[_Note]:
        paths = self._notes.glob("*.json") if self._notes.is_dir() else ()
        return [note for path in paths if (note := _read(path))]

    def _note(self, path: Path) -> _Note | None:
        return _read(self._file(path))

    def _file(self, path: Path) -> Path:
        """Return the note of a file."""
        return self._notes / f"{_digest(os.fsencode(path))[:40]}.json"


def _read(path: Path) -> _Note | None:
    """Return a note; None if it is missing or damaged, in which case the file itself is never removed."""
    try:
        values = json.loads(path.read_bytes())
        # older notes have one owner
        owners = values["owners"] if "owners" in values else [values["owner"]]
        return _Note(
            Path(values["path"]), (*owners[:-1], owners[-1]), tuple(values["digests"])
        )
    except (OSError, ValueError, TypeError, LookupError):
        return None


def difference(path: Path, content: bytes, mode: int | None) -> Change | None:
    """Return how a file differs from its content and mode; None if it does not. Raises OSError.

    Without a `mode`, any mode will do.
    """
    from heat_config_hooks.verdict import Change, text_diff  # noqa: PLC0415  # few runs verify

    try:
        status = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return Change(what=str(path), how="it is missing")
    if not stat.S_ISREG(status.st_mode):
        kinds = {stat.S_IFLNK: "a link", stat.S_IFDIR: "a folder"}
        kind = kinds.get(stat.S_IFMT(status.st_mode), "something else")
        return Change(what=str(path), how=f"{kind} is in its place")
    if status.st_size != len(content) or _digest_at(path) != _digest(content):
        with open(files.open_regular(path), "rb") as file:
            present = file.read(_DIFFABLE).decode("utf-8", "replace")
        wanted = content[:_DIFFABLE].decode("utf-8", "replace")
        diff = text_diff(present, wanted)
        return Change(what=str(path), how="its content differs", diff=diff)
    present_mode = stat.S_IMODE(status.st_mode)
    if mode is not None and present_mode != mode:
        how = f"its mode is {present_mode:04o} instead of {mode:04o}"
        return Change(what=str(path), how=how)
    return None


_DIFFABLE = 256 * 1024
"""The number of bytes of a file that are compared line by line."""

_NO_FILE = "no file"
"""Stands for the digest of something that is not a regular file."""


def _digest_at(path: Path) -> str | None:
    """Return the digest of a file, `_NO_FILE` for something else, or None if nothing is there. Raises OSError."""
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            return _NO_FILE
        with open(
            os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC),
            "rb",
        ) as file:
            digest = hashlib.sha256()
            while part := file.read(1024 * 1024):
                digest.update(part)
            return digest.hexdigest()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _is_shared(folder: Path) -> bool:
    """Return whether everybody may put files into a folder, as into /tmp."""
    return folder.is_dir() and bool(folder.stat().st_mode & stat.S_IWOTH)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _reason(error: OSError, path: Path) -> str:
    """Return the reason of an error, with the file that caused it if that is not `path`."""
    reason = error.strerror or str(error)
    if not error.filename or Path(os.fsdecode(error.filename)) == path:
        return reason
    return f"{reason}: {os.fsdecode(error.filename)}"
