"""The files of a stack, damaged in each way, or removed while the stack is worked on."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from faults.test_state_files import DAMAGES, damage
from support.loopback import wait_until
from support.stacking import LONG, Stacks, ends

pytestmark = pytest.mark.takes(20)

fault = pytest.mark.fault
FAILED, LACKING, NOT_THERE = 1, 10, 8


def first_lines(path: Path) -> None:
    """Leave of a file what was written first, whole lines of it."""
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[: len(lines) // 2]))


def middle(path: Path) -> None:
    """Damage the lines in the middle of a file, of which nothing is left but NUL bytes."""
    content = path.read_bytes()
    third = len(content) // 3
    path.write_bytes(content[:third] + bytes(third) + content[2 * third :])


HOW: dict[str, Callable[[Path], object]] = {
    **{name: lambda path, name=name: damage(path, name) for name in DAMAGES},  # type: ignore[misc]  # a default
    "first lines": first_lines,
    "middle": middle,
    "nested lines": lambda path: path.write_bytes(
        b"[" * 200_000 + b"\n" + path.read_bytes()
    ),
}


@fault(
    5,
    "the records of a stack damaged: empty, cut short, garbage, NUL bytes, nested, a folder, a link, a pipe in their "
    "place",
    "the stack is named, and nothing of it is run again; all other stacks go on; it can be deleted, and created again",
)
@pytest.mark.parametrize("how", HOW)
def test_damaged_stack_affects_no_other(stacks: Stacks, how: str) -> None:
    """A damaged stack is reported, affects no other, and can be removed and created again."""
    path = stacks.template(stacks.script("one", "", "CREATE", "DELETE"))
    other = stacks.template(stacks.script("other"), "other")
    stacks.apply(path)
    stacks.apply(other)
    HOW[how](stacks.record)
    regular = stacks.record.is_file()
    content = stacks.record.read_bytes() if regular else b""

    listed = stacks("list")
    assert "other" in listed.out
    assert str(stacks.record) in listed.err
    assert "(CREATE_COMPLETE)" in stacks("show", "other").out
    stacks.apply(other)

    done = stacks.apply(path, code=LACKING)
    assert str(stacks.record) in done.err
    assert "stack delete t" in done.err
    assert str(stacks.record) in stacks("suspend", "t", code=LACKING).err
    assert str(stacks.record) in stacks("show", "t", code=None).err
    assert stacks.ran.count("one CREATE") == 1
    if regular:  # it is as it was, or beside what could be read of it
        copies = list(stacks.folder.glob("stack.damaged-*"))
        assert len(copies) <= 1
        assert (copies or [stacks.record])[0].read_bytes() == content

    stacks("delete", "t", "--yes")

    assert not stacks.folder.exists()
    stacks.apply(path)
    assert stacks.ran.count("one CREATE") == 2
    assert stacks("list").err == ""


def test_a_deletion_was_killed_at_its_last_step(stacks: Stacks) -> None:
    """The files of a killed deletion are removed with the next deletion, although the stack no longer exists."""
    stacks.apply(stacks.template(stacks.script("one")))
    stacks.record.unlink()
    assert list(stacks.folder.iterdir()) != []

    done = stacks("delete", "t", "--yes", code=NOT_THERE)

    assert "there is no stack t" in done.err
    assert not stacks.folder.exists()


@fault(
    3,
    "nothing in the file of a stack's records, as a kill or a full disk at its first write left it",
    "a sentence says so, and the stack counts as not existing: it can be created or deleted, and no other stack waits",
)
@pytest.mark.parametrize("torn", [b"", b'12345678 ["stack","'], ids=["empty", "torn"])
def test_command_without_a_first_step_starts_over(stacks: Stacks, torn: bytes) -> None:
    """A command that was interrupted before its first step starts over."""
    path, other = (
        stacks.template(stacks.script("one")),
        stacks.template(stacks.script("other"), "other"),
    )
    stacks.apply(other)
    stacks.folder.mkdir(mode=0o700, parents=True)
    stacks.record.write_bytes(torn)

    listed = stacks("list", "--json")
    assert [
        each["stack_name"] for each in json.loads(listed.out)["data"]["stacks"]
    ] == ["other"]
    assert listed.err.count("counts as not existing") == 1
    stacks("delete", "t", "--yes")
    assert not stacks.folder.exists()

    stacks.folder.mkdir(mode=0o700)
    stacks.record.write_bytes(torn)
    done = stacks.apply(path)
    assert done.err.count("counts as not existing") == 1
    assert stacks.ran == ["other CREATE", "one CREATE"]
    assert stacks.apply(path).err == ""


@fault(
    1,
    "a line of a stack's records damaged that a later one has replaced",
    "a copy is set aside with one sentence, and the stack continues; nothing is run again",
)
def test_a_line_that_does_not_count_any_more(stacks: Stacks) -> None:
    """Each line has the whole record, so damage to an old line loses nothing."""
    path = stacks.template(stacks.script("one"))
    stacks.apply(path)
    lines = stacks.record.read_bytes().splitlines(keepends=True)
    root = [
        number for number, line in enumerate(lines) if line[9:].startswith(b'["stack"')
    ]
    lines[root[0]] = lines[root[0]].replace(b"IN_PROGRESS", b"IN_PR0GRESS")
    stacks.record.write_bytes(b"".join(lines))

    assert "1 damaged line of" in stacks("list").err
    done = stacks.apply(path)

    [copy] = stacks.folder.glob("stack.damaged-*")
    assert (
        done.err
        == f"warning: 1 damaged line of {stacks.record} skipped; a copy is {copy}\n"
    )
    assert copy.read_bytes() == b"".join(lines)
    assert stacks.apply(path).err == ""
    assert stacks.ran == ["one CREATE"]


@fault(
    1,
    "every file of a stack but its records damaged, in every way",
    "the stack continues, or a sentence says what is damaged; nothing is run twice, nothing hangs",
)
@pytest.mark.parametrize("how", DAMAGES)
def test_damaged_file_of_a_stack_ends_a_command_in_a_sentence(
    stacks: Stacks, how: str, tried: Callable[[int], None]
) -> None:
    """A command on a stack of which another file is damaged ends, in a sentence if it cannot go on."""
    path = stacks.template(stacks.script("one"))
    stacks.apply(path)
    names = [("journal",), ("stack.lock",), ("lock",), ("runs", "deployed")]
    kept = stacks.folder.with_name("kept")
    shutil.copytree(stacks.folder, kept)
    done = 0
    for group in names:
        for name in group:
            place = stacks.folder / name
            inside = sorted(place.rglob("*")) if place.is_dir() else [place]
            for each in inside:
                if each.is_file():
                    damage(each, how)
                    done += 1
        ended = stacks.apply(path, code=None)
        assert ended.code in (0, LACKING), ended.err
        assert ended.code == 0 or ended.err.startswith("error: ")
        assert stacks.ran == ["one CREATE"]
        shutil.rmtree(stacks.folder)
        shutil.copytree(kept, stacks.folder)
    assert done > len(names)
    tried(done)


# Taken away while the stack is worked on.

away = fault(
    2,
    "the records of a stack removed, cut short, replaced or moved while it is worked on",
    "they are written again, with a warning; if they belong to another stack, the work stops: never a false success",
)


@away
@pytest.mark.parametrize("what", ["rm", "mv {0} {0}.gone;:", ": >"])
def test_records_that_go_are_written_anew(stacks: Stacks, what: str) -> None:
    """Lost records are written again from memory, and the same command then finds nothing to do."""
    takes = f"{what.format(stacks.record)} {stacks.record}"
    path = stacks.template(stacks.script("one", takes))

    done = stacks.apply(path)

    assert "CREATE_COMPLETE" in done.out
    assert done.err.startswith(
        f"warning: {stacks.record}, the record of the stack, was "
    )
    assert "rewritten from memory" in done.err
    assert stacks.state() == "CREATE_COMPLETE"
    assert stacks.apply(path).err == ""
    assert stacks.ran == ["one CREATE"]


@away
@pytest.mark.parametrize(
    "what",
    [
        pytest.param("cp {0} {0}.1 && mv {0}.1 {0}", id="another file"),
        pytest.param("mv {0} {0}.1 && ln -s {0}.1 {0}", id="a link"),
        pytest.param("mv {1} {1}.gone", id="the folder moved"),
        pytest.param("mv {1} {1}.gone && mkdir {1}", id="another folder"),
    ],
)
def test_records_of_another_user_stop_the_command(stacks: Stacks, what: str) -> None:
    """A sentence, and an exit code that says that it is not done."""
    path = stacks.template(
        stacks.script("one", what.format(stacks.record, stacks.folder))
    )

    done = stacks.apply(path, code=LACKING)

    assert done.err.splitlines()[-1].startswith("error: ")
    assert str(stacks.folder) in done.err
    assert "CREATE_COMPLETE" not in done.out.splitlines()[-1] if done.out else True
    assert stacks.ran == ["one CREATE"]


@away
def test_script_that_removes_the_folder_of_its_stack_fails(stacks: Stacks) -> None:
    """The records are missed; or the agent has written some again before all was removed, and the run is not known."""
    path = stacks.template(stacks.script("one", f"rm -rf {stacks.folder}"))

    done = stacks.apply(path, code=None)

    if done.code == LACKING:
        assert str(stacks.folder) in done.err
    else:
        assert done.code == FAILED
        assert "it is not known how it ended: the record of it was removed" in done.err
    assert "CREATE_COMPLETE" not in done.out
    assert stacks.ran == ["one CREATE"]


@away
def test_records_that_go_while_a_script_runs_are_missed(stacks: Stacks) -> None:
    """Lost records are noticed before success is reported, even if nothing more has to be written."""
    stacks.apply(stacks.template(stacks.script("one")))
    waits = f"touch {stacks.told}; while [ ! -e {stacks.go} ]; do sleep 0.05; done"
    path = stacks.template(stacks.script("one", waits))
    process = stacks.start(path)
    wait_until(stacks.told.exists, LONG)
    stacks.record.unlink()
    stacks.go.touch()
    done = ends(process)
    assert (done.code, "rewritten from memory" in done.err) == (0, True)
    assert stacks.state() == "UPDATE_COMPLETE"
