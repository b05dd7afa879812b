from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from heat_config_agent.signals.notices.notice import BEGUN, Notice
from heat_config_hooks.values import replace

_NOTICE = Notice(
    change=BEGUN,
    text="web: begins CREATE (script)",
    priority=5,
    id="d1",
    name="web",
    action="CREATE",
    tool="script",
    source="local",
    stack="shop",
    state="running",
    at=1_700_000_000.25,
)


@pytest.fixture
def notice() -> Callable[..., Notice]:
    """Makes a notice, with these fields."""

    def made(**fields: Any) -> Notice:
        return replace(_NOTICE, **fields)

    return made
