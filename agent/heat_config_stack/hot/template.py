"""A template: its text, version and sections, checked as far as possible without values."""

from __future__ import annotations

from collections.abc import Mapping

from heat_config_agent.diagnostics.diagnostics import Diagnostics
from heat_config_agent.diagnostics.mistakes import Invalid
from heat_config_agent.diagnostics.words import meant
from heat_config_agent.masking.redaction import OPEN
from heat_config_agent.model.mistake import Mistake
from heat_config_agent.model.positions import Json, Path, Place
from heat_config_stack.definition import ParameterGroup, Schema
from heat_config_stack.hot import capabilities, versions
from heat_config_stack.hot.parameters import PSEUDO, schemas
from heat_config_stack.hot.text import heat_text
from heat_config_stack.hot.versions import Version

_KEY = "heat_template_version"


DOCUMENT = "this is a document of deployments: heat-config-apply --plan shows what it does"


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
            raise Invalid([Mistake(problem, (), Place(file, 1, 1), hint, "template_format")], OPEN)
        self.sections: dict[str, Json] = self.text.value or {}
        self.version = self._version()
        report = self.report()
        self._check_sections(report)
        self.schemas: dict[str, Schema] = schemas(self.section("parameters"), self.version, report)
        self.capabilities = capabilities.of(self.text, report)
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
        return Invalid([Mistake(problem, path, self.text.place(path) or Place(self.file, 1, 1), hint, kind)], OPEN)

    def _version(self) -> Version:
        keys = [key for key in (_KEY, *versions.OTHERS) if key in self.sections]
        latest = next(reversed(versions.VERSIONS))
        if not keys:
            hint = f"begin it with {_KEY}: {latest}"
            if "tosca_definitions_version" in self.sections:
                hint = (
                    "a TOSCA service template is read from a file, not from a pipe, nor as a part of another template"
                )
            elif _has_deployments(self.sections.get("deployments")):
                hint = DOCUMENT
            elif misspelt := [key for key in self.sections if meant(key, [_KEY])]:
                hint = f"is {misspelt[0]} meant to be {_KEY}?"
            raise self._refuse("Template format version not found.", (), hint, "template_format")
        if len(keys) > 1:
            raise self._refuse(f"Ambiguous versions ({', '.join(keys)})", (keys[1],), "keep one", "template")
        if keys[0] != _KEY:
            problem = "this template is in CloudFormation's format, which is not supported"
            raise self._refuse(problem, (keys[0],), f"write it in HOT, with {_KEY}", "template")
        version = versions.find(self.sections[_KEY])
        if version is None:
            every = ", ".join([*versions.VERSIONS, *versions.ALIASES])
            problem = f'"{self.sections[_KEY]}" is not a version of HOT; there are {every}'
            raise self._refuse(problem, (_KEY,), meant(self.sections[_KEY], versions.VERSIONS), "template")
        return version

    def _check_sections(self, report: Diagnostics) -> None:
        for name in self.sections:
            if name not in self.version.sections:
                hint = meant(name, self.version.sections)
                if name == "conditions":
                    hint = "conditions exist from 2016-10-14 on"
                report.wrong(f"The template section is invalid: {name}", (name,), hint, kind="template")
        if "capabilities" in self.sections:
            report.warn(capabilities.NOT_HEATS, ("capabilities",), code=capabilities.CODE)
        for name, kind in (("parameters", "parameters"), ("resources", "template"), ("outputs", "validate")):
            section = self.sections.get(name)
            if section and not isinstance(section, dict):
                what = f'The section "{name}" must be a map of names, not a {type(section).__name__}'
                report.wrong(what, (name,), "each name begins a line, and ends with a colon", kind=kind)
        conditions = self.sections.get("conditions", {})
        if "conditions" in self.version.sections and not isinstance(conditions, dict):
            section = "null" if conditions is None else f"a {type(conditions).__name__}"
            report.wrong(f"Condition definitions must be a map. Found {section} instead", ("conditions",), "remove it")

    def _groups(self, report: Diagnostics) -> list[ParameterGroup]:
        section = self.sections.get("parameter_groups")
        if not section:
            return []
        if not isinstance(section, list):
            problem = "Parameter Groups error: The parameter_groups should be a list."
            report.wrong(problem, ("parameter_groups",), "begin each group with a dash")
            return []
        seen: set[str] = set()
        made = [self._group(each, ("parameter_groups", index), seen, report) for index, each in enumerate(section)]
        return [each for each in made if each]

    def _group(self, group: Json, at: Path, seen: set[str], report: Diagnostics) -> ParameterGroup | None:
        if not isinstance(group, dict):
            report.wrong("Parameter Groups error: a group is a map with label and parameters", at)
            return None
        label = str(group.get("label", ""))
        names = group.get("parameters")
        if not isinstance(names, list):
            problem = "The parameters of parameter group should be a list."
            if names is None:
                problem = "The parameters must be provided for each parameter group."
            report.wrong(f"Parameter Groups error: {problem}", ("parameter_groups", label), at=at)
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
                report.wrong(f"Parameter Groups error: {problem}", path, hint, at=(*at, "parameters", index))
            seen.add(str(name))
        return ParameterGroup(label, str(group.get("description", "")), tuple(map(str, names)))
