"""The JSON Schemas say what the agent takes and what it sends: neither more nor less, where a schema can say it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from cli.test_cases import CASES, INSTALLED, content_of, load
from fuzz.examples import entries, tries
from heat_config_agent.deployments import metadata, plan
from heat_config_agent.deployments.plan import Known, Step, Verb
from heat_config_agent.model.deployment import Deployment, Document
from heat_config_agent.runs.tools import Tools
from heat_config_hooks import HOOKS, durations, options
from heat_config_hooks.reply import UNKNOWN
from support.machine import deployment
from support.schemas import FOLDER, schema, wrong

SAMPLES = sorted((Path(__file__).parents[1] / "samples").glob("*.json"))
UNSAID = {
    "component-with-an-action-twice": {"a"},  # an action is in one config at most
    "integer-and-text-id": {"1234"},  # each id is there once
    "options-of-other-peoples-hooks": {"d", "e", "g"},  # the options of a component
    "options-of-two-tools": {"c", "d", "f", "g"},
    "plain-options-have-no-sections": {"a", "b"},  # which options a tool has
    "same-id-twice": {"a"},
    "sectioned-options": {"d", "g", "h", "i"},
    "unknown-options": {"a", "b", "c", "d", "e"},
}
"""By case, the ids of entries with mistakes that no schema, or only one for each tool, could say."""


def test_the_schemas_are_schemas() -> None:
    """They follow the draft that they name, and each has a description."""
    assert sorted(each.name for each in FOLDER.iterdir()) == [
        "deployment.json",
        "result.json",
    ]
    for name in ("deployment", "result"):
        value = schema(name)
        Draft202012Validator.check_schema(value)
        assert value["$schema"] == Draft202012Validator.META_SCHEMA["$schema"]
        assert value["description"]


def test_the_schema_knows_our_tools_and_their_common_options() -> None:
    """The schema has the same tools and common options as the code."""
    value = schema("deployment")
    assert value["allOf"][1]["if"]["properties"]["group"]["enum"] == sorted(HOOKS)
    assert set(value["$defs"]["options"]["properties"]) == set(options.COMMON)
    assert (
        value["$defs"]["options"]["properties"]["timeout"]["anyOf"][0]["maximum"]
        == durations.LONGEST
    )


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_recorded_entries_of_heat_are_valid(path: Path) -> None:
    """Every entry that was recorded."""
    found = json.loads(path.read_bytes())["deployments"]
    assert found
    assert [wrong("deployment", each) for each in found] == [[] for _ in found]


def planned(content: object, hooks: Path) -> list[tuple[object, Step]]:
    """Return each entry of a document, and what is to be done about it."""
    tools = Tools([hooks])
    parsed = metadata.parse(Document(source="case", content=content))
    known = Known(entries={}, tools=tools.installed(), now=time.time())
    found = (
        content["deployments"]
        if isinstance(content, dict) and parsed.deployments
        else content
    )
    assert isinstance(found, list) or not parsed.deployments
    return [
        (found[index(step.deployment)], step)  # type: ignore[index]
        for step in plan.make(parsed.deployments, known)
    ]


def index(given: Deployment) -> int:
    """Return the place of an entry in its document."""
    return int(given.where.partition("[")[2].rstrip("]"))


def without_options(entry: Any) -> Any:
    """Return an entry without what only its own hook understands."""
    return {name: value for name, value in entry.items() if name != "options"}


@pytest.mark.parametrize("name", sorted(each.stem for each in CASES.glob("*.yaml")))
def test_schema_agrees_with_the_agent(name: str, tmp_path: Path) -> None:
    """The schema agrees with the agent on each entry of each case."""
    for tool in INSTALLED:
        (tmp_path / tool).touch()
    unsaid = set()
    for entry, step in planned(content_of(load(f"{name}.yaml")), tmp_path):
        found = wrong("deployment", entry)
        if step.job and not step.job.tool.builtin:
            assert wrong("deployment", without_options(entry)) == []
        elif step.verb is not Verb.ANSWER:
            assert found == [], step.deployment.id
        elif step.reply and step.reply["deploy_status_code"] == UNKNOWN and not found:
            unsaid.add(step.deployment.id)
    assert unsaid == UNSAID.get(name, set())


@pytest.mark.slow
@tries(150, entries)
def test_nothing_that_is_run_is_refused_by_the_schema(entry: Any) -> None:
    """The schema accepts every document that runs, whatever else it contains."""
    [(_, step)] = planned([entry], Path("/no/such/folder"))
    found = wrong("deployment", entry)
    assert step.verb is not Verb.RUN or found == []
    whole = isinstance(entry.get("id"), float)  # to a schema 1.0 is a whole number
    assert not step.deployment.mistakes or found != [] or whole


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"id": None}, "$.id"),
        ({"id": ""}, "$.id"),
        ({"id": True}, "$.id"),
        ({"name": 7}, "$.name"),
        ({"group": ["script"]}, "$.group"),
        ({"inputs": {"a": 1}}, "$.inputs"),
        ({"inputs": [{"value": 1}]}, "$.inputs[0]"),
        ({"inputs": [{"name": "a", "type": None}]}, "$.inputs[0].type"),
        ({"outputs": ["a"]}, "$.outputs[0]"),
        ({"outputs": [{"name": "a/b"}]}, "$.outputs[0].name"),
        ({"outputs": [{"name": "a\0b"}]}, "$.outputs[0].name"),
        ({"options": "timeout=5"}, "$.options"),
        ({"options": {"timeout": "soon"}}, "$.options.timeout"),
        ({"options": {"timeout": 0}}, "$.options.timeout"),
        ({"options": {"idempotent": 2}}, "$.options.idempotent"),
        ({"options": {"deploy_credentials": "yes"}}, "$.options.deploy_credentials"),
        ({"group": "component"}, "$.config"),
        ({"group": "component", "config": "#!/bin/sh"}, "$.config"),
        (
            {"group": "component", "config": {"configs": [{"actions": ["CREATE"]}]}},
            "$.config",
        ),
        ({"group": "component", "config": {"configs": []}, "inputs": []}, "$.inputs"),
    ],
)
def test_mistake_is_reported_with_its_path(fields: dict[str, Any], path: str) -> None:
    """A mistake in each field is reported with its path."""
    found = wrong("deployment", {**deployment("a", config=[]), **fields})
    assert [each.partition(": ")[0] for each in found] == [path]


@pytest.mark.parametrize("value", [None, [], "text", 7, {}])
def test_entry_without_an_id_does_not_match_the_schema(value: object) -> None:
    """An entry may be anything."""
    assert wrong("deployment", value) != []


@pytest.mark.parametrize(
    "fields",
    [
        {"deploy_status_code": 0},
        {"deploy_status_code": "0"},
        {"deploy_status_code": -15, "deploy_stdout": "", "deploy_stderr": "é"},
        {"deploy_status_code": "137", "out": {"a": [None, 1.5]}, "": "", "other": None},
    ],
)
def test_a_result_has_a_status_code_and_outputs(fields: dict[str, Any]) -> None:
    """Anything may be an output."""
    assert wrong("result", fields) == []


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"deploy_stdout": "", "deploy_stderr": ""},
        {"deploy_status_code": None},
        {"deploy_status_code": True},
        {"deploy_status_code": ""},
        {"deploy_status_code": " 0"},
        {"deploy_status_code": "00"},
        {"deploy_status_code": 0.5},
        {"deploy_status_code": [0]},
        {"deploy_status_code": 0, "deploy_stdout": None},
        {"deploy_status_code": 0, "deploy_stderr": ["line"]},
    ],
)
def test_result_without_a_status_does_not_match_the_schema(
    fields: dict[str, Any],
) -> None:
    """To Heat it would be a success."""
    assert wrong("result", fields) != []


@pytest.mark.parametrize("value", [None, [], "text", 0])
def test_a_result_is_an_object(value: object) -> None:
    """Any other is an error inside Heat."""
    assert wrong("result", value) != []
