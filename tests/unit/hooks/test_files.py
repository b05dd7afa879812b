from __future__ import annotations

import errno
import os
import resource
import stat
import threading
from pathlib import Path

import pytest

from heat_config_hooks import files


def mode(path: Path) -> int:
    """Return the permissions of a file."""
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("umask", [0, 0o77, 0o777])
def test_a_file_has_its_mode_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    """It is for nobody else, unless it is said to be."""
    before = os.umask(umask)
    try:
        files.replace(tmp_path / "a", b"x")
        files.replace(tmp_path / "b", b"x", mode=0o700)
    finally:
        os.umask(before)
    assert (mode(tmp_path / "a"), mode(tmp_path / "b")) == (0o600, 0o700)


@pytest.mark.parametrize("content", [b"", b"short", b"x" * 1_000_000])
def test_a_file_is_replaced_whole(tmp_path: Path, content: bytes) -> None:
    """No tail of a longer one is left, and nothing else is."""
    path = tmp_path / "a"
    path.write_bytes(b"before" * 1000)
    path.chmod(0o644)
    files.replace(path, content)
    assert path.read_bytes() == content
    assert mode(path) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_whoever_reads_sees_the_old_or_the_new(tmp_path: Path) -> None:
    """Never a part or a mixture."""
    path = tmp_path / "a"
    contents = [letter * 200_000 for letter in (b"a", b"b")]
    files.replace(path, contents[0])
    seen: list[bytes] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            seen.append(path.read_bytes())

    reader = threading.Thread(target=read)
    reader.start()
    for index in range(100):
        files.replace(path, contents[index % 2])
    done.set()
    reader.join()
    assert set(seen) <= set(contents)


def test_a_durable_file_is_on_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And its name is before anything is said: a power cut leaves the old or the new one, and then the new one."""
    path = tmp_path / "a"
    path.write_bytes(b"old")
    flushed: list[tuple[str, bytes]] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        real(descriptor)
        flushed.append((str(Path(f"/proc/self/fd/{descriptor}").readlink()), path.read_bytes()))

    monkeypatch.setattr(os, "fsync", fsync)
    files.replace(path, b"new")
    assert flushed == []
    path.write_bytes(b"old")
    files.replace(path, b"new", durable=True)
    assert flushed == [(str(tmp_path / ".a.new"), b"old"), (str(tmp_path), b"new")]
    assert (path.read_bytes(), mode(path), list(tmp_path.iterdir())) == (b"new", 0o600, [path])


def test_a_disk_that_cannot_keep_a_file_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old file is left, no half of the new one, and no open descriptor."""
    path = tmp_path / "a"
    files.replace(path, b"old")
    descriptors = len(os.listdir("/proc/self/fd"))

    def fsync(_descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(OSError, match="Input/output error"):
        files.replace(path, b"new", durable=True)
    with pytest.raises(OSError, match="Input/output error"):
        files.sync_directory(tmp_path)
    assert (path.read_bytes(), list(tmp_path.iterdir())) == (b"old", [path])
    assert len(os.listdir("/proc/self/fd")) == descriptors


def test_what_a_kill_has_left_is_no_obstacle(tmp_path: Path) -> None:
    """It is overwritten, and gone."""
    path = tmp_path / "a"
    (tmp_path / ".a.new").write_bytes(b"half of a longer one")
    files.replace(path, b"x")
    assert (path.read_bytes(), list(tmp_path.iterdir())) == (b"x", [path])


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    """What it led to stays what it is."""
    (tmp_path / "other").write_bytes(b"other")
    (tmp_path / "a").symlink_to(tmp_path / "other")
    files.replace(tmp_path / "a", b"x")
    assert (tmp_path / "other").read_bytes() == b"other"
    assert not (tmp_path / "a").is_symlink()


def test_a_link_in_the_place_of_the_new_file_is_not_followed(tmp_path: Path) -> None:
    """Whoever put it there gains nothing."""
    (tmp_path / "other").write_bytes(b"other")
    (tmp_path / ".a.new").symlink_to(tmp_path / "other")
    with pytest.raises(OSError, match="symbolic links"):
        files.replace(tmp_path / "a", b"x")
    assert (tmp_path / "other").read_bytes() == b"other"


def test_a_disk_without_room_leaves_the_old_file(tmp_path: Path) -> None:
    """And no half of the new one, and no open descriptor."""
    path = tmp_path / "a"
    files.replace(path, b"old")
    descriptors = os.listdir("/proc/self/fd")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            files.replace(path, b"x" * 1000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (path.read_bytes(), list(tmp_path.iterdir())) == (b"old", [path])
    assert len(os.listdir("/proc/self/fd")) == len(descriptors)


def test_a_file_that_cannot_be_put_in_its_place_leaves_nothing(tmp_path: Path) -> None:
    """A folder of its name is not replaced."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    with pytest.raises(IsADirectoryError):
        files.replace(tmp_path / "a", b"x")
    assert [each.name for each in tmp_path.iterdir()] == ["a"]


def test_a_folder_is_made_with_its_parents(tmp_path: Path) -> None:
    """For nobody else; those that are there are left as they are."""
    (tmp_path / "a").mkdir(mode=0o755)
    files.make_directory(tmp_path / "a" / "b" / "c")
    files.make_directory(tmp_path / "a" / "b" / "c")
    assert [mode(tmp_path / each) for each in ("a", "a/b", "a/b/c")] == [0o755, 0o700, 0o700]


def test_a_file_in_the_way_of_a_folder_is_said(tmp_path: Path) -> None:
    """It is not removed."""
    (tmp_path / "a").touch()
    for path in (tmp_path / "a", tmp_path / "a" / "b"):
        with pytest.raises(OSError, match=r"File exists|Not a directory"):
            files.make_directory(path)


@pytest.mark.parametrize("kind", ["file", "folder", "link", "link to a folder", "nothing"])
def test_whatever_is_there_is_removed(tmp_path: Path, kind: str) -> None:
    """A folder with all that is in it; of a link the link alone."""
    path, other = tmp_path / "a", tmp_path / "other"
    (other / "kept").mkdir(parents=True)
    if kind == "file":
        path.touch()
    elif kind == "folder":
        (path / "b").mkdir(parents=True)
        (path / "b" / "c").symlink_to(other)
    elif kind != "nothing":
        path.symlink_to(other if kind == "link to a folder" else "nowhere")
    files.remove(path)
    assert [each.name for each in tmp_path.iterdir()] == ["other"]
    assert (other / "kept").is_dir()
