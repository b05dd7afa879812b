"""The settings of Heat and of plug-ins under the names of `oslo_config.cfg`: each has its default."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from types import ModuleType
from typing import Any

DEFAULTS: dict[str, Any] = {
    "convergence_engine": True,
    "default_deployment_signal_transport": "CFN_SIGNAL",
    "default_software_config_transport": "POLL_SERVER_CFN",
    "default_user_data_format": "HEAT_CFNTOOLS",
    "hidden_stack_tags": [],
    "max_nested_stack_depth": 5,
    "max_resources_per_stack": 1000,
    "max_server_name_length": 53,
    "region_name_for_services": None,
    "stack_scheduler_hints": False,
}
"""The settings of Heat that its resources read, with Heat's defaults."""

_KINDS = (
    *(
        "Opt",
        "StrOpt",
        "BoolOpt",
        "IntOpt",
        "FloatOpt",
        "ListOpt",
        "DictOpt",
        "MultiOpt",
        "MultiStrOpt",
        "PortOpt",
    ),
    *("HostAddressOpt", "HostnameOpt", "IPOpt", "URIOpt", "SubCommandOpt"),
)


class NoSuchOptError(AttributeError):
    """A plug-in reads a setting that was not declared."""


class Opt:
    """The declaration of a setting."""

    def __init__(
        self, name: str, *_: Any, default: Any = None, dest: str = "", **_more: Any
    ) -> None:
        """Take the name and the default; the rest says how a configuration file would be read."""
        self.name, self.default = name, default
        self.dest = dest or name.replace("-", "_")


class OptGroup:
    """The declaration of a group of settings."""

    def __init__(self, name: str, *_: Any, **_more: Any) -> None:
        """Take the name."""
        self.name = name


class Settings:
    """The settings of one group, or those without a group."""

    def __init__(self, values: dict[str, Any]) -> None:
        """Take values by name."""
        self._values = values

    def __getattr__(self, name: str) -> Any:
        try:
            return self._values[name]
        except KeyError:
            raise NoSuchOptError(f"no such option {name}") from None

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def get(self, name: str, default: Any = None) -> Any:
        """Return a value, or a default."""
        return self._values.get(name, default)


class Configuration(Settings):
    """All settings: what `cfg.CONF` is."""

    def __call__(self, *_: Any, **_more: Any) -> None:
        """Do nothing: no configuration file of Heat is read."""

    def _group(self, group: Any) -> dict[str, Any]:
        if not group:
            return self._values
        inner = self._values.setdefault(getattr(group, "name", group), Settings({}))
        values: dict[str, Any] = inner._values  # noqa: SLF001  # of this module
        return values

    def register_group(self, group: OptGroup) -> None:
        """Add a group."""
        self._group(group)

    def register_opt(self, opt: Opt, group: Any = None, **_: Any) -> bool:
        """Add a setting with its default, and return whether it is new."""
        values = self._group(group)
        is_new = opt.dest not in values
        values.setdefault(opt.dest, opt.default)
        return is_new

    def register_opts(self, opts: Iterable[Opt], group: Any = None, **_: Any) -> None:
        """Add settings with their defaults."""
        for each in opts:
            self.register_opt(each, group)

    register_cli_opt, register_cli_opts = register_opt, register_opts

    def import_opt(self, *_: Any, **_more: Any) -> None:
        """Do nothing: the settings of Heat are there."""

    def import_group(self, group: Any, module: str) -> None:  # noqa: ARG002  # plug-ins give it
        """Add a group."""
        self._group(group)

    def set_default(self, name: str, default: Any, group: Any = None) -> None:
        """Replace a default."""
        self._group(group)[name] = default

    set_override = set_default


def module() -> ModuleType:
    """Return the module that stands for `oslo_config.cfg`."""
    made = ModuleType("oslo_config.cfg")
    members = {
        "CONF": Configuration(dict(DEFAULTS)),
        "ConfigOpts": Configuration,
        "OptGroup": OptGroup,
    }
    made.__dict__.update(
        members, NoSuchOptError=NoSuchOptError, **dict.fromkeys(_KINDS, Opt)
    )
    return made


def of_heat() -> ModuleType:
    """Return the module that stands for `heat.common.config`; it declares Heat's settings in an installed library."""
    made = ModuleType("heat.common.config")
    if importlib.util.find_spec("oslo_config") is not None:
        cfg = importlib.import_module("oslo_config.cfg")
        cfg.CONF.register_opts(
            [cfg.Opt(name, default=value) for name, value in DEFAULTS.items()]
        )
    return made
