"""Whether this machine can do its work, and if not, what to do: one finding for each thing that is looked at.

`machine` looks at what is on it, `network` at the servers that it needs, `asking` asks each source as the agent would.
Nothing is changed, and no message of a queue is taken from anybody.
"""

from __future__ import annotations

import enum
import os
from pathlib import Path

from heat_config_hooks.values import dataclass


class Verdict(str, enum.Enum):
    """What came of a check."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True)
class Finding:
    """What came of a check, for people."""

    verdict: Verdict
    check: str
    """What was looked at, in a word or two."""
    says: str
    """How it is, or what is wrong."""
    todo: str = ""
    """What to do about it."""


def closed(state: Path) -> bool:
    """Whether we may not look into a state directory: it is root's alone."""
    return os.path.lexists(state) and not os.access(state, os.R_OK | os.X_OK)


def ok(check: str, says: str) -> Finding:
    """Return that all is well."""
    return Finding(Verdict.OK, check, says)


def warning(check: str, says: str, todo: str = "") -> Finding:
    """Return what should be looked at, but keeps nobody from working."""
    return Finding(Verdict.WARNING, check, says, todo)


def failed(check: str, says: str, todo: str = "") -> Finding:
    """Return what has to be mended."""
    return Finding(Verdict.FAILED, check, says, todo)
