from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from heat_config_agent.model.entry import Entry, Removed, State
from heat_config_agent.state import health
from heat_config_agent.state.health import Health
from heat_config_hooks import processes
from support import entries

CONDITION = {
    "name": "heat",
    "from": "",
    "working": None,
    "since": 1.0,
    "answered": None,
    "failures": 0,
    "trouble": "x",
}


def test_written_health_is_read_back(tmp_path: Path) -> None:
    """A report reads the same in another process."""
    health.write(
        tmp_path,
        Health(
            process=7, version="1", started=1.5, sources=(CONDITION,), reboot=("d1",)
        ),
    )
    found = health.read(tmp_path)
    assert (found["process"], found["ended"], found["sources"], found["reboot"]) == (
        7,
        None,
        [CONDITION],
        ["d1"],
    )
    assert abs(float(str(found["at"])) - time.time()) < 60


@pytest.mark.parametrize("content", [None, b"", b"\0", b"[]", b"5", b"\xff"])
def test_unreadable_health_file_counts_as_missing(
    tmp_path: Path, content: bytes | None
) -> None:
    """Is as if there were none."""
    if content is not None:
        (tmp_path / health.FILE).write_bytes(content)
    assert health.read(tmp_path) == {}


def test_each_source_has_metrics() -> None:
    """Each source has one sample, even with two transports, and none before it has a status."""
    two = [
        {**CONDITION, "working": False, "failures": 3},
        {**CONDITION, "working": True, "answered": 5.0},
    ]
    text = health.metrics(
        Health(process=1, version="1", started=0, sources=tuple(two)), []
    )
    assert 'heat_config_agent_source_working{source="heat"} 1.0\n' in text
    assert 'heat_config_agent_source_failures{source="heat"} 3.0\n' in text
    text = health.metrics(
        Health(process=1, version="1", started=0, sources=(CONDITION,), ended=3), []
    )
    assert "source_working" not in text
    assert "heat_config_agent_up 0.0\n" in text
    assert "heat_config_agent_deployments_failed 0.0\n" in text


def entry(name: str, **fields: Any) -> Entry:
    """Return the record of a deployment that has succeeded, and was accepted at 1."""
    usual: dict[str, Any] = {"at": 3.0, "accepted": 1.0, "started": 1.0, "ended": 3.0}
    usual |= {"source": "", "run": None, "values": None}
    state = fields.pop("state", State.UNASKED)
    return entries.entry(name, state, **{**usual, **fields})


def of_deployments(*entries: Entry) -> list[str]:
    """Return the samples of single deployments, without the beginning of their names."""
    text = health.metrics(Health(process=1, version="1", started=0, at=10.0), entries)
    beginning = "heat_config_agent_deployment_"
    return [
        line.removeprefix(beginning)
        for line in text.splitlines()
        if line.startswith(beginning)
    ]


def test_each_deployment_has_metrics() -> None:
    """A deployment has samples for its state, the start of its run, and its duration so far."""
    given = [
        entry("web"),
        entry("import", state=State.RUNNING, started=4.0, ended=None),
        entry("bad", failed=True, action="", started=None),
        entry("new", state=State.ACCEPTED, started=None, ended=None),
    ]
    assert sorted(of_deployments(*given)) == [
        'duration_seconds{name="import",action="CREATE",tool="script"} 6.0',
        'duration_seconds{name="web",action="CREATE",tool="script"} 2.0',
        'start_time_seconds{name="import",action="CREATE",tool="script"} 4.0',
        'start_time_seconds{name="web",action="CREATE",tool="script"} 1.0',
        'state{name="bad",action="",tool="script",state="failed"} 1.0',
        'state{name="import",action="CREATE",tool="script",state="running"} 1.0',
        'state{name="new",action="CREATE",tool="script",state="accepted"} 1.0',
        'state{name="web",action="CREATE",tool="script",state="ok"} 1.0',
    ]


def test_a_deployment_that_came_again_has_one_sample() -> None:
    """For the one that was accepted last; what was removed has none."""
    older = entry("web", key="a", failed=True)
    newer = entry("web", key="b", accepted=2.0)
    gone = entry("web", key="c", accepted=3.0, removed=Removed.ALL)
    for given in ((older, newer, gone), (gone, newer, older)):
        [state] = [line for line in of_deployments(*given) if line.startswith("state")]
        assert state == 'state{name="web",action="CREATE",tool="script",state="ok"} 1.0'


def test_their_number_is_bounded() -> None:
    """Only the deployments that changed last have samples."""
    given = [
        entry(f"d{number}", at=float(number))
        for number in range(health.MOST_DEPLOYMENTS + 50)
    ]
    states = [line for line in of_deployments(*given) if line.startswith("state")]
    assert len(states) == health.MOST_DEPLOYMENTS
    assert 'name="d50"' in states[-1]


def test_names_cannot_break_the_format() -> None:
    """Names are escaped and shortened."""
    state = next(
        line for line in of_deployments(entry('a"b\\c\nd')) if line.startswith("state")
    )
    assert (
        state
        == 'state{name="a\\"b\\\\c\\nd",action="CREATE",tool="script",state="ok"} 1.0'
    )
    assert len(of_deployments(entry("x" * 10_000))[0]) < 400


def test_each_channel_has_metrics() -> None:
    """The lost notices are a counter; without channels there is none."""
    channel = {"name": "console", "waiting": 0, "lost": 3, "trouble": ""}
    text = health.metrics(
        Health(process=1, version="1", started=0, channels=(channel,)), []
    )
    assert "# TYPE heat_config_agent_notices_lost_total counter\n" in text
    assert 'heat_config_agent_notices_lost_total{channel="console"} 3.0\n' in text
    assert "notices_lost" not in health.metrics(
        Health(process=1, version="1", started=0), []
    )


@pytest.mark.parametrize(
    ("shift", "poll", "silent"),
    [(-10, 0.0, False), (-1000, 0.0, True), (-1000, 3600.0, False)],
)
@pytest.mark.parametrize("years", [-10, 0, 10])
def test_a_set_clock_does_not_make_a_daemon_silent(
    shift: float, poll: float, silent: bool, years: int
) -> None:
    """The age of a report is measured by the time since boot, and a daemon that polls seldom reports seldom."""
    now, clock = processes.since_boot(), time.time() + years * 365 * 86400
    report = Health(
        process=1,
        boot=processes.boot_id(),
        version="1",
        started=0,
        at=clock,
        up=now + shift,
        next_poll=poll,
    )
    assert (health.silence(vars(report)) > 0) is silent
