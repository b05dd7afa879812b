"""heat-config-agent events: what happened to deployments, stacks and sources."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from support import pace
from support.commands import SH
from support.loopback import SignalServer
from support.machine import Machine, deployment

STACK = {
    "heat_template_version": "2018-08-31",
    "resources": {
        "config": {
            "type": "OS::Heat::SoftwareConfig",
            "properties": {"group": "script", "config": f"{SH}true\n"},
        },
        "app": {
            "type": "OS::Heat::SoftwareDeployment",
            "properties": {"config": {"get_resource": "config"}, "server": "here"},
        },
    },
}


def stack(machine: Machine, name: str) -> None:
    """Create a stack with one deployment."""
    path = machine.write(json.dumps(STACK), f"{name}.yaml")
    assert machine.apply(None, str(path)).code == 0


def told(machine: Machine, *words: str) -> list[tuple[str, str, str]]:
    """Return kind, name and state of each event."""
    events = machine.agent("events", *words, "--json").data["events"]
    return [
        (each["subject"]["kind"], each["subject"]["name"], each["state"])
        for each in events
    ]


def test_events_of_a_deployment_follow_its_runs(
    machine: Machine, heat: SignalServer
) -> None:
    """It is accepted, runs, ends and is delivered, in this order and with the reason of its failure."""
    machine.apply([deployment("d1", f"{SH}exit 3\n", name="web", signal=heat.url())])

    events = machine.agent("events", "--json").data["events"]

    assert [(each["state"], each["result"]) for each in events] == [
        ("waiting", None),
        ("running", None),
        ("failed", None),
        ("failed", "sent"),
    ]
    assert {each["subject"]["name"] for each in events} == {"web"}
    assert "exit code 3" in events[2]["message"]
    assert [each["event_time"] for each in events] == sorted(
        each["event_time"] for each in events
    )
    table = machine.agent("events").out.splitlines()
    assert table[0].split() == ["TIME", "NAME", "STATE", "ACTION", "DETAILS"]
    assert [line.split()[1:4] for line in table[1:3]] == [
        ["web", "waiting", "CREATE"],
        ["web", "running", "CREATE"],
    ]


def test_events_have_no_secrets(machine: Machine) -> None:
    """The reason of a failure is masked, as in every list."""
    script = f"{SH}echo $db_password >&2\nexit 3\n"
    machine.apply([deployment("d1", script, inputs={"db_password": "gr8-secret"})])

    for words in ([], ["--json"]):
        done = machine.agent("events", *words)
        assert "exit code 3: ***" in done.out
        assert "gr8-secret" not in done.out + done.err


def test_events_of_earlier_runs_are_kept(machine: Machine) -> None:
    """A run that was repeated is there with its own outcome."""
    flag = machine.folder / "flag"
    given = [deployment("d1", f"{SH}[ -e {flag} ]\n")]
    machine.apply(given)
    flag.touch()
    machine.agent("retry", "d1")
    machine.apply(given)

    states = [state for _, _, state in told(machine, "d1")]

    assert states == ["running", "failed", "waiting", "running", "ok"]


def test_events_of_stacks_have_their_resources(machine: Machine) -> None:
    """A stack by its name has the events of its resources, and a resource only its own."""
    machine.apply([deployment("d1")])
    stack(machine, "web")

    every, of_stack, of_app = (
        told(machine),
        told(machine, "web"),
        told(machine, "web/app"),
    )

    assert ("deployment", "d1", "ok") in every
    assert ("stack", "web", "ok") in of_stack
    assert ("resource", "app", "ok") in of_stack
    assert not [each for each in of_stack if each[0] == "deployment"]
    assert {name for kind, name, _ in of_app if kind == "resource"} == {"app"}
    assert ("stack", "web", "ok") not in of_app


def test_only_the_last_events_are_shown(machine: Machine) -> None:
    """With --limit the newest ones, and with --since those of that time."""
    machine.apply([deployment("d1"), deployment("d2")])
    every = told(machine)

    assert told(machine, "--limit", "2") == every[-2:]
    assert told(machine, "--since", "1h") == every
    assert told(machine, "--since", "0") == []
    for wrong in ("0", "-1", "x"):
        assert machine.agent("events", "--limit", wrong).code == 2


def test_machine_without_events_says_so(machine: Machine) -> None:
    """A sentence is printed where nothing has happened, and an unknown name is not there."""
    machine.state.mkdir(mode=0o700)

    done = machine.agent("events")

    assert (done.code, done.out) == (0, "no events\n")
    assert machine.agent("events", "nobody").code == 8


@contextmanager
def following(machine: Machine, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Run `events --follow`, and end it."""
    process = machine.start(
        "heat-config-agent",
        "events",
        "--follow",
        *words,
        "--state-dir",
        str(machine.state),
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        process.communicate(timeout=pace.seconds(30))


@pytest.mark.parametrize("words", [[], ["--json"]])
def test_followed_events_are_told_as_they_happen(
    machine: Machine, words: list[str]
) -> None:
    """The events so far come first, and then each new one once; with --json a line for each, and one at the end."""
    machine.apply([deployment("d1")])
    with following(machine, *words) as process:
        assert process.stdout is not None
        first = [process.stdout.readline() for _ in range(3)]
        machine.apply([deployment("d1"), deployment("d2")])
        second = [process.stdout.readline() for _ in range(3)]
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=pace.seconds(30))

    assert process.returncode == 130
    assert all("d1" in line and "d2" not in line for line in first)
    assert all("d2" in line for line in second)
    if words:
        lines = [json.loads(line) for line in (*first, *second)]
        assert [each["kind"] for each in lines] == ["event"] * 6
        assert [each["data"]["state"] for each in lines[3:]] == [
            "waiting",
            "running",
            "ok",
        ]
        end = json.loads(rest)
        assert (end["kind"], end["error"]["code"]) == ("events", "interrupted")
    else:
        assert rest == ""
