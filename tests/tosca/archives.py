"""Archives, made as tests need them."""

from __future__ import annotations

import stat
import zipfile
from collections.abc import Mapping
from pathlib import Path

META = """\
TOSCA-Meta-File-Version: 1.0
CSAR-Version: 1.1
Created-By: somebody
Entry-Definitions: definitions/main.yaml

Name: other
Content-Type: nothing
"""

MAIN = (
    "tosca_definitions_version: tosca_simple_yaml_1_2\nimports: [ types/more.yaml ]\n"
)
MORE = "tosca_definitions_version: tosca_simple_yaml_1_2\nnode_types: { App: { derived_from: tosca.nodes.Root } }\n"

GOOD = {
    "TOSCA-Metadata/TOSCA.meta": META,
    "definitions/main.yaml": MAIN,
    "definitions/types/more.yaml": MORE,
}
"""The members of an archive without mistakes."""


def packed(path: Path, members: Mapping[str, str]) -> Path:
    """Return a zip file with some members."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return path


def with_mode(path: Path, name: str, mode: int) -> Path:
    """Return an archive without mistakes but for one member with a mode, such as that of a link."""
    packed(path, GOOD)
    info = zipfile.ZipInfo(name)
    info.external_attr = (mode | 0o644) << 16
    with zipfile.ZipFile(path, "a") as file:
        file.writestr(info, "/etc/passwd")
    return path


LINK, DEVICE = stat.S_IFLNK, stat.S_IFCHR
