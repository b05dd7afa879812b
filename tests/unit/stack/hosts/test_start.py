"""A session on a host begins quickly: there is one for each host and command."""

from __future__ import annotations

import subprocess
import sys


def test_session_loads_no_stack() -> None:
    """Neither definitions nor the records of stacks are loaded on a host, which has none."""
    code = "import sys, heat_config_stack.hosts.far_side; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    loaded = {
        name for name in done.stdout.split() if name.startswith("heat_config_stack.")
    }
    assert {name.split(".")[1] for name in loaded} == {"hosts"}
