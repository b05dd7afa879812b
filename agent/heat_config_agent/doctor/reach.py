"""Checks of an agent that does not run as root: which deployments it cannot carry out."""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Iterator, Mapping

from heat_config_agent.doctor import Finding, failed, ok, warning
from heat_config_agent.settings.in_force import policy_in_force
from heat_config_agent.signing import ssh
from heat_config_hooks import isolation

_FOR_ROOT = (
    "runs as other users, isolation and limits of runs, mounting a config drive, reboots, "
    "and tools that change the system"
)


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


def check_isolation(levels: Mapping[str, str]) -> Iterator[Finding]:
    """Check whether runs can be isolated, if the settings or the policy say that they are."""
    policy = policy_in_force()
    least = dict(policy.isolate or {}) if policy is not None else {}
    if not (levels or least):
        return
    parts = isolation.described({**least, **levels})
    if os.geteuid() != 0:
        why = "only root can isolate runs"
    else:
        command = ["unshare", "--mount", *(("--net",) if "network" in {**least, **levels} else ()), "true"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        why = done.stderr.strip() or (f"unshare ended with {done.returncode}" if done.returncode else "")
    if why:
        yield failed("isolate", f"runs cannot be isolated by {parts}: {why}", "run the agent as root, with namespaces")
    elif lacking := isolation.described(isolation.missing(levels, least)):
        yield warning("isolate", f"the setting isolate lacks {lacking}, which the policy requires", "add it there")
    else:
        yield ok("isolate", f"runs are isolated by {parts}, if their tool has the option isolate")


def check_signing() -> Iterator[Finding]:
    """Check whether signatures can be verified, if the policy requires them."""
    policy = policy_in_force()
    if policy is not None and policy.signers is not None and (obstacle := ssh.obstacle()):
        yield failed("policy", f"nothing new begins: the rule signers: {obstacle.brief}", obstacle.hint)
