from __future__ import annotations

from typing import Any

import pytest

from heat_config_agent.deployments import metadata
from heat_config_agent.masking import redaction
from heat_config_agent.model.deployment import Config, Deployment, Document, Job, Tool
from heat_config_agent.settings import policy

REFERENCE = {"secret": "file:db/password"}


def parsed(name: str, **item: Any) -> Deployment:
    """Return a deployment with one input."""
    content = [{"id": "d1", "group": "script", "inputs": [{"name": name, **item}]}]
    return metadata.parse(Document(source="file", content=content)).deployments[0]


@pytest.mark.parametrize(
    "item",
    [
        {"value": REFERENCE},
        {"type": "String", "value": REFERENCE},
        {"type": "Json", "default": REFERENCE},
        {"type": "String", "value": '{"secret": "file:db/password"}'},
        {"type": "String", "value": "{'secret': 'file:db/password'}"},
        {
            "type": "Json",
            "value": {"user": "x", "password": REFERENCE, "again": REFERENCE},
        },
    ],
)
def test_an_input_may_refer_to_a_secret(item: dict[str, Any]) -> None:
    """As a value, as text that a template made of it, or as a member of an object; nothing of it is a mistake."""
    found = parsed("password", **item)
    assert found.references == ("file:db/password",)
    assert found.mistakes == ()
    value = metadata.resolved(
        item.get("value", item.get("default")), {"file:db/password": "s"}
    )
    assert value == (
        {"user": "x", "password": "s", "again": "s"} if "user" in str(item) else "s"
    )


@pytest.mark.parametrize(
    "value",
    [
        {"secret": "no scheme"},
        {"secret": "Upper:x"},
        {"secret": 5},
        {"secret": "file:x", "more": 1},
        "file:x",
        '{"secret": "x"}',
        '{"secret": "file:x"} and more',
        [REFERENCE],
        {"deep": {"er": REFERENCE}},
        None,
    ],
)
def test_other_values_stay_as_they_are(value: object) -> None:
    """A value that only resembles a reference is not one."""
    assert parsed("x", type="Json", value=value).references == ()
    assert metadata.resolved(value, {"file:x": "s"}) == value


def test_a_reference_is_shown_and_the_rest_of_its_object_is_not() -> None:
    """The name of an input tells that its value is secret; a reference by itself is not."""
    alone, mixed = (
        parsed("password", value=REFERENCE),
        parsed("password", value={"a": REFERENCE, "b": "hidden"}),
    )
    assert not redaction.is_secret(alone.inputs[0])
    assert redaction.is_secret(mixed.inputs[0])


@pytest.mark.parametrize(
    "reference", ["file:", "file:a\nb", f"file:{'x' * 501}", "file:a\0b"]
)
def test_an_impossible_reference_is_a_mistake(reference: str) -> None:
    """An impossible reference fails its deployment, with the path of the value."""
    (mistake,) = parsed("x", value={"secret": reference}).mistakes
    assert str(mistake).startswith("[0].inputs[0].value: expected SCHEME:REFERENCE")


def test_the_inputs_of_the_agent_cannot_be_references() -> None:
    """The agent itself resolves none."""
    (mistake,) = parsed("deploy_signal_id", value=REFERENCE).mistakes
    assert "deploy_…" in mistake.problem


@pytest.mark.parametrize(
    ("rule", "allowed"),
    [
        ("file", True),
        ("env, file:db/password", True),
        ("file:db/*", True),
        ("file:other/*", False),
        ("file:db", False),
        ("env", False),
        ("none", False),
        ("file:*", True),
    ],
)
def test_a_policy_lists_references(rule: str, allowed: bool) -> None:
    """By provider, by name, or by the beginning of a name."""
    rules = policy.parse("/p", f"[policy]\nsecrets = {rule}\n")
    found = parsed("x", value=REFERENCE)
    job = Job(
        deployment=found,
        config=Config(tool="script", config=""),
        tool=Tool("script", "builtin:script"),
        request={},
    )
    sentence = rules.refusal(job)
    wanted = (
        "refused by the rule secrets of /p: the reference file:db/password is not in it"
    )
    assert sentence == ("" if allowed else wanted)
