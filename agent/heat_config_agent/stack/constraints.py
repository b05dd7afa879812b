"""The constraints of properties, as plug-ins write them; what each means is said in `heat_config_agent.constraints`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heat_config_agent import constraints as meaning


class Constraint:
    """A condition that a property's value must meet."""

    kind = ""

    def __init__(self, limit: Any, description: str | None = None) -> None:
        """Take what is allowed, in the form of a template, and what is said instead where a value is not."""
        self.limit, self.description = limit, description

    def violated(self, value: Any, type_: str) -> str:
        """Return in which way a value of that type does not meet it, or nothing."""
        problem = meaning.violated(self.kind, self.limit, value, type_)
        return (self.description or problem) if problem else ""


class Range(Constraint):
    """A number between two others, both included."""

    kind = "range"

    def __init__(self, min: Any = None, max: Any = None, description: str | None = None) -> None:  # noqa: A002
        """Take the least and the greatest; None for any."""
        super().__init__({"min": min, "max": max}, description)


class Length(Constraint):
    """A text, list or map of a certain length."""

    kind = "length"

    def __init__(self, min: Any = None, max: Any = None, description: str | None = None) -> None:  # noqa: A002
        """Take the least and the greatest length; None for any."""
        super().__init__({"min": min, "max": max}, description)


class Modulo(Constraint):
    """A number that is so many steps from an offset."""

    kind = "modulo"

    def __init__(self, step: Any = None, offset: Any = None, description: str | None = None) -> None:
        """Take the step and the offset."""
        super().__init__({"step": step, "offset": offset}, description)


class AllowedValues(Constraint):
    """One of several values."""

    kind = "allowed_values"

    def __init__(self, allowed: Sequence[Any] | str, description: str | None = None) -> None:
        """Take the values; of a text, its characters."""
        super().__init__(list(allowed), description)


class AllowedPattern(Constraint):
    """A text that a regular expression matches as a whole."""

    kind = "allowed_pattern"

    def __init__(self, pattern: str, description: str | None = None) -> None:
        """Take the regular expression."""
        super().__init__(pattern, description)


class CustomConstraint(Constraint):
    """A constraint with a name."""

    kind = "custom_constraint"

    def __init__(self, name: str, description: str | None = None, environment: object = None) -> None:
        """Take its name; there is one environment for all."""
        self.environment = environment
        super().__init__(name, description)


class BaseCustomConstraint:
    """What plug-ins derive custom constraints of their own from; their names are unknown here, and never refused."""

    expected_exceptions: tuple[type[Exception], ...] = ()


_OF_KIND = {each.kind: each for each in (Range, Length, Modulo, AllowedValues, AllowedPattern, CustomConstraint)}


def made(kind: str, limit: Any, description: str) -> Constraint:
    """Return the constraint of a declared parameter."""
    found = Constraint.__new__(_OF_KIND[kind])
    Constraint.__init__(found, limit, description or None)
    return found
