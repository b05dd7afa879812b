"""The settings of a source."""

from __future__ import annotations

from collections.abc import Mapping

from heat_config_hooks.values import dataclass


@dataclass(frozen=True, kw_only=True)
class Origin:
    """The settings of a source."""

    url: str
    ref: str
    seconds: float
    """The timeout of a request."""
    size: int
    """The largest size of a revision in bytes."""
    user: str
    token: str
    ca_file: str | None
    ssh_config: str = ""
    """The configuration file of ssh; empty for the usual one."""
    environment: Mapping[str, str]
    """The variables for the programs that fetch."""
