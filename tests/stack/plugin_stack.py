"""A stack of a HOT template with types of plug-ins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from heat_config_stack.definition import Identity
from heat_config_stack.definition.files import File
from heat_config_stack.hot.loader import define, load
from heat_config_stack.hot.source import Source
from heat_config_stack.plugins import plugins
from heat_config_stack.records.records import new_id
from heat_config_stack.resource_types import known_types
from stack.working import Working

HEAD = "heat_template_version: 2018-08-31\n"


class PluginStack(Working):
    """A stack of a template that is text, with the plug-ins of the folder `plugins`."""

    def __init__(self, folder: Path) -> None:
        self.plugins = plugins.load([folder / "plugins"])
        super().__init__(folder, known_types(self.plugins.types), load)

    def create(self, template: str, **parameters: Any) -> None:
        """Create the stack."""
        self.session.create(
            define(_source(template, parameters), Identity("s", new_id()))
        )

    def update(self, template: str, **parameters: Any) -> None:
        """Update the stack."""
        self.session.update(self.again(_source(template, parameters).to_json()))

    def output(self, name: str) -> Any:
        """Return an output."""
        return self.root.output(name)


def _source(template: str, parameters: dict[str, Any]) -> Source:
    return Source(File("t.yaml", HEAD + template), parameters=parameters)


def plugin(folder: Path, text: str, name: str = "mine") -> None:
    """Write a plug-in."""
    (folder / "plugins").mkdir(exist_ok=True)
    (folder / "plugins" / f"{name}.py").write_text(text)
