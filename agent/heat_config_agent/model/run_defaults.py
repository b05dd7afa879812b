"""The way in which runs are made whose deployments do not say it."""

from __future__ import annotations

from collections.abc import Mapping

from heat_config_hooks.values import dataclass, field


@dataclass(frozen=True, kw_only=True)
class RunDefaults:
    """The user and the isolation of runs whose deployments do not name them."""

    user: str = ""
    """The user as whom they run; empty for the agent's own."""
    isolation: Mapping[str, str] = field(default_factory=dict)
    """The levels of `isolation.LEVELS` by which they are isolated."""
