"""The effective settings: command line, environment, files and metadata, merged in order of precedence.

The order is: the command line, a file named on it, the environment, the agent's own files, Heat's metadata,
os-collect-config's file, and the defaults. `settings.schema` declares the settings. The environment is read here;
`cli.terminal` and `web` read the variables of the terminal and of requests.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from heat_config_agent.model.errors import UsageError
from heat_config_agent.model.run_settings import Limits, RunDefaults, RunSettings
from heat_config_agent.settings import layers, paths, schema
from heat_config_agent.settings.kinds import Setting
from heat_config_agent.settings.layers import Layer
from heat_config_hooks import isolation
from heat_config_hooks.values import dataclass, replace

SYSTEM_STATE = Path(paths.SYSTEM_STATE)
SHELL_CONFIG = Path(paths.SHELL_CONFIG)
HOOK_DIRECTORIES = (
    Path("/usr/libexec/heat-config/hooks"),
    Path("/var/lib/heat-config/hooks"),
)
DEPLOYED = Path("/var/lib/heat-config/deployed")
DEPLOYED_OLD = Path("/var/run/heat-config/deployed")

OWN_FILES = Path(paths.OWN_FILES)
"""The folder of the agent's own settings: `*.conf`, of which a later one overrides those before it."""

OTHER_FILE = Path(paths.OTHER_FILE)
"""The settings of os-collect-config."""

COMMAND_LINE = "the command line"

DELIVERY_SECONDS = 10.0
"""Seconds for which a one-shot run retries the delivery of a result before it leaves that to the next run."""

RUN_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_KEPT = frozenset(
    {"PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ"}
    | {"http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy"}
    | {"HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "ALL_PROXY", "NO_PROXY"}
    | {"CHEF_LICENSE", "CONTAINER_RUNTIME_ENDPOINT", "SALT_MINION_CONFIG"}
)
_KEPT_BEGINNINGS = ("LC_", "HEAT_", "OS_CONFIG_")
"""The beginnings of the names of variables that control hooks, including those of heat-agents."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The effective settings of one command."""

    state: Path
    """The state directory: journal, lock, and a folder for each run."""
    root: Path | None
    """The folder in which hooks keep their files; None for heat-agents' own places."""
    deployed: Path
    """heat-agents' folder `deployed`, in which a file marks each deployment that has run."""
    deployed_old: Path | None
    """The earlier place of that folder; None if it does not count."""
    hooks: tuple[Path, ...]
    """The hook directories, in the order in which they are searched."""
    environment: Mapping[str, str]
    """The environment of every run, see `environment_of_runs`."""
    limit: float | None
    """The default timeout of a deployment in seconds; None for no timeout."""
    grace: float
    """Seconds between TERM and KILL when a run is ended."""
    delivery: float
    """Seconds for which a one-shot run retries the delivery of a result."""
    ca_file: str | None
    """A file with trusted certificates; None for the default ones."""
    shell_config: Path | None
    """`$HEAT_SHELL_CONFIG`, if it is set."""
    own: tuple[Layer, ...] = ()
    """The agent's own files, in order of precedence."""
    other: Layer | None = None
    """os-collect-config's file."""
    layers: tuple[Layer, ...] = ()
    """All places with settings, in order of precedence."""
    warnings: tuple[str, ...] = ()
    """The mistakes in os-collect-config's file, which are ignored."""
    mistakes: tuple[str, ...] = ()
    """The mistakes that have to be corrected before an agent can be started; empty if they were raised."""
    placed: bool = True
    """False if the mistakes leave it open where the state directory is."""
    options: tuple[str, ...] = ()
    """The options of the command line that select the settings and the state directory."""

    def command(self, *words: str) -> str:
        """Return a command line for people that uses the same settings and state."""
        import shlex  # noqa: PLC0415  # few runs have anything to say with it

        return shlex.join(("heat-config-agent", *words, *self.options))

    def lookup(self, section: str, name: str) -> tuple[object, str]:
        """Return the value of a setting and its origin."""
        for layer in self.layers:
            value = layer.get(section, name)
            if value is not None:
                return value, layer.origin_of(section, name)
        return schema.setting(section, name).default, "default"

    def _is_set(self, section: str, name: str) -> bool:
        return any(layer.get(section, name) is not None for layer in self.layers)

    @property
    def deprecated(self) -> list[tuple[Setting, str]]:
        """The deprecated settings that are set, each with its origin."""
        rows = [
            row
            for row in self.rows
            if row.replaced_by and self._is_set(row.section, row.name)
        ]
        return [(row, self.lookup(row.section, row.name)[1]) for row in rows]

    def number(self, name: str) -> float:
        """Return the value of a setting of `[agent]` that is a number."""
        value = self.lookup("agent", name)[0]
        return value if isinstance(value, int | float) else 0.0

    @property
    def limits(self) -> Limits:
        """The limits of retention."""
        age, secrets = self.number("keep_for"), self.number("keep_secrets")
        return Limits(
            secrets=secrets
            if self._is_set("agent", "keep_secrets")
            else min(secrets, age),
            age=age,
            count=int(self.number("keep_count")),
            size=int(self.number("keep_size")),
            files=int(self.number("keep_files")),
            output=int(self.number("output_limit")),
        )

    @property
    def run_settings(self) -> RunSettings:
        """The folders and limits of runs: one run at a time, in the order of the documents."""
        return RunSettings(
            state=self.state,
            root=self.root,
            environment=self.environment,
            limit=self.limit,
            grace=self.grace,
            output_limit=int(self.number("output_limit")),
            scopes=self.flag("scopes"),
            ca_file=self.ca_file,
            artifacts_size=int(self.number("keep_size")),
            defaults=self.defaults,
            user_dir=self.text("user_dir"),
            secrets={
                "HEAT_SECRETS_DIR": self.text("secrets_dir"),
                "HEAT_AGE_IDENTITY": self.text("age_identity"),
                "HEAT_VAULT_URL": self.text("vault_url"),
                "HEAT_VAULT_CREDENTIALS": self.text("vault_credentials"),
                "HEAT_CA_FILE": self.ca_file or "",
            },
            providers=(*self.words("provider_dirs"), paths.PROVIDERS),
        )

    @property
    def defaults(self) -> RunDefaults:
        """The user and the isolation of runs whose deployments do not name them."""
        return RunDefaults(
            user=self.text("user"), isolation=isolation.of_words(self.words("isolate"))
        )

    def text(self, name: str) -> str:
        """Return the value of a setting of `[agent]` that is text."""
        return str(self.lookup("agent", name)[0])

    def flag(self, name: str) -> bool:
        """Return the value of a setting of `[agent]` that is true or false."""
        return self.lookup("agent", name)[0] is True

    def words(self, name: str) -> tuple[str, ...]:
        """Return the value of a setting of `[agent]` that is a list of texts."""
        value = self.lookup("agent", name)[0]
        return value if isinstance(value, tuple) else ()

    @property
    def followed(self) -> tuple[str, ...]:
        """The names of the stacks that have a section `[follow NAME]`, sorted."""
        sections = {
            name
            for layer in self.layers
            for name in layer.sections
            if name.startswith("follow ")
        }
        return tuple(sorted(name.removeprefix("follow ") for name in sections))

    @property
    def rows(self) -> tuple[Setting, ...]:
        """The declarations of all settings; those of `[follow NAME]` once for each such section."""
        plain = tuple(row for row in schema.SETTINGS if row.section != schema.FOLLOW)
        named = (row for row in schema.SETTINGS if row.section == schema.FOLLOW)
        rows = tuple(named) if self.followed else ()
        return (
            *plain,
            *(
                replace(row, section=f"follow {name}")
                for name in self.followed
                for row in rows
            ),
        )

    def section(self, name: str) -> dict[str, object]:
        """Return the effective values of a section by name."""
        return {key: self.lookup(name, key)[0] for key in schema.defaults(name)}

    @property
    def only(self) -> tuple[str, ...]:
        """The sources that the agent's own files select (`collectors`); empty for all."""
        for layer in self.own:
            value = layer.get("agent", "collectors")
            if isinstance(value, tuple):
                return value
        return ()

    @property
    def reboot_command(self) -> tuple[str, ...]:
        """The words of the command that reboots the machine."""
        import shlex  # noqa: PLC0415

        return tuple(shlex.split(self.text("reboot_command")))

    def with_metadata(self, layer: Layer) -> Settings:
        """Return the settings with the values of the metadata, which the agent's own files override."""
        others = tuple(
            other
            for other in self.layers
            if other is not self.other and other.origin != layer.origin
        )
        return replace(
            self, layers=(*others, layer, *((self.other,) if self.other else ()))
        )


@dataclass(frozen=True)
class Overrides:
    """The settings that a command line overrides."""

    hooks: tuple[Path, ...] = ()
    """Hook directories, which are searched before all others."""
    limit: float | None = None
    """The timeout of runs in seconds; 0 for none."""
    grace: float | None = None
    delivery: float | None = None
    """Seconds in which results have to be delivered."""
    ca_file: str | None = None


NO_OVERRIDES = Overrides()


def make(
    environ: Mapping[str, str],
    *,
    config: Path | None = None,
    state: Path | None = None,
    overrides: Overrides = NO_OVERRIDES,
    mistakes: list[str] | None = None,
) -> Settings:
    """Return the effective settings. The state directory and the overrides take precedence over all files.

    With `config`, that file is the only one that is read. Raises UsageError; with a list of `mistakes`, they are added
    to it instead, and the settings with mistakes are skipped.
    """
    words = (
        *(("--config", str(config.absolute())) if config else ()),
        *(("--state-dir", str(state.absolute())) if state else ()),
    )
    before = len(mistakes or ())
    files = (
        layers.machine(OWN_FILES, OTHER_FILE, mistakes)
        if config is None
        else layers.only(config, mistakes)
    )
    own, other = files
    for layer in own:
        hint = (
            _rest(layer, words) if mistakes is None and len(layer.mistakes) > 1 else ""
        )
        for mistake in layer.mistakes:
            layers.refuse(
                UsageError(
                    f"cannot use the settings in {layer.origin}: {mistake}", hint=hint
                ),
                mistakes,
            )
    arguments = {
        "time_limit": overrides.limit,
        "grace": overrides.grace,
        "ca_file": overrides.ca_file,
    }
    options = {name: value for name, value in arguments.items() if value is not None}
    merged = Settings(
        state=Path("/"),
        root=None,
        deployed=DEPLOYED,
        deployed_old=None,
        hooks=(),
        environment={},
        limit=None,
        grace=0,
        delivery=DELIVERY_SECONDS if overrides.delivery is None else overrides.delivery,
        ca_file=None,
        shell_config=_path(environ, "HEAT_SHELL_CONFIG"),
        own=own,
        other=other,
        layers=(
            Layer(COMMAND_LINE, {"agent": options}),
            *own,
            *((other,) if other else ()),
        ),
        warnings=tuple(f"{other.origin}: {mistake}" for mistake in other.mistakes)
        if other
        else (),
        options=words,
    )
    result = _complete(
        merged,
        environ,
        config=config,
        state=state,
        hooks=overrides.hooks,
        mistakes=mistakes,
    )
    return replace(result, mistakes=tuple(mistakes[before:]) if mistakes else ())


def _complete(
    merged: Settings,
    environ: Mapping[str, str],
    *,
    config: Path | None,
    state: Path | None,
    hooks: tuple[Path, ...],
    mistakes: list[str] | None,
) -> Settings:
    """Return the settings with the fields that follow from the merged layers and the environment."""
    directory, placed = _state(
        merged, environ, config=config, state=state, mistakes=mistakes
    )
    system = directory == SYSTEM_STATE
    deployed = _path(environ, "HEAT_CONFIG_DEPLOYED")
    old = _path(environ, "HEAT_CONFIG_DEPLOYED_OLD")
    searched = [*hooks]
    if own_hooks := _path(environ, "HEAT_CONFIG_HOOKS"):
        searched.append(own_hooks)
    searched += [
        *map(Path, merged.words("hooks_dir")),
        *(each for each in HOOK_DIRECTORIES if not _is_closed(each)),
    ]
    _check(merged, mistakes)
    return replace(
        merged,
        state=directory.absolute(),
        root=None if system else directory.absolute(),
        deployed=(
            deployed or (DEPLOYED if system else directory / "deployed")
        ).absolute(),
        deployed_old=(old or DEPLOYED_OLD).absolute()
        if system or deployed or old
        else None,
        hooks=tuple(path.absolute() for path in searched),
        environment={**environment_of_runs(environ), **_variables(merged, mistakes)},
        limit=merged.number("time_limit") or None,
        grace=merged.number("grace"),
        ca_file=merged.text("ca_file") or None,
        placed=placed,
    )


def _state(
    merged: Settings,
    environ: Mapping[str, str],
    *,
    config: Path | None,
    state: Path | None,
    mistakes: list[str] | None,
) -> tuple[Path, bool]:
    """Return the state directory, and False if a mistake in the settings may hide another one that is meant."""
    configured = Path(merged.text("state_dir")) if merged.text("state_dir") else None
    variable = _path(environ, "HEAT_CONFIG_AGENT_STATE")
    in_order = [state, variable, configured]
    if config:  # a file that is named on the command line precedes the environment
        in_order = [state, configured, variable]
    directory = next(filter(None, in_order), Path(paths.usual_state(environ)))
    files = (*merged.own, *((merged.other,) if config and merged.other else ()))
    doubtful = any(layers.similar("state_dir", layer.wrong) for layer in files)
    placed = (
        state is not None or (variable is not None and config is None) or not doubtful
    )
    if os.path.lexists(directory) and not directory.is_dir():
        placed = False
        hint = ""
        if state:
            hint = "--state-dir"
        elif directory == configured:
            hint = _place(merged, "state_dir")
        layers.refuse(
            UsageError(f"{directory} is not a directory", hint=hint), mistakes
        )
    return directory, placed


def _check(merged: Settings, mistakes: list[str] | None) -> None:
    """Refuse settings that cannot be used although their form is right."""
    ca_file = merged.text("ca_file")
    if ca_file and (trouble := certificate_trouble(ca_file)):
        layers.refuse(UsageError(trouble, hint=_place(merged, "ca_file")), mistakes)
    for name in ("report_url", "trace_url"):
        if trouble := _trouble_of_url(name, merged.text(name)):
            layers.refuse(UsageError(trouble, hint=_place(merged, name)), mistakes)
    for name in merged.followed:
        if not merged.lookup(f"follow {name}", "url")[0]:
            layers.refuse(
                UsageError(
                    f"cannot use the settings: [follow {name}] needs the setting url"
                ),
                mistakes,
            )


def _place(settings: Settings, name: str) -> str:
    """Return the place of a setting of `[agent]`, for people."""
    origin = settings.lookup("agent", name)[1]
    return (
        f"--{name.replace('_', '-')}"
        if origin == COMMAND_LINE
        else f"{name} of [agent], {origin}"
    )


def _trouble_of_url(name: str, url: str) -> str:
    """Return why nothing can be posted to a URL; empty if something can, or if there is no URL."""
    if not url:
        return ""
    from urllib.parse import urlsplit  # noqa: PLC0415  # few machines have one

    try:
        parts = urlsplit(url)
        usable = (
            parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        )
    except ValueError:
        usable = False
    return (
        ""
        if usable
        else f"cannot use the settings: {name} needs a URL of http or https"
    )


def _variables(settings: Settings, mistakes: list[str] | None) -> dict[str, str]:
    """Return the variables that the settings add to the environment of runs."""
    variables: dict[str, str] = {}
    for pair in settings.words("environment"):
        name, sign, value = pair.partition("=")
        if not sign or not name:
            origin = settings.lookup("agent", "environment")[1]
            # The message does not repeat the pair, which may be a secret.
            layers.refuse(
                UsageError(
                    f"cannot use the settings in {origin}: environment: expected NAME=VALUE"
                ),
                mistakes,
            )
            continue
        variables[name] = value
    return variables


def _is_closed(folder: Path) -> bool:
    """Return whether a folder that no one has named is for other users, as root's is where root runs an agent too."""
    if not os.geteuid():
        return False
    try:
        os.stat(folder)  # noqa: PTH116  # in every command
    except PermissionError:
        return True
    except OSError:
        return False
    return not os.access(folder, os.R_OK | os.X_OK, effective_ids=True)


def _path(environ: Mapping[str, str], name: str) -> Path | None:
    return Path(environ[name]) if environ.get(name) else None


def environment_of_runs(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of every run: PATH, HOME, locale, time zone, proxies and hook variables (`HEAT_*`)."""
    kept = {
        name: value
        for name, value in environ.items()
        if name in _KEPT or name.startswith(_KEPT_BEGINNINGS)
    }
    kept.setdefault("PATH", RUN_PATH)
    kept.setdefault("HOME", "/root" if os.geteuid() == 0 else "/")
    return kept


def certificate_trouble(path: str) -> str:
    """Return why a file cannot be used for trusted certificates; empty if it can."""
    import ssl  # noqa: PLC0415  # 10 ms, and few machines set such a file

    try:
        ssl.create_default_context(cafile=path)
    except ssl.SSLError:
        return f"there is no certificate in {path}"
    except OSError as error:
        return f"cannot read the certificates in {path}: {error.strerror}"
    return ""


def _rest(layer: Layer, words: Sequence[str]) -> str:
    """Return where the mistakes of a file are shown that follow the first one."""
    import shlex  # noqa: PLC0415

    return f"and {len(layer.mistakes) - 1} more: {shlex.join(('heat-config-agent', 'config', *words))} shows them"
