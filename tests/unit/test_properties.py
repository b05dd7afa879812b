"""What holds of every document, journal, reply, id and secret, and not only of those that somebody thought of."""

from __future__ import annotations

import functools
import json
import os
import re
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from heat_config_agent import journal, metadata, plan, result
from heat_config_agent.errors import UsageError
from heat_config_agent.journal import Journal
from heat_config_agent.model import Deployment, Document, Entry, Result, Run, State
from heat_config_agent.plan import Known, Verb
from heat_config_agent.redaction import redactor
from heat_config_agent.sources import document
from heat_config_agent.sources.file import File
from heat_config_agent.tools import Tools
from heat_config_hooks import protocol
from heat_config_hooks.protocol import CREDENTIALS
from heat_config_hooks.reply import Capture, fit

TIMES = int(os.environ.get("PROPERTIES", "1"))
"""How many times the usual number of examples to try; above 1, others at every run."""

always = settings(max_examples=150 * TIMES, deadline=None, database=None, derandomize=TIMES == 1)
seldom = settings(max_examples=60 * TIMES, deadline=None, database=None, derandomize=TIMES == 1)

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
values = st.recursive(
    scalars, lambda each: st.lists(each, max_size=4) | st.dictionaries(st.text(), each, max_size=4), max_leaves=12
)


def objects(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Objects with any of these keys, or others; each value as it should be, or not."""
    return st.builds(
        lambda right, other: {**other, **right},
        st.fixed_dictionaries({}, optional={name: each | values for name, each in fields.items()}),
        st.dictionaries(st.text(max_size=3), values, max_size=2),
    )


names = st.sampled_from(
    ["x", "deploy_action", "deploy_status", "deploy_signal_id", "deploy_password", "out", "a/b", ""]
)
inputs = objects(name=names, value=st.sampled_from(["CREATE", "http://h/", "IN_PROGRESS"]), type=st.just("String"))
outputs = objects(name=names, error_output=st.booleans())
config = objects(actions=st.lists(st.sampled_from(["CREATE", "DELETE"])), tool=st.just("script"), config=st.text())
component = objects(configs=st.lists(config, max_size=3))
options = objects(
    timeout=st.just(5), script=st.dictionaries(st.just("timeout"), scalars), deploy_credentials=st.just(True)
)
entries = objects(
    id=st.sampled_from(["a", "b", "../x", "", 7]),
    name=st.text(),
    group=st.sampled_from(["script", "component", "chef", "Heat::Ungrouped", "✗"]),
    config=component | component.map(json.dumps) | st.text(),
    inputs=st.lists(inputs, max_size=3),
    outputs=st.lists(outputs, max_size=3),
    options=options,
)
lists = st.lists(entries | values, max_size=4)
documents = values | lists | objects(deployments=lists)


@always
@given(documents)
def test_any_document_is_planned(content: object) -> None:
    """Nothing is raised, every mistake has its path, and nothing with a mistake is ever run."""
    parsed = metadata.parse(Document(source="any", content=content))
    tools = Tools(())
    known = Known(entries={}, find=tools.find, installed=tools.installed, now=0.0)
    steps = plan.make(parsed.deployments, known)
    assert [step.deployment for step in steps] == list(parsed.deployments)
    assert len({step.deployment.key for step in steps}) == len(steps)
    for mistake in (*parsed.mistakes, *(each for step in steps for each in step.deployment.mistakes)):
        assert re.match(r"\$$|heat_template_version$|deployments$|(deployments)?\[\d+\]", mistake.path)
        assert mistake.problem
    for step in steps:
        assert step.reason
        assert protocol.file_key(step.deployment.key) == step.deployment.key
        assert not (step.deployment.mistakes and step.verb is Verb.RUN)
        assert (step.verb is Verb.RUN) == (step.tool is not None) == (step.config is not None)
        assert (step.verb is Verb.ANSWER) == (step.reply is not None)


@always
@given(documents)
def test_any_document_survives_its_journal(content: object) -> None:
    """What is kept of a deployment reads as it did when it came."""
    for each in metadata.parse(Document(source="any", content=content)).deployments:
        if not each.mistakes:
            kept = metadata.parse(Document(source="any", content=[json.loads(json.dumps(each.document))]))
            assert replace(kept.deployments[0], where="") == replace(each, where="")


yamlish = st.text(alphabet=" \n\t-:{}[],&*!|>'\"#%?@`~0123456789aexb._\\/+é\x00\x85\ufeff", max_size=40)


@always
@given(st.text() | yamlish | values.map(json.dumps) | st.builds(str.__add__, values.map(json.dumps), yamlish))
def test_any_text_is_a_document_or_a_mistake(text: str) -> None:
    """What is read can be written as JSON; what cannot be read is said in one line."""
    for name in ("x", "x.json"):
        try:
            found = document.load(text, name)
        except UsageError as error:
            said = str(error)
            found = None
        else:
            said = f"cannot read {name}: nothing"
        assert said.startswith(f"cannot read {name}: ")
        json.dumps(found, allow_nan=False)


@always
@given(st.binary() | yamlish.map(str.encode) | st.binary(max_size=3).map(lambda each: b'["' + each + b'"]'))
def test_any_bytes_are_a_document_or_a_mistake(content: bytes) -> None:
    """Whatever is in a file."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        try:
            found = File(Path(file.name)).collect().content
        except UsageError:
            return
        json.dumps(found, allow_nan=False)


def parse(identity: str, **fields: object) -> Deployment:
    """Return a deployment."""
    content = [{"id": identity, "group": "script", **fields}]
    return metadata.parse(Document(source="any", content=content)).deployments[0]


RUN = Run(boot="b", pid=1, ticks=2, began=3.0, limit=None, hook="builtin:script", working="/w", outputs="/o")


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
                book.finished(key, Result(values={"deploy_status_code": 0, "out": key}, failed=False))
                book.tried(key, "HTTP 503")
            if book.entries[key].settled or state not in (State.ACCEPTED, State.RUNNING, State.FINISHED):
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


@seldom
@given(st.binary() | st.lists(st.binary() | st.sampled_from(written()[0].splitlines())).map(b"\n".join))
def test_any_bytes_open_as_a_journal(content: bytes) -> None:
    """Nothing that is in the file keeps an agent from working."""
    check_opens(content, {})


@seldom
@given(
    st.integers(0, len(written()[0]))
    | st.sampled_from([each.start() + at for each in re.finditer(b"\n", written()[0]) for at in (0, 1)])
)
def test_a_journal_cut_anywhere_loses_its_last_line_at_most(length: int) -> None:
    """As a power cut leaves it."""
    content, _ = written()
    whole = content[: content.rfind(b"\n", 0, length) + 1]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / journal.FILE).write_bytes(whole)
        intact = journal.read(Path(folder))
    last = {json.loads(content[len(whole) :].split(b"\n")[0][9:])["key"]} if len(whole) < len(content) else set()
    check_opens(content[:length], {key: each for key, each in intact.items() if key not in last})


@seldom
@given(st.lists(st.tuples(st.integers(0, len(written()[0]) - 1), st.integers(0, 7)), min_size=1, max_size=4))
def test_a_journal_with_flipped_bits_loses_the_damaged_lines_only(flips: list[tuple[int, int]]) -> None:
    """As an old disk leaves it."""
    content, all_entries = written()
    damaged = bytearray(content)
    for position, bit in flips:
        damaged[position] ^= 1 << bit
    touched = set()
    start = 0
    for line in content.splitlines(keepends=True):
        end = start + len(line)
        # A newline that is lost joins the next line to this one.
        if any(start - 1 <= position < end for position, _ in flips):
            touched.add(json.loads(line[9:])["key"])
        start = end
    # One that was only accepted may have lost the record that says that it ran: it is not run again.
    certain = {key: each for key, each in all_entries.items() if each.state is not State.ACCEPTED}
    check_opens(bytes(damaged), {key: each for key, each in certain.items() if key not in touched})


@seldom
@given(
    st.dictionaries(st.text(max_size=8), values | st.text(min_size=500).map(lambda each: each * 5), max_size=8),
    st.binary(max_size=2000),
    st.integers(1, 50),
    st.integers(900, 5000),
)
def test_any_reply_fits(reply: dict[str, object], content: bytes, times: int, limit: int) -> None:
    """It is JSON, never longer than it may be, it keeps how the deployment ended, and what is short is whole."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(content * times)
        file.flush()
        given_reply = {**reply, "deploy_stdout": Capture(Path(file.name)), "deploy_status_code": 1}
        fitted = fit(given_reply, limit)
    assert len(json.dumps(fitted, allow_nan=False).encode()) <= limit
    assert fitted.keys() == given_reply.keys()
    assert fitted["deploy_status_code"] == 1
    text = (content * times).decode("utf-8", "replace")
    whole = {**reply, "deploy_stdout": text, "deploy_status_code": 1}
    if len(json.dumps(whole)) <= limit - 2 * len(whole):
        assert fitted == whole


@always
@given(st.text())
def test_any_id_has_a_safe_file_name(identity: str) -> None:
    """One name, not hidden, that leads nowhere else, and is its own."""
    key = protocol.file_key(identity)
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}", key)
    assert Path(key).name == key
    assert protocol.file_key(key) == key


safe = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_-]{0,20}", fullmatch=True)


@always
@given(safe | st.text(), safe | st.text())
def test_two_ids_never_share_a_file_name(one: str, other: str) -> None:
    """What belongs to one deployment is never taken for another's."""
    assume(one != other)
    assert protocol.file_key(one) != protocol.file_key(other)


secrets = st.text(st.characters(exclude_characters="*", exclude_categories=["Cs"]), min_size=4, max_size=40)
"""The mask is written with stars, so a secret of stars cannot be told from it."""


@always
@given(
    secrets,
    st.lists(st.text(max_size=20), min_size=2, max_size=5),
    st.sampled_from(sorted(CREDENTIALS)),
    st.sampled_from(["deploy_stdout", "deploy_stderr", "out", "other"]),
)
def test_no_credential_is_left_in_any_text(secret: str, around: list[str], name: str, part: str) -> None:
    """However often it is there, and whatever is around it."""
    hide = redactor(parse("a", inputs=[{"name": name, "value": secret}], outputs=[{"name": "out"}]))
    assert secret not in hide(part, secret.join(around))


@always
@given(secrets, st.lists(st.text(max_size=20), min_size=2, max_size=3), values, st.integers(0, 3))
def test_no_credential_is_left_in_any_result(secret: str, around: list[str], value: object, depth: int) -> None:
    """In a text or in a structure; the result can always be sent, and says how the deployment ended."""
    text = secret.join(around)
    nested: object = [text, value, {text: text}]
    for _ in range(depth):
        nested = {"k": [nested]}
    asked = parse("a", inputs=[{"name": "deploy_password", "value": secret}], outputs=[{"name": "out"}])
    found = result.make({"deploy_stdout": text, "deploy_status_code": 0, "out": nested}, asked)
    json.dumps(found.values, allow_nan=False)
    assert found.values["deploy_status_code"] == 0
    assert secret not in str(found.values["deploy_stdout"])
    assert not any(secret in each for each in texts(found.values["out"]))


def texts(value: object) -> list[str]:
    """Return all texts in a JSON value."""
    if isinstance(value, dict):
        return [*value, *(text for each in value.values() for text in texts(each))]
    if isinstance(value, list):
        return [text for each in value for text in texts(each)]
    return [value] if isinstance(value, str) else []


@pytest.mark.parametrize("stars", ["****", "*****", "a***"])
def test_a_secret_of_stars_breaks_nothing(stars: str) -> None:
    """It cannot be told from the mask, and the rest of the text is as it was."""
    hide = redactor(parse("a", inputs=[{"name": "deploy_password", "value": stars}]))
    assert hide("deploy_stdout", f"before {stars} after") == "before *** after"
