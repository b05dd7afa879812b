"""Archives and folders that service templates come in (chapter 6 of the specification).

Nothing is unpacked: members are read when they are named. The whole list of members is checked before that.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable, Iterator
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Protocol

from heat_config_agent.runs.artifacts.archives import zip_problem
from heat_config_hooks.files import LARGEST, take
from heat_config_stack.definition.files import path_of

if TYPE_CHECKING:
    import zipfile

MOST_MEMBERS = 100_000
MOST_BYTES = 1024**3
METADATA = "TOSCA-Metadata/TOSCA.meta"

_LONGEST_METADATA = 1024**2
_NAMES = re.compile(r'"([^"]+)"|([^\s"]+)')
"""A name in a list of names, which may be quoted."""


class Refused(Exception):  # noqa: N818  # it is the archive that is
    """An archive is not taken; the code and the text say why."""

    def __init__(self, code: str, problem: str, hint: str = "") -> None:
        super().__init__(problem)
        self.code = code
        self.hint = hint


class Files(Protocol):
    """The files of a service template: in an archive, in a folder, or on disk."""

    def read(self, path: str) -> bytes:
        """Return the content of a file. Raises `OSError`."""

    def has(self, path: str) -> bool:
        """Return whether there is a file of that path."""

    def below(self, path: str) -> list[str]:
        """Return the paths of the files in a folder and its folders, sorted, without hidden ones; empty for a file."""

    def shown(self, path: str) -> str:
        """Return how a mistake names a file."""

    def mode(self, path: str) -> int:
        """Return the permissions of a file. Raises `OSError`."""


class Disk:
    """Files of this machine."""

    has_archives = True
    """True if a service may be in an archive or a folder among them: its members are read without asking again."""

    def read(self, path: str) -> bytes:
        """Return the content of a file. Raises `OSError`."""
        return take(path)

    def has(self, path: str) -> bool:
        """Return whether there is a file of that path."""
        try:
            return os.path.isfile(path)  # noqa: PTH113  # called for each script
        except ValueError:
            return False

    def below(self, path: str) -> list[str]:
        """Return the paths of the files in a folder, without hidden ones."""
        return sorted(_walk(path))

    def shown(self, path: str) -> str:
        """Return how a mistake names a file."""
        return path

    def mode(self, path: str) -> int:
        """Return the permissions of a file. Raises `OSError`."""
        return os.stat(self.shown(path)).st_mode & 0o777  # noqa: PTH116  # the other paths are text, too


class Chosen(Disk):
    """The files of this machine that may be read; others do not exist."""

    def __init__(
        self,
        allows: Callable[[str], bool],
        content: Callable[[str], bytes],
        *,
        has_archives: bool,
    ) -> None:
        """Take a function that says whether a path may be read, and a function that reads it."""
        self._allows = allows
        self._content = content
        self.has_archives = has_archives

    def read(self, path: str) -> bytes:
        """Return the content of a file. Raises `OSError`."""
        if not self._allows(path):
            raise PermissionError(1, "it is not signed")
        return self._content(path)

    def has(self, path: str) -> bool:
        """Return whether there is a file of that path."""
        return super().has(path) and self._allows(path)

    def below(self, path: str) -> list[str]:
        """Return the paths of the files in a folder that may be read."""
        return [name for name in super().below(path) if self._allows(name)]


class Folder(Disk):
    """A folder with the content of an archive: nothing outside of it is read."""

    def __init__(self, path: str) -> None:
        self._path = path

    def all_members(self) -> list[str]:
        """Return the paths of all files in it, without hidden files and links that lead outside."""
        return self.below("")

    def below(self, path: str) -> list[str]:
        """Return the paths of the files in a folder of it."""
        if not self._is_inside(path):
            return []
        names = (
            posixpath.relpath(name, self._path)
            for name in _walk(posixpath.join(self._path, path))
        )
        return sorted(name for name in names if self.has(name))

    def size(self, names: list[str]) -> int:
        """Return the bytes of some files together."""
        return sum(FilePath(self._path, name).stat().st_size for name in names)

    @property
    def root(self) -> str:
        """Return the path of the folder."""
        return self._path

    def members(self) -> list[str]:
        """Return the names of the files at its root."""
        return sorted(entry.name for entry in os.scandir(self._path) if entry.is_file())

    def read(self, path: str) -> bytes:
        """Return the content of a file. Raises `OSError`."""
        if not self._is_inside(path):
            raise FileNotFoundError(2, "it is outside of the folder")
        return take(posixpath.join(self._path, path))

    def has(self, path: str) -> bool:
        """Return whether there is a file of that path."""
        return self._is_inside(path) and super().has(posixpath.join(self._path, path))

    def shown(self, path: str) -> str:
        """Return how a mistake names a file."""
        return posixpath.join(self._path, path)

    def _is_inside(self, path: str) -> bool:
        if not _is_within(path):
            return False
        try:
            root = FilePath(self._path).resolve()
            return FilePath(self._path, path).resolve().is_relative_to(root)
        except (OSError, ValueError, RuntimeError):
            return False


class Archive:
    """A zip file, of which no member leads outside (chapter 6)."""

    def __init__(self, name: str) -> None:
        """Open it and check its members. Raises `OSError` and `Refused`."""
        import zipfile  # noqa: PLC0415  # it loads much, and most templates are in no archive

        self._name = name
        self._damaged = (
            zipfile.BadZipFile,
            NotImplementedError,
            RuntimeError,
            EOFError,
            ValueError,
        )
        try:
            self._zip = zipfile.ZipFile(name)
            self._members = self._checked()
        except (
            zipfile.BadZipFile,
            zipfile.LargeZipFile,
            ValueError,
            NotImplementedError,
            EOFError,
        ) as error:
            raise Refused(
                "archive", f"it is not a readable zip file: {str(error)[:100]}"
            ) from None

    def _checked(self) -> dict[str, zipfile.ZipInfo]:
        """Return name → member; Windows' separator in a name is taken as `/`, as some programs there write it."""
        members: dict[str, zipfile.ZipInfo] = {}
        total = 0
        infos = self._zip.infolist()
        if len(infos) > MOST_MEMBERS:
            raise Refused("archive", f"it has over {MOST_MEMBERS:,} members")
        for info in infos:
            name = info.filename.replace("\\", "/")
            if problem := zip_problem(
                name, info.flag_bits, info.external_attr, links=False
            ):
                hint = (
                    "pack it without a password"
                    if problem.endswith("encrypted")
                    else ""
                )
                raise Refused("archive-member", problem, hint)
            total += info.file_size
            if total > MOST_BYTES:
                raise Refused(
                    "archive", f"unpacked it is over {MOST_BYTES // 1024**3} GiB long"
                )
            if name.endswith("/"):
                continue
            if name in members:
                raise Refused("archive-member", f"the member {name!a} is there twice")
            members[name] = info
        return members

    def members(self) -> list[str]:
        """Return the names of the files at its root."""
        return sorted(name for name in self._members if "/" not in name)

    def all_members(self) -> list[str]:
        """Return the names of all files."""
        return sorted(self._members)

    def size(self, names: list[str]) -> int:
        """Return the bytes of some files together."""
        return sum(self._members[name].file_size for name in names)

    def read(self, path: str) -> bytes:
        """Return the content of a member, at most as much as it says that it has. Raises `OSError`."""
        info = self._members.get(path)
        if info is None:
            raise FileNotFoundError(2, "it is not in the archive")
        if info.file_size > LARGEST:
            raise OSError(27, f"it is longer than {LARGEST // 1024**2} MiB")
        try:
            with self._zip.open(info) as file:
                return file.read(info.file_size + 1)[: info.file_size]
        except self._damaged as error:
            raise OSError(5, f"the archive is damaged: {str(error)[:100]}") from None
        except Exception as error:  # each way of packing has errors of its own
            if type(error).__module__ in {"zlib", "_lzma", "lzma", "builtins"}:
                raise OSError(5, "the archive is damaged") from None
            raise

    def has(self, path: str) -> bool:
        """Return whether there is a member of that path."""
        return path in self._members

    def below(self, path: str) -> list[str]:
        """Return the members in a folder of the archive, without hidden ones."""
        folder = f"{posixpath.normpath(path)}/"
        names = (name for name in self._members if name.startswith(folder))
        return sorted(
            name
            for name in names
            if not any(part.startswith(".") for part in name.split("/"))
        )

    def shown(self, path: str) -> str:
        """Return the name of a member in mistakes: `shop.csar!/types.yaml`."""
        return f"{self._name}!/{path}"

    def mode(self, path: str) -> int:
        """Return the permissions of a member; the usual ones if the archive has none."""
        return (self._members[path].external_attr >> 16) & 0o777 or 0o644


def _walk(folder: str) -> Iterator[str]:
    """Yield the paths of the files in a folder, without hidden ones."""
    for inside, folders, names in os.walk(folder):
        folders[:] = (name for name in folders if not name.startswith("."))
        yield from (
            posixpath.join(inside, name) for name in names if not name.startswith(".")
        )


def _is_within(path: str) -> bool:
    normal = posixpath.normpath(path)
    return not posixpath.isabs(path) and normal != ".." and not normal.startswith("../")


def entry_of(files: Archive | Folder) -> str:
    """Return the path of the entry of an archive or a folder (chapter 6). Raises `Refused`."""
    if files.has(METADATA):
        return _named_entry(files)
    roots = [name for name in files.members() if name.endswith((".yaml", ".yml"))]
    if len(roots) != 1:
        found = "none" if not roots else f"{len(roots)}"
        problem = f"without {METADATA} there has to be exactly one .yaml or .yml file at the root; there are {found}"
        raise Refused("archive-entry", problem, f"name the entry in {METADATA}")
    return roots[0]


def _named_entry(files: Archive | Folder) -> str:
    try:
        content = files.read(METADATA)
    except OSError as error:
        raise Refused(
            "archive-metadata", f"cannot read {METADATA}: {error.strerror}"
        ) from None
    if len(content) > _LONGEST_METADATA:
        raise Refused("archive-metadata", f"{METADATA} is over 1 MiB long")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Refused("archive-metadata", f"{METADATA} is not UTF-8 text") from None
    block = _first_block(text)
    wanted = {
        "TOSCA-Meta-File-Version": ("1.0", "1.1"),
        "CSAR-Version": ("1.1",),
        "Created-By": (),
    }
    for key, versions in wanted.items():
        if not block.get(key):
            raise Refused(
                "archive-metadata", f"{METADATA} has no {key}", f"add it: {key}: …"
            )
        if versions and block[key] not in versions:
            raise Refused(
                "archive-metadata",
                f"the {key} in {METADATA} must be {' or '.join(versions)}",
            )
    entry = block.get("Entry-Definitions", "")
    if not entry:
        raise Refused(
            "archive-metadata",
            f"{METADATA} has no Entry-Definitions",
            "add the path of the entry",
        )
    others = [
        quoted or plain
        for quoted, plain in _NAMES.findall(block.get("Other-Definitions", ""))
    ]
    for name, noun in ((entry, "entry"), *((other, "file") for other in others)):
        if not _is_within(name) or not files.has(posixpath.normpath(name)):
            raise Refused(
                "archive-entry",
                f"the {noun} {name!a} is not there",
                f"{METADATA} names it",
            )
    return posixpath.normpath(entry)


def _first_block(text: str) -> dict[str, str]:
    """Return the names and values of the first block of TOSCA.meta; a line after a space continues the last one."""
    block: dict[str, str] = {}
    name = ""
    for line in text.splitlines():
        if not line.strip():
            if block:
                break
            continue
        if line[0] == " " and name:
            block[name] += line[1:]
            continue
        name, colon, value = line.partition(":")
        if not colon:
            raise Refused(
                "archive-metadata",
                f"a line of {METADATA} has no colon",
                "write NAME: VALUE",
            )
        name = name.strip()
        block[name] = value.strip()
    return block


def local_path(name: str, base: str, folder: str = "") -> str:
    """Return the path of a file that another one, `base`, names; `folder` is the URL of a repository on disk."""
    if folder:
        return posixpath.normpath(posixpath.join(beside(folder, base), name))
    return beside(name, base)


def beside(name: str, base: str) -> str:
    """Return the path of a file that another file, `base`, names."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(base), path_of(name)))
