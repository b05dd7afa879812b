from __future__ import annotations

from typing import Any

import pytest

from heat_config_agent.deployments import jobs, metadata
from heat_config_agent.engine.launch import RunEnd
from heat_config_agent.engine.results import RERUNS, BrokenOff, consequence
from heat_config_agent.model.deployment import Document, Job
from heat_config_agent.model.entry import State
from heat_config_hooks.reply import TIMED_OUT, UNKNOWN
from support.entries import RUN, entry
from support.machine import deployment


def concluded(
    reruns: int = 0, *, idempotent: bool = False, **end: Any
) -> str | int | BrokenOff:
    """Return what follows from the end of a run."""
    content = [deployment("a", "text", options={"idempotent": idempotent})]
    (parsed,) = metadata.parse(Document(source="test", content=content)).deployments
    known = entry(parsed, State.RUNNING, reruns=reruns)
    job: Job | None = jobs.of_run(parsed, RUN)
    return consequence(RunEnd(**{"same_boot": True, **end}), known, job)


def test_an_exit_code_is_what_counts() -> None:
    """Any exit code is passed on, and the hook decides what it means."""
    assert concluded(recorded="3") == 3


def test_a_command_that_was_not_run_is_planned_again() -> None:
    """The supervisor of such a command exited without the agent's word."""
    assert (
        concluded(recorded="unstarted", ending="its deployment was replaced")
        == "not started"
    )


def test_a_run_that_the_agent_ended_has_timed_out() -> None:
    """Even if its command recorded an exit code while it was ended."""
    ended = concluded(recorded="0", ending="it timed out after 3 s")
    assert ended == BrokenOff(TIMED_OUT, "ended because it timed out after 3 s")


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        ({}, "interrupted: its supervisor was killed, so it is not known how it ended"),
        ({"same_boot": False}, "interrupted: the machine went down while it ran"),
        (
            {"displaced": True},
            "it is not known how it ended: the record of it was removed or replaced while it ran",
        ),
        (
            {"same_boot": False, "had_ended": True, "had_remains": True},
            (
                "interrupted: the machine went down before its output was safe on disk; "
                "its remaining processes were killed"
            ),
        ),
        (
            {"unreadable": "Input/output error"},
            "it is not known how it ended: cannot read the record of it: Input/output error",
        ),
    ],
)
def test_a_run_without_a_record_is_never_a_success(
    end: dict[str, Any], reason: str
) -> None:
    """The reason says why nothing is known about its end."""
    assert concluded(**end) == BrokenOff(UNKNOWN, reason)


def test_an_idempotent_deployment_is_run_again_a_few_times() -> None:
    """The number of repetitions is limited, because the deployment may itself cause the interruption."""
    assert concluded(idempotent=True) == "interrupted"
    assert isinstance(concluded(RERUNS, idempotent=True), BrokenOff)
