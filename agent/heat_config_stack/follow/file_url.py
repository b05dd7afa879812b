"""A file at a URL of https as a source: a template, a document, or an archive, which is unpacked."""

from __future__ import annotations

import base64
import hashlib
import io
import os
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from heat_config_agent import web
from heat_config_agent.model import signed
from heat_config_agent.model.errors import SourceError, UnreachableError, UsageError
from heat_config_agent.runs.artifacts import archives, trees
from heat_config_stack.follow.allowance import Allowance
from heat_config_stack.follow.demand import Demand
from heat_config_stack.follow.origin import Origin

_ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")


class FileUrl:
    """The file at a URL. It is sent again only if it has changed. Its signed list is at the URL with `.signed`."""

    demand: Demand | None = None
    evidence = ""

    def __init__(self, origin: Origin) -> None:
        """Follow the URL in the settings."""
        self._origin = origin
        parts = urlsplit(origin.url)
        self._host = parts.netloc
        self._server = web.Connection(
            f"{parts.scheme}://{parts.netloc}", origin.ca_file, seconds=origin.seconds
        )
        self._allowance = Allowance(origin.seconds)
        self._tag = ""
        """The ETag of the newest answer."""
        self._content = b""
        self._revision = ""
        """The digest of the newest answer; empty before the first one."""

    def newest(self) -> str:
        """Return the digest of the file."""
        self._allowance.begin()
        headers = {"If-None-Match": self._tag} if self._tag and self._revision else {}
        answer = self._ask(headers)
        if answer.status == 304 and self._revision:
            return self._revision
        if answer.status != 200:
            raise SourceError(
                f"{self._host} answers HTTP {answer.status} {answer.reason}".rstrip()
            )
        if answer.is_page:
            raise SourceError(f"{self._host} answers with a web page")
        if len(answer.body) > self._origin.size:
            raise UsageError(
                f"the revision is larger than {self._origin.size} bytes",
                hint="size_limit sets how large it may be",
            )
        self._tag = answer.headers.get("ETag", "").strip()
        self._revision = f"sha256:{hashlib.sha256(answer.body).hexdigest()}"
        self._content = answer.body
        return self._revision

    def fetch(self, revision: str, tree: Path) -> str:
        """Put the file into an empty folder, or the content of an archive."""
        if not self._content:
            # of a revision that was carried out, only the digest is kept
            self._revision = ""
            revision = self.newest()
        name = _file_name(self._origin.url)
        content, self._content = self._content, b""
        self.evidence = self._signature(name, content) if self.demand else ""
        if name.endswith(_ARCHIVES):
            archives.unpack(io.BytesIO(content), tree, trees.Budget(self._origin.size))
        else:
            (tree / name).write_bytes(content)
        return revision

    def _signature(self, name: str, content: bytes) -> str:
        """Return the evidence that the file is signed. Raises UsageError, SourceError."""
        url = urlsplit(self._origin.url)
        answer = self._ask({}, url._replace(path=url.path + signed.SUFFIX).geturl())
        shown = f"{name}{signed.SUFFIX}"
        if answer.status == 404:
            raise UsageError(f"{name} is not signed: there is no {shown} next to it")
        if answer.status != 200 or self.demand is None:
            raise SourceError(
                f"{self._host} answers HTTP {answer.status} {answer.reason}".rstrip()
            )
        evidence = signed.evidence(
            signed.FILES, answer.body.decode("utf-8", "surrogateescape")
        )
        self.demand.require(evidence, shown)
        try:
            digests = signed.files(evidence.partition("\n")[2])
        except ValueError as error:
            raise UsageError(f"cannot use {shown}: {error}") from None
        if digests.get(name) != signed.digest(content):
            raise UsageError(
                f"{shown} signs another version of {name}", hint="upload both together"
            )
        return evidence

    def _ask(self, headers: Mapping[str, str], url: str = "") -> web.Answer:
        if self._origin.token:
            pair = f"{self._origin.user}:{self._origin.token}".encode()
            headers = {
                **headers,
                "Authorization": f"Basic {base64.b64encode(pair).decode()}",
            }
        try:
            return self._server.fetch(
                url or self._origin.url, headers, self._allowance.seconds
            )
        except UnreachableError as error:
            raise SourceError(f"{self._host} does not answer: {error}") from error


def _file_name(url: str) -> str:
    """Return the name of the file at a URL; `document` if it has no usable one."""
    name = PurePosixPath(unquote(urlsplit(url).path)).name
    usable = (
        name
        and not name.startswith(".")
        and os.sep not in name
        and name.isprintable()
        and len(name) <= 100
    )
    return name if usable else "document"
