"""Environments: several texts, merged as Heat merges them, and the types and templates that types stand for.

A later file overrides an earlier one, and all files override parameters that are given directly, as in Heat if the
client sends files. Parameters that are given directly override an environment that is sent as one text. Values for
which `parameter_merge_strategies` asks for it are merged with earlier ones instead of overriding them.

The resource_registry of an environment says what types stand for:

    resource_registry:
      My::Server: OS::Heat::None          # one type for another
      My::*: OS::Heat::*                  # all that begin so
      My::App: app.yaml                   # a nested template
      My::Web: [a/web.yaml, b/web.yaml]   # the one of them that fits what the environment requires: see `capabilities`
      resources:
        web: {My::Server: server.yaml}    # for the resource of that name alone
        child:                            # and in the child stack of that resource
          db: {My::Server: OS::Heat::None}
        '*_b': {hooks: pre-create}

A null removes earlier entries in the same map. If several entries match, one for the name of the resource takes
precedence, then the first in alphabetical order; so a wildcard precedes the exact name of a type, as in Heat.
"""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from heat_config_agent.diagnostics.diagnostics import Diagnostics
from heat_config_agent.diagnostics.text import Text
from heat_config_agent.diagnostics.words import among
from heat_config_agent.model.mistake import Mistake
from heat_config_agent.model.positions import Json, Path, Place
from heat_config_stack.definition import MappedType, Schema
from heat_config_stack.hot import template
from heat_config_stack.hot.source import COMMAND_LINE, Source, base_of, heat_text

HOOKS = (
    "pre-create",
    "pre-update",
    "pre-delete",
    "post-create",
    "post-update",
    "post-delete",
)
RESTRICTED = ("update", "replace")
TEMPLATES = (".yaml", ".template")
"""The endings of names of nested templates."""

LONGEST = 50
"""The number of mappings that a type may go through."""

_SETTINGS = {
    "hooks": (HOOKS, "hook type", "for resource breakpoint, acceptable hook types are"),
    "restricted_actions": (
        RESTRICTED,
        "restricted_action type",
        "for resource, acceptable restricted_action types are",
    ),
}


class Circular(Exception):  # noqa: N818  # it is the mapping that is
    """A mapping leads back to itself; the text is the chain of types."""


def is_template(name: str) -> bool:
    """Return whether a type is the name of a nested template."""
    return name.endswith(TEMPLATES)


def is_list(name: str, value: Json) -> bool:
    """Return whether an entry is a list of templates to choose from."""
    is_type = name not in _SETTINGS and not is_template(name)
    return (
        is_type
        and isinstance(value, list)
        and all(isinstance(each, str) for each in value)
    )


def mappings_of(name: str, value: Json) -> dict[str, Json] | None:
    """Return the mappings in an entry, which then is for a resource; None for any other entry."""
    return value if isinstance(value, dict) and name not in _SETTINGS else None


def templates(
    section: Mapping[str, Json], base: str, path: Path = ("resource_registry",)
) -> Iterator[tuple[Path, str, str]]:
    """Yield the path and the name of each nested template in a section, and the file that it is relative to."""
    base = base_of(section, base)
    for name, value in section.items():
        at = (*path, name)
        if (mappings := mappings_of(name, value)) is not None:
            yield from templates(mappings, base, at)
        elif name != "base_url":
            several = (
                [((*at, index), each) for index, each in enumerate(value)]
                if is_list(name, value)
                else []
            )
            yield from (
                (where, each, base)
                for where, each in several or [(at, value)]
                if _names_template(each)
            )


def _names_template(value: Json) -> bool:
    return isinstance(value, str) and is_template(value)


def registry_lists(
    section: Mapping[str, Json], path: Path = ("resource_registry",)
) -> Iterator[Path]:
    """Yield the path of each list of templates."""
    for name, value in section.items():
        if (mappings := mappings_of(name, value)) is not None:
            yield from registry_lists(mappings, (*path, name))
        elif is_list(name, value):
            yield (*path, name)


class Registry:
    """The mappings of one stack."""

    def __init__(self, mappings: Mapping[str, Json]) -> None:
        """Take the section as `read` returns it."""
        self._mappings = mappings
        self._unmapped: dict[str, MappedType] = {}
        """The types that stand for themselves because nothing is mapped, as in most stacks."""

    @property
    def _resources(self) -> Mapping[str, Json]:
        found = self._mappings.get("resources")
        return found if isinstance(found, dict) else {}

    def candidates(
        self, type_: str, resource: str, way: tuple[str, ...] = ()
    ) -> Iterator[MappedType]:
        """Yield the types and templates that a type may stand for, in order of precedence, the type itself last.

        Raises `Circular`.
        """
        if (found := self._unmapped.get(type_)) is not None:
            yield found
            return
        if not self._mappings and not is_template(type_):
            yield self._unmapped.setdefault(type_, MappedType(type_))
            return
        if type_ in way:
            raise Circular(" → ".join([*way, type_]))
        if len(way) == LONGEST:
            # each step leads to a longer name, as with `My::*: My::My::*`
            raise Circular(" → ".join([*way[:3], "…"]))
        for path, target in sorted(
            self._matches(type_, resource), key=lambda each: (-len(each[0]), each[0])
        ):
            if is_template(path[-1]) or is_template(target):
                yield MappedType(
                    path[-1], path[-1] if is_template(path[-1]) else target, path
                )
                continue
            rest = (
                type_[len(path[-1]) - 1 :]
                if path[-1].endswith("*") and target.endswith("*")
                else ""
            )
            yield from self.candidates(
                target.removesuffix("*") + rest, resource, (*way, type_)
            )
        yield MappedType(type_)

    def _matches(
        self, type_: str, resource: str
    ) -> Iterator[tuple[tuple[str, ...], str]]:
        if is_template(type_) and type_ not in self._mappings:
            yield (type_,), type_
        own = self._resources.get(resource)
        if isinstance(own, dict) and isinstance(own.get(type_), str):
            yield ("resources", resource, type_), own[type_]
        for name, target in self._mappings.items():
            if not isinstance(target, str):
                continue
            if name == type_ or (
                name.endswith("*")
                and type_.startswith(name[:-1])
                and target != type_
                and not is_template(target)
            ):
                yield (name,), target

    def without(self, mapping: Path) -> Registry:
        """Return the registry without one entry."""
        return Registry(_removed(self._mappings, mapping))

    def preceded_by(self, mappings: Mapping[str, str]) -> Registry:
        """Return the registry with more mappings, which replace mappings of the same names."""
        return Registry({**self._mappings, **mappings})

    def inside(self, resource: str) -> Registry:
        """Return the registry of the child stack of a resource."""
        inner: dict[str, Json] = {}
        for name, entries in self._resources.items():
            if fnmatch.fnmatchcase(resource, name) and isinstance(entries, dict):
                inner.update(entries)
        exact = self._resources.get(resource)
        inner.update(exact if isinstance(exact, dict) else {})
        return Registry({**self._mappings, "resources": inner})

    def settings(self, resource: str, name: str) -> frozenset[str]:
        """Return the values of `hooks` or `restricted_actions` of a resource, from every pattern that matches it."""
        words: set[str] = set()
        for pattern, entries in self._resources.items():
            if isinstance(entries, dict) and fnmatch.fnmatchcase(resource, pattern):
                words.update(_words(entries.get(name)))
        return frozenset(words)


def _words(value: Json) -> list[str]:
    return (
        [value] if isinstance(value, str) else value if isinstance(value, list) else []
    )


def _removed(entries: Mapping[str, Json], path: Path) -> dict[str, Json]:
    first, *rest = path
    kept = dict(entries)
    if rest and isinstance(kept.get(str(first)), dict):
        kept[str(first)] = _removed(kept[str(first)], tuple(rest))
    elif not rest:
        kept.pop(str(first), None)
    return kept


def read_registry(
    section: Mapping[str, Json],
    report: Diagnostics,
    path: Path = ("resource_registry",),
) -> dict[str, Json]:
    """Return the section without the entries that a null removes. Mistakes go to the report."""
    mappings: dict[str, Json] = {}
    for name, value in section.items():
        at = (*path, name)
        if (
            name == "resources"
            and path == ("resource_registry",)
            and not isinstance(value, dict)
        ):
            kind = "environment" if isinstance(value, list) else "validate"
            report.wrong(
                '"resources" must be a map: a map for each name of a resource',
                at,
                "remove it",
                kind=kind,
            )
        elif name in _SETTINGS:
            if value is not None:
                _check_words(name, value, report, at)
                mappings[name] = value
        elif value is None:
            for other in list(mappings):
                if other == name or (
                    name.endswith("*") and other.startswith(name[:-1])
                ):
                    del mappings[other]
        elif isinstance(value, dict):
            mappings[name] = read_registry(value, report, at)
        elif path == ("resource_registry", "resources"):
            problem = f"the entry of the resource {name} must be a map, not {value!r}"
            report.wrong(
                problem,
                at,
                kind="validate" if isinstance(value, str) else "environment",
            )
        elif isinstance(value, str) or is_template(name):
            # a template stands for itself, and the value is ignored
            mappings[name] = value if isinstance(value, str) else name
        elif isinstance(value, list):
            if _is_sound(name, value, report, at):
                mappings[name] = value
        else:
            problem = (
                f"a type is mapped to another type or to a template, not to {value!r}"
            )
            report.wrong(problem, at, kind="environment")
    return mappings


def _is_sound(name: str, value: list[Json], report: Diagnostics, path: Path) -> bool:
    """Return whether a list has only templates and is for one type. Mistakes go to the report."""
    wrong = [index for index, each in enumerate(value) if not _names_template(each)]
    for index in wrong:
        problem = f"a list has templates, of which one is chosen, not {value[index]!r}"
        report.wrong(
            problem,
            (*path, index),
            f"the name of a template ends with {' or '.join(TEMPLATES)}",
            kind="environment",
        )
    if not value:
        report.wrong(
            "a list with no template in it stands for nothing", path, kind="environment"
        )
    if name.endswith("*") or name == "base_url":
        report.wrong(
            f"a list of templates belongs to one type, and {name} is not a type",
            path,
            kind="environment",
        )
    return bool(value) and not wrong and not name.endswith("*") and name != "base_url"


def _check_words(name: str, value: Json, report: Diagnostics, path: Path) -> None:
    words, what, rest = _SETTINGS[name]
    if not isinstance(value, str | list) or not set(map(str, _words(value))) <= set(
        words
    ):
        report.wrong(
            f'Invalid {what} "{value}" {rest}: {", ".join(words)}',
            path,
            kind="environment",
        )


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
    """Return the sections of an environment that have no mistakes.

    `several` is False for an environment that Heat's client would send as a text, not as one of several files.
    """
    if text.value is None:
        return {}
    if not isinstance(text.value, dict):
        problem = "The environment is not a valid YAML mapping data type."
        report.wrong(
            problem,
            (),
            "begin it with parameters: or resource_registry:",
            kind="environment_format",
        )
        return {}
    sections: dict[str, Json] = {}
    is_merged = several and bool(
        text.value.get("parameters") or text.value.get("parameter_defaults")
    )
    for name, section in text.value.items():
        if name not in SECTIONS:
            hint = among(name, SECTIONS, "there are")
            report.wrong(
                f'environment has wrong section "{name}"',
                (name,),
                hint,
                kind="environment_format",
            )
        elif section is None:
            report.wrong(
                f'environment has empty section "{name}"',
                (name,),
                "remove it",
                kind="environment_format",
            )
        elif (
            name == "parameter_merge_strategies"
            and not is_merged
            and not isinstance(section, dict)
        ):
            report.warn(
                "it is ignored, because nothing is merged; if it is used, it must be a map",
                (name,),
            )
        elif not section and (several or name != "resource_registry"):
            # as in Heat, for every empty value
            sections[name] = [] if name in _LISTS else {}
        elif not isinstance(section, list if name in _LISTS else dict):
            _report_shape(
                name,
                report,
                "validate"
                if name == "parameter_defaults" and not several
                else "environment",
            )
        else:
            sections[name] = section
    strategies = text.value.get("parameter_merge_strategies")
    if is_merged and not strategies and not isinstance(strategies, dict | None):
        _report_shape("parameter_merge_strategies", report)
    _check_sinks(list(sections.get("event_sinks", [])), report)
    return sections


def _report_shape(name: str, report: Diagnostics, stage: str = "environment") -> None:
    kind = "list" if name in _LISTS else "map"
    report.wrong(
        f'the section "{name}" of an environment is a {kind}', (name,), kind=stage
    )


def _check_sinks(sinks: Sequence[Json], report: Diagnostics) -> None:
    for index, sink in enumerate(sinks):
        kind = sink.get("type") if isinstance(sink, dict) else None
        if kind not in SINKS:
            report.wrong(
                f"there is no event sink of the type {kind!r}",
                ("event_sinks", index),
                kind="environment",
            )
        else:
            report.warn(
                "an event sink does nothing here: there is no cloud to tell",
                ("event_sinks", index),
            )


def merge(
    texts: Sequence[Text], source: Source, schemas: Mapping[str, Schema]
) -> Merged:
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
        for name, into in (
            ("parameters", merged.parameters),
            ("parameter_defaults", merged.parameter_defaults),
        ):
            if sections.get(name):
                _Merging(report, strategies, chosen, schemas, name).merge(
                    into, sections[name]
                )
        if files_win and sections.get("parameters"):
            _say_who_wins(parameters, sections["parameters"], report)
        for name in sections.get("parameters", {}):
            place = text.place(("parameters", name))
            merged.places.update({name: place} if place else {})
        mappings_here = sections.get("resource_registry", {})
        read_registry(mappings_here, report)
        merged.lists.update(dict.fromkeys(registry_lists(mappings_here), text))
        if "requires" in sections:
            requires = template.read_capabilities(
                sections["requires"], report, ("requires",), "environment"
            )
            merged.requires |= requires
            positions = {key: text.place(("requires", key)) for key in requires}
            merged.required_at |= {
                key: place for key, place in positions.items() if place
            }
            report.warn(template.NOT_HEATS, ("requires",), code=template.CAPABILITIES)
        if "attributes" in sections:
            _take_attributes(merged.attributes, sections["attributes"], report)
            if text.file != COMMAND_LINE:
                report.warn(
                    "Heat refuses this section: there, resources have attributes of their own",
                    ("attributes",),
                )
        _say_what_does_nothing(mappings_here, report, ("resource_registry",))
        mappings_here = located(mappings_here, text.file, source)
        # The map as a whole is merged, not the maps in it; a null takes nothing back in another file.
        mappings = (
            {
                **mappings,
                **{
                    key: each for key, each in mappings_here.items() if each is not None
                },
            }
            if mappings
            else mappings_here
        )
        # An entry that a later file overrides is never read.
        overriding = {key for key, each in mappings_here.items() if each is not None}
        merged.mistakes = [
            each for each in merged.mistakes if not _is_of_entry(each, overriding)
        ] + report.mistakes
        merged.warnings += report.warnings
    if not files_win:
        merged.parameters.update(parameters)
    merged.resource_registry = read_registry(
        mappings, Diagnostics(heat_text("", "", "environment"))
    )
    return merged


def _is_of_entry(mistake: Mistake, names: Container[str]) -> bool:
    """Return whether a mistake is in one of these entries of a registry."""
    return (
        mistake.path[:1] == ("resource_registry",)
        and len(mistake.path) > 1
        and mistake.path[1] in names
    )


def _take_attributes(
    into: dict[str, dict[str, Json]], section: Mapping[str, Json], report: Diagnostics
) -> None:
    for of, values in section.items():
        if isinstance(values, dict):
            into.setdefault(of, {}).update(values)
        else:
            problem = f"the attributes of {of} are a map of their names and values"
            report.wrong(problem, ("attributes", of), kind="environment")


def _say_who_wins(
    parameters: Mapping[str, Json], section: Mapping[str, Json], report: Diagnostics
) -> None:
    for name in parameters.keys() & section.keys():
        if parameters[name] != section[name]:
            problem = (
                f"this value of {name} overrides the one given directly, as in Heat"
            )
            report.warn(problem, ("parameters", name), "remove it here")


def _say_what_does_nothing(
    section: Mapping[str, Json], report: Diagnostics, path: Path
) -> None:
    for name, value in section.items():
        if name == "hooks":
            report.warn(
                "hooks do nothing here: a stack on this machine never pauses",
                (*path, name),
            )
        elif isinstance(value, dict):
            _say_what_does_nothing(value, report, (*path, name))


def located(section: Mapping[str, Json], base: str, source: Source) -> dict[str, Json]:
    """Return the registry with the names under which the files of nested templates were read."""
    base = base_of(section, base)
    paths: dict[str, Json] = {}
    for name, value in section.items():
        if isinstance(value, dict):
            paths[name] = located(value, base, source)
        elif isinstance(value, str) and is_template(value) and name != "base_url":
            paths[name] = source.find(value, base) or value
        elif is_list(name, value):
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
                    f"{name} is not used: no template has a parameter of that name",
                    (self._section, name),
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
                problem,
                ("parameter_merge_strategies", name),
                "name one in one file",
                kind="environment",
            )

    def _value(self, name: str, earlier: Mapping[str, Json], new: Json) -> Json:
        strategy = self._chosen[name]
        if strategy not in {"merge", "deep_merge"}:
            return new
        type_, old = self._schemas[name].type, earlier.get(name)
        try:
            if type_ == "json" and not (old and isinstance(old, str)):
                # Heat reads the newer text alone
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
    return (
        f"{old},{new}" if isinstance(old, str) and isinstance(new, str) else _refuse()
    )


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
