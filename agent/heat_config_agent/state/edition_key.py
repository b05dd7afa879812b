"""The secret key of a state directory, with which deployments without an id get theirs."""

from __future__ import annotations

import os
from pathlib import Path

from heat_config_agent.model.errors import StateError
from heat_config_hooks import files

FILE = "edition-key"

_BYTES = 32
_LARGEST = 1024 * 1024


def read(state: Path, *, make: bool) -> bytes:
    """Return the key of a state directory, whose lock the caller holds.

    A missing or damaged one is replaced if `make` is true; otherwise the key is for this call alone. Raises StateError.
    """
    path = state / FILE
    try:
        try:
            key = files.read(path, _LARGEST)
        except FileNotFoundError:
            key = b""
        if len(key) != _BYTES:
            key = os.urandom(_BYTES)
            if make:
                files.replace(path, key, durable=True)
    except OSError as error:
        raise StateError(f"cannot use the key {path}: {error.strerror}") from error
    return key
