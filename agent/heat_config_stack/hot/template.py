"""A template: its text, version and sections, checked as far as possible without values.

Templates declare capabilities, and environments require them. Heat has a specification of this, but no implementation:

    capabilities:                          # in a template
      deployment: puppet
      resource_type: [My::Web, My::Database]

    requires: {deployment: puppet}         # in an environment
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from heat_config_agent.diagnostics.diagnostics import Diagnostics
from heat_config_agent.diagnostics.mistakes import Invalid
from heat_config_agent.diagnostics.text import Text
from heat_config_agent.diagnostics.words import meant
from heat_config_agent.masking.redaction import OPEN
from heat_config_agent.model.mistake import Mistake
from heat_config_agent.model.positions import Json, Path, Place
from heat_config_stack.definition import ParameterGroup, Schema
from heat_config_stack.hot import versions
from heat_config_stack.hot.parameters import PSEUDO, schemas
from heat_config_stack.hot.source import heat_text
from heat_config_stack.hot.versions import Version

Capabilities = Mapping[str, tuple[str, ...]]
"""Key → its values, as text."""

NOT_HEATS = (
    "Heat refuses this section: it has specified capabilities, and does not have them"
)
CAPABILITIES = "capabilities"
"""The code of that warning, which `validate --strict` lets pass: a template with capabilities cannot avoid it."""


def read_capabilities(
    section: Json, report: Diagnostics, path: Path, kind: str
) -> dict[str, tuple[str, ...]]:
    """Return the section `capabilities` or `requires` without the entries that have mistakes.

    `kind` is the stage of the mistakes.
    """
    if section is None:
        return {}
    if not isinstance(section, dict):
        report.wrong(
            f'"{path[-1]}" is a map of keys and values, such as deployment: puppet',
            path,
            kind=kind,
        )
        return {}
    capabilities = {}
    for key, said in section.items():
        values = said if isinstance(said, list) else [said]
        wrong = [
            index
            for index, each in enumerate(values)
            if not isinstance(each, str | bool | int | float)
        ]
        for index in wrong:
            at = (*path, key, index) if isinstance(said, list) else (*path, key)
            report.wrong(
                f"a capability is text, a number or a boolean, not {json.dumps(values[index])}",
                at,
                kind=kind,
            )
        if not values:
            report.wrong(f"{key} has no value", (*path, key), "remove it", kind=kind)
        elif not wrong:
            capabilities[key] = tuple(dict.fromkeys(map(_as_text, values)))
    return capabilities


def _as_text(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def capabilities_of(template: Text, report: Diagnostics) -> dict[str, tuple[str, ...]]:
    """Return the capabilities of a template."""
    return read_capabilities(
        template.value.get("capabilities"), report, ("capabilities",), "template"
    )


def capabilities_once(warnings: Iterable[Mistake]) -> list[Mistake]:
    """Return warnings; those about capabilities appear once for all environments, and once for all templates."""
    kept: list[Mistake] = []
    sections: set[object] = set()
    for warning in warnings:
        section = warning.path[-1] if warning.path else ""
        if warning.code != CAPABILITIES or section not in sections:
            kept.append(warning)
        if warning.code == CAPABILITIES:
            sections.add(section)
    return kept


def fits(capabilities: Capabilities, requires: Capabilities) -> bool:
    """Return whether the capabilities have every required value."""
    return all(
        set(values) <= set(capabilities.get(key, ()))
        for key, values in requires.items()
    )


def written_capabilities(capabilities: Capabilities) -> str:
    """Return capabilities as text for a command line: `key=value, key=value`."""
    return ", ".join(
        f"{key}={value}" for key, values in capabilities.items() for value in values
    )


DOCUMENT = (
    "this is a document of deployments: heat-config-apply --plan shows what it does"
)


def _has_deployments(value: Json) -> bool:
    """Return whether a value is a list of deployments."""
    return isinstance(value, list) and any(
        isinstance(each, dict) and {"group", "config"} & each.keys() for each in value
    )


class Template:
    """One template. Each definition that is made of it has a report of its own."""

    def __init__(self, file: str, text: str) -> None:
        """Parse a template. Raises `Invalid` if its sections cannot be read."""
        self.file = file
        self.text = heat_text(file, text, "template_format")
        if self.text.value is not None and not isinstance(self.text.value, dict):
            problem = "The template is not a JSON object or YAML mapping."
            hint = DOCUMENT if _has_deployments(self.text.value) else ""
            raise Invalid(
                [Mistake(problem, (), Place(file, 1, 1), hint, "template_format")], OPEN
            )
        self.sections: dict[str, Json] = self.text.value or {}
        self.version = self._version()
        report = self.report()
        self._check_sections(report)
        self.schemas: dict[str, Schema] = schemas(
            self.section("parameters"), self.version, report
        )
        self.capabilities = capabilities_of(self.text, report)
        self.groups = tuple(self._groups(report))
        self.mistakes, self.warnings = report.mistakes, report.warnings

    def report(self) -> Diagnostics:
        """Return a report for this text."""
        return Diagnostics(self.text)

    def section(self, name: str) -> Mapping[str, Json]:
        """Return a section that is a map; a missing or empty section, or one of another type, is an empty map."""
        found = self.sections.get(name)
        return found if isinstance(found, dict) else {}

    @property
    def description(self) -> str:
        """The description of the template."""
        return str(self.sections.get("description") or "No description")

    def _refuse(self, problem: str, path: Path, hint: str, kind: str) -> Invalid:
        return Invalid(
            [
                Mistake(
                    problem,
                    path,
                    self.text.place(path) or Place(self.file, 1, 1),
                    hint,
                    kind,
                )
            ],
            OPEN,
        )

    def _version(self) -> Version:
        keys = [key for key in (versions.KEY, *versions.OTHERS) if key in self.sections]
        latest = next(reversed(versions.VERSIONS))
        if not keys:
            hint = f"begin it with {versions.KEY}: {latest}"
            if "tosca_definitions_version" in self.sections:
                hint = (
                    "a TOSCA service template is read from a file, "
                    "not from a pipe, nor as a part of another template"
                )
            elif _has_deployments(self.sections.get("deployments")):
                hint = DOCUMENT
            elif misspelt := [
                key for key in self.sections if meant(key, [versions.KEY])
            ]:
                hint = f"is {misspelt[0]} meant to be {versions.KEY}?"
            raise self._refuse(
                "Template format version not found.", (), hint, "template_format"
            )
        if len(keys) > 1:
            raise self._refuse(
                f"Ambiguous versions ({', '.join(keys)})",
                (keys[1],),
                "keep one",
                "template",
            )
        if keys[0] != versions.KEY:
            problem = (
                "this template is in CloudFormation's format, which is not supported"
            )
            raise self._refuse(
                problem, (keys[0],), f"write it in HOT, with {versions.KEY}", "template"
            )
        version = versions.find(self.sections[versions.KEY])
        if version is None:
            every = ", ".join([*versions.VERSIONS, *versions.ALIASES])
            problem = f'"{self.sections[versions.KEY]}" is not a version of HOT; there are {every}'
            raise self._refuse(
                problem,
                (versions.KEY,),
                meant(self.sections[versions.KEY], versions.VERSIONS),
                "template",
            )
        return version

    def _check_sections(self, report: Diagnostics) -> None:
        for name in self.sections:
            if name not in self.version.sections:
                hint = meant(name, self.version.sections)
                if name == "conditions":
                    hint = "conditions exist from 2016-10-14 on"
                report.wrong(
                    f"The template section is invalid: {name}",
                    (name,),
                    hint,
                    kind="template",
                )
        if "capabilities" in self.sections:
            report.warn(NOT_HEATS, ("capabilities",), code=CAPABILITIES)
        for name, kind in (
            ("parameters", "parameters"),
            ("resources", "template"),
            ("outputs", "validate"),
        ):
            section = self.sections.get(name)
            if section and not isinstance(section, dict):
                what = f'The section "{name}" must be a map of names, not a {type(section).__name__}'
                report.wrong(
                    what,
                    (name,),
                    "each name begins a line, and ends with a colon",
                    kind=kind,
                )
        conditions = self.sections.get("conditions", {})
        if "conditions" in self.version.sections and not isinstance(conditions, dict):
            section = "null" if conditions is None else f"a {type(conditions).__name__}"
            report.wrong(
                f"Condition definitions must be a map. Found {section} instead",
                ("conditions",),
                "remove it",
            )

    def _groups(self, report: Diagnostics) -> list[ParameterGroup]:
        section = self.sections.get("parameter_groups")
        if not section:
            return []
        if not isinstance(section, list):
            problem = "Parameter Groups error: The parameter_groups should be a list."
            report.wrong(problem, ("parameter_groups",), "begin each group with a dash")
            return []
        seen: set[str] = set()
        made = [
            self._group(each, ("parameter_groups", index), seen, report)
            for index, each in enumerate(section)
        ]
        return [each for each in made if each]

    def _group(
        self, group: Json, at: Path, seen: set[str], report: Diagnostics
    ) -> ParameterGroup | None:
        if not isinstance(group, dict):
            report.wrong(
                "Parameter Groups error: a group is a map with label and parameters", at
            )
            return None
        label = str(group.get("label", ""))
        names = group.get("parameters")
        if not isinstance(names, list):
            problem = "The parameters of parameter group should be a list."
            if names is None:
                problem = "The parameters must be provided for each parameter group."
            report.wrong(
                f"Parameter Groups error: {problem}", ("parameter_groups", label), at=at
            )
            return None
        for index, name in enumerate(names):
            problem, hint = "", ""
            if str(name) in seen:
                problem = f"The {name} parameter must be assigned to one parameter group only."
            elif str(name) not in self.section("parameters") and name not in PSEUDO:
                problem = f"The grouped parameter {name} does not reference a valid parameter."
                hint = meant(name, self.section("parameters"))
            if problem:
                path = ("parameter_groups", label)
                report.wrong(
                    f"Parameter Groups error: {problem}",
                    path,
                    hint,
                    at=(*at, "parameters", index),
                )
            seen.add(str(name))
        return ParameterGroup(
            label, str(group.get("description", "")), tuple(map(str, names))
        )
