"""A service as a HOT template: its nodes as servers and values, its operations as components and deployments.

The template is for an agent with the tool `tosca`: that processes the files of an operation, which the template has.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from heat_config_agent.model.positions import Json
from heat_config_stack.definition import (
    HOST,
    ROOT,
    Definition,
    ResourceDefinition,
    Tree,
)
from heat_config_stack.tosca.compilation.reader import Exported
from heat_config_stack.tosca.evaluation.later import Attribute, Soft, is_known
from heat_config_stack.tosca.export.hot_values import Marks, NotExpressible, Writer
from heat_config_stack.tosca.language.types import PropertyDefinition

VERSION = "2021-04-16"

_RUN = "tosca.run"
_AFTER = "tosca.after"
_SURROUNDINGS = "tosca.surroundings"

_ACTIONS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "create": (("CREATE", "UPDATE"), ("DELETE",)),
    "configure": (("CREATE", "UPDATE"), ()),
    "start": (("CREATE", "RESUME"), ("SUSPEND", "DELETE")),
    "add": (("CREATE", "UPDATE"), ("DELETE",)),
    "target_changed": (("UPDATE",), ()),
}
"""The actions that make and that undo, by the kind of operation; a start is also a restart for UPDATE."""

HEAD = """\
Differences between the template on Heat and the service on this agent:
- A failed operation is replaced: the operation that undoes it runs after the next attempt.
- A removal stops at its first failure.
- SOURCES and TARGETS count as inputs: an operation runs again when they change.
"""


def exported(
    read: Callable[[Mapping[str, Json]], Exported], *, deployed: bool
) -> tuple[dict[str, Any], list[str]]:
    """Return the template of a service, and remarks about it. Raises NotExpressible.

    `read` returns the service in which marks stand for some inputs. With `deployed`, servers are machines that exist.
    """
    service = read({})
    stand_ins = {
        name: _stand_in(service.inputs[name], name)
        for name in service.definition.parameters
        if _is_open(service, name)
    }
    if stand_ins:
        real = _Template(read(stand_ins).definition, deployed=deployed)
    else:
        real = _Template(service.definition, deployed=deployed)
    values = {
        name: parameter.value
        for name, parameter in service.definition.parameters.items()
    }
    marks = Marks({**values, **stand_ins})
    body = _with_parameters(
        real,
        marks,
        lambda given: _Template(
            read({**stand_ins, **given}).definition, deployed=deployed
        ),
    )
    decided = [name for name in stand_ins if name in marks.fixed]
    if decided:
        names = ", ".join(decided)
        raise NotExpressible(
            f"no parameter can stand for {names}: give a value with --input"
        )
    _declare_types(body["resources"], real.body["resources"])
    text = json.dumps(body)
    used = {
        name for name in marks.values if f'{{"get_param": {json.dumps(name)}}}' in text
    }
    parameters = {
        name: _parameter(
            service.inputs[name],
            parameter.schema.type,
            parameter.value,
            is_secret=parameter.schema.secret,
        )
        for name, parameter in service.definition.parameters.items()
        if name in used
    }
    clash = parameters.keys() & real.parameters.keys()
    if clash:
        raise NotExpressible(
            f"the input {min(clash)} has the name of a parameter of the servers: rename it"
        )
    template: dict[str, Any] = {"heat_template_version": VERSION}
    if service.definition.description:
        template["description"] = service.definition.description
    return {**template, "parameters": {**parameters, **real.parameters}, **body}, [
        *_remarks(service, used),
        *real.remarks(),
    ]


def _with_parameters(
    real: _Template, marks: Marks, marked: Callable[[Mapping[str, Json]], _Template]
) -> dict[str, Any]:
    """Return the body of a template with parameters in the place of inputs, as far as they can stand there.

    `marked` returns the template in which marks stand for inputs.
    """
    for _ in range(len(marks.values) + 1):
        before = {*marks.fixed}
        body = _merged(real, marks, marked)
        if marks.is_unclear:
            for name in marks.given:
                alone = Marks(marks.values, fixed={*marks.values} - {name})
                _merged(real, alone, marked)
                if alone.is_unclear or name in alone.fixed:
                    marks.fixed.add(name)
            if marks.fixed == before:
                # each can be a parameter, but not all of them together
                marks.fixed.update(marks.values)
        elif marks.fixed == before:
            return body
    return real.body


def _merged(
    real: _Template, marks: Marks, marked: Callable[[Mapping[str, Json]], _Template]
) -> dict[str, Any]:
    marks.is_unclear = False
    other = marked(marks.given)
    if other.body.keys() != real.body.keys() or other.resources != real.resources:
        marks.is_unclear = True
        return real.body
    merged: dict[str, Any] = marks.merged(real.body, other.body)
    return merged


def _is_open(of: Exported, name: str) -> bool:
    """Return whether an input has no value, and needs one."""
    return of.definition.parameters[name].value is None and bool(
        of.inputs[name].required
    )


_STAND_INS: Mapping[str, Json] = {
    "integer": 1,
    "list": ["stand-in"] * 100,
    "string": "stand-in",
    "version": "1.0",
    "timestamp": "2000-01-01",
    "scalar-unit.size": "1 GB",
    "scalar-unit.time": "1 s",
    "scalar-unit.frequency": "1 GHz",
    "scalar-unit.bitrate": "1 Mbps",
    "json": "{}",
    "xml": "<a/>",
}
"""A value of each type, with which a service is compiled whose input has none. A part of it is known as such."""


class _AnyKey(dict[str, Json]):
    """A map that has a value for each key, so that it is noticed where a part of it is taken."""

    def get(self, key: str, default: Json = None) -> Json:  # noqa: ARG002
        """Return the value of a key."""
        return super().get(key, "stand-in")


def _stand_in(of: PropertyDefinition, name: str) -> Json:
    """Return a value for an input that has none. Raises NotExpressible where no parameter can stand for it."""
    primitive = of.schema.primitive
    if primitive in ("boolean", "float", "range", "null"):
        raise NotExpressible(
            f"the input {name} needs a value, because it is of the type {primitive}"
        )
    return _STAND_INS.get(primitive, _AnyKey({"stand-in": name}))


def _declare_types(resources: Mapping[str, Any], real: Mapping[str, Any]) -> None:
    """Declare the types of inputs, which are the types of their values, also for parameters."""
    for name, resource in real.items():
        for each in (
            resources[f"{name}.config"]["properties"]["inputs"]
            if f"{name}.config" in real
            else ()
        ):
            each["type"] = _type(resource["properties"]["input_values"][each["name"]])


def _remarks(service: Exported, used: set[str]) -> Iterator[str]:
    for name in service.definition.parameters:
        if name not in used and not _is_open(service, name):
            yield f"The input {name} does not become a parameter: the template has its current value."
    for name in service.workflows:
        yield f"The workflow {name} is not in the template: Heat has none."
    if service.definition.procedures.keys() - set(service.workflows):
        yield (
            "Workflows stand for operations of a substituted node, and Heat has none: "
            "the operations of its inner nodes run in the usual order."
        )
    for name in service.provided:
        yield f"The node {name} is a value without anything behind it: nothing is made for it on the cloud."
    if service.has_policies:
        yield "Policies are not in the template."


def _parameter(
    definition: PropertyDefinition, type_: str, value: Json, *, is_secret: bool
) -> dict[str, Json]:
    parameter: dict[str, Json] = {"type": type_}
    if definition.get("description"):
        parameter["description"] = str(definition.get("description"))
    if is_secret:
        parameter["hidden"] = True
    if not is_secret and value is not None:
        parameter["default"] = value
    constraints = [
        made
        for each in definition.get("constraints") or ()
        if (made := _constraint(each, type_))
    ]
    return {**parameter, "constraints": constraints} if constraints else parameter


def _constraint(of: Json, type_: str) -> dict[str, Json]:
    """Return a constraint; empty if HOT does not have it."""
    if not isinstance(of, dict) or len(of) != 1:
        return {}
    ((kind, value),) = of.items()
    if kind == "valid_values":
        return {"allowed_values": value}
    if kind == "pattern" and type_ == "string":
        return {"allowed_pattern": f"^({value})$"}
    limits = {"min_length": "min", "max_length": "max"}
    if type_ == "string" and kind in limits:
        return {"length": {limits[kind]: value}}
    if type_ == "string" and kind == "length":
        return {"length": {"min": value, "max": value}}
    if type_ == "number" and kind == "in_range" and isinstance(value, list | tuple):
        ends = {
            end: each
            for end, each in zip(("min", "max"), value, strict=False)
            if each != "UNBOUNDED"
        }
        return {"range": ends} if ends else {}
    bounds = {"greater_or_equal": "min", "less_or_equal": "max"}
    return (
        {"range": {bounds[kind]: value}} if type_ == "number" and kind in bounds else {}
    )


class _Template:
    """The resources and outputs of a definition, in HOT."""

    def __init__(self, definition: Definition, *, deployed: bool) -> None:
        self._definition = definition
        self._deployed = deployed
        self.resources = [*definition.resources]
        self.parameters: dict[str, dict[str, Json]] = {}
        self.writers: dict[str, Writer] = {}
        self._kinds = {name: self._kind(name) for name in self.resources}
        self._needs = {
            name: resource.requirements()
            for name, resource in definition.resources.items()
        }
        resources: dict[str, Any] = {}
        for name, resource in definition.resources.items():
            try:
                resources.update(self._resource(name, resource))
            except NotExpressible as error:
                raise NotExpressible(f"{name}: {error}") from None
        self.body: dict[str, Any] = {"resources": resources}
        outputs = {}
        for name, output in definition.outputs.items():
            try:
                outputs[name] = {
                    "value": Writer(self._attribute, self.resources).value(output.value)
                }
            except NotExpressible as error:
                raise NotExpressible(f"the output {name}: {error}") from None
            if output.description:
                outputs[name]["description"] = output.description
        if outputs:
            self.body["outputs"] = outputs

    def remarks(self) -> Iterator[str]:
        """Yield a sentence for each operation whose inputs are not all there."""
        for name, writer in self.writers.items():
            if writer.lost:
                inputs = ", ".join(dict.fromkeys(writer.lost))
                yield f"{name}: {inputs} is null where it is passed on, because Heat cannot order that."

    def _kind(self, name: str) -> str:
        resource = self._definition.resources[name]
        return next(self._definition.environment.candidates(resource.type, name)).type

    def _earlier(self, name: str) -> set[str]:
        """Return the resources that are complete before another one is begun."""
        earlier: set[str] = set()
        open_ = [*self._needs[name]]
        while open_:
            other = open_.pop()
            if other not in earlier and other in self._needs:
                earlier.add(other)
                open_ += self._needs[other]
        return earlier

    def _attribute(self, attribute: Attribute) -> Json:
        if attribute.attribute == "state":
            return "started"
        if not attribute.is_awaited:
            # an operation that only workflows call, and they are not exported
            return None
        if attribute.attribute == "run":
            return {"get_attr": [attribute.resource, _RUN]}
        if attribute.attribute == "first_address":
            if not self._deployed:
                return {"get_attr": [attribute.resource, attribute.attribute]}
            name = f"{attribute.resource}_address"
            description = f"the address of the server {attribute.resource}"
            self.parameters[name] = {
                "type": "string",
                "description": description,
                "default": "127.0.0.1",
            }
            return {"get_param": name}
        return {"get_attr": [attribute.resource, *attribute.path]}

    def _resource(self, name: str, resource: ResourceDefinition) -> dict[str, Any]:
        needs = {"depends_on": [*resource.depends_on]} if resource.depends_on else {}
        if self._kinds[name] == HOST:
            return {name: {**self._server(name), **needs}}
        if not resource.properties:
            return {
                name: {
                    "type": "OS::Heat::Value",
                    **needs,
                    "properties": {"value": "started"},
                }
            }
        return self._operation(name, resource, needs)

    def _server(self, name: str) -> dict[str, Any]:
        transport = {"software_config_transport": "POLL_SERVER_HEAT"}
        if self._deployed:
            return {
                "type": "OS::Heat::DeployedServer",
                "properties": {"name": name, **transport},
            }
        for parameter, default in (("image", "debian-12"), ("flavor", "m1.small")):
            description = f"the {parameter} of the server {name}"
            self.parameters[f"{name}_{parameter}"] = {
                "type": "string",
                "description": description,
                "default": default,
            }
        properties = {
            "name": name,
            "image": {"get_param": f"{name}_image"},
            "flavor": {"get_param": f"{name}_flavor"},
            "user_data_format": "SOFTWARE_CONFIG",
            **transport,
        }
        return {"type": "OS::Nova::Server", "properties": properties}

    def _operation(
        self, name: str, resource: ResourceDefinition, needs: dict[str, Any]
    ) -> dict[str, Any]:
        properties = resource.properties
        writer = Writer(self._attribute, self._earlier(name))
        self.writers[name] = writer
        inputs = self._inputs(properties, writer)
        wanted = [
            output
            for names in _map(properties.get("outputs")).values()
            for output in names
        ]
        component = {
            "type": "OS::Heat::SoftwareComponent",
            "properties": {
                "inputs": [{"name": each} for each in inputs],
                "outputs": [{"name": each} for each in dict.fromkeys([*wanted, _RUN])],
                "configs": [*_configs(properties, self._definition.files)],
                **(
                    {"options": {"tosca": properties["options"]}}
                    if properties.get("options")
                    else {}
                ),
            },
        }
        deployment = {
            "type": "OS::Heat::SoftwareDeployment",
            **needs,
            "properties": {
                "config": {"get_resource": f"{name}.config"},
                "server": writer.value(properties["server"]),
                "signal_transport": "HEAT_SIGNAL",
                "input_values": inputs,
            },
        }
        return {f"{name}.config": component, name: deployment}

    def _inputs(
        self, properties: Mapping[str, Tree], writer: Writer
    ) -> dict[str, Json]:
        values: dict[str, Json] = {
            key: writer.value(tree)
            for key, tree in _map(properties.get("input_values")).items()
        }
        values[_SURROUNDINGS] = writer.value(
            _soft(properties.get("surroundings") or {})
        )
        if properties.get("inverse_config"):
            values[f"tosca.{properties.get('inverse')}"] = writer.value(
                _soft(properties.get("inverse_values") or {})
            )
        if properties.get("trigger") is not None:
            values[_AFTER] = writer.value(properties["trigger"])
        return values


def _soft(tree: Tree) -> Tree:
    return tree if isinstance(tree, Soft) else Soft(tree)


def _map(tree: Any) -> Mapping[str, Any]:
    return tree if isinstance(tree, Mapping) else {}


def _type(value: Json) -> str:
    if isinstance(value, bool):
        return "Boolean"
    if isinstance(value, int | float):
        return "Number"
    is_text = isinstance(value, str) or (
        isinstance(value, dict) and value.keys() & {"list_join", "str_replace"}
    )
    # as for other functions, whose values may be of any type
    return "String" if is_text else "Json"


def _configs(
    component: Mapping[str, Any], beside: Mapping[str, Json]
) -> Iterator[dict[str, Json]]:
    """Yield the configs of a component, by the actions of its operations."""
    makes, undoes = _ACTIONS[component["kind"]]
    forward = _step(component.get("operation") or "", _map(component.get("config")), "")
    back = _step(
        component.get("inverse") or "",
        _map(component.get("inverse_config")),
        f"tosca.{component.get('inverse')}",
    )
    removal = (
        {**forward, "operation": component.get("inverse") or "delete", "inputs": ""}
        if "container" in forward
        else {}
    )
    groups = [(makes, [forward]), (undoes, [back, removal])]
    if component["kind"] == "start":
        groups.insert(1, (("UPDATE",), [back, forward]))
    for actions, steps in groups:
        wanted = [step for step in steps if step]
        if not is_known(wanted):
            raise NotExpressible("the ports or volumes of its container need a run")
        if actions and wanted:
            config: dict[str, Any] = {
                "files": {**beside, **_files(component, wanted)},
                "root": ROOT,
            }
            parts = [
                {key: value for key, value in step.items() if key != "files" and value}
                for step in wanted
            ]
            # the others copy files only
            parts = [part for part in parts if part.get("processor")]
            config.update(
                parts[0] if len(parts) == 1 else {"steps": parts} if parts else {}
            )
            if component.get("places"):
                config["places"] = component["places"]
            text = json.dumps(config, ensure_ascii=False, indent=1)
            yield {"actions": [*actions], "tool": "tosca", "config": text}


def _step(operation: str, config: Mapping[str, Any], inputs: str) -> dict[str, Any]:
    return {**config, "operation": operation, "inputs": inputs} if config else {}


def _files(of: Mapping[str, Any], steps: list[dict[str, Any]]) -> dict[str, Json]:
    found = dict(_map(of.get("files")))
    for step in steps:
        found.update(_map(step.get("files")))
    return found
