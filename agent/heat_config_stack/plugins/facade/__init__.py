"""Our own modules under Heat's names, for plug-ins that import Heat where Heat is not installed.

A module is made when a plug-in first imports it. The names exist only while an import of a plug-in runs; a plug-in
keeps the modules that it has imported.

| module | content |
|---|---|
| `common`, `exceptions` | `heat.common` |
| `engine` | `heat.engine`, `heat.rpc`: the small modules, and the list of all |
| `resource`, `stack_resource`, `signal_responder` | the base classes of resources |
| `template`, `groups`, `scheduler` | what plug-ins with a child stack use next to them |
| `libraries`, `settings` | OpenStack's libraries, for those that are not installed |
| `absent` | parts that can be imported but not used, because they need Heat's engine or a cloud |

A plug-in that imports anything else of Heat is skipped.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType

from heat_config_stack.plugins.facade import absent, common, engine, libraries
from heat_config_stack.plugins.facade.libraries import named

PACKAGES = frozenset({"heat", *libraries.PACKAGES})
"""The packages that have names here."""

_LOCK = threading.RLock()

_made: dict[str, ModuleType] = {}
"""The modules that plug-ins have imported so far, by name."""


@functools.cache
def _makers() -> dict[str, Callable[[], ModuleType]]:
    return {**common.MODULES, **engine.MODULES, **libraries.modules()}


@functools.cache
def _parents() -> frozenset[str]:
    """Return the names of the packages that have modules."""
    names = [
        *_makers(),
        *absent.MODULES,
        *(f"{package}.x" for package in absent.PACKAGES),
    ]
    parts = [name.split(".") for name in names]
    return frozenset(
        ".".join(each[:end]) for each in parts for end in range(1, len(each))
    )


def stands_for(name: str) -> bool:
    """Return whether one of our modules stands for a module of Heat, or for one of a library."""
    return name in _makers()


def module(name: str) -> ModuleType:
    """Return the module of ours that stands for a module."""
    with _LOCK:
        for end in range(1, name.count(".") + 2):
            _provide(".".join(name.split(".")[:end]))
        return _made[name]


def _provide(name: str) -> None:
    """Make a module, if there is one of that name, and the packages that contain it."""
    parent, _, own = name.rpartition(".")
    if name in _made or (parent and parent not in _parents()):
        return
    if name in _makers():
        module = _makers()[name]()
    elif name in _parents():
        module = named(name, __path__=[])
    elif absent.is_absent(name):
        module = absent.module(name)
    else:
        return
    if parent:
        _provide(parent)
        setattr(_made[parent], own, module)
    _made[name] = module


@contextmanager
def heat(name: str, fromlist: Sequence[str] = ()) -> Iterator[None]:
    """Make Heat's names lead to our modules for one import, even if Heat is installed.

    Heat's own modules would work only in its own engine.
    """
    with _LOCK:
        for end in range(1, name.count(".") + 2):
            _provide(".".join(name.split(".")[:end]))
        for each in fromlist:
            _provide(f"{name}.{each}")
        hidden = {
            each: sys.modules.pop(each)
            for each in list(sys.modules)
            if each.partition(".")[0] == "heat"
        }
        sys.modules.update(_made)
        try:
            yield
        finally:
            for each in [
                each
                for each in sys.modules
                if each in _made or each.partition(".")[0] == "heat"
            ]:
                del sys.modules[each]
            sys.modules.update(hidden)
