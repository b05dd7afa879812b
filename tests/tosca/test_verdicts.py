"""Documents with verdicts: most of them with one mistake, and the specification's own templates."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from heat_config_stack.tosca.checks.checker import Checker
from support import together
from tosca.verdicts import VERSIONS, difference

CHECKER = Checker()
"""All tests share it, as all files of one command do."""


def test_documents_get_their_verdicts(
    documents: dict[str, tuple[Path, dict[str, Any]]],
) -> None:
    """The mistakes of each have their codes and lines, and nothing else is wrong with it."""
    together.tried(documents, assert_verdict)


def assert_verdict(document: tuple[Path, dict[str, Any]]) -> None:
    """Check a document."""
    folder, verdict = document
    assert difference(verdict, CHECKER.check(str(folder / verdict["file"]))) == ""


@pytest.mark.parametrize("version", VERSIONS)
def test_a_valid_document_is_valid_in_every_version(
    valid_document: tuple[Path, dict[str, Any]], version: str, tmp_path: Path
) -> None:
    """A template works whichever version it names."""
    folder, verdict = valid_document
    path = folder / verdict["file"]
    named = re.sub(
        r"tosca_simple_yaml_1_\d",
        f"tosca_simple_yaml_{version}",
        path.read_text(),
        count=1,
    )
    for other in path.parent.iterdir():
        if other.is_dir() and other.name not in {"spoilt", "as-printed"}:
            shutil.copytree(other, tmp_path / other.name)
    (tmp_path / path.name).write_text(named)
    found = CHECKER.check(str(tmp_path / path.name))
    assert (found.mistakes, found.is_readable) == ([], True)


def test_a_wrong_verdict_is_noticed() -> None:
    """The comparison itself."""
    found = CHECKER.check(str(Path(__file__).parent / "documents" / "circle.yaml"))
    assert difference({"valid": True}, found)
    assert difference({"valid": False, "wants": {"code": "circle", "line": 1}}, found)
    assert difference(
        {"valid": False, "mistakes": [{"code": "yaml", "line": 21}]}, found
    )
    assert difference({"valid": False, "open": ["open-input"]}, found)
    assert (
        difference({"valid": False, "wants": {"code": "circle", "line": 21}}, found)
        == ""
    )
