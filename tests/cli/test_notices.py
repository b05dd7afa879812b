"""Notices of `heat-config-apply`: the same as those of the daemon, and all of them before it ends."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.http import Answer
from support.loopback import SignalServer
from support.machine import Machine, deployment

TEMPLATE = """\
heat_template_version: 2018-08-31
resources:
  config:
    type: OS::Heat::SoftwareConfig
    properties: {group: script, config: "#!/bin/sh"}
  web:
    type: OS::Heat::SoftwareDeployment
    properties: {config: {get_resource: config}, server: {get_resource: server}}
  server:
    type: OS::Nova::Server
    properties: {flavor: small}
"""


def configured(machine: Machine, *lines: str) -> tuple[str, str]:
    """Write settings of `[agent]`, and return the words that select them."""
    path = machine.folder / "agent.conf"
    path.write_text("\n".join(("[agent]", *lines, "")))
    return "--config", str(path)


def told(server: SignalServer) -> list[dict[str, Any]]:
    """Return the events that a server was sent."""
    return [json.loads(request.body) for request in server.signals]


def test_all_events_are_posted_before_the_command_ends(
    machine: Machine, other: SignalServer
) -> None:
    """Each deployment has an event for its begin and one for its end, posted before the command exits."""
    words = configured(machine, f"report_url = {other.origin}/events")
    names = [f"d{number}" for number in range(5)]
    assert machine.apply([deployment(each) for each in names], *words).code == 0
    found = [(each["subject"], each["type"].rpartition(".")[2]) for each in told(other)]
    assert found == [(name, change) for name in names for change in ("begun", "ended")]
    machine.apply([deployment(each) for each in names], *words)
    assert len(other.signals) == 10


def test_deployments_of_a_stack_say_so(machine: Machine, other: SignalServer) -> None:
    """The notices have the name of the stack, and a file gets the lines of a console."""
    console = machine.folder / "console"
    console.touch()
    words = configured(
        machine, f"report_url = {other.origin}/events", f"console = {console}"
    )
    template = machine.write(TEMPLATE, "shop.yaml")
    done = machine.apply(template, *words)
    assert done.code == 0, done.out + done.err
    assert [each["data"]["stack"] for each in told(other)] == ["shop"] * len(
        other.signals
    )
    assert [each["type"].rpartition(".")[2] for each in told(other)] == [
        "begun",
        "ended",
        "delivered",
    ]
    lines = [
        line.split(": ")[2].partition(" after ")[0]
        for line in console.read_text().splitlines()
    ]
    assert lines == ["begins CREATE (script)", "done"]


@pytest.mark.fault(
    1,
    "a server for events that refuses, hangs or hangs up, and a console that is not there",
    "the result, the exit code and what is printed are as without them",
)
@pytest.mark.parametrize(
    "answer", [Answer(status=500), Answer(delay=3600), Answer(hang_up=True)]
)
def test_a_report_that_fails_changes_nothing(
    machine: Machine, heat: SignalServer, other: SignalServer, answer: Answer
) -> None:
    """The result, the exit code and what is printed are as without it."""
    other.always = answer
    words = configured(
        machine,
        f"report_url = {other.origin}/events",
        f"console = {machine.folder}/missing",
    )
    done = machine.apply([deployment("d1", signal=heat.url("d1"))], *words)
    assert (done.code, done.err) == (0, "")
    assert len(heat.values("d1")) == 1
    assert not (machine.folder / "missing").exists()


def test_each_run_is_a_span(machine: Machine, other: SignalServer) -> None:
    """A collector has a span of each run before the command ends, in the trace of its deployment, without secrets."""
    words = configured(machine, f"trace_url = {other.origin}/v1/traces")
    inputs = {
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "db_password": "hunter2hunter2",
    }
    failing = '#!/bin/sh\necho "$db_password"\nexit 3\n'
    done = machine.apply(
        [deployment("d1", failing, inputs=inputs), deployment("d2")], *words
    )
    assert done.code == 1
    spans = [
        each["resourceSpans"][0]["scopeSpans"][0]["spans"][0] for each in told(other)
    ]
    assert {request.path for request in other.signals} == {"/v1/traces"}
    assert [each["name"] for each in spans] == ["CREATE d1", "CREATE d2"]
    assert [each["status"].get("message") for each in spans] == ["exit code 3", None]
    assert spans[0]["parentSpanId"] == "b7ad6b7169203331"
    assert all(
        0 < int(each["startTimeUnixNano"]) <= int(each["endTimeUnixNano"])
        for each in spans
    )
    assert b"hunter2" not in b"".join(request.body for request in other.signals)


@pytest.mark.parametrize("setting", ["report_url", "trace_url"])
@pytest.mark.parametrize(
    "url",
    [
        "events.example",
        "ftp://events.example/",
        "http:///x",
        "http://[::1/",
        "http://h:x/",
    ],
)
def test_unusable_report_url_is_a_mistake(
    machine: Machine, url: str, setting: str
) -> None:
    """Is a mistake in the settings, which is not repeated: it may have a secret."""
    done = machine.apply([deployment("d1")], *configured(machine, f"{setting} = {url}"))
    assert done.code == 2
    assert (
        f"{setting} needs a URL of http or https ({setting} of [agent], "
        in done.err.replace("\n", " ")
    )
