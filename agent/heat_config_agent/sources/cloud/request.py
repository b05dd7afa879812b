"""The metadata of a server at a signed URL: an object in Swift, which Heat replaces when the metadata changes."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit

from heat_config_agent.deployments.metadata import kind_of
from heat_config_agent.model.deployment import Document
from heat_config_agent.model.errors import AccessError, SourceError, UnreachableError
from heat_config_agent.sources.base import PAGE, PAGE_HINT, Reach
from heat_config_agent.sources.cloud.last_answer import LastAnswer
from heat_config_hooks import strict_json

if TYPE_CHECKING:
    from heat_config_agent import web

SETTLED_SECONDS = 2.0
"""The least age of an object at which its date, in whole seconds, tells it from the next version of it."""

_TAG = re.compile(r"[!-~]{1,1024}")
_PLACE = re.compile(r"[\w.:\[\]-]{1,255}", re.ASCII)

_EXPIRED = "the URL has expired, or Swift's key for it was changed: have the key set back, or give the agent a new URL"

_HINTS = {
    401: _EXPIRED,
    403: _EXPIRED,
    404: "does the stack still exist?",
    410: "does the stack still exist?",
}


class Request:
    """The document at a URL. It is fetched only if it has changed: otherwise a poll costs one small request."""

    name = "request"
    trouble = ""

    def __init__(self, values: Mapping[str, object], reach: Reach) -> None:
        """Prepare to poll the URL in the settings."""
        self._url = str(values["metadata_url"])
        self._reach = reach
        self._connection: web.Connection | None = None
        self._conditions: Mapping[str, str] = {}
        """The headers with which the server sends only something newer than `_document`."""
        self._last_answer = LastAnswer()
        """The answer with `_document`."""
        self._document: Document | None = None

    def collect(self) -> Document:
        """Return the metadata: the same object as before if nothing has changed."""
        whence = f"the signed URL at {host(parts(self._url, '[request]'))}"
        answer = self._fetch(whence)
        if answer.status == 304 and self._document is not None:
            return self._document
        if answer.status < 300 and answer.is_page:
            raise SourceError(
                f"cannot read the metadata from {whence}: {PAGE}", hint=PAGE_HINT
            )
        if answer.status != 200:
            kind = AccessError if answer.status in (401, 403) else SourceError
            hint = _HINTS.get(answer.status, "") or redirected(answer, "[request]")
            raise kind(
                f"cannot get the metadata from {whence}: {described(answer)}", hint=hint
            )
        if self._document is None or not self._last_answer.is_same(answer.body):
            self._document = Document(
                source=self.name, content=metadata(_text(answer.body, whence), whence)
            )
            self._last_answer.keep(answer.body)
        self._conditions = _conditions(answer.headers)
        return self._document

    def _fetch(self, whence: str) -> web.Answer:
        from heat_config_agent import web  # noqa: PLC0415  # 50 ms, only if this source is used

        seconds = self._reach.seconds
        if self._connection is None:
            server = origin(parts(self._url, "[request]"))
            self._connection = web.Connection(
                server, self._reach.ca_file, seconds=seconds
            )
        try:
            return self._connection.fetch(self._url, self._conditions, seconds)
        except UnreachableError as error:
            raise SourceError(
                f"cannot get the metadata from {whence}: {error.brief}", hint=error.hint
            ) from error


def _conditions(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of a request for something newer than an answer.

    It is one header at most: with two, Swift answers «not modified» if one of them applies, and a date applies to all
    versions of the same second.
    """
    tag = headers.get("ETag", "").strip()
    if _TAG.fullmatch(tag):
        return {"If-None-Match": tag}
    changed, now = (moment(headers.get(name, "")) for name in ("Last-Modified", "Date"))
    if changed is not None and now is not None and now - changed >= SETTLED_SECONDS:
        return {"If-Modified-Since": headers["Last-Modified"].strip()}
    return {}


def moment(date: str) -> float | None:
    """Return the date in a header as seconds since the epoch; None if it is not valid."""
    try:
        return parsedate_to_datetime(date).timestamp()
    except (TypeError, ValueError, OverflowError, IndexError):
        return None


def _text(body: bytes, whence: str) -> str:
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SourceError(
            f"cannot read the metadata from {whence}: byte {error.start} is not UTF-8"
        ) from None


def metadata(text: str, whence: str) -> dict[str, object]:
    """Return the metadata in a JSON text. Raises SourceError, whose message names `whence` as the origin."""
    cannot = f"cannot read the metadata from {whence}"
    if not text.strip():
        raise SourceError(f"{cannot}: it is empty")
    try:
        content = strict_json.loads(text)
    except json.JSONDecodeError as error:
        raise SourceError(
            f"{cannot}: it is not JSON: line {error.lineno}, column {error.colno}: {error.msg}"
        ) from None
    except ValueError as error:
        raise SourceError(f"{cannot}: {error}") from None
    if not isinstance(content, dict):
        raise SourceError(f"{cannot}: expected an object, not {kind_of(content)}")
    return content


def parts(url: str, section: str) -> SplitResult:
    """Return the parts of a URL of http or https. Raises SourceError, which names the section with the setting."""
    try:
        split = urlsplit(url)
        usable = bool(split.hostname) and split.port != 0
    except ValueError:
        usable = False
    if not usable or split.scheme not in ("http", "https"):
        raise SourceError(
            "the URL of the metadata cannot be understood",
            hint=f"correct metadata_url of {section}",
        )
    return split


def host(url: SplitResult) -> str:
    """Return the host of a URL, with its port if it has one."""
    return url.netloc.rpartition("@")[2]


def origin(url: SplitResult) -> str:
    """Return the scheme, host and port of a URL."""
    return f"{url.scheme}://{host(url)}"


def described(answer: web.Answer) -> str:
    """Return a refusal in words. None of the server's own are used, because they might repeat a secret."""
    status = (
        f"HTTP {answer.status} {http.client.responses.get(answer.status, '')}".rstrip()
    )
    if answer.status not in (301, 302, 303, 307, 308):
        return f"it answers {status}"
    try:
        to = urlsplit(answer.headers.get("Location", ""))
    except ValueError:
        to = urlsplit("")
    known = to.scheme in ("http", "https") and _PLACE.fullmatch(host(to))
    return (
        f"it redirects to {origin(to) if known else 'another place on it'} ({status})"
    )


def redirected(answer: web.Answer, section: str) -> str:
    """Return a hint if the answer is a redirect; else empty text."""
    if answer.status not in (301, 302, 303, 307, 308):
        return ""
    return f"a signed request is never redirected: is metadata_url of {section} right?"
