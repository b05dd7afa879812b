"""Where the agent works and how long it waits: from the command line, else the environment, else what is usual.

The environment is read here; what is the terminal's and requests' own is read by `cli.terminal` and `web`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from heat_config_agent.errors import UsageError

SYSTEM_STATE = Path("/var/lib/heat-config-agent")
SHELL_CONFIG = Path("/var/run/heat-config/heat-config")
HOOK_DIRECTORIES = (Path("/usr/libexec/heat-config/hooks"), Path("/var/lib/heat-config/hooks"))
DEPLOYED = Path("/var/lib/heat-config/deployed")
DEPLOYED_OLD = Path("/var/run/heat-config/deployed")

TIME_LIMIT = 3600.0
"""Seconds that a deployment may take which does not say its own limit: as long as Heat waits for a stack by default."""

GRACE_SECONDS = 10.0
"""Seconds between asking a run to end, when its time is over, and killing it."""

DELIVERY_SECONDS = 10.0
"""Seconds that a one-shot run goes on trying to deliver a result before it leaves that to the next run."""

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_KEPT = frozenset(
    {"PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ"}
    | {"http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy"}
    | {"HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "ALL_PROXY", "NO_PROXY"}
    | {"CHEF_LICENSE", "CONTAINER_RUNTIME_ENDPOINT", "SALT_MINION_CONFIG"}
)
_KEPT_BEGINNINGS = ("LC_", "HEAT_", "OS_CONFIG_")
"""What steers hooks, also under the names that it has had with heat-agents."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What holds for one command."""

    state: Path
    """The state directory: journal, lock, and a folder for each run."""
    root: Path | None
    """Below which hooks keep their files; None for heat-agents' own places."""
    deployed: Path
    deployed_old: Path | None
    hooks: tuple[Path, ...]
    """Directories with hooks, in the order in which they are searched."""
    environment: Mapping[str, str]
    """The environment of every run: what a program needs to work at all, and nothing that was meant for the agent."""
    limit: float | None
    grace: float
    delivery: float
    ca_file: str | None
    shell_config: Path | None
    """`$HEAT_SHELL_CONFIG`, where it is set."""


def make(
    environ: Mapping[str, str],
    *,
    state: Path | None = None,
    hooks: tuple[Path, ...] = (),
    limit: float | None = None,
    grace: float | None = None,
    delivery: float | None = None,
    ca_file: str | None = None,
) -> Settings:
    """Return the settings. What is given wins over the environment; a limit of 0 means none."""
    if ca_file is not None:
        try:
            Path(ca_file).open("rb").close()
        except OSError as error:
            raise UsageError(f"cannot read the certificates in {ca_file}: {error.strerror}") from error
    directory = state or _path(environ, "HEAT_CONFIG_AGENT_STATE") or _usual_state(environ)
    system = directory == SYSTEM_STATE
    deployed = _path(environ, "HEAT_CONFIG_DEPLOYED")
    old = _path(environ, "HEAT_CONFIG_DEPLOYED_OLD")
    own_hooks = _path(environ, "HEAT_CONFIG_HOOKS")
    return Settings(
        state=directory.absolute(),
        root=None if system else directory.absolute(),
        deployed=(deployed or (DEPLOYED if system else directory / "deployed")).absolute(),
        deployed_old=(old or DEPLOYED_OLD).absolute() if system or deployed or old else None,
        hooks=tuple(each.absolute() for each in (*hooks, *((own_hooks,) if own_hooks else ()), *HOOK_DIRECTORIES)),
        environment=run_environment(environ),
        limit=(TIME_LIMIT if limit is None else limit) or None,
        grace=GRACE_SECONDS if grace is None else grace,
        delivery=DELIVERY_SECONDS if delivery is None else delivery,
        ca_file=ca_file,
        shell_config=_path(environ, "HEAT_SHELL_CONFIG"),
    )


def run_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of every run: PATH, HOME, locale, time zone, proxies, and what steers hooks (`HEAT_*`)."""
    kept = {name: value for name, value in environ.items() if name in _KEPT or name.startswith(_KEPT_BEGINNINGS)}
    kept.setdefault("PATH", PATH)
    kept.setdefault("HOME", "/root" if os.geteuid() == 0 else "/")
    return kept


def _usual_state(environ: Mapping[str, str]) -> Path:
    if os.geteuid() == 0:
        return SYSTEM_STATE
    base = environ.get("XDG_STATE_HOME") or os.path.join(environ.get("HOME", "/"), ".local/state")  # noqa: PTH118
    return Path(base) / "heat-config-agent"


def _path(environ: Mapping[str, str], name: str) -> Path | None:
    return Path(environ[name]) if environ.get(name) else None
