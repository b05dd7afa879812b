"""The custom constraints of Heat that need no cloud, and those of plug-ins.

Constraints of cloud services (`nova.flavor`, `glance.image`, …) accept any value: there is no cloud to ask.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import json
import re
from collections.abc import Callable
from typing import Any

SERVICES = frozenset(
    [
        "aodh",
        "barbican",
        "blazar",
        "cinder",
        "designate",
        "glance",
        "heat",
        "ironic",
        "keystone",
        "magnum",
        "manila",
        "mistral",
        "monasca",
        "neutron",
        "nova",
        "octavia",
        "sahara",
        "senlin",
        "swift",
        "trove",
        "vitrage",
        "zaqar",
        "zun",
    ]
)
"""The prefixes of constraints that only a cloud can check."""


OF_PLUGINS: dict[str, Callable[[Any], str]] = {}
"""The checks of plug-ins by the names of their constraints: each returns the problem of a value, or an empty text."""


def violated(name: str, value: Any) -> str:
    """Return why a value does not meet a named constraint, or an empty text."""
    if name in OF_PLUGINS:
        return OF_PLUGINS[name](value)
    check = _CHECKS.get(name)
    if check is None:
        known = name.partition(".")[0] in SERVICES and "." in name
        return (
            ""
            if known
            else f'"{value}" does not validate {name} (constraint not found)'
        )
    if name not in _ANY and not isinstance(value, str):
        value = str(value)
    problem = check(value)
    return f"Error validating value {value!r}: {problem}" if problem else ""


def _ip(value: str) -> str:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return "Invalid IP address"
    return "Invalid IP address: it has a zone" if "%" in value else ""


def _cidr(value: str) -> str:
    try:
        ipaddress.ip_interface(value)
    except ValueError:
        return f"Invalid net cidr {value}"
    return (
        ""
        if re.search(r"/(0|[1-9]\d*)$", value)
        else f"{value} is not a valid IP subnet: it has no /PREFIX"
    )


def _ip_or_cidr(value: str) -> str:
    if "/" in value:
        return f"{value!r} is not a valid IP subnet" if _cidr(value) else ""
    return f"{value!r} is not a valid IP address" if _ip(value) else ""


_MACS = (
    r"[0-9a-f]{1,2}(:[0-9a-f]{1,2}){5}",
    r"[0-9a-f]{1,2}(-[0-9a-f]{1,2}){5}",
    r"[0-9a-f]{1,4}(\.[0-9a-f]{1,4}){2}",
    r"[0-9a-f]{1,4}(:[0-9a-f]{1,4}){2}",
    r"[0-9a-f]{5,6}[:-][0-9a-f]{5,6}",
    r"[0-9a-f]{11,12}",
)


def _mac(value: str) -> str:
    return (
        ""
        if any(re.fullmatch(each, value, re.IGNORECASE) for each in _MACS)
        else "Invalid MAC address."
    )


def _dns_name(value: str) -> str:
    if not value:
        return ""
    if len(value.removesuffix(".")) > 255:
        return "it exceeds the 255 character FQDN limit"
    names = value.removesuffix(".").split(".")
    for name in names:
        if not name:
            return "it has an empty component"
        if name.startswith("-") or name.endswith("-"):
            return f"'{name}' must not start or end with a hyphen"
        if not re.fullmatch("[a-z0-9-]{1,63}", name):
            return (
                f"'{name}' must be 1-63 characters long, "
                "each of which can only be lower-case alphanumeric or a hyphen"
            )
    if value.endswith(".") and len(names) > 1 and names[-1].isdigit():
        return f"the TLD '{names[-1]}' must not be all numeric"
    return ""


def _rel_dns_name(value: str) -> str:
    if value.endswith("."):
        return "it is a FQDN, and should be a relative domain name"
    if len(value) > 252:
        return "with a domain name it would exceed the 255 character FQDN limit"
    return _dns_name(value)


def _dns_domain(value: str) -> str:
    return _dns_name(value) or (
        "it must end with '.'" if value and not value.endswith(".") else ""
    )


_TIME = re.compile(
    r"(\d{4})(?:-?(\d\d?)(?:-?(\d\d?)(?:[ T](\d\d?)(?::?(\d\d?)(?::?(\d\d?)(?:[.,]\d+)?)?)?"
    r"(Z|[+-]\d\d(?::?\d\d)?)?)?)?)?"
)


def _time(value: str) -> dt.datetime:
    """Return a time in UTC. Raises ValueError."""
    match = _TIME.fullmatch(value)
    if not match:
        raise ValueError("it is not a time in ISO 8601")
    year, month, day, hour, minute, second = (
        int(each) if each else None for each in match.groups()[:6]
    )
    time = dt.datetime(
        year or 0,
        month or 1,
        day or 1,
        hour or 0,
        minute or 0,
        second or 0,
        tzinfo=dt.timezone.utc,
    )
    zone = match[7]
    if zone and zone != "Z":
        digits = zone[1:].replace(":", "").ljust(4, "0")
        away = dt.timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
        time = time - away if zone[0] == "+" else time + away
    return time


def _iso_8601(value: str) -> str:
    try:
        _time(value)
    except (ValueError, OverflowError):
        return "it is not a time in ISO 8601"
    return ""


def _expiration(value: str) -> str:
    if not value:
        return ""
    try:
        over = _time(value.strip()) <= dt.datetime.now(dt.timezone.utc)
    except (ValueError, OverflowError):
        return "it is not a time in ISO 8601"
    return "Expiration time is out of date." if over else ""


def _timezone(value: str) -> str:
    import zoneinfo  # noqa: PLC0415  # few templates name a time zone

    try:
        if value:
            zoneinfo.ZoneInfo(value)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return f"Invalid timezone: there is none of the name {value}"
    return ""


_MONTHS = [
    "jan",
    "feb",
    "mar",
    "apr",
    "may",
    "jun",
    "jul",
    "aug",
    "sep",
    "oct",
    "nov",
    "dec",
]
_DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_FIELDS: tuple[tuple[str, int, int, list[str]], ...] = (
    ("minute", 0, 59, []),
    ("hour", 0, 23, []),
    ("day", 1, 31, []),
    ("month", 1, 12, ["", *_MONTHS]),
    ("day of the week", 0, 7, _DAYS),
    ("second", 0, 59, []),
    ("year", 1970, 2099, []),
)
_PART = re.compile(
    r"(?:\*|r(?:\(\d+-\d+\))?|(\w+)(?:-(\w+))?)(?:/([1-9]\d*))?(?:#[1-5])?",
    re.IGNORECASE,
)
_NAMED = {
    "@midnight",
    "@hourly",
    "@daily",
    "@weekly",
    "@monthly",
    "@yearly",
    "@annually",
}
_LAST = {"day": re.compile(r"l|last|\?"), "day of the week": re.compile(r"l[0-7]|\?")}


def _cron(value: str) -> str:
    if not value or value.lower() in _NAMED:
        return ""
    fields = value.split()
    if not 5 <= len(fields) <= 7:
        return "Invalid CRON expression: it must have 5, 6 or 7 columns"
    for text, (field, least, most, names) in zip(fields, _FIELDS, strict=False):
        for part in text.lower().split(","):
            if field in _LAST and _LAST[field].fullmatch(part):
                continue
            match = _PART.fullmatch(part)
            bounds = (
                [_cron_number(bound, names) for bound in match.groups()[:2] if bound]
                if match
                else [-1]
            )
            if not all(least <= bound <= most for bound in bounds):
                return f"Invalid CRON expression: [{text}] is not acceptable for the {field}"
    return ""


def _cron_number(text: str, names: list[str]) -> int:
    if text.isdigit():
        return int(text)
    return names.index(text.lower()) if text.lower() in names else -1


def _json_string(value: str) -> str:
    try:
        if value:
            json.loads(value)
    except (ValueError, RecursionError) as error:
        return f"JSON string {value} is invalid: {error}"
    return ""


def _anything(_value: object) -> str:
    return ""


_ANY = {"test_constr"}
_CHECKS: dict[str, Callable[[Any], str]] = {
    "cron_expression": _cron,
    "dns_domain": _dns_domain,
    "dns_name": _dns_name,
    "expiration": _expiration,
    "ip_addr": _ip,
    "ip_or_cidr": _ip_or_cidr,
    "iso_8601": _iso_8601,
    "json_string": _json_string,
    "mac_addr": _mac,
    "net_cidr": _cidr,
    "rel_dns_name": _rel_dns_name,
    "test_constr": _anything,
    "timezone": _timezone,
}
