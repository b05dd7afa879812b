"""Where the agent works and how long it waits: the first that says it, of those who may.

The command line, a file named on it, the environment, the agent's own files, Heat's metadata, os-collect-config's file,
and what is usual. `configuration` has the settings themselves. The environment is read here; what is the terminal's and
requests' own is read by `cli.terminal` and `web`.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path

from heat_config_agent import configuration, kill_points, unchanged
from heat_config_agent.configuration import Layer
from heat_config_agent.errors import UsageError
from heat_config_agent.model import Where
from heat_config_agent.retention import Limits
from heat_config_hooks.values import dataclass, replace

SYSTEM_STATE = Path(unchanged.SYSTEM_STATE)
SHELL_CONFIG = Path(unchanged.SHELL_CONFIG)
HOOK_DIRECTORIES = (Path("/usr/libexec/heat-config/hooks"), Path("/var/lib/heat-config/hooks"))
DEPLOYED = Path("/var/lib/heat-config/deployed")
DEPLOYED_OLD = Path("/var/run/heat-config/deployed")

OWN_FILES = Path(unchanged.OWN_FILES)
"""Where the agent's own settings are: `*.conf`, of which a later one wins over those before it."""

OTHER_FILE = Path(unchanged.OTHER_FILE)
"""The settings of the program that the agent replaces."""

COMMAND_LINE = "the command line"

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
    own: tuple[Layer, ...] = ()
    """The agent's own files, the one that wins first."""
    other: Layer | None = None
    """os-collect-config's file."""
    said: tuple[Layer, ...] = ()
    """Everybody who says something, the one that wins first."""
    warnings: tuple[str, ...] = ()
    """What is passed over, though somebody may have meant something by it."""
    mistakes: tuple[str, ...] = ()
    """What has to be corrected before an agent can be started; empty where it was refused at once."""
    placed: bool = True
    """Whether the mistakes leave no doubt about the state directory."""
    options: tuple[str, ...] = ()
    """The words of the command line that say where the settings and the state are."""

    def command(self, *words: str) -> str:
        """Return a command for people that is about the same agent."""
        return shlex.join(("heat-config-agent", *words, *self.options))

    def found(self, section: str, name: str) -> tuple[object, str]:
        """Return the value of a setting, and who says so."""
        for layer in self.said:
            value = layer.get(section, name)
            if value is not None:
                return value, layer.origin_of(section, name)
        return configuration.setting(section, name).default, "default"

    def number(self, name: str) -> float:
        """Return a setting of `[agent]` that is a number."""
        value = self.found("agent", name)[0]
        return value if isinstance(value, int | float) else 0.0

    @property
    def limits(self) -> Limits:
        """How long, and how much, is kept."""
        return Limits(
            secrets=self.number("keep_secrets"),
            age=self.number("keep_for"),
            count=int(self.number("keep_count")),
            size=int(self.number("keep_size")),
            files=int(self.number("keep_files")),
            output=int(self.number("output_limit")),
        )

    @property
    def where(self) -> Where:
        """Folders and limits for those who run deployments: one after the other, in the order of their documents."""
        return Where(
            state=self.state,
            root=self.root,
            environment=self.environment,
            limit=self.limit,
            grace=self.grace,
            output_limit=int(self.number("output_limit")),
            scopes=self.flag("scopes"),
        )

    def text(self, name: str) -> str:
        """Return a setting of `[agent]` that is text."""
        return str(self.found("agent", name)[0])

    def flag(self, name: str) -> bool:
        """Return a setting of `[agent]` that is true or false."""
        return self.found("agent", name)[0] is True

    def words(self, name: str) -> tuple[str, ...]:
        """Return a setting of `[agent]` that is several texts."""
        value = self.found("agent", name)[0]
        return value if isinstance(value, tuple) else ()

    def section(self, name: str) -> dict[str, object]:
        """Return all that holds in a section."""
        return {each: self.found(name, each)[0] for each in configuration.defaults(name)}

    @property
    def only(self) -> tuple[str, ...]:
        """The sources that the administrator has chosen; empty for all."""
        for layer in self.own:
            value = layer.get("agent", "collectors")
            if isinstance(value, tuple):
                return value
        return ()

    @property
    def reboot_command(self) -> tuple[str, ...]:
        """The words of the command that reboots the machine."""
        return tuple(shlex.split(self.text("reboot_command")))

    def with_metadata(self, layer: Layer) -> Settings:
        """Return the settings when the metadata says that: it counts for less than the agent's own files."""
        said = tuple(each for each in self.said if each is not self.other and each.origin != layer.origin)
        return replace(self, said=(*said, layer, *((self.other,) if self.other else ())))


def make(
    environ: Mapping[str, str],
    *,
    config: Path | None = None,
    state: Path | None = None,
    hooks: tuple[Path, ...] = (),
    limit: float | None = None,
    grace: float | None = None,
    delivery: float | None = None,
    ca_file: str | None = None,
    wrong: list[str] | None = None,
) -> Settings:
    """Return the settings. What is given wins over all else; a limit of 0 means none.

    With `config`, that file is the only one that is read. Raises UsageError; where there is a list `wrong`, what is
    wrong is put into that, and passed over.
    """
    words = (
        *(("--config", str(config.absolute())) if config else ()),
        *(("--state-dir", str(state.absolute())) if state else ()),
    )
    before = len(wrong or ())
    own, other = _files(wrong) if config is None else _one(_file(config, wrong))
    for layer in own:
        more = f"and {len(layer.mistakes) - 1} more: {shlex.join(('heat-config-agent', 'config', *words))} shows them"
        hint = more if wrong is None and len(layer.mistakes) > 1 else ""
        for mistake in layer.mistakes:
            _refuse(UsageError(f"cannot use the settings in {layer.origin}: {mistake}", hint=hint), wrong)
    said = (*own, *((other,) if other else ()))
    given = {"time_limit": limit, "grace": grace, "ca_file": ca_file}
    options = {name: value for name, value in given.items() if value is not None}
    found = Settings(
        state=Path("/"),
        root=None,
        deployed=DEPLOYED,
        deployed_old=None,
        hooks=(),
        environment={},
        limit=None,
        grace=0,
        delivery=DELIVERY_SECONDS if delivery is None else delivery,
        ca_file=None,
        shell_config=_path(environ, "HEAT_SHELL_CONFIG"),
        own=own,
        other=other,
        said=(Layer(COMMAND_LINE, {"agent": options}), *said),
        warnings=tuple(f"{other.origin}: {each}" for each in other.mistakes) if other else (),
        options=words,
    )
    result = _placed(found, environ, config=config, state=state, hooks=hooks, wrong=wrong)
    return replace(result, mistakes=tuple(wrong[before:]) if wrong else ())


def _refuse(error: UsageError, wrong: list[str] | None) -> None:
    """Raise what is wrong, or put it into the list, where there is one."""
    if wrong is None:
        raise error
    wrong.append(str(error))


def _placed(
    found: Settings,
    environ: Mapping[str, str],
    *,
    config: Path | None,
    state: Path | None,
    hooks: tuple[Path, ...],
    wrong: list[str] | None,
) -> Settings:
    """Return the settings with all that follows from who says what."""
    configured = Path(found.text("state_dir")) if found.text("state_dir") else None
    variable = _path(environ, "HEAT_CONFIG_AGENT_STATE")
    named = (configured or variable) if config else (variable or configured)
    directory = state or named or Path(unchanged.usual_state(environ))
    sayers = (*found.own, *((found.other,) if config and found.other else ()))
    doubtful = any(configuration.similar("state_dir", each.wrong) for each in sayers)
    sure = state is not None or (variable is not None and config is None) or not doubtful
    if os.path.lexists(directory) and not directory.is_dir():
        sure = False
        who = _who(found, "state_dir") if directory == configured and not state else "--state-dir" if state else ""
        _refuse(UsageError(f"{directory} is no directory", hint=who), wrong)
    system = directory == SYSTEM_STATE
    deployed = _path(environ, "HEAT_CONFIG_DEPLOYED")
    old = _path(environ, "HEAT_CONFIG_DEPLOYED_OLD")
    own_hooks = _path(environ, "HEAT_CONFIG_HOOKS")
    searched = (*hooks, *((own_hooks,) if own_hooks else ()), *map(Path, found.words("hooks_dir")), *HOOK_DIRECTORIES)
    ca_file = found.text("ca_file") or None
    if ca_file is not None:
        trouble = no_certificates(ca_file)
        if trouble:
            _refuse(UsageError(trouble, hint=_who(found, "ca_file")), wrong)
    return replace(
        found,
        state=directory.absolute(),
        root=None if system else directory.absolute(),
        deployed=(deployed or (DEPLOYED if system else directory / "deployed")).absolute(),
        deployed_old=(old or DEPLOYED_OLD).absolute() if system or deployed or old else None,
        hooks=tuple(each.absolute() for each in searched),
        environment={**run_environment(environ), **_pairs(found, wrong)},
        limit=found.number("time_limit") or None,
        grace=found.number("grace"),
        ca_file=ca_file,
        placed=sure,
    )


def no_certificates(path: str) -> str:
    """Return why a file cannot say whom to trust; empty where it can."""
    import ssl  # noqa: PLC0415  # 10 ms, for those who have such a file

    try:
        ssl.create_default_context(cafile=path)
    except ssl.SSLError:
        return f"there is no certificate in {path}"
    except OSError as error:
        return f"cannot read the certificates in {path}: {error.strerror}"
    return ""


def _who(found: Settings, name: str) -> str:
    """Return who says a setting of `[agent]`, for people."""
    origin = found.found("agent", name)[1]
    return f"--{name.replace('_', '-')}" if origin == COMMAND_LINE else f"{name} of [agent], {origin}"


def _one(layer: Layer) -> tuple[tuple[Layer, ...], Layer | None]:
    """Return what the only file says, as the agent's own or as os-collect-config's."""
    return ((layer,), None) if layer.own else ((), layer)


def _file(path: Path, wrong: list[str] | None, *, own: bool = False) -> Layer:
    """Return what a file says."""
    try:
        return configuration.file(path, own=own, refused=wrong)
    except UsageError as error:
        _refuse(error, wrong)
        return Layer(str(path), {}, own=own, wrong=("state_dir",))  # who knows what is in it


def _files(wrong: list[str] | None) -> tuple[tuple[Layer, ...], Layer | None]:
    """Return what the machine's own files say: the agent's, the last one first, and os-collect-config's."""
    own = tuple(_file(path, wrong, own=True) for path in sorted(OWN_FILES.glob("*.conf"), reverse=True))
    return own, _file(OTHER_FILE, wrong) if OTHER_FILE.exists() else None


def _pairs(found: Settings, wrong: list[str] | None) -> dict[str, str]:
    """Return what the settings add to the environment of runs."""
    pairs: dict[str, str] = {}
    for each in found.words("environment"):
        name, sign, value = each.partition("=")
        if not sign or not name:
            origin = found.found("agent", "environment")[1]
            # Not what it is: it may be a secret.
            _refuse(UsageError(f"cannot use the settings in {origin}: environment: expected NAME=VALUE"), wrong)
            continue
        pairs[name] = value
    return pairs


def run_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of every run: PATH, HOME, locale, time zone, proxies, and what steers hooks (`HEAT_*`)."""
    kept = {name: value for name, value in environ.items() if name in _KEPT or name.startswith(_KEPT_BEGINNINGS)}
    kept.pop(kill_points.VARIABLE, None)
    kept.setdefault("PATH", PATH)
    kept.setdefault("HOME", "/root" if os.geteuid() == 0 else "/")
    return kept


def _path(environ: Mapping[str, str], name: str) -> Path | None:
    return Path(environ[name]) if environ.get(name) else None
