"""The stacks of a state directory: a folder each, by name."""

from __future__ import annotations

import re
from pathlib import Path

from heat_config_agent.errors import UsageError
from heat_config_agent.stack.records import StackRecord
from heat_config_agent.stack.store import FILE, Store

FOLDER = "stacks"
_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9_.-]{0,254}")


def folder(state: Path, name: str) -> Path:
    """Return the folder of a stack, whether it is there or not. Raises UsageError where there can be none such."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"a stack cannot have the name {name!r}",
            hint="it begins with a letter, and has at most 255 letters, digits, '_', '-' and '.'",
        )
    return state / FOLDER / name


def names(state: Path) -> list[str]:
    """Return the names of all stacks, in their order."""
    try:
        return sorted(each.name for each in (state / FOLDER).iterdir() if (each / FILE).is_file())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise UsageError(f"cannot read {state / FOLDER}: {error.strerror}") from error


def record(state: Path, name: str) -> StackRecord:
    """Return what is kept of a stack, also while another process works on it. Raises UsageError, StateError."""
    store = Store(folder(state, name), write=False)
    found = next((each for each in store.stacks.values() if not each.owner), None)
    if found is None:
        there = ", ".join(names(state)) or "none"
        raise UsageError(f"there is no stack {name}", hint=f"there is {there}" if there == "none" else there)
    return found
