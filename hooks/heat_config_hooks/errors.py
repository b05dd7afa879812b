"""What can be wrong with a deployment in a way that its author, or whoever made the machine, can mend."""

from __future__ import annotations

from heat_config_hooks.reply import NO_TOOL, UNKNOWN


class HookError(Exception):
    """The deployment cannot be carried out as it is."""

    code = UNKNOWN
    """The status code of its result."""

    def __init__(self, problem: str, path: str = "") -> None:
        """Say in a sentence for its author what is wrong, and at which path in the deployment (`options.timeout`)."""
        super().__init__(f"{path}: {problem}" if path else problem)
        self.problem = problem
        self.path = path


class MissingTool(HookError):  # noqa: N818  # it is what is missing
    """The program that the hook drives is not on this machine."""

    code = NO_TOOL
