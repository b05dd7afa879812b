"""Checks of what the agent may do: by its user, if that is not root, and by the users and secrets of the settings."""

from __future__ import annotations

import contextlib
import os
import pwd
import shlex
import stat
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import heat_config_hooks
from heat_config_agent.doctor import Finding, failed, ok, warning
from heat_config_agent.settings.effective import Settings
from heat_config_agent.settings.in_force import policy_in_force
from heat_config_agent.signing import ssh
from heat_config_hooks import isolation

_FOR_ROOT = (
    "runs as other users, isolation and limits of runs, config drives that are not mounted, secrets of systemd-creds, "
    "and reboots"
)


def _name() -> str:
    """Return the name of the user of the agent, or its number if it has no name."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def privately(path: str, status: os.stat_result, mode: int) -> str:
    """Return how a file or folder is closed to other users, without closing it to the agent; empty if it is closed.

    `mode` has the permissions of others that count. A file of root may be open to the group of the agent's user.
    """
    uid, gid = _reader(path)
    place = shlex.quote(path)
    if uid in (0, status.st_uid):
        closed = "700" if mode & 0o011 else "600"
        return f"chmod {closed} {place}" if status.st_mode & mode else ""
    if not status.st_mode & mode & (0o007 if status.st_gid == gid else 0o077):
        return ""
    closed = "750" if mode & 0o011 else "640"
    return f"chgrp {gid} {place}, and chmod {closed} {place}"


def _reader(path: str) -> tuple[int, int]:
    """Return the user and group of the agent that reads a file: of this process, or for root, those its path names."""
    folder, _, name = path.rpartition("/")
    if os.geteuid() == 0 and folder.endswith("/users"):
        with contextlib.suppress(KeyError):
            user = pwd.getpwnam(name.removesuffix(".conf"))
            return user.pw_uid, user.pw_gid
    return os.geteuid(), os.getegid()


def _is_owner(status: os.stat_result) -> bool:
    return os.geteuid() in (0, status.st_uid)


def unit() -> str:
    """Return the name of the unit of the daemon of this user."""
    return f"heat-config-agent@{_name()}" if os.geteuid() else "heat-config-agent"


def check_reach(settings: Settings) -> Iterator[Finding]:
    """Check what is out of reach of the user of the agent, if that is not root."""
    if os.geteuid() == 0:
        return
    todo = "run what needs these as root"
    yield warning(
        "reach",
        f"this is the user {_name()}, not root; out of reach are {_FOR_ROOT}",
        todo,
    )
    closed: dict[str, list[str]] = {}
    for tool in heat_config_hooks.HOOKS:
        if heat_config_hooks.absent(tool):
            continue
        for variable, default in heat_config_hooks.load(tool).ABOUT.writes.items():
            place = settings.environment.get(variable) or default
            if not _may_write(Path(place)):
                closed.setdefault(tool, []).append(f"{place} ({variable})")
    for tool, places in sorted(closed.items()):
        yield warning(
            "reach",
            f"{tool} fails: the user may not write to {' and '.join(places)}",
            todo,
        )


def _may_write(path: Path) -> bool:
    """Return whether a file or a folder can be written or made."""
    while not os.path.lexists(path) and path != path.parent:
        path = path.parent
    return os.access(path, os.W_OK)


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
        command = [
            "unshare",
            "--mount",
            *(("--net",) if "network" in {**least, **levels} else ()),
            "true",
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        why = done.stderr.strip() or (
            f"unshare ended with {done.returncode}" if done.returncode else ""
        )
    if why:
        yield failed(
            "isolate",
            f"runs cannot be isolated by {parts}: {why}",
            "run the agent as root, with namespaces",
        )
    elif lacking := isolation.described(isolation.missing(levels, least)):
        yield warning(
            "isolate",
            f"the setting isolate lacks {lacking}, which the policy requires",
            "add it there",
        )
    else:
        yield ok(
            "isolate",
            f"runs are isolated by {parts}, if their tool has the option isolate",
        )


def check_user(name: str) -> Iterator[Finding]:
    """Check whether deployments can run as the user that the settings name, if they name one."""
    if not name:
        return
    try:
        pwd.getpwnam(name)
    except KeyError:
        yield failed(
            "user",
            f"the setting user names {name!r}, and there is no such user",
            "create it, or correct it",
        )
        return
    if os.geteuid() != 0:
        yield failed(
            "user",
            f"only an agent that runs as root can run deployments as {name!r}",
            "remove the setting user",
        )
    elif closed := _closed_to_others(Path(os.__file__)):
        text = f"only script runs as {name}: other users cannot read {closed}, which the agent's Python needs"
        yield warning("user", text, "install the agent where all users can read it")
    else:
        yield ok("user", f"tools with the option user run as {name}")


def _closed_to_others(path: Path) -> Path | None:
    """Return the part of a path that keeps other users from reading it; None if they can."""
    for each in (*reversed(path.parents), path):
        if not each.stat().st_mode & (stat.S_IXOTH if each != path else stat.S_IROTH):
            return each
    return None


def check_secrets(settings: Settings) -> Iterator[Finding]:
    """Check what providers of secrets read: the folder to which inputs may refer, and files with credentials."""
    yield from check_secrets_folder(Path(settings.text("secrets_dir")))
    for name in ("age_identity", "vault_credentials"):
        path = settings.text(name)
        if not os.path.lexists(path):
            continue
        if not os.access(path, os.R_OK):
            yield warning(
                "secrets",
                f"the user {_name()} cannot read {path}",
                f"set {name} to a file of that user",
            )
        elif os.stat(path).st_mode & 0o077:  # noqa: PTH116  # it is text already
            own = shlex.quote(path)
            todo = (
                f"chmod 600 {own}"
                if _is_owner(os.stat(path))  # noqa: PTH116
                else f"chown {_name()} {own}, and chmod 600 {own}"
            )
            yield warning("secrets", f"other users may read or change {path}", todo)


def check_secrets_folder(folder: Path) -> Iterator[Finding]:
    """Check whether only root can put a secret into the folder of secrets, and the agent can read it."""
    try:
        status = folder.stat()
    except OSError:
        return
    place = shlex.quote(str(folder))
    if not os.access(folder, os.R_OK | os.X_OK):
        text = f"the user {_name()} cannot read {folder}: no input can refer to secrets in it"
        yield warning("secrets", text, "set secrets_dir to a folder of that user")
    elif status.st_uid not in (0, os.geteuid()) or status.st_mode & 0o022:
        yield failed(
            "secrets",
            f"other users may write to {folder}: no secret is read from it",
            f"chmod go-w {place}",
        )
    elif todo := privately(str(folder), status, 0o055):
        yield warning("secrets", f"other users may look into {folder}", todo)
    else:
        yield ok("secrets", f"inputs may refer to secrets in {folder}")


def check_signing() -> Iterator[Finding]:
    """Check whether signatures can be verified, if the policy requires them."""
    policy = policy_in_force()
    if (
        policy is not None
        and policy.signers is not None
        and (obstacle := ssh.obstacle())
    ):
        yield failed(
            "policy",
            f"nothing new begins, because of the rule signers: {obstacle.brief}",
            obstacle.hint,
        )
