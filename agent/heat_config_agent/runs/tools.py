"""The tools on this machine, and the hook of each.

An executable in a hook directory that is named after a tool overrides the built-in hook. So heat-agents' hooks and
those that people write are used. The directories are `$HEAT_CONFIG_HOOKS` and the two of heat-agents.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import heat_config_hooks
from heat_config_agent.deployments.selection import tool_name
from heat_config_agent.model.deployment import BUILTIN, Tool


class Tools:
    """The tools installed on this machine."""

    def __init__(
        self,
        directories: Sequence[Path],
        warn: Callable[[str], None] = lambda _text: None,
    ) -> None:
        """Look for hooks in these directories; the first that has a hook counts.

        `warn` is called once for each directory that exists and cannot be read.
        """
        self.directories = tuple(directories)
        self._warn = warn
        self._unreadable: set[Path] = set()

    def find(self, tool: str) -> Tool | None:
        """Return the tool of that name; None if no hook is installed for it."""
        name = tool_name(tool)
        if not name:
            return None
        for directory in self.directories:
            if _is_file(directory / name):
                return _at(directory / name)
        return Tool(name, BUILTIN + name) if name in heat_config_hooks.HOOKS else None

    def installed(self) -> dict[str, Tool]:
        """Return all installed tools by name."""
        tools = {name: Tool(name, BUILTIN + name) for name in heat_config_hooks.HOOKS}
        for directory in reversed(self.directories):
            try:
                names = os.listdir(directory)
            except FileNotFoundError:
                continue
            except OSError as error:
                if directory not in self._unreadable:
                    self._unreadable.add(directory)
                    self._warn(
                        f"cannot read the hook directory {directory}: {error.strerror}; its hooks are not used"
                    )
                continue
            self._unreadable.discard(directory)
            files = [directory / name for name in names if tool_name(name) == name]
            tools.update((path.name, _at(path)) for path in files if _is_file(path))
        return dict(sorted(tools.items()))


def _at(path: Path) -> Tool:
    """Return the tool whose hook is this file; a link to our `heat-config-hook` stands for the built-in hook."""
    ours = (
        path.resolve().name == "heat-config-hook"
        and path.name in heat_config_hooks.HOOKS
    )
    return Tool(path.name, BUILTIN + path.name if ours else str(path))


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # the name is too long, or the folder may not be entered
        return False
