from __future__ import annotations

import json
import os
import stat
import subprocess
from pathlib import Path

import pytest

from heat_config_agent.model.errors import SourceError, UsageError
from heat_config_agent.sources.base import Reach
from heat_config_agent.sources.cloud.heat_local import HeatLocal
from support.observations import held_open

METADATA = {
    "os-collect-config": {"collectors": ["heat"], "heat": {"password": "x"}},
    "deployments": [],
}


def source(*paths: Path) -> HeatLocal:
    """A source that reads those files."""
    return HeatLocal({"path": tuple(map(str, paths))}, Reach())


def mode(path: Path) -> int:
    """The permissions of a file."""
    return stat.S_IMODE(path.stat().st_mode)


def written(path: Path, text: str = json.dumps(METADATA)) -> Path:
    """A file as cloud-init leaves it, for all to read."""
    path.write_text(text)
    path.chmod(0o644)
    return path


def test_the_first_file_that_is_there_is_the_document(tmp_path: Path) -> None:
    """Just as it is, and under the name of the source."""
    other = written(tmp_path / "other", '{"deployments": []}')
    asked = source(tmp_path / "missing", written(tmp_path / "data"), other)
    found = asked.collect()
    assert found is not None
    assert (found.source, found.content, asked.trouble) == ("heat_local", METADATA, "")


def test_an_instance_need_not_have_one(tmp_path: Path) -> None:
    """A missing file is not an error, and a file that appears later is found."""
    asked = source(tmp_path / "data")
    assert asked.collect() is None
    written(tmp_path / "data")
    assert asked.collect() is not None


def test_all_files_are_for_the_owner_alone(tmp_path: Path) -> None:
    """All files, which have a password, are private, also the copy that is not used."""
    paths = [written(tmp_path / name) for name in "ab"]
    asked = source(*paths)
    asked.collect()
    assert [mode(path) for path in paths] == [0o600, 0o600]
    assert not asked.trouble


def test_foreign_file_is_reported_and_not_changed(tmp_path: Path) -> None:
    """Through a symbolic link, or under another name, it may be anybody's file."""
    for make in (os.symlink, os.link):
        target = written(tmp_path / f"target-{make.__name__}")
        path = tmp_path / f"data-{make.__name__}"
        make(target, path)
        asked = source(path)
        assert asked.collect() is not None
        assert mode(target) == 0o644
        assert "other users can read it" in asked.trouble


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount anything")
def test_file_on_a_read_only_disk_is_used_and_reported_once(tmp_path: Path) -> None:
    """As on a file system that is read-only: others can read the file, and that stays true."""
    path = written(tmp_path / "data")
    if subprocess.run(
        ["mount", "-o", "bind", tmp_path, tmp_path], capture_output=True, check=False
    ).returncode:
        pytest.skip(
            "nothing can be mounted here: run the tests where «mount -o bind» works"
        )
    try:
        subprocess.run(
            ["mount", "-o", "bind,remount,ro", tmp_path, tmp_path], check=True
        )
        asked = source(path)
        first = asked.collect()
        assert first is not None
        assert (
            asked.trouble == f"{path} contains a password, and other users can read it"
        )
        assert (asked.collect(), mode(path)) == (first, 0o644)
    finally:
        subprocess.run(["umount", "--lazy", tmp_path], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_somebody_elses_file_is_left_as_it_is(tmp_path: Path) -> None:
    """A file of another user is used unchanged, because the administrator has named it."""
    path = written(tmp_path / "data")
    os.chown(path, 1234, 1234)
    assert source(path).collect() is not None
    assert mode(path) == 0o644


def test_an_unchanged_file_gives_the_same_document(tmp_path: Path) -> None:
    """The document is the same object until the content of the file changes."""
    path = written(tmp_path / "data")
    asked = source(path)
    first = asked.collect()
    assert first is asked.collect()
    os.utime(path, (1, 1))
    assert first is asked.collect()
    written(path, '{"deployments": []}')
    second = asked.collect()
    assert second is not None
    assert second.content == {"deployments": []}


def test_directory_in_its_place_is_reported(tmp_path: Path) -> None:
    """A directory or a pipe in the place of the file is reported at once."""
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(SourceError, match=f"cannot read {path}: it is not a file"):
            source(path).collect()
    assert held_open(tmp_path) == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "line 1, column 1: it is empty"),
        (" \n", "line 1, column 1: it is empty"),
        (
            '{"os-collect-config": {\n"heat": {"password": "secr',
            "line 2, column 22: Unterminated string",
        ),
        ("[]", "not a JSON object"),
        ("null", "not a JSON object"),
        ("<html>down for maintenance</html>", "not a JSON object"),
    ],
)
def test_mistake_is_reported_with_its_position(
    tmp_path: Path, text: str, problem: str
) -> None:
    """A mistake is reported with its position and without the content; once corrected, the file is used."""
    path = written(tmp_path / "data", text)
    asked = source(path)
    for _ in range(2):
        with pytest.raises(UsageError, match=problem) as caught:
            asked.collect()
    assert str(path) in str(caught.value)
    assert "secr" not in str(caught.value)
    written(path)
    assert asked.collect() is not None


def test_a_damaged_copy_does_not_hide_the_good_one(tmp_path: Path) -> None:
    """The damaged copy is named, and the good one is used."""
    bad, good = written(tmp_path / "bad", '{"os-'), written(tmp_path / "good")
    asked = source(tmp_path, bad, good)
    found = asked.collect()
    assert found is not None
    assert found.content == METADATA
    assert (
        f"cannot read {tmp_path}: it is not a file; cannot read {bad}: line 1"
        in asked.trouble
    )


def test_binary_garbage_is_contained(tmp_path: Path) -> None:
    """As after a power cut."""
    path = tmp_path / "data"
    path.write_bytes(b"\x00\xff" * 50)
    with pytest.raises(UsageError, match=f"cannot read {path}"):
        source(path).collect()
