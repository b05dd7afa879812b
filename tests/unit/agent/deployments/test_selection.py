from __future__ import annotations

import json
from typing import Any

import pytest

from heat_config_agent.deployments import metadata, selection
from heat_config_agent.model.deployment import Config, Deployment, Document
from support.machine import deployment

ONE = {"actions": ["CREATE", "UPDATE"], "tool": "script", "config": "one"}
TWO = {"actions": ["DELETE"], "tool": "ansible", "config": "two"}
TWO_CHOSEN = Config(tool="ansible", config="two", others=frozenset({"script"}))


def component(config: object, **fields: Any) -> Deployment:
    """Return a deployment of the group `component`, unless the fields say otherwise."""
    given = deployment("d1", config, **{"group": "component", **fields})
    return metadata.parse(Document(source="test", content=[given])).deployments[0]


def select(
    config: object, **fields: Any
) -> Config | selection.Nothing | tuple[str, ...]:
    """Select; of mistakes return the paths."""
    found = selection.select(component(config, **fields))
    return tuple(each.path for each in found) if isinstance(found, tuple) else found


def test_a_plain_deployment_is_its_own_config() -> None:
    """The group of a plain deployment is its tool, for any action."""
    given = component("text", group="puppet", options={"a": 1}, action="DELETE")
    assert selection.select(given) == Config(
        tool="puppet", config="text", options={"a": 1}
    )


@pytest.mark.parametrize(
    ("action", "tool", "config", "other"),
    [
        ("CREATE", "script", "one", "ansible"),
        ("UPDATE", "script", "one", "ansible"),
        ("DELETE", "ansible", "two", "script"),
    ],
)
def test_the_config_whose_actions_name_the_action_is_chosen(
    action: str, tool: str, config: str, other: str
) -> None:
    """The config of a component is chosen with its tool."""
    found = select({"configs": [ONE, TWO]}, action=action)
    assert found == Config(tool=tool, config=config, others=frozenset({other}))


def test_an_action_of_the_authors_own_is_treated_alike() -> None:
    """Any name may be an action."""
    config = {"configs": [ONE, {**TWO, "actions": ["BACK_UP now"]}]}
    assert select(config, action="BACK_UP now") == TWO_CHOSEN


def test_an_action_is_a_name_exactly() -> None:
    """The case of an action's name counts."""
    assert isinstance(select({"configs": [ONE]}, action="create"), selection.Nothing)


def test_a_component_may_be_json_text() -> None:
    """Some senders write it so."""
    assert select(json.dumps({"configs": [ONE, TWO]}), action="DELETE") == TWO_CHOSEN


@pytest.mark.parametrize("config", [{"configs": [ONE, TWO]}, {"configs": []}])
def test_an_action_in_no_config_has_nothing_to_run(config: object) -> None:
    """An action in no config runs nothing, and that is not a mistake."""
    assert select(config, action="SUSPEND") == selection.Nothing(
        "the component has no config for SUSPEND"
    )


def test_an_action_twice_in_one_config_is_once_too_many_but_clear() -> None:
    """An action that one config names twice still selects that config."""
    assert select({"configs": [{**ONE, "actions": ["CREATE", "CREATE"]}]}) == Config(
        tool="script", config="one"
    )


def test_an_action_in_two_configs_is_a_mistake_that_names_both() -> None:
    """Nothing may be run then."""
    found = selection.select(component({"configs": [ONE, TWO, ONE]}, action="UPDATE"))
    assert isinstance(found, tuple)
    assert [each.path for each in found] == ["[0].config"]
    assert "configs[0]" in found[0].problem
    assert "configs[2]" in found[0].problem


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (None, ["config"]),
        (5, ["config"]),
        ([], ["config"]),
        ({}, ["config"]),
        ("", ["config"]),
        ("echo hi", ["config"]),
        ("[]", ["config"]),
        ("[" * 100_000, ["config"]),
        ({"configs": {"a": ONE}}, ["config"]),
        ({"configs": None}, ["config"]),
        ({"configs": [None]}, ["config.configs[0]"]),
        ({"configs": [ONE, "text"]}, ["config.configs[1]"]),
        ({"configs": [{"tool": "script"}]}, ["config.configs[0].actions"]),
        ({"configs": [{**ONE, "actions": "CREATE"}]}, ["config.configs[0].actions"]),
        ({"configs": [{**ONE, "actions": [1]}]}, ["config.configs[0].actions"]),
        ({"configs": [{"actions": ["CREATE"]}]}, ["config.configs[0].tool"]),
        ({"configs": [{**ONE, "tool": ""}]}, ["config.configs[0].tool"]),
        (
            {"configs": [{**ONE, "tool": 1}, {}]},
            [f"config.configs[{each}" for each in ("0].tool", "1].actions", "1].tool")],
        ),
    ],
)
def test_a_component_of_another_shape_is_a_mistake_with_its_path(
    config: object, expected: list[str]
) -> None:
    """Every mistake is collected, also in configs for other actions."""
    assert select(config) == tuple(f"[0].{each}" for each in expected)


def test_a_component_needs_an_action() -> None:
    """Without one it cannot be said what to run."""
    assert select({"configs": [ONE]}, action=None) == ("[0].inputs",)


@pytest.mark.parametrize(
    ("options", "chosen"),
    [
        ({}, {}),
        ({"timeout": 3}, {"timeout": 3}),
        ({"script": {"timeout": 3}, "ansible": {"tags": "x"}}, {"timeout": 3}),
        ({"script": {}, "timeout": 3}, {}),
        ({"ansible": {"tags": "x"}}, {}),
        ({"ansible": {"tags": "x"}, "timeout": 3}, {"timeout": 3}),
        ({"ansible": "no section"}, {"ansible": "no section"}),
        ({"mine": {"tags": "x"}}, {"mine": {"tags": "x"}}),
        ({"script": "no section"}, {"script": "no section"}),
    ],
)
def test_the_options_are_the_tools_section_or_all(
    options: dict[str, object], chosen: dict[str, object]
) -> None:
    """Where the component's options have a section under the tool's name, that is what the tool gets."""
    found = select({"configs": [ONE]}, options=options)
    assert isinstance(found, Config)
    assert found.options == chosen


@pytest.mark.parametrize(
    ("options", "section", "others"),
    [
        ({}, "options", {"ansible", "mine"}),
        ({"timeout": 3}, "options", {"ansible", "mine"}),
        ({"ansible": {}, "timeout": 3}, "options", {"mine"}),
        ({"ansible": "no section"}, "options", {"ansible", "mine"}),
        ({"script": {"timeout": 3}, "tags": "x"}, "options.script", set()),
        ({"mine": {}, "ansible": {}}, "options", set()),
    ],
)
def test_options_without_a_section_are_for_all_tools_that_have_none(
    options: dict[str, object], section: str, others: set[str]
) -> None:
    """Options outside a section apply to all tools without a section, so that unknown ones can be reported."""
    configs = [
        ONE,
        TWO,
        {"actions": ["SUSPEND"], "tool": "mine"},
        {"actions": ["RESUME"], "tool": "script"},
    ]
    found = select({"configs": configs}, options=options)
    assert isinstance(found, Config)
    assert (found.section, set(found.others)) == (section, others)


def test_a_section_named_after_a_tool_of_the_component_is_that_tools() -> None:
    """A section named after a tool of the component belongs to that tool, also if the tool is unknown."""
    found = select(
        {"configs": [ONE, {"actions": ["DELETE"], "tool": "mine"}]},
        options={"mine": {"x": 1}},
    )
    assert isinstance(found, Config)
    assert found.options == {}


def test_the_options_of_a_plain_deployment_have_no_sections() -> None:
    """All options of a plain deployment belong to its tool, whatever their names."""
    found = select("text", group="script", options={"script": {"timeout": 3}})
    assert found == Config(
        tool="script", config="text", options={"script": {"timeout": 3}}
    )


def test_a_config_without_a_config_is_given_nothing() -> None:
    """Some tools need none."""
    assert select(
        {"configs": [{"actions": ["CREATE"], "tool": "apply-config"}]}
    ) == Config(tool="apply-config", config=None)


def test_a_hook_gets_the_entry_as_it_came() -> None:
    """Unknown keys and all; only the config is chosen, and inputs said to be text are text."""
    given = component(
        {"configs": [ONE]},
        inputs=[
            {"name": "n", "type": "String", "value": 7, "x": 1},
            {"name": "m", "value": 7},
        ],
        options={"script": {"timeout": 3}},
        later={"unknown": True},
    )
    chosen = selection.request(given, Config(tool="script", config="one"))
    inputs, before = chosen.pop("inputs"), given.document["inputs"]
    assert isinstance(inputs, list)
    assert isinstance(before, list)
    assert inputs[:2] == [
        {"name": "n", "type": "String", "value": "7", "x": 1},
        {"name": "m", "value": 7},
    ]
    assert inputs[2:] == before[2:], (
        "what every deployment of the tests has beside them"
    )
    whole = dict(given.document)
    assert chosen.pop("group") == "script"
    assert chosen.pop("config") == "one"
    assert chosen == {
        name: whole[name] for name in whole if name not in ("group", "config", "inputs")
    }


def test_choosing_changes_nothing_of_the_deployment() -> None:
    """Selecting a config leaves the deployment's own content unchanged."""
    given = component(
        {"configs": [ONE]}, inputs=[{"name": "n", "type": "String", "value": 7}]
    )
    before = json.dumps(given.document)
    selection.request(given, Config(tool="script", config="one"))
    assert json.dumps(given.document) == before
