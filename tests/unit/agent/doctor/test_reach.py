"""The advice to close a file to other users, which must not close it to the agent."""

from __future__ import annotations

import os
import pwd

import pytest

from heat_config_agent.doctor import reach

FILE = "/etc/heat-config-agent/users/agent.conf"


def status(mode: int, user: int, group: int) -> os.stat_result:
    """Return the status of a file."""
    return os.stat_result((0o100000 | mode, 0, 0, 0, user, group, 0, 0, 0, 0))


@pytest.mark.parametrize(
    ("mode", "user", "group", "advice"),
    [
        (0o600, 700, 700, ""),
        (0o644, 700, 700, f"chmod 600 {FILE}"),
        (0o644, 0, 0, f"chgrp 700 {FILE}, and chmod 640 {FILE}"),
        (0o640, 0, 0, f"chgrp 700 {FILE}, and chmod 640 {FILE}"),
        (0o640, 0, 700, ""),
        (0o644, 0, 700, f"chgrp 700 {FILE}, and chmod 640 {FILE}"),
    ],
)
@pytest.mark.parametrize("as_root", [False, True], ids=["user", "root"])
def test_settings_of_a_user_stay_readable_for_that_user(
    monkeypatch: pytest.MonkeyPatch,
    mode: int,
    user: int,
    group: int,
    advice: str,
    *,
    as_root: bool,
) -> None:
    """Root's file is opened to the group of the agent's user, also if root asks."""
    monkeypatch.setattr(os, "geteuid", lambda: 0 if as_root else 700)
    monkeypatch.setattr(os, "getegid", lambda: 0 if as_root else 700)
    found = pwd.struct_passwd(("agent", "x", 700, 700, "", "/", "/bin/sh"))
    monkeypatch.setattr(pwd, "getpwnam", {"agent": found}.__getitem__)
    assert reach.privately(FILE, status(mode, user, group), 0o044) == advice


@pytest.mark.parametrize(
    ("mode", "advice"), [(0o640, "chmod 600 /etc/a.conf"), (0o600, "")]
)
def test_settings_of_root_are_for_root_alone(
    monkeypatch: pytest.MonkeyPatch, mode: int, advice: str
) -> None:
    """The group of a file of root's agent has no business with it."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert reach.privately("/etc/a.conf", status(mode, 0, 0), 0o044) == advice


def test_folder_of_root_stays_open_to_the_user_of_the_agent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A folder can be searched by the group that has the agent's user."""
    monkeypatch.setattr(os, "geteuid", lambda: 700)
    monkeypatch.setattr(os, "getegid", lambda: 700)
    assert reach.privately("/srv/secrets", status(0o755, 0, 0), 0o055) == (
        "chgrp 700 /srv/secrets, and chmod 750 /srv/secrets"
    )
