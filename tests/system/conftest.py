"""The fixtures of the tests with the real services."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from system.administrator import KEY, Administrator
from system.agents import Agents
from system.openstack import Lab, lab


@pytest.fixture(scope="session")
def one_cloud() -> Iterator[Lab]:
    """The cloud of all tests."""
    with lab() as cloud:
        # Heat makes a key for temporary URLs where an account has none. Resources that begin at the same time may make
        # several: Swift keeps the last one, and refuses the URLs that were signed with another one for ever.
        administrator = Administrator(cloud)
        administrator.ask("POST", administrator.account, {KEY: secrets.token_hex(16)})
        yield cloud


@pytest.fixture
def cloud(one_cloud: Lab) -> Iterator[Lab]:
    """A real Keystone, Heat, Swift and Zaqar. What a test stops runs again after it."""
    yield one_cloud
    one_cloud.put_back()


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[Agents]:
    """Agents on the servers of stacks. They end with the test."""
    with contextlib.closing(Agents(tmp_path)) as agents:
        yield agents
