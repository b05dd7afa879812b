"""Documents in files and on standard input."""

from __future__ import annotations

import codecs
import contextlib
import errno
import functools
import os
import stat
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from heat_config_agent.deployments import metadata
from heat_config_agent.model.deployment import SIGNATURES, Document, Mistake
from heat_config_agent.model.errors import AgentError, SourceError, UsageError
from heat_config_agent.settings.in_force import policy_in_force
from heat_config_agent.sources import document_text
from heat_config_hooks import files
from heat_config_hooks.values import replace

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from heat_config_agent.sources.base import Reach

SETTLED_NS = 2_000_000_000
"""A file that was written at least this long ago, in nanoseconds, gets another time when it is written again."""

State = tuple[str, int, int, int, int]
"""The facts that change when a file changes: its path, device, inode, size, and the time of its last change."""


def regular(path: Path, *, tighten: bool = False) -> str:
    """Return the text of a regular file. Raises SourceError, see `_regular`."""
    return files.text_of(_regular(path, tighten=tighten))


def _regular(path: Path, *, tighten: bool = False) -> bytes:
    """Return the content of a regular file. Raises SourceError for anything else, because reading a pipe could block.

    With `tighten`, its mode is set to 0600 first, because it contains passwords, if the file is the user's own and has
    no other name.
    """
    try:
        try:
            descriptor = os.open(
                path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW
            )
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
            tighten, descriptor = (
                False,
                os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK),
            )
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise SourceError(f"cannot read {path}: it is not a file")
            own = status.st_uid == os.geteuid() and status.st_nlink == 1
            if tighten and own and stat.S_IMODE(status.st_mode) & 0o177:
                with contextlib.suppress(OSError):
                    # on a read-only file system it is read all the same
                    os.fchmod(descriptor, 0o600)
            data = files.drain(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise SourceError(f"cannot read {path}: {error.strerror}") from error
    return data


def _signatures(path: Path, content: bytes, tree: str = "") -> tuple[str, ...]:
    """Return the evidence that a document is signed, if the policy requires it. Raises UsageError."""
    if policy_in_force() is None:
        return ()
    from heat_config_agent.signing import gate  # noqa: PLC0415  # few machines require signatures

    return gate.evidence_for(path, content, tree)


def written(content: bytes, name: str) -> object:
    """Return the value of a document that a person has written to the file `name`.

    Raises `diagnostics.mistakes.Invalid` with all its mistakes; those for which only an entry fails are not among
    them if they are alone.
    """
    try:
        text = content.removeprefix(codecs.BOM_UTF8).decode()
        value = document_text.load(text, name, unique=True)
        if metadata.is_plain(value) or metadata.is_template(value):
            return value
    except (UnicodeDecodeError, UsageError):
        pass
    from heat_config_agent.deployments import written as strict  # noqa: PLC0415  # most documents have no mistakes

    return strict.check(content, name)


def _located(path: Path, mistake: Mistake) -> Mistake:
    """Return a mistake with its place in a file. The file is read again: few documents have mistakes."""
    from heat_config_agent.deployments import written as strict  # noqa: PLC0415

    try:
        content = files.read(path)
    except OSError:  # a pipe can be read only once
        return mistake
    return replace(mistake, place=strict.located(content, str(path), mistake.path))


def _located_in(pieces: Sequence[tuple[str, int]], mistake: Mistake) -> Mistake:
    """Return a mistake in a document of several files with its place in one; `pieces` are their paths and lengths."""
    import re  # noqa: PLC0415  # few documents have mistakes

    found = re.match(r"deployments\[(\d+)\]", mistake.path)
    if found is None:
        return mistake
    index = int(found[1])
    for path, number in pieces:
        if index < number:
            its = replace(
                mistake, path=f"deployments[{index}]{mistake.path[found.end() :]}"
            )
            return replace(mistake, place=_located(Path(path), its).place)
        index -= number
    return mistake


def _loaded(text: str | bytes, path: Path, signatures: tuple[str, ...]) -> object:
    """Return the value of a document; bytes are those of one that a person has written.

    Raises UsageError; if a signature is required and missing, the error says so.
    """
    try:
        return (
            document_text.load(text, str(path))
            if isinstance(text, str)
            else written(text, str(path))
        )
    except UsageError:
        policy = policy_in_force()
        if policy is not None and policy.signers is not None and not signatures:
            from heat_config_agent.signing import gate  # noqa: PLC0415  # few machines require signatures

            gate.beside(path, policy.signers, required=True)
        raise


class File:
    """A file of deployment metadata, JSON or YAML."""

    trouble = ""
    content = b""
    """The content that was read last: a pipe can be read only once."""

    def __init__(self, path: Path, tree: str = "") -> None:
        """Prepare to read `path` at each poll. `tree` is the evidence for the signed tree that it is in."""
        self.path, self._tree = path, tree
        self.name = f"file:{path.absolute()}"

    def collect(self) -> Document:
        """Read the file."""
        self._read()
        return replace(
            self._document(self.content), located=functools.partial(_located, self.path)
        )

    def _read(self) -> None:
        try:
            self.content = files.take(self.path)
        except OSError as error:
            raise SourceError(f"cannot read {self.path}: {error.strerror}") from error

    def _document(self, text: str | bytes) -> Document:
        signatures = _signatures(self.path, self.content, self._tree)
        return Document(
            source=self.name,
            content=_loaded(text, self.path, signatures),
            signatures=signatures,
        )


class Stdin:
    """Deployment metadata on standard input."""

    name = "stdin"
    trouble = ""
    content = b""

    def collect(self) -> Document:
        """Read to the end."""
        if sys.stdin is None:
            raise SourceError("cannot read standard input: it is closed")
        try:
            own = sys.stdin.fileno()
            self.content = files.drain(
                own, patience=None if os.isatty(own) else files.PATIENCE
            )
        except OSError as error:
            raise SourceError(
                f"cannot read standard input: {error.strerror or error}"
            ) from error
        content, name = self.content, "standard input"

        def located(mistake: Mistake) -> Mistake:
            from heat_config_agent.deployments import written as strict  # noqa: PLC0415  # few documents have mistakes

            return replace(mistake, place=strict.located(content, name, mistake.path))

        return Document(
            source=self.name, content=written(content, name), located=located
        )


class ShellConfig(File):
    """The list of deployments that os-apply-config writes for heat-agents (`$HEAT_SHELL_CONFIG`)."""

    def collect(self) -> Document:
        """Read the file, and set its mode to 0600 first, because it contains passwords.

        An empty file, as its template creates it, means no deployments.
        """
        # the path may also be that of a device or a folder
        files.tighten(self.path)
        self._read()
        text = files.text_of(self.content)
        return (
            self._document(text)
            if text.strip()
            else Document(source=self.name, content=[])
        )


class Several:
    """Several files that form one document.

    It has the deployments and the signed lists of all files, in the order of their names. The last file decides
    the value of any other key.
    If a file cannot be used, an editor may have written only half of it: its earlier content still counts, the other
    files are used, and the trouble names the file.
    """

    name: str
    others = True
    """True if a file may be without deployments, because other programs put their files there too."""

    def __init__(self) -> None:
        """Begin without files."""
        self.trouble = ""
        self._seen: object = None
        self._evidence: dict[str, tuple[str, ...]] = {}
        """The signatures of each file with usable content."""
        self.good: dict[str, dict[str, object]] = {}
        """The last usable content of each file."""
        self.last: Document | None = None
        self._pieces: tuple[tuple[str, int], ...] = ()
        """The paths of the files in `last`, and how many deployments each has."""

    def together(
        self, states: Sequence[State], errors: Sequence[AgentError]
    ) -> Document:
        """Return the merged document of the files: the same object as before if nothing has changed."""
        now = states, _rule(states)
        if self.last is not None and not errors and now == self._seen:
            return self.last
        all_errors = list(errors)
        troubles = [error.brief for error in errors]
        for path, *_ in states:
            try:
                self.good[path], self._evidence[path] = _object(
                    Path(path), others=self.others
                )
            except (SourceError, UsageError) as error:
                all_errors.append(error)
                troubles.append(
                    f"{error.brief}{'; its content from before still counts' if path in self.good else ''}"
                )
        pieces = [self.good[path] for path, *_ in states if path in self.good]
        if all_errors and not pieces:
            self._seen = None
            raise all_errors[0]
        self.trouble = "; ".join(troubles)
        settled = all(time.time_ns() - changed > SETTLED_NS for *_, changed in states)
        self._seen = now if settled and not all_errors else None
        content = _merged(pieces)
        evidence = [self._evidence[path] for path, *_ in states if path in self.good]
        signatures = (
            tuple(text for texts in evidence for text in texts) if all(evidence) else ()
        )
        parts = tuple(
            (path, len(_deployments(self.good[path])))
            for path, *_ in states
            if path in self.good
        )
        last = self.last
        same = (
            last is not None and last.signatures == signatures and parts == self._pieces
        )
        if last is None or not same or not document_text.same(last.content, content):
            self._pieces = parts
            located = functools.partial(_located_in, parts)
            last = self.last = Document(
                source=self.name,
                content=content,
                signatures=signatures,
                located=located,
            )
        return last


class Files(Several):
    """The documents in the files of the settings. A missing file is an error, and has lost no deployment."""

    name = "file"
    others = False

    def __init__(self, values: Mapping[str, object], reach: Reach) -> None:  # noqa: ARG002  # as all sources are made
        """Prepare to read the files in the settings."""
        super().__init__()
        self._paths = texts(values)

    def collect(self) -> Document | None:
        """Return the merged document of all files; None if the settings name none."""
        return self.together(states_of(self._paths), ()) if self._paths else None


def texts(values: Mapping[str, object]) -> tuple[str, ...]:
    """Return the paths in the settings, each once."""
    paths = values["path"]
    return (
        tuple(dict.fromkeys(os.path.normpath(path) for path in paths))
        if isinstance(paths, tuple)
        else ()
    )


def states_of(paths: Iterable[str]) -> list[State]:
    """Return the states of files, to compare with later ones."""
    states: list[State] = []
    for path in paths:
        try:
            status = os.stat(path)  # noqa: PTH116  # for each file at each poll
        except OSError:
            # missing or out of reach: reading it says which
            states.append((path, 0, 0, 0, 0))
            continue
        states.append(
            (
                path,
                status.st_dev,
                status.st_ino,
                status.st_size,
                max(status.st_mtime_ns, status.st_ctime_ns),
            )
        )
    return states


def _rule(states: Sequence[State]) -> object:
    """Return the allowed signers and the signatures, which decide with the files whether they count as signed."""
    policy = policy_in_force()
    if policy is None or policy.signers is None:
        return policy and policy.mistake
    from heat_config_agent.model.signed import SUFFIX  # noqa: PLC0415  # few machines require signatures

    return policy.signers, states_of(f"{path}{SUFFIX}" for path, *_ in states)


def _object(path: Path, *, others: bool) -> tuple[dict[str, object], tuple[str, ...]]:
    """Return the object in a file, and the evidence that it is signed.

    With `others`, it may have no deployments. Raises SourceError and UsageError.
    """
    data = _regular(path)
    signatures = _signatures(path, data)
    content = _loaded(files.text_of(data), path, signatures)
    if isinstance(content, list) or (
        isinstance(content, dict) and isinstance(content.get("deployments"), list)
    ):
        content = _loaded(data, path, signatures)
    if isinstance(content, list):
        return {"deployments": content}, signatures
    if not isinstance(content, dict):
        raise UsageError(
            f"cannot read {path}: expected an object with deployments, or a list of them"
        )
    if "heat_template_version" in content:
        # it would make the merged document a template
        raise UsageError(
            f"cannot read {path}: this is a HOT template, not deployment metadata"
        )
    entries = content.get("deployments")
    if entries is not None and not isinstance(entries, list):
        raise UsageError(f"cannot read {path}: deployments: expected a list")
    if (
        not others
        and "deployments" not in content
        and "os-collect-config" not in content
    ):
        raise UsageError(f"cannot read {path}: there is no `deployments` in it")
    return content, signatures


def _merged(pieces: Iterable[Mapping[str, object]]) -> dict[str, object]:
    merged: dict[str, object] = {}
    deployments: list[object] = []
    lists: list[object] = []
    for piece in pieces:
        merged.update(piece)
        deployments += _deployments(piece)
        signed = piece.get(SIGNATURES, [])
        lists += signed if isinstance(signed, list) else [signed]
    return {
        **merged,
        **({SIGNATURES: lists} if lists else {}),
        "deployments": deployments,
    }


def _deployments(piece: Mapping[str, object]) -> list[object]:
    entries = piece.get("deployments")
    return entries if isinstance(entries, list) else []
