"""How well a type, a property or an attribute is kept, and since when: said by plug-ins, shown to people."""

from __future__ import annotations

UNKNOWN, SUPPORTED, DEPRECATED, UNSUPPORTED, HIDDEN = "UNKNOWN", "SUPPORTED", "DEPRECATED", "UNSUPPORTED", "HIDDEN"
SUPPORT_STATUSES = (UNKNOWN, SUPPORTED, DEPRECATED, UNSUPPORTED, HIDDEN)


class SupportStatus:
    """How well something is kept."""

    def __init__(
        self,
        status: str = SUPPORTED,
        message: str | None = None,
        version: str | None = None,
        previous_status: SupportStatus | None = None,
        substitute_class: type | None = None,
    ) -> None:
        """Take one of `SUPPORT_STATUSES`; any other is unknown, as Heat has it."""
        known = status in SUPPORT_STATUSES
        self.status = status if known else UNKNOWN
        self.message = message if known else f"Specified status is invalid, defaulting to {UNKNOWN}"
        self.version, self.previous_status, self.substitute_class = version, previous_status, substitute_class

    def to_dict(self) -> dict[str, object]:
        """Return it as people are shown it."""
        previous = self.previous_status.to_dict() if self.previous_status else None
        return {
            "status": self.status,
            "message": self.message,
            "version": self.version,
            "previous_status": previous,
        }


def is_valid_status(status: str) -> bool:
    """Whether there is such a status."""
    return status in SUPPORT_STATUSES
