"""With any content of the state directory the agent starts, and its commands show what can be read."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import re
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from fuzz.examples import SHARE, changed, damaged, objects, odd, tries, values
from heat_config_agent.cli import agent
from heat_config_agent.deployments import metadata
from heat_config_agent.model.deployment import Deployment, Document, Result
from heat_config_agent.model.entry import Entry, Run, State
from heat_config_agent.model.errors import AgentError, StateError
from heat_config_agent.sources import learned
from heat_config_agent.sources.documents import Documents
from heat_config_agent.state import asked, health, instance, journal, lock, requests
from heat_config_agent.state.deployed import Deployed
from heat_config_agent.state.journal import Journal
from heat_config_hooks.values import fields, replace
from support.entries import RUN

pytestmark = [pytest.mark.takes(20), pytest.mark.torture(share=SHARE)]

journal_fault = pytest.mark.fault(
    1,
    "any bytes in the journal: cut off anywhere, bits flipped, lines of it mixed with nonsense",
    "intact records are kept, and the rest is set aside with a sentence; a "
    "deployment that may have run is not run again",
)
file_fault = pytest.mark.fault(
    5,
    "any bytes, or JSON of any shape, in the other state files: health, paused, learned, instance, documents, asked",
    "the agent starts, the commands show what there is; a file that cannot be used is set aside, with a sentence",
)


def parse(identity: str, **fields: object) -> Deployment:
    """Return a deployment."""
    content = [{"id": identity, "group": "script", **fields}]
    return metadata.parse(Document(source="any", content=content)).deployments[0]


@functools.cache
def written() -> tuple[bytes, dict[str, Entry]]:
    """Return a journal with deployments in all states, and its entries."""
    with tempfile.TemporaryDirectory() as folder:
        book = Journal(Path(folder))
        for number, state in enumerate((*State, *State)):
            key = f"{state.value}-{number}"
            book.accepted(parse(key, config="é\n" * number), tool="script")
            if state is not State.ACCEPTED:
                book.running(key, RUN)
            if state not in (State.ACCEPTED, State.RUNNING):
                book.finished(
                    key,
                    Result(values={"deploy_status_code": 0, "out": key}, failed=False),
                )
                book.tried(key, "HTTP 503")
            if book.entries[key].settled or state not in (
                State.ACCEPTED,
                State.RUNNING,
                State.FINISHED,
            ):
                book.settled(key, state)
        content = book.path.read_bytes()
        book.close()
        return content, book.entries


def core(entry: Entry) -> Entry:
    """Return the entry without what is left out of a journal that is written anew."""
    return replace(entry, document={}, values=None) if entry.settled else entry


def check_opens(content: bytes, intact: dict[str, Entry]) -> None:
    """Open a journal with this content; what is intact must be in it, and it must be of use."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / journal.FILE).write_bytes(content)
        before = journal.read(folder)
        assert (folder / journal.FILE).read_bytes() == content
        book = Journal(folder)
        assert journal.read(folder) == book.entries
        assert {key: core(each) for key, each in before.items()} == {
            key: core(each) for key, each in book.entries.items()
        }
        for key, each in intact.items():
            assert core(book.entries[key]) == core(each)
        book.accepted(parse("new"), tool="script")
        book.running("new", RUN)
        book.close()
        again = Journal(folder)
        assert again.warnings == []
        assert again.entries == book.entries
        assert again.entries["new"].state is State.RUNNING
        again.close()


@journal_fault
@tries(
    60,
    st.binary()
    | st.lists(st.binary() | st.sampled_from(written()[0].splitlines())).map(
        b"\n".join
    ),
)
def test_any_bytes_open_as_a_journal(content: bytes) -> None:
    """Nothing that is in the file keeps an agent from working."""
    check_opens(content, {})


@journal_fault
@tries(
    60,
    st.integers(0, len(written()[0]))
    | st.sampled_from(
        [
            each.start() + at
            for each in re.finditer(b"\n", written()[0])
            for at in (0, 1)
        ]
    ),
)
def test_a_journal_cut_anywhere_loses_its_last_line_at_most(length: int) -> None:
    """A journal that is cut anywhere, as by a power cut, loses at most its last line."""
    content, _ = written()
    whole = content[: content.rfind(b"\n", 0, length) + 1]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / journal.FILE).write_bytes(whole)
        intact = journal.read(Path(folder))
    last = (
        {json.loads(content[len(whole) :].split(b"\n")[0][9:])["key"]}
        if len(whole) < len(content)
        else set()
    )
    check_opens(
        content[:length], {key: each for key, each in intact.items() if key not in last}
    )


@journal_fault
@tries(
    60,
    st.lists(
        st.tuples(st.integers(0, len(written()[0]) - 1), st.integers(0, 7)),
        min_size=1,
        max_size=4,
    ),
)
def test_a_journal_with_flipped_bits_loses_the_damaged_lines_only(
    flips: list[tuple[int, int]],
) -> None:
    """A journal with flipped bits, as on an old disk, loses only the damaged lines."""
    content, all_entries = written()
    flipped = bytearray(content)
    for position, bit in flips:
        flipped[position] ^= 1 << bit
    touched = set()
    start = 0
    for line in content.splitlines(keepends=True):
        end = start + len(line)
        # A newline that is lost joins the next line to this one.
        if any(start - 1 <= position < end for position, _ in flips):
            touched.add(json.loads(line[9:])["key"])
        start = end
    # One that is about to run may have lost the record that says that it ran: it is not run again.
    about_to_run = (State.ACCEPTED, State.RETRY)
    certain = {
        key: each for key, each in all_entries.items() if each.state not in about_to_run
    }
    check_opens(
        bytes(flipped),
        {key: each for key, each in certain.items() if key not in touched},
    )


def line(record: object) -> bytes:
    """Return a line of a journal that is whole."""
    text = json.dumps(record).encode()
    return b"%08x %s\n" % (zlib.crc32(text), text)


run = st.builds(
    lambda whole, without, more: {
        **{name: each for name, each in whole.items() if name not in without},
        **more,
    },
    st.just(dict(RUN.__dict__)),
    st.lists(st.sampled_from(sorted(each.name for each in fields(Run))), max_size=3),
    st.dictionaries(st.just("newer"), odd),
)
records = objects(
    key=st.sampled_from(["a", "finished-3", "running-2"]),
    state=st.sampled_from([each.value for each in State]) | st.text(),
    run=st.none() | run,
).map(
    lambda each: {
        name: value
        for name, value in each.items()
        if name != "run" or value is None or isinstance(value, dict)
    }
)
"""As a newer or an older version may have written them: other states, other things known of a run or a deployment."""


@journal_fault
@tries(80, st.lists(records | odd, max_size=4))
def test_a_journal_whose_records_say_something_else_is_refused_or_read(
    said: list[Any],
) -> None:
    """Unknown records, as of another version, are never read as pending work."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / journal.FILE).write_bytes(written()[0] + b"".join(map(line, said)))
        try:
            book = Journal(folder)
        except StateError as error:
            told = str(error)
            assert "\n" not in told
            return
        for entry in book.entries.values():
            assert isinstance(entry.state, State)
        book.close()
        assert journal.read(folder) == book.entries


# The other files.

numbers = st.floats() | st.integers() | st.just(10**400) | st.just(1e308)
texts = st.text(max_size=9) | st.sampled_from(["\x1b[2J", "a\nb", "\ud800"])
health_said = objects(
    process=numbers,
    version=texts,
    started=numbers,
    ended=numbers,
    at=numbers,
    doing=texts,
    next_poll=numbers,
    paused=texts,
    reboot=st.lists(texts, max_size=2),
    sources=st.lists(
        objects(name=texts, working=st.booleans(), answered=numbers, trouble=texts),
        max_size=2,
    ),
    troubles=st.lists(texts, max_size=2),
)
paused_said = objects(reason=texts, since=numbers)
document_said = objects(at=numbers, content=changed(), source=texts)
instance_said = objects(
    identity=st.dictionaries(st.sampled_from(["cloud-init", "dmi"]), texts),
    leaving=st.sampled_from(["of-x", "of-/x", "of-\0", "../x", "of-.."]) | texts,
    kind=texts,
)
learned_said = objects(
    **{
        "os-collect-config": objects(
            collectors=texts, heat=objects(auth_url=texts, password=texts)
        )
    },
    under=texts,
    teacher=objects(heat=objects(auth_url=texts)),
)


def in_file(said: st.SearchStrategy[Any]) -> st.SearchStrategy[bytes]:
    """Return what may be in a file that says this."""
    whole = (said | values).map(lambda each: json.dumps(each).encode())
    deep = st.sampled_from(
        [b"[" * 100_000, b'{"a":' * 100_000, b"9" * 5000, b"\xff\xfe", b"", b"\0" * 9]
    )
    return whole | damaged(whole) | st.binary(max_size=9) | deep


FILES: dict[str, st.SearchStrategy[bytes]] = {
    "health.json": in_file(health_said),
    "paused": in_file(paused_said),
    "learned.json": in_file(learned_said),
    "instance.json": in_file(instance_said),
    "documents/heat.json": in_file(document_said),
    "documents/local.json": in_file(document_said),
    "lock": in_file(numbers),
    "deployed/signalled-5.json": in_file(changed()),
    "deployed/signalled-5.notify.json": in_file(objects(deploy_stdout=texts)),
}

contents = st.fixed_dictionaries({}, optional=FILES)


@contextlib.contextmanager
def state(contents: dict[str, bytes]) -> Any:
    """Yield a state directory with a journal, and these files."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / journal.FILE).write_bytes(written()[0])
        for each, content in contents.items():
            (folder / each).parent.mkdir(exist_ok=True)
            (folder / each).write_bytes(content)
        yield folder


@file_fault
@tries(80, contents)
def test_any_state_files_can_be_started_with(contents: dict[str, bytes]) -> None:
    """Each file is read, or set aside with a warning, and no name leads out of the directory."""
    with state(contents) as folder:
        assert isinstance(health.read(folder), dict)
        pause = asked.paused(folder)
        may_be_over = b'"until"' in contents.get("paused", b"")
        assert (
            pause is None
            if "paused" not in contents
            else pause is not None or may_be_over
        )
        assert lock.holder(folder) is None
        for change in (False, True):
            _, trouble = learned.load(folder, change=change)
            assert "\n" not in trouble
        for change in (False, True):
            found = Documents(folder, change=change)
            assert len(found.held) + len(found.warnings) == sum(
                each.startswith("documents/") for each in contents
            )
        outside = sorted(folder.parent.glob("of-*"))
        instance.set_aside(folder, {"cloud-init": "i-1"})
        assert sorted(folder.parent.glob("of-*")) == outside
        with lock.held(folder):
            assert Documents(folder).warnings == []


COMMANDS: tuple[Callable[[], list[str]], ...] = (
    lambda: ["status"],
    lambda: ["status", "--json"],
    lambda: ["status", "--check"],
    lambda: ["show", "signalled-5"],
    lambda: ["show", "--json", "signalled-5"],
    lambda: ["log", "signalled-5"],
    lambda: ["config"],
)


@file_fault
@tries(30, contents)
def test_the_commands_show_any_state(contents: dict[str, bytes]) -> None:
    """Each command ends with its findings or one sentence, without control characters for the terminal."""
    with state(contents) as folder:
        (folder / "agent.conf").write_text(f"[agent]\nstate_dir = {folder}\n")
        for words in COMMANDS:
            arguments = [
                words()[0],
                "--config",
                str(folder / "agent.conf"),
                *words()[1:],
            ]
            out, err = io.StringIO(), io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                try:
                    code = agent.main(arguments)
                except AgentError as error:
                    told = str(error)
                    assert told
                    continue
            assert code in (0, 1, 2)
            assert "\x1b" not in out.getvalue() + err.getvalue()


wishes = st.builds(
    "{}.{}".format,
    st.sampled_from(
        ["signalled-5", "running-1", "finished-3", "..", "x", "", "*", "of-x", "a\nb"]
    )
    | st.text(max_size=5),
    st.sampled_from(["again", "send", "forget", "new", "x", ""]),
)


@file_fault
@tries(50, st.lists(wishes, max_size=4))
def test_any_names_among_the_requests_are_carried_out_or_dropped(
    names: list[str],
) -> None:
    """A name that means nothing is removed; nothing else is touched."""
    with state({}) as folder:
        canary = folder / "runs" / "other" / "stdout"
        canary.parent.mkdir(parents=True)
        canary.write_text("here")
        book = Journal(folder)
        directory = folder / "asked"
        directory.mkdir()
        for name in names:
            with contextlib.suppress(OSError, ValueError):
                (directory / name.replace("/", "_")).touch()
        done, wrong = requests.carry_out(folder, book, Deployed(folder / "deployed"))
        assert not wrong
        assert len(done) <= len(names)
        left = [each.name for each in directory.iterdir()]
        assert all(
            each.endswith(".new") or each.startswith("running-1.") for each in left
        )
        assert canary.read_text() == "here"
        book.close()
