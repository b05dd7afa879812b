"""Templates by their capabilities: those in folders, and those that an environment can choose from."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from heat_config_agent.diagnostics.diagnostics import Diagnostics
from heat_config_agent.diagnostics.mistakes import Invalid
from heat_config_agent.masking.redaction import OPEN
from heat_config_agent.model.errors import UsageError
from heat_config_agent.model.mistake import Mistake
from heat_config_stack.definition.files import File, beside, needed
from heat_config_stack.hot import capabilities, registry
from heat_config_stack.hot.capabilities import Capabilities
from heat_config_stack.hot.environment import SECTIONS
from heat_config_stack.hot.text import heat_text

_VERSION = "heat_template_version"
_RESOURCE_TYPE = "resource_type"


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

    def summary(self) -> dict[str, list[str]]:
        """Return key → its values; instead of `resource_type` each type → the files that can stand for it."""
        values_of: dict[str, list[str]] = {}
        for key, values in self.by_value().items():
            entries = values if key == _RESOURCE_TYPE else {key: list(values)}
            for name, more in entries.items():
                values_of[name] = list(dict.fromkeys([*values_of.get(name, []), *more]))
        return values_of

    def add(self, file: File) -> bool:
        """Read a file, and return whether it is a template; one with mistakes is a template, but is not added."""
        if _VERSION not in file.text:
            return False
        try:
            text = heat_text(file.name, file.text, "template_format")
            if not isinstance(text.value, dict) or _VERSION not in text.value:
                return False
            report = Diagnostics(text)
            said = capabilities.of(text, report)
            report.finish(OPEN)
            self.capable[file.name] = said
        except Invalid as invalid:
            self.mistakes += invalid.mistakes
        return True


def find(paths: Sequence[str], required: Capabilities, *, recursive: bool) -> Templates:
    """Return the templates among files and in folders that have all wanted capabilities.

    In a folder, only files are read whose names are those of templates in a resource_registry; other files are skipped.
    Raises `UsageError` if a named file cannot be read.
    """
    every = Templates()
    for path in paths:
        if not Path(path).is_dir():
            every.add(File(os.path.normpath(path), needed(path).text))
            continue
        for name in sorted(_files(path, every.mistakes, recursive=recursive)):
            try:
                every.add(needed(name))
            except UsageError as error:
                every.mistakes.append(Mistake(str(error)))
    fitting = {name: each for name, each in every.capable.items() if capabilities.fits(each, required)}
    return Templates(fitting, every.mistakes)


def _files(folder: str, mistakes: list[Mistake], *, recursive: bool) -> Iterator[str]:
    def unreadable(error: OSError) -> None:
        mistakes.append(Mistake(f"cannot read {error.filename}: {error.strerror}"))

    for place, folders, names in os.walk(folder, onerror=unreadable):
        if not recursive:
            folders.clear()
        for name in names:
            path = Path(place, name)
            if registry.is_template(name) and path.is_file():
                yield str(path)


def named(files: Iterable[str]) -> Templates:
    """Return templates, and the templates that environments name in their resource_registry.

    Raises `UsageError` if a file cannot be read, or is neither a template nor an environment.
    """
    templates = Templates()
    for name in files:
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
    for path, name, base in registry.templates(section if isinstance(section, dict) else {}, file.name):
        try:
            templates.add(needed(beside(name, base)))
        except UsageError as error:
            templates.mistakes.append(Mistake(str(error), path, text.place(path)))
