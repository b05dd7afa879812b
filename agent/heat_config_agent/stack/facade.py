"""What a plug-in that was written for Heat imports, where Heat is not installed: our own modules under Heat's names.

    from heat.common.i18n import _
    from heat.engine import attributes, constraints, properties, resource, support

They are there only while plug-ins are loaded; a plug-in keeps what it has imported. Anything else of Heat is missing,
and with it the plug-in that imports it.
"""

from __future__ import annotations

import importlib.util
import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from heat_config_agent.stack import attributes, constraints, exception, properties, resource, support

_LOCK = threading.Lock()


def _named(name: str, **members: Any) -> ModuleType:
    made = ModuleType(name)
    made.__dict__.update(members)
    return made


def _same(text: str) -> str:
    return text


def _modules() -> dict[str, ModuleType]:
    """Return what stands for Heat, and for what of OpenStack's libraries plug-ins use for a log."""
    engine = {
        "attributes": attributes,
        "constraints": constraints,
        "properties": properties,
        "resource": resource,
        "support": support,
    }
    common = {
        "exception": exception,
        "i18n": _named("heat.common.i18n", _=_same, _LE=_same, _LI=_same, _LW=_same),
    }
    found = {
        "heat": _named("heat", __path__=[]),
        "heat.engine": _named("heat.engine", __path__=[], **engine),
        "heat.common": _named("heat.common", __path__=[], **common),
        **{f"heat.engine.{name}": module for name, module in engine.items()},
        **{f"heat.common.{name}": module for name, module in common.items()},
    }
    found["heat"].__dict__.update(engine=found["heat.engine"], common=found["heat.common"])
    if importlib.util.find_spec("oslo_log") is None:
        log = _named("oslo_log.log", getLogger=logging.getLogger)
        found |= {"oslo_log": _named("oslo_log", __path__=[], log=log), "oslo_log.log": log}
    return found


@contextmanager
def heat() -> Iterator[None]:
    """Have Heat's names lead to our modules, even where Heat is installed: its resources are for its engine alone."""
    with _LOCK:
        ours = _modules()
        hidden = {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] == "heat"}
        sys.modules.update(ours)
        try:
            yield
        finally:
            for name in [name for name in sys.modules if name in ours or name.partition(".")[0] == "heat"]:
                del sys.modules[name]
            sys.modules.update(hidden)
