"""The options of a hook: which there are, of which kind, and what is wrong with those that were given.

Options come from templates, where a parameter may have made text of a number or a truth value: such text is taken for
what it says.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Collection, Mapping

from heat_config_hooks.errors import HookError
from heat_config_hooks.values import dataclass

LONGEST = 366 * 24 * 3600
"""Seconds of the longest time limit."""

_NUMBER = r"\s*\+?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*"


class Kind(str, enum.Enum):
    """What an option's value may be; the text is what a person reads."""

    FLAG = "true or false"
    TEXT = "text"
    TEXTS = "text, or a list of texts"
    SECONDS = "a number of seconds, greater than 0"
    SIZE = "a number of bytes greater than 0, such as 512M"
    PERCENT = "a percentage, such as 50%"
    COUNT = "a whole number, greater than 0"
    MAP = "an object"
    CHOICE = "one of"


@dataclass(frozen=True)
class Option:
    """One option of a hook."""

    kind: Kind
    says: str
    """What it does, in a few words, for the table of options."""
    default: object = None
    """The value where none is given; of `TEXTS` a list."""
    choices: tuple[str, ...] = ()
    """For `CHOICE`."""

    @property
    def expected(self) -> str:
        """What a value has to be, in words."""
        return f"one of {', '.join(self.choices)}" if self.kind is Kind.CHOICE else self.kind.value


COMMON: Mapping[str, Option] = {
    "timeout": Option(Kind.SECONDS, "time limit of the run, in seconds"),
    "idempotent": Option(Kind.FLAG, "may simply be run again (three times at most) if something interrupted it", False),
    "deploy_credentials": Option(Kind.FLAG, "give the config the credentials with which Heat is spoken to", False),
    "memory_max": Option(Kind.SIZE, "bytes of memory that the run may take; K, M, G and T multiply by 1024"),
    "cpu_quota": Option(Kind.PERCENT, "of one processor's time; of two whole ones, 200%"),
    "tasks_max": Option(Kind.COUNT, "how many processes and threads of the run there may be at once"),
}
"""Options that every hook of ours knows."""

BOUNDS = ("memory_max", "cpu_quota", "tasks_max")
"""Those of them that are systemd's to hold: where it does not, a run that has one of them is not begun."""


def own(given: Mapping[str, object], tool: str, tools: Collection[str]) -> Mapping[str, object]:
    """Return a tool's own options among a component's: those under its name, else all that are under no tool's name."""
    section = given.get(tool)
    if isinstance(section, Mapping):
        return section
    return {name: value for name, value in given.items() if not (name in tools and isinstance(value, Mapping))}


def read(given: Mapping[str, object], known: Mapping[str, Option]) -> dict[str, object]:
    """Return a value for each known option, the common ones included: as given, else its default.

    `FLAG` → bool, `TEXT` and `CHOICE` → str, `TEXTS` → list of str, `SECONDS` → float, `SIZE`, `PERCENT` and `COUNT` →
    int, `MAP` → mapping; None where
    there is neither a value nor a default. Names that are not known are passed over: `mistakes` is for those. Raises
    HookError.
    """
    every = {**COMMON, **known}
    return {name: _value(name, given.get(name), option) for name, option in every.items()}


def common(given: Mapping[str, object], name: str) -> object:
    """Return one of the common options, whatever is wrong with others.

    It has its default where a hook that is not ours means something else by it.
    """
    try:
        return _value(name, given.get(name), COMMON[name])
    except HookError:
        return COMMON[name].default


def mistakes(
    given: Mapping[str, object], known: Mapping[str, Option], *, tool: str, also: Collection[str] = ()
) -> list[HookError]:
    """Return what is wrong with options that were given to `tool`. Names in `also` are another tool's, and pass."""
    every = {**COMMON, **known}
    found: list[HookError] = []
    for name, value in given.items():
        if name in every:
            try:
                _value(name, value, every[name])
            except HookError as error:
                found.append(error)
        elif name not in also:
            found.append(HookError(f"{tool} has no such option{_hint(str(name), every)}", f"options.{name}"))
    return found


def _hint(name: str, every: Collection[str]) -> str:
    import difflib  # noqa: PLC0415  # only for who has mistyped

    close = difflib.get_close_matches(name, every, n=1)
    return f"; did you mean {close[0]}?" if close else f" (it has {', '.join(sorted(every))})"


def _value(name: str, value: object, option: Option) -> object:
    if value is None or (value == "" and option.kind is Kind.FLAG):
        return _texts(option.default or []) if option.kind is Kind.TEXTS else option.default
    found = _READ[option.kind](value)
    if found is None or (option.kind is Kind.CHOICE and found not in option.choices):
        import reprlib  # noqa: PLC0415  # only for who has made a mistake; of a long value the beginning and the end

        raise HookError(f"expected {option.expected}, not {reprlib.repr(value)}", f"options.{name}")
    return found


def _flag(value: object) -> object:
    """Return a truth value; a parameter of Heat's that is one may come as `1`, and one without a value as no text."""
    words = {"true": True, "1": True, 1: True, "false": False, "0": False, 0: False}
    return words.get(value.lower() if isinstance(value, str) else value) if isinstance(value, str | int) else None


def _text(value: object) -> object:
    return value if isinstance(value, str) and "\0" not in value else None


def _choice(value: object) -> object:
    """Return the text of a choice; one that is a number, as YAML takes it, is meant as it is written."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else _text(value)


def _texts(value: object) -> object:
    items = [value] if isinstance(value, str) else value
    return list(items) if isinstance(items, list) and all(_text(each) is not None for each in items) else None


def _seconds(value: object) -> object:
    if isinstance(value, str) and not re.fullmatch(_NUMBER, value):
        return None
    try:
        number = float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else 0.0
    except OverflowError:
        return None
    return number if 0 < number <= LONGEST else None


def _size(value: object) -> object:
    return _whole(value, "([0-9]{1,15})([KMGT]?)B?", "KMGT")


def _percent(value: object) -> object:
    return _whole(value, "([0-9]{1,7})(%)", "")


def _count(value: object) -> object:
    return _whole(value, "([0-9]{1,9})()", "")


def _whole(value: object, form: str, units: str) -> int | None:
    """Return a whole number greater than 0, each of the units of which is 1024 of the one before it."""
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else _text(value)
    found = re.fullmatch(form, text.strip(), re.IGNORECASE | re.ASCII) if isinstance(text, str) else None
    return int(found[1]) * 1024 ** (units.find(found[2].upper()) + 1 if found[2] else 0) or None if found else None


def _map(value: object) -> object:
    return value if isinstance(value, Mapping) else None


_READ = {
    Kind.FLAG: _flag,
    Kind.TEXT: _text,
    Kind.TEXTS: _texts,
    Kind.SECONDS: _seconds,
    Kind.SIZE: _size,
    Kind.PERCENT: _percent,
    Kind.COUNT: _count,
    Kind.MAP: _map,
    Kind.CHOICE: _choice,
}
