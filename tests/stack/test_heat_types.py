"""The resource types of Heat: right and wrong uses of each, with the verdicts of Heat's own engine."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from heat_config_agent.model.mistake import Mistake
from heat_config_stack.definition import Later, Look, Need
from heat_config_stack.lifecycle import validation
from heat_config_stack.resource import heat_types
from heat_config_stack.resource_types import TYPES, known_types
from heat_config_stack.resource_types.servers import Placeholder
from stack.made import Function, made
from stack.working import Working
from support import together

CASES: dict[str, list[dict[str, Any]]] = defaultdict(list)
for line in (
    Path(__file__)
    .with_name("types-cases.jsonl")
    .read_text(encoding="utf-8")
    .splitlines()
):
    CASES[json.loads(line)["type"]].append(json.loads(line))

CLASS_RULES = (
    *(
        "must be provided",
        "required for",
        "are required",
        "At least one of the following",
        "nested_stack",
    ),
    *("Failed validating stack template", "Neither image nor bootable volume"),
)
"""Parts of sentences about rules of Heat's classes, which schemas cannot express."""

TYPE = known_types()


def mistakes(
    resources: dict[str, Any],
    outputs: dict[str, Any] | None = None,
    *,
    creating: bool = False,
) -> list[Mistake]:
    """Return the mistakes of a definition."""
    return list(validation.mistakes(made(resources, outputs), TYPE, creating=creating))


def problems(type_: str, **properties: Any) -> list[str]:
    """Return the mistakes in a resource of a type."""
    return [
        each.problem
        for each in mistakes(
            {"r": {"type": type_, "properties": properties}}, creating=True
        )
    ]


def attributes(tree: Any) -> Any:
    """Return a value of a template in the language of `made`."""
    if isinstance(tree, dict):
        return {
            "attr" if key == "get_attr" else key: attributes(value)
            for key, value in tree.items()
        }
    return [attributes(each) for each in tree] if isinstance(tree, list) else tree


@together.cases("type_", CASES)
def test_uses_of_a_type_get_heats_verdict(type_: str) -> None:
    """Values that Heat's schemas refuse are refused with Heat's sentence, and the others are valid."""
    for case in CASES[type_]:
        template = case["template"]
        outputs = {
            name: attributes(each["value"])
            for name, each in template.get("outputs", {}).items()
        }
        reported = mistakes(template["resources"], outputs, creating=True)
        said = f"{case['template_validate']} {case['create_validate']}"
        if said == "ok ok" or (
            case["mutation"] == "valid" and any(rule in said for rule in CLASS_RULES)
        ):
            assert all(each.problem in said for each in reported), (
                case["mutation"],
                reported,
            )
        elif any(rule in said for rule in CLASS_RULES):
            # Heat stops there, or there is nothing else
            assert reported or case["mutation"] == "unknown attribute", case["mutation"]
        else:
            assert any(each.problem[:120] in said for each in reported), (
                case["mutation"],
                said,
                reported,
            )


def test_all_of_heats_types_are_known() -> None:
    """Each has a class of its own here, or is a placeholder with the schemas of Heat."""
    assert len(heat_types.names()) == 201
    assert set(TYPES) - {
        "OS::Heat::SoftwareDeployments",
        "OS::Heat::StructuredDeployments",
    } <= set(heat_types.names())
    for name in heat_types.names():
        class_ = TYPE.known(name)
        assert class_ is not None
        assert (name in TYPES) != issubclass(class_, Placeholder)


@pytest.mark.parametrize("name", sorted(TYPES.keys() & set(heat_types.names())))
def test_our_own_types_have_the_schemas_of_heat(name: str) -> None:
    """The same properties, attributes and update policies, of the same types."""
    ours, facts = TYPES[name], heat_types.heat_type(name)
    assert facts is not None
    if not facts.is_nothing:
        assert {key: each.type for key, each in ours.properties_schema.items()} == {
            key: each.type for key, each in facts.properties.items()
        }
        assert set(ours.attributes_schema) == set(facts.attributes)
    for key, schema in facts.update_policy.items():
        assert set(ours.update_policy_schema[key].schema) == set(schema.schema)
    for key, schema in facts.properties.items():
        assert (ours.properties_schema[key].required, key) == (schema.required, key)


def test_a_misspelt_type_is_a_mistake() -> None:
    """The sentence is Heat's, and a hint names the type that may be meant."""
    (mistake,) = mistakes({"r": {"type": "OS::Nova::Servr"}})
    assert mistake.problem == "The Resource Type (OS::Nova::Servr) could not be found."
    assert mistake.hint == "did you mean OS::Nova::Server?"
    assert [each.hint for each in mistakes({"r": {"type": "My::Own::Thing"}})] == [""]


def test_older_names_of_types_are_known() -> None:
    """Heat's own environment maps them."""
    assert problems("OS::Quantum::Net", nme="x") == ["Unknown Property nme"]
    assert problems("OS::Quantum::Net", name="x") == []


def test_an_attribute_that_was_given_is_known() -> None:
    """Others have to be those of the type."""
    net = {
        "net": {"type": "OS::Neutron::Net"},
        "server": {"type": "OS::Nova::Server", "properties": {"flavor": "f"}},
    }
    assert (
        mistakes(
            net,
            {"o": {"attr": ["net", "mtu"]}, "a": {"attr": ["server", "accessIPv6"]}},
        )
        == []
    )
    (mistake,) = mistakes(net, {"o": {"attr": ["net", "mtus"]}})
    assert mistake.problem == "The Referenced Attribute (net mtus) is incorrect."


def test_properties_of_a_resource_that_exists_already_are_not_checked() -> None:
    """As in Heat: with an external_id they mean nothing."""
    assert (
        mistakes(
            {
                "r": {
                    "type": "OS::Nova::Flavor",
                    "external_id": "f",
                    "properties": {"nme": 1},
                }
            }
        )
        == []
    )


def test_an_older_property_counts_for_its_new_name() -> None:
    """`network_id` is translated to `network`, which is required."""
    assert (
        problems("OS::Neutron::Port", network_id="n", fixed_ips=[{"subnet_id": "s"}])
        == []
    )
    assert problems("OS::Neutron::Port") == ["Property network not assigned"]
    assert (
        problems(
            "OS::Neutron::NetworkGateway", devices=[{"id": "i", "interface_name": "n"}]
        )
        == []
    )


def test_a_time_that_is_over_is_refused_only_for_a_stack_that_is_created() -> None:
    """A template with an example of a time stays valid."""
    secret = {
        "r": {
            "type": "OS::Barbican::Secret",
            "properties": {"expiration": "2017-12-28T19:14:44.180394"},
        }
    }
    assert mistakes(secret) == []
    (mistake,) = mistakes(secret, creating=True)
    assert "Expiration time is out of date." in mistake.problem
    assert mistake.path == ("resources", "r", "properties", "expiration")


class NotGiven(Later):
    """The value of a parameter that was not given yet."""

    @property
    def requires(self) -> tuple[Need, ...]:
        return (Need(""),)

    def resolve(self, look: Look) -> None:  # noqa: ARG002
        return None


@pytest.mark.parametrize("value", [NotGiven(), Function("s", "value")])
def test_a_value_that_is_not_known_yet_is_not_checked(value: Later) -> None:
    """Parameters and attributes that have no value yet are not checked."""
    definition = made(
        {"s": {"type": "OS::Heat::RandomString"}, "r": {"type": "OS::Nova::Server"}}
    )
    definition.resources["r"].properties.update(  # type: ignore[attr-defined]
        {"flavor": value, "config_drive": value, "networks": value}
    )
    assert list(validation.mistakes(definition, TYPE)) == []
    assert definition.resources["r"].requirements() <= {"s"}


def test_the_id_of_a_resource_is_text() -> None:
    """The id of a resource counts as text, whose constraints are checked once it is known."""
    definition = made(
        {"s": {"type": "OS::Heat::RandomString"}, "r": {"type": "OS::Nova::Server"}}
    )
    of_r = definition.resources["r"].properties
    of_r.update(  # type: ignore[attr-defined]
        {
            "flavor": Function("s"),
            "config_drive": Function("s"),
            "networks": Function("s"),
        }
    )
    assert [
        (each.path[-1], each.problem) for each in validation.mistakes(definition, TYPE)
    ] == [
        ("config_drive", '"s" is not a valid boolean'),
        ("networks", "\"'s'\" is not a list"),
    ]


def test_a_snapshot_is_a_policy_of_the_types_that_have_snapshots() -> None:
    """Others refuse it."""
    policy = {"deletion_policy": "Snapshot"}
    assert (
        mistakes(
            {"r": {"type": "OS::Cinder::Volume", "properties": {"size": 1}, **policy}}
        )
        == []
    )
    (mistake,) = mistakes({"r": {"type": "OS::Neutron::Net", **policy}})
    assert mistake.problem == '"Snapshot" deletion policy not supported'


def test_a_placeholder_has_no_attribute_that_its_type_lacks(working: Working) -> None:
    """A placeholder has only the attributes of its type, also while the stack works."""
    working.session.create(
        made({"net": {"type": "OS::Neutron::Net"}}, {"mtu": {"attr": ["net", "mtu"]}})
    )
    assert working.root.output("mtu") == 1400
    with pytest.raises(Exception, match="is incorrect"):
        working.root.resources["net"].FnGetAtt("nothing")


def test_the_facts_are_read_only_for_a_cloud_resource() -> None:
    """A stack of our own types does not load them."""
    code = """
from heat_config_stack.resource import heat_types
from heat_config_stack.resource_types import known_types
assert "OS::Heat::Value" in known_types()
assert not heat_types._facts.cache_info().currsize
assert "OS::Nova::Server" in known_types()
assert heat_types._facts.cache_info().currsize
"""
    subprocess.run([sys.executable, "-c", code], check=True)
