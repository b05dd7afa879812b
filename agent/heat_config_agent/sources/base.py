"""The interface of sources, and the settings with which they reach their servers."""

from __future__ import annotations

from collections.abc import Mapping

from heat_config_agent.model.deployment import Credentials, Document
from heat_config_hooks.values import dataclass

TYPE_CHECKING = False  # as `typing` has it, which takes long to load


if TYPE_CHECKING:
    from typing import Protocol
else:
    Protocol = object


PAGE = "it is a web page, so another server has answered"
PAGE_HINT = "is there a proxy, or a network with a login page, in between?"
"""The message and the hint if a server answers with a web page."""

LOGIN_HINT = "are user_id and password still those of the stack's user, and auth_url and project_id right?"
"""The hint if Keystone denies the login."""


class Source(Protocol):
    """A place that documents come from."""

    name: str
    """The name of the source, the same in every run."""
    trouble: str
    """A problem that people should know although the source answers; empty for none."""

    def collect(self) -> Document | None:
        """Return the document; None if the source has none yet, or nothing newer than before.

        If nothing has changed, and that is cheap to find out, it is the very object that was returned before. Raises
        SourceError if the document cannot be fetched, and UsageError if it cannot be understood.
        """


@dataclass(frozen=True, kw_only=True)
class Reach:
    """The settings with which sources reach their servers."""

    ca_file: str | None = None
    """A file with trusted certificates; None for those of the environment and the system."""
    seconds: float = 60.0
    """The timeout of one poll."""


def credentials(values: Mapping[str, object]) -> Credentials:
    """Return the credentials in the settings of a section that uses Keystone."""
    return Credentials(
        auth_url=str(values["auth_url"]),
        user_id=str(values.get("user_id") or ""),
        password=str(values.get("password") or ""),
        project_id=str(values["project_id"]),
        region_name=str(values.get("region_name") or ""),
        application_credential_id=str(values.get("application_credential_id") or ""),
        application_credential_secret=str(
            values.get("application_credential_secret") or ""
        ),
    )
