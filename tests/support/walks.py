"""Looks at folders that others change meanwhile."""

from __future__ import annotations

import os
from pathlib import Path


def below(folder: Path) -> list[Path]:
    """Return everything below a folder, in order. Unlike Path.rglob, os.walk passes over what is removed meanwhile."""
    return sorted(
        Path(parent, name)
        for parent, folders, names in os.walk(folder)
        for name in (*folders, *names)
    )
