"""The support status of types, properties and attributes, as plug-ins declare it."""

from __future__ import annotations

UNKNOWN, SUPPORTED, DEPRECATED, UNSUPPORTED, HIDDEN = (
    "UNKNOWN",
    "SUPPORTED",
    "DEPRECATED",
    "UNSUPPORTED",
    "HIDDEN",
)
SUPPORT_STATUSES = (UNKNOWN, SUPPORTED, DEPRECATED, UNSUPPORTED, HIDDEN)


class SupportStatus:
    """The support status of a type, property or attribute."""

    def __init__(
        self,
        status: str = SUPPORTED,
        message: str | None = None,
        version: str | None = None,
        previous_status: SupportStatus | None = None,
        substitute_class: type | None = None,
    ) -> None:
        """Take one of `SUPPORT_STATUSES`; any other becomes UNKNOWN, as in Heat."""
        known = status in SUPPORT_STATUSES
        self.status = status if known else UNKNOWN
        self.message = (
            message
            if known
            else f"Specified status is invalid, defaulting to {UNKNOWN}"
        )
        self.version, self.previous_status, self.substitute_class = (
            version,
            previous_status,
            substitute_class,
        )

    def to_dict(self) -> dict[str, object]:
        """Return the status as a dict, with the keys of Heat's API."""
        previous = self.previous_status.to_dict() if self.previous_status else None
        return {
            "status": self.status,
            "message": self.message,
            "version": self.version,
            "previous_status": previous,
        }


def is_valid_status(status: str) -> bool:
    """Return whether this is a support status."""
    return status in SUPPORT_STATUSES
