"""Documents in files and on standard input."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from heat_config_agent.errors import AgentError, SourceError, UsageError
from heat_config_agent.model import Document
from heat_config_agent.sources import Reach, document

LARGEST = 64 * 1024 * 1024
"""Bytes of a document at most."""

SETTLED_NS = 2_000_000_000
"""A file that was written so long ago, in nanoseconds, has another time when it is written again."""

State = tuple[str, int, int, int, int]
"""What changes when a file does: path, device, inode, size, and time of its last change."""


def regular(path: Path, *, tighten: bool = False) -> str:
    """Return the text of a regular file, and of nothing else: a pipe has us wait. Raises SourceError.

    With `tighten` it is made 0600 first, if it is our own file under no other name: it holds passwords.
    """
    try:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
            tighten, descriptor = False, os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise SourceError(f"cannot read {path}: it is no file")
            own = status.st_uid == os.geteuid() and status.st_nlink == 1
            if tighten and own and stat.S_IMODE(status.st_mode) & 0o177:
                with contextlib.suppress(OSError):  # a file system that cannot be written to; it is read all the same
                    os.fchmod(descriptor, 0o600)
            with open(descriptor, "rb", closefd=False) as file:
                data = file.read(LARGEST + 1)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise SourceError(f"cannot read {path}: {error.strerror}") from error
    if len(data) > LARGEST:
        raise SourceError(f"cannot read {path}: it is longer than {LARGEST // 1024 // 1024} MiB")
    return data.decode("utf-8-sig", "replace")


class File:
    """A file of deployment metadata, JSON or YAML."""

    trouble = ""

    def __init__(self, path: Path) -> None:
        """Read `path` whenever asked to."""
        self.path = path
        self.name = f"file:{path.absolute()}"

    def collect(self) -> Document:
        """Read the file."""
        try:
            text = self.path.read_text(encoding="utf-8-sig", errors="replace")
        except OSError as error:
            raise SourceError(f"cannot read {self.path}: {error.strerror}") from error
        return Document(source=self.name, content=document.load(text, str(self.path)))


class Stdin:
    """Deployment metadata on standard input."""

    name = "stdin"
    trouble = ""

    def collect(self) -> Document:
        """Read to the end."""
        if sys.stdin is None:
            raise SourceError("cannot read standard input: it is closed")
        text = sys.stdin.buffer.read().decode("utf-8-sig", "replace")
        return Document(source=self.name, content=document.load(text, "standard input"))


class ShellConfig:
    """The list of deployments that os-apply-config writes for heat-agents (`$HEAT_SHELL_CONFIG`)."""

    trouble = ""

    def __init__(self, path: Path) -> None:
        """Read `path` whenever asked to."""
        self.path = path
        self.name = f"file:{path.absolute()}"

    def collect(self) -> Document:
        """Read the file, and make it 0600 first: it holds passwords.

        Empty, as its template leaves it, means no deployments.
        """
        try:
            if stat.S_IMODE(os.lstat(self.path).st_mode) != 0o600 and not self.path.is_symlink():
                self.path.chmod(0o600)
            text = self.path.read_text(encoding="utf-8-sig", errors="replace")
        except OSError as error:
            raise SourceError(f"cannot read {self.path}: {error.strerror}") from error
        return Document(source=self.name, content=document.load(text, str(self.path)) if text.strip() else [])


class Several:
    """Files that make one document: their deployments one after the other; of other keys the last file's value.

    A file that cannot be used is named, the others are used, and what it said before still counts: nothing is undone
    because an editor has written only half of it yet.
    """

    name: str
    others = True
    """Whether a file may have no deployments: other programs put theirs there too."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self.trouble = ""
        self._seen: Sequence[State] | None = None
        self.good: dict[str, dict[str, object]] = {}
        """What each file said when it could last be used."""
        self.last: Document | None = None

    def together(self, states: Sequence[State], troubles: Sequence[AgentError]) -> Document:
        """Return the document that files make together: the very one from before where nothing has changed."""
        if self.last is not None and not troubles and states == self._seen:
            return self.last
        wrong = list(troubles)
        said = [each.brief for each in troubles]
        for path, *_ in states:
            try:
                self.good[path] = _object(Path(path), others=self.others)
            except (SourceError, UsageError) as error:
                wrong.append(error)
                said.append(f"{error.brief}{'; what it said before still counts' if path in self.good else ''}")
        pieces = [self.good[path] for path, *_ in states if path in self.good]
        if wrong and not pieces:
            self._seen = None
            raise wrong[0]
        self.trouble = "; ".join(said)
        settled = all(time.time_ns() - changed > SETTLED_NS for *_, changed in states)
        self._seen = states if settled and not wrong else None
        content = _merged(pieces)
        if self.last is None or not document.same(self.last.content, content):
            self.last = Document(source=self.name, content=content)
        return self.last


class Files(Several):
    """The documents in some files. One that is not there has lost nothing: it was named, so it should be."""

    name = "file"
    others = False

    def __init__(self, values: Mapping[str, object], reach: Reach) -> None:  # noqa: ARG002  # as all sources are made
        """Read the files that the settings name."""
        super().__init__()
        self._paths = texts(values)

    def collect(self) -> Document | None:
        """Read all files; None where none is named."""
        return self.together(states_of(self._paths), ()) if self._paths else None


def texts(values: Mapping[str, object]) -> tuple[str, ...]:
    """Return the paths that the settings name, each once."""
    paths = values["path"]
    return tuple(dict.fromkeys(os.path.normpath(each) for each in paths)) if isinstance(paths, tuple) else ()


def states_of(paths: Iterable[str]) -> list[State]:
    """Return how it is with files."""
    found: list[State] = []
    for path in paths:
        try:
            status = os.stat(path)  # noqa: PTH116  # for each file at each poll
        except OSError:
            found.append((path, 0, 0, 0, 0))  # gone by now, or not to be reached: reading it says which
            continue
        found.append((path, status.st_dev, status.st_ino, status.st_size, max(status.st_mtime_ns, status.st_ctime_ns)))
    return found


def _object(path: Path, *, others: bool) -> dict[str, object]:
    """Return what a file says, which may be about `others`' business alone. Raises SourceError and UsageError."""
    found = document.load(regular(path), str(path))
    if isinstance(found, list):
        return {"deployments": found}
    if not isinstance(found, dict):
        raise UsageError(f"cannot read {path}: expected an object with deployments, or a list of them")
    if "heat_template_version" in found:  # it would make a template of all of them
        raise UsageError(f"cannot read {path}: this is a HOT template, not deployment metadata")
    entries = found.get("deployments")
    if entries is not None and not isinstance(entries, list):
        raise UsageError(f"cannot read {path}: deployments: expected a list")
    if not others and "deployments" not in found and "os-collect-config" not in found:
        raise UsageError(f"cannot read {path}: there is no `deployments` in it")
    return found


def _merged(pieces: Iterable[Mapping[str, object]]) -> dict[str, object]:
    merged: dict[str, object] = {}
    deployments: list[object] = []
    for piece in pieces:
        merged.update(piece)
        entries = piece.get("deployments")
        deployments += entries if isinstance(entries, list) else []
    return {**merged, "deployments": deployments}
