"""The source of a stack from disk, and in the form in which Heat's API exchanges it.

A file that another file names is looked for next to that one: a literal get_file, a `type` that is a nested template,
the `TemplateURL` of a stack of CloudFormation, and the templates in the resource_registry of an environment, whose
`base_url` may give another folder.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from heat_config_agent.diagnostics.mistakes import Invalid
from heat_config_agent.diagnostics.text import Text
from heat_config_agent.model.errors import UsageError
from heat_config_agent.model.mistake import Mistake
from heat_config_agent.model.positions import Json, Path, Place
from heat_config_hooks.files import take
from heat_config_stack.definition.files import (
    File,
    Files,
    Unread,
    needed,
    path_of,
    written,
)
from heat_config_stack.hot import environment
from heat_config_stack.hot.environment import is_template, templates
from heat_config_stack.hot.source import Source, heat_text


def read(
    template: str,
    environments: Sequence[str],
    parameters: Mapping[str, Json],
    content: bytes | None = None,
    take: Callable[[str], bytes] = take,
) -> tuple[Source, list[Mistake]]:
    """Return the source of a stack, and a mistake for each file that cannot be read.

    `content` is the content of the template if it has been read already, and `take` returns that of any file. Raises
    `UsageError` if the template or an environment cannot be read.
    """
    files = _Files(take)
    root = (
        needed(template, take)
        if content is None
        else written(path_of(template), content)
    )
    texts = [needed(each, take) for each in environments]
    files.follow_template(root)
    for each in texts:
        files.follow_environment(each)
    return Source(root, tuple(texts), files.found, parameters), files.mistakes


def read_environments(
    names: Sequence[str],
) -> tuple[tuple[File, ...], Mapping[str, str], list[Mistake]]:
    """Return environments, the files that they name, and a mistake for each unreadable file. Raises `UsageError`."""
    files = _Files()
    texts = tuple(needed(each) for each in names)
    for each in texts:
        files.follow_environment(each)
    return texts, files.found, files.mistakes


class _Files:
    """The files that were read so far."""

    def __init__(self, content: Callable[[str], bytes] = take) -> None:
        self.mistakes: list[Mistake] = []
        self._files = Files(content)

    @property
    def found(self) -> dict[str, str]:
        """Path → text."""
        return self._files.texts

    def follow_template(self, file: File) -> None:
        """Read all files that a template names. A file that is not a template is reported where it is used."""
        text = _parsed(file, "template_format")
        if text is None or not isinstance(text.value, dict):
            return
        for path, name in _named(text.value, ()):
            self._add(name, file.name, text.place(path), follow=path[-1] != "get_file")

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
        try:
            file = self._files.read(name, base)
        except Unread as error:
            self.mistakes.append(Mistake(str(error), (), place, error.hint, "template"))
            return
        if file and (follow or "heat_template_version" in file.text):
            self.follow_template(file)


def _parsed(file: File, kind: str) -> Text | None:
    try:
        return heat_text(file.name, file.text, kind)
    except Invalid:
        return None  # reported when it is used


_URL = "TemplateURL"
"""The property that names the template of an `AWS::CloudFormation::Stack`."""


def _is_local(name: str) -> bool:
    return "://" not in name or name.startswith("file://")


def _named(value: Json, path: Path) -> Iterator[tuple[Path, str]]:
    """Yield the path and the name of each file that a template names."""
    if isinstance(value, dict):
        for key, item in value.items():
            if isinstance(item, str) and (
                key == "get_file"
                or (key == "type" and is_template(item))
                or (key == _URL and _is_local(item))
            ):
                yield (*path, key), item
            else:
                yield from _named(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _named(item, (*path, index))


_FILES = ("get_file", "TemplateURL")


def exported(source: Json) -> dict[str, Json]:
    """Return `template`, `environment` and `files` of a stored source. Raises `Invalid`."""
    sources = Source.from_json(source)
    template = heat_text(
        sources.template.name, sources.template.text, "template_format"
    ).value
    texts = [
        heat_text(each.name, each.text, "environment_format")
        for each in sources.environments
    ]
    merged = environment.merge(texts, sources, {})
    registry: dict[str, Json] = {}
    sections: dict[str, Json] = {}
    for text in texts:
        said = text.value if isinstance(text.value, dict) else {}
        registry |= environment.located(
            said.get("resource_registry") or {}, text.file, sources
        )
        sections |= {
            key: said[key]
            for key in ("requires", "encrypted_param_names", "event_sinks")
            if said.get(key)
        }
    return {
        "template": _self_contained(template, sources),
        "environment": {
            "parameters": merged.parameters,
            "parameter_defaults": merged.parameter_defaults,
            "resource_registry": registry,
            **({"attributes": merged.attributes} if merged.attributes else {}),
            **sections,
        },
        "files": dict(sources.files),
    }


def _self_contained(tree: Json, source: Source) -> Json:
    """Return a template in which files have the names that they have in `files`."""
    if isinstance(tree, dict):
        return {
            key: source.find(value, source.template.name) or value
            if isinstance(value, str)
            and (key in _FILES or (key == "type" and is_template(value)))
            else _self_contained(value, source)
            for key, value in tree.items()
        }
    return (
        [_self_contained(each, source) for each in tree]
        if isinstance(tree, list)
        else tree
    )


def imported(
    data: Mapping[str, Any],
    name: str,
    environments: Sequence[File],
    files: Mapping[str, str],
    parameters: Json,
) -> Source:
    """Return the source of a stack that is adopted; `data` is from the file `name`. Raises UsageError."""
    template, environment, own = (
        data.get("template"),
        data.get("environment") or {},
        data.get("files") or {},
    )
    if not isinstance(template, dict):
        raise UsageError(
            f"{name} has no template: expected the output of `stack abandon`"
        )
    if not isinstance(environment, dict):
        raise UsageError(f"the environment in {name} is not a map")
    if not isinstance(own, dict) or not all(
        isinstance(each, str) for each in own.values()
    ):
        raise UsageError(f"files in {name} is not a map of texts")
    own_environment = File(
        f"{name}#environment", json.dumps(environment, ensure_ascii=False)
    )
    return Source(
        File(f"{name}#template", json.dumps(template, ensure_ascii=False)),
        (own_environment, *environments),
        {**{str(key): text for key, text in own.items()}, **files},
        parameters,
    )
