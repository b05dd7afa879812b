"""Archives made of a folder, or of a service template with the files that it names (chapter 6 of the specification).

The same files always give the same bytes: members are sorted, and have no times and no owners.
"""

from __future__ import annotations

import os
import posixpath
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from heat_config_stack.tosca.files.archives import (
    METADATA,
    MOST_BYTES,
    MOST_MEMBERS,
    Disk,
    Folder,
    Refused,
    entry_of,
)

if TYPE_CHECKING:
    import zipfile

_BEGINNING = (1980, 1, 1, 0, 0, 0)
"""The earliest time that a zip file can have: all members have it."""


class Named(Disk):
    """Files of this machine, and a record of the requested ones."""

    def __init__(self) -> None:
        self.paths: dict[str, None] = {}

    def read(self, path: str) -> bytes:
        """Return the content of a file. Raises `OSError`."""
        content = super().read(path)
        self.paths[path] = None
        return content

    def has(self, path: str) -> bool:
        """Return whether there is a file of that path."""
        found = super().has(path)
        if found:
            self.paths[path] = None
        return found

    def below(self, path: str) -> list[str]:
        """Return the paths of the files in a folder, without hidden ones."""
        paths = super().below(path)
        self.paths.update(dict.fromkeys(paths))
        return paths


def members_of_folder(folder: str, left_out: str) -> tuple[dict[str, str], str]:
    """Return the files of a folder by the names of their members, and the entry. Raises `Refused` and `OSError`.

    Hidden files are left out, and the file `left_out`.
    """
    root = Path(folder).resolve()
    members: dict[str, str] = {}
    for path in _files(folder):
        if os.path.realpath(path) == left_out:
            continue
        if not Path(path).resolve().is_relative_to(root):
            raise Refused(
                "archive-member",
                f"{path} is a link that leads out of the folder",
                "copy the file",
            )
        members[posixpath.relpath(path, folder)] = path
    return members, entry_of(Folder(folder))


def _files(folder: str) -> Iterator[str]:
    def fail(error: OSError) -> None:
        raise error

    for inside, folders, names in os.walk(folder, onerror=fail):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in folders:
            if os.path.islink(os.path.join(inside, name)):  # noqa: PTH114, PTH118
                raise Refused(
                    "archive-member",
                    f"{inside}/{name} is a link to a folder",
                    "copy the folder",
                )
        for name in sorted(names):
            if not name.startswith("."):
                yield posixpath.join(inside, name)


def members_of_template(
    name: str, named: Mapping[str, None]
) -> tuple[dict[str, str], str]:
    """Return the members of an archive of a service template with the files that it names, and the name of its entry.

    The folder that they have in common is the root of the archive.
    """
    paths = {path: os.path.abspath(path) for path in (os.path.normpath(name), *named)}  # noqa: PTH100
    root = os.path.commonpath([os.path.dirname(path) for path in paths.values()])  # noqa: PTH120
    found = {posixpath.relpath(path, root): path for path in paths.values()}
    return found, posixpath.relpath(paths[os.path.normpath(name)], root)


def metadata(entry: str) -> bytes:
    """Return the content of TOSCA.meta."""
    lines = (
        "TOSCA-Meta-File-Version: 1.1",
        "CSAR-Version: 1.1",
        "Created-By: heat-config-agent",
    )
    return "".join(
        f"{line}\n" for line in (*lines, f"Entry-Definitions: {entry}")
    ).encode()


def write(target: str, members: Mapping[str, str], entry: str) -> None:
    """Write an archive. Raises `Refused` and `OSError`."""
    import zipfile  # noqa: PLC0415  # it loads much

    if len(members) >= MOST_MEMBERS:
        raise Refused("archive", f"there are over {MOST_MEMBERS:,} files")
    total = 0
    with zipfile.ZipFile(
        target, "w", zipfile.ZIP_DEFLATED, compresslevel=9, strict_timestamps=False
    ) as archive:
        ordered = sorted(members, key=lambda name: (name != METADATA, name))
        if METADATA not in members:
            _add(archive, METADATA, 0o644, metadata(entry))
        for name in ordered:
            content, mode = _content(members[name])
            total += len(content)
            if total > MOST_BYTES:
                raise Refused(
                    "archive",
                    f"the files are over {MOST_BYTES // 1024**3} GiB long together",
                )
            _add(archive, name, mode, content)


def _add(archive: zipfile.ZipFile, name: str, mode: int, content: bytes) -> None:
    import zipfile  # noqa: PLC0415

    info = zipfile.ZipInfo(name, _BEGINNING)
    info.compress_type = zipfile.ZIP_DEFLATED
    info.create_system = 3  # Unix, so that the mode counts
    info.external_attr = (stat.S_IFREG | mode) << 16
    archive.writestr(info, content, compresslevel=9)


def _content(path: str) -> tuple[bytes, int]:
    """Return the content of a file, and its mode: executable or not. Raises `Refused` if it is not a file."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise Refused(
                "archive-member", f"{path} is neither a file nor a folder", "remove it"
            )
        content = file.read(MOST_BYTES + 1)
    return content, 0o755 if status.st_mode & 0o100 else 0o644
