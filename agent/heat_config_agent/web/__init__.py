"""HTTP with timeouts, verified certificates and bounded answers. Redirects are not followed.

The proxies and certificates of the environment are read once for each server, and not at every request. No `.netrc` is
read.
"""

from __future__ import annotations

import contextlib
import http.client
import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from urllib.parse import quote

from heat_config_agent.web.answers import Arriving, drain, is_page, read, within
from heat_config_agent.web.direct import WRITABLE, Server
from heat_config_agent.web.held_back import HeldBack
from heat_config_agent.web.link_local import is_link_local
from heat_config_hooks.values import dataclass

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from typing import Protocol
else:
    Protocol = object

CONNECT_SECONDS = 10.0
"""The timeout for a connection to each address of a server."""

READ_SECONDS = 30.0
"""The longest silence of a server."""

SEND_SECONDS = 60.0
"""The timeout of a whole exchange in which something is sent, however often the server shows a sign of life."""

LARGEST = 64 * 1024 * 1024
"""The largest document in bytes."""

DRAIN_SECONDS = 1.0
DRAIN_BYTES = 4096
"""The limits within which the body of a refusal is read, so that its connection can be used again. The body does not
change the meaning of the answer, so it is not waited for: if it is longer, the connection is closed."""

TAKEN_SECONDS = 10.0
TAKEN_BYTES = 1024 * 1024
"""The same limits for the body of an acceptance, which counts only if the whole answer has arrived."""


@dataclass(frozen=True)
class Answer:
    """The answer of a server."""

    status: int
    reason: str
    headers: Mapping[str, str]
    body: bytes = b""
    """The body; of the answer to `Connection.send` only its beginning."""
    cut: str = ""
    """The reason why the body of the answer to `Connection.send` is not complete, in words; empty if it is."""

    @property
    def is_page(self) -> bool:
        """True if the answer is a web page, which no service that the agent uses has."""
        packed = self.headers.get("Content-Encoding", "").strip().lower() not in (
            "",
            "identity",
        )
        return is_page(
            self.headers.get("Content-Type", ""),
            b"<!" if packed and self.body else self.body,
        )


class Connection:
    """A kept-alive connection to one server. Not for use by two threads at once.

    Only a proxy, or a URL that has to be interpreted before it can be sent, loads requests: that takes 80 ms and 9 MB.
    """

    def __init__(
        self,
        origin: str,
        ca_file: str | None = None,
        *,
        direct: bool = False,
        seconds: float | None = None,
    ) -> None:
        """Prepare a connection to the server of `origin` (scheme, host, port).

        `ca_file` has the trusted certificates; None for the default ones. With `direct` no proxy is used, as for a
        server on the machine's own link. `seconds` is the longest silence of the server; None for the default.
        """
        self._limits = (
            (CONNECT_SECONDS, READ_SECONDS)
            if seconds is None
            else (min(CONNECT_SECONDS, seconds), seconds)
        )
        self._origin = origin
        self._is_link_local = is_link_local(origin)
        self._certificates = certificates(ca_file)
        self._proxy = None if direct else proxy(origin)
        self._direct = Server(origin, self._certificates)
        self._proxied: _Way | None = None

    def send(
        self, verb: str, url: str, body: bytes | HeldBack, headers: Mapping[str, str]
    ) -> Answer:
        """Send one request to the unchanged URL, and return the answer of any status. Raises UnreachableError."""
        with within(SEND_SECONDS):
            return self.ask(verb, url, body, headers, 0)

    def fetch(
        self, url: str, headers: Mapping[str, str], seconds: float, *, verb: str = "GET"
    ) -> Answer:
        """Request the unchanged URL, and return the answer of any status with its whole body.

        Raises UnreachableError, also if the answer is not complete after `seconds`, or is too long.
        """
        with within(seconds):
            return self.ask(verb, url, b"", headers, LARGEST)

    @contextlib.contextmanager
    def opened(
        self, url: str, headers: Mapping[str, str], seconds: float
    ) -> Iterator[Arriving]:
        """Request a URL, whose answer of any status and size can be read while the context lasts.

        Raises UnreachableError, also while the answer is read, and if that takes more than `seconds`.
        """
        url = self._written(url)
        with (
            within(seconds),
            self._way(url).exchange("GET", url, b"", headers, self._limits) as answer,
        ):
            yield answer

    def ask(
        self,
        verb: str,
        url: str,
        body: bytes | HeldBack,
        headers: Mapping[str, str],
        largest: int,
    ) -> Answer:
        """Send one request, `within` a deadline that the caller has set, and return the answer.

        Its whole body is read, of up to `largest` bytes; with 0, only its beginning.
        """
        url = self._written(url)
        with self._way(url).exchange(verb, url, body, headers, self._limits) as answer:
            content, cut = (read(answer, largest), "") if largest else _drained(answer)
            return Answer(
                answer.status, phrase(answer.status), answer.headers, content, cut
            )

    def _written(self, url: str) -> str:
        """Return a URL as it is sent: one with a zone is encoded here, as requests would encode the zone as well."""
        if (
            not self._is_link_local
            or WRITABLE.fullmatch(url)
            or not url.startswith(self._origin)
        ):
            return url
        return self._origin + quote(
            url[len(self._origin) :], safe="!#$%&'()*+,/:;=?@[]~"
        )

    def _way(self, url: str) -> _Way:
        if not self._proxy and self._direct.can_request(url):
            return self._direct
        if self._proxied is None:
            from heat_config_agent.web import proxied  # noqa: PLC0415  # few machines need it

            self._proxied = proxied.Server(
                self._origin, self._certificates, self._proxy
            )
        return self._proxied


def _drained(answer: Arriving) -> tuple[bytes, str]:
    """Return the beginning of a body, and why it is not complete. Only an acceptance is waited for."""
    accepted = 200 <= answer.status < 300
    if not accepted:
        return drain(answer, DRAIN_SECONDS, DRAIN_BYTES, DRAIN_BYTES)
    return drain(answer, TAKEN_SECONDS, DRAIN_BYTES, TAKEN_BYTES)


class _Way(Protocol):
    """A way to a server: `direct.Server` or `proxied.Server`."""

    def exchange(
        self,
        verb: str,
        url: str,
        body: bytes | HeldBack,
        headers: Mapping[str, str],
        limits: tuple[float, float],
    ) -> AbstractContextManager[Arriving]:
        """Send one request to the unchanged URL. The answer can be read while the context lasts."""


def certificates(ca_file: str | None = None) -> str | None:
    """Return the file or folder with the trusted certificates; None for the default ones."""
    return (
        ca_file
        or os.environ.get("REQUESTS_CA_BUNDLE")
        or os.environ.get("CURL_CA_BUNDLE")
        or None
    )


def proxy(origin: str) -> str | None:
    """Return the URL of the proxy for a server; None for no proxy.

    No proxy reaches a link-local address of IPv6 for this machine.
    """
    if is_link_local(origin):
        return None
    names = {name.lower() for name, value in os.environ.items() if value}
    if not any(name.endswith("_proxy") for name in names - {"no_proxy"}):
        return None
    from heat_config_agent.web import proxied  # noqa: PLC0415  # few machines need it

    return proxied.proxy(origin)


def phrase(status: int) -> str:
    """Return the standard phrase of a status. The server's own may repeat the URL, which is a secret."""
    return http.client.responses.get(status, "")
