"""Files that a hook has written anywhere on the machine, and may remove again: only while they are as it left them.

Which they are is kept in the hook's working folder, one small file for each: its path, all who have written it, and a
digest of what was written. The note is on disk before the file is, so none is ever written that nobody knows of. A
file that was there before, and is not ours, is kept beside its note, and put back when ours is removed.
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

FAILED = 1
"""Status code of a deployment of which a file could not be written or removed."""

_RESOURCE = "resource "

_MANY = 100
"""Owners of one file at most: where names are new at each action, none of them ever comes back to be taken off."""


def owner(request: Request) -> str:
    """Return whose files a deployment's are: the same for all actions of one deployment resource.

    Where the inputs do not say which resource that is, the deployment's name has to do.
    """
    stack, resource = request.inputs.get("deploy_stack_id"), request.inputs.get("deploy_resource_name")
    return f"{_RESOURCE}{stack}/{resource}" if stack and resource else request.name or request.id


@dataclass(frozen=True)
class _Note:
    path: Path
    owners: tuple[str, ...]
    """Whoever last wrote it is the last."""
    digests: tuple[str, ...]
    """Of what was written, and of what was to be written when the note was made."""

    def others(self, owner: str) -> tuple[str, ...]:
        """Return who would miss the file if `owner` removed it.

        Where `owner` has not written it under this name, it may have done so under any other name, but not as a
        resource: a name may change, a resource does not.
        """
        rest = tuple(each for each in self.owners if each != owner)
        return rest if owner in self.owners else tuple(each for each in rest if each.startswith(_RESOURCE))


class Written:
    """The files of one hook."""

    def __init__(self, working: Path) -> None:
        """Keep the notes in the hook's working folder."""
        self._notes = working / "written"

    def write_all(self, contents: Mapping[Path, bytes], *, owner: str, mode: int = 0o600) -> Reply:
        """Write files, one after the other; return the reply of a deployment that is just that.

        It says of each file whether that changed it. What cannot be written is where it ends: the reply has failed, and
        says what was written before and what was not tried.
        """
        done: list[str] = []
        for path, content in contents.items():
            try:
                changed = self.write(path, content, owner=owner, mode=mode)
            except OSError as error:
                rest = ", ".join(str(each) for each in [*contents][len(done) + 1 :])
                untried = f"; after that, these were not written: {rest}" if rest else ""
                return failure(FAILED, f"cannot write {path}: {_reason(error, path)}{untried}", "".join(done))
            done.append(f"{path} {'written' if changed else 'unchanged'}\n")
        return {"deploy_stdout": "".join(done), "deploy_stderr": "", "deploy_status_code": 0}

    def remove_all(self, paths: Iterable[Path], *, owner: str) -> Reply:
        """Remove an owner's files, and others, where `remove` does; return the reply of a deployment that is just that.

        It has failed where one could not be removed; the others are all the same.
        """
        said, failed = [], []
        for path in sorted({*paths, *(note.path for note in self._all() if owner in note.owners)}):
            try:
                said.append(f"{self.remove(path, owner=owner)}\n")
            except OSError as error:
                failed.append(f"cannot remove {path}: {_reason(error, path)}\n")
        return {
            "deploy_stdout": "".join(said) or ("" if failed else "there is nothing to remove\n"),
            "deploy_stderr": "".join(failed),
            "deploy_status_code": FAILED if failed else 0,
        }

    def write(self, path: Path, content: bytes, *, owner: str, mode: int = 0o600) -> bool:
        """Write a file, durably and whole, its folders made; return whether that changed it. Raises OSError.

        A link is replaced, not followed: whoever may write to its folder could lead us anywhere. Whoever owns a file
        goes on to own it, unless it is not ours and in a folder for all: anybody may have put it there, to have ours.
        """
        digest, found = _digest(content), _digest_at(path)
        if found == _NO_FILE and not path.is_symlink():
            raise OSError(errno.EEXIST, f"{'a folder' if path.is_dir() else 'something else'} is in its place")
        known, old = self._note(path), path.lstat() if found else None
        kept = old is not None and found != _NO_FILE and (known is not None or not _for_all(path.parent))
        same = found == digest and old is not None and (kept or old.st_uid == os.geteuid())
        if known is None and old and found not in (_NO_FILE, digest):
            self._set_aside(path, old)
        self._keep(path, known, owner, digest, found)
        if not same:
            files.make_directory(path.parent, durable=True)
            files.replace(path, content, mode=mode, durable=True)
            if kept and old:
                with contextlib.suppress(PermissionError):  # we are not root, and it is ours now
                    os.chown(path, old.st_uid, old.st_gid)
        elif old and stat.S_IMODE(old.st_mode) != mode:
            path.chmod(mode)
            return True
        return not same

    def of(self, owner: str) -> list[Path]:
        """Return the files that were last written for an owner."""
        return sorted(note.path for note in self._all() if note.owners[-1] == owner)

    def remove(self, path: Path, *, owner: str = "") -> str:
        """Remove a file if it is still as it was written; return in words what was done. Raises OSError.

        One that others than `owner` have written, too, is left to them. Without an owner, it is nobody's but ours.
        """
        known, found = self._note(path), _digest_at(path)
        if found is None:
            self.forget([path])
            return f"{path} is not there"
        if known is None:
            return f"{path} is left alone: it was not written here"
        if owner and (others := known.others(owner)):
            if owner in known.owners:
                self._write(_Note(path, others, known.digests))
            return f"{path} is left alone: another deployment has it too"
        if found not in known.digests:
            return f"{path} is left alone: it was changed since it was written"
        if self._put_back(path):
            said = f"{path} was put back as it was before"
        else:
            path.unlink(missing_ok=True)
            files.sync_directory(path.parent)
            said = f"{path} was removed"
        self.forget([path])
        return said

    def forget(self, paths: Iterable[Path]) -> None:
        """Have nothing to do with files any more."""
        for path in paths:
            self._file(path).unlink(missing_ok=True)
            self._before(path).unlink(missing_ok=True)

    def _set_aside(self, path: Path, found: os.stat_result) -> None:
        """Keep a file that is not ours, and is to be replaced, until ours goes."""
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
            content = file.read()
        about = json.dumps([found.st_mode & 0o777, found.st_uid, found.st_gid])
        files.make_directory(self._notes, durable=True)
        files.replace(self._before(path), f"{about}\n".encode() + content, durable=True)

    def _put_back(self, path: Path) -> bool:
        """Put back what was there before ours; return whether there was anything. Raises OSError."""
        try:
            about, _, content = self._before(path).read_bytes().partition(b"\n")
        except FileNotFoundError:
            return False
        mode, user, group = json.loads(about)
        files.replace(path, content, mode=mode, durable=True)
        with contextlib.suppress(PermissionError):  # we are not root, and it is ours now
            os.chown(path, user, group)
        return True

    def _before(self, path: Path) -> Path:
        return self._file(path).with_suffix(".before")

    def _keep(self, path: Path, known: _Note | None, owner: str, digest: str, found: str | None) -> None:
        """Note that a file is to be written, where now `found` is."""
        earlier = (found,) if known and found and found != digest and found in known.digests else ()
        others = tuple(each for each in known.owners if each != owner) if known else ()
        note = _Note(path, (*others, owner)[-_MANY:], (*earlier, digest))
        if note != known:
            self._write(note)

    def _write(self, note: _Note) -> None:
        files.make_directory(self._notes, durable=True)
        values = {"path": str(note.path), "owners": note.owners, "digests": note.digests}
        files.replace(self._file(note.path), json.dumps(values).encode(), durable=True)

    def _all(self) -> list[_Note]:
        notes = self._notes.glob("*.json") if self._notes.is_dir() else ()
        return [note for each in notes if (note := _read(each))]

    def _note(self, path: Path) -> _Note | None:
        return _read(self._file(path))

    def _file(self, path: Path) -> Path:
        return self._notes / f"{_digest(os.fsencode(path))[:40]}.json"


def _read(path: Path) -> _Note | None:
    try:
        values = json.loads(path.read_bytes())
        owners = values["owners"] if "owners" in values else [values["owner"]]  # there was just one once
        return _Note(Path(values["path"]), (*owners[:-1], owners[-1]), tuple(values["digests"]))
    except (OSError, ValueError, TypeError, LookupError):  # nothing is known of what it was about, so it stays
        return None


_NO_FILE = "no file"


def _digest_at(path: Path) -> str | None:
    """Return the digest of a file; None where nothing is, `_NO_FILE` where something else is. Raises OSError."""
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            return _NO_FILE
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            found = hashlib.sha256()
            while part := file.read(1024 * 1024):
                found.update(part)
            return found.hexdigest()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _for_all(folder: Path) -> bool:
    """Whether anybody may put files into a folder, as into /tmp."""
    return folder.is_dir() and bool(folder.stat().st_mode & stat.S_IWOTH)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _reason(error: OSError, path: Path) -> str:
    """Return why something cannot be done with a file, and what is in its way where that is not the file itself."""
    reason = error.strerror or str(error)
    if not error.filename or Path(os.fsdecode(error.filename)) == path:
        return reason
    return f"{reason}: {os.fsdecode(error.filename)}"
