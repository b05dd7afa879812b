"""Archives are unpacked so that nothing outside of a folder changes, and within a budget of bytes and files.

The rules are those of tarfile's `data` filter, and stricter: files, folders and links that stay inside. Of the modes
only «executable» counts, and no owner does. Links are made last, and nothing is written through a link.
"""

from __future__ import annotations

import os
import shutil
import stat
import tarfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import IO, cast

from heat_config_agent.model.errors import UsageError
from heat_config_agent.runs.artifacts import trees
from heat_config_agent.runs.artifacts.trees import DEEPEST, MOST_FILES, PIECE, Budget

_HEADER = 16 * 1024 * 1024
"""The most bytes of the headers of one member, and of the list of members of a zip file."""

_LONGEST_LINK = 4096

_TOO_LONG = f"the archive has a header of more than {_HEADER // 1024 // 1024} MiB"


def unpack(archive: IO[bytes], tree: Path, budget: Budget) -> None:
    """Unpack an archive into a folder, which may have files already: none of them is replaced.

    It is a zip file, or a tar archive that may be compressed with gzip, bzip2 or xz. Raises UsageError, also if it has
    more than the budget allows, and OSError.
    """
    import lzma  # noqa: PLC0415  # only for archives
    import zipfile  # noqa: PLC0415
    import zlib  # noqa: PLC0415

    start = archive.read(6)
    archive.seek(0)
    content = _Content(tree, budget)
    damages = (
        tarfile.TarError,
        zipfile.BadZipFile,
        zipfile.LargeZipFile,
        zlib.error,
        lzma.LZMAError,
    )
    try:
        if start.startswith(b"PK"):
            _unpack_zip(archive, content)
        else:
            _unpack_tar(archive, start, content)
        content.finish()
    except (*damages, EOFError, ValueError, NotImplementedError, RuntimeError) as error:
        raise UsageError(
            f"the archive cannot be unpacked: {str(error)[:200]}"
        ) from error
    except OSError as error:
        if error.errno is None:  # gzip and bz2 raise it for damaged content
            raise UsageError(
                f"the archive cannot be unpacked: {str(error)[:200]}"
            ) from error
        raise


class _Content:
    """The files of an archive as they come into a folder."""

    def __init__(self, tree: Path, budget: Budget) -> None:
        self._tree, self.budget = tree, budget
        self._links: list[tuple[Path, str]] = []

    def folder(self, name: str) -> Path:
        """Make a folder with those above it, and return its path."""
        path = self._tree
        for part in _parts(name):
            path /= part
            try:
                path.mkdir(mode=0o700)
                self.budget.spend(0, 1)
            except FileExistsError:
                if not stat.S_ISDIR(path.lstat().st_mode):
                    raise UsageError(
                        f"the archive has the folder {name!r} where something else is"
                    ) from None
        return path

    def file(self, name: str, content: IO[bytes], *, executable: bool) -> None:
        """Write a file."""
        mode = 0o700 if executable else 0o600
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            descriptor = os.open(self._new(name), flags, mode)
        except FileExistsError:
            raise _twice(name) from None
        self.budget.spend(0, 1)
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, mode)
            shutil.copyfileobj(content, file, PIECE)

    def link(self, name: str, target: str) -> None:
        """Make a symbolic link once everything else is there."""
        self.budget.spend(len(target), 1)
        self._links.append((self._new(name), target))

    def same(self, name: str, existing: str) -> None:
        """Make a hard link to a file of the archive."""
        self.budget.spend(0, 1)
        target = self._new(existing)
        try:
            if not stat.S_ISREG(target.lstat().st_mode):
                raise UsageError(
                    f"the archive has the hard link {name!r} to something that is not a file"
                )
            os.link(target, self._new(name), follow_symlinks=False)
        except FileNotFoundError:
            raise UsageError(
                f"the hard link {name!r} refers to a file that the archive lacks"
            ) from None
        except FileExistsError:
            raise _twice(name) from None

    def finish(self) -> None:
        """Make the links. Raises UsageError if one leads out."""
        for path, target in self._links:
            try:
                path.symlink_to(target)
            except FileExistsError:
                raise _twice(str(path.relative_to(self._tree))) from None
        trees.check_links(self._tree, "the archive")

    def _new(self, name: str) -> Path:
        parts = _parts(name)
        if not parts:
            raise UsageError(
                f"the archive has a member {name!r}, which cannot be the name of a file"
            )
        return self.folder("/".join(parts[:-1])) / parts[-1]


def _parts(name: str) -> tuple[str, ...]:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\0" in name:
        raise UsageError(
            f"the archive has the name {name[:200]!r}, which leads out of it"
        )
    if len(path.parts) > DEEPEST or any(
        len(os.fsencode(part)) > 255 for part in path.parts
    ):
        raise UsageError(f"the archive has the name {name[:200]!r}…, which is too long")
    return path.parts


def _twice(name: str) -> UsageError:
    return UsageError(f"the archive has {name!r}, which is there already")


class _Bounded:
    """A stream that refuses to read more than `_HEADER` bytes at once."""

    def __init__(
        self, stream: IO[bytes], spend: Callable[[int], None] | None = None
    ) -> None:
        """Read a stream; `spend` is called with the bytes of each read."""
        self._stream, self._spend = stream, spend
        self.seekable, self.seek, self.tell = stream.seekable, stream.seek, stream.tell

    def read(self, size: int | None = -1) -> bytes:
        """Return the next bytes."""
        content = self._stream.read(
            _HEADER + 1 if size is None or size < 0 else min(size, _HEADER + 1)
        )
        if len(content) > _HEADER:
            raise UsageError(_TOO_LONG)
        if self._spend:
            self._spend(len(content))
        return content


# Archives of tar.


def _unpack_tar(archive: IO[bytes], start: bytes, content: _Content) -> None:
    with _decompressed(archive, start) as stream:
        # tarfile uses nothing but `read`
        bounded = cast("IO[bytes]", _Bounded(stream, content.budget.spend))
        members = tarfile.open(fileobj=bounded, mode="r|")  # noqa: SIM115
        for number, member in enumerate(members):
            if number > MOST_FILES:  # the same folder may be there again and again
                content.budget.spend(0, MOST_FILES)
            _place(members, member, content)


def _decompressed(archive: IO[bytes], start: bytes) -> IO[bytes]:
    import bz2  # noqa: PLC0415  # only for archives
    import gzip  # noqa: PLC0415
    import lzma  # noqa: PLC0415

    if start.startswith(b"\x1f\x8b"):
        return gzip.GzipFile(fileobj=archive)  # type: ignore[return-value]  # it is a stream of bytes
    if start.startswith(b"BZh"):
        return bz2.BZ2File(archive)
    return lzma.LZMAFile(archive) if start == b"\xfd7zXZ\0" else archive


def _place(
    members: tarfile.TarFile, member: tarfile.TarInfo, content: _Content
) -> None:
    if member.isdir():
        content.folder(member.name)
    elif member.issym():
        content.link(member.name, member.linkname)
    elif member.islnk():
        content.same(member.name, member.linkname)
    elif member.isreg() and not member.issparse():
        # a sparse file of a few bytes may have terabytes
        stream = members.extractfile(member)
        content.file(
            member.name, cast("IO[bytes]", stream), executable=bool(member.mode & 0o100)
        )
    else:
        raise UsageError(
            f"{member.name!r} in the archive is neither a file, a folder nor a link"
        )


# Zip files.


def _unpack_zip(archive: IO[bytes], content: _Content) -> None:
    import zipfile  # noqa: PLC0415  # only for archives

    with zipfile.ZipFile(cast("IO[bytes]", _Bounded(archive))) as members:
        for member in members.infolist():
            if problem := zip_problem(
                member.filename, member.flag_bits, member.external_attr
            ):
                raise UsageError(problem)
            mode = member.external_attr >> 16
            if member.is_dir():
                content.folder(member.filename)
                continue
            with members.open(member) as stream:
                bounded = cast("IO[bytes]", _Bounded(stream, content.budget.spend))
                if stat.S_ISLNK(mode):
                    content.link(
                        member.filename, os.fsdecode(bounded.read(_LONGEST_LINK))
                    )
                else:
                    content.file(
                        member.filename, bounded, executable=bool(mode & 0o100)
                    )


def zip_problem(name: str, flags: int, attributes: int, *, links: bool = True) -> str:
    """Return why a member of a zip file is refused, as a sentence; empty if it is not. `links` may be allowed."""
    shown = ascii(name[:200])
    kinds = {0, stat.S_IFREG, stat.S_IFDIR, *([stat.S_IFLNK] if links else [])}
    if flags & 0x1:
        return f"the member {shown} is encrypted"
    if (
        "\\" in name
        or "\0" in name
        or name.startswith("/")
        or ".." in name.split("/")
        or name[1:2] == ":"
    ):
        return f"the member {shown} leads out of the archive"
    if stat.S_IFMT(attributes >> 16) not in kinds:
        return f"the member {shown} is neither a file nor a folder"
    return ""
