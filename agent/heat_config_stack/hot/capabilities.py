"""Templates by their capabilities: the one of a list that meets the requirements, and those in folders.

    requires: {deployment: puppet}
    resource_registry:
      My::Web: [puppet/web.yaml, docker/web.yaml]

A template fits if it has every required capability that a template of the list mentions. Exactly one must fit;
otherwise the list is a mistake.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from heat_config_agent.diagnostics.diagnostics import Diagnostics
from heat_config_agent.diagnostics.mistakes import Invalid
from heat_config_agent.diagnostics.words import meant
from heat_config_agent.masking.redaction import OPEN
from heat_config_agent.model.errors import UsageError
from heat_config_agent.model.mistake import Mistake
from heat_config_agent.model.positions import Json, Path
from heat_config_stack.definition.files import File, beside, needed
from heat_config_stack.hot import environment, template
from heat_config_stack.hot.environment import SECTIONS, Merged
from heat_config_stack.hot.source import heat_text
from heat_config_stack.hot.template import (
    Capabilities,
    Template,
    fits,
    written_capabilities,
)


class Choice:
    """The choice of one template for each list in a resource_registry."""

    def __init__(self, merged: Merged, template: Callable[[str], Template]) -> None:
        """Take the merged environments, and a function that returns the template of a file.

        The function raises `Invalid` if the file is not a template.
        """
        self._merged, self._template = merged, template
        self.mistakes: list[Mistake] = []
        self.warnings: list[Mistake] = []

    def made(self) -> dict[str, Json]:
        """Return the registry with one template in place of each list.

        A list from which none can be chosen is left out and is a mistake. A required capability decides only between
        the templates of lists that mention it, so that several choices can be made independently of each other. One
        that no list mentions decides nothing, which is a warning.
        """
        registry_lists = dict(
            _lists(self._merged.resource_registry, ("resource_registry",))
        )
        candidates = {
            path: self._candidates(names, path)
            for path, names in registry_lists.items()
        }
        mentioned = {
            key
            for known in candidates.values()
            for each in known.values()
            for key in each or ()
        }
        is_known = all(
            each is not None for known in candidates.values() for each in known.values()
        )
        unknown = (
            [key for key in self._merged.requires if key not in mentioned]
            if candidates and is_known
            else []
        )
        for key in unknown:
            problem = f"no template of a list in the resource_registry has the required capability {key}"
            place, hint = (
                self._merged.required_at.get(key),
                meant(key, sorted(mentioned)),
            )
            self.warnings.append(
                Mistake(problem, ("requires", key), place, hint, "environment")
            )
        chosen = {path: self._one(known, path) for path, known in candidates.items()}
        return _with(self._merged.resource_registry, chosen, ("resource_registry",))

    def _candidates(
        self, names: list[str], path: Path
    ) -> dict[str, Capabilities | None]:
        """Return the capabilities of each template of a list; None for one with mistakes."""
        report = Diagnostics(self._merged.lists[path])
        known = {
            name: self._capabilities(name, report, (*path, index))
            for index, name in enumerate(names)
        }
        self.mistakes += report.mistakes
        return known

    def _one(self, known: Mapping[str, Capabilities | None], path: Path) -> str | None:
        """Return the template of a list that fits; None if it cannot be chosen."""
        candidates = {
            name: capabilities
            for name, capabilities in known.items()
            if capabilities is not None
        }
        if len(candidates) < len(known):
            return None
        mentioned = {
            key for capabilities in candidates.values() for key in capabilities
        }
        requires = {
            key: values
            for key, values in self._merged.requires.items()
            if key in mentioned
        }
        fitting = [
            name
            for name, capabilities in candidates.items()
            if fits(capabilities, requires)
        ]
        if len(fitting) == 1:
            return fitting[0]
        report = Diagnostics(self._merged.lists[path])
        report.wrong(*_refusal(candidates, fitting, requires, path), kind="environment")
        self.mistakes += report.mistakes
        return None

    def _capabilities(
        self, name: str, report: Diagnostics, path: Path
    ) -> Capabilities | None:
        """Return the capabilities of a candidate; None if it has mistakes."""
        try:
            template = self._template(name)
            wrong = [
                each for each in template.mistakes if each.path[:1] == ("capabilities",)
            ]
        except Invalid as invalid:
            wrong = list(invalid.mistakes)
        place = self._merged.lists[path[:-1]].place(path)
        report.mistakes += [
            each if each.place else replace(each, path=path, place=place)
            for each in wrong
        ]
        return None if wrong else template.capabilities


def _lists(section: Mapping[str, Json], path: Path) -> Iterator[tuple[Path, list[str]]]:
    """Yield the lists of templates in a registry, each with its path."""
    for name, value in section.items():
        if (mappings := environment.mappings_of(name, value)) is not None:
            yield from _lists(mappings, (*path, name))
        elif environment.is_list(name, value):
            yield (*path, name), value


def _with(
    section: Mapping[str, Json], chosen: Mapping[Path, str | None], path: Path
) -> dict[str, Json]:
    """Return a registry with the template that was chosen in place of each list, without the others."""
    replaced = {
        name: _with(value, chosen, (*path, name))
        if isinstance(value, dict)
        else chosen.get((*path, name), value)
        for name, value in section.items()
    }
    return {name: value for name, value in replaced.items() if value is not None}


def _refusal(
    candidates: Mapping[str, Capabilities],
    fitting: list[str],
    requires: Capabilities,
    path: Path,
) -> tuple[str, Path, str]:
    """Return the problem of a list, its path and a hint."""
    required = f"what is required ({written_capabilities(requires)})"
    others = [
        f"{name} has {_instead(capabilities, requires)}"
        for name, capabilities in candidates.items()
        if name not in fitting
    ]
    if not fitting:
        return (
            f"no template fits {required}: {'; '.join(others)}",
            path,
            _meant(candidates.values(), requires),
        )
    fit = f"fit {required}" if requires else "fit, as nothing is required of them"
    named = "; ".join([", ".join(fitting), *others])
    return (
        f"{len(fitting)} templates {fit}: {named}",
        path,
        _difference([candidates[name] for name in fitting]),
    )


def _instead(capabilities: Capabilities, requires: Capabilities) -> str:
    """Return why a template does not fit."""
    lacking = [
        key for key, values in requires.items() if not fits(capabilities, {key: values})
    ]
    return " and ".join(
        written_capabilities({key: capabilities[key]})
        if key in capabilities
        else f"no {key}"
        for key in lacking
    )


def _meant(candidates: Iterable[Capabilities], requires: Capabilities) -> str:
    """Return a hint if a required value that no candidate has may be misspelt, else an empty text."""
    every: dict[str, set[str]] = {}
    for each in candidates:
        for key, values in each.items():
            every.setdefault(key, set()).update(values)
    for key, values in requires.items():
        for value in values:
            if value not in every[key] and (hint := meant(value, sorted(every[key]))):
                return hint
    return ""


def _difference(fitting: list[Capabilities]) -> str:
    """Return a hint that names a capability which distinguishes the templates that fit."""
    for key in dict.fromkeys(key for each in fitting for key in each):
        values = [each.get(key) for each in fitting]
        if any(values.count(value) == 1 for value in values if value):
            said = ", ".join(
                dict.fromkeys(each for value in values for each in value or ())
            )
            return f"require one {key} of {said}"
    return "keep only one of them in the list"


_VERSION = "heat_template_version"


@dataclass(slots=True)
class Templates:
    """Templates that were read, and the mistakes in them."""

    capable: dict[str, Capabilities] = field(default_factory=dict)
    """File → its capabilities, in the order of reading."""
    mistakes: list[Mistake] = field(default_factory=list)

    def by_value(self) -> dict[str, dict[str, list[str]]]:
        """Return key → value → the files that have this capability."""
        files: dict[str, dict[str, list[str]]] = {}
        for file, values_by_key in self.capable.items():
            for key, values in values_by_key.items():
                for value in values:
                    files.setdefault(key, {}).setdefault(value, []).append(file)
        return files

    def add(self, file: File) -> bool:
        """Read a file, and return whether it is a template; one with mistakes is a template, but is not added."""
        if _VERSION not in file.text:
            return False
        try:
            text = heat_text(file.name, file.text, "template_format")
            if not isinstance(text.value, dict) or _VERSION not in text.value:
                return False
            report = Diagnostics(text)
            said = template.capabilities_of(text, report)
            report.finish(OPEN)
            self.capable[file.name] = said
        except Invalid as invalid:
            self.mistakes += invalid.mistakes
        return True


def find(paths: Sequence[str], required: Capabilities, *, recursive: bool) -> Templates:
    """Return the templates in files and folders that have all the required capabilities.

    In a folder, only files are read whose names are those of templates in a resource_registry; other files are skipped.
    Raises `UsageError` if a named file cannot be read.
    """
    every = Templates()
    for path in paths:
        if pathlib.Path(path).is_dir():
            _search(path, every, recursive=recursive)
        else:
            every.add(File(os.path.normpath(path), needed(path).text))
    fitting = {
        name: each
        for name, each in every.capable.items()
        if template.fits(each, required)
    }
    return Templates(fitting, every.mistakes)


def _search(folder: str, templates: Templates, *, recursive: bool) -> None:
    for name in sorted(_files(folder, templates.mistakes, recursive=recursive)):
        try:
            templates.add(needed(name))
        except UsageError as error:
            templates.mistakes.append(Mistake(str(error)))


def _files(folder: str, mistakes: list[Mistake], *, recursive: bool) -> Iterator[str]:
    def unreadable(error: OSError) -> None:
        mistakes.append(Mistake(f"cannot read {error.filename}: {error.strerror}"))

    for place, folders, names in os.walk(folder, onerror=unreadable):
        if not recursive:
            folders.clear()
        for name in names:
            path = pathlib.Path(place, name)
            if environment.is_template(name) and path.is_file():
                yield str(path)


def named(paths: Iterable[str], *, recursive: bool = False) -> Templates:
    """Return templates: the named ones, those in folders, and those that environments name in their resource_registry.

    Raises `UsageError` if a file cannot be read, or is neither a template nor an environment.
    """
    templates = Templates()
    for name in paths:
        if pathlib.Path(name).is_dir():
            _search(name, templates, recursive=recursive)
            continue
        file = needed(name)
        if not templates.add(File(os.path.normpath(name), file.text)):
            _follow(file, templates)
    return templates


def _follow(file: File, templates: Templates) -> None:
    try:
        text = heat_text(file.name, file.text, "environment_format")
    except Invalid as invalid:
        templates.mistakes += invalid.mistakes
        return
    if not isinstance(text.value, dict) or not text.value.keys() & set(SECTIONS):
        raise UsageError(f"{file.name} is neither a template nor an environment")
    section = text.value.get("resource_registry")
    for path, name, base in environment.templates(
        section if isinstance(section, dict) else {}, file.name
    ):
        try:
            templates.add(needed(beside(name, base)))
        except UsageError as error:
            templates.mistakes.append(Mistake(str(error), path, text.place(path)))
