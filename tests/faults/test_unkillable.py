"""A run whose process the kernel will not let go of."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.loopback import SignalServer
from support.machine import Machine, deployment

pytestmark = pytest.mark.takes(20)

FREEZER = Path("/sys/fs/cgroup/freezer")


@pytest.fixture
def freezer() -> Iterator[Path]:
    """A control group whose processes are frozen: no signal reaches them, not even KILL."""
    if os.geteuid() != 0 or not (FREEZER / "tasks").exists():
        pytest.skip(
            "needs root and the freezer controller of cgroup v1, mounted at /sys/fs/cgroup/freezer"
        )
    group = FREEZER / f"heat-config-agent-{os.getpid()}"
    group.mkdir()
    yield group
    (group / "freezer.state").write_text("THAWED")


@pytest.mark.fault(
    3,
    "a run that the kernel does not let go of (frozen)",
    "it is given up after a while with a sentence; the next deployment has its turn",
)
def test_unkillable_run_delays_no_other(
    machine: Machine, heat: SignalServer, freezer: Path
) -> None:
    """After a while the run is given up and reported as unkillable, and the next deployment begins."""
    script = f"#!/bin/sh\necho before\necho $$ >{freezer}/tasks\necho FROZEN >{freezer}/freezer.state\nsleep 60\n"
    stuck = deployment(
        "stuck", script, options={"timeout": 0.2}, signal=heat.url("stuck")
    )
    after = deployment("after", "#!/bin/sh\n", signal=heat.url("after"))
    done = machine.apply([stuck, after], "--grace", "0.1")
    (freezer / "freezer.state").write_text("THAWED")
    assert done.code == 1
    assert "cannot end process" in done.err
    assert [each["deploy_status_code"] for each in heat.values("stuck")] == [124]
    assert heat.values("stuck")[0]["deploy_stdout"] == "before\n"
    assert [each["deploy_status_code"] for each in heat.values("after")] == [0]
