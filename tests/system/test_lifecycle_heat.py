from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from system.agents import Agents, eventually
from system.openstack import TRANSPORTS, Lab, Stack
from system.openstack_releases import VERSION

pytestmark = [pytest.mark.takes(1000), pytest.mark.xdist_group("second cloud")]

TEMPLATE = Path(__file__).with_name("lifecycle.yaml").read_text()

WAYS = {
    **{
        transport: (transport, signal, transport, signal)
        for transport, signal in TRANSPORTS.items()
    },
    "a mix": ("POLL_SERVER_CFN", "TEMP_URL_SIGNAL", "POLL_SERVER_HEAT", "CFN_SIGNAL"),
}
"""The transport and the signal of the first server, and those of the other one."""

TOGETHER = (
    ("POLL_SERVER_HEAT", "POLL_SERVER_CFN", "POLL_TEMP_URL"),
    ("ZAQAR_MESSAGE", "a mix"),
)
"""The tests that run at once: all of them together would wait for one Heat too long."""

NO_SUSPEND = "POLL_TEMP_URL"
"""Where Heat cannot suspend a server: it disables the server's user, and there is none. Its deployments it can."""

_TRIED = ("DELETE",) if VERSION else ("SUSPEND", "DELETE")
"""The deployments that are tried there: before Heat 27 a failure also interrupts others at that moment."""

OUTPUTS = {
    "code": 0,
    "structured": 0,
    "stdout": '22.5 false ["a","b"] {"k":[1,2.5,null,"\\u00e9"]}\n',
    "stdouts": dict.fromkeys(
        ("one", "two"), '8080 true ["a","b"] {"k":[1,2.5,null,"\\u00e9"]}\n'
    ),
    "codes": {"one": 0, "two": 0},
}
"""The stack's outputs that are always the same."""


class Life:
    """A stack with two servers, an agent for each, over one of the ways."""

    def __init__(self, cloud: Lab, agents: Agents, folder: Path, way: str) -> None:
        """Have it created, for who is "world"."""
        folder.mkdir()
        self._cloud = cloud
        self._agents = agents
        self._folder = folder
        self._way = way
        self._template = TEMPLATE.replace("FOLDER", str(folder))
        self.name = cloud.name("life")
        cloud.stack_create(self.name, self._template, self._words("world"))

    def boot(self) -> None:
        """Start the agents."""
        for server in ("one", "two"):
            first = self._cloud.settings(self.name, server)
            # Six agents at most, and one Heat for them all that is busy with more.
            self._agents.start(
                f"{self._folder.name}/{server}",
                first,
                polling_interval=2,
                min_polling_interval=1,
            )

    def update(self, who: str) -> None:
        self._cloud.stack_update(self.name, self._template, self._words(who))

    def have(self, action: str) -> None:
        """Have Heat suspend, resume or delete the stack."""
        getattr(self._cloud, f"stack_{action.lower()}")(self.name)

    def wait(self, status: str) -> Stack:
        """Wait for the stack's status."""
        try:
            return self._cloud.wait(self.name, status, 180)
        except AssertionError as error:
            events = "\n".join(
                f"{each['event_time']} {each['resource_name']} {each['resource_status']}"
                for each in self._cloud.events(self.name)
            )
            pytest.fail(f"{self._way}: {error}\n{events}\n{self._agents.logs}")

    def wait_for(self, resource: str, status: str) -> None:
        """Wait for a resource's status."""
        eventually(
            lambda: self._cloud.resource_get(self.name, resource).status == status,
            lambda: self._agents.logs,
        )

    def ran(self) -> Counter[str]:
        """Return what ran since this was asked before: how often each."""
        path = self._folder / "ran"
        lines = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return Counter(lines)

    @property
    def written(self) -> object:
        """Return the content that json-file has written."""
        path = self._folder / "written.json"
        return json.loads(path.read_text()) if path.exists() else None

    def _words(self, who: str) -> dict[str, str]:
        names = ("transport", "signal", "other_transport", "other_signal")
        return {**dict(zip(names, WAYS[self._way], strict=True)), "who": who}


@pytest.mark.timeout(
    1800 if VERSION else 600
)  # stacks with eight deployments, five actions each
@pytest.mark.parametrize("ways", TOGETHER, ids=", ".join)
def test_every_action_of_a_stack_ends_as_it_should(
    cloud: Lab, agents: Agents, tmp_path: Path, ways: tuple[str, ...]
) -> None:
    """Over every way, every action of a stack with every kind of resource ends as it should, and runs things once."""
    lives = {
        way: Life(cloud, agents, tmp_path / str(number), way)
        for number, way in enumerate(ways)
    }
    for life in lives.values():
        life.boot()
    for way, life in lives.items():
        outputs = life.wait("CREATE_COMPLETE").outputs
        assert outputs == {**OUTPUTS, "greeting": "hello world\n", **_said("world")}, (
            way
        )
        assert life.written == {"to": "world", "all": ["world", 2]}, way
        assert life.ran() == {
            "one component CREATE world": 1,
            "one still CREATE same": 1,
            **_ran("CREATE", "world"),
        }, way

    for life in lives.values():
        life.update("moon")
    for way, life in lives.items():
        outputs = life.wait("UPDATE_COMPLETE").outputs
        assert outputs == {**OUTPUTS, "greeting": "welcome moon\n", **_said("moon")}, (
            way
        )
        assert life.written == {"to": "moon", "all": ["moon", 2]}, way
        assert life.ran() == {
            "one component UPDATE moon": 1,
            **_ran("UPDATE", "moon"),
        }, way

    for action in ("SUSPEND", "RESUME", "DELETE"):
        wanted = {
            way: life
            for way, life in lives.items()
            if way != NO_SUSPEND or action in _TRIED
        }
        for life in wanted.values():
            life.have(action)
        for way, life in wanted.items():
            if (way, action) == (NO_SUSPEND, "SUSPEND"):
                with pytest.raises(
                    AssertionError, match=r"KeyError: resources\.(one|two): 'user'"
                ):
                    cloud.wait(life.name, "SUSPEND_COMPLETE")
                life.wait_for("first", "SUSPEND_COMPLETE")
            else:
                life.wait(f"{action}_COMPLETE")
            assert life.ran() == {
                f"one component {action} moon": 1,
                **_ran(action, "moon"),
            }, way
            assert (life.written is None) == (action == "DELETE"), way


def _said(who: str) -> dict[str, object]:
    """Return the outputs that are about somebody."""
    return {
        "said": f"{who}-first-second-third",
        "stderr": f"to {who}-first-second\n",
        "all_said": {"one": f"{who}-both", "two": f"{who}-both"},
    }


def _ran(action: str, who: str) -> dict[str, int]:
    """Return what runs on any action."""
    chain = [
        f"one first {action} {who}",
        f"two second {action} {who}-first",
        f"one third {action} {who}-first-second",
    ]
    return dict.fromkeys(
        [*chain, f"one both {action} {who}", f"two both {action} {who}"], 1
    )
