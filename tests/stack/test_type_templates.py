"""Templates generated from resource types."""

from __future__ import annotations

import json

from heat_config_stack.definition import Identity
from heat_config_stack.definition.files import File
from heat_config_stack.hot import loader
from heat_config_stack.hot.source import Source
from heat_config_stack.resource import type_schemas
from heat_config_stack.resource_types import known_types


def test_the_template_of_every_type_is_valid() -> None:
    """Each has a parameter for each property, and is read without a mistake or a warning."""
    types, wrong = known_types(), {}
    for name in type_schemas.names(types):
        class_ = types.known(name)
        assert class_ is not None
        declared = type_schemas.declaration(
            name, class_, placeholder=class_.is_placeholder
        )
        template = type_schemas.generated_template(declared, type_schemas.HOT)
        assert template["parameters"].keys() == declared["properties"].keys()
        source = Source(File("t.yaml", json.dumps(template, default=repr)))
        _, mistakes, warnings = loader.examine(source, Identity("s", "i"), known=False)
        if mistakes or warnings:
            wrong[name] = [str(each) for each in (*mistakes, *warnings)]
        former = type_schemas.generated_template(declared, type_schemas.CFN)
        assert former["Parameters"].keys() == template["parameters"].keys()
    assert wrong == {}


def test_the_template_of_a_type_is_heats() -> None:
    """In either format, but for the descriptions, which are our own."""
    types = known_types()
    class_ = types.known("OS::Heat::RandomString")
    assert class_ is not None
    declared = type_schemas.declaration("OS::Heat::RandomString", class_)
    hot, cfn = (
        type_schemas.generated_template(declared, kind)
        for kind in (type_schemas.HOT, type_schemas.CFN)
    )
    assert (hot["heat_template_version"], hot["description"]) == (
        "2016-10-14",
        "Initial template of RandomString",
    )
    assert hot["parameters"]["length"] == {
        "type": "number",
        "description": "Length of the text.",
        "default": 32,
        "constraints": [{"range": {"min": 1, "max": 512}}],
    }
    assert {name: each["value"] for name, each in hot["outputs"].items()} == {
        "value": {"get_attr": ["RandomString", "value"]},
        "show": {"get_attr": ["RandomString", "show"]},
        "OS::stack_id": {"get_resource": "RandomString"},
    }
    assert (cfn["HeatTemplateFormatVersion"], cfn["Description"]) == (
        "2012-12-12",
        hot["description"],
    )
    assert cfn["Resources"]["RandomString"]["Properties"] == {
        "length": {"Ref": "length"},
        "character_classes": {"Fn::Split": [",", {"Ref": "character_classes"}]},
        "character_sequences": {"Fn::Split": [",", {"Ref": "character_sequences"}]},
        "salt": {"Ref": "salt"},
    }
