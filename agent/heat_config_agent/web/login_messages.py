"""The messages between the agent and the program that logs in for it: a line of JSON each way for each login."""

from __future__ import annotations

import json
import math

from heat_config_agent.model.deployment import Credentials
from heat_config_agent.model.errors import DeniedError, UnreachableError
from heat_config_hooks.values import dataclass, field

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

READY = b"ready\n"
"""The first line of the program, before any request: it has started."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """A login that the program carries out."""

    credentials: Credentials
    """Their `auth_url` is that of version 3 of Keystone."""
    services: tuple[str, ...]
    """The types of the services whose URLs are looked up in the catalog."""
    ca_file: str | None
    until: float
    """The moment at which the login has to be complete, by the monotonic clock, which all processes share."""


@dataclass(frozen=True, kw_only=True)
class Access:
    """The token that Keystone grants a user, and the URLs of the services."""

    token: str = field(repr=False)
    seconds: float
    """The time from the issue of the token to its expiry."""
    endpoints: Mapping[str, str]
    """Type of a service → its URL, without a slash at the end."""
    missing: Mapping[str, str]
    """Type of a service without a URL → the reason, as a sentence."""

    def covers(self, services: Iterable[str]) -> bool:
        """Return True if these services were looked up in the catalog."""
        return all(service in self.endpoints or service in self.missing for service in services)


def request_line(request: Request) -> bytes:
    """Return the line for a request."""
    return _line({**vars(request), "credentials": vars(request.credentials)})


def request(line: bytes) -> Request:
    """Return the request in a line."""
    values = json.loads(line)
    credentials = Credentials(**values.pop("credentials"))
    return Request(credentials=credentials, services=tuple(values.pop("services")), **values)


def answer_line(answer: Access | UnreachableError) -> bytes:
    """Return the line for an answer."""
    if isinstance(answer, Access):
        return _line(vars(answer))
    return _line({"failure": "denied" if isinstance(answer, DeniedError) else "unreachable", "why": str(answer)})


def answer(line: bytes) -> Access | UnreachableError:
    """Return the answer in a line: what Keystone grants, or why there is no login. Raises ValueError."""
    try:
        values = json.loads(line)
    except RecursionError:
        raise ValueError("too many brackets") from None
    match values:
        case {"failure": "denied", "why": str(why)}:
            return DeniedError(why)
        case {"failure": "unreachable", "why": str(why)}:
            return UnreachableError(why)
        case {"token": str(), "seconds": int() | float() as seconds, "endpoints": dict(), "missing": dict()}:
            texts = [*values["endpoints"].values(), *values["missing"].values()]
            if len(values) == 4 and math.isfinite(seconds) and all(isinstance(text, str) for text in texts):
                return Access(**values)
    raise ValueError("neither of them")


def _line(values: Mapping[str, object]) -> bytes:
    return json.dumps(values).encode() + b"\n"
