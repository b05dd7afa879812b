from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from itertools import pairwise

import pytest

from support import pace
from system.agents import Agents
from system.openstack import TRANSPORTS, Arrived, Lab
from system.sites import LATER, Site

POLLS = {
    "POLL_SERVER_HEAT": ("heat", "GET", 200),
    "POLL_SERVER_CFN": ("cfn", "GET", 200),
    "POLL_TEMP_URL": ("swift", "GET", 304),
    "ZAQAR_MESSAGE": ("zaqar", "POST", 204),
}
"""The events of one poll without news: the service and its one request."""

SOURCES = {
    "POLL_SERVER_HEAT": "heat",
    "POLL_SERVER_CFN": "cfn",
    "POLL_TEMP_URL": "request",
    "ZAQAR_MESSAGE": "zaqar",
}
"""The source that is a transport's."""

LOOKED_AT = ("POLL_TEMP_URL", "ZAQAR_MESSAGE")
"""Where Heat itself asks for the result, and gives up as soon as Swift or Zaqar does not answer it."""

LOGGED_IN = ("POLL_SERVER_HEAT", "ZAQAR_MESSAGE")
"""Where agents need tokens for asking."""

SHORT = 6
"""Seconds that a token lasts where it is to end soon: Heat, when it is busy, needs its own for as long as that."""

INTERVAL = 1.0

Sites = dict[str, Site]

# four stacks, on a machine with much else to do
pytestmark = [
    pytest.mark.takes(1000),
    pytest.mark.timeout(600),
    pytest.mark.xdist_group("second cloud"),
]


@pytest.fixture(scope="module")
def sites(one_cloud: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sites]:
    """A stack over each transport, created, with its agent."""
    folder = tmp_path_factory.mktemp("sites")
    with contextlib.closing(Agents(folder)) as agents:
        sites = {
            each: Site(one_cloud, agents, folder / each, each) for each in TRANSPORTS
        }
        for site in sites.values():
            site.boot()
        for site in sites.values():
            site.wait("CREATE_COMPLETE")
        yield sites


def test_idle_poll_is_a_single_request(cloud: Lab, sites: Sites) -> None:
    """Over each transport, a poll that finds nothing new is one request; nobody logs in for it."""
    # the last result has been sent, what that has changed been read, and nothing more came
    time.sleep(5 * INTERVAL)
    since, deadline = cloud.now(), time.monotonic() + pace.seconds(60)
    requests: dict[str, list[Arrived]] = {}
    while (
        min(map(len, requests.values()), default=0) < 3 and time.monotonic() < deadline
    ):
        time.sleep(3 * INTERVAL)
        requests = {
            service: [
                each
                for each in cloud.requests(service, since)
                if each.agent.startswith("heat-config-agent")
            ]
            for service, _, _ in POLLS.values()
        }
    asked = [
        each
        for each in cloud.requests("keystone", since)
        if each.agent.startswith("heat-config-agent")
    ]
    assert asked == []
    for transport, (service, verb, status) in POLLS.items():
        arrived = requests.pop(service)
        assert {(each.verb, each.status) for each in arrived} == {(verb, status)}, (
            transport
        )
        assert len(arrived) >= 3, transport
        assert all(
            later.at - each.at > INTERVAL / 2 for each, later in pairwise(arrived)
        ), transport
    assert sites["POLL_SERVER_HEAT"].agent.log.count("cannot") == 0


def test_tokens_expire(cloud: Lab, sites: Sites) -> None:
    """Tokens that last for seconds are renewed in time, for polling and for signalling."""
    cloud.token_seconds(SHORT)
    before = cloud.now()
    for transport in LOGGED_IN:
        sites[transport].agent.stop()
        sites[transport].agent.start()
    time.sleep(SHORT + 1)
    for number in range(2):
        for site in sites.values():
            site.update(who=f"number {number}")
        for site in sites.values():
            assert site.wait("UPDATE_COMPLETE").outputs == {
                "said": f"hi number {number}\n"
            }
    assert all(
        site.ran[-2:] == ["UPDATE number 0", "UPDATE number 1"]
        for site in sites.values()
    )
    refused = [
        each
        for each in cloud.requests("heat", before, "heat-config-agent")
        if each.status == 401
    ]
    assert len(refused) < 3, "tokens are not renewed before they expire"


def test_servers_are_away(cloud: Lab, sites: Sites) -> None:
    """While something runs, all that could be told of it is stopped: it is told once that is there again."""
    cloud.token_seconds(SHORT)
    for transport in LOGGED_IN:  # else they would have a token that lasts
        sites[transport].agent.stop()
        sites[transport].agent.start()
    for site in sites.values():
        site.hold()
        site.update(who="nobody")
    for site in sites.values():
        site.begins("UPDATE nobody")
    for service in ("keystone", "swift", "zaqar", "heat"):
        cloud.stop(service)
    for site in sites.values():
        site.release()
    for site in sites.values():
        site.says(LATER)
    for service in ("zaqar", "swift", "heat"):
        cloud.start(service)
    time.sleep(SHORT)  # all tokens are over: Keystone is missed
    for transport in LOOKED_AT:
        # Heat asks Swift again with growing pauses, which may be as long as all of this
        sites[transport].fails("UPDATE_FAILED")
    cloud.put_back()
    for transport, site in sites.items():
        if transport in LOOKED_AT:
            site.delivers()
        else:
            assert site.wait("UPDATE_COMPLETE").outputs == {"said": "hi nobody\n"}
        assert site.ran.count("UPDATE nobody") == 1
    for site in sites.values():
        site.update(who="somebody")
    for site in sites.values():
        assert site.wait("UPDATE_COMPLETE").outputs == {"said": "hi somebody\n"}
        assert sum(each.endswith(" somebody") for each in site.ran) == 1


def test_stack_can_change_its_transport(cloud: Lab, sites: Sites) -> None:
    """A stack that is updated to another transport is followed there, and the daemon begins there the next time."""
    site, before = sites["POLL_SERVER_HEAT"], sites["POLL_SERVER_HEAT"].ran

    def follow(transport: str) -> None:
        """Update the stack to a transport."""
        site.update(transport=transport, who=transport)
        source = SOURCES[transport]
        assert site.wait("UPDATE_COMPLETE").outputs == {"said": f"hi {transport}\n"}
        site.until(
            lambda: site.agent.sources == {source: True},
            f"it is not {source} that is used",
        )
        site.until(lambda: source in site.agent.learned, f"{source} is not learned")

    for transport in ("POLL_SERVER_CFN", "POLL_SERVER_HEAT", "POLL_SERVER_CFN"):
        follow(transport)
    site.agent.stop()
    since = cloud.now()
    site.agent.start()
    site.update(who="learned")
    site.wait("UPDATE_COMPLETE")
    stack = f"/stacks/{site.name}/"
    polled = [
        each
        for each in cloud.requests("heat", since, "heat-config-agent")
        if stack in each.path
    ]
    assert not [each for each in polled if each.verb == "GET"], (
        "it asks where the server was at first"
    )

    site.agent.stop()
    known = json.loads(site.agent.learned_file.read_text())
    known["os-collect-config"]["cfn"]["secret_access_key"] = "wrong"
    site.agent.learned_file.write_text(json.dumps(known))
    site.agent.start()
    site.update(who="forgotten")
    assert site.wait("UPDATE_COMPLETE").outputs == {"said": "hi forgotten\n"}
    site.until(
        lambda: site.agent.sources == {"cfn": True},
        "it does not go back to where Heat says",
    )
    site.until(
        lambda: site.agent.learned["cfn"]["secret_access_key"] != "wrong",
        "it has not learned anew",
    )

    # Heat does not say over the first two that they are left: who has said where they are is asked for that.
    for transport in ("POLL_TEMP_URL", "ZAQAR_MESSAGE", "POLL_SERVER_HEAT"):
        follow(transport)
    # Heat makes a deployment anew that is to have another signal.
    ways = ("POLL_SERVER_CFN", "POLL_SERVER_HEAT", "POLL_SERVER_CFN")
    changed = [f"CREATE {each}" for each in ways]
    last = [
        f"CREATE {each}"
        for each in ("POLL_TEMP_URL", "ZAQAR_MESSAGE", "POLL_SERVER_HEAT")
    ]
    assert site.ran == [*before, *changed, "UPDATE learned", "UPDATE forgotten", *last]
