"""The primitive types and their values (sections 3.2 and 5.3 of the specification).

`READERS` has a function for each type. It returns a value in a form that can be compared, and raises `ValueError` with
a part of a sentence, such as `must be text`, where the value is none of that type.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache
from typing import Any

from heat_config_agent.model.positions import Json
from heat_config_stack.tosca.language.text import written

UNBOUNDED = "UNBOUNDED"

_VERSION = re.compile(
    r"([0-9]+)\.([0-9]+)(?:\.([0-9]+)(?:\.([^\W\d_]\w*)(?:-([0-9]+))?)?)?"
)
_QUANTITY = re.compile(
    r"([0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]{1,3}(?=[^0-9]))?)\s*([A-Za-z]+)"
)
_DATE = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt]|[ \t]+|$)")
_MOMENT = re.compile(
    r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})"
    r"(?:(?:[Tt]|[ \t]+)([0-9]{1,2}):([0-9]{2}):([0-9]{2})(\.[0-9]*)?[ \t]*(Z|[-+][0-9]{1,2}(?::?[0-9]{2})?)?)?"
)
_LONGEST = 100
"""Characters of a number, version or quantity at most."""

UNITS = {
    "scalar-unit.size": {
        "b": 1,
        **{f"{letter}b": 1000**power for power, letter in enumerate("kmgt", 1)},
        **{f"{letter}ib": 1024**power for power, letter in enumerate("kmgt", 1)},
    },
    "scalar-unit.time": {
        "d": 86400,
        "h": 3600,
        "m": 60,
        "s": 1,
        "ms": Decimal("1e-3"),
        "us": Decimal("1e-6"),
        "ns": Decimal("1e-9"),
    },
    "scalar-unit.frequency": {"hz": 1, "khz": 1000, "mhz": 1000**2, "ghz": 1000**3},
    "scalar-unit.bitrate": {
        "bps": 1,
        **{f"{letter}bps": 1000**power for power, letter in enumerate("kmgt", 1)},
        **{f"{letter}ibps": 1024**power for power, letter in enumerate("kmgt", 1)},
    },
}
"""The factor of each unit, by the unit's name in lower case (section 3.2.6; 1.3 adds bit rates)."""

_SHOWN = {
    "scalar-unit.size": "B, kB, KiB, MB, MiB, GB, GiB, TB or TiB",
    "scalar-unit.time": "d, h, m, s, ms, us or ns",
    "scalar-unit.frequency": "Hz, kHz, MHz or GHz",
    "scalar-unit.bitrate": "bps, Kbps, Kibps, Mbps, Mibps, Gbps, Gibps, Tbps or Tibps",
}


def kind_of(value: Json) -> str:
    """Return the kind of a value as a message names it."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "a truth value"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "text"
    return "a list" if isinstance(value, list) else "a map"


def _string(value: Json) -> str:
    if value.__class__ is not str:
        raise ValueError(f"must be text, not {kind_of(value)}")
    return str(value)


def _integer(value: Json) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(  # noqa: TRY004
            f"must be a whole number, not {kind_of(value)}" + _quoted(value)
        )
    return int(value)


def _float(value: Json) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"must be a number, not {kind_of(value)}" + _quoted(value))  # noqa: TRY004
    return value


def _quoted(value: Json) -> str:
    return (
        " in quotes"
        if isinstance(value, str) and re.fullmatch(r"[-+]?[0-9.]{1,30}", value)
        else ""
    )


def _boolean(value: Json) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"must be true or false, not {kind_of(value)}")  # noqa: TRY004
    return value


def _timestamp(value: Json) -> Any:
    if not isinstance(value, str) or not _DATE.match(value):
        raise ValueError("must be a date, such as 2026-01-31 or 2026-01-31T12:00:00Z")
    return _moment(value)


def _moment(text: str) -> Any:
    """Return a number of seconds that orders timestamps; 0.0 where the text only begins like one."""
    import datetime as dt  # noqa: PLC0415  # few templates have timestamps

    match = _MOMENT.fullmatch(text)
    if match is None:
        return 0.0
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    try:
        day_ = dt.datetime(int(year), int(month), int(day), tzinfo=dt.timezone.utc)
        moment = day_.timestamp() + int(hour or 0) * 3600
        moment += int(minute or 0) * 60 + int(second or 0)
    except (ValueError, OverflowError):
        raise ValueError("must be a date that exists") from None
    if zone and zone != "Z":
        digits = (
            zone[1:].replace(":", "").rjust(4, "0")
            if len(zone) > 3
            else f"{int(zone[1:]):02}00"
        )
        minutes = int(digits[:2]) * 60 + int(digits[2:])
        moment += minutes * (60 if zone[0] == "-" else -60)
    if fraction and fraction != ".":
        moment += float(f"0{fraction}")
    return moment


def _null(value: Json) -> None:
    if value is not None:
        raise ValueError(f"must be null, not {kind_of(value)}")


def _list(value: Json) -> list[Json]:
    if not isinstance(value, list):
        raise ValueError(f"must be a list, not {kind_of(value)}")  # noqa: TRY004
    return value


def _map(value: Json) -> dict[str, Json]:
    if not isinstance(value, dict):
        raise ValueError(f"must be a map, not {kind_of(value)}")  # noqa: TRY004
    return value


def _version(value: Json) -> Any:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"must be a version, not {kind_of(value)}")  # noqa: TRY004
    return version(written(value))


@lru_cache(maxsize=1024)
def version(text: str) -> tuple[int, int, int, int, str, int]:
    """Return a version in a form that can be compared (section 3.2.2). Raises `ValueError`.

    A version with a qualifier is older than the same version without one.
    """
    if text == "0":
        return (0, 0, 0, 1, "", 0)
    match = _VERSION.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        raise ValueError("must be a version, such as 1.2, 1.2.3 or 1.2.3.beta-4")
    major, minor, fix, qualifier, build = match.groups()
    numbers = (int(major), int(minor), int(fix or 0))
    if qualifier and not any(numbers):
        raise ValueError("must be a version: a zero version has no qualifier")
    return (*numbers, 0 if qualifier else 1, qualifier or "", int(build or 0))


def _range(value: Json) -> tuple[int, float]:
    """Return both ends (section 3.2.3)."""
    if not isinstance(value, list) or len(value) != 2:
        raise ValueError("must be a range: a list of its two ends")
    lower, upper = value
    if isinstance(lower, bool) or not isinstance(lower, int):
        raise ValueError("must be a range that begins with a whole number")  # noqa: TRY004
    if upper == UNBOUNDED:
        return lower, float("inf")
    if isinstance(upper, bool) or not isinstance(upper, int):
        raise ValueError(  # noqa: TRY004
            f"must be a range that ends with a whole number or {UNBOUNDED}"
        )
    if upper < lower:
        raise ValueError("must be a range whose upper end is not below its lower end")
    return lower, upper


def _quantity(type_: str) -> Callable[[Json], Decimal]:
    def read(value: Json) -> Decimal:
        if not isinstance(value, str):
            problem = f"must be a number with a unit: {_SHOWN[type_]}"
            raise ValueError(problem)  # noqa: TRY004
        return quantity(type_, value)

    return read


@lru_cache(maxsize=4096)
def quantity(type_: str, text: str) -> Decimal:
    """Return the size, time, frequency or bit rate of a text as one number (section 3.2.6). Raises `ValueError`."""
    match = _QUANTITY.fullmatch(text.strip()) if len(text) <= _LONGEST else None
    if match is None:
        raise ValueError(f"must be a number with a unit: {_SHOWN[type_]}")
    number, unit = match.groups()
    factor = UNITS[type_].get(unit.lower())
    if factor is None:
        raise ValueError(f"must have one of the units {_SHOWN[type_]}")
    return Decimal(number) * Decimal(factor)


READERS: dict[str, Callable[[Json], Any]] = {
    "string": _string,
    "integer": _integer,
    "float": _float,
    "boolean": _boolean,
    "timestamp": _timestamp,
    "null": _null,
    "list": _list,
    "map": _map,
    "version": _version,
    "range": _range,
    **{name: _quantity(name) for name in UNITS},
}
"""The readers of the values of each primitive type."""


def json_problem(text: Json) -> str:
    """Return the problem with a value of the type json (section 5.3.2); nothing if there is none."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return "must be JSON"
    return ""


def xml_problem(text: Json) -> str:
    """Return the problem with a value of the type xml (section 5.3.3); nothing if there is none."""
    from xml.parsers import expat  # noqa: PLC0415  # few templates have such values

    parser = expat.ParserCreate()
    parser.EntityDeclHandler = _refuse
    try:
        parser.Parse(text, True)
    except (expat.ExpatError, ValueError):
        return "must be XML"
    return ""


def _refuse(*_: object) -> None:
    raise ValueError("entities are not expanded")
