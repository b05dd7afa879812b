"""The versions of Python that the project supports are the same wherever they are named."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

SUPPORTED = re.findall(
    r'"Programming Language :: Python :: (3\.\d+)"',
    (ROOT / "pyproject.toml").read_text(),
)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("noxfile.py", r"^PYTHONS = \((.*)\)$"),
        (".github/workflows/ci.yml", r"^ +python: \[(.*)\]$"),
    ],
)
def test_every_supported_python_is_tested(name: str, line: str) -> None:
    """By nox on a developer's machine, and by the CI at each change."""
    [named] = re.findall(line, (ROOT / name).read_text(), re.MULTILINE)
    assert re.findall(r'"(3\.\d+)"', named) == SUPPORTED


def test_the_oldest_supported_python_is_the_one_that_the_code_is_checked_for() -> None:
    """The package, mypy and ruff name it, and so does the page that says what is required."""
    text = (ROOT / "pyproject.toml").read_text()
    oldest = SUPPORTED[0]
    assert f'requires-python = ">={oldest}"' in text
    assert f'python_version = "{oldest}"' in text
    assert f'target-version = "py{oldest.replace(".", "")}"' in text
    assert f"Python {oldest} or later" in (ROOT / "docs/install.md").read_text()
