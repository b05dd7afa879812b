from __future__ import annotations

import os
from pathlib import Path

import pytest

from heat_config_agent.masking.secrets import Secrets
from heat_config_agent.runs import streams
from heat_config_agent.runs.streams import LEAST
from heat_config_hooks.reply import EDGE

MEBI = 1024 * 1024
SECRET = b"planted-secret-9"


def taken(path: Path) -> int:
    """Return how many bytes a file takes on disk."""
    return path.stat().st_blocks * 512


def long(path: Path, size: int) -> bytes:
    """Write a long text, and return it; skip where it cannot be shortened."""
    content = b"begins\n" + b"1234567\n" * (size // 8) + b"ends\n"
    path.write_bytes(content)
    descriptor = os.open(path.with_name("try"), os.O_RDWR | os.O_CREAT)
    try:
        os.pwrite(descriptor, b"x" * 8192, 0)
        streams._punch(descriptor, 0, 4096)  # noqa: SLF001
    except OSError as error:
        pytest.skip(
            f"no holes can be made in files in {path.parent} ({error.strerror}): set TMPDIR to another place"
        )
    finally:
        os.close(descriptor)
    return content


def read(path: Path) -> list[tuple[int, bytes]]:
    """Return all that `read` finds: what is left out, and what follows."""
    found: list[tuple[int, bytes]] = []
    offset = 0
    with path.open("rb") as file:
        while True:
            left_out, block = streams.read(file.fileno(), offset, MEBI)
            if not block:
                return found
            found.append((left_out, block))
            offset += left_out + len(block)


def test_long_stream_loses_its_middle(tmp_path: Path) -> None:
    """The beginning and the end stay where they are, and take no more room than they may."""
    path = tmp_path / "stdout"
    content = long(path, 10 * MEBI)
    assert streams.bound(path, LEAST) >= 10 * MEBI
    assert taken(path) <= LEAST
    assert path.stat().st_size == len(content)
    shown = path.read_bytes()
    assert shown[:MEBI] == content[:MEBI]
    assert shown[-MEBI:] == content[-MEBI:]


def test_omitted_bytes_are_skipped_and_counted(tmp_path: Path) -> None:
    """No reader sees the zeros of the hole; it is known how many bytes they are."""
    path = tmp_path / "stdout"
    content = long(path, 10 * MEBI)
    streams.bound(path, LEAST)
    parts = read(path)
    assert all(b"\0" not in block for _, block in parts)
    assert sum(left_out + len(block) for left_out, block in parts) == len(content)
    assert len([left_out for left_out, _ in parts if left_out]) == 1


def test_growing_stream_can_be_shortened_repeatedly(tmp_path: Path) -> None:
    """A stream that is opened to append can grow and be shortened again and again."""
    path = tmp_path / "stdout"
    long(path, 6 * MEBI)
    with path.open("ab") as file:
        for _ in range(4):
            streams.bound(path, LEAST)
            file.write(b"y" * 3 * MEBI + b"end")
            file.flush()
    streams.bound(path, LEAST)
    assert taken(path) <= LEAST
    assert path.read_bytes().endswith(b"yend")
    assert path.read_bytes().startswith(b"begins\n")


@pytest.mark.parametrize("limit", [0, 64 * MEBI])
def test_short_stream_is_unchanged(tmp_path: Path, limit: int) -> None:
    """A stream within the limit, or without a limit, is unchanged."""
    path = tmp_path / "stdout"
    path.write_bytes(b"x" * 5 * MEBI)
    assert streams.bound(path, limit) == 5 * MEBI
    assert path.read_bytes() == b"x" * 5 * MEBI


def test_a_small_limit_leaves_what_results_need(tmp_path: Path) -> None:
    """The beginning and the end that a result holds are never left out."""
    path = tmp_path / "stdout"
    content = long(path, 10 * MEBI)
    streams.bound(path, 1)
    assert path.read_bytes()[:MEBI] == content[:MEBI]
    assert taken(path) > 2 * MEBI


@pytest.mark.parametrize("make", [lambda _: None, Path.mkdir, os.mkfifo])
def test_stream_other_than_a_file_is_left_alone(tmp_path: Path, make: object) -> None:
    """The command may have done anything to its own folder."""
    path = tmp_path / "stdout"
    assert callable(make)
    make(path)
    try:
        assert streams.bound(path, LEAST) == 0
    except IsADirectoryError:
        assert path.is_dir()


def test_secrets_are_written_over(tmp_path: Path) -> None:
    """Secrets are overwritten everywhere, also across blocks, and other text stays in its place."""
    path = tmp_path / "stdout"
    block = streams._BLOCK  # noqa: SLF001
    content = bytearray(b"." * (2 * block + 100))
    for place in (
        0,
        50,
        block - 5,
        2 * block - len(SECRET),
        len(content) - len(SECRET),
    ):
        content[place : place + len(SECRET)] = SECRET
    path.write_bytes(content)
    number = path.stat().st_ino
    secrets = Secrets([SECRET.decode(), "other"])
    assert any(list(streams.mask(path, secrets)))
    assert path.read_bytes() == bytes(content).replace(SECRET, b"*" * len(SECRET))
    assert path.stat().st_ino == number
    assert not any(list(streams.mask(path, secrets)))


def test_half_a_secret_beside_a_hole_goes_too(tmp_path: Path) -> None:
    """Text next to a hole is masked if it may be a part of a secret."""
    path = tmp_path / "stdout"
    long(path, 10 * MEBI)
    streams.bound(path, LEAST)
    (_, head), *_ = read(path)
    list(streams.mask(path, Secrets([SECRET.decode()])))
    parts = [block for _, block in read(path)]
    joined = b"".join(parts)
    assert joined.count(b"*") == 2 * EDGE
    assert joined.startswith(head[:1000])
    assert taken(path) <= LEAST


def test_without_secrets_nothing_is_written(tmp_path: Path) -> None:
    """Without secrets the file is neither written nor read."""
    path = tmp_path / "stdout"
    path.write_bytes(b"text")
    assert not any(streams.mask(path, Secrets([])))
    with pytest.raises(FileNotFoundError):
        list(streams.mask(tmp_path / "none", Secrets([SECRET.decode()])))


def test_a_copy_is_out_of_reach_of_what_prints(tmp_path: Path) -> None:
    """A copy has the same content and the same holes; what has the file open writes into it no more."""
    path = tmp_path / "stdout"
    long(path, 10 * MEBI)
    streams.bound(path, LEAST)
    before = read(path)
    path.chmod(0o666)
    (tmp_path / "stdout.copy").write_text("of an attempt that was interrupted")
    with path.open("ab") as printing:
        streams.detach(path)
        printing.write(b"later")
    assert read(path) == before
    assert (taken(path) <= LEAST, path.stat().st_mode & 0o777) == (True, 0o600)
    assert not (tmp_path / "stdout.copy").exists()


def test_only_a_file_is_copied(tmp_path: Path) -> None:
    """A link, a pipe and a folder are errors, so that the caller removes them."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/etc/passwd")
    for name in ("pipe", "link", "."):
        with pytest.raises(OSError, match=r"it is not a regular file|Too many levels"):
            streams.detach(tmp_path / name)
