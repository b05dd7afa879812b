"""A real Heat, and between it and the agents a proxy that breaks what is said: every stack ends as it should, once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support import proxy, proxy_faults
from support.proxy import Proxy
from system.agents import Agents
from system.openstack import TRANSPORTS, Lab
from system.sites import LATER, Site

# on a machine with much else to do
pytestmark = [pytest.mark.takes(100), pytest.mark.timeout(600)]

SIGNAL_FAULTS = (
    proxy_faults.answers(
        200,
        "answers with a web page",
        ("Content-Type", "text/html"),
        body=b"<html><h1>Welcome</h1></html>",
    ),
    proxy_faults.answers(503),
    proxy_faults.BREAKS_OFF[4],
    proxy_faults.NO_HTTP[1],
)
SOURCE_FAULTS = (
    proxy_faults.NO_DOCUMENT[0],
    proxy_faults.answers(502),
    proxy_faults.HANGS[1],
    proxy_faults.BREAKS_OFF[7],
)


class Between:
    """A stack, its agent, and what is between them. Its methods are the parts of a life, one after the other."""

    def __init__(self, site: Site, number: int) -> None:
        self.site = site
        self.number = number
        self.proxy = Proxy()
        self._asked = 0
        """The number of requests that had met a fault when the stack was updated."""

    def boot(self) -> None:
        """Start the agent; what it runs is held up."""
        self.site.hold()
        self.site.boot(self.proxy.origin, collect_timeout=2)

    def run(self) -> None:
        """Have the run end, once it has begun, while results do not arrive."""
        self.site.begins("CREATE world")
        self.proxy.fail(SIGNAL_FAULTS[self.number])
        self.site.release()

    def deliver(self) -> None:
        """Let the result through, once it could not be delivered."""
        self.site.says(LATER)
        assert (
            self.site.cloud.stack_get(self.site.name, outputs=False).status
            == "CREATE_IN_PROGRESS"
        )
        self.proxy.mend()

    def update(self) -> None:
        """Have the stack updated, once it is complete, while the metadata does not arrive."""
        assert self.site.wait("CREATE_COMPLETE").outputs == {"said": "hi world\n"}
        self.proxy.fail(SOURCE_FAULTS[self.number])
        self._asked = len(self.proxy.done)
        self.site.update(who="moon")

    def show(self) -> None:
        """Let the metadata through, once the agent has asked for it more than once."""
        self.site.until(
            lambda: len(self.proxy.done) > self._asked + 1, "it does not ask"
        )
        assert self.site.ran == ["CREATE world"]
        self.proxy.mend()

    def end(self) -> None:
        """Wait until the update is complete."""
        assert self.site.wait("UPDATE_COMPLETE").outputs == {"said": "hi moon\n"}


LIFE = (
    Between.boot,
    Between.run,
    Between.deliver,
    Between.update,
    Between.show,
    Between.end,
)
"""A life: created while results do not arrive, and updated while the metadata does not."""


@pytest.fixture
def all_between(cloud: Lab, agents: Agents, tmp_path: Path) -> Iterator[list[Between]]:
    """A stack of every transport, in the making."""
    found = [
        Between(Site(cloud, agents, tmp_path / each, each), number)
        for number, each in enumerate(TRANSPORTS)
    ]
    yield found
    for each in found:
        each.proxy.close()


@pytest.mark.fault(
    1,
    "a proxy between the agent and a real Heat: web pages with 200, 502, 503, resets, noise, no answer",
    "the stack waits, and is complete once it is over, with the outputs of the one run of each action",
)
def test_every_transport_goes_through_a_proxy_to_heat(
    all_between: list[Between], tried: Callable[[int], None]
) -> None:
    """Heat itself shows the results. The agents of all transports take every step at the same time."""
    for part in LIFE:
        for each in all_between:
            part(each)
    for each in all_between:
        assert each.site.ran == ["CREATE world", "UPDATE moon"]
        assert "Traceback" not in each.site.agent.log
    tried(2 * len(all_between))


def _is_signal(request: proxy.Request) -> bool:
    return (
        request.verb == "PUT"
        or request.target.partition("?")[0].endswith("/signal")
        or "/v1/signal/" in request.target
        or (request.verb == "POST" and request.target.endswith("/messages"))
    )


@pytest.mark.fault(
    2,
    "the answer to a result is lost, so that Heat gets it twice (not by ZAQAR_SIGNAL), and then another action begins",
    "the second one completes nothing: the stack waits for the result of the new action",
)
def test_an_answer_is_lost(
    all_between: list[Between], tried: Callable[[int], None]
) -> None:
    """A result that was sent again is of no later action.

    Not so in a Zaqar queue, which takes it twice: Heat reads the second one when it waits for the next action. See
    the README.
    """
    all_between = [
        each for each in all_between if each.site.folder.name != "ZAQAR_MESSAGE"
    ]
    for each in all_between:
        each.proxy.only = _is_signal
        each.proxy.script.append(proxy_faults.BREAKS_OFF[5])
        each.site.boot(each.proxy.origin)
    for each in all_between:
        each.site.wait("CREATE_COMPLETE")
        each.site.delivers()
        assert each.proxy.done == [proxy_faults.BREAKS_OFF[5].name]
        assert len([one for one in each.proxy.requests if _is_signal(one)]) == 2
        each.site.hold()
        each.site.update(who="moon")
    for each in all_between:
        each.site.begins("UPDATE moon")
    time.sleep(5)
    states = {
        each.site.folder.name: each.site.cloud.stack_get(
            each.site.name, outputs=False
        ).status
        for each in all_between
    }
    assert set(states.values()) == {"UPDATE_IN_PROGRESS"}, states
    for each in all_between:
        each.site.release()
    for each in all_between:
        assert each.site.wait("UPDATE_COMPLETE").outputs == {"said": "hi moon\n"}
    tried(len(all_between))
