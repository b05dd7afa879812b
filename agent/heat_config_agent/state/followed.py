"""The record of each stack that follows a source: the revision that it is at, and the one that is refused.

`STATE/follow/NAME/` has the record, the trees of revisions, and what fetching them needs.
"""

from __future__ import annotations

import json
from pathlib import Path

from heat_config_agent.model.errors import StateError
from heat_config_agent.model.wording import stamp
from heat_config_hooks import files
from heat_config_hooks.values import dataclass, replace

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

FOLDER = "follow"
FILE = "record.json"
DOCUMENT, _AGAIN = "document", "again"
"""Names in the folder of a source: the state directory of its document, and the request to carry it out again."""

_LARGEST = 1024 * 1024

_LONGEST_TALE = 300
"""The most characters of a trouble that is told to the daemon: the whole line has to fit into a pipe's atomic write."""

_LATEST = 1e11
"""The latest time that a record may have, in seconds since the epoch."""


@dataclass(frozen=True, kw_only=True)
class Followed:
    """The record of one stack that follows a source."""

    name: str
    source: str = ""
    """The URL or path of the source, without secrets."""
    revision: str = ""
    """The last revision that was carried out without a failure; empty if there was none."""
    since: float = 0.0
    """When it was carried out, in seconds since the epoch."""
    concluded: str = ""
    """The newest revision that was tried to the end, and a digest of the settings it was tried with."""
    refused: str = ""
    """The newest revision, if it was refused or has failed."""
    reason: str = ""
    """The reason why that revision was refused or has failed."""
    failed: bool = False
    """True if that revision was begun and has failed; False if it was refused before anything began."""
    again: float = 0.0
    """When that revision is tried again, in seconds since the epoch; 0 for never."""
    begun: str = ""
    """The revision that is being carried out, with the digest of the settings."""
    attempt: str = ""
    """The id of the last action of the stack before that one."""
    trouble: str = ""
    """The reason why the source does not answer, or the stack cannot be worked on now; empty if nothing is wrong."""
    answered: float = 0.0
    """When the source last answered, in seconds since the epoch."""
    signed: str = ""
    """The source and the newest revision of it that was fetched, and that was signed if the policy required it."""
    reboot: str = ""
    """The id of the boot in which a deployment of that revision asked for a reboot of the machine."""
    document: bool = False
    """True if the source has a document with deployments, and False if it has a template."""
    delete: bool = False
    """True if the stack is deleted when its section is removed."""
    drift: str = ""
    """The difference of the machine from the revision in force, as it was at the last poll; empty for none."""

    @property
    def state(self) -> str:
        """The word for the machine with regard to the newest revision, one of `states.Shown`.

        A revision that is refused has changed nothing, one that has failed may have changed parts, and one that is ok
        was carried out to its end; the machine has drifted if it has been changed by others since, also if the stack
        was deleted. While the source does not answer, it is unknown if the revision is the newest.
        """
        if self.begun:
            return "reboot" if self.reboot else "running"
        if self.refused:
            return "failed" if self.failed else "refused"
        if self.drift and self.revision:
            return "drifted"
        if self.trouble:
            return "unknown"
        return "ok" if self.revision else "waiting"

    @property
    def problem(self) -> str:
        """A sentence about what is wrong; empty if nothing is."""
        if self.trouble:
            return f"source {self.name}: {self.trouble}"
        drift = (
            f"drifted from revision {short(self.revision)}: {self.drift}"
            if self.drift
            else ""
        )
        if self.begun or not self.refused:
            # the newest revision is in progress, or was carried out
            return f"source {self.name}: {drift}" if drift and not self.begun else ""
        if self.failed:
            last = (
                f"the last that succeeded is {short(self.revision)}"
                if self.revision
                else "none has succeeded yet"
            )
            return f"source {self.name}: revision {short(self.refused)} has failed: {self.reason}; {last}"
        at = (
            f"it stays at {short(self.revision)}"
            if self.revision
            else "no revision was carried out yet"
        )
        stays = f"; {drift}" if drift else ""
        return f"source {self.name}: revision {short(self.refused)} is refused: {self.reason}; {at}{stays}"

    @property
    def progress(self) -> str:
        """The revision that is being carried out, or that was carried out last, in words."""
        at = (
            f"at revision {short(self.revision)}"
            if self.revision
            else "no revision yet"
        )
        if self.begun:
            return f"carries out revision {short(self.begun)} now, {at}"
        if self.revision and not self.refused and not self.drift:
            return f"revision {short(self.revision)} is in force"
        if self.refused:
            return f"revision {short(self.refused)} {'has failed' if self.failed else 'is refused'}, {at}"
        return f"drifted from revision {short(self.revision)}" if self.revision else at


def short(revision: str) -> str:
    """Return a revision as people write it."""
    return revision.partition(":")[2][:12] or revision[:12]


def folder(state: Path, name: str) -> Path:
    """Return the folder of a stack that follows a source."""
    return state / FOLDER / name


def document(state: Path, name: str) -> Path:
    """Return the state directory in which the document of a source is carried out."""
    return folder(state, name) / DOCUMENT


def is_document(state: Path) -> bool:
    """Return whether a state directory is that of the document of a source."""
    return state.name == DOCUMENT and state.parent.parent.name == FOLDER


def documents(state: Path) -> list[tuple[str, Path]]:
    """Return the name and the state directory of each source that has, or had, a document with deployments."""
    if not (state / FOLDER).is_dir():  # most machines follow nothing
        return []
    return [
        (name, place)
        for name in names(state)
        if (place := document(state, name)).is_dir()
    ]


def ask_again(state: Path, name: str) -> None:
    """Request that the newest revision of a source is carried out again, even if it succeeded. Raises StateError."""
    from heat_config_agent.state import lock  # noqa: PLC0415  # few commands ask for it

    lock.guard(state)
    place = folder(state, name) / _AGAIN
    try:
        # the source may never have been asked
        files.make_directory(place.parent)
        files.replace(place, b"", durable=True)
    except OSError as error:
        raise StateError(f"cannot write {place}: {error.strerror}") from error


def is_asked_again(state: Path, name: str) -> bool:
    """Return whether the newest revision of a source is to be carried out again."""
    return (folder(state, name) / _AGAIN).exists()


def settle_again(state: Path, name: str) -> None:
    """Remove the request to carry out the newest revision again. Raises OSError."""
    files.remove(folder(state, name) / _AGAIN)


def read(state: Path, name: str) -> Followed | None:
    """Return the record of a stack that follows a source; None if there is none that can be read.

    Damage, or a record of another version of the agent, costs no more than a question to the source.
    """
    try:
        content = json.loads(files.take(folder(state, name) / FILE, _LARGEST))
        record = Followed(**content)
    except (OSError, ValueError, TypeError, RecursionError):
        return None
    return record if record.name == name and _is_whole(record) else None


def _is_whole(record: Followed) -> bool:
    """Return whether every value of a record is of its type, and every time is one."""
    for field, value in vars(record).items():
        example = getattr(Followed, field, "")
        if isinstance(example, float):
            is_right = type(value) in (int, float) and 0 <= value <= _LATEST
        else:
            is_right = type(value) is type(example)
        if not is_right:
            return False
    return True


def write(state: Path, record: Followed) -> None:
    """Write a record durably. Raises StateError."""
    place = folder(state, record.name) / FILE
    try:
        files.replace(place, json.dumps(vars(record)).encode(), durable=True)
    except OSError as error:
        raise StateError(f"cannot write {place}: {error.strerror}") from error


def names(state: Path) -> list[str]:
    """Return the names of all stacks that follow a source, or did so, sorted."""
    try:
        return sorted(
            place.name for place in (state / FOLDER).iterdir() if place.is_dir()
        )
    except OSError:
        return []


def records(state: Path) -> list[Followed]:
    """Return the records of all stacks that follow a source, by name."""
    return [
        record for name in names(state) if (record := read(state, name)) is not None
    ]


def tale(name: str, trouble: str) -> bytes:
    """Return the line by which the process that follows sources tells a trouble; it is written in one piece."""
    return json.dumps([name, trouble[:_LONGEST_TALE]]).encode() + b"\n"


def heard(line: bytes) -> tuple[str, str] | None:
    """Return the name of a source and its trouble; None for a line of another form."""
    try:
        name, trouble = json.loads(line)
    except (ValueError, TypeError, RecursionError):
        return None
    return (
        (name, trouble) if isinstance(name, str) and isinstance(trouble, str) else None
    )


def with_troubles(
    records: Iterable[Followed], troubles: Mapping[str, str]
) -> list[Followed]:
    """Return records with the troubles that could not be written into them; also of sources without a record."""
    known = {record.name: record for record in records}
    for name, trouble in troubles.items():
        known[name] = replace(known.get(name) or Followed(name=name), trouble=trouble)
    return [known[name] for name in sorted(known)]


def values(record: Followed) -> dict[str, object]:
    """Return a source that is followed as JSON."""
    return {
        "name": record.name,
        "state": record.state,
        "source": record.source,
        "revision": record.revision or None,
        "since": stamp(record.since or None),
        "answered": stamp(record.answered or None),
        "running": record.begun.partition(" ")[0] or None,
        "refused": None if record.failed else record.refused or None,
        "failed": record.refused or None if record.failed else None,
        "reason": record.reason or None,
        "drift": record.drift or None,
        "trouble": record.trouble or None,
        "document": record.document,
    }
