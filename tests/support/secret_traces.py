"""Fixtures and functions for tests of secrets."""

from __future__ import annotations

from support.machine import Machine

SH = "#!/bin/sh\n"


CHEF = f"""{SH}[ "$1" = -z ] && grep -q planted "$5" && exec /bin/true\n"""


def chef_stands_in(machine: Machine) -> dict[str, str]:
    """A program in the place of chef-client, and a kitchen for it."""
    program = machine.folder / "chef-client"
    program.write_text(CHEF)
    program.chmod(0o755)
    (machine.state / "heat-config-chef" / "kitchen").mkdir(parents=True)
    return {"HEAT_CHEF_CMD": str(program)}
