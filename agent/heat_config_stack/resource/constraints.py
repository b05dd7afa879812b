"""The constraints of properties, as plug-ins write them; `definition.constraints` checks them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heat_config_stack.definition import constraints as meaning
from heat_config_stack.records.exception import EntityNotFound


class Constraint:
    """A condition that the value of a property must meet."""

    kind = ""

    def __init__(self, limit: Any, description: str | None = None) -> None:
        """Take the limit, in the form of a template, and an optional message that replaces the standard one."""
        self.limit, self.description = limit, description

    def violated(self, value: Any, type_: str) -> str:
        """Return how a value of that type violates the condition, or an empty text."""
        problem = meaning.violated(self.kind, self.limit, value, type_)
        return (self.description or problem) if problem else ""


class Range(Constraint):
    """The value is a number between two others, both included."""

    kind = "range"

    def __init__(
        self,
        min: Any = None,  # noqa: A002
        max: Any = None,  # noqa: A002
        description: str | None = None,
    ) -> None:
        """Take the minimum and the maximum; None for no limit."""
        super().__init__({"min": min, "max": max}, description)


class Length(Constraint):
    """The length of a text, list or map is in a range."""

    kind = "length"

    def __init__(
        self,
        min: Any = None,  # noqa: A002
        max: Any = None,  # noqa: A002
        description: str | None = None,
    ) -> None:
        """Take the minimum and the maximum length; None for no limit."""
        super().__init__({"min": min, "max": max}, description)


class Modulo(Constraint):
    """The value is a multiple of a step plus an offset."""

    kind = "modulo"

    def __init__(
        self, step: Any = None, offset: Any = None, description: str | None = None
    ) -> None:
        """Take the step and the offset."""
        super().__init__({"step": step, "offset": offset}, description)


class AllowedValues(Constraint):
    """The value is one of several values."""

    kind = "allowed_values"

    def __init__(
        self, allowed: Sequence[Any] | str, description: str | None = None
    ) -> None:
        """Take the values; the characters of a text count as values."""
        super().__init__(list(allowed), description)


class AllowedPattern(Constraint):
    """A regular expression matches the whole text."""

    kind = "allowed_pattern"

    def __init__(self, pattern: str, description: str | None = None) -> None:
        """Take the regular expression."""
        super().__init__(pattern, description)


class CustomConstraint(Constraint):
    """A named constraint, built in or of a plug-in."""

    kind = "custom_constraint"

    def __init__(
        self, name: str, description: str | None = None, environment: object = None
    ) -> None:
        """Take the name; `environment` is ignored."""
        self.environment = environment
        super().__init__(name, description)


class BaseCustomConstraint:
    """The base class of the custom constraints of plug-ins."""

    expected_exceptions: tuple[type[Exception], ...] = (EntityNotFound,)
    """The exceptions of `validate_with_client` that mean that the value is not valid."""
    _error_message: str | None = None

    def validate(self, value: Any, context: Any) -> bool:
        """Return whether a value is valid."""
        try:
            self.validate_with_client(context, value)
        except self.expected_exceptions as error:
            self._error_message = str(error)
            return False
        return True

    def validate_with_client(self, client: Any, value: Any) -> None:
        """Raise one of the expected exceptions if a value is not valid."""
        raise NotImplementedError

    def error(self, value: Any) -> str:
        """Return the message for a value that is not valid."""
        reason = f": {self._error_message}" if self._error_message else ""
        return f"Error validating value {value!r}{reason}"


_OF_KIND = {
    each.kind: each
    for each in (Range, Length, Modulo, AllowedValues, AllowedPattern, CustomConstraint)
}


def made(kind: str, limit: Any, description: str) -> Constraint:
    """Return the constraint of a parameter."""
    constraint = Constraint.__new__(_OF_KIND[kind])
    Constraint.__init__(constraint, limit, description or None)
    return constraint
