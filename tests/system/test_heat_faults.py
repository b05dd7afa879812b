from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from system.agents import Agents
from system.openstack import TRANSPORTS, Lab
from system.sites import LATER, Site

# on a machine with much else to do
pytestmark = [pytest.mark.takes(100), pytest.mark.timeout(600)]

FAILURES = {
    "POLL_SERVER_HEAT": (
        {"script": "echo so far; echo no more >&2; exit 3"},
        "non-zero status code: 3",
    ),
    "POLL_SERVER_CFN": (
        {"script": "echo no room >$heat_outputs_path.wrong"},
        "no room",
    ),
    "POLL_TEMP_URL": ({"script": "kill -9 $$"}, "non-zero status code: 137"),
    "ZAQAR_MESSAGE": ({"tool": "no-such-tool"}, "non-zero status code: 127"),
}
"""Scripts that make a deployment fail, and Heat's reason for each."""


def test_failed_deployment_fails_its_stack(
    cloud: Lab, agents: Agents, tmp_path: Path
) -> None:
    """A failure fails its stack with the reason and the attributes, and an update that repairs it is complete."""
    sites = {
        each: Site(cloud, agents, tmp_path / each, each, **FAILURES[each][0])
        for each in TRANSPORTS
    }
    for site in sites.values():
        site.boot()
    for transport, site in sites.items():
        stack = site.wait("CREATE_FAILED")
        assert FAILURES[transport][1] in stack.reason, transport
    said = {
        each: cloud.resource_get(site.name, "deployment").attributes
        for each, site in sites.items()
    }
    assert said["POLL_SERVER_HEAT"]["deploy_stdout"] == "so far\n"
    assert said["POLL_SERVER_HEAT"]["deploy_stderr"] == "no more\n"
    assert said["POLL_SERVER_HEAT"]["deploy_status_code"] == 3
    assert said["POLL_SERVER_CFN"]["wrong"] == "no room\n"
    assert said["POLL_TEMP_URL"]["deploy_status_code"] == 137
    assert "no-such-tool" in said["ZAQAR_MESSAGE"]["deploy_stderr"]
    for site in sites.values():
        site.update(tool="script", script="", who="moon")
    for transport, site in sites.items():
        assert site.wait("UPDATE_COMPLETE").outputs == {"said": "hi moon\n"}, transport
        ran = [] if transport == "ZAQAR_MESSAGE" else ["CREATE world"]
        assert site.ran[:-1] == ran, transport
        assert site.ran[-1].endswith(" moon"), transport


def test_heat_is_away(cloud: Lab, agents: Agents, tmp_path: Path) -> None:
    """While something runs, Heat is stopped, does not answer, or loses its memory: it ends as it should, once."""
    site = Site(cloud, agents, tmp_path / "away", "POLL_SERVER_HEAT")
    site.hold()
    site.boot(collect_timeout=2)
    site.begins("CREATE world")
    cloud.stop("heat")
    site.release()
    site.says(LATER)
    cloud.start("heat")
    assert site.wait("CREATE_COMPLETE").outputs == {"said": "hi world\n"}

    site.hold()
    site.update(who="moon")
    site.begins("UPDATE moon")
    os.kill(cloud.pid("heat"), signal.SIGSTOP)
    site.release()
    site.says("heat: cannot ask Heat for the metadata: 127.0.0.1:")
    time.sleep(1)
    os.kill(cloud.pid("heat"), signal.SIGCONT)
    assert site.wait("UPDATE_COMPLETE").outputs == {"said": "hi moon\n"}

    site.hold()
    site.update(who="sun")
    site.begins("UPDATE sun")
    cloud.stop("engine")
    site.release()
    site.says(LATER, times=2)
    cloud.start("engine")
    site.until(
        lambda: (
            cloud.resource_get(site.name, "deployment").attributes["said"] == "hi sun\n"
        ),
        "it is not told",
    )
    # Heat has forgotten that it waits: the stack is in progress until the next update, which makes the deployment anew.
    site.update(who="stars")
    assert site.wait("UPDATE_COMPLETE").outputs == {"said": "hi stars\n"}
    assert site.ran == ["CREATE world", "UPDATE moon", "UPDATE sun", "CREATE stars"]


def test_killed_in_a_run(cloud: Lab, agents: Agents, tmp_path: Path) -> None:
    """An agent that is killed while something runs follows it when it is started again: the stack completes, once."""
    sites = [
        Site(cloud, agents, tmp_path / each, each)
        for each in ("POLL_SERVER_CFN", "ZAQAR_MESSAGE")
    ]
    for site in sites:
        site.hold()
        site.boot()
    for site in sites:
        site.begins("CREATE world")
        site.agent.kill()
    sites[0].release()  # one ends while nobody is there
    for site in sites:
        site.agent.start()
    sites[1].release()
    for site in sites:
        assert site.wait("CREATE_COMPLETE").outputs == {"said": "hi world\n"}
        assert site.ran == ["CREATE world"]


def test_a_message_goes_once_it_is_safe(
    cloud: Lab, agents: Agents, tmp_path: Path
) -> None:
    """A message is deleted only once what it says is on disk; an agent that is killed then needs no other one."""
    before = cloud.now()
    safe = Site(cloud, agents, tmp_path / "safe", "ZAQAR_MESSAGE")
    unsafe = Site(cloud, agents, tmp_path / "unsafe", "ZAQAR_MESSAGE")
    cloud.deployments(safe.name)
    for site in (safe, unsafe):
        site.hold()
    unsafe.boot()
    unsafe.agent.kill()
    (unsafe.agent.state / "documents").touch()  # no folder can be made of that
    unsafe.agent.start()
    safe.boot()
    document = safe.agent.state / "documents/zaqar.json"
    while not document.exists():
        time.sleep(0.001)
    safe.agent.kill()
    safe.agent.start()
    for site in (safe, unsafe):
        site.begins("CREATE world")
        site.release()
        site.wait("CREATE_COMPLETE")

    def deleted() -> int:
        queue = unsafe.agent.learned["zaqar"]["queue_id"]
        return sum(
            each.verb == "DELETE" and queue in each.path
            for each in cloud.requests("zaqar", before)
        )

    assert "cannot keep the document of zaqar" in unsafe.agent.log
    assert deleted() == 0
    (unsafe.agent.state / "documents").unlink()
    unsafe.update(who="moon")
    unsafe.wait("UPDATE_COMPLETE")
    unsafe.until(deleted, "the messages stay")
    assert (safe.ran, unsafe.ran) == (["CREATE world"], ["CREATE world", "UPDATE moon"])
