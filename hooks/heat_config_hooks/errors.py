"""Mistakes in a deployment or on the machine that the author of a template or an administrator can fix."""

from __future__ import annotations

from heat_config_hooks.reply import NO_TOOL, UNKNOWN


class HookError(Exception):
    """The deployment cannot be carried out as it is."""

    code = UNKNOWN
    """The status code of the result."""

    def __init__(self, problem: str, path: str = "") -> None:
        """Describe the problem in a sentence; `path` is its place in the deployment, such as `options.timeout`."""
        super().__init__(f"{path}: {problem}" if path else problem)
        self.problem = problem
        self.path = path


class MissingTool(HookError):  # noqa: N818  # the tool is missing
    """The program that the hook drives is not installed."""

    code = NO_TOOL
