"""Templates of child stacks in CloudFormation's format, as older plug-ins have them, rewritten in HOT."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from heat_config_agent.stack import exception
from heat_config_agent.stack.properties import shown

KEYS = ("HeatTemplateFormatVersion", "AWSTemplateFormatVersion")
"""The keys of the version of such a template."""

VERSION = "2016-10-14"
"""The version of HOT that has all functions that are needed."""

_TYPES = {"Number": "number", "CommaDelimitedList": "comma_delimited_list", "Json": "json", "Boolean": "boolean"}
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
_RENAMED = {"Fn::If": "if", "Fn::Equals": "equals", "Fn::And": "and", "Fn::Or": "or", "Fn::Not": "not"}


def rewritten(template: Mapping[str, Any]) -> dict[str, Any]:
    """Return a template in HOT. Raises NotSupported for a function that HOT has no equivalent of."""
    return _Rewriting(template).template()


class _Rewriting:
    """One template that is rewritten."""

    def __init__(self, template: Mapping[str, Any]) -> None:
        self._template = template
        self._parameters = template.get("Parameters") or {}
        self._functions: dict[str, Callable[[Any], Any]] = {
            "Ref": self._reference,
            "Fn::GetAtt": lambda given: {"get_attr": [given[0], self.value(given[1])]},
            "Fn::Join": lambda given: {"list_join": [self.value(given[0]), self.value(given[1])]},
            "Fn::Base64": self.value,
            "Fn::GetAZs": lambda _given: ["nova"],
            "Fn::Replace": self._replace,
            "Fn::Select": self._select,
            "Fn::FindInMap": self._find,
            "Fn::ResourceFacade": lambda given: {
                "resource_facade": {"DeletionPolicy": "deletion_policy"}.get(given, given.lower())
            },
            **{name: self._renamed(hot) for name, hot in _RENAMED.items()},
        }

    def template(self) -> dict[str, Any]:
        """Return the template."""
        parameters = {name: _parameter(each) for name, each in self._parameters.items()}
        if self._template.get("Mappings"):
            parameters[_MAPPINGS] = {"type": "json", "default": self._template["Mappings"]}
        sections = {
            "parameters": parameters,
            "conditions": self._each("Conditions", self.value),
            "resources": self._each("Resources", self._resource),
            "outputs": self._each("Outputs", self._output),
        }
        kept = {name: each for name, each in sections.items() if each}
        return {"heat_template_version": VERSION, "description": self._template.get("Description") or "", **kept}

    def _each(self, section: str, rewrite: Callable[[Any], Any]) -> dict[str, Any]:
        return {name: rewrite(each) for name, each in (self._template.get(section) or {}).items()}

    def _resource(self, given: Mapping[str, Any]) -> dict[str, Any]:
        made = {hot: given[name] for name, hot in _PARTS.items() if name in given}
        for name, hot in (("Properties", "properties"), ("Metadata", "metadata"), ("UpdatePolicy", "update_policy")):
            if given.get(name):
                made[hot] = self.value(given[name])
        return made

    def _output(self, given: Mapping[str, Any]) -> dict[str, Any]:
        made = {hot: given[name] for name, hot in _PARTS.items() if name in given}
        return {**made, "value": self.value(given.get("Value"))}

    def value(self, given: Any) -> Any:
        """Return a value with its functions rewritten."""
        if isinstance(given, list):
            return [self.value(each) for each in given]
        if not isinstance(given, Mapping):
            return given
        if len(given) == 1:
            name, argument = next(iter(given.items()))
            if name in self._functions:
                try:
                    return self._functions[name](argument)
                except (AttributeError, LookupError, TypeError):
                    what = f"{name} with {shown(argument)} in a template of a plug-in"
                    raise exception.NotSupported(feature=what) from None
            if isinstance(name, str) and name.startswith("Fn::"):
                raise exception.NotSupported(feature=f"{name} in a template of a plug-in")
        return {name: self.value(each) for name, each in given.items()}

    def _renamed(self, name: str) -> Callable[[Any], Any]:
        return lambda given: {name: self.value(given)}

    def _reference(self, name: str) -> Any:
        if name == "AWS::Region":
            return _REGION
        if name in _PSEUDO or name in self._parameters:
            return {"get_param": _PSEUDO.get(name, name)}
        return {"get_resource": name}

    def _replace(self, given: Any) -> Any:
        return {"str_replace": {"params": self.value(given[0]), "template": self.value(given[1])}}

    def _select(self, given: Any) -> Any:
        index, values = given[0], given[1]
        if isinstance(values, list) and str(index).isdecimal() and int(index) < len(values):
            return self.value(values[int(index)])
        if isinstance(values, Mapping) and index in values:
            return self.value(values[index])
        raise exception.NotSupported(feature="Fn::Select of a computed value in a template of a plug-in")

    def _find(self, given: Any) -> Any:
        """Return a value of the mappings, which are the default of a parameter."""
        return {"get_param": [_MAPPINGS, *(self.value(key) for key in given)]}


def _parameter(given: Mapping[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {"type": _TYPES.get(given.get("Type", ""), "string")}
    if "Default" in given:
        made["default"] = given["Default"]
    if given.get("Description"):
        made["description"] = given["Description"]
    if str(given.get("NoEcho", "")).lower() == "true":
        made["hidden"] = True
    about = {"description": given["ConstraintDescription"]} if "ConstraintDescription" in given else {}
    limits = (("length", "MinLength", "MaxLength"), ("range", "MinValue", "MaxValue"))
    constraints = [
        {kind: {end: given[name] for end, name in (("min", least), ("max", most)) if name in given}}
        for kind, least, most in limits
        if least in given or most in given
    ]
    names = {"AllowedValues": "allowed_values", "AllowedPattern": "allowed_pattern"}
    constraints += [{kind: given[name]} for name, kind in names.items() if name in given]
    return {**made, "constraints": [{**each, **about} for each in constraints]} if constraints else made
