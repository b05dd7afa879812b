"""Template and values → the definition of a stack."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from heat_config_agent.diagnostics.diagnostics import Diagnostics
from heat_config_agent.diagnostics.mistakes import OF_VALUE, Invalid
from heat_config_agent.diagnostics.words import meant
from heat_config_agent.model.mistake import Mistake
from heat_config_agent.model.positions import Json, Path, Place
from heat_config_stack.definition import (
    Definition,
    Environment,
    Identity,
    Later,
    Output,
    ResourceDefinition,
    Tree,
    circle,
    limits,
)
from heat_config_stack.hot.expressions import (
    NOTHING,
    Call,
    Conditions,
    Facade,
    Failing,
    Reference,
    Scope,
    Unknown,
    decide,
    fold,
    is_settled,
    open_values,
    parse,
    parse_condition,
)
from heat_config_stack.hot.parameters import PSEUDO, Default, values, visible
from heat_config_stack.hot.template import Template

SECTIONS = ("metadata", "depends_on", "deletion_policy", "update_policy")
"""The sections of a resource whose presence alone makes a difference to an update."""

_FIELDS: dict[str, tuple[str, type]] = {
    "type": ("string", str),
    "properties": ("object", dict),
    "metadata": ("object", dict),
    "deletion_policy": ("string", str),
    "update_policy": ("object", dict),
    "external_id": ("string", str),
    "description": ("string", str),
}
"""Key of a resource → the name of its type, and the type."""

_NO_FUNCTIONS = {"description"}

_NAMING = {"get_param", "get_resource", "get_attr", "Ref"}
"""Functions whose failure means that the template names something that it does not have."""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """Everything except the template on which a stack's definition depends."""

    given: Mapping[str, Json]
    """Parameter → value."""
    places: Mapping[str, Place]
    """Parameter → the position of its value in an environment."""
    defaults: Mapping[str, Json]
    identity: Identity
    environment: Environment
    content: Callable[[str], str | None]
    """Returns the content of a file by its name in the template; None if there is no such file."""
    source: Json
    known: bool = True
    """True if a required parameter without a value is a mistake."""
    is_child: bool = False
    is_final: bool = True
    """True if the stack is created as it is, so that no more default values come from environments."""


def definition(
    template: Template, circumstances: Circumstances
) -> tuple[Definition, list[Mistake]]:
    """Return the definition of a stack and all mistakes, without secrets. With mistakes, the definition is unusable."""
    report = template.report()
    report.mistakes += template.mistakes
    report.warnings += [
        warning for warning in template.warnings if warning not in report.warnings
    ]
    # the values of a child are not final before it is created
    checked = circumstances.known or not circumstances.is_child
    of_child = Default.REPLACED if circumstances.is_final else Default.WARNED
    default = of_child if circumstances.is_child else Default.CHECKED
    parameters = values(
        template.schemas,
        circumstances.given,
        circumstances.defaults,
        report,
        circumstances.places,
        known=circumstances.known,
        checked=checked,
        default=default,
    )
    scope = Scope(
        template.version,
        visible(parameters, circumstances.identity),
        circumstances.content,
        report,
        is_child=circumstances.is_child,
    )
    _forgive(template, scope)
    scope.conditions = _conditions(template, scope)
    resources = _Resources(template, scope, circumstances).made()
    outputs = _outputs(template, scope)
    result = Definition(
        circumstances.identity,
        template.description,
        parameters,
        template.groups,
        resources,
        outputs,
        circumstances.environment,
        circumstances.source,
        tuple(report.warnings),
        template.text.place,
        conditional=frozenset(
            name
            for name, raw in template.section("resources").items()
            if isinstance(raw, dict) and "condition" in raw
        ),
    )
    conceal = result.conceal
    result = replace(
        result,
        warnings=tuple(warning.concealed(conceal.text) for warning in result.warnings),
    )
    return result, [mistake.concealed(conceal.text) for mistake in report.mistakes]


def _forgive(template: Template, scope: Scope) -> None:
    """Make parameters with a wrong declaration unknown, so that the mistake is reported once."""
    missing = template.section("parameters").keys() - scope.parameters.keys()
    scope.parameters = {**scope.parameters, **dict.fromkeys(missing, Unknown())}


def _conditions(template: Template, scope: Scope) -> Conditions:
    parsed: dict[str, Tree] = {}
    for name, raw in template.section("conditions").items():
        path: Path = ("conditions", name)
        parsed[name] = tree = parse_condition(raw, path, scope)
        if not isinstance(tree, bool | Later):
            hint = "it takes true, false or a function"
            scope.report.wrong(
                f'The definition of condition "{name}" is invalid: {raw}', path, hint
            )
            parsed[name] = Failing("", path, reported=True)
    return Conditions({name: partial(parsed.__getitem__, name) for name in parsed})


# Resources.


class _Resources:
    """The definitions of the resources of a template."""

    def __init__(self, template: Template, scope: Scope, of: Circumstances) -> None:
        self._template, self._scope, self._report = template, scope, scope.report
        self._of = of
        self._room = limits.Room()

    def made(self) -> dict[str, ResourceDefinition]:
        """Return the resources that no condition has removed."""
        section = self._template.section("resources")
        sound = {
            name: raw for name, raw in section.items() if self._is_sound(name, raw)
        }
        present = {name for name, raw in sound.items() if self._is_wanted(name, raw)}
        # Resources with mistakes count as present, so that each mistake is reported once.
        self._scope.resources = frozenset(present | (section.keys() - sound.keys()))
        both = self._template.schemas.keys() & present
        for name in both:
            self._report.wrong(
                f"Duplicate names: {name} is a parameter and a resource",
                ("resources", name),
            )
        # The fields of all resources are checked, also of those that a condition has removed.
        parsed = {name: self._parsed(name, raw) for name, raw in sound.items()}
        definitions = {
            name: self._resource(name, sound[name], parsed[name])
            for name in sound
            if name in present
        }
        for resource in definitions.values():
            self._check_type(resource)
        way = circle(definitions)
        if way:
            text = " → ".join([*way, way[0]])
            self._report.wrong(
                f"Circular Dependency Found: {text}", (), at=("resources", way[0])
            )
        return definitions

    def _is_sound(self, name: str, resource: Json) -> bool:
        path: Path = ("resources", name)
        if not resource:
            self._report.wrong(
                "Each resource must contain a type key.", path, kind="template"
            )
            return False
        if not isinstance(resource, dict):
            problem = f'"resources" must contain a map of resource maps. Found a {type(resource).__name__} instead'
            self._report.wrong(
                problem, path, "write {type: …} at least", kind="template"
            )
            return False
        if "/" in name:
            self._report.wrong(f'the name of a resource has no "/": {name}', path)
        if not resource.get("type"):
            hint = next(
                (
                    f"is {each} meant to be type?"
                    for each in resource
                    if meant(each, ["type"])
                ),
                "",
            )
            self._report.wrong(
                "Each resource must contain a type key.", path, hint, kind="template"
            )
        keys = self._template.version.resource_keys
        for key in resource:
            if key not in keys:
                hint = meant(key, keys)
                later = key in {"condition", "external_id"}
                hint = "it exists from 2016-10-14 on" if later else hint
                problem = f'"{key}" is not a valid keyword inside a resource definition'
                self._report.wrong(
                    problem,
                    path,
                    hint,
                    kind="validate" if later else "template",
                    at=(*path, key),
                )
        return bool(resource.get("type"))

    def _is_wanted(self, name: str, resource: Mapping[str, Json]) -> bool:
        if (
            "condition" not in resource
            or "condition" not in self._template.version.resource_keys
        ):
            return True
        raw = resource["condition"]
        path: Path = ("resources", name, "condition")
        if not isinstance(raw, bool | str | dict) or (
            isinstance(raw, dict) and not self._is_function(raw)
        ):
            self._report.wrong(
                f"Resource {name} condition type must be string_or_boolean", path
            )
            return True
        return decide(raw, path, self._scope)

    def _is_function(self, raw: Mapping[str, Json]) -> bool:
        version = self._template.version
        return len(raw) == 1 and bool(
            raw.keys() & (version.condition_functions.keys() | version.functions.keys())
        )

    def _parsed(self, name: str, resource: Mapping[str, Json]) -> dict[str, Tree]:
        """Return the fields that have no mistake in their form."""
        trees: dict[str, Tree] = {}
        for key, (what, type_) in _FIELDS.items():
            if key not in resource or key not in self._template.version.resource_keys:
                continue
            path: Path = ("resources", name, key)
            tree = (
                resource[key]
                if key in _NO_FUNCTIONS
                else parse(resource[key], path, self._scope)
            )
            if not isinstance(tree, type_) and (
                key == "type" or not isinstance(tree, Later)
            ):
                self._report.wrong(f"Resource {name} {key} type must be {what}", path)
                continue
            if key == "properties" and isinstance(tree, Later):
                problem = "a function cannot stand for all properties at once"
                self._report.wrong(
                    problem, path[:2], "write it for each property", at=path
                )
                continue
            trees[key] = tree
        return trees

    def _resource(
        self, name: str, raw: Mapping[str, Json], parsed: Mapping[str, Tree]
    ) -> ResourceDefinition:
        path: Path = ("resources", name)
        folded = {key: fold(tree, self._scope) for key, tree in parsed.items()}
        for key in ("properties", "metadata"):
            try:
                self._room.take(folded.get(key))
            except limits.TooMuch as error:
                problem = f"together with those of earlier resources, the {key} of this one have {error}"
                raise self._report.refuse(problem, (*path, key)) from None
        properties = folded.get("properties", {})
        for key, tree in properties.items():
            self._check(tree, (*path, "properties", key))
        metadata = folded.get("metadata", {})
        self._check_references(metadata)
        if metadata is NOTHING or not isinstance(metadata, dict | Later):
            if metadata is not NOTHING:
                self._report.wrong(
                    f"Resource {name} metadata type must be object", (*path, "metadata")
                )
            metadata = {}
        external = folded.get("external_id")
        # it has no other id yet
        external = external.resource if isinstance(external, Reference) else external
        if external is not None and not isinstance(external, str):
            self._report.wrong(
                f"Resource {name} external_id type must be string",
                (*path, "external_id"),
            )
            external = None
        depends_on = self._depends_on(name, raw)
        if external is not None and depends_on:
            problem = f"a resource with an external_id can depend on nothing: {name} is there already"
            self._report.wrong(problem, (*path, "depends_on"))
        return ResourceDefinition(
            name,
            str(folded.get("type", "")),
            properties,
            metadata,
            depends_on,
            "Retain" if external is not None else self._deletion_policy(name, folded),
            self._update_policy(name, folded),
            external,
            str(folded.get("description", "")),
            frozenset(parsed.get("properties", {}).keys() - properties.keys()),
            condition
            if isinstance(condition := raw.get("condition"), str)
            else None
            if condition is None
            else True,
            frozenset(key for key in SECTIONS if raw.get(key) is not None),
        )

    def _check(self, tree: Tree, path: Path) -> None:
        """Report the functions of a property that fail."""
        for each in open_values(tree):
            if isinstance(each, Failing) and not each.reported:
                code = "" if each.path[-1] in _NAMING else OF_VALUE
                self._report.wrong(
                    each.problem, path, self._hint(each), at=each.path, code=code
                )

    def _check_references(self, metadata: Tree) -> None:
        for value in open_values(metadata):
            if isinstance(value, Failing) and not value.reported:
                if value.path[-1] in {"get_resource", "get_attr", "Ref"}:
                    self._report.wrong(value.problem, value.path, self._hint(value))
                else:
                    self._report.warn(
                        f"the resource will fail: {value.problem}", value.path
                    )

    def _hint(self, failing: Failing) -> str:
        return _hint(failing, self._scope, self._template)

    def _check_type(self, resource: ResourceDefinition) -> None:
        """Report a type that is mapped to itself, or to a template that does not exist.

        The stack checks whether the type exists.
        """
        try:
            found = next(self._of.environment.candidates(resource.type, resource.name))
            if found.template and self._of.content(found.template) is None:
                path: Path = ("resources", resource.name)
                self._report.wrong(
                    f"there is no file {found.template}", path, at=(*path, "type")
                )
        except Invalid as invalid:
            for each in invalid.mistakes:
                self._report.wrong(
                    each.problem, each.path, each.hint, at=(*each.path, "type")
                )

    def _depends_on(self, name: str, raw: Mapping[str, Json]) -> tuple[str, ...]:
        if "depends_on" not in raw:
            return ()
        path: Path = ("resources", name, "depends_on")
        said = raw["depends_on"]
        names = [said] if isinstance(said, str) else said
        if not isinstance(names, list):
            self._report.wrong(
                f"Resource {name} depends_on type must be list or string", path
            )
            return ()
        dependencies = []
        section = self._template.section("resources")
        for index, dependency in enumerate(names):
            if not isinstance(dependency, str):
                self._report.wrong(
                    f"Resource {name} depends_on must be a list of strings",
                    (*path, index),
                )
            elif dependency not in section:
                hint = self._report.meant(dependency, section)
                self._report.wrong(
                    f'The specified reference "{dependency}" (in {name}) is incorrect.',
                    (*path, index),
                    hint,
                )
            else:
                dependencies.append(dependency)
        return tuple(dependencies)

    def _update_policy(self, name: str, folded: Mapping[str, Tree]) -> Tree:
        found = folded.get("update_policy", {})
        if not isinstance(found, Facade):
            return found
        self._report.wrong(
            "update_policy must be a map",
            ("resources", name, "update_policy"),
            "its values may be functions, but not all of it",
        )
        return {}

    def _deletion_policy(self, name: str, folded: Mapping[str, Tree]) -> Tree:
        policy = folded.get("deletion_policy")
        if policy is None or policy is NOTHING:
            return "Delete"
        path: Path = ("resources", name, "deletion_policy")
        policies = self._template.version.deletion_policies
        values = list(open_values(policy))
        if any(isinstance(each, Unknown) for each in values):
            return "Delete"
        if isinstance(policy, Facade) and policy.what != "deletion_policy":
            self._report.wrong(
                f"the {policy.what} of another resource cannot be a deletion policy",
                path,
            )
            return "Delete"
        if values and all(isinstance(each, Call | Facade) for each in values):
            # the policy of another resource
            return policy
        if isinstance(policy, Failing):
            if not policy.reported:
                self._report.wrong(policy.problem, path, self._hint(policy))
            return "Delete"
        if not isinstance(policy, str) or policy not in policies:
            shown = (
                policy
                if is_settled(policy)
                else "that of a resource that is not there yet"
            )
            hint = meant(str(policy), policies) or f"one of {', '.join(policies)}"
            self._report.wrong(f'Invalid deletion policy "{shown}"', path, hint)
            return "Delete"
        return policies[policy]


def _hint(failing: Failing, scope: Scope, template: Template) -> str:
    """Return a hint for a name that does not exist."""
    name = failing.problem.partition('"')[2].partition('"')[0]
    if failing.path[-1:] == ("get_param",):
        name = failing.problem.partition("(")[2].partition(")")[0]
        return scope.report.meant(name, [*scope.parameters, *PSEUDO])
    if failing.path[-1:] and failing.path[-1] in {"get_resource", "get_attr", "Ref"}:
        if name in template.section("resources"):
            return f"its condition has taken {name} away: use if"
        if name in scope.parameters:
            return f"{name} is a parameter: use get_param"
        return scope.report.meant(name, scope.resources)
    return ""


# Outputs.


def _outputs(template: Template, scope: Scope) -> dict[str, Output]:
    outputs = {}
    for name, raw in template.section("outputs").items():
        path: Path = ("outputs", name)
        if not isinstance(raw, dict):
            kind = "null" if raw is None else f"a {type(raw).__name__}"
            scope.report.wrong(
                f"Output definitions must be a map. Found {kind} instead",
                path,
                "write {value: …}",
            )
            continue
        if "value" not in raw:
            scope.report.wrong(
                "Each output definition must contain a value key.",
                path,
                meant("value", raw),
            )
            continue
        _check_keys(raw, path, template.version.output_keys, scope.report)
        description = str(raw.get("description") or "")
        condition = (
            raw.get("condition")
            if "condition" in template.version.output_keys
            else None
        )
        if condition is not None and not decide(condition, (*path, "condition"), scope):
            outputs[name] = Output(name, None, description)
            continue
        outputs[name] = Output(
            name,
            _output_value(raw["value"], (*path, "value"), template, scope),
            description,
        )
    return outputs


def _check_keys(
    raw: Iterable[str], path: Path, keys: frozenset[str], report: Diagnostics
) -> None:
    for key in raw:
        if key not in keys:
            hint = (
                "it exists from 2016-10-14 on"
                if key == "condition"
                else meant(key, keys)
            )
            report.warn(
                f"an output has no key {key}: it is ignored", (*path, key), hint
            )


def _output_value(raw: Json, path: Path, template: Template, scope: Scope) -> Tree:
    tree = fold(parse(raw, path, scope), scope)
    for value in open_values(tree):
        if isinstance(value, Failing) and not value.reported:
            hint = _hint(value, scope, template)
            if value.fatal:
                scope.report.wrong(value.problem, value.path, hint)
            else:
                scope.report.warn(
                    f"this output will have no value: {value.problem}", value.path, hint
                )
    return None if tree is NOTHING else tree
