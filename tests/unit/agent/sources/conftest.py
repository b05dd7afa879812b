"""The fixtures of the tests of sources: a cloud with a Zaqar."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from heat_config_agent.sources.base import Reach
from heat_config_agent.sources.cloud.zaqar import Zaqar
from support import cloud
from support.zaqar import QUEUE, Make, Queue, offer


@pytest.fixture
def queue(openstack: cloud.Cloud) -> Iterator[Queue]:
    """A Zaqar server that is in the catalog."""
    queue = Queue()
    queue.start()
    offer(openstack, messaging=queue.origin)
    yield queue
    queue.stop()


@pytest.fixture
def make(openstack: cloud.Cloud) -> Iterator[Make]:
    """Make sources of the queue."""
    sources: list[Zaqar] = []

    def zaqar(
        *,
        ca_file: str | None = None,
        ring: Callable[[], None] | None = None,
        **values: object,
    ) -> Zaqar:
        credentials = openstack.credentials()
        usual = {
            "auth_url": credentials.auth_url,
            "user_id": credentials.user_id,
            "password": credentials.password,
            "project_id": credentials.project_id,
            "region_name": "",
            "queue_id": QUEUE,
            "use_websockets": False,
        }
        sources.append(
            Zaqar({**usual, **values}, Reach(ca_file=ca_file, seconds=20), ring=ring)
        )
        return sources[-1]

    yield zaqar
    for each in sources:
        each.close()
