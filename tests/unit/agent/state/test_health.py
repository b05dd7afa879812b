from __future__ import annotations

import time
from pathlib import Path

import pytest

from heat_config_agent.state import health
from heat_config_agent.state.health import Health

CONDITION = {"name": "heat", "from": "", "working": None, "since": 1.0, "answered": None, "failures": 0, "trouble": "x"}


def test_what_is_written_is_read(tmp_path: Path) -> None:
    """By whoever looks."""
    health.write(tmp_path, Health(process=7, version="1", started=1.5, sources=(CONDITION,), reboot=("d1",)))
    found = health.read(tmp_path)
    assert (found["process"], found["ended"], found["sources"], found["reboot"]) == (7, None, [CONDITION], ["d1"])
    assert abs(float(str(found["at"])) - time.time()) < 60


@pytest.mark.parametrize("content", [None, b"", b"\0", b"[]", b"5", b"\xff"])
def test_a_file_that_says_nothing(tmp_path: Path, content: bytes | None) -> None:
    """Is as if there were none."""
    if content is not None:
        (tmp_path / health.FILE).write_bytes(content)
    assert health.read(tmp_path) == {}


def test_metrics_of_sources() -> None:
    """One sample for each source, though it may be asked in two ways; none where nothing is known."""
    two = [{**CONDITION, "working": False, "failures": 3}, {**CONDITION, "working": True, "answered": 5.0}]
    text = health.metrics(Health(process=1, version="1", started=0, sources=tuple(two)), [])
    assert 'heat_config_agent_source_working{source="heat"} 1.0\n' in text
    assert 'heat_config_agent_source_failures{source="heat"} 3.0\n' in text
    text = health.metrics(Health(process=1, version="1", started=0, sources=(CONDITION,), ended=3), [])
    assert "source_working" not in text
    assert "heat_config_agent_up 0.0\n" in text
    assert "heat_config_agent_deployments_failed 0.0\n" in text
