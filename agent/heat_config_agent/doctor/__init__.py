"""Checks of whether this machine can carry out deployments. Each check yields findings, with what to do.

`machine` checks the machine itself, `network` the servers that it needs, and `sources` asks each source as the agent
would. Nothing is changed, and no message is taken from a queue.
"""

from __future__ import annotations

import enum
import os
from pathlib import Path

from heat_config_hooks.values import dataclass


class Verdict(str, enum.Enum):
    """The outcome of a check."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True)
class Finding:
    """The outcome of a check, for people."""

    verdict: Verdict
    check: str
    """The name of the check: one word, or a source."""
    text: str
    """The state of what was checked, or the problem."""
    todo: str = ""
    """The remedy for the problem."""
    brief: str = ""
    """A few words that stand for the text where checks without a problem are only counted."""


def closed(state: Path) -> bool:
    """Return whether a state directory exists that this user may not read; usually only root may."""
    return os.path.lexists(state) and not os.access(state, os.R_OK | os.X_OK)


def ok(check: str, text: str, brief: str = "") -> Finding:
    """Return a finding without a problem."""
    return Finding(Verdict.OK, check, text, brief=brief)


def warning(check: str, text: str, todo: str = "") -> Finding:
    """Return a finding that deserves attention, although the agent can work."""
    return Finding(Verdict.WARNING, check, text, todo)


def failed(check: str, text: str, todo: str = "") -> Finding:
    """Return a finding that keeps the agent from working."""
    return Finding(Verdict.FAILED, check, text, todo)
