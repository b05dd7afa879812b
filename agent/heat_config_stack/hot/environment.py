"""Environments: several texts, merged as Heat merges them.

A later file overrides an earlier one, and all files override parameters that are given directly, as in Heat if the
client sends files. Parameters that are given directly override an environment that is sent as one text. Values for
which `parameter_merge_strategies` asks for it are merged with earlier ones instead of overriding them.
"""

from __future__ import annotations

import json
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field

from heat_config_agent.diagnostics.diagnostics import Diagnostics
from heat_config_agent.diagnostics.text import Text
from heat_config_agent.diagnostics.words import among
from heat_config_agent.model.mistake import Mistake
from heat_config_agent.model.positions import Json, Path, Place
from heat_config_stack.definition import Schema
from heat_config_stack.hot import capabilities, registry
from heat_config_stack.hot.source import COMMAND_LINE, Source, base_of
from heat_config_stack.hot.text import heat_text

SECTIONS = (
    "parameters",
    "resource_registry",
    "parameter_defaults",
    "encrypted_param_names",
    "event_sinks",
    "parameter_merge_strategies",
    "requires",
    "attributes",
)
_LISTS = {"encrypted_param_names", "event_sinks"}
_STRATEGIES = ("overwrite", "merge", "deep_merge")
SINKS = ("zaqar-queue",)


@dataclass
class Merged:
    """All environments of a stack, merged."""

    parameters: dict[str, Json] = field(default_factory=dict)
    parameter_defaults: dict[str, Json] = field(default_factory=dict)
    resource_registry: dict[str, Json] = field(default_factory=dict)
    lists: dict[Path, Text] = field(default_factory=dict)
    """Path of each list of templates in the registry → its environment."""
    requires: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The capabilities that templates of lists must have."""
    required_at: dict[str, Place] = field(default_factory=dict)
    """Required capability → its position."""
    attributes: dict[str, dict[str, Json]] = field(default_factory=dict)
    """The attributes that are given for resources that need a cloud, by path or type."""
    places: dict[str, Place] = field(default_factory=dict)
    """Parameter → the position of its value; the last one if there are several."""
    mistakes: list[Mistake] = field(default_factory=list)
    warnings: list[Mistake] = field(default_factory=list)


def read(text: Text, report: Diagnostics, *, several: bool = True) -> dict[str, Json]:
    """Return the sections of one environment without those that have mistakes.

    `several` is False for one that Heat's client would send as a text of its own, and not as one of several files.
    """
    if text.value is None:
        return {}
    if not isinstance(text.value, dict):
        problem = "The environment is not a valid YAML mapping data type."
        report.wrong(problem, (), "begin it with parameters: or resource_registry:", kind="environment_format")
        return {}
    sections: dict[str, Json] = {}
    is_merged = several and bool(text.value.get("parameters") or text.value.get("parameter_defaults"))
    for name, section in text.value.items():
        if name not in SECTIONS:
            hint = among(name, SECTIONS, "there are")
            report.wrong(f'environment has wrong section "{name}"', (name,), hint, kind="environment_format")
        elif section is None:
            report.wrong(f'environment has empty section "{name}"', (name,), "remove it", kind="environment_format")
        elif name == "parameter_merge_strategies" and not is_merged and not isinstance(section, dict):
            report.warn("it is ignored, because nothing is merged; if it is used, it must be a map", (name,))
        elif not section and (several or name != "resource_registry"):
            sections[name] = [] if name in _LISTS else {}  # as in Heat, for every empty value
        elif not isinstance(section, list if name in _LISTS else dict):
            _report_shape(name, report, "validate" if name == "parameter_defaults" and not several else "environment")
        else:
            sections[name] = section
    strategies = text.value.get("parameter_merge_strategies")
    if is_merged and not strategies and not isinstance(strategies, dict | None):
        _report_shape("parameter_merge_strategies", report)
    _check_sinks(list(sections.get("event_sinks", [])), report)
    return sections


def _report_shape(name: str, report: Diagnostics, stage: str = "environment") -> None:
    kind = "list" if name in _LISTS else "map"
    report.wrong(f'the section "{name}" of an environment is a {kind}', (name,), kind=stage)


def _check_sinks(sinks: Sequence[Json], report: Diagnostics) -> None:
    for index, sink in enumerate(sinks):
        kind = sink.get("type") if isinstance(sink, dict) else None
        if kind not in SINKS:
            report.wrong(f"there is no event sink of the type {kind!r}", ("event_sinks", index), kind="environment")
        else:
            report.warn("an event sink does nothing here: there is no cloud to tell", ("event_sinks", index))


def merge(texts: Sequence[Text], source: Source, schemas: Mapping[str, Schema]) -> Merged:
    """Return the environments of a source, merged with the parameters that are given directly.

    `texts` are the environments that could be read. `schemas` are those of the root template and of all nested
    templates; the types in them determine how values are merged.
    """
    parameters, files_win = source.parameters, source.files_win
    merged = Merged(parameters=dict(parameters) if files_win else {})
    chosen: dict[str, str] = {}
    mappings: dict[str, Json] = {}
    for text in texts:
        report = Diagnostics(text)
        sections = read(text, report, several=files_win)
        strategies = sections.get("parameter_merge_strategies", {})
        for name, into in (("parameters", merged.parameters), ("parameter_defaults", merged.parameter_defaults)):
            if sections.get(name):
                _Merging(report, strategies, chosen, schemas, name).merge(into, sections[name])
        if files_win and sections.get("parameters"):
            _say_who_wins(parameters, sections["parameters"], report)
        for name in sections.get("parameters", {}):
            place = text.place(("parameters", name))
            merged.places.update({name: place} if place else {})
        mappings_here = sections.get("resource_registry", {})
        registry.read(mappings_here, report)
        merged.lists.update(dict.fromkeys(registry.lists(mappings_here), text))
        if "requires" in sections:
            requires = capabilities.read(sections["requires"], report, ("requires",), "environment")
            merged.requires |= requires
            positions = {key: text.place(("requires", key)) for key in requires}
            merged.required_at |= {key: place for key, place in positions.items() if place}
            report.warn(capabilities.NOT_HEATS, ("requires",), code=capabilities.CODE)
        if "attributes" in sections:
            _take_attributes(merged.attributes, sections["attributes"], report)
            if text.file != COMMAND_LINE:
                report.warn("Heat refuses this section: there, resources have attributes of their own", ("attributes",))
        _say_what_does_nothing(mappings_here, report, ("resource_registry",))
        mappings_here = located(mappings_here, text.file, source)
        # The map as a whole is merged, not the maps in it; a null takes nothing back in another file.
        mappings = (
            {**mappings, **{key: each for key, each in mappings_here.items() if each is not None}}
            if mappings
            else mappings_here
        )
        # An entry that a later file overrides is never read.
        overriding = {key for key, each in mappings_here.items() if each is not None}
        merged.mistakes = [each for each in merged.mistakes if not _is_of_entry(each, overriding)] + report.mistakes
        merged.warnings += report.warnings
    if not files_win:
        merged.parameters.update(parameters)
    merged.resource_registry = registry.read(mappings, Diagnostics(heat_text("", "", "environment")))
    return merged


def _is_of_entry(mistake: Mistake, names: Container[str]) -> bool:
    """Return whether a mistake is in one of these entries of a registry."""
    return mistake.path[:1] == ("resource_registry",) and len(mistake.path) > 1 and mistake.path[1] in names


def _take_attributes(into: dict[str, dict[str, Json]], section: Mapping[str, Json], report: Diagnostics) -> None:
    for of, values in section.items():
        if isinstance(values, dict):
            into.setdefault(of, {}).update(values)
        else:
            problem = f"the attributes of {of} are a map of their names and values"
            report.wrong(problem, ("attributes", of), kind="environment")


def _say_who_wins(parameters: Mapping[str, Json], section: Mapping[str, Json], report: Diagnostics) -> None:
    for name in parameters.keys() & section.keys():
        if parameters[name] != section[name]:
            problem = f"this value of {name} overrides the one given directly, as in Heat"
            report.warn(problem, ("parameters", name), "remove it here")


def _say_what_does_nothing(section: Mapping[str, Json], report: Diagnostics, path: Path) -> None:
    for name, value in section.items():
        if name == "hooks":
            report.warn("hooks do nothing here: a stack on this machine never pauses", (*path, name))
        elif isinstance(value, dict):
            _say_what_does_nothing(value, report, (*path, name))


def located(section: Mapping[str, Json], base: str, source: Source) -> dict[str, Json]:
    """Return the registry with the names under which the files of nested templates were read."""
    base = base_of(section, base)
    paths: dict[str, Json] = {}
    for name, value in section.items():
        if isinstance(value, dict):
            paths[name] = located(value, base, source)
        elif isinstance(value, str) and registry.is_template(value) and name != "base_url":
            paths[name] = source.find(value, base) or value
        elif registry.is_list(name, value):
            paths[name] = [source.find(each, base) or each for each in value]
        else:
            paths[name] = value
    return paths


class _Merging:
    """The merge of one section of parameters into the values of earlier environments."""

    def __init__(
        self,
        report: Diagnostics,
        strategies: Mapping[str, Json],
        chosen: dict[str, str],
        schemas: Mapping[str, Schema],
        section: str,
    ) -> None:
        self._report, self._strategies, self._chosen = report, strategies, chosen
        self._schemas, self._section = schemas, section

    def merge(self, into: dict[str, Json], section: Mapping[str, Json]) -> None:
        for name, value in section.items():
            if name in self._schemas and value is not None:
                self._choose(name)
        if not into:
            into.update(section)
            return
        for name, value in section.items():
            if name not in self._schemas:
                self._report.warn(
                    f"{name} is not used: no template has a parameter of that name", (self._section, name)
                )
            elif value is not None:
                into[name] = self._value(name, into, value)

    def _choose(self, name: str) -> None:
        """Choose how the values of a parameter are merged: the first file with a value decides."""
        usual = str(self._strategies.get("default", "overwrite"))
        asked = str(self._strategies.get(name, self._chosen.get(name, usual)))
        strategy = asked if asked in _STRATEGIES else usual
        if self._chosen.setdefault(name, strategy) != strategy:
            problem = f'Conflicting merge strategy "{strategy}" for parameter "{name}": it is {self._chosen[name]}'
            self._report.wrong(
                problem, ("parameter_merge_strategies", name), "name one in one file", kind="environment"
            )

    def _value(self, name: str, earlier: Mapping[str, Json], new: Json) -> Json:
        strategy = self._chosen[name]
        if strategy not in {"merge", "deep_merge"}:
            return new
        type_, old = self._schemas[name].type, earlier.get(name)
        try:
            if type_ == "json" and not (old and isinstance(old, str)):  # Heat reads the newer text alone
                return merge_maps(old, _json(new), deep=strategy == "deep_merge")
            if type_ == "comma_delimited_list" and isinstance(new, str | list):
                return merge_lists(old, new)
            if type_ == "string" and isinstance(new, str):
                return _joined(earlier.get(name, ""), new)
            if type_ == "number" and isinstance(new, str):  # Heat joins the digits
                return _joined(old, new)
        except (ValueError, TypeError, AttributeError, RecursionError):
            pass
        problem = f"Invalid parameter in environment: {name} is of the type {type_}, and its values cannot be merged"
        self._report.wrong(problem, (self._section, name), kind="environment")
        return new


def _json(value: Json) -> Json:
    return json.loads(value) if isinstance(value, str) and value else value


def merge_lists(old: Json, new: Json) -> Json:
    """Return two lists, or two texts with commas, as one. Raises TypeError if only one of them is a list."""
    if not old:
        return new
    if isinstance(new, list):
        return [*old, *new] if isinstance(old, list) else _refuse()
    return f"{old},{new}" if isinstance(old, str) and isinstance(new, str) else _refuse()


def _refuse() -> Json:
    raise TypeError


def _joined(old: Json, new: str) -> str:
    """Return two texts joined. Raises TypeError if the older value is not text."""
    return old + new if isinstance(old, str) else _refuse()


def merge_maps(old: Json, new: Json, *, deep: bool) -> Json:
    """Return two maps as one; with `deep`, inner maps, lists and texts are joined too."""
    if not old:
        return new
    merged = dict(old)
    for key, value in new.items():
        if value is None:
            continue
        before = merged.get(key)
        if not deep:
            merged[key] = value
        elif isinstance(value, dict):
            merged[key] = merge_maps(before, value, deep=True) if before else value
        elif isinstance(value, list):
            merged[key] = merge_lists(before, value) if before else value
        elif isinstance(value, str):
            merged[key] = _joined(merged.get(key, ""), value)
        else:
            merged[key] = value
    return merged
