"""The deployments in documents that a line names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from heat_config_agent.cli.completion.line import Offer
from heat_config_hooks import strict_yaml
from heat_config_hooks.files import take


def deployments(paths: Iterable[Path]) -> Iterator[Offer]:
    """Yield the deployments of documents by their names; an unreadable document has none."""
    for path in paths:
        for entry in _entries(path):
            name = entry.get("name") or entry.get("id")
            if isinstance(name, str):
                yield Offer(name, str(entry.get("group") or ""))


def _entries(path: Path) -> list[dict[str, object]]:
    try:
        content = strict_yaml.loads(take(str(path)).decode())
    except (OSError, ValueError, RecursionError):
        return []
    if isinstance(content, dict):
        content = content.get("deployments")
    listed = content if isinstance(content, list) else []
    return [entry for entry in listed if isinstance(entry, dict)]
