"""The programs that process artifacts, as the check of a service template sees them."""

from __future__ import annotations

import pytest

import heat_config_hooks
from heat_config_stack.tosca.files import processors


def test_missing_package_of_a_processor_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A check of a service with a recipe for Chef names the package of the hook where it is not installed."""
    for tool in heat_config_hooks.COMPAT:
        monkeypatch.delitem(heat_config_hooks.HOOKS, tool)
    processors.lacking.cache_clear()
    package = heat_config_hooks.COMPAT_PACKAGE
    try:
        assert processors.lacking("chef") == (package, f"install the package {package}")
    finally:
        processors.lacking.cache_clear()
