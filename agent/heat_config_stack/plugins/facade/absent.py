"""Parts of Heat that only Heat's own engine or a cloud can carry out: they can be imported, but not used."""

from __future__ import annotations

from types import ModuleType
from typing import Any

PACKAGES = (
    *(
        "heat.db",
        "heat.objects",
        "heat.rpc",
        "heat.engine.cfn",
        "heat.engine.clients.os",
        "heat.engine.hot",
    ),
    *("heat.engine.notification", "heat.scaling"),
)
"""The packages of Heat in which every module is such a part, unless another one stands for it."""

MODULES = frozenset(
    (
        *(
            f"heat.common.{name}"
            for name in (
                "auth_plugin",
                "auth_url",
                "context",
                "crypt",
                "endpoint_utils",
            )
        ),
        *(
            f"heat.common.{name}"
            for name in ("keystone", "messaging", "param_utils", "policy", "wsgi")
        ),
        *(
            f"heat.engine.{name}"
            for name in ("api", "check_resource", "conditions", "dependencies", "event")
        ),
        *(
            f"heat.engine.{name}"
            for name in ("lifecycle_plugin", "node_data", "parameters", "parent_rsrc")
        ),
        *(
            f"heat.engine.{name}"
            for name in ("parser", "plugin_manager", "service", "stack", "stack_lock")
        ),
        *(
            f"heat.engine.{name}"
            for name in (
                "stk_defn",
                "sync_point",
                "template_common",
                "update",
                "worker",
            )
        ),
        "heat.engine.clients.microversion_mixin",
    )
)
"""Such modules in other packages."""


class NeedsEngineError(ImportError):
    """A plug-in uses a part of Heat that this machine does not have."""

    def __init__(self, name: str) -> None:
        """Take the full name of the part."""
        super().__init__(
            f"{name} needs Heat's engine or a cloud, and this machine has neither",
            name=name,
        )


class Absent(ModuleType):
    """A module that can be imported; each use of a member that it lacks raises NeedsEngineError."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NeedsEngineError(f"{self.__name__}.{name}")


def is_absent(name: str) -> bool:
    """Return whether a module of Heat can be imported, but not used."""
    return name in MODULES or name.startswith(
        tuple(f"{package}." for package in PACKAGES)
    )


def module(name: str, **members: Any) -> Absent:
    """Return a module of Heat of which only some members can be used."""
    made = Absent(name)
    made.__dict__.update(members)
    return made
