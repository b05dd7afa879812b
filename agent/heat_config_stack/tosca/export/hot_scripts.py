"""The operations of an exported service as scripts that need no tool of their own (the tool `script`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from heat_config_agent.model.positions import Json
from heat_config_hooks import script_outputs
from heat_config_stack.tosca.export.hot_values import NotExpressible

INPUTS = "tosca_inputs"
"""The input that is a map with those of the operation, so that each keeps its type with any agent."""

_PREFIX = "tosca."
_RUN = ("bash", "python", "executable")
_DECLARED = "OPERATION: Dict[str, Any] = {}\n"


def as_scripts(template: dict[str, Any]) -> dict[str, Any]:
    """Return an exported template whose operations are scripts. Raises NotExpressible."""
    resources: dict[str, Any] = {}
    for name, resource in template["resources"].items():
        if resource["type"] == "OS::Heat::SoftwareComponent":
            resources[name] = _component(name, resource)
        elif resource["type"] == "OS::Heat::SoftwareDeployment":
            resources[name] = _deployment(resource)
        else:
            resources[name] = resource
    renamed: dict[str, Any] = _renamed({**template, "resources": resources})
    return renamed


def _renamed(value: Any) -> Any:
    """Return a part of a template in which the names that are for the tool can be variables."""
    if isinstance(value, dict):
        return {_variable(key): _renamed(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_renamed(inner) for inner in value]
    return _variable(value)


def _variable(text: Any) -> Any:
    is_ours = (
        isinstance(text, str)
        and text.startswith(_PREFIX)
        and text[len(_PREFIX) :].isidentifier()
    )
    return text.replace(".", "_") if is_ours else text


def _component(name: str, resource: dict[str, Any]) -> dict[str, Any]:
    properties = resource["properties"]
    inputs = [item for item in properties["inputs"] if item["name"].startswith(_PREFIX)]
    outputs = [item["name"] for item in properties["outputs"]]
    configs = [
        {**of, "tool": "script", "config": _script(name, of["config"], outputs)}
        for of in properties["configs"]
    ]
    changed = {
        **properties,
        "inputs": [{"name": INPUTS, "type": "Json"}, *inputs],
        "configs": configs,
    }
    if "options" in changed:
        changed["options"] = {"script": next(iter(changed["options"].values()))}
    return {**resource, "properties": changed}


def _deployment(resource: dict[str, Any]) -> dict[str, Any]:
    values: dict[str, Json] = resource["properties"]["input_values"]
    own = {
        name: value for name, value in values.items() if not name.startswith(_PREFIX)
    }
    others = {name: value for name, value in values.items() if name.startswith(_PREFIX)}
    return {
        **resource,
        "properties": {
            **resource["properties"],
            "input_values": {INPUTS: own, **others},
        },
    }


def _script(name: str, config: str, outputs: list[str]) -> str:
    """Return the program with an operation in it."""
    content = json.loads(config)
    steps = content.get("steps") or ([content] if content.get("processor") else [])
    for step in steps:
        if step["processor"] not in _RUN:
            problem = f"{name}: a script cannot do what {step['processor']} does; export it with --tool tosca"
            raise NotExpressible(problem)
    names = script_outputs.names(outputs)
    operation = {
        "root": content.get("root", ""),
        "files": content["files"],
        "places": content.get("places") or [],
        "steps": [
            {
                key: _variable(step.get(key, ""))
                for key in ("primary", "processor", "operation", "inputs")
            }
            for step in steps
        ],
        "outputs": names,
        "bash": script_outputs.bash_code(names, Path("__FOLDER__")),
        "python": script_outputs.python_code(),
    }
    program = Path(__file__).with_name("standalone.py").read_text(encoding="utf-8")
    described = json.dumps(
        json.dumps(operation, ensure_ascii=False), ensure_ascii=False
    )
    assert _DECLARED in program  # noqa: S101  # it is next to this module
    return "#!/usr/bin/env python3\n" + program.replace(
        _DECLARED, f"OPERATION: Dict[str, Any] = json.loads({described})\n"
    )
