from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import resource
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from heat_config_hooks import files
from support import endings, pace
from support.observations import held_open


def mode(path: Path) -> int:
    """Return the permissions of a file."""
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("umask", [0, 0o77, 0o777])
def test_a_file_has_its_mode_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    """It is private unless another mode is requested."""
    before = os.umask(umask)
    try:
        files.replace(tmp_path / "a", b"x")
        files.replace(tmp_path / "b", b"x", mode=0o700)
    finally:
        os.umask(before)
    assert (mode(tmp_path / "a"), mode(tmp_path / "b")) == (0o600, 0o700)


@pytest.mark.parametrize("content", [b"", b"short", b"x" * 1_000_000])
def test_a_file_is_replaced_whole(tmp_path: Path, content: bytes) -> None:
    """Nothing of a longer file is left, and no temporary file."""
    path = tmp_path / "a"
    path.write_bytes(b"before" * 1000)
    path.chmod(0o644)
    files.replace(path, content)
    assert path.read_bytes() == content
    assert mode(path) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_whoever_reads_sees_the_old_or_the_new(tmp_path: Path) -> None:
    """Readers never see a part or a mixture."""
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


def test_processes_that_write_one_file_at_once_do_not_mix(tmp_path: Path) -> None:
    """Each writes a complete file, none fails because of another, and no temporary file is left."""
    path = tmp_path / "a"
    code = """
import sys
from pathlib import Path
from heat_config_hooks import files

content = sys.argv[2].encode() * int(sys.argv[3])
sys.stdin.read()
for _ in range(150):
    files.replace(Path(sys.argv[1]), content)
"""
    contents = {
        letter.encode() * length
        for letter, length in (("a", 10), ("b", 100_000), ("c", 300_000))
    }
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(path), chr(content[0]), str(len(content))],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for content in contents
    ]
    for each in writers:
        assert each.stdin is not None
        each.stdin.close()
    seen: set[bytes] = set()
    while any(each.poll() is None for each in writers):
        with contextlib.suppress(FileNotFoundError):
            seen.add(path.read_bytes())
    said = []
    for each in writers:
        assert each.stderr is not None
        with each.stderr:
            said.append(each.stderr.read())
    assert (said, [each.returncode for each in writers]) == ([b""] * 3, [0] * 3)
    assert {*seen, path.read_bytes()} <= contents
    assert list(tmp_path.iterdir()) == [path]


def test_who_waits_for_a_file_touches_neither_it_nor_what_it_became(
    tmp_path: Path,
) -> None:
    """A waiting process removes nothing, and a failing one removes only its own temporary file."""
    path, temporary = tmp_path / "a", tmp_path / ".a.new"
    temporary.write_bytes(b"being written")
    with temporary.open("ab") as writing:
        fcntl.flock(writing, fcntl.LOCK_EX)
        waiting = threading.Thread(target=files.replace, args=(path, b"second"))
        ended = subprocess.Popen(
            [sys.executable, "-c", _REPLACE, str(path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        waiting.start()
        with endings.ended(ended):
            assert ended.stdout is not None
            assert ended.stdout.read(1) == b"."
            _wait_until_blocked(ended.pid)
            ended.send_signal(signal.SIGINT)
            assert ended.wait(pace.seconds(60)) != 0
        assert temporary.read_bytes() == b"being written"
        temporary.rename(path)
        (tmp_path / "kept").hardlink_to(path)
    waiting.join()
    assert (path.read_bytes(), (tmp_path / "kept").read_bytes()) == (
        b"second",
        b"being written",
    )
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a", "kept"]


_REPLACE = """
import signal
import sys
from pathlib import Path
from heat_config_hooks import files

signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever we were started with
print(".", end="", flush=True)
files.replace(Path(sys.argv[1]), b"never")
"""


def _wait_until_blocked(pid: int) -> None:
    """Wait until a process waits for a lock."""
    deadline = time.monotonic() + pace.seconds(20)
    while not any(
        "->" in line and f" {pid} " in line
        for line in Path("/proc/locks").read_text().splitlines()
    ):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_durable_file_is_on_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name is on disk before the function returns, so a power cut leaves the old or the new file."""
    path = tmp_path / "a"
    path.write_bytes(b"old")
    flushed: list[tuple[str, bytes]] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        real(descriptor)
        flushed.append(
            (str(Path(f"/proc/self/fd/{descriptor}").readlink()), path.read_bytes())
        )

    monkeypatch.setattr(os, "fsync", fsync)
    files.replace(path, b"new")
    assert flushed == []
    path.write_bytes(b"old")
    files.replace(path, b"new", durable=True)
    assert flushed == [(str(tmp_path / ".a.new"), b"old"), (str(tmp_path), b"new")]
    assert (path.read_bytes(), mode(path), list(tmp_path.iterdir())) == (
        b"new",
        0o600,
        [path],
    )


def test_file_that_cannot_be_kept_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old file stays, without parts of the new one and without open descriptors."""
    path = tmp_path / "a"
    files.replace(path, b"old")

    def fsync(_descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(OSError, match="Input/output error"):
        files.replace(path, b"new", durable=True)
    with pytest.raises(OSError, match="Input/output error"):
        files.sync_directory(tmp_path)
    assert (path.read_bytes(), list(tmp_path.iterdir())) == (b"old", [path])
    assert held_open(tmp_path) == []


def test_temporary_file_of_a_killed_process_is_overwritten(tmp_path: Path) -> None:
    """The temporary file of a killed process is overwritten."""
    path = tmp_path / "a"
    (tmp_path / ".a.new").write_bytes(b"half of a longer one")
    files.replace(path, b"x")
    assert (path.read_bytes(), list(tmp_path.iterdir())) == (b"x", [path])


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    """The target of the link is not changed."""
    (tmp_path / "other").write_bytes(b"other")
    (tmp_path / "a").symlink_to(tmp_path / "other")
    files.replace(tmp_path / "a", b"x")
    assert (tmp_path / "other").read_bytes() == b"other"
    assert not (tmp_path / "a").is_symlink()


def test_a_link_in_the_place_of_the_new_file_is_not_followed(tmp_path: Path) -> None:
    """A link in the place of the temporary file is not followed."""
    (tmp_path / "other").write_bytes(b"other")
    (tmp_path / ".a.new").symlink_to(tmp_path / "other")
    with pytest.raises(OSError, match="symbolic links"):
        files.replace(tmp_path / "a", b"x")
    assert (tmp_path / "other").read_bytes() == b"other"


def test_a_disk_without_room_leaves_the_old_file(tmp_path: Path) -> None:
    """No part of the new one is left, and no open descriptor."""
    path = tmp_path / "a"
    files.replace(path, b"old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            files.replace(path, b"x" * 1000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (path.read_bytes(), list(tmp_path.iterdir())) == (b"old", [path])
    assert held_open(tmp_path) == []


def test_a_file_that_cannot_be_put_in_its_place_leaves_nothing(tmp_path: Path) -> None:
    """A folder of the same name is not replaced."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    with pytest.raises(IsADirectoryError):
        files.replace(tmp_path / "a", b"x")
    assert [each.name for each in tmp_path.iterdir()] == ["a"]


def test_a_folder_is_made_with_its_parents(tmp_path: Path) -> None:
    """New folders are private; existing ones are not changed."""
    (tmp_path / "a").mkdir(mode=0o755)
    files.make_directory(tmp_path / "a" / "b" / "c")
    files.make_directory(tmp_path / "a" / "b" / "c")
    assert [mode(tmp_path / each) for each in ("a", "a/b", "a/b/c")] == [
        0o755,
        0o700,
        0o700,
    ]


def test_file_in_the_place_of_a_folder_is_reported(tmp_path: Path) -> None:
    """The file is not removed."""
    (tmp_path / "a").touch()
    for path in (tmp_path / "a", tmp_path / "a" / "b"):
        with pytest.raises(OSError, match=r"File exists|Not a directory"):
            files.make_directory(path)


@pytest.mark.parametrize(
    "kind", ["file", "folder", "link", "link to a folder", "nothing"]
)
def test_folder_or_link_is_removed(tmp_path: Path, kind: str) -> None:
    """A folder is removed with its contents, and a link without its target."""
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
