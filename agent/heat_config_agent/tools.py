"""Which hook carries out which tool.

An executable in a hook directory, named after the tool, wins over a hook of ours of the same name: that is how
heat-agents' hooks and people's own are found. The directories are `$HEAT_CONFIG_HOOKS` and heat-agents' two.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import heat_config_hooks
from heat_config_agent.model import BUILTIN, Tool
from heat_config_agent.selection import tool_name


class Tools:
    """The tools installed on this machine."""

    def __init__(self, directories: Sequence[Path]) -> None:
        """Look for hooks in the directories, in their order."""
        self.directories = tuple(directories)

    def find(self, tool: str) -> Tool | None:
        """Return the tool of that name, None where no hook is installed for it."""
        name = tool_name(tool)
        if not name:
            return None
        for directory in self.directories:
            path = directory / name
            if _is_file(path):
                ours = path.resolve().name == "heat-config-hook" and name in heat_config_hooks.HOOKS
                return Tool(name, BUILTIN + name if ours else str(path))
        return Tool(name, BUILTIN + name) if name in heat_config_hooks.HOOKS else None

    def installed(self) -> list[str]:
        """Return the names of all tools."""
        names = set(heat_config_hooks.HOOKS)
        for directory in self.directories:
            try:
                names.update(each.name for each in directory.iterdir() if each.is_file())
            except OSError:  # it is not there, or not for us
                continue
        return sorted(names)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name that is too long, or a folder that we may not enter
        return False
