"""Any service template or archive is read, or each mistake is one sentence with its position."""

from __future__ import annotations

import io
import json
import tempfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import strategies as st

from fuzz.examples import SHARE, TESTS, damaged, odd, places, tries
from heat_config_stack.tosca.checks.checker import Checked, Checker
from tosca.archives import GOOD

pytestmark = [pytest.mark.takes(20), pytest.mark.torture(share=SHARE)]

SECONDS = 1.0
"""Seconds of this process for one example at most; they are small."""

LONGEST = 50_000
"""Characters of a sentence at most: names that somebody has written are in it."""

LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
PATHS = [
    path
    for folder in ("documents", "seed-templates", "rules")
    for path in sorted((TESTS / "tosca" / folder).glob("*.yaml"))
]
CONTENTS = [path.read_bytes() for path in PATHS]


def parsed(content: bytes) -> Any:
    """Return the value of a document; None where it has none."""
    try:
        return yaml.load(content, Loader=LOADER)  # noqa: S506  # it is one of the safe ones
    except (yaml.YAMLError, ValueError):
        return None


VALUES = [value for value in map(parsed, CONTENTS) if isinstance(value, dict)]

PIECES: st.SearchStrategy[Any] = st.sampled_from(
    [
        *(
            {"get_input": "cpus"},
            {"get_property": ["SELF", "host", "port"]},
            {"get_attribute": ["SELF", {"get_input": 1}]},
        ),
        *(
            {"get_input": None},
            {"get_property": [[], {}]},
            {"get_operation_output": ["SELF", "Standard", "create", "x"]},
        ),
        *(
            {"concat": [{"token": [1]}]},
            {"join": [["a"], 5]},
            {"token": ["a", ":", -1]},
            {"get_artifact": ["SELF", "x"]},
        ),
        *(
            "tosca.nodes.Root",
            "Compute",
            "tosca:Standard",
            "4 GB",
            "1.0.0.beta",
            "UNBOUNDED",
            [1, "UNBOUNDED"],
            [2, 1],
        ),
        *(
            {"equal": 1},
            {"in_range": [1, 2]},
            [{"pattern": "(a+)+"}],
            {"valid_values": []},
            {"a": None},
            [{"a": 1, "b": 2}],
        ),
        *(
            {"type": "list", "entry_schema": {"type": "A"}},
            {"mapping": ["a", "b"]},
            {"derived_from": "A"},
            {"copy": "a"},
        ),
    ]
)


@st.composite
def changed(draw: st.DrawFn) -> bytes:
    """Return a document with a few things changed in it."""
    value = deepcopy(draw(st.sampled_from(VALUES)))
    for _ in range(draw(st.integers(1, 4))):
        here = places(value)
        if not here:
            break
        holder, key = here[draw(st.integers(0, len(here) - 1))]
        match draw(st.sampled_from(["piece", "odd", "remove", "rename", "swap"])):
            case "remove":
                del holder[key]
            case "rename" if isinstance(holder, dict):
                _, other = here[draw(st.integers(0, len(here) - 1))]
                holder[str(other)] = holder.pop(key)
            case "swap":
                other_holder, other = here[draw(st.integers(0, len(here) - 1))]
                holder[key] = deepcopy(other_holder[other])
            case "odd":
                holder[key] = deepcopy(draw(odd))
            case _:
                holder[key] = deepcopy(draw(PIECES))
    return json.dumps(
        value, default=str, indent=draw(st.sampled_from([None, 1]))
    ).encode()


@contextmanager
def named(content: bytes, suffix: str) -> Iterator[str]:
    """Give the name of a file with a content, far from all files that an import could reach by a short path."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, *"abcd", f"service{suffix}")
        file.parent.mkdir(parents=True)
        file.write_bytes(content)
        yield str(file)


def check(content: bytes, suffix: str = ".yaml") -> Checked:
    """Return what is found in a file, held to what each finding promises."""
    with named(content, suffix) as name:
        start = time.process_time()
        checked = Checker().check(name)
        assert time.process_time() - start < SECONDS
    for mistake in (*checked.mistakes, *checked.warnings, *checked.open):
        assert mistake.problem
        assert mistake.code
        assert len(str(mistake)) < LONGEST
        assert mistake.place
        assert mistake.place.line > 0
        assert mistake.place.file.startswith(name)
    assert checked.service is not None or checked.mistakes
    if checked.service is not None and not checked.mistakes:  # its model is complete
        for node in checked.service.nodes.values():
            assert node.type
            for requirement in node.requirements:
                assert requirement.definition
            for interface, operation in node.operations:
                assert operation.implemented
                json.dumps(interface.inputs(operation.name))
    return checked


@tries(200, changed())
def test_any_template_is_checked(content: bytes) -> None:
    """A template with any value in any place is checked."""
    check(content)


@tries(200, damaged(st.sampled_from(CONTENTS)))
def test_damaged_text_is_refused_or_checked(content: bytes) -> None:
    """A template of any bytes is refused or checked."""
    check(content)


@tries(50, st.sampled_from(CONTENTS), st.integers(1, 200))
def test_a_text_that_ends_early_is_refused_or_checked(
    content: bytes, parts: int
) -> None:
    """A template that is cut off anywhere is refused or checked."""
    check(content[: len(content) * parts // 200])


@tries(
    60,
    st.sampled_from(["a", "b", "c"]),
    st.sampled_from(["*a", "[ *a ]", "{ x: *a }", "{ <<: *a }", "{ <<: [ *a ] }"]),
)
def test_aliases_in_a_circle_are_refused(section: str, alias: str) -> None:
    """A value that is in itself has no end."""
    names = {"a": "dsl_definitions", "b": "node_types", "c": "topology_template"}
    text = f"tosca_definitions_version: tosca_simple_yaml_1_3\n{names[section]}: &a\n  inner: {alias}\n"
    assert check(text.encode()).mistakes


def _packed(members: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


WHOLE = {name: content.encode() for name, content in GOOD.items()}


@tries(150, damaged(st.just(_packed(WHOLE))))
def test_a_damaged_archive_is_refused_or_checked(content: bytes) -> None:
    """An archive of any bytes is refused or checked."""
    check(content, ".csar")


@tries(
    150,
    st.sampled_from(sorted(WHOLE)),
    damaged(st.sampled_from(sorted(WHOLE.values()))),
    st.text(alphabet="ab./\\:~é", min_size=1, max_size=8),
)
def test_an_archive_with_odd_members_is_refused_or_checked(
    name: str, content: bytes, other: str
) -> None:
    """An archive is refused or checked, with any names and contents of its members."""
    check(_packed({**WHOLE, name: content, other: b"x"}), ".csar")
