"""The reason of a revision that has failed, from what its command has printed."""

from __future__ import annotations

import pytest

from heat_config_stack.follow.outcome import reason_of

HEAT = "Resource CREATE failed: Error: resources.d: Deployment to server failed: deploy_status_code : Deployment exited"

TWO = """\
FAILED    d1   CREATE   script         2.80 s  interrupted: the machine went down while it ran
OK        d2   CREATE   script         0.80 s
"""
ROW = "FAILED    deployment   CREATE       3.62 s  exit code "
END = "web: CREATE_FAILED in 0.30 s\n"


@pytest.mark.parametrize(
    ("printed", "reason"),
    [
        ("", ""),
        ("error: cannot read it\nmore", "cannot read it"),
        (
            f"{TWO}2 deployments: 1 ok, 1 failed\n",
            "2 deployments: 1 ok, 1 failed; d1: interrupted: the machine went down while it ran",
        ),
        (
            "FAILED    d1   CREATE   script         12 s  exit code 3\n1 deployment: 1 failed\n",
            "1 deployment: 1 failed; d1: exit code 3",
        ),
        (
            f"{ROW}125: interrupted: the machine went down\n{END}{HEAT} with non-zero status code: 125\nlast:",
            f"{HEAT} with non-zero status code: 125; deployment: interrupted: the machine went down",
        ),
        (
            f"{ROW}3\n{END}{HEAT} with non-zero status code: 3\n",
            f"{HEAT} with non-zero status code: 3",
        ),
    ],
)
def test_reason_has_that_of_the_deployment(printed: str, reason: str) -> None:
    """The deployment and its reason follow the summary, unless the summary has the reason."""
    assert reason_of(printed) == reason
