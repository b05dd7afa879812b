"""Keeping secrets out of everything that is shown, logged or sent.

Secret are: the credentials and signed URLs with which Heat is spoken to, inputs that the document marks as hidden, and,
in what a tool printed, inputs whose name says that they are secret. The last may be what a declared output is about, so
outputs keep them.
"""

from __future__ import annotations

import functools
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from urllib.parse import parse_qsl, quote, quote_plus, urlsplit

from heat_config_agent.configuration import Setting
from heat_config_agent.model import STANDARD_OUTPUTS, Deployment, Input
from heat_config_hooks.protocol import CREDENTIALS
from heat_config_hooks.reply import STATUS, changed

MASK = "***"

_TELLING = (  # compiled by who first needs it, as the others are
    r"(?i)pass(wor[dt]|wd|phrase|code)|(?<![a-z])(pass|pwd)(?![a-z])|secret|token|credential"
    r"|(private|api|access|auth)_?key"
)
_SIGNATURE = r"(?i)signature$|_sig$|token|accesskeyid"
_SHORTEST_LINE = 8
"""Characters of a line that is hidden on its own: a key is printed line by line, and indented."""

_SHORTEST = 4
"""Characters of a value worth hiding: to mask every «a» would destroy the text and hide nothing."""


_PLAIN = r"[A-Za-z0-9_.~-]*"
"""What neither JSON nor a URL has to quote."""

_HEAD = 32
"""Characters at the beginning of a secret by which it is looked for."""

_HARMLESS = frozenset(
    {"deploy_action", "deploy_stack_id", "deploy_resource_name", "deploy_server_id", "deploy_signal_transport"}
)
"""Inputs that say which deployment it was: they stay when all others have gone."""


def is_secret(given: Input) -> bool:
    """Whether the value of an input is not to be shown."""
    return given.hidden or given.name in CREDENTIALS or bool(re.search(_TELLING, given.name))


def secrets(deployment: Deployment) -> list[bytes]:
    """Return all that `redactor` hides in what a tool has printed, as it stands in a file."""
    forms = _forms(each for each in deployment.inputs if is_secret(each))
    return [each.encode("utf-8", "surrogatepass") for each in forms]


def masked(document: Mapping[str, object]) -> dict[str, object]:
    """Return what may stay of a deployment's document: what names it, its inputs and its outputs, and no values.

    All else may hold secrets: a config into which the template has put them, options, and keys that nobody knows.
    """
    kept = {name: document[name] for name in ("id", "name", "group", "creation_time") if name in document}
    for field in ("inputs", "outputs"):
        items = document.get(field)
        kept[field] = [_named(each) for each in items if isinstance(each, dict)] if isinstance(items, list) else []
    return kept


def _named(item: Mapping[str, object]) -> dict[str, object]:
    found = {name: item[name] for name in ("name", "type", "error_output") if name in item}
    if "value" in item or "default" in item:
        known = item.get("name") in _HARMLESS and isinstance(item.get("value"), str)
        found["value"] = item["value"] if known else MASK
    return found


def redactor(deployment: Deployment) -> Callable[[str, str], str]:
    """Return what hides a deployment's secrets in a part of its result: (name of the part, text) → text."""
    outputs = {each.name for each in deployment.outputs} - STANDARD_OUTPUTS

    guessed = hider(each for each in deployment.inputs if is_secret(each))
    certain = hider(each for each in deployment.inputs if each.hidden or each.name in CREDENTIALS)

    def redact(name: str, text: str) -> str:
        if name == STATUS or not text:
            return text
        return certain(text) if name in outputs else guessed(text)

    return redact


def hider(secrets: Iterable[Input]) -> Callable[[str], str]:
    """Return what hides the values in a text. The forms of these are not made for texts too short to hold any."""
    given = list(secrets)

    @functools.cache
    def least() -> int:
        return min(map(len, _parts(given)), default=sys.maxsize)  # no form is shorter than what it is of

    @functools.cache
    def forms() -> list[str]:
        return _forms(given)

    return lambda text: text if len(text) < least() else _hidden(text, forms())


def beginning(deployment: Deployment) -> Callable[[str], int]:
    """Return what tells how many characters at the end of what a tool has printed so far may be half of a secret."""
    forms = _forms(each for each in deployment.inputs if is_secret(each))

    return lambda text: max((_begun(form, text) for form in forms), default=0)


def _begun(form: str, text: str) -> int:
    """Return how much of a secret, but not all of it, stands at the end of a text."""
    position, head = max(len(text) - len(form) + 1, 0), form[:_HEAD]
    while (position := text.find(head, position)) >= 0:  # it may be long: not each length is tried
        if form.startswith(text[position:]):
            return len(text) - position
        position += 1
    shorter = range(min(len(head), len(form) - 1, len(text)), 0, -1)
    return next((length for length in shorter if text.endswith(form[:length])), 0)


def concealer(deployment: Deployment) -> Callable[[object], object]:
    """Return what hides a deployment's secrets in a JSON value that is shown to people: in outputs and inputs, too."""
    guessed = hider(each for each in deployment.inputs if is_secret(each))
    return lambda value: changed(value, guessed)


def setting(row: Setting, value: object) -> object:
    """Return the value of a setting as it may be shown: of URLs neither the query nor who asks."""
    if row.name == "environment" and isinstance(value, tuple):
        return tuple(_pair(each) for each in value)
    if isinstance(value, str) and "url" in row.name:
        return url(value)
    return MASK if row.secret and value else value


def _pair(text: str) -> str:
    name, sign, value = text.partition("=")
    if not sign:
        return MASK
    return f"{name}={MASK if re.search(_TELLING, name) else url(value) if '://' in value else value}"


def url(text: str) -> str:
    """Return a URL without what is secret in it: its query, and user and password."""
    before, mark, rest = text.partition("://")
    place, slash, path = rest.partition("/") if mark else (before, "", "")
    user, at, host = place.rpartition("@")
    shown = f"{before}{mark}" if mark else ""
    shown += f"{MASK if user else ''}{at}{host}{slash}{path}"
    for sign in "?#":
        if sign in shown:
            shown = f"{shown.partition(sign)[0]}{sign}{MASK}"
    return shown


def settings(values: Iterable[tuple[Setting, object]]) -> Callable[[str], str]:
    """Return what hides secret settings, in whatever form, in a text."""
    forms: set[str] = set()
    for row, value in values:
        if not isinstance(value, str) or not value:
            continue
        parts = [value] if row.secret else []
        if "url" in row.name:
            try:
                split = urlsplit(value)
                parts += [split.query, split.password or "", *_signatures(value)]
            except ValueError:
                parts.append(value)
        forms.update(form for part in parts if len(part) >= _SHORTEST for form in _written(part))
    ordered = sorted(forms, key=len, reverse=True)
    return lambda text: _hidden(text, ordered)


def _hidden(text: str, forms: list[str]) -> str:
    for form in forms:
        text = text.replace(form, MASK)
    return text


def _forms(secrets: Iterable[Input]) -> list[str]:
    """Return the texts in which the values may appear, longest first so that none is hidden in part."""
    return sorted({form for part in _parts(secrets) for form in _written(part)}, key=len, reverse=True)


def _parts(secrets: Iterable[Input]) -> set[str]:
    """Return what is secret of the values: each as it is, its lines, and the signature in a URL."""
    parts: set[str] = set()
    for given in secrets:
        for value in _texts(given.value):
            parts.add(value)
            parts.update(line.strip() for line in value.splitlines() if len(line.strip()) >= _SHORTEST_LINE)
            parts.update(_signatures(value) if given.name == "deploy_signal_id" else ())
    return {each for each in parts if len(each) >= _SHORTEST}


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield json.dumps(value)


def _signatures(url: str) -> Iterator[str]:
    """Yield what makes a signed URL secret: its signature and key, decoded and as they stand in it."""
    query = url.partition("?")[2].partition("#")[0]
    for name, value in parse_qsl(query):
        if re.search(_SIGNATURE, name):
            yield value
    for pair in query.split("&"):
        name, _, value = pair.partition("=")
        if re.search(_SIGNATURE, name):
            yield value


def _written(value: str) -> Iterator[str]:
    import base64  # noqa: PLC0415  # only for those who have secrets

    yield value
    yield base64.b64encode(value.encode("utf-8", "surrogatepass")).decode().rstrip("=")
    if re.fullmatch(_PLAIN, value):
        return  # it is written like this wherever it stands
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    yield quote(value, safe="", errors="replace")
    yield quote(value, errors="replace")
    yield quote_plus(value, errors="replace")
