"""All that a stack is made of, as text: kept with the stack, so that it can be defined again with no file at hand."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from urllib import parse

from heat_config_agent.stack.definition import Json


def path_of(name: str) -> str:
    """Return the path that a name stands for, which may be a URL of a file."""
    return parse.unquote(parse.urlsplit(name).path) if name.startswith("file://") else name


def beside(name: str, base: str) -> str:
    """Return the path of what is named in a file, `base`."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(base), path_of(name)))


def base_of(registry: Mapping[str, Json], base: str) -> str:
    """Return beside what the templates of a resource_registry are looked for: its `base_url`, or `base` as before."""
    said = registry.get("base_url")
    return posixpath.join(beside(said, base), "") if isinstance(said, str) else base


COMMAND_LINE = "--attribute"
"""The name of an environment that no file has."""


@dataclass(frozen=True, slots=True)
class File:
    """A text, and the name under which it was read."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Source:
    """A template with environments, files and the values of parameters."""

    template: File
    environments: tuple[File, ...] = ()
    """A later one wins over those before it."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Nested templates and what get_file names, by their names."""
    parameters: Mapping[str, Json] = field(default_factory=dict)
    """Those that are given beside the environments."""
    files_win: bool = True
    """Whether environments win over parameters that are given beside them, as with Heat."""

    def to_json(self) -> Json:
        """Return it as JSON."""
        return {"language": "hot", **asdict(self), "environments": [asdict(each) for each in self.environments]}

    @classmethod
    def from_json(cls, value: Json) -> Source:
        """Return what was written so."""
        return cls(
            File(**value["template"]),
            tuple(File(**each) for each in value["environments"]),
            value["files"],
            value["parameters"],
            value["files_win"],
        )

    def find(self, name: str, base: str) -> str | None:
        """Return under which name there is a file that is named in another one, `base`; None where there is none."""
        if name in self.files:
            return name
        path = beside(name, base)
        return path if path in self.files else None

    def changed(
        self,
        template: File | None,
        environments: Sequence[File],
        files: Mapping[str, str],
        parameters: Mapping[str, Json],
        clear: Sequence[str] = (),
    ) -> Source:
        """Return what an update of the existing stack makes of it: what is not given anew stays as it was."""
        kept = {name: value for name, value in self.parameters.items() if name not in clear}
        return replace(
            self,
            template=template or self.template,
            environments=(*self.environments, *environments),
            files={**self.files, **files},
            parameters={**kept, **parameters},
        )
