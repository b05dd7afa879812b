"""The files of an operation: laid out for its run, and copied to their places on the machine."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from heat_config_hooks import files, protocol
from heat_config_hooks.errors import HookError
from heat_config_hooks.tools.tosca_config import Config, Digest, Place, shown
from heat_config_hooks.written import Written, owner

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from heat_config_hooks.verdict import Verdict  # few runs verify

_MAGIC = (b"#!", b"\x7fELF")
"""The beginnings of files that can be executed."""

_AT_ONCE = 1024 * 1024


def folder(place: protocol.Workplace) -> Path:
    """Return the folder in which the files of a run are laid out."""
    return place.run / "files"


def lay_out(config: Config, place: protocol.Workplace) -> None:
    """Write the files of a config to the folder of its run. Raises HookError if a kept file is missing or damaged."""
    root = folder(place)
    files.remove(root)
    files.make_directory(root)
    for name, content in config.files.items():
        path = root / name
        files.make_directory(path.parent)
        if isinstance(content, Digest):
            _copy(name, content.sha256, path, place.environment)
        else:
            files.create(path, content)
            if content.startswith(_MAGIC):
                path.chmod(0o700)


def _copy(name: str, digest: str, path: Path, environment: Mapping[str, str]) -> None:
    """Copy a kept file. Raises HookError if it is not there, or is not what its digest says."""
    where = f"config.files[{shown(name)}]"
    kept = environment.get(protocol.STACK_FILES)
    if not kept:
        raise HookError(
            f"the file is kept in a folder of a stack, and ${protocol.STACK_FILES} names none",
            where,
        )
    source = Path(kept) / digest
    try:
        descriptor = files.open_regular(source)
    except OSError as error:
        raise HookError(
            f"the kept file {source} cannot be read: {error.strerror or error}", where
        ) from None
    hashed = hashlib.sha256()
    with open(descriptor, "rb") as origin, open(_new(path), "wb") as copy:
        while part := origin.read(_AT_ONCE):
            if copy.tell() == 0 and part.startswith(_MAGIC):
                os.fchmod(copy.fileno(), 0o700)
            hashed.update(part)
            copy.write(part)
    if hashed.hexdigest() != digest:
        raise HookError(
            f"the kept file {source} is damaged: its content has another digest", where
        )


def _new(path: Path) -> int:
    return os.open(
        path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
    )


def put_in_place(
    config: Config, request: protocol.Request, place: protocol.Workplace
) -> None:
    """Copy files to their places, before the first step. Raises HookError.

    They are for the software of the machine, which seldom runs as root: a copy has the mode of its place, or the one
    that the umask leaves. The files that are laid out for the run stay private.
    """
    written, root = Written(place.working), folder(place)
    for index, item in enumerate(config.places):
        if request.removes and item.until == "delete":
            continue
        path, content = Path(item.to), files.read(root / item.file)
        mode = _mode(item, content)
        try:
            if item.until == "never":
                files.make_directory(
                    path.parent, mode=files.with_search(mode & 0o644 | 0o700)
                )
                files.replace(path, content, mode=mode, durable=True)
            else:
                written.write(
                    path, content, owner=_owner(request, item.until), mode=mode
                )
        except OSError as error:
            problem = f"cannot write {item.to}: {error.strerror or error}"
            raise HookError(problem, f"config.places[{index}]") from None


def verified(
    config: Config, request: protocol.Request, place: protocol.Workplace
) -> Verdict:
    """Return whether the copies that stay are as they were put in place. Raises OSError."""
    from heat_config_hooks import verdict  # noqa: PLC0415  # few runs verify

    written, root = Written(place.working), folder(place)
    stay = [item for item in config.places if item.until != "end"]
    every = []
    for item in stay:
        path, content = Path(item.to), files.read(root / item.file, files.LARGEST)
        # the umask of this process need not be that of the run
        mode = _present(path) if item.mode is None else _mode(item, content)
        every.append(
            written.verified(
                {path: content}, owner=_owner(request, item.until), mode=mode
            )
        )
    changes = [change for each in every for change in each.changes]
    if changes:
        return verdict.drifted(changes)
    unknown = (each for each in every if each.standing is verdict.Standing.UNKNOWN)
    return next(unknown, verdict.in_effect(item.to for item in stay))


def _present(path: Path) -> int:
    """Return the mode of a file; that of a new one if there is none."""
    try:
        return path.lstat().st_mode & 0o7777
    except OSError:
        return 0o644


def _mode(item: Place, content: bytes) -> int:
    mode = item.mode if item.mode is not None else 0o644 & ~files.umask()
    return files.with_search(mode) if content.startswith(_MAGIC) else mode


def _owner(request: protocol.Request, until: str) -> str:
    return owner(request) if until == "delete" else f"run {request.id}"


def take_away(
    config: Config, request: protocol.Request, place: protocol.Workplace
) -> str:
    """Remove the files whose time is over unless someone has changed them; return a line for each failure."""
    written, problems = Written(place.working), ""
    for item in config.places:
        if item.until == "end" or (item.until == "delete" and request.removes):
            try:
                written.remove(Path(item.to), owner=_owner(request, item.until))
            except OSError as error:
                problems += f"cannot remove {item.to}: {error.strerror or error}\n"
    return problems
