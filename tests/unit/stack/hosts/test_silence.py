"""Sessions whose other side says nothing, over a plain pipe to another process in the place of ssh."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from heat_config_stack.hosts import connection, far_side
from heat_config_stack.hosts.connection import Connection
from heat_config_stack.hosts.fleet import Fleet
from heat_config_stack.hosts.host import Host
from heat_config_stack.lifecycle.live import World
from heat_config_stack.records.records import (
    DeploymentRecord,
    ResourceRecord,
    StackRecord,
)
from heat_config_stack.records.store import Memory
from heat_config_stack.resource.config_service import new_config
from heat_config_stack.resource_types import known_types
from support import pace
from support.loopback import wait_until

HELLO = """\
import json, sys, time
from heat_config_agent import __version__
from heat_config_stack.hosts.frames import MARK, PROTOCOL
hello = {"is": "hello", "protocol": PROTOCOL, "version": __version__, "time": 0}
print((MARK + json.dumps(hello).encode()).decode(), flush=True)
"""


class Watching:
    """Keeps what a fleet tells people."""

    def __init__(self) -> None:
        self.warnings: list[str] = []
        self.problems: list[str] = []

    def began(self, path: str, moment: float) -> None:
        """Ignore it."""

    def ended(self, path: str, seconds: float | None, problem: str) -> None:  # noqa: ARG002  # a protocol has them
        """Keep the problem."""
        self.problems.append(problem)

    def warn(self, text: str) -> None:
        """Keep the warning."""
        self.warnings.append(text)


class Place:
    """A stack with one deployment on a host that is another Python."""

    def __init__(self, program: str, limit: float | None = None) -> None:
        self.watching = Watching()
        words: Sequence[str] = [sys.executable, "-c", program]
        self.fleet = Fleet(
            self.watching,
            limit,
            connect=lambda host, watcher, limit: Connection(
                host, watcher, limit, lambda _host: words
            ),
        )
        store = Memory()
        store.put(StackRecord("s", "stack"))
        store.put(ResourceRecord("r", "run", "s", physical="d"))
        self.record = DeploymentRecord(
            "d", "s", "r", "x", "c", "CREATE", "IN_PROGRESS", ""
        )
        self.record.host = Host("db1").to_json()
        store.put(self.record)
        self.world = World(store, known_types(), self.fleet)
        self.fleet.deliver(self.record)

    def turn(self) -> None:
        """Let the fleet work for a moment."""
        self.fleet.turn(self.world)
        self.fleet.wait(0.02, ())


@pytest.fixture
def places() -> Iterator[list[Place]]:
    """Places whose sessions are ended."""
    made: list[Place] = []
    yield made
    for each in made:
        each.fleet.close()


def test_silent_host_is_asked_again(
    places: list[Place], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A session that has said nothing for too long is ended, and another one begun; the reason is shown."""
    monkeypatch.setattr(connection, "SILENCE", 0.3)
    begun = tmp_path / "begun"
    places.append(
        place := Place(f"open({str(begun)!r}, 'a').write('x')\n{HELLO}time.sleep(999)")
    )

    def is_asked_again() -> bool:
        place.turn()
        return begun.exists() and len(begun.read_text()) > 1

    wait_until(is_asked_again, 30)
    assert place.watching.warnings == [
        "db1 is waited for: it has said nothing for 0.3 s"
    ]
    assert place.fleet.busy


def test_silent_host_fails_after_the_limit(
    places: list[Place], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The deployment has failed then, with the reason; nothing is waited for any more."""
    monkeypatch.setattr(connection, "SILENCE", 0.3)
    places.append(place := Place(f"{HELLO}time.sleep(999)", limit=0.5))
    place.world.store.configs["c"] = new_config(
        {"name": "c", "group": "script", "config": ""}, "s"
    )

    def has_failed() -> bool:
        place.turn()
        return place.record.status == "FAILED"

    wait_until(has_failed, 30)
    assert "the host db1 has not answered since" in place.watching.problems[0]
    assert not place.fleet.busy


def test_nonsense_of_a_host_ends_its_session(places: list[Place]) -> None:
    """Neither a message without its parts nor a list makes the command fail."""
    places.append(
        place := Place(
            f'{HELLO}print(json.dumps({{"is": "result"}}), flush=True)\ntime.sleep(999)'
        )
    )

    def is_told() -> bool:
        place.turn()
        return bool(place.watching.warnings)

    wait_until(is_told, 30)
    assert "it sent a message that is not of the protocol" in place.watching.warnings[0]


def test_session_ends_without_its_coordinator(tmp_path: Path) -> None:
    """The process on the host ends if nothing has come for a while, and if its input ends."""
    program = (
        "import os, sys\nfrom pathlib import Path\nfrom heat_config_agent.settings import effective\n"
        "from heat_config_stack.hosts import far_side\nfar_side.SILENCE = 0.3\nfar_side._TURN = 0.1\n"
        "settings = effective.make(dict(os.environ), state=Path(sys.argv[1]))\n"
        "sys.exit(far_side.run(settings, 0, 1))\n"
    )
    assert far_side.SILENCE > far_side._TURN  # noqa: SLF001  # else it would be late
    for opening in (b"", b'{"do": "open", "stack": "s", "deployments": []}\n'):
        reader, writer = os.pipe()
        process = subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path / "state")],
            stdin=reader,
            stdout=subprocess.DEVNULL,
        )
        try:
            os.write(writer, opening)
            assert process.wait(pace.seconds(30)) == 0
        finally:
            process.kill()
            process.wait()
            os.close(reader)
            os.close(writer)
