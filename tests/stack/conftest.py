"""A stack on this machine, and where it keeps everything."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stack.working import Working


@pytest.fixture
def working(tmp_path: Path) -> Iterator[Working]:
    """Return a folder in which a stack can be worked on."""
    found = Working(tmp_path)
    yield found
    found.close()
