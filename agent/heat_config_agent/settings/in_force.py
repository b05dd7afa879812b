"""The policy of the machine as it is now. Every start needs this module, and few need the rest."""

from __future__ import annotations

from heat_config_agent.settings.paths import POLICY, is_absent

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


def refused_url(url: str) -> str:
    """Return the sentence with which the policy refuses to reach a URL; empty if it may be reached.

    The rule is for following, artifacts, signals and secrets of Barbican.
    """
    policy = policy_in_force()
    return "" if policy is None else policy.unreachable(url)
