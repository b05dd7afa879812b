"""The parts of OpenStack's libraries that simple plug-ins use, for libraries that are not installed."""

from __future__ import annotations

import base64
import functools
import importlib.util
import inspect
import ipaddress
import json
import logging
import re
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime, timedelta, timezone
from types import ModuleType, SimpleNamespace
from typing import Any

from heat_config_stack.definition.constraints import TRUE
from heat_config_stack.plugins.facade import settings
from heat_config_stack.resource.resource import ExceptionFilter

PACKAGES = (
    "oslo",
    "oslo_config",
    "oslo_i18n",
    "oslo_log",
    "oslo_serialization",
    "oslo_utils",
)


def named(name: str, **members: Any) -> ModuleType:
    """Return a module with members."""
    module = ModuleType(name)
    module.__dict__.update(members)
    return module


def modules() -> dict[str, Callable[[], ModuleType]]:
    """Return the functions that make the modules of packages that are not installed, by the names of the modules."""
    missing = [
        package for package in PACKAGES if importlib.util.find_spec(package) is None
    ]
    made = {
        name: make
        for name, make in _MODULES.items()
        if name.partition(".")[0] in missing
    }
    if importlib.util.find_spec("oslo") is None:  # the names before 2015
        for name in _MODULES:
            made[name.replace("_", ".", 1)] = made.get(name) or functools.partial(
                importlib.import_module, name
            )
    return made


def _now() -> datetime:
    return datetime.now(timezone.utc)


def _utcnow(with_timezone: bool = False) -> datetime:
    return _now() if with_timezone else _now().replace(tzinfo=None)


def _normalized(time: datetime) -> datetime:
    return (
        time
        if time.tzinfo is None
        else time.astimezone(timezone.utc).replace(tzinfo=None)
    )


def _as_time(time: datetime | str) -> datetime:
    return _normalized(datetime.fromisoformat(time) if isinstance(time, str) else time)


def _timeutils() -> ModuleType:
    return named(
        "oslo_utils.timeutils",
        utcnow=_utcnow,
        utcnow_ts=lambda microsecond=False: (
            _now().timestamp() if microsecond else int(_now().timestamp())
        ),
        parse_isotime=datetime.fromisoformat,
        parse_strtime=lambda text, fmt="%Y-%m-%dT%H:%M:%S.%f": datetime.strptime(  # noqa: DTZ007  # as there
            text, fmt
        ),
        normalize_time=_normalized,
        is_older_than=lambda before, seconds: (
            _utcnow() - _as_time(before) > timedelta(seconds=seconds)
        ),
        is_newer_than=lambda after, seconds: (
            _as_time(after) - _utcnow() > timedelta(seconds=seconds)
        ),
        delta_seconds=lambda before, after: (after - before).total_seconds(),
    )


def _is_uuid(text: object) -> bool:
    try:
        return str(uuid.UUID(str(text))).replace("-", "") == str(text).lower().replace(
            "-", ""
        )
    except ValueError:
        return False


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


def _netutils() -> ModuleType:
    return named(
        "oslo_utils.netutils",
        is_valid_ip=lambda text: _is_address(text, (4, 6)),
        is_valid_ipv4=lambda text: _is_address(text, (4,)),
        is_valid_ipv6=lambda text: _is_address(text, (6,)),
        is_valid_cidr=lambda text: "/" in str(text) and _is_network(text, (4, 6)),
        is_valid_ipv6_cidr=lambda text: _is_network(text, (6,)),
        is_valid_mac=lambda text: (
            re.fullmatch(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}", str(text).lower()) is not None
        ),
    )


FALSE = frozenset(("0", "f", "false", "off", "n", "no"))


def _bool_from_string(
    text: object, strict: bool = False, default: bool = False
) -> bool:
    if isinstance(text, bool):
        return text
    word = str(text).strip().lower()
    if word in TRUE:
        return True
    if word in FALSE or not strict:
        return False if word in FALSE else default
    raise ValueError(f"Unrecognized value '{text}'")


def _masked(message: object, secret: str = "***") -> str:  # noqa: S107  # shown in place of one
    pattern = r"""((?:password|passwd|secret|token|auth_key)['"]?\s*[:=]\s*u?['"]?)([^'"\s,}]+)"""
    return re.sub(
        pattern, lambda found: found[1] + secret, str(message), flags=re.IGNORECASE
    )


def _strutils() -> ModuleType:
    return named(
        "oslo_utils.strutils", bool_from_string=_bool_from_string, mask_password=_masked
    )


def _decoded(
    text: str | bytes, incoming: str | None = None, errors: str = "strict"
) -> str:
    return text.decode(incoming or "utf-8", errors) if isinstance(text, bytes) else text


def _encoded(
    text: str | bytes,
    incoming: str | None = None,
    encoding: str = "utf-8",
    errors: str = "strict",
) -> bytes:
    return _decoded(text, incoming, errors).encode(encoding, errors)


def _encodeutils() -> ModuleType:
    return named(
        "oslo_utils.encodeutils",
        safe_decode=_decoded,
        safe_encode=_encoded,
        exception_to_unicode=str,
    )


def _class_name(
    of: Any, fully_qualified: bool = True, truncate_builtins: bool = True
) -> str:
    class_ = of if isinstance(of, type) else type(of)
    plain = not fully_qualified or (
        truncate_builtins and class_.__module__ == "builtins"
    )
    return (
        class_.__qualname__ if plain else f"{class_.__module__}.{class_.__qualname__}"
    )


def _callable_name(function: Any) -> str:
    return f"{function.__module__}.{getattr(function, '__qualname__', type(function).__qualname__)}"


def _reflection() -> ModuleType:
    return named(
        "oslo_utils.reflection",
        get_class_name=_class_name,
        get_callable_name=_callable_name,
        get_callable_args=lambda function, required_only=False: [
            name
            for name, each in inspect.signature(function).parameters.items()
            if not required_only or each.default is each.empty
        ],
    )


@contextmanager
def _reraising(
    reraise: bool = True,
    logger: object = None,  # noqa: ARG001  # a plug-in's
) -> Iterator[SimpleNamespace]:
    """Raise the exception that is being handled again at the end, unless the context's `reraise` is false by then."""
    handled = sys.exc_info()[1]
    context = SimpleNamespace(reraise=reraise)
    yield context
    if context.reraise and handled is not None:
        raise handled


def _excutils() -> ModuleType:
    members: dict[str, Callable[..., AbstractContextManager[Any]]] = {
        "exception_filter": ExceptionFilter
    }
    return named(
        "oslo_utils.excutils", save_and_reraise_exception=_reraising, **members
    )


def _class_of(path: str) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def _importutils() -> ModuleType:
    def try_import(name: str, default: Any = None) -> Any:
        try:
            return importlib.import_module(name)
        except ImportError:
            return default

    return named(
        "oslo_utils.importutils",
        import_module=importlib.import_module,
        try_import=try_import,
        import_class=_class_of,
        import_object=lambda path, *args, **values: _class_of(path)(*args, **values),
    )


def _jsonutils() -> ModuleType:
    def to_primitive(value: Any, **_: Any) -> Any:
        return json.loads(json.dumps(value, default=str))

    return named(
        "oslo_serialization.jsonutils",
        dumps=json.dumps,
        dump=json.dump,
        loads=lambda text, encoding="utf-8", **options: json.loads(
            _decoded(text, encoding), **options
        ),
        load=json.load,
        dump_as_bytes=lambda value, **options: json.dumps(value, **options).encode(),
        to_primitive=to_primitive,
    )


def _base64() -> ModuleType:
    return named(
        "oslo_serialization.base64",
        encode_as_bytes=lambda text, encoding="utf-8": base64.b64encode(
            _encoded(text, encoding=encoding)
        ),
        encode_as_text=lambda text, encoding="utf-8": base64.b64encode(
            _encoded(text, encoding=encoding)
        ).decode(),
        decode_as_bytes=lambda text, encoding="utf-8": base64.b64decode(
            _encoded(text, encoding=encoding)
        ),
        decode_as_text=lambda text, encoding="utf-8": base64.b64decode(
            _encoded(text)
        ).decode(encoding),
    )


def _units() -> ModuleType:
    small = {f"{name}i": 1024**power for power, name in enumerate("KMGTPE", 1)}
    return named(
        "oslo_utils.units",
        **small,
        **{name: 1000**power for power, name in enumerate("kMGTPE", 1)},
    )


class _Translators:
    """Translates nothing."""

    def __init__(self, *_: object, **_more: object) -> None:
        self.primary = self.log_info = self.log_warning = self.log_error = (
            self.log_critical
        ) = same
        self.plural_form, self.contextual_form = plural, lambda _context, text: text


def same(text: str) -> str:
    """Return a text untranslated."""
    return text


def plural(singular: str, plural: str, number: int) -> str:
    """Return the text for a number, untranslated."""
    return singular if number == 1 else plural


class _Logger(logging.LoggerAdapter):  # type: ignore[type-arg]  # generic only for type checkers
    """A logger with the names that Python no longer has."""

    def __init__(self, name: str) -> None:
        super().__init__(logging.getLogger(name), {})

    def warn(self, message: object, *values: object, **options: Any) -> None:  # type: ignore[override]
        self.warning(message, *values, **options)


def logger(name: str = "", *_: object) -> _Logger:
    """Return a logger."""
    return _Logger(name)


def _log() -> ModuleType:
    return named(
        "oslo_log.log",
        getLogger=logger,
        **{
            name: getattr(logging, name)
            for name in ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
        },
    )


_MODULES: dict[str, Callable[[], ModuleType]] = {
    **{
        package: lambda package=package: named(package, __path__=[])  # type: ignore[misc]
        for package in PACKAGES[1:]
    },
    "oslo_i18n": lambda: named(
        "oslo_i18n",
        __path__=[],
        TranslatorFactory=_Translators,
        translate=lambda text, *_: text,
    ),
    "oslo_config.cfg": settings.module,
    "oslo_log.log": _log,
    "oslo_serialization.base64": _base64,
    "oslo_serialization.jsonutils": _jsonutils,
    "oslo_utils.encodeutils": _encodeutils,
    "oslo_utils.excutils": _excutils,
    "oslo_utils.importutils": _importutils,
    "oslo_utils.netutils": _netutils,
    "oslo_utils.reflection": _reflection,
    "oslo_utils.strutils": _strutils,
    "oslo_utils.timeutils": _timeutils,
    "oslo_utils.units": _units,
    "oslo_utils.uuidutils": lambda: named(
        "oslo_utils.uuidutils",
        generate_uuid=lambda dashed=True: (
            str(uuid.uuid4()) if dashed else uuid.uuid4().hex
        ),
        is_uuid_like=_is_uuid,
    ),
}
"""The functions that make the modules, by the names of these."""
