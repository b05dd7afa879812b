"""Fixtures and functions for tests of requests by either client."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from heat_config_agent.model.errors import UnreachableError
from heat_config_agent.web import Connection
from support.certificates import KEY

SECRET = "c2lnbmVk"


PATH = f"/v1/signal?Signature={SECRET}%2bsecret"


SECONDS = 0.6
"""The seconds that a server may be silent."""


TIME = 1.2
"""The most seconds for a whole answer."""


def pem(folder: Path, certificate: str) -> Path:
    """Return a file with what a server needs."""
    path = folder / "server.pem"
    path.write_text(certificate + KEY)
    return path


def known(folder: Path, *certificates: str) -> Path:
    """Return a file with certificates that are trusted."""
    path = folder / "ca.pem"
    path.write_text("".join(certificates))
    return path


def trouble(asked: Callable[[], object]) -> str:
    """Return why there is no answer, without the URL."""
    with pytest.raises(UnreachableError) as raised:
        asked()
    assert SECRET not in str(raised.value)
    assert "/v1/" not in str(raised.value)
    return str(raised.value)


def asked(origin: str, ca_file: Path | None = None) -> int:
    """Ask a server, and return the status of its answer."""
    return (
        Connection(origin, str(ca_file) if ca_file else None)
        .fetch(origin + PATH, {}, 30)
        .status
    )
