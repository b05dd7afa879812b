"""Our own modules under Heat's names, for plug-ins that import Heat where Heat is not installed.

    from heat.common.i18n import _
    from heat.engine import attributes, constraints, function, properties, resource, support, translation
    from heat.engine import rsrc_defn, software_config_io
    from heat.engine.clients import client_exception, progress
    from heat.engine.hot import parameters
    from heat.rpc import api

The names exist only while an import of a plug-in runs; a plug-in keeps the modules that it has imported. A plug-in that
imports anything else of Heat is skipped: that needs Heat's own engine, or a cloud.
"""

from __future__ import annotations

import functools
import importlib.util
import ipaddress
import json
import logging
import re
import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from types import ModuleType, SimpleNamespace
from typing import Any

import yaml

from heat_config_agent.stack import (
    attributes,
    config_service,
    constraints,
    exception,
    password_gen,
    progress,
    properties,
    resource,
    snippet,
    support,
    translation,
)
from heat_config_agent.stack.definition.constraints import TRUE

_LOCK = threading.RLock()

PACKAGES = frozenset({"heat", "oslo_config", "oslo_log", "oslo_utils", "oslo_serialization"})
"""The packages that have names here."""

SETTINGS = {
    "default_software_config_transport": "POLL_SERVER_CFN",
    "default_user_data_format": "HEAT_CFNTOOLS",
    "max_server_name_length": 53,
    "stack_scheduler_hints": False,
}
"""The settings of Heat that its resources read while they are loaded, with Heat's defaults."""


_RPC = {
    f"SOFTWARE_CONFIG_{name.upper()}": name
    for name in ("id", "name", "group", "config", "inputs", "outputs", "options", "creation_time", "project")
}
"""The keys of a config, under the names of Heat's RPC."""

_KEYS_OF_INPUTS = ("description", "type", "default", "replace_on_change", "value", "error_output")
_TYPES_OF_INPUTS = dict(zip(("STRING", "NUMBER", "LIST", "JSON", "BOOLEAN"), config_service.DEFAULTS, strict=True))

_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def _named(name: str, **members: Any) -> ModuleType:
    module = ModuleType(name)
    module.__dict__.update(members)
    return module


def _same(text: str) -> str:
    return text


def _plural(singular: str, plural: str, number: int) -> str:
    return singular if number == 1 else plural


@functools.cache
def _modules() -> dict[str, ModuleType]:
    """Return the modules that stand for Heat, and for the parts of OpenStack's libraries that are not installed."""
    engine = {
        "attributes": attributes,
        "constraints": _named("heat.engine.constraints", **{**vars(constraints), "Schema": properties.Schema}),
        "function": _named("heat.engine.function", resolve=_resolved),
        "properties": properties,
        "resource": resource,
        "rsrc_defn": _named("heat.engine.rsrc_defn", ResourceDefinition=snippet.Snippet),
        "software_config_io": _of_configs(),
        "support": support,
        "translation": translation,
    }
    common = {
        "exception": exception,
        "netutils": _named("heat.common.netutils", is_prefix_subset=_are_networks_within),
        "i18n": _named("heat.common.i18n", _=_same, _LE=_same, _LI=_same, _LW=_same, _ngettext=_plural),
        "password_gen": password_gen,
        "short_id": _named("heat.common.short_id", generate_id=lambda: uuid.uuid4().hex[:12]),
        "template_format": _named("heat.common.template_format", yaml=yaml, yaml_dumper=_DUMPER),
    }
    rpc = {"api": _named("heat.rpc.api", **_RPC)}
    modules = {
        "heat": _named("heat", __path__=[]),
        "heat.engine": _named("heat.engine", __path__=[], **engine),
        "heat.common": _named("heat.common", __path__=[], **common),
        **{f"heat.engine.{name}": module for name, module in engine.items()},
        **{f"heat.common.{name}": module for name, module in common.items()},
        "heat.rpc": _named("heat.rpc", __path__=[], **rpc),
        **{f"heat.rpc.{name}": module for name, module in rpc.items()},
    }
    clients = {"client_exception": _client_exceptions(), "progress": progress}
    modules["heat.engine.clients"] = _named("heat.engine.clients", __path__=[], **clients)
    modules |= {f"heat.engine.clients.{name}": module for name, module in clients.items()}
    parameters = _named("heat.engine.hot.parameters", HOTParamSchema=_ParameterSchema)
    hot = _named("heat.engine.hot", __path__=[], parameters=parameters)
    modules |= {"heat.engine.hot": hot, "heat.engine.hot.parameters": parameters}
    modules["heat.engine"].__dict__.update(hot=hot)
    modules["heat"].__dict__.update({name: modules[f"heat.{name}"] for name in ("engine", "common", "rpc")})
    for package, members in _libraries().items():
        if importlib.util.find_spec(package) is None:
            modules[package] = _named(package, __path__=[], **members)
            modules |= {f"{package}.{name}": module for name, module in members.items()}
    return modules


def _libraries() -> dict[str, dict[str, ModuleType]]:
    """Return the parts of OpenStack's libraries that simple plug-ins use, with the standard library behind them."""
    times = _named(
        "oslo_utils.timeutils",
        utcnow=lambda with_timezone=False: _now() if with_timezone else _now().replace(tzinfo=None),
        utcnow_ts=lambda microsecond=False: _now().timestamp() if microsecond else int(_now().timestamp()),
        parse_isotime=datetime.fromisoformat,
        delta_seconds=lambda before, after: (after - before).total_seconds(),
    )
    ids = _named("oslo_utils.uuidutils", generate_uuid=lambda: str(uuid.uuid4()), is_uuid_like=_is_uuid)
    networks = _named(
        "oslo_utils.netutils",
        is_valid_ip=lambda text: _is_address(text, (4, 6)),
        is_valid_ipv4=lambda text: _is_address(text, (4,)),
        is_valid_ipv6=lambda text: _is_address(text, (6,)),
        is_valid_cidr=lambda text: "/" in str(text) and _is_network(text, (4, 6)),
        is_valid_ipv6_cidr=lambda text: _is_network(text, (6,)),
        is_valid_mac=lambda text: re.fullmatch(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}", str(text).lower()) is not None,
    )
    texts = _named("oslo_utils.strutils", bool_from_string=lambda text: str(text).strip().lower() in TRUE)
    json_ = _named("oslo_serialization.jsonutils", dumps=json.dumps, loads=json.loads)
    settings = SimpleNamespace(import_opt=lambda *_names, **_group: None, **SETTINGS)
    return {
        "oslo_config": {"cfg": _named("oslo_config.cfg", CONF=settings)},
        "oslo_log": {"log": _named("oslo_log.log", getLogger=logging.getLogger)},
        "oslo_serialization": {"jsonutils": json_},
        "oslo_utils": {
            "excutils": _named("oslo_utils.excutils", save_and_reraise_exception=_reraising),
            "netutils": networks,
            "strutils": texts,
            "timeutils": times,
            "uuidutils": ids,
        },
    }


def _of_configs() -> ModuleType:
    """Return the module with the schemas of the inputs and outputs of configs."""
    types = {f"{name}_TYPE": type_ for name, type_ in _TYPES_OF_INPUTS.items()}
    keys = {"IO_NAME": "name", **{key.upper(): key for key in _KEYS_OF_INPUTS}}
    return _named(
        "heat.engine.software_config_io",
        input_config_schema=config_service.INPUT,
        output_config_schema=config_service.OUTPUT,
        TYPES=tuple(types.values()),
        **types,
        **keys,
    )


def _client_exceptions() -> ModuleType:
    """Return the exceptions with which Heat's clients say that a search has found nothing, or more than one."""
    none = type("EntityMatchNotFound", (exception.HeatException,), {"msg_fmt": "No %(entity)s matching %(args)s."})
    several = type(
        "EntityUniqueMatchNotFound",
        (none,),
        {"msg_fmt": "No %(entity)s unique match found for %(args)s."},
    )
    members = {"EntityMatchNotFound": none, "EntityUniqueMatchNotFound": several}
    return _named("heat.engine.clients.client_exception", **members)


def _are_networks_within(inner: list[str], outer: list[str]) -> bool:
    """Return whether all addresses of some networks belong to others."""

    def addresses(prefixes: list[str]) -> list[tuple[int, int, int]]:
        """Return the ranges of the networks, joined: version, first and last address."""
        joined: list[tuple[int, int, int]] = []
        networks = [ipaddress.ip_network(network, strict=False) for network in prefixes]
        for version, first, last in sorted(
            (network.version, int(network.network_address), int(network.broadcast_address)) for network in networks
        ):
            if joined and joined[-1][0] == version and first <= joined[-1][2] + 1:
                joined[-1] = (version, joined[-1][1], max(last, joined[-1][2]))
            else:
                joined.append((version, first, last))
        return joined

    ranges = addresses(outer)
    return all(
        any(other == version and start <= first and last <= end for other, start, end in ranges)
        for version, first, last in addresses(inner)
    )


def _now() -> datetime:
    return datetime.now(timezone.utc)


def _is_address(text: object, versions: tuple[int, ...]) -> bool:
    try:
        return ipaddress.ip_address(str(text)).version in versions
    except ValueError:
        return False


def _is_network(text: object, versions: tuple[int, ...]) -> bool:
    try:
        return ipaddress.ip_network(str(text), strict=False).version in versions
    except ValueError:
        return False


@contextmanager
def _reraising(reraise: bool = True, logger: object = None) -> Iterator[SimpleNamespace]:  # noqa: ARG001  # a plug-in's
    """Raise the exception that is being handled again at the end, unless the context's `reraise` is false by then."""
    handled = sys.exc_info()[1]
    context = SimpleNamespace(reraise=reraise)
    yield context
    if context.reraise and handled is not None:
        raise handled


def _resolved(value: Any, nullable: bool = False) -> Any:
    """Return a value of a template, which has no functions left when handlers see it; an empty one for null."""
    return value if value is not None or nullable else {}


class _ParameterSchema:
    """The types of parameters, under the names that plug-ins use."""

    TYPES = (STRING, NUMBER, LIST, MAP, BOOLEAN) = ("string", "number", "comma_delimited_list", "json", "boolean")
    PARAMETER_KEYS = ("type", "default", "description", "constraints", "hidden", "label", "immutable", "tags")


def _is_uuid(text: object) -> bool:
    try:
        return str(uuid.UUID(str(text))).replace("-", "") == str(text).lower().replace("-", "")
    except ValueError:
        return False


@contextmanager
def heat() -> Iterator[None]:
    """Make Heat's names lead to our modules, even if Heat is installed: its resources work only in its own engine."""
    with _LOCK:
        ours = _modules()
        hidden = {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] == "heat"}
        sys.modules.update(ours)
        try:
            yield
        finally:
            for name in [name for name in sys.modules if name in ours or name.partition(".")[0] == "heat"]:
                del sys.modules[name]
            sys.modules.update(hidden)
