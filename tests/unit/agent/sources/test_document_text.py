from __future__ import annotations

import json
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from heat_config_agent.model.errors import SourceError, UsageError
from heat_config_agent.sources import document_text
from heat_config_agent.sources.file import File, ShellConfig
from support import pace


def load(text: str, name: str = "x") -> object:
    """Read a text."""
    return document_text.load(text, name)


@pytest.mark.parametrize(
    "value", [{"deployments": []}, [], [1, 2.5, "é", None, True], "text", 7, None]
)
def test_json_is_read_as_what_it_says(value: object) -> None:
    """Under any name."""
    for name in ("x", "x.json", "x.yaml"):
        assert load(json.dumps(value), name) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: 1\nb: [x, 'y']\n", {"a": 1, "b": ["x", "y"]}),
        ("- |\n  line\n  more\n", ["line\nmore\n"]),
        ("{a: 1}", {"a": 1}),
        ("[a, b]", ["a", "b"]),
        ("{a: 1, }", {"a": 1}),
        ("a: &x [1]\nb: *x\n", {"a": [1], "b": [1]}),
        ("", None),
        ("# nothing\n", None),
        (
            "7: a\ntrue: b\nnull: c\n1.5: d\n",
            {"7": "a", "true": "b", "null": "c", "1.5": "d"},
        ),
        (
            "at: 2026-11-20\nthen: 2026-11-20T18:26:35Z\n",
            {"at": "2026-11-20", "then": "2026-11-20T18:26:35Z"},
        ),
        ("hot: 2018-08-31", {"hot": "2018-08-31"}),
    ],
)
def test_text_other_than_json_is_read_as_yaml(text: str, value: object) -> None:
    """As far as JSON has a counterpart: keys are text, and a date stays what was written."""
    assert load(text) == value


@pytest.mark.parametrize(
    ("text", "name", "place"),
    [
        (
            '{"a": 1,}\n',
            "x.json",
            "x.json: line 1, column ",
        ),  # Python 3.13 names the comma, earlier ones what follows
        ('{\n"a" 1}', "x", "x: line 2, column 5"),
        ("a: 1\nb: [\n", "x.yaml", "x.yaml: line 3, column 1"),
        ("a: *unknown\n", "x.yaml", "line 1, column 4"),
        ("a: 1\n b: 2\n", "x.yaml", "line 2, column 3"),
        ("a: !unknown 1\n", "x.yaml", "line 1, column 4"),
        ("a: 1", "x.json", "x.json: line 1, column 1"),
    ],
)
def test_a_mistake_is_reported_with_its_place(text: str, name: str, place: str) -> None:
    """The file, the line and the column."""
    with pytest.raises(UsageError) as caught:
        load(text, name)
    assert place in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "[NaN]",
        "[Infinity]",
        "[-Infinity]",
        "[1e999]",
        "a: .nan",
        "a: .inf",
        "a: !!binary aGk=",
        "a: !!set {b}",
        "? [a]\n: b",
        "&a [*a]",
        "a\0b",
        "--- a\n--- b",
        "a: !!python/object/apply:os.system ['true']",
    ],
)
def test_value_outside_json_is_refused(text: str) -> None:
    """No such value could be given to a hook, or sent."""
    with pytest.raises(UsageError, match="cannot read x"):
        load(text)


@pytest.mark.parametrize(
    "text",
    [
        "0x_",
        "a: 0b_",
        "!!int x",
        "!!float ''",
        "!!float x",
        "!!bool maybe",
        "!!null [a]",
        "!!str {a: b}",
    ],
)
def test_a_yaml_value_that_is_none_of_its_type_is_refused(text: str) -> None:
    """As any other mistake in the text."""
    with pytest.raises(UsageError, match="cannot read x"):
        load(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: !!omap [b: 1]", {"a": [["b", 1]]}),
        ("a: !!timestamp 2026-11-20", {"a": "2026-11-20"}),
        ("!!timestamp soon", "soon"),
    ],
)
def test_ordered_maps_are_lists_and_times_stay_text(text: str, value: object) -> None:
    """As in Heat."""
    assert load(text) == value


@pytest.mark.parametrize(
    "text",
    ["1" * 5000, "a: " + "1" * 5000, "a: 0x" + "f" * 5000],
    ids=["json", "yaml", "hex"],
)
def test_a_number_that_is_too_long_to_write_is_refused(text: str) -> None:
    """A number that could be read but not sent is refused."""
    with pytest.raises(UsageError, match="cannot read x"):
        load(text)


@pytest.mark.parametrize(
    "text",
    [
        '"[" * 100_000',
        '"{\\"a\\":" * 100_000',
        '"[a," * 100_000',
        '"- " * 100_000',
        '"{a: " * 100_000',
        '"? " * 100_000',
    ],
)
def test_text_that_is_nested_too_deeply_is_refused(text: str) -> None:
    """Text in any language that is nested too deeply is refused without a crash."""
    script = (
        "from heat_config_agent.sources import document_text\nfrom heat_config_agent.model.errors import UsageError\n"
        f"try:\n    document_text.load({text}, 'x')\nexcept UsageError:\n    print('refused')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        timeout=pace.seconds(60),
    )
    assert (done.returncode, done.stdout) == (0, "refused\n"), done.stderr[-500:]


def test_a_file_is_a_document_under_its_path(tmp_path: Path) -> None:
    """The path names the source across runs; a byte order mark is passed over."""
    path = tmp_path / "a.yaml"
    entry = {"id": "a", "group": "script", "config": "echo é"}
    path.write_text(f"\ufeffdeployments: [{entry}]", encoding="utf-8")
    found = File(path).collect()
    assert (found.source, found.content) == (f"file:{path}", {"deployments": [entry]})


@pytest.mark.parametrize(
    "content", [b"\xff\xfe\0", b"\x80", b"\0\0\0\0", b"\x1b[2J", bytes(range(256))]
)
def test_binary_file_is_refused(tmp_path: Path, content: bytes) -> None:
    """In one sentence."""
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=r"a\.json:1:1: "):
        File(path).collect()


def test_a_file_that_is_not_there_is_a_source_that_does_not_answer(
    tmp_path: Path,
) -> None:
    """A missing file does not say that there are no deployments."""
    for source in (File(tmp_path / "a"), File(tmp_path), ShellConfig(tmp_path / "a")):
        with pytest.raises(SourceError, match="cannot read"):
            source.collect()


def test_the_older_agents_file_is_made_private(tmp_path: Path) -> None:
    """The file of the older agent, which has passwords, is made private."""
    path = tmp_path / "heat-config"
    path.write_text('[{"id": "a"}]')
    path.chmod(0o644)
    assert ShellConfig(path).collect().content == [{"id": "a"}]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("text", ["", "\n", "[]"])
def test_the_older_agents_file_may_be_empty(tmp_path: Path, text: str) -> None:
    """As its template leaves it before the first deployment."""
    path = tmp_path / "heat-config"
    path.write_text(text)
    assert ShellConfig(path).collect().content == []
