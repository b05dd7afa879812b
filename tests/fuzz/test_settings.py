"""Any settings, in files or in metadata, are read with one sentence for each mistake."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from fuzz.examples import SHARE, TESTS, damaged, odd, tries, values
from heat_config_agent.model.errors import UsageError
from heat_config_agent.settings import display, effective, layers, schema
from heat_config_agent.settings.layers import Layer
from heat_config_agent.settings.schema import SETTINGS
from heat_config_agent.sources import transports

pytestmark = [pytest.mark.takes(20), pytest.mark.torture(share=SHARE)]

LONGEST = 2000
SECRET = "hunter2hunter2"

files_of_settings = pytest.mark.fault(
    5,
    "any bytes in agent.conf or os-collect-config.conf: damaged, odd values of every setting, sections, repeated names",
    "one sentence names the line and what is right; what is right in it is used; no secret is repeated",
)
said_by_metadata = pytest.mark.fault(
    4,
    "any values in the metadata's os-collect-config, and settings there that are the machine's own to say",
    "only how to reach Heat and how often is taken from it; the rest is passed over",
)

EXAMPLE = (TESTS.parent / "examples" / "agent.conf").read_bytes()

texts = st.text(max_size=12) | st.sampled_from(
    [
        *(
            "",
            "0",
            "-1",
            "1e999",
            "nan",
            "inf",
            "1e-400",
            "9" * 5000,
            "0x10",
            "٣",
            "true",
            "yes",
            "None",
            "~",
            "/",
            "a b",
        ),
        *(
            "/a /b",
            "relative",
            "a,b",
            "'",
            '"a',
            "a=b",
            "\0",
            "\x1b[2J",
            "\ufeff",
            "\ud800",
            "$HOME",
            "%(x)s",
            "[x]",
            "#",
        ),
        *(
            "http://",
            "http://u:p@h/",
            "[::1",
            "local",
            "heat",
            "none",
            "a\n b",
            "a\n[agent]\nstate_dir=/x",
        ),
    ]
)
names = st.sampled_from([(each.section, each.name) for each in SETTINGS])
lines = st.one_of(
    st.builds(lambda place, value: f"[{place[0]}]\n{place[1]} = {value}", names, texts),
    st.builds(
        lambda place, value: f"[{place[0]}]\n{place[1]}: {value}\n {value}",
        names,
        texts,
    ),
    st.builds("[{}]\n{} = {}".format, texts, texts, texts),
    st.builds(lambda place, value: f"[DEFAULT]\n{place[1]} = {value}", names, texts),
    texts,
)
written = st.lists(lines, max_size=6).map(
    lambda each: "\n".join(each).encode("utf-8", "surrogatepass")
)
contents = written | damaged(st.just(EXAMPLE)) | st.binary()


def check(layer: Layer) -> None:
    """Hold what a place says against what may be said."""
    for section, said in layer.sections.items():
        for name, value in said.items():
            known = schema.setting(section, name)
            assert value is not None
            json.dumps(value)
            assert len(repr(display.setting(known, value))) < 100_000
    for each in layer.mistakes:
        assert each.path
        assert len(str(each)) < LONGEST


@files_of_settings
@tries(150, contents, st.booleans())
def test_any_file_of_settings_is_read_or_refused(content: bytes, own: bool) -> None:
    """A file is refused with one sentence, or with one for each mistake where mistakes are collected."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "agent.conf"
        path.write_bytes(content)
        refused: list[str] = []
        check(layers.file(path, own=own, refused=refused))
        assert all(str(path) in each and len(each) < LONGEST for each in refused)
        wrong: list[str] = []
        found = effective.make({"HOME": folder}, config=path, mistakes=wrong)
        assert all("\n" not in each for each in wrong)
        for row in SETTINGS:
            found.lookup(row.section, row.name)
        try:
            effective.make({"HOME": folder}, config=path)
        except UsageError as error:
            said = str(error)
        else:
            said = ""
        assert bool(said) == bool(wrong)
        assert len(said) < LONGEST


secret_rows = [
    (each.section, each.name)
    for each in SETTINGS
    if each.secret or each.name in ("environment", "auth_url")
]


@files_of_settings
@tries(
    100,
    st.sampled_from(secret_rows),
    texts,
    texts,
    st.sampled_from(["", "http://u:", "A=", "http://h/?sig="]),
)
def test_no_secret_is_repeated(
    place: tuple[str, str], before: str, after: str, begin: str
) -> None:
    """The message about a setting with a secret does not repeat its value."""
    section, name = place
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "agent.conf"
        text = f"[agent]\nstate_dir = {folder}\n[{section}]\n{name} = {begin}{SECRET}{after}\n{before}\n"
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        wrong: list[str] = []
        effective.make({"HOME": folder}, config=path, mistakes=wrong)
        assert not any(SECRET in each for each in wrong)
        said = layers.metadata(
            {"os-collect-config": {section: {name: [SECRET, before, {"a": SECRET}]}}},
            "x",
        )
        assert not any(SECRET in str(each) for each in said.mistakes)


sections: dict[str, Any] = {}
for each in SETTINGS:
    sections.setdefault(each.section, {})[each.name] = texts | odd
said = st.fixed_dictionaries(
    {},
    optional={
        name: st.fixed_dictionaries({}, optional=rows) | odd
        for name, rows in sections.items()
    },
)
flat = st.dictionaries(
    st.sampled_from([each.name for each in SETTINGS]) | st.text(max_size=5),
    texts | odd,
    max_size=6,
)
OWN = {each.name for each in SETTINGS if each.section == "agent" and not each.shared}


@said_by_metadata
@tries(150, st.builds(lambda one, other: {**one, **other}, said, flat) | odd)
def test_any_metadata_says_how_to_reach_heat_and_nothing_else(content: object) -> None:
    """Metadata never sets the state directory, the hooks or the reboot command."""
    found = layers.metadata({"os-collect-config": content}, "the metadata")
    check(found)
    assert set(found.sections) <= {"agent", *schema.TRANSPORTS}
    assert not OWN & set(found.sections.get("agent", {}))
    for way in transports.level(found).transports:
        assert not schema.incomplete(way.name, way.values)


@said_by_metadata
@tries(100, values | odd)
def test_any_document_says_settings_or_none(content: object) -> None:
    """A document that is not an object has no settings."""
    check(layers.metadata(content, "x"))
