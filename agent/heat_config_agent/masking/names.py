"""Names that mark a secret, and the parts of a URL that are secret."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from urllib.parse import parse_qsl

from heat_config_agent.masking import MASK

TYPE_CHECKING = False


if TYPE_CHECKING:
    from heat_config_agent.masking.secrets import Secrets


TELLING = (  # compiled when it is first used, as the others are
    r"(?i)pass(wor[dt]|wd|phrase|code)|(?<![a-z])(pass|pwd)(?![a-z])|secret|token|credential"
    r"|(private|api|access|auth)_?key"
)
_SIGNATURE = r"(?i)signature$|_sig$|token|accesskeyid"

SHORTEST = 4
"""The least number of characters of a value that is masked. Masking every «a» would only destroy the text."""


def url(text: str) -> str:
    """Return a URL with its secret parts masked: its query, its fragment, and the user and password."""
    before, mark, rest = text.partition("://")
    place, slash, path = rest.partition("/") if mark else (before, "", "")
    user, at, host = place.rpartition("@")
    shown = f"{before}{mark}" if mark else ""
    shown += f"{MASK if user else ''}{at}{host}{slash}{path}"
    for sign in "?#":
        if sign in shown:
            shown = f"{shown.partition(sign)[0]}{sign}{MASK}"
    return shown


@functools.lru_cache(maxsize=2)
def search_for(parts: frozenset[str]) -> Secrets:
    """Return the search for these secrets: prepared once for all texts of a deployment, because many take a moment."""
    from heat_config_agent.masking.secrets import Secrets  # noqa: PLC0415  # only where there are secrets

    return Secrets(parts)


def signatures(url: str) -> Iterator[str]:
    """Yield the secrets in a signed URL: its signature and access key, both decoded and as the URL has them."""
    query = url.partition("?")[2].partition("#")[0]
    for name, value in parse_qsl(query):
        if re.search(_SIGNATURE, name):
            yield value
    for pair in query.split("&"):
        name, _, value = pair.partition("=")
        if re.search(_SIGNATURE, name):
            yield value
