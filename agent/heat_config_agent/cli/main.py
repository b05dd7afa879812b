"""The entry points of `heat-config-agent` and `heat-config-apply`.

They load nothing before they know what is needed of it: that takes longer than most of what is done.
"""

from __future__ import annotations

import gc
import os
import sys

from heat_config_agent import unchanged
from heat_config_hooks import memory


def agent() -> int:
    """Run `heat-config-agent`."""
    gc.disable()  # what is loaded stays: to look through it for what can go is in vain
    from heat_config_agent.cli import agent as command  # noqa: PLC0415  # each program loads only what it is
    from heat_config_agent.cli import ending  # noqa: PLC0415

    _loaded()
    return ending.run(command.main)


def apply() -> int:
    """Run `heat-config-apply`."""
    memory.keep_no_core()
    said = unchanged.again(sys.argv[1:], os.environ) if sys.stdout is not None else None
    if said is not None and _said(said):
        return 0
    gc.disable()
    from heat_config_agent.cli import apply as command  # noqa: PLC0415
    from heat_config_agent.cli import ending  # noqa: PLC0415

    _loaded()
    return ending.run(command.main)


def _loaded() -> None:
    gc.freeze()
    gc.enable()


def _said(text: bytes) -> bool:
    """Write to standard output; return whether that could be done."""
    try:
        sys.stdout.buffer.write(text)
        sys.stdout.flush()
    except OSError:  # the reader has gone, or the disk is full: that is no business of this short way
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return False
    return True
