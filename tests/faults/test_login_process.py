"""The process that logs in to Keystone is killed or hangs, or the agent is: every result arrives, once."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator

import psutil
import pytest

from support import endings
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
    inputs = {f"deploy_{name}": value for name, value in {**user, "stack_id": "s/1", "resource_name": "d1"}.items()}
    daemon.put([deployment("d1", counting(machine), inputs=inputs)])
    openstack.keystone.always = SILENT
    yield openstack
    assert PASSWORD not in daemon.log


def logging_in(daemon: Daemon) -> psutil.Process:
    """Return the daemon's process that logs in."""
    found = [each for each in endings.children(daemon.pid) if "login_program" in " ".join(endings.words(each))]
    assert len(found) == 1
    return found[0]


def arrived(cloud: Cloud, daemon: Daemon) -> None:
    """Wait until the result has arrived, and hold that it did once, and that the deployment ran once."""
    daemon.wait_state("d1", "signalled")
    assert [each.path.rpartition("/")[2] for each in cloud.asked] == ["signal"]
    assert ran(daemon.machine) == ["d1"]


@fault(
    1,
    "the process that logs in to Keystone is killed in the middle of a login",
    "the result is kept, it is said how that process ended, and sent after the next login",
)
def test_the_process_is_killed(cloud: Cloud, daemon: Daemon, tried: Callable[[int], None]) -> None:
    """Two times; the daemon waits for neither."""
    daemon.start()
    for times in (1, 2):
        wait_until(lambda times=times: len(cloud.logins) == times, LONG)  # type: ignore[misc]
        if times == 2:
            cloud.keystone.always = cloud.lets_in("token-1")
        logging_in(daemon).kill()
        daemon.wait_said("the process that logs in to Keystone ended without an answer (signal 9)")
        daemon.send(signal.SIGHUP)
    tried(2)
    arrived(cloud, daemon)
    assert daemon.stop() == 0


@fault(3, "the daemon is to end while a login hangs", "it ends at once, and so does the process that logs in")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_daemon_ends_while_a_login_hangs(cloud: Cloud, daemon: Daemon, number: int) -> None:
    """The next one sends the result, once."""
    daemon.start()
    wait_until(lambda: len(cloud.logins) == 1, LONG)
    process = logging_in(daemon)
    assert daemon.stop(number) == (0 if number == signal.SIGTERM else -number)
    wait_until(lambda: endings.has_ended(process), LONG)
    cloud.keystone.always = cloud.lets_in("token-1")
    daemon.start()
    arrived(cloud, daemon)
    assert daemon.stop() == 0
