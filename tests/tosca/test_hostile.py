"""Documents that are made to be slow, large or endless: each is checked in a second, and all of them in 200 MB."""

from __future__ import annotations

import gc
import subprocess
import sys
import time
from pathlib import Path

import pytest

from heat_config_agent.diagnostics.mistakes import Invalid
from heat_config_stack.definition import Identity
from heat_config_stack.tosca.checks.checker import Checker
from heat_config_stack.tosca.compilation.reader import Wish, define
from support import pace
from support.machine import BIN
from tosca.hostile import DOCUMENTS

SECONDS = 1.0
"""Seconds of a processor for one document at most, on a machine with nothing else to do."""

LONGEST = (
    "copies",
    "derived-backwards",
    "doubled-aliases",
    "filtered",
    "merges",
    "types-of-properties",
    "unknown-types",
    "wrong-entries",
)
"""Documents that take longest; one that is built like each of them takes less."""

KILOBYTES = 200_000
"""Memory that a command may take."""


_MEASURED = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:], stdout=sys.stderr).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(code)
"""
"""Runs a command and prints its largest size. A process that a large one starts counts the size of that one."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if name in LONGEST else ())
        for name in DOCUMENTS
    ],
)
def test_a_hostile_document_is_checked_in_a_second(name: str, tmp_path: Path) -> None:
    """Each mistake is a sentence with its place."""
    path = tmp_path / f"{name}.yaml"
    path.write_text(DOCUMENTS[name])
    gc.freeze()  # the collector must not search what other tests have left
    start = time.process_time()
    found = Checker().check(str(path))
    took = time.process_time() - start
    gc.unfreeze()
    assert took < pace.seconds(SECONDS)
    assert found.is_readable
    assert found.service or found.mistakes
    assert all(
        mistake.place and mistake.place.line
        for mistake in (*found.mistakes, *found.warnings, *found.open)
    )


@pytest.mark.slow
def test_hostile_documents_need_little_memory(tmp_path: Path) -> None:
    """All of them, one after the other, in one command."""
    for name, text in DOCUMENTS.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    names = sorted(map(str, tmp_path.glob("*.yaml")))
    command = [str(BIN / "heat-config-agent"), "template", "validate", *names]
    with (tmp_path / "said").open("w+") as said:
        done = subprocess.run(
            [sys.executable, "-c", _MEASURED, *command],
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
            check=False,
        )
        said.seek(0)
        assert "Traceback" not in said.read()
    assert done.returncode == 1
    assert int(done.stdout) < KILOBYTES


@pytest.mark.slow
def test_services_that_double_each_other_are_refused(tmp_path: Path) -> None:
    """Each is put in the place of a node, and has two nodes in whose places the next one is put."""
    head = "tosca_definitions_version: tosca_simple_yaml_1_3\n"
    types = "".join(
        f"  T{number}: {{ derived_from: tosca.nodes.Root }}\n" for number in range(21)
    )
    (tmp_path / "types.yaml").write_text(f"{head}node_types:\n{types}")
    for number in range(20):
        node = f"{{ type: T{number + 1}, directives: [ substitute ] }}"
        (tmp_path / f"{number}.yaml").write_text(
            f"{head}imports: [ types.yaml ]\n"
            f"topology_template: {{ substitution_mappings: {{ node_type: T{number} }}, "
            f"node_templates: {{ a: {node}, b: {node} }} }}\n"
        )
    path = tmp_path / "service.yaml"
    path.write_text(
        f"{head}imports: [ types.yaml ]\n"
        "topology_template: { node_templates: { a: { type: T0, directives: [ substitute ] } } }\n"
    )
    with pytest.raises(Invalid, match="over 2,000 nodes are substituted"):
        define(str(path), Wish({}, {}, {}, {}), Identity("service", "1"))


def _growing(kind: str, value: str) -> str:
    """Return a service in which each property has ten times the one before it."""
    ten = ", ".join(["{get_property: [%s, p]}"] * 10)
    nodes = ""
    for number in range(12):
        inner = ten % ((f"n{number - 1}",) * 10) if number else "x"
        nodes += f"    n{number}: {{type: grown, properties: {{p: {value % inner}}}}}\n"
    return (
        "tosca_definitions_version: tosca_simple_yaml_1_3\n"
        f"node_types: {{grown: {{derived_from: tosca.nodes.Root, properties: {{p: {{type: {kind}}}}}}}}}\n"
        f"topology_template:\n  node_templates:\n{nodes}"
    )


@pytest.mark.fault(
    3,
    "properties of a TOSCA service that contain one another ten times, in twelve steps",
    "the service is refused with the limit that it exceeds, and takes no memory for it",
)
@pytest.mark.parametrize(
    ("kind", "value", "limit"),
    [
        ("string", "{concat: [%s]}", "concat makes over 67,108,864 characters"),
        ("string", "{join: [[%s], ',']}", "join makes over 67,108,864 characters"),
        ("list", "[%s]", "the properties of the service have over 1,000,000 values"),
    ],
    ids=["concat", "join", "lists"],
)
def test_values_that_grow_without_limit_are_refused(
    kind: str, value: str, limit: str, tmp_path: Path
) -> None:
    """Nothing of it is done."""
    path = tmp_path / "s.yaml"
    path.write_text(_growing(kind, value))
    command = [
        str(BIN / "heat-config-apply"),
        "--state-dir",
        str(tmp_path / "state"),
        "--plan",
        str(path),
    ]
    done = subprocess.run(
        [sys.executable, "-c", _MEASURED, *command],
        capture_output=True,
        text=True,
        check=False,
        timeout=pace.seconds(30),
    )
    assert done.returncode == 2
    assert limit in done.stderr
    assert int(done.stdout) < KILOBYTES
