"""The kind of a file, by its content."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from heat_config_agent.diagnostics import kinds

SERVICE = "tosca_definitions_version: tosca_simple_yaml_1_3\n"
TEMPLATE = "heat_template_version: 2018-08-31\n"


@pytest.mark.parametrize(
    ("content", "language"),
    [
        (SERVICE, kinds.TOSCA),
        (TEMPLATE, kinds.HOT),
        ("AWSTemplateFormatVersion: 2010-09-09\n", kinds.HOT),
        (f"description: x\n{SERVICE}", kinds.TOSCA),
        (f"{TEMPLATE}{SERVICE}", kinds.HOT),
        (f'{{"{SERVICE.replace(": ", chr(34) + ": ")}', kinds.TOSCA),
        ("topology_template: {}\n", kinds.TOSCA),
        ("resources: {}\n", kinds.HOT),
        ("text\n", kinds.HOT),
    ],
)
def test_language_is_that_of_the_version_or_the_sections(
    content: str, language: str, tmp_path: Path
) -> None:
    """The first version in a text decides; without any, a section does; else it is HOT."""
    path = tmp_path / "file.yaml"
    path.write_text(content)
    assert kinds.language_of(str(path)) == language
    assert not kinds.is_packed(str(path))


def test_archives_are_known_by_their_content(tmp_path: Path) -> None:
    """An archive without an ending is one, and a folder is a service."""
    with zipfile.ZipFile(tmp_path / "bundle", "w") as archive:
        archive.writestr("service.yaml", SERVICE)
    for name in (tmp_path / "bundle", tmp_path):
        assert kinds.is_packed(str(name))
        assert kinds.language_of(str(name)) == kinds.TOSCA
