"""The source of a stack as text: a template with its environments, files and the values of parameters.

It is stored with the stack, so that no file is needed to define the stack again. Texts are YAML 1.1 or JSON, as Heat
reads them.
"""

from __future__ import annotations

import functools
import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

from heat_config_agent.diagnostics.mistakes import Invalid
from heat_config_agent.diagnostics.text import Language, Text
from heat_config_agent.masking.redaction import OPEN
from heat_config_agent.model.mistake import Mistake
from heat_config_agent.model.positions import Json, Place
from heat_config_hooks.yaml_schema import YAML_1_1
from heat_config_stack.definition import limits
from heat_config_stack.definition.files import File, beside

HEAT = Language("Heat", YAML_1_1, json_first=True)


@functools.lru_cache(maxsize=16)
def heat_text(file: str, text: str, kind: str) -> Text:
    """Return a text of Heat's. `kind` is the stage of its mistakes: a `template_format` has a largest size.

    A text that several steps of a command need is read once. Raises `Invalid`.
    """
    if (
        kind == "template_format"
        and len(text.encode("utf-8", "replace")) > limits.LARGEST_TEMPLATE
    ):
        problem = f"the template is longer than the {limits.LARGEST_TEMPLATE:,} bytes that Heat allows"
        hint = "put long text into a file of its own, and use get_file"
        raise Invalid([Mistake(problem, (), Place(file, 1, 1), hint, kind)], OPEN)
    return Text(file, text, kind, HEAT)


def base_of(registry: Mapping[str, Json], base: str) -> str:
    """Return the base of the templates of a resource_registry: its `base_url`, or else `base`."""
    said = registry.get("base_url")
    return posixpath.join(beside(said, base), "") if isinstance(said, str) else base


COMMAND_LINE = "--attribute"
"""The name of the environment that is made of command-line options."""


@dataclass(frozen=True, slots=True)
class Source:
    """A template with environments, files and the values of parameters."""

    template: File
    environments: tuple[File, ...] = ()
    """A later one overrides earlier ones."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Name → text of nested templates and of the files for get_file."""
    parameters: Mapping[str, Json] = field(default_factory=dict)
    """Values that are given directly, not in an environment."""
    files_win: bool = True
    """True if environments override parameters that are given directly, as in Heat."""
    signatures: tuple[str, ...] = ()
    """The evidence that the files are signed."""
    hosts: Mapping[str, Json] = field(default_factory=dict)
    """The hosts of servers that are not this machine, by the paths of the servers."""

    def to_json(self) -> Json:
        """Return the source as a JSON value, as the record of a stack keeps it."""
        values: dict[str, Json] = {
            "language": "hot",
            **asdict(self),
            "signatures": list(self.signatures),
            "environments": [asdict(each) for each in self.environments],
        }
        if not self.hosts:
            del values["hosts"]
        return values

    @classmethod
    def from_json(cls, value: Json) -> Source:
        """Return the source that `to_json` has written."""
        return cls(
            File(**value["template"]),
            tuple(File(**each) for each in value["environments"]),
            value["files"],
            value["parameters"],
            value["files_win"],
            tuple(value.get("signatures", ())),
            value.get("hosts", {}),
        )

    def find(self, name: str, base: str) -> str | None:
        """Return the key in `files` of a file that another file, `base`, names; None if there is none."""
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
        """Return the source of the updated stack: everything that is not given again stays as it was.

        The values of parameters that the new template does not declare are dropped, as Heat does.
        """
        gone = {
            *clear,
            *(
                ()
                if template is None
                else self.parameters.keys() - _declared(template, self.parameters)
            ),
        }
        kept = {
            name: value for name, value in self.parameters.items() if name not in gone
        }
        return replace(
            self,
            template=template or self.template,
            environments=(*self.environments, *environments),
            files={**self.files, **files},
            parameters={**kept, **parameters},
        )


def _declared(template: File, otherwise: Mapping[str, Json]) -> set[str]:
    """Return the names of the parameters that a template declares; of one that cannot be read, `otherwise`."""
    try:
        sections = heat_text(template.name, template.text, "template_format").value
    except Invalid:
        return set(otherwise)
    declared = sections.get("parameters") if isinstance(sections, dict) else None
    return set(declared) if isinstance(declared, dict) else set()
