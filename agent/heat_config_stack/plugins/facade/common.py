"""Our own modules for `heat.common`, as far as plug-ins use it."""

from __future__ import annotations

import functools
import ipaddress
import json
import logging
import random
import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import yaml

from heat_config_stack.plugins import password_gen
from heat_config_stack.plugins.facade import exceptions, settings
from heat_config_stack.plugins.facade.libraries import named, plural, same
from heat_config_stack.records import exception
from heat_config_stack.resource import rolling

_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_BASE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

SECTIONS = (
    "parameters",
    "resource_registry",
    "parameter_defaults",
    "encrypted_param_names",
    "event_sinks",
)
"""The sections of an environment."""


class _Loader(_BASE):  # type: ignore[misc]  # of the library's C or Python part
    """Reads YAML as Heat does: a date is text."""


_DATE = "tag:yaml.org,2002:timestamp"
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in each if tag != _DATE]
    for first, each in _BASE.yaml_implicit_resolvers.items()
}


def _read(text: str, what: str) -> dict[str, Any]:
    """Return a map that a text has as JSON or YAML. Raises ValueError."""
    try:
        value = (
            json.loads(text)
            if text.lstrip().startswith("{")
            else yaml.load(text, _Loader)  # noqa: S506  # a safe one
        )
    except ValueError:
        value = yaml.load(text, _Loader)  # noqa: S506
    except yaml.YAMLError as error:
        raise ValueError(f"Error parsing {what}: {error}") from error
    if value is not None and not isinstance(value, dict):
        raise ValueError(f"The {what} is not a JSON object or YAML mapping.")
    return value or {}


def read_template(text: str, url: str | None = None) -> dict[str, Any]:
    """Return the sections of a template that is text. Raises ValueError."""
    template = _read(text, f"template {url or ''}".strip())
    if not any("emplate" in key and "ersion" in key for key in map(str, template)):
        raise ValueError("Template format version not found.")
    return template


def _template_format() -> ModuleType:
    return named(
        "heat.common.template_format",
        yaml=yaml,
        yaml_dumper=_DUMPER,
        yaml_loader=_Loader,
        parse=read_template,
        simple_parse=lambda text, url=None: _read(
            text, f"template {url or ''}".strip()
        ),
        convert_json_to_yaml=lambda text: yaml.dump(
            json.loads(text), Dumper=_DUMPER, sort_keys=False
        ),
    )


def _validate_environment(environment: Mapping[str, Any]) -> None:
    for section in environment or ():
        if section not in (*SECTIONS, "parameter_merge_strategies"):
            raise ValueError(f'environment has wrong section "{section}"')


def _environment_format() -> ModuleType:
    def parse(text: str) -> dict[str, Any]:
        environment = _read(text, "environment")
        _validate_environment(environment)
        return {
            **environment,
            **{name: {} for name in SECTIONS[:3] if environment.get(name) is None},
        }

    def fill(environment: dict[str, Any]) -> None:
        for name in SECTIONS[:3]:
            environment.setdefault(name, {})

    return named(
        "heat.common.environment_format",
        SECTIONS=SECTIONS,
        parse=parse,
        validate=_validate_environment,
        default_for_missing=fill,
        **{name.upper(): name for name in SECTIONS},
    )


class _URLFetchError(exception.Error, OSError):
    """A template cannot be read."""


def _urlfetch() -> ModuleType:
    def get(url: str, allowed_schemes: tuple[str, ...] = ("http", "https")) -> str:
        parts = urlsplit(url)
        if parts.scheme != "file":
            raise _URLFetchError(f"{url} is not fetched: name a file of this machine")
        if "file" not in allowed_schemes:
            raise _URLFetchError(f"Invalid URL scheme {parts.scheme}")
        try:
            return Path(unquote(parts.path)).read_text(encoding="utf-8")
        except OSError as error:
            raise _URLFetchError(f"Failed to retrieve template: {error}") from error

    return named("heat.common.urlfetch", get=get, URLFetchError=_URLFetchError)


class _Identifier(Mapping[str, str]):
    """The identity of a stack or of a part of one."""

    FIELDS = ("tenant", "stack_name", "stack_id", "path")

    def __init__(
        self, tenant: str, stack_name: str, stack_id: str, path: str = ""
    ) -> None:
        if "/" in stack_name:
            raise ValueError("Stack name may not contain '/'")
        if path and not path.startswith("/"):
            path = f"/{path}"
        self.identity = {
            "tenant": tenant,
            "stack_name": stack_name,
            "stack_id": str(stack_id),
            "path": path,
        }

    @classmethod
    def from_arn(cls, arn: str) -> _Identifier:
        """Return the identity that a name among all stacks has. Raises ValueError."""
        found = re.fullmatch(
            r"arn:openstack:heat::([^:/]*):stacks/([^/]+)/([^/]+)(.*)", arn
        )
        if found is None:
            raise ValueError(f'"{arn}" is not a valid ARN')
        return cls._made(*map(unquote, found.groups()))

    @classmethod
    def _made(cls, tenant: str, name: str, of: str, path: str) -> _Identifier:
        return cls(tenant, name, of, path)

    @classmethod
    def from_arn_url(cls, url: str) -> _Identifier:
        """Return the identity at the end of the path of a URL. Raises ValueError."""
        found = re.search(r"/arn(?::|%3[Aa]).*", urlsplit(url).path)
        if found is None:
            raise ValueError(f'"{url}" is not a valid URL')
        return cls.from_arn(unquote(found[0].removeprefix("/")))

    def arn(self) -> str:
        """Return the name among all stacks."""
        return f"arn:openstack:heat::{quote(self.tenant, '')}:{self._path()}"

    def _path(self) -> str:
        return f"stacks/{quote(self.stack_name, '')}/{quote(self.stack_id, '')}{quote(self.path)}"

    def arn_url_path(self) -> str:
        """Return that name as the path of a URL."""
        return f"/{quote(self.arn(), '')}"

    def url_path(self) -> str:
        """Return the path in Heat's API."""
        return f"{quote(self.tenant, '')}/{self._path()}"

    def stack_path(self) -> str:
        """Return the name and the id."""
        return f"{self.stack_name}/{self.stack_id}"

    def __getattr__(self, name: str) -> str:
        if name in self.FIELDS:
            return self.identity[name]
        raise AttributeError(name)

    def __getitem__(self, key: str) -> str:
        return self.identity[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.FIELDS)

    def __len__(self) -> int:
        return len(self.FIELDS)


class _ResourceIdentifier(_Identifier):
    """The identity of a resource."""

    def __init__(
        self,
        tenant: str,
        stack_name: str,
        stack_id: str,
        path: str,
        resource_name: str = "",
    ) -> None:
        if resource_name:
            path = f"{path.rstrip('/')}/resources/{quote(resource_name, '')}"
        super().__init__(tenant, stack_name, stack_id, path)

    @property
    def resource_name(self) -> str:
        """Return the name of the resource."""
        return unquote(self.path.rpartition("/")[2])

    def stack(self) -> _Identifier:
        """Return the identity of its stack."""
        return _Identifier(self.tenant, self.stack_name, self.stack_id)


HeatIdentifier = _Identifier


def _identifier() -> ModuleType:
    members = {"HeatIdentifier": _Identifier, "ResourceIdentifier": _ResourceIdentifier}
    return named("heat.common.identifier", **members)


class Duration:
    """A time limit, which begins when it is made."""

    def __init__(self, timeout: float = 0) -> None:
        """Take the seconds."""
        self._end = time.time() + timeout

    def expired(self) -> bool:
        """Return whether it is over."""
        return time.time() > self._end

    def endtime(self) -> float:
        """Return the time at which it is over."""
        return self._end


def _backoff(attempt: int, scale_factor: float = 1.0, jitter_max: float = 0.0) -> float:
    return float(2**attempt) * scale_factor + random.random() * jitter_max  # noqa: S311  # only spreads requests


def _isotime(at: datetime | None) -> str | None:
    return None if at is None else at.strftime("%Y-%m-%dT%H:%M:%SZ")


def _timeutils() -> ModuleType:
    return named(
        "heat.common.timeutils",
        Duration=Duration,
        parse_isoduration=rolling.pause_seconds,
        retry_backoff_delay=_backoff,
        isotime=_isotime,
        wallclock=time.time,
    )


def _are_networks_within(inner: list[str], outer: list[str]) -> bool:
    """Return whether all addresses of some networks belong to others."""

    def addresses(prefixes: list[str]) -> list[tuple[int, int, int]]:
        """Return the ranges of the networks, joined: version, first and last address."""
        joined: list[tuple[int, int, int]] = []
        networks = [ipaddress.ip_network(network, strict=False) for network in prefixes]
        for version, first, last in sorted(
            (
                network.version,
                int(network.network_address),
                int(network.broadcast_address),
            )
            for network in networks
        ):
            if joined and joined[-1][0] == version and first <= joined[-1][2] + 1:
                joined[-1] = (version, joined[-1][1], max(last, joined[-1][2]))
            else:
                joined.append((version, first, last))
        return joined

    ranges = addresses(outer)
    return all(
        any(
            other == version and start <= first and last <= end
            for other, start, end in ranges
        )
        for version, first, last in addresses(inner)
    )


def _log_failure(manager: object, entrypoint: object, error: BaseException) -> None:  # noqa: ARG001  # stevedore's
    logging.getLogger("heat.common.pluginutils").warning(
        "%s is not loaded: %s", entrypoint, error
    )


MODULES: dict[str, Callable[[], ModuleType]] = {
    "heat.common.config": settings.of_heat,
    "heat.common.environment_format": _environment_format,
    "heat.common.exception": exceptions.module,
    "heat.common.i18n": lambda: named(
        "heat.common.i18n",
        _ngettext=plural,
        _P=plural,
        repr_wrapper=same,
        **dict.fromkeys(("_", "_LE", "_LI", "_LW", "_LC"), same),
    ),
    "heat.common.identifier": _identifier,
    "heat.common.netutils": functools.partial(
        named, "heat.common.netutils", is_prefix_subset=_are_networks_within
    ),
    "heat.common.password_gen": lambda: password_gen,
    "heat.common.pluginutils": functools.partial(
        named, "heat.common.pluginutils", log_fail_msg=_log_failure
    ),
    "heat.common.short_id": functools.partial(
        named,
        "heat.common.short_id",
        generate_id=lambda: uuid.uuid4().hex[:12],
        get_id=lambda text: text.replace("-", "")[:12],
    ),
    "heat.common.template_format": _template_format,
    "heat.common.timeutils": _timeutils,
    "heat.common.urlfetch": _urlfetch,
}
"""The functions that make the modules, by the names of these."""
