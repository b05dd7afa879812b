"""The settings learned from the metadata, which are newer than those that the machine was created with.

They are kept once they have been seen to work, together with a digest of the machine's own settings. If the machine's
own settings have changed since, someone has changed them on purpose, and they take precedence.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable
from pathlib import Path

from heat_config_agent.settings import layers
from heat_config_agent.settings.layers import Layer
from heat_config_agent.settings.schema import TRANSPORTS
from heat_config_agent.sources import transports
from heat_config_agent.sources.transports import Transport
from heat_config_hooks import files
from heat_config_hooks.values import dataclass

FILE = "learned.json"


@dataclass(frozen=True)
class Learned:
    """Settings from the metadata that have been seen to work."""

    layer: Layer
    under: str
    """The `digest` of the machine's own settings at that time."""
    teacher: Transport | None = None
    """The live transport that they came from, if any: it will also say if Heat moves the metadata again."""


def digest(layers: Iterable[Layer]) -> str:
    """Return a digest of the settings of transports in these layers."""
    sections = [
        {name: layer.sections[name] for name in TRANSPORTS if name in layer.sections}
        for layer in layers
    ]
    sections = [named for named in sections if named]
    return hashlib.sha256(json.dumps(sections, sort_keys=True).encode()).hexdigest()


def load(state: Path, *, change: bool = True) -> tuple[Learned | None, str]:
    """Return the learned settings, or None, and the problem with their file, or empty text.

    With `change`, a damaged file is set aside.
    """
    path = state / FILE
    try:
        content = json.loads(files.read(path))
        layer = layers.metadata(content, "learned from the metadata")
        taught = layers.metadata(
            {"os-collect-config": content.get("teacher")}, layer.origin
        )
        teachers = transports.level(taught).transports
        return Learned(
            layer, str(content["under"]), teachers[0] if teachers else None
        ), ""
    except FileNotFoundError:
        return None, ""
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        RecursionError,
    ) as error:
        why = error.strerror if isinstance(error, OSError) else "it is damaged"
        if not change:
            return None, f"cannot read {path}: {why}"
        aside = path.with_name(f"{FILE}.corrupt-{time.time_ns()}")
        try:
            path.rename(aside)
        except OSError as other:
            return None, f"cannot read {path}, nor set it aside: {other.strerror}"
        return None, f"cannot read {path}: {why}; it is set aside as {aside.name}"


def save(state: Path, layer: Layer, under: str, teacher: Transport | None) -> Learned:
    """Write settings from the metadata to disk, and return them as learned. Raises OSError."""
    sections = {name: dict(values) for name, values in layer.sections.items()}
    content = {**sections.pop("agent", {}), **sections}
    taught = {teacher.name: dict(teacher.values)} if teacher else None
    text = json.dumps(
        {"os-collect-config": content, "under": under, "teacher": taught}, indent=1
    )
    files.replace(state / FILE, text.encode(), durable=True)
    return Learned(Layer("learned from the metadata", layer.sections), under, teacher)
