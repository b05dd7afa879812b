"""What an agent that does not run as root cannot do."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator

from heat_config_agent.doctor import Finding, failed, warning
from heat_config_agent.settings.in_force import policy_in_force
from heat_config_agent.signing import ssh

_FOR_ROOT = "runs as other users, limits of runs, mounting a config drive, reboots, and tools that change the system"


def check_reach() -> Iterator[Finding]:
    """Check what is out of reach of the user of the agent."""
    if os.geteuid() != 0:
        try:
            name = pwd.getpwuid(os.geteuid()).pw_name
        except KeyError:
            name = str(os.geteuid())
        yield warning(
            "reach", f"this is the user {name}, not root; out of reach are {_FOR_ROOT}", "run what needs these as root"
        )


def check_signing() -> Iterator[Finding]:
    """Check whether signatures can be verified, if the policy requires them."""
    policy = policy_in_force()
    if policy is not None and policy.signers is not None and not ssh.is_installed():
        yield failed("policy", "the rule signers needs ssh-keygen: nothing new begins", "install openssh-client")
