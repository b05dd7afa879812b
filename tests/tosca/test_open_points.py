"""Open points of a service: what is needed to apply it here, without being a mistake."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from heat_config_stack.tosca.checks.checker import Checked, Checker
from heat_config_stack.tosca.files.processors import lacking

HEAD = "tosca_definitions_version: tosca_simple_yaml_1_3\n"


@pytest.fixture(autouse=True)
def _only_bash(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have a machine with no program but bash."""
    monkeypatch.setattr(
        shutil, "which", lambda name, **_: "/bin/bash" if name == "bash" else None
    )
    lacking.cache_clear()
    yield
    lacking.cache_clear()


def points(found: Checked, code: str) -> list[str]:
    """Return the open points of a code; there are no mistakes."""
    assert found.mistakes == []
    return [
        f"{mistake.problem} ({mistake.hint})"
        for mistake in found.open
        if mistake.code == code
    ]


def operation(folder: Path, implementation: str, more: str = "") -> Checked:
    """Return what is found in a service with an implementation."""
    (folder / "service.yaml").write_text(
        f"{HEAD}{more}topology_template:\n  node_templates:\n    app:\n      type: Root\n"
        f"      interfaces: {{ Standard: {{ create: {{ implementation: {implementation} }} }} }}\n"
    )
    return Checker().check(str(folder / "service.yaml"))


@pytest.mark.parametrize(
    ("name", "program"),
    [
        ("a.sh", ""),
        ("a.py", "python3"),
        ("a.yml", "ansible-playbook"),
        ("a.pp", "puppet"),
        ("a.sls", "salt-call"),
    ],
)
def test_a_program_that_is_not_here_is_left_open(
    name: str, program: str, tmp_path: Path
) -> None:
    """With how to install it; bash is here."""
    (tmp_path / name).write_text("")
    said = points(operation(tmp_path, name), "open-tool")
    assert [each.partition(" (install ")[0] for each in said] == (
        [f"{program} is not on this machine"] * bool(program)
    )


@pytest.mark.parametrize(
    ("content", "is_open"),
    [
        (b"#!/usr/bin/perl\n", False),
        (b"\x7fELF...", False),
        (b"nothing", True),
        (b"", True),
    ],
)
def test_first_line_of_a_file_chooses_its_processor(
    content: bytes, is_open: bool, tmp_path: Path
) -> None:
    """Where neither its type nor its extension does."""
    (tmp_path / "install").write_bytes(content)
    said = points(operation(tmp_path, "install"), "open-tool")
    hint = "begin it with #! and the path of its interpreter, or name the type of the artifact"
    assert said == [f"no program is known that runs install ({hint})"] * is_open


def test_the_type_of_an_artifact_goes_before_its_extension(tmp_path: Path) -> None:
    """A file without extension may be a script of Python, and one ending in `.py` of bash."""
    (tmp_path / "install.py").write_text("")
    (tmp_path / "install").write_text("")
    bash = (
        "{ primary: { file: install.py, type: tosca.artifacts.Implementation.Bash } }"
    )
    assert points(operation(tmp_path, bash), "open-tool") == []
    python = (
        "{ primary: { file: install, type: tosca.artifacts.Implementation.Python } }"
    )
    assert len(points(operation(tmp_path, python), "open-tool")) == 1


def test_a_type_of_the_document_has_extensions_of_its_own(tmp_path: Path) -> None:
    """The processor of the parent type runs files with the extensions of a derived type."""
    (tmp_path / "a.run").write_text("")
    types = "artifact_types: { Run: { derived_from: tosca.artifacts.Implementation.Bash, file_ext: [ run ] } }\n"
    assert points(operation(tmp_path, "a.run", types), "open-tool") == []
    assert len(points(operation(tmp_path, "a.run"), "open-tool")) == 1


def test_several_templates_for_one_node_are_named(tmp_path: Path) -> None:
    """All templates that fit a node are named, and the author has to choose one."""
    types = f"{HEAD}node_types: {{ Database: {{ derived_from: Root }} }}\n"
    inner = (
        f"{HEAD}imports: [ types.yaml ]\n"
        "topology_template: { substitution_mappings: { node_type: Database } }\n"
    )
    (tmp_path / "types.yaml").write_text(types)
    for name in ("small.yaml", "large.yaml"):
        (tmp_path / name).write_text(inner)
    outer = "topology_template: { node_templates: { db: { type: Database, directives: [ substitute ] } } }\n"
    for imports, number in (
        ("types.yaml", 1),
        ("types.yaml, small.yaml", 0),
        ("types.yaml, small.yaml, large.yaml", 1),
    ):
        (tmp_path / "service.yaml").write_text(f"{HEAD}imports: [ {imports} ]\n{outer}")
        said = points(
            Checker().check(str(tmp_path / "service.yaml")), "open-substitution"
        )
        assert len(said) == number
    assert "small.yaml" in said[0]
    assert "large.yaml" in said[0]
    assert "--substitute db=FILE" in said[0]


def test_a_requirement_without_a_target_says_what_fulfils_it_otherwise(
    tmp_path: Path,
) -> None:
    """That is this machine, the only node that fits, or the target of the node in whose place the service stands."""
    app = "app: { type: SoftwareComponent }"
    mapping = "substitution_mappings: { node_type: SoftwareComponent, requirements: { host: [ app, host ] } }"
    for nodes, more, otherwise in (
        (app, "", "; otherwise it is this machine"),
        (f"{app}, one: {{ type: Compute }}", "", "; otherwise it is one"),
        (f"{app}, one: {{ type: Compute }}, two: {{ type: Compute }}", "", ""),
        (
            app,
            f", {mapping}",
            "; in the place of a node, the target is that of the node",
        ),
    ):
        text = f"{HEAD}topology_template: {{ node_templates: {{ {nodes} }}{more} }}\n"
        (tmp_path / "service.yaml").write_text(text)
        said = points(
            Checker().check(str(tmp_path / "service.yaml")), "open-requirement"
        )
        hint = f"name a node that fulfils it{otherwise}"
        assert said == [f"the requirement host of app has no target ({hint})"]
