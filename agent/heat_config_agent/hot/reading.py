"""A template, its environments and all files that they name, from disk.

What is named in a file is looked for beside that file: by a literal get_file, by a `type` that is a nested template,
and by the resource_registry of an environment, whose `base_url` may say where else.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence

from heat_config_agent.errors import UsageError
from heat_config_agent.hot.registry import is_template, templates
from heat_config_agent.hot.source import File, Source, beside, path_of
from heat_config_agent.hot.text import Text
from heat_config_agent.stack.definition import Invalid, Json, Mistake, Path, Place

LARGEST = 64 * 1024 * 1024
"""Bytes of a file at most."""


def read(template: str, environments: Sequence[str], parameters: Mapping[str, Json]) -> tuple[Source, list[Mistake]]:
    """Return all that a stack is made of, and what of it is not there.

    Raises `UsageError` where the template or an environment itself cannot be read.
    """
    files = _Files()
    root, *texts = (needed(each) for each in (template, *environments))
    files.follow_template(root)
    for each in texts:
        files.follow_environment(each)
    return Source(root, tuple(texts), files.found, parameters), files.mistakes


def read_environments(names: Sequence[str]) -> tuple[tuple[File, ...], Mapping[str, str], list[Mistake]]:
    """Return environments, the files that they name, and what of these is not there. Raises `UsageError`."""
    files = _Files()
    texts = tuple(needed(each) for each in names)
    for each in texts:
        files.follow_environment(each)
    return texts, files.found, files.mistakes


def needed(name: str) -> File:
    """Return a file without which there is nothing to do. Raises `UsageError`."""
    try:
        return _file(path_of(name))
    except _Unreadable as error:
        raise UsageError(str(error)) from None


class _Files:
    """The files that were found so far."""

    def __init__(self) -> None:
        self.found: dict[str, str] = {}
        self.mistakes: list[Mistake] = []

    def _wrong(self, problem: str, place: Place | None, hint: str = "") -> None:
        self.mistakes.append(Mistake(problem, (), place, hint, "template"))

    def follow_template(self, file: File) -> None:
        """Read all that a template names. What is no template is left as it is: that is said by whoever uses it."""
        text = _parsed(file, "template_format")
        if text is None or not isinstance(text.value, dict):
            return
        for path, name in _named(text.value, ()):
            self._add(name, file.name, text.place(path), follow=path[-1] == "type")

    def follow_environment(self, file: File) -> None:
        """Read the nested templates that an environment names."""
        text = _parsed(file, "environment_format")
        if text is None or not isinstance(text.value, dict):
            return
        section = text.value.get("resource_registry")
        if isinstance(section, dict):
            for path, name, base in templates(section, file.name):
                self._add(name, base, text.place(path), follow=True)

    def _add(self, name: str, base: str, place: Place | None, *, follow: bool) -> None:
        path = beside(name, base)
        if path in self.found:
            return
        if "://" in name and not name.startswith("file://"):
            self._wrong(f"{name} is not fetched: only files of this machine are read", place, "keep a copy of it here")
            return
        try:
            file = _file(path)
        except _Unreadable as error:
            self._wrong(str(error), place, "its path begins at the file that names it")
            return
        self.found[path] = file.text
        if follow or "heat_template_version" in file.text:
            self.follow_template(File(path, file.text))


class _Unreadable(Exception):  # noqa: N818  # it is the file that is
    """A file cannot be read; the text says why."""


def _file(path: str) -> File:
    try:
        with open(path, "rb") as file:
            content = file.read(LARGEST + 1)
    except (OSError, ValueError) as error:
        raise _Unreadable(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    if len(content) > LARGEST:
        raise _Unreadable(f"{path} is over {LARGEST // 1024**2} MiB long")
    try:
        return File(path, content.decode())
    except UnicodeDecodeError:  # what Heat's client sends of it
        return File(path, base64.encodebytes(content).decode())


def _parsed(file: File, kind: str) -> Text | None:
    try:
        return Text(file.name, file.text, kind)
    except Invalid:
        return None  # said when it is used


def _named(value: Json, path: Path) -> Iterator[tuple[Path, str]]:
    """Yield each file that a template names, and where."""
    if isinstance(value, dict):
        for key, each in value.items():
            if isinstance(each, str) and (key == "get_file" or (key == "type" and is_template(each))):
                yield (*path, key), each
            else:
                yield from _named(each, (*path, key))
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _named(each, (*path, index))
