"""The fixtures of the tests of HTTP."""

from __future__ import annotations

import pytest

from heat_config_agent import web
from support.ways import SECONDS, TIME


@pytest.fixture
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing takes long."""
    for name, value in {
        "CONNECT_SECONDS": SECONDS,
        "READ_SECONDS": SECONDS,
        "SEND_SECONDS": TIME,
    }.items():
        monkeypatch.setattr(web, name, value)
