"""HTTP for everything that speaks it: with time limits, certificates checked, answers bounded, redirects not followed.

The environment's proxies and certificates are read once for each server, not at every request, and no `.netrc` is read.
"""

from __future__ import annotations

import http.client
import os
from collections.abc import Mapping
from contextlib import AbstractContextManager

from heat_config_agent.web.answers import Arriving, drain, read, within
from heat_config_agent.web.direct import Server
from heat_config_hooks.values import dataclass

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from typing import Protocol
else:
    Protocol = object

CONNECT_SECONDS = 10.0
"""How long each address of a server may take to take a connection."""

READ_SECONDS = 30.0
SEND_SECONDS = 60.0
"""How long a server may take to say what it makes of what it was sent, however often it says something."""

LARGEST = 64 * 1024 * 1024
"""Bytes of a document at most."""

DRAIN_SECONDS = 1.0
DRAIN_BYTES = 4096
"""How long, and how far, an answer's body is read so that its connection can be used again.

Nothing in a body changes what an answer means, so none is waited for: a longer one costs the connection."""


@dataclass(frozen=True)
class Answer:
    """What a server answered."""

    status: int
    reason: str
    headers: Mapping[str, str]
    body: bytes = b""
    """Of what was sent, its beginning at most: nobody needs more of that."""


class Connection:
    """A kept-alive connection to one server. Not for use by two threads at once.

    A proxy, or a URL that has to be understood before it can be sent, is for requests, which costs 70 ms and 6 MB to
    load: so it is loaded for those only.
    """

    def __init__(
        self, origin: str, ca_file: str | None = None, *, direct: bool = False, seconds: float | None = None
    ) -> None:
        """Speak to the server of `origin` (scheme, host, port), trusting `ca_file`, or the usual certificates.

        `direct`: past all proxies, as to what is on the machine's own link. It must say something every
        `seconds`, or as often as others.
        """
        self._limits = (CONNECT_SECONDS, READ_SECONDS) if seconds is None else (min(CONNECT_SECONDS, seconds), seconds)
        self._origin = origin
        self._certificates = certificates(ca_file)
        self._proxy = None if direct else proxy(origin)
        self._direct = Server(origin, self._certificates)
        self._proxied: _Way | None = None

    def send(self, verb: str, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        """Send one request to the URL exactly as it is given, and return the answer, whatever its status.

        Raises UnreachableError.
        """
        with within(SEND_SECONDS):
            return self.ask(verb, url, body, headers, 0)

    def fetch(self, url: str, headers: Mapping[str, str], seconds: float, *, verb: str = "GET") -> Answer:
        """Ask for what is at the URL, exactly as it is given, and return the answer with its body, whatever its status.

        Raises UnreachableError, also where not all of it is there after `seconds`, or where it is too long.
        """
        with within(seconds):
            return self.ask(verb, url, b"", headers, LARGEST)

    def ask(self, verb: str, url: str, body: bytes, headers: Mapping[str, str], largest: int) -> Answer:
        """Do either, `within` a time that is set: a body of up to `largest` bytes is read, with 0 its beginning."""
        with self._way(url).asked(verb, url, body, headers, self._limits) as answer:
            found = read(answer, largest) if largest else drain(answer, DRAIN_SECONDS, DRAIN_BYTES)
            return Answer(answer.status, phrase(answer.status), answer.headers, found)

    def _way(self, url: str) -> _Way:
        if not self._proxy and self._direct.takes(url):
            return self._direct
        if self._proxied is None:
            from heat_config_agent.web import proxied  # noqa: PLC0415  # few need it

            self._proxied = proxied.Server(self._origin, self._certificates, self._proxy)
        return self._proxied


class _Way(Protocol):
    """A way to a server."""

    def asked(
        self, verb: str, url: str, body: bytes, headers: Mapping[str, str], limits: tuple[float, float]
    ) -> AbstractContextManager[Arriving]:
        """Send one request to the URL exactly as it is given; its answer is read while this lasts."""


def certificates(ca_file: str | None = None) -> str | None:
    """Return the file or folder that says whom to trust; None for the usual ones."""
    return ca_file or os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE") or None


def proxy(origin: str) -> str | None:
    """Return the proxy through which a server is to be asked, by the rules of requests."""
    names = {name.lower() for name, value in os.environ.items() if value}
    if not any(name.endswith("_proxy") for name in names - {"no_proxy"}):
        return None
    from heat_config_agent.web import proxied  # noqa: PLC0415  # few need it

    return proxied.proxy(origin)


def phrase(status: int) -> str:
    """Return what a status is called, by the standard: what a server calls it may repeat the URL, which is a secret."""
    return http.client.responses.get(status, "")
