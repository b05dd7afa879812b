"""The default places of settings and state. This module imports almost nothing, because every start needs it."""

from __future__ import annotations

import os

TYPE_CHECKING = False  # as `typing` has it, which takes long to load


if TYPE_CHECKING:
    from collections.abc import Mapping


SYSTEM_STATE = "/var/lib/heat-config-agent"
SHELL_CONFIG = "/var/run/heat-config/heat-config"
OWN_FILES = "/etc/heat-config-agent"
OTHER_FILE = "/etc/os-collect-config.conf"
POLICY = "/etc/heat-config-agent/policy"
SECRETS = "/etc/heat-config-agent/secrets"
AGE_IDENTITY = "/etc/heat-config-agent/age.key"
VAULT_CREDENTIALS = "/etc/heat-config-agent/vault.json"
USERS = "/var/lib/heat-config-users"
PROVIDERS = "/usr/libexec/heat-config/secrets"
"""The places of the settings and of heat-agents' document, see `settings.effective`."""


def usual_state(environ: Mapping[str, str]) -> str:
    """Return the default state directory: that of the system for root, else one in the user's home."""
    if os.geteuid() == 0:
        return SYSTEM_STATE
    base = environ.get("XDG_STATE_HOME") or os.path.join(  # noqa: PTH118
        environ.get("HOME", "/"), ".local/state"
    )
    return os.path.join(base, "heat-config-agent")  # noqa: PTH118


def is_absent(path: str) -> bool:
    """Return whether a file certainly does not exist; its folder may be a link to a disk that is not mounted.

    Raises OSError if that cannot be seen. `exists` would take a folder that may not be entered for an absent file.
    """
    try:
        os.lstat(path)
    except FileNotFoundError:
        folder = path.rpartition("/")[0]
        return os.access(folder, os.F_OK) or not os.path.islink(folder)  # noqa: PTH114  # every start needs this
    return False
