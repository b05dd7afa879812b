"""The JSON Schema of templates: it accepts what Heat accepts, and refuses misspelt names at their places."""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from heat_config_stack.hot import json_schema as hot
from heat_config_stack.hot import versions
from heat_config_stack.hot.source import heat_text
from heat_config_stack.resource import json_schema, type_schemas
from heat_config_stack.resource_types import known_types
from hot.conftest import CASES
from hot.made import VERSION
from hot.test_hot_cases import LOADER
from support.machine import Machine

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(
    path
    for path in (ROOT / "examples").rglob("*.yaml")
    if "\nheat_template_version:" in path.read_text("utf-8")
)

REFUSED = {
    "external-id-not-checked": "properties of a resource that exists already, which its type does not have",
    "random-sequence-unknown": "an older property of RandomString, whose value Heat does not check",
    "more-function-90": "the port of a URL is true, of which Heat makes 1",
    "more-reference-3": "wrong arguments in the part of an `if` that is not chosen",
    "registry-glob-none": "an environment maps a type of Heat to a template with other properties",
}
"""Templates that Heat accepts and the schema does not, and why."""


@functools.cache
def schema() -> dict[str, Any]:
    """Return the schema with the types of Heat."""
    language = json_schema.Language(hot.VALUE, hot.either)
    return hot.schema(json_schema.definitions(known_types(), language))


@functools.cache
def validator() -> Draft7Validator:
    """Return what validates templates."""
    return Draft7Validator(schema())


def content(text: str) -> Any:
    """Return a template as an editor sees it: dates are text."""
    return heat_text("template.yaml", text, "template_format").value


def wrong(template: object) -> dict[str, str]:
    """Return the path of each mistake, and what is said of it."""
    return {each.json_path: each.message for each in validator().iter_errors(template)}


def test_json_schema_is_valid_in_its_draft() -> None:
    """The schema is valid in its draft, and all its references have targets."""
    Draft7Validator.check_schema(schema())
    assert schema()["$schema"] == Draft7Validator.META_SCHEMA["$schema"]


def test_json_schema_has_all_sections_functions_and_types() -> None:
    """The schema has each section, function and type that the code has."""
    latest = list(versions.VERSIONS.values())[-1]
    defined = schema()["definitions"]
    assert schema()["properties"].keys() == latest.sections
    assert defined["function"]["properties"].keys() == versions.EVERY.keys()
    assert defined["resource"]["properties"].keys() == latest.resource_keys
    assert defined["parameter"]["properties"].keys() == latest.parameter_keys
    assert defined["output"]["properties"].keys() == latest.output_keys
    assert defined["types"].keys() == set(type_schemas.names(known_types()))
    _, conditions, _ = defined["condition"]["anyOf"]
    assert conditions["properties"].keys() == latest.condition_functions.keys()


def test_every_type_and_property_is_described() -> None:
    """Editors show it where the name is."""
    for name, each in schema()["definitions"]["types"].items():
        assert each["description"], name
        described = (
            each.get("properties", {}).get("properties", {}).get("properties", {})
        )
        assert all(part["description"] for part in described.values()), name


@pytest.mark.parametrize("step", [10, pytest.param(1, marks=pytest.mark.slow)])
def test_templates_that_heat_accepts_are_valid(step: int) -> None:
    """The schema accepts each valid case, with the exceptions above; `make test` has every tenth."""
    refused = {}
    paths = sorted(CASES.glob("*.yaml"))[::step]
    for path in paths:
        case = yaml.load(path.read_text("utf-8"), Loader=LOADER)  # noqa: S506  # one of the safe ones
        if json.loads(case["expect_json"]).get("outcome") == "ok" and (
            found := wrong(content(case["template"]))
        ):
            refused[path.stem] = found
    assert refused.keys() == REFUSED.keys() & {path.stem for path in paths}, refused


@pytest.mark.parametrize(
    "path",
    [
        path if number % 3 == 0 else pytest.param(path, marks=pytest.mark.slow)
        for number, path in enumerate(EXAMPLES)
    ],
    ids=lambda path: path.stem,
)
def test_an_example_is_accepted_and_misspelt_ones_are_not(path: Path) -> None:
    """A wrong letter in a section, a type or a property is a mistake at its place."""
    template = content(path.read_text("utf-8"))
    assert wrong(template) == {}
    assert wrong({**template, "resuorces": {}}).keys() == {"$"}
    for name, resource in template.get("resources", {}).items():
        at = f"$.resources.{name}"
        spoilt = copy.deepcopy(template)
        spoilt["resources"][name]["porperties"] = {}
        assert at in wrong(spoilt)
        if not resource["type"].startswith("OS::"):
            continue
        spoilt = copy.deepcopy(template)
        spoilt["resources"][name]["type"] += (
            "s" if not resource["type"].endswith(("Deployment", "Component")) else "es"
        )
        assert f"{at}.type" in wrong(spoilt)
        spoilt = copy.deepcopy(template)
        spoilt["resources"][name].setdefault("properties", {})["porperty"] = 1
        assert f"{at}.properties" in wrong(spoilt)


SPOILT: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "a function": (
        lambda of: of["properties"].update(config={"get_parm": "x"}),
        ".properties.config",
    ),
    "arguments of a function": (
        lambda of: of["properties"].update(
            config={"str_replace": {"template": "x", "parms": {}}}
        ),
        ".properties.config.str_replace",
    ),
    "a key inside a property": (
        lambda of: of["properties"].update(inputs=[{"name": "a", "typ": "String"}]),
        ".properties.inputs",
    ),
    "a value of several": (
        lambda of: of["properties"].update(inputs=[{"name": "a", "type": "Text"}]),
        ".properties.inputs",
    ),
    "a type of a value": (
        lambda of: of["properties"].update(group=["script"]),
        ".properties.group",
    ),
    "a policy": (lambda of: of.update(deletion_policy="Keep"), ".deletion_policy"),
    "a condition": (lambda of: of.update(condition={"equal": [1, 1]}), ".condition"),
}


@pytest.mark.parametrize(("spoil", "at"), SPOILT.values(), ids=SPOILT)
def test_a_mistake_is_refused_at_its_place(
    spoil: Callable[[dict[str, Any]], object], at: str
) -> None:
    """The schema refuses a mistake of each kind at its position."""
    resource: dict[str, Any] = {
        "type": "OS::Heat::SoftwareConfig",
        "properties": {"group": "script"},
    }
    template = {"heat_template_version": "2018-08-31", "resources": {"a": resource}}
    assert wrong(template) == {}
    spoil(resource)
    assert wrong(template).keys() == {f"$.resources.a{at}"}


def test_a_required_property_is_required() -> None:
    """With and without any properties."""
    template: dict[str, Any] = content(
        f"{VERSION}resources: {{a: {{type: 'OS::Heat::ResourceGroup'}}}}\n"
    )
    assert wrong(template).keys() == {"$.resources.a"}
    template["resources"]["a"]["properties"] = {}
    assert wrong(template) == {
        "$.resources.a.properties": "'resource_def' is a required property"
    }


def test_the_command_prints_it_with_the_types_of_plugins(machine: Machine) -> None:
    """The schema has the types of plug-ins; without the settings, types outside Heat's namespaces are accepted."""
    plugins = machine.folder / "plugins"
    plugins.mkdir()
    (plugins / "example.py").write_text(
        "from heat.engine import properties, resource\n"
        "class Site(resource.Resource):\n"
        "    '''A site.'''\n"
        "    properties_schema = {'name': properties.Schema(properties.Schema.STRING, 'Its name', required=True)}\n"
        "def resource_mapping():\n"
        "    return {'Example::Site': Site}\n"
    )
    (machine.folder / "agent.conf").write_text(f"[agent]\nplugin_dirs = {plugins}\n")
    done = machine.command(
        "heat-config-agent", ["template", "schema", "--config", "agent.conf"], {}
    )
    assert (done.code, done.err) == (0, "")
    printed = json.loads(done.out)
    names = {
        "$.resources.a": {},
        "$.resources.a.properties": {"nme": "x"},
        None: {"name": "x"},
    }
    for at, properties in names.items():
        resource = {
            "type": "Example::Site",
            **({"properties": properties} if properties else {}),
        }
        template = {"heat_template_version": "2018-08-31", "resources": {"a": resource}}
        found = {
            each.json_path for each in Draft7Validator(printed).iter_errors(template)
        }
        assert found == ({at} if at else set())
        assert wrong(template) == {}
