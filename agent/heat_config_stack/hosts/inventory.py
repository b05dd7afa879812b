"""An inventory of Ansible in the place of a hosts file, as `ansible-inventory --list` prints it."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from typing import Any

from heat_config_agent.model.errors import UsageError
from heat_config_stack.hosts.host import Host

_PROGRAM = "ansible-inventory"
_SECONDS = 60.0


def read(path: str) -> dict[str, Host | None]:
    """Return the hosts of an inventory by their names. Raises UsageError."""
    if shutil.which(_PROGRAM) is None:
        raise UsageError(
            f"cannot read {path}: it is an inventory of Ansible, and {_PROGRAM} is not installed",
            hint="install Ansible, or write a hosts file: a map of servers to hosts",
        )
    try:
        done = subprocess.run(
            [_PROGRAM, "-i", path, "--list"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(
            f"cannot read {path}: {_PROGRAM} did not end: {error}"
        ) from error
    try:
        content = json.loads(done.stdout) if done.returncode == 0 else None
    except ValueError:
        content = None
    if not isinstance(content, dict):
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise UsageError(
            f"cannot read {path}: {_PROGRAM} says: {lines[-1] if lines else 'nothing'}"
        )
    return hosts_of(path, content)


def hosts_of(path: str, content: Mapping[str, Any]) -> dict[str, Host | None]:
    """Return the hosts that `ansible-inventory --list` has printed. Raises UsageError."""
    names: dict[str, None] = {}
    for group in content.values():
        if isinstance(group, dict):
            names.update(dict.fromkeys(map(str, group.get("hosts") or ())))
    variables = (content.get("_meta") or {}).get("hostvars") or {}
    found = {name: _host(path, name, variables.get(name) or {}) for name in names}
    if not found:
        raise UsageError(f"{path} has no hosts")
    return found


def _host(path: str, name: str, values: Mapping[str, Any]) -> Host | None:
    if values.get("ansible_connection") == "local":
        return None
    address = str(values.get("ansible_host") or name)
    user = str(values.get("ansible_user") or values.get("ansible_ssh_user") or "")
    port = str(values.get("ansible_port") or values.get("ansible_ssh_port") or "0")
    become = str(values.get("ansible_become") or "").lower() in ("true", "yes", "1")
    if not port.isdecimal() or not int(port) < 65536:
        raise UsageError(f"cannot use {path}: {name}: {port!r} is not a port")
    host = Host(address, user, int(port), become=become)
    try:
        host.check()
    except ValueError as error:
        raise UsageError(f"cannot use {path}: {name}: {error}") from error
    return host
