from __future__ import annotations

import json
import os
import resource
import stat
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from heat_config_agent.deployments import metadata
from heat_config_agent.model.deployment import Deployment, Document, Result
from heat_config_agent.model.entry import Run, State
from heat_config_agent.model.errors import StateError
from heat_config_agent.state import journal
from heat_config_agent.state.journal import Journal
from heat_config_hooks import processes
from heat_config_hooks.values import replace
from support.machine import deployment

RUN = Run(
    mark="a.1",
    boot="b",
    pid=1,
    ticks=2,
    began=3.5,
    limit=60.0,
    hook="builtin:script",
    working="/w",
    outputs="/o",
)
RESULT = Result(
    values={"deploy_status_code": 1, "deploy_stdout": "hé\n"},
    failed=True,
    reason="exit code 1",
)
Open = Callable[[], Journal]


def parse(identity: str, **fields: Any) -> Deployment:
    """Return a deployment."""
    content = [deployment(identity, **fields)]
    return metadata.parse(Document(source="test", content=content)).deployments[0]


@pytest.fixture
def reopen(tmp_path: Path) -> Iterator[Open]:
    """Open the journal, as an agent does that has just been started."""
    opened: list[Journal] = []

    def open_it() -> Journal:
        if opened:
            opened.pop().close()
        opened.append(Journal(tmp_path))
        return opened[0]

    yield open_it
    if opened:
        opened.pop().close()


def states(book: Journal) -> dict[str, State]:
    """Return how far each deployment has come."""
    return {each.key: each.state for each in book.entries.values()}


def finish(book: Journal, *keys: str) -> None:
    """Take deployments to their results."""
    for key in keys:
        book.accepted(parse(key), tool="script")
        book.running(key, RUN)
        book.finished(key, RESULT)


def grow(book: Journal) -> None:
    """Make the journal long enough to be worth writing anew."""
    while book.path.stat().st_size < 2 * journal.COMPACT_BYTES:
        book.accepted(parse("big", config="x" * 30_000), tool="script")


def test_a_state_directory_without_a_journal_has_no_entries(tmp_path: Path) -> None:
    """To look at it makes nothing."""
    assert journal.read(tmp_path) == {}
    assert list(tmp_path.iterdir()) == []


def test_a_deployment_comes_through_its_states(reopen: Open, tmp_path: Path) -> None:
    """After each state, the next agent finds all that it needs to continue."""
    given = parse("a", signal="http://h/1", action="UPDATE")
    book = reopen()
    book.accepted(given, tool="script")
    entry = reopen().entries["a"]
    assert (entry.state, entry.document, entry.action) == (
        State.ACCEPTED,
        given.document,
        "UPDATE",
    )
    assert (entry.source, entry.addressee, entry.tool) == (
        "test",
        given.target.addressee,
        "script",
    )
    reopen().running("a", RUN)
    entry = reopen().entries["a"]
    assert (entry.state, entry.run) == (State.RUNNING, RUN)
    assert journal.read(tmp_path)["a"] == entry
    reopen().finished("a", RESULT)
    entry = reopen().entries["a"]
    assert (entry.state, entry.result) == (State.FINISHED, RESULT)
    reopen().settled("a", State.SIGNALLED)
    assert reopen().entries["a"].settled


@pytest.mark.parametrize("jump", [-5 * 24 * 3600, 0, 5 * 24 * 3600])
def test_run_lasts_as_long_as_it_did_although_the_clock_was_set(
    reopen: Open, monkeypatch: pytest.MonkeyPatch, jump: float
) -> None:
    """Its beginning follows from its end, which is in the time of the machine as it is now."""
    book, wall, up = reopen(), time.time, processes.since_boot
    book.accepted(parse("d1"), tool="script")
    book.running("d1", replace(RUN, boot=processes.boot_id(), began=up()))

    monkeypatch.setattr(time, "time", lambda: wall() + jump + 5)
    monkeypatch.setattr(processes, "since_boot", lambda: up() + 5)
    book.finished("d1", RESULT)

    entry = reopen().entries["d1"]
    assert entry.started is not None
    assert entry.ended is not None
    assert entry.ended - entry.started == pytest.approx(5, abs=4)
    assert entry.ended == pytest.approx(wall() + jump + 5, abs=60)


def test_a_run_that_never_began_is_only_accepted(reopen: Open) -> None:
    """As if it had not been there; perhaps it had, so the run stays known."""
    book = reopen()
    book.accepted(parse("a"), tool="script")
    book.running("a", RUN)
    book.not_started("a")
    entry = reopen().entries["a"]
    assert (entry.state, entry.run, entry.started) == (State.ACCEPTED, RUN, None)


def test_earlier_run_stays_known_until_the_retry(reopen: Open) -> None:
    """The earlier run stays known, because it may have left something to clean up."""
    book = reopen()
    book.accepted(parse("a"), tool="script")
    book.running("a", RUN)
    book.interrupted("a")
    assert (
        book.entries["a"].state,
        book.entries["a"].run,
        book.entries["a"].reruns,
    ) == (State.ACCEPTED, RUN, 1)
    book.accepted(parse("a"), tool="script")
    assert reopen().entries["a"].run == RUN


def test_tries_in_vain_are_counted_until_there_is_another_result(reopen: Open) -> None:
    """With why, and until when the server asked to be left alone."""
    book = reopen()
    finish(book, "a")
    book.tried("a", "HTTP 503", 7000.0)
    book.tried("a", "Connection refused")
    entry = reopen().entries["a"]
    assert (entry.tries, entry.trouble, entry.not_before) == (
        2,
        "Connection refused",
        0,
    )
    reopen().finished("a", RESULT)
    assert (reopen().entries["a"].tries, reopen().entries["a"].trouble) == (0, "")


def test_a_deployment_can_be_forgotten_and_come_again(reopen: Open) -> None:
    """Nothing of the first time is left."""
    book = reopen()
    finish(book, "a", "b")
    book.forget("a")
    assert b'"a"' not in book.path.read_bytes()
    book.accepted(parse("c"), tool="script")
    assert states(reopen()) == {"b": State.FINISHED, "c": State.ACCEPTED}
    reopen().accepted(parse("a"), tool="script")
    assert reopen().entries["a"].values is None


def test_requests_are_kept_in_the_journal(reopen: Open) -> None:
    """To run again, until it runs; to send again, at once."""
    book = reopen()
    finish(book, "a", "b")
    book.again("a")
    book.settled("b", State.REFUSED, "HTTP 404")
    book.send_again("b")
    assert reopen().entries["a"].again
    assert states(reopen()) == {"a": State.FINISHED, "b": State.FINISHED}
    reopen().running("a", RUN)
    assert not reopen().entries["a"].again


def test_the_folder_of_its_mark_is_kept(reopen: Open) -> None:
    """The entry keeps the folder of its mark, so a missing mark was removed on purpose."""
    book = reopen()
    finish(book, "a", "b")
    book.marked(["a", "b"], "/deployed")
    assert {each.marked for each in reopen().entries.values()} == {"/deployed"}


def test_another_boot_stays_another(reopen: Open) -> None:
    """The boot id is kept, so a process id of another boot is never mistaken for one of this boot."""
    book = reopen()
    finish(book, "a")
    assert reopen().entries["a"].run == RUN


@pytest.mark.parametrize(
    "work", [lambda book: book.reduce({"a": None}), lambda book: book.compact()]
)
def test_the_journal_of_another_is_not_written_over(
    reopen: Open, tmp_path: Path, work: Callable[[Journal], object]
) -> None:
    """A journal that replaced ours meanwhile is not overwritten."""
    book = reopen()
    finish(book, "a")
    book.settled("a", State.SIGNALLED)
    grow(book)
    other = tmp_path / "other"
    other.write_bytes(b"of another agent")
    other.replace(book.path)
    with pytest.raises(StateError, match="or replaced by another"):
        work(book)
    assert book.path.read_bytes() == b"of another agent"


def test_nobody_else_may_read_it(reopen: Open) -> None:
    """The journal is private, because it has inputs and signed URLs."""
    before = os.umask(0)
    try:
        book = reopen()
    finally:
        os.umask(before)
    assert stat.S_IMODE(book.path.stat().st_mode) == 0o600


def test_anybody_may_read_while_one_writes(reopen: Open, tmp_path: Path) -> None:
    """A reader sees the records that have been written so far."""
    book = reopen()
    for identity in "abc":
        finish(book, identity)
        assert journal.read(tmp_path) == book.entries


def test_a_torn_last_line_was_never_relied_on(reopen: Open) -> None:
    """A torn last line is cut off silently, and the next record is whole."""
    book = reopen()
    finish(book, "a")
    whole = book.path.read_bytes()
    book.accepted(parse("b"), tool="script")
    longer = book.path.read_bytes()
    for length in range(len(whole), len(longer) - 1):
        book.path.write_bytes(longer[:length])
        book = reopen()
        assert states(book) == {"a": State.FINISHED}
        assert book.warnings == []
        book.accepted(parse("c"), tool="script")
        assert states(reopen()) == {"a": State.FINISHED, "c": State.ACCEPTED}, (
            f"torn after {length} bytes"
        )


def test_a_line_without_its_end_is_torn_too(reopen: Open) -> None:
    """Where nothing but the newline is missing, the next record does not join it to one damaged line."""
    book = reopen()
    finish(book, "a")
    book.path.write_bytes(book.path.read_bytes()[:-1])
    reopen().accepted(parse("b"), tool="script")
    book = reopen()
    assert book.warnings == []
    assert set(book.entries) == {"a", "b"}


def test_damaged_line_is_skipped_and_reported(reopen: Open, tmp_path: Path) -> None:
    """The others stand; the file as it was is set aside for people, and read so only once."""
    book = reopen()
    finish(book, "a", "b", "c")
    lines = book.path.read_bytes().splitlines(keepends=True)
    lines[5] = lines[5].replace(b"finished", b"finishes")
    damaged = b"".join(lines)
    book.path.write_bytes(damaged)
    book = reopen()
    assert states(book) == {
        "a": State.FINISHED,
        "b": State.RUNNING,
        "c": State.FINISHED,
    }
    (aside,) = tmp_path.glob("journal.damaged-*")
    assert aside.read_bytes() == damaged
    assert stat.S_IMODE(aside.stat().st_mode) == 0o600
    assert str(aside) in book.warnings[0]
    assert reopen().warnings == []
    assert states(reopen()) == states(book)


@pytest.mark.parametrize("byte", [b"\r", b"\x0b", b"\x85", b"\0"])
def test_whatever_is_in_a_damaged_line_the_next_ones_stand(
    reopen: Open, byte: bytes
) -> None:
    """Only a newline ends a line, and only the last line can be torn."""
    book = reopen()
    finish(book, "a", "b")
    content = book.path.read_bytes()
    book.path.write_bytes(content.replace(b"-", byte, 1))
    book = reopen()
    assert states(book)["b"] is State.FINISHED
    assert len(book.warnings) == 1


def test_a_deployment_that_has_run_stays_known_when_its_first_line_is_damaged(
    reopen: Open,
) -> None:
    """The record of the start is on a second line, so the deployment never runs twice."""
    book = reopen()
    finish(book, "a")
    book.path.write_bytes(b"#" + book.path.read_bytes())
    assert "a" in reopen().entries


def test_unknown_fields_in_the_journal_are_ignored(reopen: Open) -> None:
    """After a step back to this version nothing that was done is unknown."""
    book = reopen()
    finish(book, "a")
    later = json.dumps(
        {"key": "a", "run": {**RUN.__dict__, "later": 1}, "later": 2}
    ).encode()
    book.path.write_bytes(
        book.path.read_bytes() + b"%08x %s\n" % (zlib.crc32(later), later)
    )
    assert states(reopen()) == {"a": State.FINISHED}


def test_a_long_journal_about_little_is_written_anew(
    reopen: Open, tmp_path: Path
) -> None:
    """Nothing is lost of what is not settled, and of the rest what is needed to know it."""
    book = reopen()
    finish(book, "done", "waiting", "refused")
    book.settled("done", State.SIGNALLED)
    book.settled("refused", State.REFUSED, "HTTP 404")
    grow(book)
    before = states(book)
    size = book.path.stat().st_size
    book = reopen()
    assert states(book) == before
    assert book.path.stat().st_size < size / 4
    assert stat.S_IMODE(book.path.stat().st_mode) == 0o600
    assert book.entries["waiting"].result == book.entries["refused"].result == RESULT
    assert journal.read(tmp_path) == book.entries


def test_secrets_of_what_is_settled_do_not_stay(reopen: Open) -> None:
    """When the journal is written anew, inputs and results are left out that nobody needs any more."""
    book = reopen()
    book.accepted(parse("a", inputs={"password": "s3cret-value"}), tool="script")
    book.finished("a", RESULT)
    book.settled("a", State.SIGNALLED)
    grow(book)
    assert b"s3cret-value" not in reopen().path.read_bytes()


def test_changes_after_a_rewrite_are_read_back(reopen: Open, tmp_path: Path) -> None:
    """Changes are those to the entries as they are in the new file."""
    book = reopen()
    finish(book, "a")
    book.settled("a", State.SIGNALLED)
    grow(book)
    book = reopen()
    book.accepted(parse("a"), tool="script")
    assert journal.read(tmp_path) == book.entries
    assert reopen().entries["a"].document == parse("a").document


def test_a_full_disk_leaves_no_half_line(reopen: Open, tmp_path: Path) -> None:
    """A failed write is reported and has no effect, and the journal stays intact."""
    book = reopen()
    finish(book, "a")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (book.path.stat().st_size + 100, hard))
    try:
        with pytest.raises(StateError, match="cannot write the journal"):
            book.accepted(parse("b"), tool="script")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert states(book) == {"a": State.FINISHED}
    book.accepted(parse("c"), tool="script")
    assert journal.read(tmp_path) == book.entries
    assert reopen().warnings == []


def test_a_journal_that_cannot_be_opened_is_an_error_of_its_own(tmp_path: Path) -> None:
    """Without it nothing may be done."""
    (tmp_path / journal.FILE).mkdir()
    with pytest.raises(StateError, match="cannot open the journal"):
        Journal(tmp_path)
    with pytest.raises(StateError, match="cannot read the journal"):
        journal.read(tmp_path)


@pytest.mark.parametrize("hurt", [b'"key":"x"', b"garbage"])
def test_a_record_of_nobody_knows_whom_makes_nothing_new(
    reopen: Open, tmp_path: Path, hurt: bytes
) -> None:
    """A damaged record may be the one of a run, and no deployment is made up from it."""
    book = reopen()
    book.accepted(parse("a"), tool="script")
    book.running("a", RUN)
    book.accepted(parse("b"), tool="script")
    path = tmp_path / journal.FILE
    lines = path.read_bytes().splitlines(keepends=True)
    lines[1] = lines[1].replace(b'"key":"a"', hurt)
    path.write_bytes(b"".join(lines))
    entries = reopen().entries
    assert {key: each.state for key, each in entries.items()} == {
        "a": State.DAMAGED,
        "b": State.DAMAGED,
    }


def test_a_deployment_can_move_to_another_source(reopen: Open) -> None:
    """The cleanup comes when the deployment leaves the second source."""
    book = reopen()
    book.accepted(parse("a"), tool="script")
    book.moved("a", "file:/elsewhere")
    assert reopen().entries["a"].source == "file:/elsewhere"


def test_file_behind_a_link_in_place_of_the_journal_is_not_cut(
    reopen: Open, tmp_path: Path
) -> None:
    """It is another's file, and has no whole line of a journal."""
    (tmp_path / "other").write_text("other")
    (tmp_path / "journal").symlink_to("other")
    with pytest.raises((StateError, OSError), match="journal"):
        reopen()
    assert (tmp_path / "other").read_text() == "other"
