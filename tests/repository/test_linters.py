"""The linters are tests, so that one command says whether all is well."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.apart

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "command",
    [
        pytest.param(["ruff", "check"], id="ruff-check"),
        pytest.param(["ruff", "format", "--check"], id="ruff-format"),
        # `make lint` runs it, too.
        pytest.param(
            ["mypy"], id="mypy", marks=[pytest.mark.slow, pytest.mark.takes(150)]
        ),
    ],
)
def test_the_code_is_clean(command: list[str]) -> None:
    """Nothing is found by ruff, nor by mypy at its strictest."""
    program = Path(sys.executable).parent / command[0]
    done = subprocess.run(
        [program, *command[1:]], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_reference_leads_out_of_the_project() -> None:
    """A rule has the number of its section in a specification; «(R12)» would be a number of someone's own notes."""
    own = re.compile(r"\s\([A-Z][0-9]{1,2}(?:, [A-Z][0-9]{1,2})*\)")
    assert own.search("the type of the relationship (R12)")
    for path in [
        *ROOT.glob("agent/**/*.py"),
        *ROOT.glob("hooks/**/*.py"),
        *ROOT.glob("docs/**/*.md"),
    ]:
        assert not own.search(path.read_text()), path
