"""The commands by which a follower carries revisions out begin loaded; those of a test with `new_process` do not."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from support import loaded


@pytest.fixture(autouse=True)
def _loaded(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand in for `subprocess.run` in the follower, which starts Python with nothing but our commands."""
    if request.node.get_closest_marker("new_process") is None:
        monkeypatch.setattr("subprocess.run", _run)


_started = subprocess.run


def _run(
    words: Sequence[str], *, env: dict[str, str] | None = None, **options: Any
) -> subprocess.CompletedProcess[Any]:
    """Run a command loaded, if it is one of ours; with the output where `subprocess.run` would have it."""
    if list(words[:3]) != [sys.executable, "-I", "-c"]:
        return _started(words, env=env, **options)
    environment = {**os.environ, **(env or {})}
    code, out, err = loaded.run("-c", words[3:], environment, Path(options["cwd"]), 60)
    if isinstance(options.get("stdout"), int):
        os.write(options["stdout"], (out + err).encode())
    is_text = options.get("text", False)
    printed = [each if is_text else each.encode() for each in (out, err)]
    return subprocess.CompletedProcess(list(words), code, *printed)
