"""Functions for whole sections, incomplete groups and older plug-ins: an answer or a mistake, and never a crash."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from heat_config_agent.model.mistake import Mistake
from heat_config_agent.model.positions import Json
from heat_config_stack.definition import Definition, Later, Look, Unresolved
from heat_config_stack.lifecycle import validation
from heat_config_stack.plugins import plugins
from heat_config_stack.resource_types import known_types
from stack.made import Function, made, script, tried, value
from stack.working import Working


class Failing(Later):
    """A function that never has a value."""

    def resolve(self, look: Look) -> Json:
        raise Unresolved(f"no value in {type(look).__name__}")

    @property
    def requires(self) -> tuple[Any, ...]:
        return ()


def with_sections(
    sections: dict[str, Any], of: Any, type_: str = "OS::Heat::Value"
) -> Definition:
    """Return a definition of `w`, a value, and `v`, whose sections are functions."""
    properties = (
        {"resource_def": {"type": "OS::Heat::None"}}
        if type_.endswith("Group")
        else {"value": 1}
    )
    definition = made(
        {
            "w": value(of),
            "v": {"type": type_, "properties": properties, "depends_on": ["w"]},
        }
    )
    changed = replace(definition.resources["v"], **sections)
    return replace(definition, resources={**definition.resources, "v": changed})


def mistakes(definition: Definition) -> list[Mistake]:
    """Return the mistakes of a definition."""
    return list(validation.mistakes(definition, known_types()))


def test_a_function_gives_all_of_the_metadata(working: Working) -> None:
    """Metadata from a function is resolved once the resource that it needs exists."""
    working.session.create(
        with_sections({"metadata": Function("w", "value")}, {"tier": "web"})
    )
    assert working.root.resources["v"].metadata_get() == {"tier": "web"}


def test_a_function_gives_all_of_an_update_policy(working: Working) -> None:
    """The group is created in its batches."""
    policy = {"batch_create": {"max_batch_size": 1}}
    definition = with_sections(
        {"update_policy": Function("w", "value")}, policy, "OS::Heat::ResourceGroup"
    )
    working.session.create(definition)
    assert working.state() == ("CREATE", "COMPLETE")
    assert working.root.resources["v"].t["UpdatePolicy"] == policy


def test_a_function_gives_the_deletion_policy(working: Working) -> None:
    """A deletion policy from a function is stored with its resource."""
    working.session.create(
        with_sections({"deletion_policy": Function("w", "value")}, "retain")
    )
    assert working.root.resources["v"].t.deletion_policy() == "Retain"


@pytest.mark.parametrize(
    ("section", "problem"),
    [
        ("metadata", "metadata must be a map"),
        ("update_policy", "update_policy must be a map"),
        ("deletion_policy", 'Invalid deletion policy "[3]"'),
    ],
)
def test_a_function_that_gives_something_else_fails_its_resource(
    working: Working, section: str, problem: str
) -> None:
    """The sentence names the section."""
    working.session.create(with_sections({section: Function("w", "value")}, [3]))
    assert working.state() == ("CREATE", "FAILED")
    assert problem in working.root.record.reason


def test_a_function_without_a_value_for_an_update_policy_is_a_mistake() -> None:
    """The mistake has the path of the section."""
    (mistake,) = mistakes(
        with_sections({"update_policy": Failing()}, 1, "OS::Heat::ResourceGroup")
    )
    assert mistake.path == ("resources", "v", "update_policy")


@pytest.mark.parametrize(
    ("properties", "problem"),
    [
        ({"resource_def": {"properties": {"value": 1}}}, "Property type not assigned"),
        (
            {"count": "two", "resource_def": {"type": "OS::Heat::Value"}},
            "Value 'two' is not an integer",
        ),
        (
            {"count": 10**30, "resource_def": {"type": "OS::Heat::None"}},
            "Maximum resources per stack exceeded",
        ),
    ],
)
def test_mistake_in_a_group_is_reported_once(
    properties: dict[str, Any], problem: str
) -> None:
    """There is one mistake, although the output cannot be checked."""
    group = {"type": "OS::Heat::ResourceGroup", "properties": properties}
    (mistake,) = mistakes(made({"g": group}, {"o": {"attr": ["g", "value"]}}))
    assert problem in mistake.problem


OLDER = """
from heat.engine import resource


class Older(resource.Resource):
    properties_schema = {
        'size': {'Type': 'Integer', 'Required': True, 'MinValue': 2, 'UpdateAllowed': True},
        'tags': {'Type': 'List', 'Schema': {'Type': 'Map', 'Schema': {'key': {'Type': 'String'}}}},
        'kind': {'Type': 'String', 'Default': 'a', 'AllowedValues': ['a', 'b']},
    }
    attributes_schema = {'twice': 'Two times the size.'}

    def handle_create(self):
        self.resource_id_set('older')

    def _resolve_attribute(self, name):
        return self.properties['size'] * 2


class Broken(resource.Resource):
    properties_schema = {'size': {'Typ': 'Integer'}}


def resource_mapping():
    return {'My::Older': Older, 'My::Broken': Broken}
"""


def test_a_plugin_with_schemas_that_are_dicts(tmp_path: Path) -> None:
    """They mean what they mean in Heat; one that means nothing is a mistake of the plug-in."""
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins/older.py").write_text(OLDER)
    types = known_types(plugins.load([tmp_path / "plugins"]).types)

    def problems(type_: str, **properties: Any) -> list[str]:
        definition = made({"o": {"type": type_, "properties": properties}})
        return [str(each) for each in validation.mistakes(definition, types)]

    assert problems("My::Older", size=3, tags=[{"key": "k"}]) == []
    assert "1 is out of range" in problems("My::Older", size=1)[0]
    assert "Unknown Property x" in problems("My::Older", size=3, tags=[{"x": 1}])[0]
    assert "not an allowed value" in problems("My::Older", size=3, kind="c")[0]
    assert "unknown keys in the schema of a property: Typ" in problems("My::Broken")[0]
    working = Working(tmp_path, types)
    outputs = {"twice": {"attr": ["o", "twice"]}}
    working.session.create(
        made({"o": {"type": "My::Older", "properties": {"size": 4}}}, outputs)
    )
    assert working.root.output("twice") == 8
    working.close()


def test_a_stack_that_was_rolled_back_to_nothing_can_be_updated(
    working: Working,
) -> None:
    """A stack that was rolled back to nothing can be updated, even with a retained resource left."""
    kept = {**tried("a"), "deletion_policy": "Retain"}
    source = {"resources": {"a": kept, "b": {**tried(fail=True), "depends_on": ["a"]}}}
    working.session.create(made(source["resources"]), rollback=True)
    assert working.state() == ("ROLLBACK", "COMPLETE")
    working.close()
    working.session.update(
        working.again(
            {"resources": {"a": tried("a"), "c": script("true")}, "outputs": {}}
        )
    )
    assert working.states() == {"a": "CREATE_COMPLETE", "c": "CREATE_COMPLETE"}


def test_stack_with_a_failed_rollback_can_be_updated(working: Working) -> None:
    """The update needs no earlier definition to compare with."""
    stubborn = {**tried("a"), "deletion_policy": "Retain"}
    working.session.create(
        made({"a": stubborn, "b": {**tried(fail=True), "depends_on": ["a"]}}),
        rollback=True,
    )
    record = working.root.record
    record.status = "FAILED"
    working.session.store.put(record)
    working.close()
    working.session.update(
        working.again({"resources": {"a": tried("a")}, "outputs": {}}), rollback=True
    )
    assert working.state() == ("UPDATE", "COMPLETE")
