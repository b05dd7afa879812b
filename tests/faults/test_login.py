"""The daemon ends while Keystone is silent: every result arrives, once."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from support.cloud import PASSWORD, Cloud
from support.daemon import LONG, Daemon, counting, ran
from support.loopback import Answer, wait_until
from support.machine import Machine, deployment

pytestmark = [pytest.mark.takes(20), pytest.mark.new_process("daemons")]

fault = pytest.mark.fault

SILENT = Answer(delay=60)


@pytest.fixture
def cloud(openstack: Cloud, machine: Machine, daemon: Daemon) -> Iterator[Cloud]:
    """A cloud whose Keystone is silent, and a daemon with a result for Heat's API."""
    user = vars(openstack.credentials())
    inputs = {
        f"deploy_{name}": value
        for name, value in {**user, "stack_id": "s/1", "resource_name": "d1"}.items()
    }
    daemon.put([deployment("d1", counting(machine), inputs=inputs)])
    openstack.keystone.always = SILENT
    yield openstack
    assert PASSWORD not in daemon.log


def arrived(cloud: Cloud, daemon: Daemon) -> None:
    """Wait until the result has arrived, and hold that it did once, and that the deployment ran once."""
    daemon.wait_state("d1", "signalled")
    assert [each.path.rpartition("/")[2] for each in cloud.asked] == ["signal"]
    assert ran(daemon.machine) == ["d1"]


@fault(
    3,
    "the daemon is to end while a login hangs",
    "it ends at once, and the next one sends the result",
)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_daemon_ends_while_a_login_hangs(
    cloud: Cloud, daemon: Daemon, number: int
) -> None:
    """The next one sends the result, once."""
    daemon.start()
    wait_until(lambda: len(cloud.logins) == 1, LONG)
    assert daemon.stop(number) == (0 if number == signal.SIGTERM else -number)
    cloud.keystone.always = cloud.lets_in("token-1")
    daemon.start()
    arrived(cloud, daemon)
    assert daemon.stop() == 0
