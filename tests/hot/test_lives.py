"""Lives of stacks that differ from those in Heat on purpose, for the reasons in `docs/templates.md`."""

from __future__ import annotations

import json
from typing import Any

from hot import stacks


def test_the_metadata_of_a_facade_follows_an_update() -> None:
    """A resource of the nested template that uses the metadata is updated together with the template's resource."""
    child = {
        "heat_template_version": "2018-08-31",
        "resources": {
            "t": {
                "type": "OS::Heat::TestResource",
                "properties": {"value": {"get_param": "v"}},
            },
            "m": {
                "type": "OS::Heat::Value",
                "properties": {"value": {"resource_facade": "metadata"}},
            },
        },
        "parameters": {"v": {"type": "string", "default": "same"}},
        "outputs": {"m": {"value": {"get_attr": ["m", "value"]}}},
    }
    found = stacks.run(_case(child, {"op": "update", "parameters": {"p": "second"}}))
    values = [step["stack"]["outputs"]["m"]["value"] for step in found["steps"]]
    assert values == [{"of": "first"}, {"of": "second"}]
    assert found["steps"][1]["stack"]["resources"]["k"]["nested"]["resources"]["m"][
        "state"
    ] == ["UPDATE", "COMPLETE"]


def _case(child: dict[str, Any], *steps: dict[str, Any]) -> dict[str, Any]:
    """Return the life of a stack whose only resource is a nested template; JSON is YAML too."""
    root = {
        "heat_template_version": "2018-08-31",
        "parameters": {"p": {"type": "string", "default": "first"}},
        "resources": {
            "k": {"type": "child.yaml", "metadata": {"of": {"get_param": "p"}}}
        },
        "outputs": {"m": {"value": {"get_attr": ["k", "m"]}}},
    }
    files = {"child.yaml": json.dumps(child)}
    return {
        "mode": "lifecycle",
        "template": json.dumps(root),
        "files": files,
        "steps": [{"op": "create"}, *steps],
    }
