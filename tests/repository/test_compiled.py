"""Test modules are compiled before the processes of a run look for them."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from support import compiled

TEST = """\
import pathlib

def test_some():
    pathlib.Path(__file__).with_suffix(".ran").touch()
"""


@pytest.mark.slow
def test_modules_without_a_compiled_form_get_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their tests do not run, and a module with a mistake is left to the run. A change makes the form an old one."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", None)
    for name in ("PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX"):
        monkeypatch.delenv(name, raising=False)
    modules = [
        tmp_path / f"test_{number}.py"
        for number in range(compiled.MANY)  # as few as several processes are worth
    ]
    for each in modules:
        each.write_text(TEST)
    (tmp_path / "test_wrong.py").write_text("assert False, 'not to be imported'\n")
    run = SimpleNamespace(
        option=SimpleNamespace(numprocesses=2), args=[str(tmp_path)], rootpath=tmp_path
    )
    assert not any(map(compiled.is_compiled, modules))
    compiled.have_compiled(cast("pytest.Config", run))
    assert all(map(compiled.is_compiled, modules))
    assert not list(tmp_path.glob("*.ran"))
    modules[0].write_text(TEST.replace("some", "another"))
    assert not compiled.is_compiled(modules[0])
    assert compiled.is_compiled(modules[1])
