"""HTTP for everything that speaks it.

Always with a time limit, certificates checked, answers bounded, redirects not followed.

The environment's proxies and certificates are read once for each server, not at every request, and no `.netrc` is
looked at.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass

import requests
import requests.adapters
import requests.utils
import urllib3.exceptions

from heat_config_agent import __version__

CONNECT_SECONDS = 10.0
READ_SECONDS = 30.0
TOTAL_SECONDS = 60.0
ANSWER_LIMIT = 64 * 1024
"""Bytes of an answer that are read: enough to say what was wrong."""


class UnreachableError(Exception):
    """No answer came; the text says why."""


@dataclass(frozen=True)
class Answer:
    """What a server answered."""

    status: int
    reason: str
    headers: Mapping[str, str]
    text: str
    """The beginning of the body."""


class Connection:
    """A kept-alive connection to one server. Not for use by two threads at once."""

    def __init__(self, origin: str, ca_file: str | None = None) -> None:
        """Speak to the server of `origin` (scheme, host, port), trusting `ca_file`, or the usual certificates."""
        self._session = requests.Session()
        self._session.headers.update({"User-Agent": f"heat-config-agent/{__version__}", "Accept-Encoding": "identity"})
        found = self._session.merge_environment_settings(origin, {}, True, ca_file or True, None)
        self._session.trust_env = False
        self._session.proxies = found["proxies"]
        self._session.verify = found["verify"]

    def send(self, verb: str, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        """Send one request and return the answer, whatever its status. Raises UnreachableError."""
        deadline = time.monotonic() + TOTAL_SECONDS
        try:
            request = self._session.prepare_request(requests.Request(verb, url, data=body, headers=dict(headers)))
            request.url = url  # it is signed: exactly as given, not as requests would write it
            response = self._session.send(
                request,
                timeout=(CONNECT_SECONDS, READ_SECONDS),
                allow_redirects=False,
                stream=True,
                proxies=self._session.proxies,
                verify=self._session.verify,
            )
            with contextlib.closing(response):
                return Answer(
                    response.status_code, response.reason or "", response.headers, _beginning(response, deadline)
                )
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise UnreachableError(_cause(error)) from error


def _beginning(response: requests.Response, deadline: float) -> str:
    """Read the beginning of the body as it came: never decompressed, so no answer grows in memory."""
    body = b""
    try:
        while len(body) < ANSWER_LIMIT and time.monotonic() < deadline:
            part = response.raw.read(min(4096, ANSWER_LIMIT - len(body)), decode_content=False)
            if not part:
                break
            body += part
    except (urllib3.exceptions.HTTPError, OSError):
        pass  # the status is what counts, and it is here
    return body.decode("utf-8", "replace")


def _cause(error: BaseException) -> str:
    """Return the innermost reason of an error in a few words, without the URL: it is a secret."""
    if isinstance(error, requests.exceptions.ConnectTimeout):
        return f"no connection within {CONNECT_SECONDS:g} s"
    if isinstance(error, requests.exceptions.Timeout):
        return f"no answer within {READ_SECONDS:g} s"
    if isinstance(
        error, requests.exceptions.InvalidURL | requests.exceptions.MissingSchema | requests.exceptions.InvalidSchema
    ):
        return "its URL cannot be understood"
    seen: BaseException = error
    while True:
        inner = seen.__cause__ or seen.__context__ or getattr(seen, "reason", None)
        if not isinstance(inner, BaseException):
            break
        seen = inner
    if isinstance(seen, OSError) and seen.strerror:
        return seen.strerror
    return f"{type(seen).__name__}"
