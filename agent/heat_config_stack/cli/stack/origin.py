"""The files that a stack is made of: read only if they are signed where the policy has the rule `signers`, and kept.

`stack.yaml` and `main.yaml` are the usual names of templates, and the name of a file is the name of its stack. So the
path is kept in the folder of the stack, and another file does not replace the stack unless someone wants it to. The
same file is recognised after a move, by its content.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heat_config_agent.cli import terminal
from heat_config_agent.diagnostics.kinds import is_packed
from heat_config_agent.model.errors import StateError, UsageError
from heat_config_agent.model.positions import Json
from heat_config_agent.settings.effective import Settings
from heat_config_agent.settings.in_force import policy_in_force
from heat_config_agent.state import followed
from heat_config_hooks import files
from heat_config_hooks.files import take
from heat_config_hooks.values import dataclass
from heat_config_stack.records import listing

if TYPE_CHECKING:
    from heat_config_agent.signing.gate import Gate
    from heat_config_stack.tosca.files.archives import Disk


@dataclass(frozen=True)
class Opened:
    """A template that may be read."""

    path: str
    """The template; of an archive or a folder, a copy of what is signed."""
    read: Callable[[str], bytes] = take
    """Returns the content of a file. Raises OSError, and UsageError if it is not signed."""
    evidence: tuple[str, ...] = ()
    disk: Disk | None = None
    """The files of service templates that are in no archive; None for all files of this machine."""


def opened(options: Any, template: str) -> Opened:
    """Return a template that the policy allows to read. Raises UsageError.

    `options.signature` is the evidence for a tree that was found signed as a whole, see `source sync`.
    """
    known = getattr(options, "opened", None)
    if isinstance(known, Opened):
        return known
    if policy_in_force() is None:
        return Opened(template)
    from heat_config_agent.signing import gate  # noqa: PLC0415  # few machines require signatures
    from heat_config_stack.tosca.files.archives import Chosen  # noqa: PLC0415

    allowed = gate.signers()
    if allowed is None:
        return Opened(template)
    given = getattr(options, "signature", None)
    signed = (
        gate.of_tree(given, allowed)
        if given
        else gate.beside(template, allowed, required=True)
    )
    if signed is None:
        raise AssertionError(template)
    if given:
        signed.check(template, b"")
    elif is_packed(template):
        return Opened(_copied(gate.named(template), signed), evidence=signed.evidence)
    # the tree was compared as a whole
    disk = Chosen(signed.covers, signed.read, has_archives=bool(given))
    return Opened(template, signed.read, signed.evidence, disk)


def _copied(template: str, signed: Gate) -> str:
    """Return a copy of the files of a folder, or of an archive, that are signed, which lasts as long as the process."""
    import atexit  # noqa: PLC0415  # few machines require signatures
    import shutil  # noqa: PLC0415
    import tempfile  # noqa: PLC0415

    folder = tempfile.mkdtemp(prefix="heat-config-signed-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    root = os.path.dirname(template) or "."  # noqa: PTH120  # it may be empty
    for name in signed.names:
        target = Path(folder, name)
        if not target.resolve().is_relative_to(Path(folder).resolve()):
            raise UsageError(
                f"cannot use {template}: its signed list has {name}, which is outside of its folder"
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            target.write_bytes(signed.read(Path(root, name)))
        except OSError as error:
            raise UsageError(f"cannot read {name}: {error.strerror}") from error
    return str(Path(folder, os.path.basename(template)))  # noqa: PTH119


FILE = "origin.json"

_LARGEST = 1024 * 1024
_LINES = 5000
"""Lines of a template that are compared after a move."""

_ALIKE = 0.6
"""The part of the lines of a moved file that are still there after it was edited."""


def described(template: str, *, is_named_inside: bool) -> dict[str, Any]:
    """Return the record about a file; empty for a pipe, which has no place of its own.

    `is_named_inside` is true if the name of the stack is in an archive, and not that of the file.
    """
    path = template.removeprefix("file://")
    if not (os.path.isfile(path) or os.path.isdir(path)):  # noqa: PTH112, PTH113
        return {}
    digest, lines = _content(Path(path))
    return {
        "path": os.path.abspath(path),  # noqa: PTH100  # a link stays what it is: it may lead to each new release
        "real": os.path.realpath(path),
        "digest": digest,
        "lines": lines,
        "named": is_named_inside,
    }


def keep(settings: Settings, name: str, origin: dict[str, Any]) -> None:
    """Put on record where a stack is from. The caller has the stack open. Raises StateError."""
    folder = listing.folder(settings.state, name)
    if origin and folder.is_dir():
        try:
            files.replace(folder / FILE, json.dumps(origin).encode())
        except OSError as error:
            raise StateError(
                f"cannot write {folder / FILE}: {error.strerror}"
            ) from error


def put_back(settings: Settings, name: str, former: dict[str, Any]) -> None:
    """Put on record again where a stack is from, because its new file was refused."""
    path = listing.folder(settings.state, name) / FILE
    if former:
        keep(settings, name, former)
        return
    try:
        files.remove(path)
    except OSError as error:
        raise StateError(f"cannot remove {path}: {error.strerror}") from error


def check(settings: Settings, name: str, origin: dict[str, Any]) -> None:
    """Raise UsageError if a stack was made from another file, unless the person at the terminal agrees."""
    known = kept(settings, name)
    if not known or not origin or _is_same(known, origin):
        return
    source = next(
        (each.source for each in followed.records(settings.state) if each.name == name),
        "",
    )
    whence = f"follows {source}" if source else f"was made from {known['path']}"
    problem = f"the stack {name} {whence}, and {origin['path']} is another file"
    answer = terminal.ask(f"{terminal.line(problem)}: replace it? [y/N] ")
    if answer is not None and answer.strip().lower() in ("y", "yes"):
        return
    raise UsageError(
        problem,
        hint=f"--name OTHER makes another stack, and --name {name} replaces this one",
    )


def shown(settings: Settings, name: str) -> dict[str, Json] | None:
    """Return the file that a stack is made of, with its digest; None if it is not known."""
    known = kept(settings, name)
    source = f"{followed.folder(settings.state, name)}/current/"
    if not known:
        return None
    path = str(known["path"])
    digest = f"sha256:{known['digest']}" if known["digest"] else None
    return {"path": path.removeprefix(source), "digest": digest}


def kept(settings: Settings, name: str) -> dict[str, Any]:
    """Return where a stack is from, as `described` has it; empty if that is not known."""
    try:
        value = json.loads(
            files.read(listing.folder(settings.state, name) / FILE, _LARGEST)
        )
    except (OSError, ValueError, RecursionError):
        return {}  # an older stack, or a damaged file: nothing is known
    texts = isinstance(value, dict) and all(
        isinstance(value.get(each), str) for each in ("path", "real", "digest")
    )
    return value if texts and isinstance(value.get("lines"), list) else {}


def _is_same(kept: dict[str, Any], origin: dict[str, Any]) -> bool:
    """Return whether two files are one, perhaps moved or rebuilt."""
    if kept["path"] == origin["path"] or kept["real"] == origin["real"]:
        return True
    if kept["digest"] == origin["digest"]:
        return True  # a move, or a copy, which changes nothing
    if kept.get("named") and origin["named"]:
        return True  # an archive of another version: its service has said its name
    before, now = set(map(str, kept["lines"])), set(origin["lines"])
    return (
        not os.path.lexists(kept["path"])
        and bool(before)
        and len(before & now) >= _ALIKE * len(before)
    )


def _content(path: Path) -> tuple[str, list[str]]:
    """Return a digest of a file, or of the templates in a folder, and digests of the lines of a text."""
    digest = hashlib.sha256()
    try:
        parts = sorted(path.glob("*.y*ml")) if path.is_dir() else [path]
        texts = [files.take(part) for part in parts]
    except OSError:
        return "", []
    for text in texts:
        digest.update(hashlib.sha256(text).digest())
    lines = (
        []
        if any(b"\0" in text for text in texts)
        else {line.strip() for text in texts for line in text.split(b"\n")}
    )
    return digest.hexdigest(), sorted(
        hashlib.sha256(line).hexdigest()[:12] for line in lines if line
    )[:_LINES]
