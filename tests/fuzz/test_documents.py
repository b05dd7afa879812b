"""Any document is read without an exception, each mistake is reported with its position, and nothing wrong succeeds."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import strategies as st

from fuzz.examples import (
    KNOWN,
    SHARE,
    changed,
    damaged,
    documents,
    tries,
    values,
    yamlish,
)
from heat_config_agent.deployments import metadata, plan, selection
from heat_config_agent.deployments.plan import Known, Verb
from heat_config_agent.deployments.selection import Nothing
from heat_config_agent.model.deployment import Document
from heat_config_agent.model.errors import SourceError, UsageError
from heat_config_agent.runs.tools import Tools
from heat_config_agent.sources import document_text
from heat_config_agent.sources.file import File, Files, ShellConfig
from heat_config_hooks import protocol
from heat_config_hooks.values import replace

pytestmark = [pytest.mark.takes(20), pytest.mark.torture(share=SHARE)]

LONGEST = 2000
"""Characters of a sentence at most, whatever it is about."""

mistaken = pytest.mark.fault(
    2,
    "a document with anything in it: odd values, missing and doubled keys, any nesting",
    "an entry with a mistake is never run and never succeeds; the path of each "
    "mistake is shown, and the other entries are applied",
)
unreadable = pytest.mark.fault(
    5,
    "text or bytes that are not a document: cut, damaged, of another encoding, YAML's tags, aliases and merge keys",
    "one sentence says what and where, and repeats no secret of it; or what is read is plain JSON",
)


def check(content: object) -> None:
    """Plan a document, and hold what comes of it against the promises."""
    parsed = metadata.parse(Document(source="any", content=content))
    tools = Tools(())
    known = Known(entries={}, tools=tools.installed(), now=0.0)
    steps = plan.make(parsed.deployments, known)
    assert [step.deployment for step in steps] == list(parsed.deployments)
    assert len({step.deployment.key for step in steps}) == len(steps)
    assert parsed.understood or parsed.mistakes
    for mistake in (
        *parsed.mistakes,
        *(each for step in steps for each in step.deployment.mistakes),
    ):
        assert re.match(
            r"\$$|heat_template_version$|deployments$|(deployments)?\[\d+\]",
            mistake.path,
        )
        assert mistake.problem
        assert len(str(mistake)) < LONGEST
    for step in steps:
        assert step.reason
        assert protocol.file_key(step.deployment.key) == step.deployment.key
        assert not (step.deployment.mistakes and step.verb is Verb.RUN)
        assert (step.verb is Verb.RUN) == (step.job is not None)
        assert (step.verb is Verb.ANSWER) == (step.reply is not None)
        if step.reply is not None and not step.reply["deploy_status_code"]:
            assert isinstance(selection.select(step.deployment), Nothing)
            assert not step.deployment.mistakes


@mistaken
@tries(150, documents)
def test_any_document_is_planned(content: object) -> None:
    """Nothing is raised, every mistake has its path, and nothing with a mistake is ever run, or a success."""
    check(content)


@mistaken
@tries(150, changed())
def test_a_real_document_with_changes_is_planned(content: object) -> None:
    """The same of those that nearly make sense."""
    check(content)


@mistaken
@tries(100, st.lists(changed(), min_size=2, max_size=3))
def test_several_documents_are_planned_together(contents: list[object]) -> None:
    """No deployment is planned twice, and of two with one id the first counts, which is said."""
    found, sources, mistakes = metadata.parse_all(
        Document(source=f"source {number}", content=each)
        for number, each in enumerate(contents)
    )
    assert len({each.key for each in found}) == len(found)
    assert {each.source for each in found} <= sources
    assert all(len(str(each)) < LONGEST for each in mistakes)


@mistaken
@tries(150, documents | changed())
def test_any_document_survives_its_journal(content: object) -> None:
    """A deployment reads from the journal as it came."""
    for each in metadata.parse(Document(source="any", content=content)).deployments:
        if not each.mistakes:
            kept = metadata.parse(
                Document(source="any", content=[json.loads(json.dumps(each.document))])
            )
            assert replace(kept.deployments[0], where="") == replace(each, where="")


def read(text: str, name: str) -> object:
    """Return what a text says, which can be written as JSON; None where it is refused, in one sentence."""
    try:
        document = document_text.load(text, name)
    except UsageError as error:
        said = str(error)
        assert said.startswith(f"cannot read {name}: ")
        assert "\n" not in said
        assert len(said) < LONGEST
        return None
    json.dumps(document, allow_nan=False)
    return document


@unreadable
@tries(
    150,
    st.text()
    | yamlish
    | values.map(json.dumps)
    | st.builds(str.__add__, values.map(json.dumps), yamlish),
)
def test_any_text_is_a_document_or_a_mistake(text: str) -> None:
    """A parsed document can be written as JSON, and an invalid one is reported in one line."""
    for name in ("x", "x.json"):
        read(text, name)


tagged = st.sampled_from(
    [
        *(
            "!!python/object/apply:os.system ['touch /tmp/x']",
            "!!python/name:os.system",
            "!x y",
            "!!binary x",
        ),
        *(
            "!!int x",
            "!!float x",
            "!!timestamp 2001-01-01",
            "!!set {a, b}",
            "!!omap [a: 1]",
            "!!pairs [a: 1]",
        ),
        *(
            "!!bool maybe",
            "!!null x",
            "!<tag:yaml.org,2002:str> x",
            "&a [*a]",
            "&a {<<: *a}",
            "{<<: [{a: 1}, b]}",
        ),
        *(
            "{<<: 1}",
            "? [a, b]\n: c",
            "{a: 1, a: 2}",
            ".inf",
            ".nan",
            "-.INF",
            "1e999",
            "0x" + "f" * 5000,
        ),
        *(
            "1:2:3",
            "0b",
            "0o8",
            "+.e",
            "2001-02-30",
            "2001-99-99",
            "1_000",
            "~",
            "|\n x",
            ">-\n x",
            "%YAML 9.9\n---",
        ),
        *(
            "---\na\n---\nb",
            "--- !!str\n...",
            "\t- a",
            "a: b: c",
            "{{ a }}",
            "*a",
            "&a",
            "- &a a\n- *a\n- *b",
        ),
    ]
)


@unreadable
@tries(
    100,
    st.builds(
        lambda *parts: "".join(parts),
        st.sampled_from(["", "- ", "a: ", "- id: "]),
        tagged,
        yamlish,
    ),
)
def test_yaml_beyond_json_is_read_or_refused(text: str) -> None:
    """No tag makes an object of Python's, no alias a loop, and no number what JSON has not."""
    read(text, "x")


SECRET = "Hunter2hunter2"
known_bytes = st.sampled_from(
    [json.dumps(each, indent=indent).encode() for each in KNOWN for indent in (None, 2)]
)
as_yaml = st.sampled_from([yaml.safe_dump(each).encode() for each in KNOWN])


@unreadable
@tries(100, damaged(known_bytes | as_yaml))
def test_a_damaged_document_is_read_or_refused(content: bytes) -> None:
    """A document with any damage of an editor, a disk or a network is read or refused."""
    found = read(content.decode("utf-8-sig", "replace"), "x")
    check(found)


@unreadable
@tries(
    100,
    st.sampled_from(
        [
            "{}",
            "'{}",
            '"{}',
            "!{}",
            "!!int {}",
            "!!float {}",
            "!!{}!x",
            "*{}",
            "&{}",
            "@{}",
            "`{}",
            "%{}",
        ]
    ),
    st.text(max_size=3) | yamlish,
    yamlish,
)
def test_message_about_a_document_repeats_no_secret(
    form: str, before: str, after: str
) -> None:
    """A password that somebody forgot to quote is not in the message that says so."""
    text = f"- inputs:\n  - name: deploy_password\n    value: {before}{form.format(SECRET)}{after}\n"
    for name, shown in (("x", text), ("x.json", f'[{{"value": {text!r}}}]')):
        try:
            found = document_text.load(shown, name)
        except UsageError as error:
            said = str(error)
            assert SECRET not in said
            continue
        parsed = metadata.parse(Document(source="x", content=found))
        assert not any(SECRET in str(each) for each in parsed.mistakes)


encodings = st.sampled_from(
    [
        "utf-16",
        "utf-16-le",
        "utf-32",
        "latin-1",
        "cp1252",
        "utf-7",
        "utf-8-sig",
        "shift-jis",
    ]
)


def encoded(value: object, encoding: str) -> bytes:
    """Return the JSON of a value in an encoding, as far as it can be said in that."""
    return json.dumps(value, ensure_ascii=False).encode(encoding, "replace")


@unreadable
@tries(
    120,
    st.binary()
    | yamlish.map(str.encode)
    | st.binary(max_size=3).map(lambda each: b'["' + each + b'"]')
    | st.builds(encoded, st.sampled_from(KNOWN) | values, encodings)
    | damaged(known_bytes),
)
def test_any_bytes_are_a_document_or_a_mistake(content: bytes) -> None:
    """Any bytes in a file are a document or a mistake, for each source that reads files."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "document.json"
        path.write_bytes(content)
        collectors: list[Any] = [
            File(path),
            ShellConfig(path),
            Files({"path": (str(path),)}, None),  # type: ignore[arg-type]  # it reaches for nothing
        ]
        for each in collectors:
            try:
                found = each.collect()
            except (UsageError, SourceError) as error:
                said = str(error)
                assert str(path) in said
                assert len(said) < LONGEST
                continue
            json.dumps(found.content, allow_nan=False)
