"""What the metadata has taught: settings and credentials newer than those that the machine was made with.

They are kept once they have been seen to work, with a digest of what the machine itself said then: if that has changed
since, somebody wants something else, and it goes first.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable
from pathlib import Path

from heat_config_agent import configuration, transports
from heat_config_agent.configuration import TRANSPORTS, Layer
from heat_config_agent.transports import Way
from heat_config_hooks import files
from heat_config_hooks.values import dataclass

FILE = "learned.json"


@dataclass(frozen=True)
class Learned:
    """What was learned, and when the machine's own settings were what."""

    layer: Layer
    under: str
    teacher: Way | None = None
    """The live way by which it was said, where it was: it can say what comes after it, too."""


def digest(layers: Iterable[Layer]) -> str:
    """Return what changes when something changes that the layers say of transports."""
    said = [{name: layer.sections[name] for name in TRANSPORTS if name in layer.sections} for layer in layers]
    said = [each for each in said if each]
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def load(state: Path, *, change: bool = True) -> tuple[Learned | None, str]:
    """Return what was learned, if anything; and what is wrong with the file.

    It is then set aside, but without `change` nothing is.
    """
    path = state / FILE
    try:
        content = json.loads(files.read(path))
        layer = configuration.metadata(content, "learned from the metadata")
        taught = configuration.metadata({"os-collect-config": content.get("teacher")}, layer.origin)
        ways = transports.level(taught).ways
        return Learned(layer, str(content["under"]), ways[0] if ways else None), ""
    except FileNotFoundError:
        return None, ""
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not what the agent has written"
        if not change:
            return None, f"cannot read {path}: {why}"
        aside = path.with_name(f"{FILE}.corrupt-{time.time_ns()}")
        try:
            path.rename(aside)
        except OSError as other:
            return None, f"cannot read {path}, nor set it aside: {other.strerror}"
        return None, f"cannot read {path}: {why}; it is set aside as {aside.name}"


def save(state: Path, layer: Layer, under: str, teacher: Way | None) -> Learned:
    """Keep what a document said, which works. Raises OSError."""
    sections = {name: dict(values) for name, values in layer.sections.items()}
    said = {**sections.pop("agent", {}), **sections}
    taught = {teacher.transport: dict(teacher.values)} if teacher else None
    text = json.dumps({"os-collect-config": said, "under": under, "teacher": taught}, indent=1)
    files.replace(state / FILE, text.encode(), durable=True)
    return Learned(Layer("learned from the metadata", layer.sections), under, teacher)
