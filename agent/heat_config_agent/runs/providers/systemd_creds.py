"""The provider `systemd-creds`: `NAME.cred` in the folder of secrets, encrypted for this machine with the name NAME."""

from __future__ import annotations

import sys

from heat_config_agent.runs.providers import folder, programs


def _credential(name: str) -> bytes:
    data = folder.read(name, ".cred")
    label = name.rpartition("/")[2]
    return programs.filtered(
        ["systemd-creds", "decrypt", f"--name={label}", "-", "-"], data
    )


if __name__ == "__main__":
    sys.exit(folder.answer(_credential))
