"""The table of tools: the programs and Python modules that each tool needs, and how to install them.

The hooks find their programs here.
`heat-config-agent tool list`, `doctor` and the check of service templates ask `lacking`, so that a tool which is called
ready has everything that its runs need.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping

from heat_config_hooks.programs import Module, Packages, Program, is_here, missing
from heat_config_hooks.values import replace

_SYSTEMD = "it is part of systemd, and units can only be started on a machine that was booted by systemd"

_IN_PYTHON = (
    "ansible-core python3-ansible-runner" if sys.prefix == sys.base_prefix else ""
)
_ANSIBLE = Packages(apt=_IN_PYTHON, dnf=_IN_PYTHON, pip="ansible-core ansible-runner")
"""The runner has to be in the Python that runs the agent: the distribution's, or that of a virtual environment."""

BASH = Program(names=("bash",), install=Packages(apt="bash", dnf="bash", zypper="bash"))
PYTHON = Program(
    names=("python3",), install=Packages(apt="python3", dnf="python3", zypper="python3")
)
PYTHON_TOOL = replace(PYTHON, variable="HEAT_PYTHON_CMD")
SYSTEMCTL = Program(names=("systemctl",), install=_SYSTEMD)
ANALYZE = Program(names=("systemd-analyze",), install=_SYSTEMD)
ANSIBLE = Program(
    names=("ansible-playbook",), variable="HEAT_ANSIBLE_CMD", install=_ANSIBLE
)
ANSIBLE_RUNNER = Module(
    name="ansible_runner",
    package="ansible-runner",
    purpose="runs ansible-playbook",
    install=_ANSIBLE,
)
CONTAINERS = Program(
    names=("docker", "podman"),
    variable="HEAT_DOCKER_CMD",
    install=Packages(apt="podman", dnf="podman", zypper="podman", object="one"),
    version=("version",),
)
COMPOSE = Program(
    names=("docker compose", "docker-compose", "podman-compose"),
    variable="HEAT_DOCKER_COMPOSE_CMD",
    install=Packages(
        apt="podman-compose",
        dnf="podman-compose",
        zypper="podman-compose",
        object="one",
    ),
    version=("version",),
)
PUPPET = Program(
    names=("puppet",),
    variable="HEAT_PUPPET_CMD",
    folders=("/opt/puppetlabs/bin",),
    install=Packages(apt="puppet", other="Puppet's own package puppet-agent"),
)
SALT = Program(
    names=("salt-call",),
    folders=("/opt/saltstack/salt",),
    install="install the package salt-minion of the Salt project, or «pip install salt»",
)
QUADLET = Program(
    names=(
        "/usr/lib/systemd/system-generators/podman-system-generator",
        "/usr/libexec/podman/quadlet",
    ),
    variable="HEAT_QUADLET_CMD",
    install="it is the part of podman that makes services of its units, from podman 4.4 on (Debian 12 has 4.3)",
    version=("-version",),
)
CHEF = Program(
    names=("chef-client", "cinc-client"),
    variable="HEAT_CHEF_CMD",
    folders=("/opt/chef/bin", "/opt/cinc/bin"),
    install="install Chef Infra Client or Cinc Client from the packages of their vendors",
)
CFN_INIT = Program(
    names=("cfn-init",),
    variable="HEAT_CFN_INIT_CMD",
    install="install heat-cfntools («pip install heat-cfntools» or «apt install heat-cfntools»)",
    version=("--help",),
)
APPLY_CONFIG = Program(
    names=("os-apply-config",),
    variable="HEAT_APPLY_CONFIG_CMD",
    install="install os-apply-config («pip install os-apply-config» or «apt install python3-os-apply-config»)",
)
CRICTL = Program(
    names=("crictl",),
    variable="HEAT_KUBELET_CRICTL",
    install="install cri-tools, or configure the kubelet to serve its read-only API (readOnlyPort: 10255)",
)

NEEDS: dict[str, tuple[Program | Module, ...]] = {
    "ansible": (ANSIBLE, ANSIBLE_RUNNER),
    "apply-config": (APPLY_CONFIG,),
    "cfn-init": (CFN_INIT,),
    "chef": (CHEF,),
    "docker-cmd": (CONTAINERS,),
    "docker-compose": (COMPOSE,),
    "kubelet": (CRICTL,),
    "puppet": (PUPPET,),
    "python": (PYTHON_TOOL,),
    "quadlet": (QUADLET, SYSTEMCTL),
    "salt": (SALT,),
    "systemd-unit": (SYSTEMCTL, ANALYZE),
}
"""Tool → what its runs need, all of it; first the program that it drives. Other tools need nothing."""

BOOTED = frozenset({"quadlet", "systemd-unit"})
"""The tools whose runs need a machine that was booted by systemd."""

NOT_BOOTED = (
    "systemd does not run on this machine, so units can be neither started nor stopped"
)

PROCESSORS: dict[str, tuple[Program | Module, ...]] = {
    "bash": (BASH,),
    "python": (PYTHON,),
    "ansible": NEEDS["ansible"],
    "puppet": NEEDS["puppet"],
    "salt": NEEDS["salt"],
    "chef": NEEDS["chef"],
    "container": NEEDS["docker-cmd"],
}
"""Processor of the artifacts of TOSCA → what it needs."""


def lacking(
    needs: Iterable[Program | Module], environment: Mapping[str, str]
) -> Program | Module | None:
    """Return the first of several needs that is not on this machine; None if all are."""
    return next((need for need in needs if not is_here(need, environment)), None)


def is_booted() -> bool:
    """Return whether this machine was booted by systemd, as sd_booted(3) has it."""
    return os.path.isdir("/run/systemd/system")  # noqa: PTH112  # never raises


def check(needs: Iterable[Program | Module], environment: Mapping[str, str]) -> None:
    """Raise MissingTool for the first of several needs that is not on this machine."""
    need = lacking(needs, environment)
    if need is not None:
        raise missing(need, environment)
