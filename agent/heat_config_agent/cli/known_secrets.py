"""The secrets that this machine knows, to search for them in text before it leaves the machine."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from heat_config_agent.masking import redaction
from heat_config_agent.masking.names import TELLING, signatures
from heat_config_agent.masking.secrets import Secrets
from heat_config_agent.model.deployment import Deployment, Input
from heat_config_agent.model.errors import StateError
from heat_config_agent.settings.effective import Settings
from heat_config_agent.state import journal
from heat_config_hooks import files
from heat_config_hooks.protocol import CREDENTIALS

_PAIRS = ("environment", "parameters")
"""Settings whose values are pairs of the form NAME=VALUE."""

_LARGEST = 64 * 1024 * 1024
"""The largest file in bytes that is read."""


class KnownSecrets:
    """The secrets of the settings, the documents of sources, and the deployments in some state directories."""

    def __init__(self, settings: Settings, places: Iterable[Path]) -> None:
        """Collect them; `places` are state directories. Secrets of a run have to be added, see `add`."""
        self._values: list[object] = [
            text for layer in settings.layers for text in _secret_texts(dict(layer.sections), "")
        ]
        for place in places:
            for path in (place / "learned.json", *_json_files(place / "documents"), *_json_files(place / "deployed")):
                self._values += _secret_texts(_content(path), "")
            with contextlib.suppress(StateError):  # `status` says so in the bundle
                for entry in journal.read(place).values():
                    self._values += _secret_texts(entry.document, "")

    def add(self, deployment: Deployment) -> None:
        """Add the secrets of a deployment, whose references to secrets have been replaced by the secrets."""
        for item in redaction.secret_inputs(deployment):
            if item.name in CREDENTIALS and not item.hidden:
                self._values += _secret_texts(item.value, item.name)
            else:
                self._values.append(item.value)

    def searches(self) -> tuple[Secrets, Secrets]:
        """Return the search for secrets that are surely meant where a text contains them, and for all the others.

        The others are short, or plain words: they may be in a text by chance.
        """
        every = redaction.search([Input(name="any", value=self._values)])
        texts = [text for value in self._values for text in _texts(value) if redaction.is_distinctive(text)]
        return redaction.search([Input(name="any", value=texts)]), every


def _secret_texts(value: object, name: str) -> Iterator[str]:
    """Yield the secrets in a JSON value: of inputs, of keys whose names tell that, and in URLs."""
    if isinstance(value, Mapping):
        own = value.get("name")
        if isinstance(own, str) and (value.get("hidden") or value.get("no_echo")):
            yield from _texts([value.get("value"), value.get("default")])
        for key, inner in value.items():
            yield from _secret_texts(inner, own if key in ("value", "default") and isinstance(own, str) else str(key))
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _secret_texts(inner, name)
    elif isinstance(value, str):
        before, sign, after = value.partition("=")
        if re.search(TELLING, name):
            yield value
        elif sign and name in _PAIRS and re.search(TELLING, before):
            yield after
        if "://" in value:
            yield from signatures(value)
            with contextlib.suppress(ValueError):
                yield urlsplit(value).password or ""


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from _texts(list(value.values()))
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)


def _json_files(folder: Path) -> list[Path]:
    try:
        return sorted(folder.glob("*.json"))
    except OSError:
        return []


def _content(path: Path) -> object:
    """Return the JSON value of a file; None if there is none."""
    try:
        if path.stat().st_size > _LARGEST:
            return None
        return json.loads(files.read(path))
    except (OSError, ValueError, RecursionError):
        return None
