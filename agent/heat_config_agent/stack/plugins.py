"""Resources that people bring along: Python modules in `plugin_dirs`, written to Heat's plug-in guide.

A module says with `resource_mapping()` which types it has. What is under a folder `tests` is not loaded. One that
cannot be loaded, for something that it imports is missing, takes nothing else with it: it is said which, and why.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

from heat_config_agent.stack.facade import heat
from heat_config_agent.stack.resource import Resource

TESTS = "tests"


@dataclass
class Plugins:
    """What was found."""

    types: dict[str, type[Resource]] = field(default_factory=dict)
    """The class of each type; of one that several modules have, that of the last."""
    disabled: list[str] = field(default_factory=list)
    """A sentence for each module that is not used."""


def load(directories: Iterable[Path]) -> Plugins:
    """Load all plug-ins. Whoever can write to one decides what we run: so only root and we may."""
    found = Plugins()
    for directory in directories:
        for path in _modules(directory):
            if not all(_is_ours(each) for each in (directory, path.parent, path)):
                found.disabled.append(f"{path} is not used: others may write to it, or to the folder that it is in")
                continue
            try:
                module = _loaded(path)
                found.types.update(_types(module))
            except ImportError as error:
                found.disabled.append(f"{path} is not used: it needs {error.name or error}, which is not installed")
            except Exception as error:  # noqa: BLE001  # whatever it does wrong is its own business
                found.disabled.append(f"{path} is not used: {type(error).__name__}: {error}")
    return found


def _modules(directory: Path) -> Iterator[Path]:
    for path in sorted(directory.rglob("*.py")):
        parts = path.relative_to(directory).parts
        if TESTS not in parts and not any(each.startswith(".") for each in parts):
            yield path


def _is_ours(path: Path) -> bool:
    status = path.stat()
    return status.st_uid in (0, os.geteuid()) and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _loaded(path: Path) -> ModuleType:
    digest = hashlib.sha256(str(path.absolute()).encode()).hexdigest()[:12]
    name = f"heat_config_agent_plugin_{path.stem}_{digest}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no module", name=path.name)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        with heat():
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _types(module: ModuleType) -> dict[str, type[Resource]]:
    mapping = getattr(module, "resource_mapping", None)
    available = getattr(module, "available_resource_mapping", mapping)  # where it says itself what it can do
    made = available() if available is not None else {}
    for name, each in made.items():
        if not (isinstance(each, type) and issubclass(each, Resource)):
            raise TypeError(f"{name} is no class that is derived of heat.engine.resource.Resource")
    return dict(made)
