"""The nodes of a graph."""

from __future__ import annotations

from heat_config_hooks.values import dataclass


@dataclass(frozen=True)
class Node:
    """A resource in the graph."""

    name: str
    type: str
    needs: tuple[str, ...]
    status: str = ""
