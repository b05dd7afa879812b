from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from heat_config_agent.model.deployment import Document
from heat_config_agent.model.errors import SourceError, UsageError
from heat_config_agent.sources.base import Reach, Source
from heat_config_agent.sources.file import Files
from heat_config_agent.sources.local import Local


def local(*paths: Path) -> Local:
    """A source that reads those directories."""
    return Local({"path": tuple(map(str, paths))}, Reach())


def named(*paths: Path) -> Files:
    """A source that reads those files."""
    return Files({"path": tuple(map(str, paths))}, Reach())


def put(path: Path, *ids: str, **more: object) -> Path:
    """A document with deployments of those ids, written long ago."""
    path.write_text(json.dumps({"deployments": [{"id": each} for each in ids], **more}))
    return path


def settle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take every file for one that was written long ago."""
    monkeypatch.setattr("heat_config_agent.sources.file.SETTLED_NS", -1)


def ids(document: Document | None) -> list[str]:
    """The ids of a document's deployments."""
    assert document is not None
    assert isinstance(document.content, dict)
    return [each["id"] for each in document.content["deployments"]]


def test_the_files_are_one_document_in_the_order_of_names(tmp_path: Path) -> None:
    """Directories come one after the other; a list has deployments; for other keys, the last file counts."""
    first, second = tmp_path / "1", tmp_path / "2"
    first.mkdir()
    second.mkdir()
    put(first / "b.json", "3", a=1, b=1)
    (first / "a.yaml").write_text("- id: '1'\n- id: '2'\n")
    put(second / "0.json", "4", b=2)
    (second / "1.json").write_text('{"c": {"d": 3}}')
    asked = local(first, second)
    found = asked.collect()
    assert ids(found) == ["1", "2", "3", "4"]
    assert found is not None
    assert isinstance(found.content, dict)
    assert {key: found.content[key] for key in "abc"} == {"a": 1, "b": 2, "c": {"d": 3}}
    assert (found.source, asked.trouble) == ("local", "")


def test_each_file_may_have_a_signed_list_of_its_configs(tmp_path: Path) -> None:
    """The list of one file does not replace that of another."""
    put(tmp_path / "a.json", "1", **{"heat-config-signatures": "one"})
    put(tmp_path / "b.json", "2", **{"heat-config-signatures": ["two", "three"]})
    put(tmp_path / "c.json", "3")
    found = local(tmp_path).collect()
    assert found is not None
    assert found.signed_configs == tuple(
        f"heat-config-configs\n{each}" for each in ("one", "two", "three")
    )


def test_missing_directory_gives_no_document(tmp_path: Path) -> None:
    """An instance need not have one; an empty one has no deployments, and that is an answer."""
    asked = local(tmp_path / "local-data")
    assert asked.collect() is None
    (tmp_path / "local-data").mkdir()
    assert ids(asked.collect()) == []


@pytest.mark.parametrize(
    "bad",
    [
        '{"deployments": [',
        "",
        "7",
        '{"deployments": {}}',
        '{"heat_template_version": "x"}',
    ],
)
def test_bad_file_does_not_hide_the_others(tmp_path: Path, bad: str) -> None:
    """The bad file is named, and the others are used."""
    put(tmp_path / "a.json", "1")
    (tmp_path / "b.json").write_text(bad)
    put(tmp_path / "c.json", "3")
    asked = local(tmp_path)
    assert ids(asked.collect()) == ["1", "3"]
    assert f"cannot read {tmp_path / 'b.json'}: " in asked.trouble
    assert "still counts" not in asked.trouble
    put(tmp_path / "b.json", "2")
    assert ids(asked.collect()) == ["1", "2", "3"]
    assert not asked.trouble


def test_a_directory_or_a_pipe_with_the_name_of_a_file_is_a_bad_file(
    tmp_path: Path,
) -> None:
    """A directory or a pipe in the place of a file is an error, and a pipe is not waited for."""
    put(tmp_path / "a.json", "1")
    (tmp_path / "b.json").mkdir()
    os.mkfifo(tmp_path / "c.json")
    asked = local(tmp_path)
    assert ids(asked.collect()) == ["1"]
    broken = (
        f"cannot read {tmp_path}/{name}: it is not a file"
        for name in ("b.json", "c.json")
    )
    assert asked.trouble == "; ".join(broken)


def test_unreadable_file_keeps_its_last_content(tmp_path: Path) -> None:
    """A half-written file must not have its deployments undone; a removed one must."""
    put(tmp_path / "a.json", "1")
    put(tmp_path / "b.json", "2")
    asked = local(tmp_path)
    first = asked.collect()
    (tmp_path / "b.json").write_text('{"deployments": [{"id":')
    assert asked.collect() is first
    assert "b.json: line 1, column 24" in asked.trouble
    assert "; its content from before still counts" in asked.trouble
    (tmp_path / "b.json").unlink()
    assert ids(asked.collect()) == ["1"]
    assert not asked.trouble
    (tmp_path / "b.json").write_text('{"deployments": [')
    # what a removed file once said does not come back
    assert ids(asked.collect()) == ["1"]


def test_where_nothing_can_be_used_the_source_has_not_answered(tmp_path: Path) -> None:
    """A source without a usable file has not answered, so no deployment counts as removed."""
    (tmp_path / "a.json").write_text("{")
    with pytest.raises(UsageError, match=r"a\.json: line 1, column 2"):
        local(tmp_path).collect()
    with pytest.raises(SourceError, match=r"a\.json: Not a directory"):
        local(tmp_path / "a.json").collect()


def test_a_directory_that_cannot_be_read_keeps_what_was_in_it(tmp_path: Path) -> None:
    """The others are used."""
    first, second = tmp_path / "1", tmp_path / "2"
    for each in (first, second):
        each.mkdir()
        put(each / "a.json", each.name)
    asked = local(first, second)
    assert ids(asked.collect()) == ["1", "2"]
    shutil.rmtree(second)
    second.write_text("not a directory any more")
    put(first / "b.json", "3")
    assert ids(asked.collect()) == ["1", "3", "2"]
    assert f"cannot read {second}: Not a directory" in asked.trouble


def test_a_directory_that_is_gone_has_no_deployments_any_more(tmp_path: Path) -> None:
    """As if all its files had been removed."""
    directory = tmp_path / "local-data"
    directory.mkdir()
    put(directory / "a.json", "1")
    asked = local(directory)
    assert ids(asked.collect()) == ["1"]
    shutil.rmtree(directory)
    assert ids(asked.collect()) == []


def test_files_of_editors_are_not_read(tmp_path: Path) -> None:
    """Hidden files, copies, and other kinds of files."""
    for name in (
        ".a.json",
        ".#a.json",
        "a.json~",
        "#a.json#",
        "a.json.new",
        "a.json.swp",
        "README",
    ):
        (tmp_path / name).write_text("{")
    asked = local(tmp_path)
    assert ids(asked.collect()) == []
    assert not asked.trouble


@pytest.mark.parametrize("kind", [local, named])
def test_an_unchanged_file_gives_the_same_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Callable[..., Source]
) -> None:
    """The very object, and no file is even opened."""
    path = put(tmp_path / "a.json", "1")
    asked = kind(tmp_path if kind is local else path)
    first = asked.collect()
    # just written: read once more, for a time stamp might hide a change
    assert asked.collect() is first
    settle(monkeypatch)
    assert asked.collect() is first
    with monkeypatch.context() as patch:
        patch.setattr(
            "heat_config_agent.sources.file.regular",
            lambda _: pytest.fail("it was read"),
        )
        assert asked.collect() is first
    new = put(tmp_path / "a.new", "2")
    os.utime(new, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
    new.replace(path)
    assert ids(asked.collect()) == ["2"]


def test_a_change_within_one_tick_of_the_clock_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though all that is looked at is the same: what was written just now is not trusted."""
    now = time.time_ns()
    monkeypatch.setattr(
        "heat_config_agent.sources.local.states_of",
        lambda paths: [(path, 1, 1, 1, now) for path in paths],
    )
    put(tmp_path / "a.json", "1")
    asked = local(tmp_path)
    assert ids(asked.collect()) == ["1"]
    put(tmp_path / "a.json", "2")
    assert ids(asked.collect()) == ["2"]


def test_named_files_are_one_document(tmp_path: Path) -> None:
    """The files are read in their order; a missing file is reported, and the deployments of it are not lost."""
    first, second = put(tmp_path / "z", "1"), put(tmp_path / "a.yaml", "2")
    asked = named(first, second, first)
    found = asked.collect()
    assert ids(found) == ["1", "2"]
    assert found is not None
    assert (found.source, asked.trouble) == ("file", "")
    first.unlink()
    assert asked.collect() is found
    assert (
        asked.trouble
        == f"cannot read {first}: No such file or directory; its content from before still counts"
    )
    assert ids(named(first, second).collect()) == ["2"]
    with pytest.raises(SourceError, match="No such file or directory"):
        named(first).collect()
    assert named().collect() is None
