"""The wheel of this checkout, built once for the sources as they are."""

from __future__ import annotations

import fcntl
import shutil
from pathlib import Path

import pytest

from package.built import PLACE, ROOT, digest, make


def wheel() -> Path:
    """Return the wheel; twine has found nothing wrong with it, with the other wheel, and with the sources."""
    if not (ROOT / ".venv/dist/bin/twine").exists():
        pytest.skip(
            "twine is not installed: «tests/install-tools dist» (make test-all does it)"
        )
    folder = PLACE / "dist"
    folder.mkdir(parents=True, exist_ok=True)
    stamp = folder / f"{digest()}.built"
    with (PLACE / "dist.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists():
            shutil.rmtree(folder)
            assert make("dist", folder).count("PASSED") == 3
            stamp.touch()
    [path] = folder.glob("heat_config_agent-*.whl")
    return path
