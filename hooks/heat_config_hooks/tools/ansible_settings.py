"""The environment of ansible: its folders and plug-ins, from options, variables and ansible.cfg."""

from __future__ import annotations

import os
import pwd
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from heat_config_hooks import artifacts, protocol

USUAL = (None, "default", "ansible.builtin.default")
"""Stdout callbacks whose output people read: the default, by any of its names."""

_FOLDERS = {
    "ANSIBLE_COLLECTIONS_PATH": "{}/collections:/usr/share/ansible/collections",
    "ANSIBLE_ROLES_PATH": "{}/roles:/usr/share/ansible/roles:/etc/ansible/roles",
}
"""The folders that ansible searches by default; `{}` is its home."""


def environment(
    request: protocol.Request, place: protocol.Workplace, *, local: bool
) -> dict[str, str]:
    """Return the variables for ansible; with `local`, the inventory is this machine alone."""
    own = place.environment
    variables = {
        "ANSIBLE_FORCE_COLOR": "0",
        # This folder is removed after the run, even if ansible is killed.
        "ANSIBLE_LOCAL_TEMP": own.get("ANSIBLE_LOCAL_TEMP") or str(place.run / "tmp"),
        # If the runner cut a long result, the event would no longer say whether its task changed anything.
        "MAX_EVENT_RES": str(sys.maxsize),
    }
    locales = (own.get(name) for name in ("LC_ALL", "LC_CTYPE", "LANG"))
    if not re.search(r"utf-?8$", next(filter(None, locales), ""), re.IGNORECASE):
        # ansible would not start
        variables["LC_ALL"] = "C.UTF-8"
    home = own.get("HOME", "")
    base = own.get("ANSIBLE_HOME") or f"{home}/.ansible"
    if not _is_usable(home):
        base = variables["ANSIBLE_HOME"] = own.get("ANSIBLE_HOME") or str(
            place.run / "ansible"
        )
    if local and not (_is_usable(home) and _is_usable(_home_of_the_user())):
        # other machines have other homes
        variables["ANSIBLE_REMOTE_TMP"] = own.get("ANSIBLE_REMOTE_TMP") or str(
            place.run / "remote"
        )
    # The runner sets the next two variables, which would override ansible.cfg. So its values are passed on in them.
    configured = _configured(place)
    if stdout := own.get("ANSIBLE_STDOUT_CALLBACK") or configured.get(
        "stdout_callback"
    ):
        variables["ANSIBLE_STDOUT_CALLBACK"] = stdout
    variables["ANSIBLE_CALLBACK_PLUGINS"] = (
        own.get("ANSIBLE_CALLBACK_PLUGINS")
        or configured.get("callback_plugins")
        or f"{base}/plugins/callback:/usr/share/ansible/plugins/callback"
    )
    fetched = os.environ.get(artifacts.VARIABLE, "")
    for variable, option in (
        ("ANSIBLE_CALLBACK_PLUGINS", "callback_plugins"),
        ("ANSIBLE_COLLECTIONS_PATH", "collections_path"),
        ("ANSIBLE_ROLES_PATH", "roles_path"),
    ):
        value = cast("list[str]", request.options[option])
        if fetched and variable in _FOLDERS:
            # what was fetched comes before what the machine has
            usual = (
                own.get(variable)
                or configured.get(option)
                or _FOLDERS[variable].format(base)
            )
            value = [*value, fetched, *([] if value else [usual])]
        if value:
            variables[variable] = ":".join(value)
    return variables


def _is_usable(home: str) -> bool:
    """Return whether ansible can keep files in a home directory."""
    return home not in ("", "/") and os.access(home, os.W_OK | os.X_OK)


def _home_of_the_user() -> str:
    """Return the home directory of the user of this process, which modules use on this machine; empty if unknown."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:
        return ""


def _configured(place: protocol.Workplace) -> Mapping[str, str]:
    """Return the section `[defaults]` of the ansible.cfg that ansible will read, with absolute paths."""
    own = place.environment
    named = Path(own["ANSIBLE_CONFIG"]) if own.get("ANSIBLE_CONFIG") else None
    candidates = (
        *((named / "ansible.cfg" if named.is_dir() else named,) if named else ()),
        place.working / "ansible.cfg",
        Path(own.get("HOME") or "/") / ".ansible.cfg",
        Path("/etc/ansible/ansible.cfg"),
    )
    path = next(
        (path for path in candidates if os.access(path, os.R_OK) and path.is_file()),
        None,
    )
    if path is None:
        return {}
    import configparser  # noqa: PLC0415  # few machines have an ansible.cfg

    parser = configparser.ConfigParser(
        interpolation=None, inline_comment_prefixes=(";",), strict=False
    )
    try:
        parser.read(path, encoding="utf-8")
    except (configparser.Error, UnicodeDecodeError):  # ansible will report the mistake
        return {}
    defaults = dict(parser["defaults"]) if parser.has_section("defaults") else {}
    for name in ("callback_plugins", "roles_path", "collections_path"):
        if folders := defaults.get(name):
            expanded = (
                os.path.expanduser(os.path.expandvars(folder))  # noqa: PTH111
                for folder in folders.split(":")
            )
            defaults[name] = ":".join(str(path.parent / folder) for folder in expanded)
    return defaults
