"""The constraints of parameters and properties: whether a constraint is well declared, and whether a value meets it.

Types are those of properties: `string`, `number`, `integer`, `boolean`, `list`, `map`. A parameter of type
`comma_delimited_list` is a list here, and `json` is a map. The rules are those of `heat/engine/constraints.py`.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

from heat_config_stack.definition import custom_constraints, limits
from heat_config_stack.definition.patterns import compiled

APPLIES = {
    "length": {"string", "list", "map"},
    "range": {"number", "integer"},
    "modulo": {"number", "integer"},
    "allowed_values": {"string", "number", "integer", "boolean", "list"},
    "allowed_pattern": {"string"},
    "custom_constraint": {"string", "number", "integer", "boolean", "list"},
}
"""Constraint → the types that it applies to."""

TRUE = ("1", "on", "t", "true", "y", "yes")
FALSE = ("0", "f", "false", "n", "no", "off")


def number(value: Any) -> int | float:
    """Return a number, or the number that a text denotes. Raises ValueError."""
    if isinstance(value, int | float):
        return value
    if not isinstance(value, str):
        raise ValueError(f"{_shown(value)} is not a number")  # noqa: TRY004  # the caller expects ValueError for any bad value
    try:
        return int(value)
    except ValueError:
        pass
    try:
        parsed = float(value)
    except ValueError:
        raise ValueError(f"{value!r} is not a number") from None
    if not math.isfinite(parsed):
        raise ValueError(f"{value!r} is not a number that JSON can express")
    return parsed


def boolean(value: Any) -> bool:
    """Return the truth value of a word that Heat accepts. Raises ValueError."""
    word = str(value).strip().lower()
    if word not in TRUE + FALSE:
        raise ValueError(
            f"Unrecognized value {value!r}, acceptable values are: {', '.join(sorted(TRUE + FALSE))}"
        )
    return word in TRUE


_SLOW = {"allowed_pattern", "custom_constraint"}
"""The kinds of constraints whose check may need a time limit."""


def declared(kind: str, value: Any) -> str:
    """Return the problem of a constraint's declaration, or an empty text. `value` is the part after its name."""
    if kind in {"length", "range"}:
        return _limits_declared(kind, value)
    if kind == "modulo":
        return _modulo_declared(value)
    if kind == "allowed_values":
        return "" if isinstance(value, list) else "allowed_values must be a list"
    if kind == "custom_constraint":
        return (
            ""
            if isinstance(value, str)
            else "custom_constraint must be the name of one"
        )
    if not isinstance(value, str):
        return "allowed_pattern must be text"
    try:
        limits.within(limits.SECONDS, lambda: compiled(value))
    except (re.error, OverflowError) as error:
        return f"the allowed_pattern {value!r} is not a regular expression: {error}"
    except RecursionError:
        return f"the allowed_pattern {_start(value)} is nested too deeply"
    except limits.TooMuch as error:
        return f"the allowed_pattern {_start(value)} cannot be used: {error}"
    return ""


def violated(kind: str, limit: Any, value: Any, type_: str) -> str:
    """Return how a value violates a well `declared` constraint, or an empty text."""
    check = _CHECKS[kind]
    try:
        if kind not in _SLOW:
            return check(limit, value, type_)
        return limits.within(limits.SECONDS, lambda: check(limit, value, type_))
    except ValueError as error:
        return str(error)
    except OverflowError:
        return "the number is too large to be compared"
    except limits.TooMuch as error:
        if kind == "allowed_pattern":
            return f"cannot match the pattern {_start(limit)} against a value of {len(value):,} characters: {error}"
        return f"cannot check {kind}: {error}"


def _limits_declared(kind: str, value: Any) -> str:
    problem = _numbers_declared(kind, value, ("min", "max"))
    if problem:
        return problem
    limits = [number(each) for each in value.values() if each is not None]
    if not limits:
        return (
            f"A {kind} constraint must have a min value and/or a max value specified."
        )
    if kind == "length" and not all(isinstance(each, int) for each in limits):
        return "min/max length must be integral"
    return ""


def _modulo_declared(value: Any) -> str:
    problem = _numbers_declared("modulo", value, ("step", "offset"))
    if problem:
        return problem
    if value.get("step") is None or value.get("offset") is None:
        return (
            "A modulo constraint must have a step value and an offset value specified."
        )
    step, offset = number(value["step"]), number(value["offset"])
    if int(step) != step or int(offset) != offset:
        return "step/offset must be integer"
    if step == 0:
        return "step cannot be 0."
    if abs(offset) >= abs(step):
        return "offset must be smaller (by absolute value) than step."
    return (
        "step and offset must be both positive or both negative."
        if step * offset < 0
        else ""
    )


def _numbers_declared(kind: str, value: Any, keys: tuple[str, str]) -> str:
    if not isinstance(value, dict):
        return f"Invalid {kind} constraint, expected a mapping"
    for key, limit in value.items():
        if key not in keys:
            return f"Invalid key '{key}' for {kind} constraint"
        try:
            if limit is not None:
                number(limit)
        except ValueError as error:
            return f"{key} of the {kind} constraint: {error}"
    return ""


def _limit(limit: dict[str, Any], key: str) -> int | float | None:
    return None if limit.get(key) is None else number(limit[key])


def _range(limit: Any, value: Any, _type: str) -> str:
    least, most, found = _limit(limit, "min"), _limit(limit, "max"), number(value)
    if (least is not None and found < least) or (most is not None and found > most):
        return f"{value} is out of range (min: {least}, max: {most})"
    return ""


def _length(limit: Any, value: Any, _type: str) -> str:
    if not isinstance(value, str | list | dict):
        raise ValueError(  # noqa: TRY004
            f"{_shown(value)} has no length: quote it if it is meant as text"
        )
    if _range(limit, len(value), "integer"):
        return f"length ({len(value)}) is out of range (min: {_limit(limit, 'min')}, max: {_limit(limit, 'max')})"
    return ""


def _modulo(limit: Any, value: Any, _type: str) -> str:
    step, offset = number(limit["step"]), number(limit["offset"])
    return (
        f"{value} is not a multiple of {step} with an offset of {offset}"
        if number(value) % step != offset
        else ""
    )


def _allowed_values(limit: Any, value: Any, type_: str) -> str:
    if isinstance(value, list):
        allowed = all(each in limit for each in value)
    else:
        allowed = _typed(value, type_) in [_typed(each, type_) for each in limit]
    return (
        ""
        if allowed
        else f"{_shown(value)} is not an allowed value [{', '.join(map(_shown, limit))}]"
    )


def _typed(value: Any, type_: str) -> Any:
    if type_ in {"number", "integer"}:
        return number(value)
    if type_ == "boolean":
        return boolean(value)
    return str(value) if type_ == "string" else value


def _allowed_pattern(limit: Any, value: Any, _type: str) -> str:
    if not isinstance(value, str):
        raise ValueError(  # noqa: TRY004
            f"{_shown(value)} is not text, so no pattern can match it: quote it"
        )
    found = compiled(limit).match(value)
    # As in Heat, the first match has to reach the end of the value: «a|ab» does not allow «ab».
    return (
        ""
        if found and found.end() == len(value)
        else f'"{value}" does not match pattern "{limit}"'
    )


def _custom(limit: Any, value: Any, _type: str) -> str:
    return custom_constraints.violated(limit, value)


def _start(text: str) -> str:
    """Return the beginning of a text, for use in a sentence."""
    return repr(text) if len(text) <= 100 else f"{text[:100]!r}…"


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


_CHECKS = {
    "length": _length,
    "range": _range,
    "modulo": _modulo,
    "allowed_values": _allowed_values,
    "allowed_pattern": _allowed_pattern,
    "custom_constraint": _custom,
}
