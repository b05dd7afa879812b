"""Zip files and merged archives; `tests/unit/agent/follow` has the hostile tar archives."""

from __future__ import annotations

import contextlib
import io
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from heat_config_agent.model.errors import UsageError
from heat_config_agent.runs.artifacts import archives, trees

MEBI = 1024 * 1024


def zipped(change: Callable[[zipfile.ZipFile], object]) -> io.BytesIO:
    """Return a zip file with a good file, and what else `change` adds."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as members:
        add(members, "good/a", b"1", stat.S_IFREG | 0o755)
        change(members)
    made.seek(0)
    return made


def add(members: zipfile.ZipFile, name: str, body: bytes = b"", mode: int = 0) -> None:
    """Add a member to a zip file."""
    member = zipfile.ZipInfo(name)
    member.external_attr = mode << 16
    member.compress_type = zipfile.ZIP_DEFLATED
    members.writestr(member, body)


def test_zip_file_is_unpacked(tmp_path: Path) -> None:
    """Files, folders and links that stay inside; of the modes only «executable» counts."""

    def change(members: zipfile.ZipFile) -> None:
        add(members, "folder/")
        add(members, "plain", b"2", stat.S_IFREG | stat.S_ISUID | 0o666)
        add(members, "folder/link", b"../good/a", stat.S_IFLNK | 0o777)

    archives.unpack(zipped(change), tmp_path, trees.Budget(MEBI))
    assert (tmp_path / "folder/link").read_text() == "1"
    assert (tmp_path / "good/a").stat().st_mode & 0o7777 == 0o700
    assert (tmp_path / "plain").stat().st_mode & 0o7777 == 0o600


def encrypted(members: zipfile.ZipFile) -> None:
    """Add a member that says that it is encrypted."""
    add(members, "secret", b"x")
    members.filelist[-1].flag_bits |= 1


def many(members: zipfile.ZipFile) -> None:
    """Add more files than there may be."""
    for number in range(trees.MOST_FILES):
        add(members, str(number))


@pytest.mark.fault(
    2,
    "a hostile zip file: names and links that lead out, devices, bombs, too many members",
    "it is refused with a sentence, and nothing outside its folder is written",
)
@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda members: add(members, "../out"), "leads out of the archive"),
        (lambda members: add(members, "/out"), "leads out of the archive"),
        (lambda members: add(members, "..\\out"), "leads out of the archive"),
        (lambda members: add(members, "c:out"), "leads out of the archive"),
        (
            lambda members: add(members, "l", b"/etc/passwd", stat.S_IFLNK),
            "leads out of the archive",
        ),
        (
            lambda members: add(members, "l", b"x" * MEBI, stat.S_IFLNK),
            "leads out|too long",
        ),
        (
            lambda members: add(members, "d", b"", stat.S_IFCHR),
            "neither a file nor a folder",
        ),
        (
            lambda members: add(members, "zeros", b"\0" * 3 * MEBI),
            "larger than 1048576 bytes",
        ),
        (lambda members: add(members, "good/a", b"2"), "is there already"),
        (lambda members: add(members, "a/" * 200 + "b"), "too long"),
        (encrypted, "is encrypted"),
        (many, "more than 20000 files"),
    ],
)
def test_hostile_zip_files_are_refused(
    tmp_path: Path, change: Callable[[zipfile.ZipFile], object], says: str
) -> None:
    """Hostile zip files are refused with a sentence, and nothing is written outside the folder."""
    tree = tmp_path / "tree"
    tree.mkdir()
    with pytest.raises((UsageError, OSError), match=says):
        archives.unpack(zipped(change), tree, trees.Budget(MEBI))
    assert {*tmp_path.iterdir()} == {tree}


@pytest.mark.fault(
    2,
    "an archive of which any byte is damaged",
    "it is unpacked, or refused with a sentence",
)
def test_damaged_archives_are_unpacked_or_refused(tmp_path: Path) -> None:
    """An archive with any damaged byte is unpacked or refused with one sentence."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:xz") as members:
        members.addfile(tarfile.TarInfo("a"), io.BytesIO())
    for kind, whole in (
        ("zip", zipped(lambda _: None).getvalue()),
        ("tar", made.getvalue()),
    ):
        for at in range(6, len(whole)):
            tree = tmp_path / f"{kind}{at}"
            tree.mkdir()
            body = io.BytesIO(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
            with contextlib.suppress(UsageError):  # no other error
                archives.unpack(body, tree, trees.Budget(MEBI))


def test_the_list_of_members_is_bounded(tmp_path: Path) -> None:
    """A zip file whose list is longer than anything it can have is refused before the list is read."""
    made = zipped(lambda _: None).getvalue()
    end = made.rindex(b"PK\5\6")
    size = (20 * MEBI).to_bytes(4, "little")
    body = (
        made[:end] + b"\0" * 20 * MEBI + made[end : end + 12] + size + made[end + 16 :]
    )
    with pytest.raises(
        UsageError, match=r"header of more than 16 MiB|cannot be unpacked"
    ):
        archives.unpack(io.BytesIO(body), tmp_path, trees.Budget(MEBI))


def test_second_archive_replaces_nothing_of_the_first(tmp_path: Path) -> None:
    """The second one replaces nothing, and nothing of it goes through a link of the first."""
    first = zipped(lambda members: add(members, "link", b"good", stat.S_IFLNK))
    archives.unpack(first, tmp_path, trees.Budget(MEBI))
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as members:
        add(members, "link/b", b"2")
    made.seek(0)
    with pytest.raises(UsageError, match="where something else is"):
        archives.unpack(made, tmp_path, trees.Budget(MEBI))
    assert [*(tmp_path / "good").iterdir()] == [tmp_path / "good/a"]
