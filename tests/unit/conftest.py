"""The fixtures of the tests of single modules."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="module")
def _no_proxies() -> Iterator[None]:
    """The environment of whoever runs the tests has no say. Once for a file: there are thousands of small tests."""
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.lower().endswith("_proxy") or name in (
                "REQUESTS_CA_BUNDLE",
                "CURL_CA_BUNDLE",
            ):
                patch.delenv(name)
        yield
