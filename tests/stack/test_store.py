"""A stack's records on disk: any damage to them is noticed, and what is not damaged is kept."""

from __future__ import annotations

import random
import uuid
from pathlib import Path

import pytest

from heat_config_stack.records.records import (
    Record,
    ResourceRecord,
    StackRecord,
    new_id,
    to_json,
)
from heat_config_stack.records.store import FILE, Line, Store, damage_of, read_lines
from support import planted
from support.promises import seed


def filled(folder: Path) -> Store:
    """Return a store with a few records, each of which was put several times."""
    store = Store(folder)
    root = StackRecord("0" * 36, "s")
    store.put(root)
    store.flush()
    for number in range(8):
        for status in ("IN_PROGRESS", "COMPLETE"):
            record = ResourceRecord(
                f"{number}" * 36,
                f"r{number}",
                root.id,
                status=status,
                data={"n": number},
            )
            store.put(record)
            store.event(
                {
                    "time": 1.0,
                    "path": record.name,
                    "action": "CREATE",
                    "status": status,
                    "reason": "",
                }
            )
            store.flush(durable=True)
    return store


def known(store: Store) -> list[str]:
    """Return all that a store knows, but for events."""
    records: list[Record] = [*store.stacks.values(), *store.resources.values()]
    return sorted(repr(to_json(each)) for each in records)


@pytest.mark.slow
@pytest.mark.fault(
    1,
    "any bytes of a stack's records: cut off anywhere, bits flipped, blocks lost, lines repeated or removed",
    "certain records are kept, or the stack is reported as damaged; it is never taken for something else",
)
def test_any_damage_is_noticed(tmp_path: Path) -> None:
    """After any damage, a record is read as it was written or reported as damaged."""
    store = filled(tmp_path / "whole")
    expected = known(store)
    store.close()
    content = (tmp_path / "whole" / FILE).read_bytes()
    note = (tmp_path / "whole" / "stack.lock").read_bytes()
    chance = random.Random(seed("STORE_SEED"))  # noqa: S311
    for number in range(400):
        damaged = bytearray(content)
        at = chance.randrange(len(damaged))
        match number % 4:
            case 0:
                del damaged[at:]
            case 1:
                damaged[at] ^= 1 << chance.randrange(8)
            case 2:
                end = min(at + chance.randrange(1, 900), len(damaged))
                damaged[at:end] = bytes(end - at)
            case _:
                damaged[at:at] = chance.randbytes(chance.randrange(1, 50))
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / FILE).write_bytes(damaged)
        (folder / "stack.lock").write_bytes(note)
        (folder / "journal").write_bytes(b"something was run\n")
        heard: list[str] = []
        read = Store(folder, warn=heard.append)
        same = known(read) == expected
        assert same or read.damage, f"{number}: {at}"
        assert bool(heard) == bool(list(folder.glob("stack.damaged-*"))), heard
        read.close()
        again = Store(folder, warn=pytest.fail)
        assert (bool(again.damage), known(again) == expected) == (
            bool(read.damage),
            same,
        )
        again.close()


def test_a_file_that_has_grown_is_written_anew(tmp_path: Path) -> None:
    """Obsolete records are removed when the store is closed."""
    store = filled(tmp_path / "s")
    expected = known(store)
    for _ in range(4000):
        store.put(store.resources["1" * 36])
    store.close()
    assert (tmp_path / "s" / FILE).read_bytes().count(b"\n") < 100
    read = Store(tmp_path / "s", warn=pytest.fail)
    assert known(read) == expected
    read.close()


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"x",
        b"[" * 100,
        b'00000000 ["stack","a",',
        bytes(50),
        b'["stack","a",1]J00000000 ["event","",',
    ],
)
def test_damaged_line_is_attributed_only_if_it_is_the_last(line: bytes) -> None:
    """It is known only of a line that is what is left of one, and no more than one."""
    found = damage_of(line)
    assert found == (("stack", "a") if line == b'00000000 ["stack","a",' else ("", ""))


def test_each_record_is_read_once(tmp_path: Path) -> None:
    """In the place of its first line is the last one; events and what is not certain are read as they are."""
    filled(tmp_path).close()
    content = (tmp_path / FILE).read_bytes()
    found = [*read_lines(content)]
    records = [line for line in found if isinstance(line, Line) and line.key]
    assert len(found) == content.count(b"\n")
    assert [line.key[:1] for line in records] == [*"001234567"]
    assert all(
        isinstance(line.values, dict) and line.values["status"] == "COMPLETE"
        for line in records[1:]
    )
    assert sum(isinstance(line, Line) and line.kind == "event" for line in found) == 16
    damaged = content.replace(b'"status":"COMPLETE"', b'"status":"COMPLETf"', 1)
    assert sum(
        isinstance(line, Line) and bool(line.key) for line in read_lines(damaged)
    ) > len(records)


def test_the_records_of_one_kind_are_read(tmp_path: Path) -> None:
    """The outline of a large stack needs only the record of the stack itself."""
    filled(tmp_path).close()
    store = Store(tmp_path, write=False, only=StackRecord.KIND)
    assert store.root is not None
    assert store.root.name == "s"
    assert not store.resources
    assert not store.damage


def test_search_for_secrets_knows_the_file_of_the_record() -> None:
    """`tests/support/planted.py` does without the stack package, and looks for its files by name."""
    assert planted.RECORD == FILE


def test_new_id_is_a_random_uuid() -> None:
    """As Heat has them: `uuid.UUID` reads it as version 4 of RFC 9562, in the same text, and no two are alike."""
    ids = [new_id() for _ in range(100)]
    parsed = [uuid.UUID(each) for each in ids]
    assert [str(each) for each in parsed] == ids
    assert {(each.version, each.variant) for each in parsed} == {(4, uuid.RFC_4122)}
    assert len(set(ids)) == len(ids)
