"""The test modules are compiled once for all processes of a run, not in each of them.

pytest rewrites the asserts of a module before it compiles it, and keeps what comes of it in `__pycache__`. Processes
that start together find nothing there in a fresh clone, so each would compile all modules: a minute of processor time.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

_TESTS = Path(__file__).parents[1]

MANY = 40
"""Modules from which on other processes compile them; each may compile fewer for itself in the same time."""

_HEADER = 16
"""Bytes at the beginning of a compiled module; the last eight have the time and the size of its source."""


def have_compiled(config: pytest.Config) -> None:
    """Compile the test modules that have changed, if several processes are going to collect them."""
    several = getattr(config.option, "numprocesses", None)
    if not several or sys.dont_write_bytecode or sys.pycache_prefix:
        return
    left = [path for path in _modules(config.args) if not is_compiled(path)]
    if len(left) < MANY:
        return
    number = os.cpu_count() or 1
    environment = {
        name: each for name, each in os.environ.items() if name != "PYTEST_ADDOPTS"
    }
    places = [str(_TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment["PYTHONPATH"] = os.pathsep.join(places)
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "pytest", "--collect-only", "-qq"]
            + ["-p", "support.compiled", "-p", "no:cacheprovider"]
            + [str(path) for path in left[first::number]],
            cwd=config.rootpath,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for first in range(number)
    ]
    for process in started:
        # a module that cannot be compiled is reported by the run itself
        process.wait()


def _modules(arguments: Iterable[str]) -> list[Path]:
    """Return the test modules that a run was told to collect."""
    places = [Path(each.partition("::")[0]) for each in arguments]
    return sorted(
        {
            path
            for place in places
            for path in (place.rglob("test_*.py") if place.is_dir() else [place])
            if path.suffix == ".py"
        }
    )


def is_compiled(module: Path) -> bool:
    """Return whether there is a compiled form of the module as it is now."""
    place = module.parent / "__pycache__"
    name = f"{module.stem}.{sys.implementation.cache_tag}-pytest-{pytest.__version__}"
    try:
        with open(place / f"{name}.pyc", "rb") as file:
            header = file.read(_HEADER)
        found = module.stat()
    except OSError:
        return False
    source = int(found.st_mtime), found.st_size
    return header[8:] == b"".join(
        (each & 0xFFFFFFFF).to_bytes(4, "little") for each in source
    )


# In the processes that compile: pytest with this module as a plug-in.


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem() -> list[pytest.Item]:
    """Look for no tests in the modules."""
    return []
