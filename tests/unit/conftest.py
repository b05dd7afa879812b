"""The fixtures of the tests of single modules."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from heat_config_agent.web import login_process
from support import loaded_login


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of whoever runs the tests has no say."""
    for name in list(os.environ):
        if name.lower().endswith("_proxy") or name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
            monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def _logins(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The process that logs in begins loaded, and serves one test. A file that tests its start overrides this."""
    monkeypatch.setattr(login_process, "_started", loaded_login.start)
    yield
    login_process.LOGINS.rest()
