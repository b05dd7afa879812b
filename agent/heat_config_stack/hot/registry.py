"""The types and templates that types stand for, from the resource_registry of an environment.

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
from collections.abc import Iterator, Mapping

from heat_config_agent.diagnostics.diagnostics import Diagnostics
from heat_config_agent.model.positions import Json, Path
from heat_config_stack.definition import MappedType
from heat_config_stack.hot.source import base_of

HOOKS = ("pre-create", "pre-update", "pre-delete", "post-create", "post-update", "post-delete")
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
    return is_type and isinstance(value, list) and all(isinstance(each, str) for each in value)


def inner(name: str, value: Json) -> dict[str, Json] | None:
    """Return the mappings in an entry, which then is for a resource; None for any other entry."""
    return value if isinstance(value, dict) and name not in _SETTINGS else None


def templates(
    section: Mapping[str, Json], base: str, path: Path = ("resource_registry",)
) -> Iterator[tuple[Path, str, str]]:
    """Yield the path and the name of each nested template in a section, and the file that it is relative to."""
    base = base_of(section, base)
    for name, value in section.items():
        at = (*path, name)
        if (mappings := inner(name, value)) is not None:
            yield from templates(mappings, base, at)
        elif name != "base_url":
            several = [((*at, index), each) for index, each in enumerate(value)] if is_list(name, value) else []
            yield from ((where, each, base) for where, each in several or [(at, value)] if _names_template(each))


def _names_template(value: Json) -> bool:
    return isinstance(value, str) and is_template(value)


def lists(section: Mapping[str, Json], path: Path = ("resource_registry",)) -> Iterator[Path]:
    """Yield the path of each list of templates."""
    for name, value in section.items():
        if (mappings := inner(name, value)) is not None:
            yield from lists(mappings, (*path, name))
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

    def candidates(self, type_: str, resource: str, way: tuple[str, ...] = ()) -> Iterator[MappedType]:
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
        if len(way) == LONGEST:  # each step leads to a longer name, as with `My::*: My::My::*`
            raise Circular(" → ".join([*way[:3], "…"]))
        for path, target in sorted(self._matches(type_, resource), key=lambda each: (-len(each[0]), each[0])):
            if is_template(path[-1]) or is_template(target):
                yield MappedType(path[-1], path[-1] if is_template(path[-1]) else target, path)
                continue
            rest = type_[len(path[-1]) - 1 :] if path[-1].endswith("*") and target.endswith("*") else ""
            yield from self.candidates(target.removesuffix("*") + rest, resource, (*way, type_))
        yield MappedType(type_)

    def _matches(self, type_: str, resource: str) -> Iterator[tuple[tuple[str, ...], str]]:
        if is_template(type_) and type_ not in self._mappings:
            yield (type_,), type_
        own = self._resources.get(resource)
        if isinstance(own, dict) and isinstance(own.get(type_), str):
            yield ("resources", resource, type_), own[type_]
        for name, target in self._mappings.items():
            if not isinstance(target, str):
                continue
            if name == type_ or (
                name.endswith("*") and type_.startswith(name[:-1]) and target != type_ and not is_template(target)
            ):
                yield (name,), target

    def without(self, mapping: Path) -> Registry:
        """Return the registry without one entry."""
        return Registry(_removed(self._mappings, mapping))

    def preceded_by(self, mappings: Mapping[str, str]) -> Registry:
        """Return the registry with more mappings, which replace those of the same names."""
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
    return [value] if isinstance(value, str) else value if isinstance(value, list) else []


def _removed(entries: Mapping[str, Json], path: Path) -> dict[str, Json]:
    first, *rest = path
    kept = dict(entries)
    if rest and isinstance(kept.get(str(first)), dict):
        kept[str(first)] = _removed(kept[str(first)], tuple(rest))
    elif not rest:
        kept.pop(str(first), None)
    return kept


def read(section: Mapping[str, Json], report: Diagnostics, path: Path = ("resource_registry",)) -> dict[str, Json]:
    """Return the section without the entries that a null removes. Mistakes go to the report."""
    mappings: dict[str, Json] = {}
    for name, value in section.items():
        at = (*path, name)
        if name == "resources" and path == ("resource_registry",) and not isinstance(value, dict):
            kind = "environment" if isinstance(value, list) else "validate"
            report.wrong("resources are a map of names to what holds for each", at, "remove it", kind=kind)
        elif name in _SETTINGS:
            if value is not None:
                _check_words(name, value, report, at)
                mappings[name] = value
        elif value is None:
            for other in list(mappings):
                if other == name or (name.endswith("*") and other.startswith(name[:-1])):
                    del mappings[other]
        elif isinstance(value, dict):
            mappings[name] = read(value, report, at)
        elif path == ("resource_registry", "resources"):
            problem = f"the entry of the resource {name} must be a map, not {value!r}"
            report.wrong(problem, at, kind="validate" if isinstance(value, str) else "environment")
        elif isinstance(value, str) or is_template(name):  # a template stands for itself, and the value is ignored
            mappings[name] = value if isinstance(value, str) else name
        elif isinstance(value, list):
            if _is_sound(name, value, report, at):
                mappings[name] = value
        else:
            problem = f"a type is mapped to another type or to a template, not to {value!r}"
            report.wrong(problem, at, kind="environment")
    return mappings


def _is_sound(name: str, value: list[Json], report: Diagnostics, path: Path) -> bool:
    """Return whether a list has only templates and is for one type. Mistakes go to the report."""
    wrong = [index for index, each in enumerate(value) if not _names_template(each)]
    for index in wrong:
        problem = f"a list has templates, of which one is chosen, not {value[index]!r}"
        report.wrong(
            problem, (*path, index), f"the name of a template ends with {' or '.join(TEMPLATES)}", kind="environment"
        )
    if not value:
        report.wrong("a list with no template in it stands for nothing", path, kind="environment")
    if name.endswith("*") or name == "base_url":
        report.wrong(f"a list of templates belongs to one type, and {name} is not a type", path, kind="environment")
    return bool(value) and not wrong and not name.endswith("*") and name != "base_url"


def _check_words(name: str, value: Json, report: Diagnostics, path: Path) -> None:
    words, what, rest = _SETTINGS[name]
    if not isinstance(value, str | list) or not set(map(str, _words(value))) <= set(words):
        report.wrong(f'Invalid {what} "{value}" {rest}: {", ".join(words)}', path, kind="environment")
