"""The fixtures of the tests of single modules."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterator

import pytest

from heat_config_agent.web import direct


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


@pytest.fixture(autouse=True, scope="session")
def _connections_end_in_order() -> Iterator[None]:
    """A kept connection closes its socket in whatever order the collector ends them.

    A test that expects an exception leaves a cycle: the frame, the exception, and the connection in the frame. The
    collector may come to the socket before the connection that would close it, and some later test would fail because
    of a socket that is not closed. A weak reference is told before any object of a cycle is ended.
    """
    with pytest.MonkeyPatch.context() as patch:
        for name in ("connect", "secure"):
            patch.setattr(
                direct._Connection,  # noqa: SLF001  # it has no other name
                name,
                _closing_with_it(getattr(direct._Connection, name)),  # noqa: SLF001
            )
        yield


def _closing_with_it(method: Callable[..., None]) -> Callable[..., None]:
    def closing(connection: direct._Connection, *arguments: object) -> None:
        method(connection, *arguments)
        weakref.finalize(connection, connection.sock.close)

    return closing
