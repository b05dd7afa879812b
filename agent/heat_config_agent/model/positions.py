"""Positions: the path of a value in a document, and the place of its text in a file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

Json: TypeAlias = Any
"""A JSON value: None, bool, int, float, str, a list of JSON values, or a dict from str to JSON values."""

Path: TypeAlias = tuple[str | int, ...]
"""A position in a document or a template: `("resources", "r", "properties", "inputs", 0)`."""


def dotted(path: Path) -> str:
    """Return a path as text, as Heat writes it: `resources.r.properties.inputs[0]`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


@dataclass(frozen=True, slots=True)
class Place:
    """A position in a text; lines and columns count from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"
