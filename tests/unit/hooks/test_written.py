from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from heat_config_hooks import files, protocol
from heat_config_hooks.written import Written, owner
from support.tools import need_root

A, B = "resource stack/1/a", "resource stack/1/b"


@pytest.fixture
def kept(tmp_path: Path) -> Written:
    """The files that a hook has written: none yet."""
    return Written(tmp_path / "working")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file to write, whose folders do not exist yet."""
    return tmp_path / "etc" / "app" / "a.json"


def mode(path: Path) -> int:
    """Return the permissions of a file or folder."""
    return stat.S_IMODE(path.stat().st_mode)


def notes(tmp_path: Path) -> list[Path]:
    """Return the notes about written files."""
    return sorted((tmp_path / "working" / "written").glob("*"))


# Writing.


def test_a_file_is_written_with_its_folders(kept: Written, path: Path) -> None:
    """It is private unless another mode is requested; writing the same again changes nothing, not even its time."""
    assert kept.write(path, b"x", owner=A)
    assert (path.read_bytes(), mode(path), mode(path.parent)) == (b"x", 0o600, 0o700)
    before = path.stat()
    assert not kept.write(path, b"x", owner=A)
    assert path.stat() == before
    assert kept.write(path, b"x", owner=A, mode=0o644)
    assert mode(path) == 0o644
    assert kept.write(path, b"y", owner=A)
    assert (path.read_bytes(), mode(path)) == (b"y", 0o600)


def test_a_file_that_was_there_is_taken_over(kept: Written, path: Path) -> None:
    """An existing file with any content is replaced by ours until ours is removed."""
    path.parent.mkdir(parents=True)
    path.write_bytes(b"somebody's")
    path.chmod(0o666)
    assert kept.write(path, b"x", owner=A)
    assert (path.read_bytes(), mode(path)) == (b"x", 0o600)
    assert kept.remove(path) == f"{path} was put back as it was before"


def test_folders_and_files_are_on_disk_before_it_says_so(
    kept: Written, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each name is synced in its folder, and the note is written before the file."""
    synced: list[Path] = []
    monkeypatch.setattr(files, "sync_directory", synced.append)
    kept.write(path, b"x", owner=A)
    working = tmp_path / "working"
    assert synced == [
        tmp_path,
        working,
        working / "written",
        tmp_path,
        tmp_path / "etc",
        path.parent,
    ]


def test_a_link_is_replaced_and_not_followed(
    kept: Written, path: Path, tmp_path: Path
) -> None:
    """The target of the link, which belongs to others, is not changed."""
    other = tmp_path / "other"
    other.write_bytes(b"x")
    before = mode(other)
    path.parent.mkdir(parents=True)
    path.symlink_to(other)
    assert kept.write(path, b"x", owner=A, mode=0o640)
    assert not path.is_symlink()
    assert (path.read_bytes(), mode(other)) == (b"x", before)
    kept.remove(path)
    assert other.read_bytes() == b"x"


@pytest.mark.parametrize("kind", ["folder", "pipe", "device"])
def test_only_files_are_replaced(
    kept: Written, path: Path, tmp_path: Path, kind: str
) -> None:
    """Anything other than a file is refused at once, and no note is written."""
    path.parent.mkdir(parents=True)
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path = Path("/dev/null")
    before = path.lstat().st_mode
    with pytest.raises(OSError, match="is in its place"):
        kept.write(path, b"x", owner=A)
    assert path.lstat().st_mode == before
    assert notes(tmp_path) == []


def test_whoever_owns_a_file_goes_on_to_own_it(kept: Written, path: Path) -> None:
    """Programs that could read the old content can read the new one."""
    need_root()
    kept.write(path, b"x", owner=A)
    before = path.with_name("before")
    before.write_bytes(b"somebody's")
    for each in (path, before):
        os.chown(each, 65534, 65533)
    assert not kept.write(path, b"x", owner=A)
    assert kept.write(path, b"y", owner=A)
    assert kept.write(before, b"y", owner=A)
    for each in (path, before):
        assert (each.stat().st_uid, each.stat().st_gid, mode(each)) == (
            65534,
            65533,
            0o600,
        )
    before.unlink()
    before.symlink_to(path)
    kept.write(before, b"y", owner=A)
    assert (before.stat().st_uid, before.stat().st_gid) == (0, os.getegid())


def test_whoever_has_put_a_file_into_a_folder_for_all_does_not_get_ours(
    kept: Written, path: Path
) -> None:
    """Even if the content is the same, because it may be anybody's file."""
    need_root()
    path.parent.mkdir(parents=True)
    path.parent.chmod(0o1777)
    path.write_bytes(b"x")
    os.chown(path, 65534, 65534)
    assert kept.write(path, b"x", owner=A)
    assert (path.stat().st_uid, path.stat().st_gid) == (0, 0)


@pytest.mark.parametrize("kind", ["file", "hard link", "pipe"])
def test_nobody_can_lead_a_file_on_its_way_elsewhere(
    kept: Written, path: Path, tmp_path: Path, kind: str
) -> None:
    """In a shared folder, somebody may have put a link in the place of the temporary file."""
    need_root()
    path.parent.mkdir(parents=True)
    before = path.with_name(f".{path.name}.new")
    other = tmp_path / "other"
    other.write_bytes(b"other")
    if kind == "file":
        before.touch()
        os.chown(before, 65534, 65534)
    elif kind == "hard link":
        before.hardlink_to(other)
    else:
        os.mkfifo(before)
    reply = kept.write_all({path: b"a secret"}, owner=A)
    assert reply["deploy_status_code"] == 1
    assert str(reply["deploy_stderr"]).startswith(f"cannot write {path}: ")
    assert other.read_bytes() == b"other"
    assert not path.exists()


# Removing.


def test_changed_file_is_not_removed(kept: Written, path: Path, tmp_path: Path) -> None:
    """The sentence says why a file is left alone; folders stay."""
    assert kept.remove(path) == f"{path} does not exist"
    kept.write(path, b"x", owner=A)
    path.write_bytes(b"changed")
    assert (
        kept.remove(path)
        == f"{path} is left alone: it was changed since it was written"
    )
    path.write_bytes(b"x")
    path.chmod(0o644)
    assert kept.remove(path) == f"{path} was removed"
    assert not path.exists()
    assert path.parent.is_dir()
    assert notes(tmp_path) == []
    path.write_bytes(b"x")
    assert kept.remove(path) == f"{path} is left alone: it was not written here"


@pytest.mark.parametrize("kind", ["link", "folder", "pipe", "no folder"])
def test_link_in_place_of_a_file_is_left_alone(
    kept: Written, path: Path, tmp_path: Path, kind: str
) -> None:
    """A link to the same content does not count."""
    kept.write(path, b"x", owner=A)
    path.unlink()
    if kind == "link":
        (tmp_path / "other").write_bytes(b"x")
        path.symlink_to(tmp_path / "other")
    elif kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.parent.rmdir()
        path.parent.write_bytes(b"")
        assert kept.remove(path) == f"{path} does not exist"
        return
    assert (
        kept.remove(path)
        == f"{path} is left alone: it was changed since it was written"
    )
    assert os.path.lexists(path)


def test_shared_file_is_removed_by_its_last_writer(kept: Written, path: Path) -> None:
    """Whichever wrote it last; others cannot remove it."""
    for first, second in ((A, B), ("web", "db"), (A, "web")):
        kept.write(path, b"x", owner=first)
        kept.write(path, b"y", owner=second)
        assert (
            kept.remove(path, owner=second)
            == f"{path} is left alone: another deployment has it too"
        )
        assert path.read_bytes() == b"y"
        assert kept.remove(path, owner=first) == f"{path} was removed"
    kept.write(path, b"x", owner=A)
    kept.write(path, b"y", owner=B)
    for each in (A, A, "resource stack/1/c"):
        assert (
            kept.remove(path, owner=each)
            == f"{path} is left alone: another deployment has it too"
        )
    assert kept.remove(path, owner=B) == f"{path} was removed"


def test_a_name_may_be_another_at_every_action(
    kept: Written, path: Path, tmp_path: Path
) -> None:
    """An owner that is unknown to a file may have written it under another name, but not as a resource."""
    kept.write(path, b"x", owner="created")
    kept.write(path, b"x", owner="updated")
    assert kept.remove(path, owner="deleted") == f"{path} was removed"
    kept.write(path, b"x", owner="created")
    assert kept.remove(path, owner=A) == f"{path} was removed"
    kept.write(path, b"x", owner=A)
    assert (
        kept.remove(path, owner="deleted")
        == f"{path} is left alone: another deployment has it too"
    )
    for number in range(300):
        kept.write(path, b"x", owner=f"name {number}")
    assert notes(tmp_path)[0].stat().st_size < 3000


def test_a_file_is_of_whoever_wrote_it_last(kept: Written, path: Path) -> None:
    """If that owner removes it, it belongs to the one before."""
    kept.write(path, b"x", owner=A)
    kept.write(path, b"x", owner=B)
    assert (kept.of(A), kept.of(B)) == ([], [path])
    kept.remove_all([], owner=B)
    assert (kept.of(A), kept.of(B)) == ([path], [])
    assert kept.remove(path) == f"{path} was removed"


def test_a_note_of_a_single_owner_is_still_read(
    kept: Written, path: Path, tmp_path: Path
) -> None:
    """Older notes have that form."""
    kept.write(path, b"x", owner=A)
    (note,) = notes(tmp_path)
    values = json.loads(note.read_bytes())
    owners = values.pop("owners")
    note.write_text(json.dumps({**values, "owner": owners[0]}))
    assert kept.of(A) == [path]
    kept.write(path, b"x", owner=B)
    assert (
        kept.remove(path, owner=B)
        == f"{path} is left alone: another deployment has it too"
    )
    assert kept.remove(path, owner=A) == f"{path} was removed"


def test_earlier_file_is_put_back(kept: Written, path: Path, tmp_path: Path) -> None:
    """With its content and mode, however often our file has changed; no copy stays next to the note."""
    path.parent.mkdir(parents=True)
    path.write_bytes(b"\x00 theirs \n\xff")
    path.chmod(0o644)
    kept.write(path, b"ours", owner=A)
    kept.write(path, b"ours, changed", owner=A)
    assert [mode(each) for each in notes(tmp_path)] == [0o600, 0o600]
    assert kept.remove(path, owner=A) == f"{path} was put back as it was before"
    assert (path.read_bytes(), mode(path)) == (b"\x00 theirs \n\xff", 0o644)
    assert notes(tmp_path) == []
    assert (
        kept.remove(path, owner=A) == f"{path} is left alone: it was not written here"
    )


def test_forgotten_file_is_not_removed(kept: Written, path: Path) -> None:
    """A forgotten file has no owner, and is not removed."""
    kept.write(path, b"x", owner=A)
    kept.forget([path, path.parent])
    assert kept.of(A) == []
    assert kept.remove(path) == f"{path} is left alone: it was not written here"


@pytest.mark.parametrize("kills", [1, 2, 3])
def test_a_kill_in_the_middle_leaves_a_file_that_can_be_removed(
    kept: Written, path: Path, monkeypatch: pytest.MonkeyPatch, kills: int
) -> None:
    """Any number of kills between the note and the file leave the old file ours."""
    kept.write(path, b"old", owner=A)
    whole = files.replace

    def killed(target: Path, content: bytes, **more: Any) -> None:
        if target == path:
            raise KeyboardInterrupt
        whole(target, content, **more)

    monkeypatch.setattr(files, "replace", killed)
    for number in range(kills):
        with pytest.raises(KeyboardInterrupt):
            kept.write(path, b"new %d" % number, owner=A)
    assert path.read_bytes() == b"old"
    assert kept.of(A) == [path]
    assert kept.remove(path) == f"{path} was removed"


def test_a_kill_after_somebodys_change_does_not_make_that_ours(
    kept: Written, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that others have changed before the interrupted write is still theirs."""
    kept.write(path, b"ours", owner=A)
    path.write_bytes(b"theirs")
    whole = files.replace

    def killed(target: Path, content: bytes, **more: Any) -> None:
        if target == path:
            raise KeyboardInterrupt
        whole(target, content, **more)

    monkeypatch.setattr(files, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        kept.write(path, b"ours, too", owner=A)
    assert (
        kept.remove(path)
        == f"{path} is left alone: it was changed since it was written"
    )


def test_a_damaged_note_leaves_the_file_alone(
    kept: Written, path: Path, tmp_path: Path
) -> None:
    """The next write repairs the note."""
    kept.write(path, b"x", owner=A)
    (note,) = notes(tmp_path)
    for damage in (
        b"",
        b"[]",
        b'{"path": 1}',
        b'{"path": "/", "owners": [], "digests": []}',
        b"\xff",
    ):
        note.write_bytes(damage)
        assert kept.of(A) == []
        assert kept.remove(path) == f"{path} is left alone: it was not written here"
    assert not kept.write(path, b"x", owner=A)
    assert kept.remove(path) == f"{path} was removed"


def test_notes_hold_no_content_and_are_for_nobody_else(
    kept: Written, path: Path, tmp_path: Path
) -> None:
    """A note has the path and digests only."""
    kept.write(path, b"a secret", owner=A)
    (note,) = notes(tmp_path)
    assert "secret" not in note.read_text()
    assert (mode(note), mode(note.parent)) == (0o600, 0o700)


# All at once.


def test_the_reply_of_a_success_is_empty(kept: Written, tmp_path: Path) -> None:
    """The reply is empty, whether the files were written or unchanged, as in heat-agents."""
    one, two = tmp_path / "1", tmp_path / "2"
    kept.write(two, b"2", owner=A)
    assert kept.write_all({one: b"1", two: b"2"}, owner=A) == {
        "deploy_stdout": "",
        "deploy_stderr": "",
        "deploy_status_code": 0,
    }
    assert (one.read_bytes(), two.read_bytes()) == (b"1", b"2")


def test_unwritable_file_ends_the_deployment(kept: Written, tmp_path: Path) -> None:
    """The reply says why, and names the files that were not tried."""
    (tmp_path / "blocked").touch()
    paths = [
        tmp_path / "1",
        tmp_path / "blocked" / "2" / "x",
        tmp_path / "3",
        tmp_path / "4",
    ]
    assert kept.write_all(dict.fromkeys(paths, b"x"), owner=A) == {
        "deploy_stdout": "",
        "deploy_stderr": f"cannot write {paths[1]}: File exists: {tmp_path / 'blocked'}; "
        f"because of that, these were not written: {paths[2]}, {paths[3]}\n",
        "deploy_status_code": 1,
    }
    assert (paths[0].exists(), paths[2].exists()) == (True, False)


def test_an_owners_files_are_removed_and_those_that_are_named(
    kept: Written, tmp_path: Path
) -> None:
    """Files of others stay."""
    ours, theirs, named, never = (
        tmp_path / each for each in ("ours", "theirs", "named", "never")
    )
    kept.write(ours, b"x", owner=A)
    kept.write(theirs, b"x", owner=B)
    kept.write(named, b"x", owner="a name")
    assert kept.remove_all([named, never], owner=A) == {
        "deploy_stdout": "",
        "deploy_stderr": f"{named} was removed\n{never} does not exist\n{ours} was removed\n",
        "deploy_status_code": 0,
    }
    assert [each.exists() for each in (ours, theirs, named)] == [False, True, False]
    assert (
        kept.remove_all([], owner=A)["deploy_stderr"] == "there is nothing to remove\n"
    )


def test_unremovable_file_is_reported_and_the_others_are_removed(
    kept: Written, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reply is a failure, and a later attempt can succeed."""
    one, two = tmp_path / "1", tmp_path / "2"
    for each in (one, two):
        kept.write(each, b"x", owner=A)
    unlink = Path.unlink

    def refuse(path: Path, missing_ok: bool = False) -> None:
        if path == one:
            raise PermissionError(1, "Operation not permitted", str(path))
        unlink(path, missing_ok=missing_ok)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refuse)
        assert kept.remove_all([], owner=A) == {
            "deploy_stdout": "",
            "deploy_stderr": f"cannot remove {one}: Operation not permitted\n{two} was removed\n",
            "deploy_status_code": 1,
        }
    assert kept.remove_all([], owner=A)["deploy_stderr"] == f"{one} was removed\n"


# Whose they are.


def request(name: str = "", **inputs: object) -> protocol.Request:
    """Return a request with an id of its own."""
    return protocol.Request(
        id="d1",
        key="d1",
        name=name,
        action="CREATE",
        config=None,
        inputs=inputs,
        outputs=(),
        options={},
    )


def test_the_owner_is_the_resource_or_else_the_name_or_the_id() -> None:
    """A resource is the same at all actions, while each action has its own id."""
    assert (
        owner(request("n", deploy_stack_id="s/1", deploy_resource_name="r"))
        == "resource s/1/r"
    )
    assert owner(request("n", deploy_stack_id="s/1")) == "n"
    assert owner(request("n", deploy_resource_name="r")) == "n"
    assert owner(request()) == "d1"
