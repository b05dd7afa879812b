"""The option that names another folder of cases."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support import together

CASES = Path(__file__).parent / "cases"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take a folder of cases from elsewhere."""
    parser.addoption(
        "--hot-cases",
        metavar="DIR",
        type=Path,
        help="a folder of HOT cases, instead of those here",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make a test of some cases, until all have one."""
    if "hot_cases" in metafunc.fixturenames:
        folder = metafunc.config.getoption("--hot-cases", None) or CASES
        paths = sorted(folder.glob("*.yaml"))
        assert paths, f"there are no cases in {folder}"
        metafunc.parametrize(
            "hot_cases", together.parts({path.stem: path for path in paths})
        )


@pytest.fixture(autouse=True)
def _unflushed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stacks that a test carries in its process need not outlive a power cut: it would wait for the disk."""
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, lambda _descriptor: None)
