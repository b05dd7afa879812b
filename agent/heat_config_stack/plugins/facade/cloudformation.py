"""Templates of child stacks in CloudFormation's format, as older plug-ins have them, rewritten in HOT."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from heat_config_stack.records import exception
from heat_config_stack.resource.properties import shown

KEYS = ("HeatTemplateFormatVersion", "AWSTemplateFormatVersion")
"""The keys of the version of such a template."""

VERSION = "2016-10-14"
"""The version of HOT that has all functions of such a template."""

_TYPES = {
    "Number": "number",
    "CommaDelimitedList": "comma_delimited_list",
    "Json": "json",
    "Boolean": "boolean",
}
_PSEUDO = {"AWS::StackName": "OS::stack_name", "AWS::StackId": "OS::stack_id"}
_REGION = "ap-southeast-1"
"""The region that Heat gives to all templates."""

_MAPPINGS = "mappings_of_the_template"
"""The parameter that has the mappings."""

_PARTS = {
    "Type": "type",
    "Description": "description",
    "DeletionPolicy": "deletion_policy",
    "DependsOn": "depends_on",
    "Condition": "condition",
}
_RENAMED = {
    "Fn::If": "if",
    "Fn::Equals": "equals",
    "Fn::And": "and",
    "Fn::Or": "or",
    "Fn::Not": "not",
}


def rewritten(template: Mapping[str, Any]) -> dict[str, Any]:
    """Return a template in HOT. Raises NotSupported for a function that HOT has no equivalent of."""
    return _Rewriting(template).template()


class _Rewriting:
    """The rewriting of one template."""

    def __init__(self, template: Mapping[str, Any]) -> None:
        self._template = template
        self._parameters = template.get("Parameters") or {}
        self._functions: dict[str, Callable[[Any], Any]] = {
            "Ref": self._reference,
            "Fn::GetAtt": lambda arguments: {
                "get_attr": [arguments[0], self.value(arguments[1])]
            },
            "Fn::Join": lambda arguments: {
                "list_join": [self.value(arguments[0]), self.value(arguments[1])]
            },
            "Fn::Base64": self.value,
            "Fn::GetAZs": lambda _arguments: ["nova"],
            "Fn::Replace": self._replace,
            "Fn::Select": self._select,
            "Fn::FindInMap": self._find,
            "Fn::ResourceFacade": lambda arguments: {
                "resource_facade": {"DeletionPolicy": "deletion_policy"}.get(
                    arguments, arguments.lower()
                )
            },
            **{name: self._renamed(hot) for name, hot in _RENAMED.items()},
        }

    def template(self) -> dict[str, Any]:
        """Return the template."""
        parameters = {
            name: _parameter(declaration)
            for name, declaration in self._parameters.items()
        }
        if self._template.get("Mappings"):
            parameters[_MAPPINGS] = {
                "type": "json",
                "default": self._template["Mappings"],
            }
        sections = {
            "parameters": parameters,
            "conditions": self._section("Conditions", self.value),
            "resources": self._section("Resources", self._resource),
            "outputs": self._section("Outputs", self._output),
        }
        filled = {name: section for name, section in sections.items() if section}
        return {
            "heat_template_version": VERSION,
            "description": self._template.get("Description") or "",
            **filled,
        }

    def _section(self, section: str, rewrite: Callable[[Any], Any]) -> dict[str, Any]:
        return {
            name: rewrite(entry)
            for name, entry in (self._template.get(section) or {}).items()
        }

    def _resource(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        parts = {hot: entry[name] for name, hot in _PARTS.items() if name in entry}
        for name, hot in (
            ("Properties", "properties"),
            ("Metadata", "metadata"),
            ("UpdatePolicy", "update_policy"),
        ):
            if entry.get(name):
                parts[hot] = self.value(entry[name])
        return parts

    def _output(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        parts = {hot: entry[name] for name, hot in _PARTS.items() if name in entry}
        return {**parts, "value": self.value(entry.get("Value"))}

    def value(self, value: Any) -> Any:
        """Return a value with its functions rewritten."""
        if isinstance(value, list):
            return [self.value(member) for member in value]
        if not isinstance(value, Mapping):
            return value
        if len(value) == 1:
            name, argument = next(iter(value.items()))
            if name in self._functions:
                try:
                    return self._functions[name](argument)
                except (AttributeError, LookupError, TypeError):
                    what = f"{name} with {shown(argument)} in a template of a plug-in"
                    raise exception.NotSupported(feature=what) from None
            if isinstance(name, str) and name.startswith("Fn::"):
                raise exception.NotSupported(
                    feature=f"{name} in a template of a plug-in"
                )
        return {name: self.value(member) for name, member in value.items()}

    def _renamed(self, name: str) -> Callable[[Any], Any]:
        return lambda arguments: {name: self.value(arguments)}

    def _reference(self, name: str) -> Any:
        if name == "AWS::Region":
            return _REGION
        if name in _PSEUDO or name in self._parameters:
            return {"get_param": _PSEUDO.get(name, name)}
        return {"get_resource": name}

    def _replace(self, arguments: Any) -> Any:
        return {
            "str_replace": {
                "params": self.value(arguments[0]),
                "template": self.value(arguments[1]),
            }
        }

    def _select(self, arguments: Any) -> Any:
        index, values = arguments[0], arguments[1]
        if (
            isinstance(values, list)
            and str(index).isdecimal()
            and int(index) < len(values)
        ):
            return self.value(values[int(index)])
        if isinstance(values, Mapping) and index in values:
            return self.value(values[index])
        raise exception.NotSupported(
            feature="Fn::Select of a computed value in a template of a plug-in"
        )

    def _find(self, arguments: Any) -> Any:
        """Return a value of the mappings, which are the default of a parameter."""
        return {"get_param": [_MAPPINGS, *(self.value(key) for key in arguments)]}


def _parameter(declaration: Mapping[str, Any]) -> dict[str, Any]:
    parameter: dict[str, Any] = {
        "type": _TYPES.get(declaration.get("Type", ""), "string")
    }
    if "Default" in declaration:
        parameter["default"] = declaration["Default"]
    if declaration.get("Description"):
        parameter["description"] = declaration["Description"]
    if str(declaration.get("NoEcho", "")).lower() == "true":
        parameter["hidden"] = True
    about = (
        {"description": declaration["ConstraintDescription"]}
        if "ConstraintDescription" in declaration
        else {}
    )
    limits = (("length", "MinLength", "MaxLength"), ("range", "MinValue", "MaxValue"))
    constraints = [
        {
            kind: {
                end: declaration[name]
                for end, name in (("min", least), ("max", most))
                if name in declaration
            }
        }
        for kind, least, most in limits
        if least in declaration or most in declaration
    ]
    names = {"AllowedValues": "allowed_values", "AllowedPattern": "allowed_pattern"}
    constraints += [
        {kind: declaration[name]} for name, kind in names.items() if name in declaration
    ]
    return (
        {
            **parameter,
            "constraints": [{**constraint, **about} for constraint in constraints],
        }
        if constraints
        else parameter
    )
