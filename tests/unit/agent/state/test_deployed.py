from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path

import pytest

from heat_config_agent.model.errors import StateError
from heat_config_agent.state.deployed import Deployed


def test_a_folder_that_is_not_there_marks_nothing(tmp_path: Path) -> None:
    """A missing folder marks nothing, and reading does not create it."""
    assert Deployed(tmp_path / "deployed").keys() is None
    assert list(tmp_path.iterdir()) == []


def test_deployment_and_result_are_kept_as_private_files(tmp_path: Path) -> None:
    """`ID.json` is the deployment, `ID.notify.json` its result; nobody else may read them."""
    folder = tmp_path / "var" / "deployed"
    deployed = Deployed(folder)
    deployed.keep("a", {"id": "a", "config": "é"})
    deployed.keep("a", {}, {"deploy_status_code": 0})
    deployed.sync()
    assert json.loads((folder / "a.json").read_text()) == {"id": "a", "config": "é"}
    assert json.loads((folder / "a.notify.json").read_text()) == {
        "deploy_status_code": 0
    }
    assert {stat.S_IMODE(each.stat().st_mode) for each in folder.iterdir()} == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_shorter_one_replaces_a_longer_one_whole(tmp_path: Path) -> None:
    """No tail of the old one is left."""
    deployed = Deployed(tmp_path)
    deployed.keep("a", {}, {"deploy_stdout": "x" * 1000})
    deployed.keep("a", {}, {})
    assert (tmp_path / "a.notify.json").read_text() == "{}"


def test_only_a_deployment_is_a_mark(tmp_path: Path) -> None:
    """Neither the result of a deployment nor another file is a mark."""
    for name in ("a.json", "b.notify.json", "c.txt", "d", ".e.json.new", "f.json.orig"):
        (tmp_path / name).touch()
    assert Deployed(tmp_path).keys() == frozenset({"a"})


def test_an_empty_file_is_a_mark(tmp_path: Path) -> None:
    """An older agent that was killed leaves such ones; removing it means to run again."""
    (tmp_path / "a.json").touch()
    assert Deployed(tmp_path).keys() == frozenset({"a"})
    (tmp_path / "a.json").unlink()
    assert Deployed(tmp_path).keys() == frozenset()


def test_the_older_folder_is_moved_when_there_is_no_newer_one(tmp_path: Path) -> None:
    """Nothing runs again after a change from heat-agents; until then it is read where it is."""
    old, new = tmp_path / "run" / "deployed", tmp_path / "lib" / "deployed"
    old.mkdir(parents=True)
    (old / "a.json").write_text("{}")
    deployed = Deployed(new, old=old)
    assert deployed.keys() == frozenset({"a"})
    assert not new.exists()
    deployed.prepare()
    assert deployed.keys() == frozenset({"a"})
    assert not old.exists()
    assert [each.name for each in new.iterdir()] == ["a.json"]


def test_the_older_folder_is_left_alone_when_there_is_a_newer_one(
    tmp_path: Path,
) -> None:
    """Where both are there the newer one counts alone."""
    old, new = tmp_path / "old", tmp_path / "new"
    for folder, name in ((old, "a.json"), (new, "b.json")):
        folder.mkdir()
        (folder / name).touch()
    deployed = Deployed(new, old=old)
    deployed.keep("c", {})
    assert deployed.keys() == frozenset({"b", "c"})
    assert [each.name for each in old.iterdir()] == ["a.json"]


def test_to_forget_a_deployment_removes_both_files(tmp_path: Path) -> None:
    """Forgetting removes both files of the deployment and no others, and may be repeated."""
    deployed = Deployed(tmp_path)
    for key in ("a", "ab"):
        deployed.keep(key, {}, {})
    deployed.forget("a")
    deployed.forget("a")
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        "ab.json",
        "ab.notify.json",
    ]


def test_a_folder_that_cannot_be_read_is_not_taken_for_an_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that was done would be done again."""

    def broken(_: object) -> list[str]:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "listdir", broken)
    with pytest.raises(StateError, match="Input/output error"):
        Deployed(tmp_path).keys()
