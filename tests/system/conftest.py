"""The fixtures of the tests with the real services."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from system.agents import Agents
from system.openstack import Lab, lab


@pytest.fixture(scope="session")
def one_cloud() -> Iterator[Lab]:
    """The cloud of all tests."""
    with lab() as cloud:
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
