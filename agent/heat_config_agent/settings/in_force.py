"""The policy of the machine as it is now. Every start needs this module, and few need the rest."""

from __future__ import annotations

import os

from heat_config_agent.settings.paths import POLICY

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from heat_config_agent.model.policy import Policy


def policy_in_force() -> Policy | None:
    """Return the policy of the machine as it is now; None if there is none."""
    try:
        if is_absent(POLICY):
            return None
    except OSError:
        pass  # the reader says why
    from heat_config_agent.settings import policy  # noqa: PLC0415  # few machines have one

    return policy.read(POLICY)


def is_absent(path: str) -> bool:
    """Return whether a file surely does not exist: its folder may be a link to a disk that is not mounted.

    Raises OSError if that cannot be seen. `exists` would take a folder that may not be entered for an absent file.
    """
    try:
        os.lstat(path)
    except FileNotFoundError:
        return not os.path.islink(path.rpartition("/")[0])  # noqa: PTH114  # every start needs this
    return False


def refused_url(url: str) -> str:
    """Return the sentence with which the policy refuses to reach a URL; empty if it may be reached.

    The rule is for following, artifacts and signals.
    """
    policy = policy_in_force()
    return "" if policy is None else policy.unreachable(url)
