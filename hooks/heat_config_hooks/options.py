"""The options of hooks: their types and defaults, and the mistakes in the options of a deployment.

Options come from templates, where a parameter may have turned a number or a truth value into text.
So text such as `"30"` or `"true"` is accepted in their place.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Collection, Mapping

from heat_config_hooks import durations
from heat_config_hooks.errors import HookError
from heat_config_hooks.values import dataclass


class Kind(str, enum.Enum):
    """The type of an option; the text describes it to people."""

    FLAG = "true or false"
    TEXT = "text"
    TEXTS = "text, or a list of texts"
    SECONDS = durations.WORDS
    SIZE = "a number of bytes greater than 0, such as 512M"
    PERCENT = "a percentage, such as 50%"
    COUNT = "a whole number, greater than 0"
    MAP = "an object"
    CHOICE = "one of"
    ARTIFACTS = "a list of objects with url, sha256, to and unpack"
    ISOLATION = "an object with network, home, tmp and system"
    RETRY = "an object with codes, times and delay"
    VERIFY = "a script, or an object with script, retries, interval and timeout"
    ON_FAILURE = "a script, or an object with script and timeout"


@dataclass(frozen=True)
class Option:
    """One option of a hook."""

    kind: Kind
    says: str
    """The effect of the option in a few words, for the table of options."""
    default: object = None
    """The value if the deployment has none; for `TEXTS` a list."""
    choices: tuple[str, ...] = ()
    """The values of a `CHOICE`."""

    @property
    def expected(self) -> str:
        """The type of a value, in words."""
        return (
            f"one of {', '.join(self.choices)}"
            if self.kind is Kind.CHOICE
            else self.kind.value
        )


COMMON: Mapping[str, Option] = {
    "timeout": Option(Kind.SECONDS, "timeout of the run, in seconds"),
    "idempotent": Option(
        Kind.FLAG, "may run again, three times at most, after an interruption", False
    ),
    "deploy_credentials": Option(
        Kind.FLAG, "give the config the credentials for Heat", False
    ),
    "artifacts": Option(
        Kind.ARTIFACTS, "files that are fetched and verified before the run begins"
    ),
    "retry": Option(
        Kind.RETRY,
        "exit codes after which the command is run again, how often, and after how long",
    ),
    "verify": Option(
        Kind.VERIFY,
        "a script that exits with 0 if what was deployed works: the run succeeds only then",
    ),
    "on_failure": Option(
        Kind.ON_FAILURE,
        "a script that is run once after a run that has failed, with the reason and the outputs",
    ),
    "memory_max": Option(
        Kind.SIZE,
        "the most memory that the run may use, in bytes; K, M, G and T multiply by 1024",
    ),
    "cpu_quota": Option(
        Kind.PERCENT, "the most processor time: 100% is one processor, 200% is two"
    ),
    "tasks_max": Option(
        Kind.COUNT, "the most processes and threads that the run may have at once"
    ),
}
"""Options that every built-in hook has."""

USER: Mapping[str, Option] = {
    "user": Option(
        Kind.TEXT, "the user of the machine as whom it is run; only by the agent"
    )
}
"""The option of the hooks that need nothing of root's: the agent calls them as that user."""

ISOLATE: Mapping[str, Option] = {
    "isolate": Option(
        Kind.ISOLATION,
        "the parts of the machine from which the run is kept away; only by the agent",
    )
}
"""The option of the hooks whose work is done by the processes of the run alone, and not by a service or an engine."""

TRUSTED: Mapping[str, Option] = {
    "trusted_inputs": Option(
        Kind.FLAG,
        "as in heat-agents: inputs may also be templates or settings of the tool",
        default=False,
    )
}
"""The option of hooks whose tools could take inputs for more than values."""

AGENT_ONLY: Mapping[str, str] = {
    "user": "it runs as the user of the agent only",
    "isolate": "its work is not done in the run alone, so it cannot be isolated",
}
"""The reason why a hook does not have an option that others have."""

BOUNDS = ("memory_max", "cpu_quota", "tasks_max")
"""Common options that systemd enforces: if it cannot, a run with one of them does not begin."""


def own(
    options: Mapping[str, object], tool: str, tools: Collection[str]
) -> Mapping[str, object]:
    """Return the options of a tool among those of a component.

    They are the section with the tool's name; without such a section, all options outside the sections of `tools`.
    """
    section = options.get(tool)
    if isinstance(section, Mapping):
        return section
    return {
        name: value
        for name, value in options.items()
        if not (name in tools and isinstance(value, Mapping))
    }


def read(
    options: Mapping[str, object], declared: Mapping[str, Option]
) -> dict[str, object]:
    """Return a value for each known and each common option: that of the deployment, or the default.

    `FLAG` gives a bool, `TEXT` and `CHOICE` a str, `TEXTS` a list of str, `SECONDS` a float,
    `SIZE`, `PERCENT` and `COUNT` an int, `MAP` a mapping, `ARTIFACTS` a list for `artifacts.read`,
    `ISOLATION` a mapping of the levels of `isolation.LEVELS`, `RETRY` a value for `retry.read`,
    `VERIFY` one for `health.read`, and `ON_FAILURE` one for `on_failure.read`.
    The value is None if there is neither a value nor a default.
    Unknown options are ignored here; `mistakes` reports them. Raises HookError for a wrong value.
    """
    every = {**COMMON, **declared}
    return {
        name: _value(name, options.get(name), option) for name, option in every.items()
    }


def common(options: Mapping[str, object], name: str) -> object:
    """Return the value of a common option, or its default if the value is wrong.

    An executable hook may use an option of the same name for something else.
    """
    try:
        return _value(name, options.get(name), COMMON[name])
    except HookError:
        return COMMON[name].default


def is_set(options: Mapping[str, object], name: str) -> bool:
    """Return whether an option has a value that is not false. A wrong value counts: it must not go unseen."""
    return options.get(name) not in (None, "") and _flag(options.get(name)) is not False


def mistakes(
    options: Mapping[str, object],
    known: Mapping[str, Option],
    *,
    tool: str,
    also: Collection[str] = (),
) -> list[HookError]:
    """Return the mistakes in the options for `tool`. Names in `also` are options of other tools, and no mistakes."""
    options_by_name = {**COMMON, **known}
    errors: list[HookError] = []
    for name, value in options.items():
        if name in options_by_name:
            try:
                _value(name, value, options_by_name[name])
            except HookError as error:
                errors.append(error)
        elif name not in also:
            why = (
                f": {AGENT_ONLY[name]}"
                if name in AGENT_ONLY
                else _hint(str(name), options_by_name)
            )
            errors.append(
                HookError(f"{tool} has no such option{why}", f"options.{name}")
            )
    return errors


def _hint(name: str, names: Collection[str]) -> str:
    from heat_config_hooks.words import closest  # noqa: PLC0415  # needed for mistyped options only

    close = closest(name, names)
    return (
        f"; did you mean {close}?"
        if close
        else f" (its options are {', '.join(sorted(names))})"
    )


def _value(name: str, value: object, option: Option) -> object:
    if value is None or (value == "" and option.kind is Kind.FLAG):
        return (
            _texts(option.default or [])
            if option.kind is Kind.TEXTS
            else option.default
        )
    if option.kind is Kind.ARTIFACTS:
        from heat_config_hooks import artifacts  # noqa: PLC0415  # few deployments have any

        artifacts.read(value, f"options.{name}")
        return value
    if option.kind is Kind.ISOLATION:
        from heat_config_hooks import isolation  # noqa: PLC0415  # few deployments are isolated

        return isolation.read(value, f"options.{name}")
    if option.kind is Kind.RETRY:
        from heat_config_hooks import retry  # noqa: PLC0415  # few deployments have it

        retry.read(value, f"options.{name}")
        return value
    if option.kind is Kind.VERIFY:
        from heat_config_hooks import health  # noqa: PLC0415  # few deployments have it

        health.read(value, f"options.{name}")
        return value
    if option.kind is Kind.ON_FAILURE:
        from heat_config_hooks import on_failure  # noqa: PLC0415  # few deployments have it

        on_failure.read(value, f"options.{name}")
        return value
    converted = _READERS[option.kind](value)
    if converted is None or (
        option.kind is Kind.CHOICE and converted not in option.choices
    ):
        import reprlib  # noqa: PLC0415  # needed for mistakes only; it shortens long values

        raise HookError(
            f"expected {option.expected}, not {reprlib.repr(value)}", f"options.{name}"
        )
    return converted


def _flag(value: object) -> object:
    """Return a truth value, for which Heat's boolean parameters may also give `1` or `0`."""
    words = {"true": True, "1": True, 1: True, "false": False, "0": False, 0: False}
    return (
        words.get(value.lower() if isinstance(value, str) else value)
        if isinstance(value, str | int)
        else None
    )


def _text(value: object) -> object:
    return value if isinstance(value, str) and "\0" not in value else None


def _choice(value: object) -> object:
    """Return the text of a choice; YAML may have read an unquoted `5` as a number."""
    return (
        str(value)
        if isinstance(value, int) and not isinstance(value, bool)
        else _text(value)
    )


def _texts(value: object) -> object:
    items = [value] if isinstance(value, str) else value
    return (
        list(items)
        if isinstance(items, list) and all(_text(each) is not None for each in items)
        else None
    )


def _size(value: object) -> object:
    return _whole(value, "([0-9]{1,15})([KMGT]?)B?", "KMGT")


def _percent(value: object) -> object:
    return _whole(value, "([0-9]{1,7})(%)", "")


def _count(value: object) -> object:
    return _whole(value, "([0-9]{1,9})()", "")


def _whole(value: object, form: str, units: str) -> int | None:
    """Return a whole number greater than 0; the n-th letter of `units` multiplies it by the n-th power of 1024."""
    text = (
        str(value)
        if isinstance(value, int) and not isinstance(value, bool)
        else _text(value)
    )
    match = (
        re.fullmatch(form, text.strip(), re.IGNORECASE | re.ASCII)
        if isinstance(text, str)
        else None
    )
    return (
        int(match[1]) * 1024 ** (units.find(match[2].upper()) + 1 if match[2] else 0)
        or None
        if match
        else None
    )


def _map(value: object) -> object:
    return value if isinstance(value, Mapping) else None


_READERS = {
    Kind.FLAG: _flag,
    Kind.TEXT: _text,
    Kind.TEXTS: _texts,
    Kind.SECONDS: durations.seconds,
    Kind.SIZE: _size,
    Kind.PERCENT: _percent,
    Kind.COUNT: _count,
    Kind.MAP: _map,
    Kind.CHOICE: _choice,
}
