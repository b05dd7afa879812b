from __future__ import annotations

from typing import Any

import pytest

from heat_config_agent.deployments import jobs, metadata
from heat_config_agent.model.deployment import Document
from support.entries import RUN
from support.machine import deployment


def may_rerun(**fields: Any) -> bool:
    """Return whether a deployment may be run again if the outcome of its run is unknown."""
    (parsed,) = metadata.parse(
        Document(source="test", content=[deployment("a", **fields)])
    ).deployments
    job = jobs.of_run(parsed, RUN)
    return job is not None and job.idempotent


@pytest.mark.parametrize(
    ("options", "may"),
    [
        ({}, False),
        ({"idempotent": True}, True),
        ({"idempotent": "true"}, True),
        ({"idempotent": False}, False),
        ({"idempotent": "yes"}, False),
        ({"idempotent": 1}, True),
        ({"idempotent": 2}, False),
        ({"idempotent": ""}, False),
        ({"idempotent": None}, False),
        ({"timeout": "soon", "deploy_credentials": "?"}, False),
        ({"timeout": "soon", "idempotent": True}, True),
    ],
)
@pytest.mark.parametrize("group", ["script", "mine"])
def test_only_hooks_that_declare_it_are_run_again(
    options: dict[str, object], may: bool, group: str
) -> None:
    """Only a built-in hook that declares it is run again, as options of other hooks may mean anything."""
    assert may_rerun(group=group, options=options) is may


def test_of_a_component_the_options_of_the_tool_say_it() -> None:
    """As for everything else."""
    component = {"configs": [{"actions": ["CREATE"], "tool": "script", "config": ""}]}
    assert may_rerun(
        config=component, group="component", options={"script": {"idempotent": True}}
    )
    assert not may_rerun(
        config=component, group="component", options={"script": {}, "idempotent": True}
    )


def test_deployment_without_a_config_is_not_run_again() -> None:
    """A deployment whose config can no longer be selected is not run again."""
    assert not may_rerun(config={}, group="component", options={"idempotent": True})
