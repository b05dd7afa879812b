"""The metadata of a server at a signed URL: an object in Swift, which Heat replaces whenever the metadata changes."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit

from heat_config_agent.errors import AccessError, SourceError, UnreachableError
from heat_config_agent.metadata import kind_of
from heat_config_agent.model import Document
from heat_config_agent.sources import Reach
from heat_config_agent.sources.before import Before
from heat_config_hooks import strict_json

if TYPE_CHECKING:
    from heat_config_agent import web

SETTLED_SECONDS = 2.0
"""How old a thing must have been when it was fetched for its date to tell it from what came after it.

The date has whole seconds."""

_TAG = re.compile(r"[!-~]{1,1024}")
_PLACE = re.compile(r"[\w.:\[\]-]{1,255}", re.ASCII)

_HINTS = {
    401: "has the URL expired, or has Swift's key for signed URLs been changed?",
    403: "has the URL expired, or has Swift's key for signed URLs been changed?",
    404: "is the stack still there?",
    410: "is the stack still there?",
}


class Request:
    """What is at a URL. It is asked for only if it has changed: when nothing has, that costs one small request."""

    name = "request"
    trouble = ""

    def __init__(self, values: Mapping[str, object], reach: Reach) -> None:
        """Ask for what is at the URL that the settings name."""
        self._url = str(values["metadata_url"])
        self._reach = reach
        self._connection: web.Connection | None = None
        self._conditions: Mapping[str, str] = {}
        """The headers that ask for nothing but what is newer than `_document`."""
        self._before = Before()
        """The bytes that `_document` was read from."""
        self._document: Document | None = None

    def collect(self) -> Document:
        """Fetch the metadata: the very document of the last time, where nothing has changed."""
        whence = f"the signed URL at {host(parts(self._url, '[request]'))}"
        answer = self._fetch(whence)
        if answer.status == 304 and self._document is not None:
            return self._document
        if answer.status != 200:
            kind = AccessError if answer.status in (401, 403) else SourceError
            hint = _HINTS.get(answer.status, "") or redirected(answer, "[request]")
            raise kind(f"cannot get the metadata from {whence}: {said(answer)}", hint=hint)
        if self._document is None or not self._before.is_same(answer.body):
            self._document = Document(source=self.name, content=metadata(_text(answer.body, whence), whence))
            self._before.keep(answer.body)
        self._conditions = _conditions(answer.headers)
        return self._document

    def _fetch(self, whence: str) -> web.Answer:
        from heat_config_agent import web  # noqa: PLC0415  # 50 ms, for those who have this source

        seconds = self._reach.seconds
        if self._connection is None:
            server = origin(parts(self._url, "[request]"))
            self._connection = web.Connection(server, self._reach.ca_file, seconds=seconds)
        try:
            return self._connection.fetch(self._url, self._conditions, seconds)
        except UnreachableError as error:
            raise SourceError(f"cannot get the metadata from {whence}: {error.brief}", hint=error.hint) from error


def _conditions(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that ask for what is newer than an answer.

    One at most: where there are two, Swift takes it for unchanged if either says so, and a date says so of all that
    came in the same second.
    """
    tag = headers.get("ETag", "").strip()
    if _TAG.fullmatch(tag):
        return {"If-None-Match": tag}
    changed, now = (moment(headers.get(name, "")) for name in ("Last-Modified", "Date"))
    if changed is not None and now is not None and now - changed >= SETTLED_SECONDS:
        return {"If-Modified-Since": headers["Last-Modified"].strip()}
    return {}


def moment(date: str) -> float | None:
    """Return the seconds since the epoch of a date in a header; None where it is none."""
    try:
        return parsedate_to_datetime(date).timestamp()
    except (TypeError, ValueError, OverflowError, IndexError):
        return None


def _text(body: bytes, whence: str) -> str:
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SourceError(f"cannot read the metadata from {whence}: byte {error.start} is no UTF-8") from None


def metadata(text: str, whence: str) -> dict[str, object]:
    """Return the metadata that JSON text stands for. Raises SourceError, in which it is from `whence`."""
    cannot = f"cannot read the metadata from {whence}"
    if not text.strip():
        raise SourceError(f"{cannot}: it is empty")
    try:
        found = strict_json.loads(text)
    except json.JSONDecodeError as error:
        raise SourceError(f"{cannot}: it is no JSON: line {error.lineno}, column {error.colno}: {error.msg}") from None
    except ValueError as error:
        raise SourceError(f"{cannot}: {error}") from None
    if not isinstance(found, dict):
        raise SourceError(f"{cannot}: expected an object, not {kind_of(found)}")
    return found


def parts(url: str, section: str) -> SplitResult:
    """Return the parts of a URL that can be asked. Raises SourceError, which names the section it is set in."""
    try:
        found = urlsplit(url)
        usable = bool(found.hostname) and found.port != 0
    except ValueError:
        usable = False
    if not usable or found.scheme not in ("http", "https"):
        raise SourceError("the URL of the metadata cannot be understood", hint=f"correct metadata_url of {section}")
    return found


def host(url: SplitResult) -> str:
    """Return the host of a URL, and the port if it has one."""
    return url.netloc.rpartition("@")[2]


def origin(url: SplitResult) -> str:
    """Return the part of a URL that names the server."""
    return f"{url.scheme}://{host(url)}"


def said(answer: web.Answer) -> str:
    """Return what a server answered, in words. None of them are its own: it might repeat what is secret."""
    status = f"HTTP {answer.status} {http.client.responses.get(answer.status, '')}".rstrip()
    if answer.status not in (301, 302, 303, 307, 308):
        return f"it answers {status}"
    try:
        to = urlsplit(answer.headers.get("Location", ""))
    except ValueError:
        to = urlsplit("")
    known = to.scheme in ("http", "https") and _PLACE.fullmatch(host(to))
    return f"it sends us to {origin(to) if known else 'another place on it'} ({status})"


def redirected(answer: web.Answer, section: str) -> str:
    """Return a hint where the server sends us elsewhere, else nothing."""
    if answer.status not in (301, 302, 303, 307, 308):
        return ""
    return f"nobody is followed elsewhere with what is signed: is metadata_url of {section} right?"
