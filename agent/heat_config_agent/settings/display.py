"""Shows settings without secrets."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from urllib.parse import urlsplit

from heat_config_agent.masking import MASK
from heat_config_agent.masking.names import (
    SHORTEST,
    TELLING,
    search_for,
    signatures,
    url,
)
from heat_config_agent.settings.kinds import Setting


def setting(row: Setting, value: object) -> object:
    """Return the value of a setting for people: secrets are masked, and so are the query and the user of a URL."""
    if row.name in ("environment", "parameters") and isinstance(value, tuple):
        return tuple(_pair(pair, secret=row.name == "parameters") for pair in value)
    if isinstance(value, str) and "url" in row.name:
        return url(value)
    return MASK if row.secret and value else value


def _pair(text: str, *, secret: bool) -> str:
    """Return NAME=VALUE for people. Any parameter may be one that its template hides, so its value is `secret`."""
    name, sign, value = text.partition("=")
    if not sign:
        return MASK
    if secret:
        return f"{name}={MASK}"
    return f"{name}={MASK if re.search(TELLING, name) else url(value) if '://' in value else value}"


def settings(values: Iterable[tuple[Setting, object]]) -> Callable[[str], str]:
    """Return a function that masks the secrets among these settings in a text, in every form."""
    parts: set[str] = set()
    for row, value in values:
        if not isinstance(value, str) or not value:
            continue
        if row.secret:
            parts.add(value)
        if "url" in row.name:
            try:
                split = urlsplit(value)
                parts.update([split.query, split.password or "", *signatures(value)])
            except ValueError:
                parts.add(value)
    known = frozenset(part for part in parts if len(part) >= SHORTEST)
    return lambda text: search_for(known).hide(text)
