"""Modules and classes stay small enough to be read at once."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULES = [path for folder in ("agent", "hooks") for path in sorted((ROOT / folder).rglob("*.py"))]

MODULE_LINES, CLASS_LINES = 400, 300


def oversized(text: str) -> Iterator[str]:
    """Yield what in a module is too large: the module itself, or one of its classes."""
    if len(text.splitlines()) > MODULE_LINES:
        yield "the module"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef) and (node.end_lineno or 0) - node.lineno >= CLASS_LINES:
            yield node.name


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_modules_and_classes_are_small(path: Path) -> None:
    """No module is over 400 lines, and no class over 300."""
    assert [*oversized(path.read_text())] == []


def test_large_ones_are_found() -> None:
    """The check itself."""
    assert [*oversized("x = 1\n" * 401)] == ["the module"]
    assert [*oversized("class Long:\n" + "    x = 1\n" * 300)] == ["Long"]
    assert [*oversized("class Short:\n" + "    x = 1\n" * 299)] == []
