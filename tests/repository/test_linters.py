"""The linters are tests, so that one command says whether all is well."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "command",
    [
        pytest.param(["ruff", "check"], id="ruff-check"),
        pytest.param(["ruff", "format", "--check"], id="ruff-format"),
        pytest.param(["mypy"], id="mypy"),
    ],
)
def test_the_code_is_clean(command: list[str]) -> None:
    """Nothing is found by ruff, nor by mypy at its strictest."""
    program = Path(sys.executable).parent / command[0]
    done = subprocess.run([program, *command[1:]], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
