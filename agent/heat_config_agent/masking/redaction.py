"""Keeps secrets out of everything that is shown, logged or sent.

The secrets are the credentials and signed URLs for Heat, and inputs that the document marks as hidden. In the output of
a tool, inputs whose name tells that they are secret are masked too. Declared outputs keep those, because such a value
may be the very purpose of an output.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from heat_config_agent.masking import MASK
from heat_config_agent.masking.names import SHORTEST, TELLING, search_for, signatures
from heat_config_agent.model.deployment import (
    STANDARD_OUTPUTS,
    Deployment,
    Input,
    reference_in,
)
from heat_config_hooks.protocol import CREDENTIALS
from heat_config_hooks.reply import STATUS, changed

TYPE_CHECKING = False


if TYPE_CHECKING:
    from typing import Any

    from heat_config_agent.masking.secrets import Secrets


BESIDE = "secrets"
"""The key of an entry under which a stack of this machine lists the secret texts in it. Declared outputs keep them, as
they keep inputs that only their name marks as secret: another resource may need them."""

_LONG_WORD = 16
"""The length from which a secret of letters alone does not occur in other text by chance."""

_MIXED = 6
"""The length from which a secret of letters and digits does not occur in other text by chance."""

_SHORTEST_LINE = 8
"""The least number of characters of a line that is masked on its own: a key may be printed line by line, indented."""

_HARMLESS = frozenset(
    {
        "deploy_action",
        "deploy_stack_id",
        "deploy_resource_name",
        "deploy_server_id",
        "deploy_signal_transport",
    }
)
"""Inputs that identify the deployment: they stay when the values of all others are removed."""


def is_secret(item: Input) -> bool:
    """Return True if the value of an input must not be shown. A reference to a secret may be, and the secret not."""
    if item.references and reference_in(item.value):
        return False
    return (
        item.hidden or item.name in CREDENTIALS or bool(re.search(TELLING, item.name))
    )


def secrets(deployment: Deployment) -> Secrets:
    """Return the search for all secrets that `redactor` masks in the output of a tool."""
    return search(secret_inputs(deployment))


def secret_inputs(deployment: Deployment) -> list[Input]:
    """Return the inputs that are masked in the output of a tool, including those that only their name marks."""
    beside = deployment.document.get(BESIDE)
    return [
        *(item for item in deployment.inputs if is_secret(item)),
        *([Input(name=BESIDE, value=beside)] if isinstance(beside, list) else ()),
    ]


def _surely_meant(document: Mapping[str, object], name: str = "") -> list[Input]:
    """Return the secret texts that a stack lists in a document, without those that may be in other text by chance.

    Names, and values that other resources get, keep those; a `name` that is such a text as a whole does not.
    """
    beside = document.get(BESIDE)
    listed = _texts(beside) if isinstance(beside, list) else ()
    texts = [text for text in listed if is_distinctive(text) or text.strip() == name]
    return [Input(name=BESIDE, value=texts)] if texts else []


def name_of(
    deployment: Deployment, name: str, *, only_distinctive: bool = False
) -> str:
    """Return a name in a deployment (its own, that of its tool or user) with the secrets in it masked.

    With `only_distinctive`, a secret that a stack lists stays where it may be in a name by chance.
    Only secrets that the name is long enough for are searched for, so that most names take no time.
    """
    inputs = [
        item
        for item in deployment.inputs
        if item.name not in CREDENTIALS and _fits(item.value, name)
    ]
    secret = [item for item in inputs if is_secret(item)]
    if only_distinctive:
        secret += _surely_meant(deployment.document, name)
    elif isinstance(beside := deployment.document.get(BESIDE), list):
        secret += [
            Input(name=BESIDE, value=text) for text in beside if _fits(text, name)
        ]
    return Concealer(secret).text(name) if secret else name


def _fits(value: object, name: str) -> bool:
    """Return False if a secret value, or a line of it, is certainly too long to be a part of a name."""
    return (
        not isinstance(value, str)
        or len(value) <= len(name) + 2
        or "\n" in value
        or value != value.strip()
    )


def masked(document: Mapping[str, object]) -> dict[str, object]:
    """Return the part of a deployment's document that may be kept: its names, its inputs and outputs, and no values.

    Everything else may contain secrets: the config, into which a template may have put them, options and unknown keys.
    """
    kept = {
        name: document[name]
        for name in ("id", "name", "group", "creation_time")
        if name in document
    }
    for field in ("inputs", "outputs"):
        items = document.get(field)
        known = (
            [item for item in items if isinstance(item, dict)]
            if isinstance(items, list)
            else []
        )
        kept[field] = [_masked_item(item) for item in known]
    conceal = _search_in(document)
    return {
        name: value if name == "id" else conceal(value) for name, value in kept.items()
    }


def _search_in(document: Mapping[str, object]) -> Concealer:
    """Return a concealer of the secrets in a deployment's document, to be used for the names in it."""
    items = document.get("inputs")
    inputs = [
        Input(
            name=str(item.get("name")),
            value=item.get("value", item.get("default")),
            hidden=bool(_hidden(item)),
        )
        for item in (items if isinstance(items, list) else [])
        if isinstance(item, dict) and item.get("value", item.get("default")) != MASK
    ]
    named = [
        item for item in inputs if item.name not in CREDENTIALS and is_secret(item)
    ]
    return Concealer([*named, *_surely_meant(document)])


def _hidden(item: Mapping[str, object]) -> bool:
    return item.get("hidden") is True or item.get("no_echo") is True


def _masked_item(item: Mapping[str, object]) -> dict[str, object]:
    kept = {
        name: item[name] for name in ("name", "type", "error_output") if name in item
    }
    if "value" in item or "default" in item:
        harmless = item.get("name") in _HARMLESS and isinstance(item.get("value"), str)
        kept["value"] = item["value"] if harmless else MASK
    return kept


def redactor(deployment: Deployment) -> Callable[[str, str], str]:
    """Return a function that masks a deployment's secrets in one part of its result: (name of it, text) → text."""
    outputs = {output.name for output in deployment.outputs} - STANDARD_OUTPUTS

    guessed = Concealer(
        [
            *(item for item in deployment.inputs if is_secret(item)),
            *_surely_meant(deployment.document),
        ]
    )
    certain = Concealer(
        item for item in deployment.inputs if item.hidden or item.name in CREDENTIALS
    )

    def redact(name: str, text: str) -> str:
        if name == STATUS or not text:
            return text
        return certain.text(text) if name in outputs else guessed.text(text)

    return redact


class Concealer:
    """Masks secrets in text for people. Every function that shows something takes one, so that none is forgotten."""

    __slots__ = ("_distinctive", "_inputs", "_least", "_secrets")

    def __init__(self, inputs: Iterable[Input]) -> None:
        """Mask the values of these inputs. The search is prepared for the first text that could contain a secret."""
        self._inputs = tuple(inputs)
        self._least: int | None = None
        self._secrets: Secrets | None = None
        self._distinctive: Concealer | None = None

    def text(self, text: str) -> str:
        """Return a text with the secrets masked."""
        if self._least is None:
            self._least = min(map(len, _parts(self._inputs)), default=0)
        if not self._least or len(text) < self._least:
            # no form of a secret is shorter than the secret
            return text
        if self._secrets is None:
            self._secrets = search(self._inputs)
        return self._secrets.hide(text)

    def __call__(self, value: object) -> Any:
        """Return a JSON value with the secrets masked in its texts, keys and numbers."""
        return changed(value, self.text) if self._inputs else value

    @property
    def distinctive(self) -> Concealer:
        """Masks only the secrets that do not occur in other text by chance: see `is_distinctive`."""
        if self._distinctive is None:
            texts = [
                (
                    item.name,
                    [text for text in _texts(item.value) if is_distinctive(text)],
                )
                for item in self._inputs
            ]
            self._distinctive = Concealer(
                Input(name=name, value=kept, hidden=True)
                for name, kept in texts
                if kept
            )
        return self._distinctive

    def whole(self, value: object, mask: str = MASK) -> Any:
        """Return a JSON value in which each value that is a secret as a whole is masked; all others are unchanged."""
        secret = {text.strip() for item in self._inputs for text in _texts(item.value)}
        return (
            _whole(value, {text for text in secret if len(text) >= SHORTEST}, mask)
            if secret
            else value
        )

    def finds(self, value: object) -> bool:
        """Return True if a JSON value contains any of the secrets."""
        return bool(self(value) != value)

    def also(self, other: Concealer) -> Concealer:
        """Return a concealer that masks the secrets of both."""
        more = [item for item in other._inputs if item not in self._inputs]
        return Concealer([*self._inputs, *more]) if more else self

    def within(self, value: object) -> list[object]:
        """Return the secrets that a JSON value contains."""
        return [item.value for item in self._inputs if Concealer([item]).finds(value)]


def is_distinctive(text: str) -> bool:
    """Return True if a secret is surely meant where a text contains it: it is long, and not a plain word or number.

    Masking a short or common value inside other text would hide little, and would destroy that text.
    """
    text = text.strip()
    if len(text) >= _LONG_WORD or (len(text) >= _SHORTEST_LINE and not text.isalpha()):
        return True
    return (
        len(text) >= _MIXED
        and any(map(str.isalpha, text))
        and any(map(str.isdigit, text))
    )


def _whole(value: object, secret: set[str], mask: str) -> object:
    if isinstance(value, dict):
        return {key: _whole(inner, secret, mask) for key, inner in value.items()}
    if isinstance(value, list):
        return [_whole(inner, secret, mask) for inner in value]
    return mask if any(text.strip() in secret for text in _texts(value)) else value


OPEN = Concealer(())
"""Masks nothing: for messages from before the inputs are known."""


def beginning(deployment: Deployment) -> Callable[[str], int]:
    """Return a function that tells how many characters at the end of a tool's output may be half of a secret."""
    return secrets(deployment).begun


def concealer(deployment: Deployment) -> Concealer:
    """Return a concealer of a deployment's secrets, for JSON values that people see: also for inputs and outputs."""
    return Concealer(secret_inputs(deployment))


def search(inputs: Iterable[Input]) -> Secrets:
    """Return the search for the values of inputs with any name."""
    return search_for(frozenset(_parts(inputs)))


def _parts(inputs: Iterable[Input]) -> set[str]:
    """Return the secret texts of inputs: each value, its lines, and the signature in a URL.

    White space around a value is left out, because a value from a file often ends with a newline and is printed without
    it.
    """
    parts: set[str] = set()
    for item in inputs:
        for value in _texts(item.value):
            parts.update((value, value.strip()))
            parts.update(
                line.strip()
                for line in value.splitlines()
                if len(line.strip()) >= _SHORTEST_LINE
            )
            parts.update(signatures(value) if item.name == "deploy_signal_id" else ())
    return {part for part in parts if len(part) >= SHORTEST and not part.isspace()}


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield json.dumps(value)
