"""The cases: each file has a document, and the step for each deployment with words of its reason."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from heat_config_agent.deployments import metadata, plan
from heat_config_agent.deployments.plan import Known, Step
from heat_config_agent.model.deployment import Document
from heat_config_agent.runs.tools import Tools
from heat_config_agent.sources import document_text
from heat_config_hooks.reply import UNKNOWN

CASES = Path(__file__).parents[1] / "cases"
INSTALLED = ("ansible", "puppet")
"""The hooks in a hook directory, beside ours."""


def load(name: str) -> dict[str, Any]:
    """Read a case, which has to say what it is about."""
    case = yaml.safe_load((CASES / name).read_text())
    assert isinstance(case, dict)
    assert set(case) <= {"name", "document", "text", "steps", "mistakes"}, (
        "a case has no other keys"
    )
    assert case["name"]
    return case


def content_of(case: dict[str, Any]) -> object:
    """Return the document: as it stands in the case, or read from the `text` as a source would."""
    return (
        document_text.load(case["text"], "text") if "text" in case else case["document"]
    )


def found(step: Step) -> dict[str, Any]:
    """Return what a case says of a step."""
    refused = step.reply is not None and step.reply["deploy_status_code"] == UNKNOWN
    values = {
        "id": step.deployment.id,
        "step": step.verb.value,
        "tool": step.job.tool.name if step.job else None,
        "options": dict(step.job.config.options) if step.job else None,
        "code": step.reply["deploy_status_code"] if step.reply else None,
        "mistakes": [line.partition(": ")[0] for line in step.reason.splitlines()]
        if refused
        else None,
    }
    return {name: value for name, value in values.items() if value is not None}


@pytest.mark.parametrize("name", sorted(each.name for each in CASES.glob("*.yaml")))
def test_the_plan_and_the_mistakes_are_those_of_the_case(
    name: str, tmp_path: Path
) -> None:
    """The steps are those of the case, and what else is wrong in the document is said with its path."""
    for tool in INSTALLED:
        (tmp_path / tool).touch()
    tools = Tools([tmp_path])
    case = load(name)
    parsed = metadata.parse(Document(source="case", content=content_of(case)))
    known = Known(entries={}, tools=tools.installed(), now=time.time())
    steps = plan.make(parsed.deployments, known)
    said = [each.pop("says", "") for each in case["steps"]]
    assert [found(step) for step in steps] == case["steps"], case["name"]
    assert [
        (step.reason, words)
        for step, words in zip(steps, said, strict=True)
        if words not in step.reason
    ] == []
    assert [each.path for each in parsed.mistakes] == case.get("mistakes", []), case[
        "name"
    ]
    assert all(each.problem for each in parsed.mistakes)


def test_there_are_cases() -> None:
    """An empty folder would pass."""
    assert len(list(CASES.glob("*.yaml"))) >= 40
