"""The sources that a stack can follow: each knows its newest revision, and writes its files into a folder."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from heat_config_agent.model import signed
from heat_config_agent.model.errors import SourceError, UsageError
from heat_config_agent.runs.artifacts import trees
from heat_config_stack.follow.demand import Demand
from heat_config_stack.follow.origin import Origin


class Source(Protocol):
    """A source that a stack follows."""

    demand: Demand | None
    """The policy's demands on the next revision that is fetched; None for no demand."""
    evidence: str
    """The evidence that the last fetched revision is signed as a whole; empty if there is none or none was demanded."""

    def newest(self) -> str:
        """Return the newest revision. Raises SourceError if the source does not answer."""

    def fetch(self, revision: str, tree: Path) -> str:
        """Put the files of a revision into an empty folder, and return the revision that was fetched.

        It is another one if the source has changed since. Raises SourceError if the source does not answer, and
        UsageError if the revision cannot be used.
        """


def source(origin: Origin, folder: Path) -> Source:
    """Return the source at a URL or a path; `folder` is for what it keeps. Raises UsageError."""
    if origin.url.startswith("/"):
        return Local(origin)
    try:
        parts = urlsplit(origin.url)
        has_secret = bool(parts.password) or (
            parts.scheme in ("http", "https", "oci", "oci+http")
            and bool(parts.username)
        )
    except ValueError as error:
        raise UsageError(
            "the URL of the source cannot be understood", hint="correct url"
        ) from error
    if has_secret:
        raise UsageError(
            "the URL of the source has a user or a password",
            hint="set user and token instead",
        )
    if parts.scheme in ("ssh", "git", "file") or (
        parts.scheme in ("http", "https") and parts.path.endswith(".git")
    ):
        from heat_config_stack.follow.git import Git  # noqa: PLC0415  # only where a repository is followed

        return Git(origin, folder)
    if parts.scheme in ("http", "https") and parts.hostname:
        from heat_config_stack.follow.file_url import FileUrl  # noqa: PLC0415  # only where a URL is followed

        return FileUrl(origin)
    if parts.scheme in ("oci", "oci+http"):
        from heat_config_stack.follow.oci import Oci  # noqa: PLC0415  # only where an artifact is followed

        return Oci(origin)
    raise UsageError(
        f"no source has a URL of {parts.scheme or 'this form'}",
        hint="it begins with https, ssh, git, file, oci or /",
    )


class Local:
    """A file or a folder of this machine. A signed list next to its template or document is for it.

    With a file, the list next to it is copied too.
    """

    demand: Demand | None = None
    evidence = ""

    def __init__(self, origin: Origin) -> None:
        """Follow the path in the settings."""
        self._path, self._size = Path(origin.url), origin.size

    def newest(self) -> str:
        """Return the digest of the content."""
        try:
            digests = [
                trees.digest(path, trees.Budget(self._size)) for path in self._paths()
            ]
        except OSError as error:
            raise SourceError(
                f"cannot read {error.filename or self._path}: {error.strerror}"
            ) from error
        if len(digests) == 1:
            return digests[0]
        return f"sha256:{hashlib.sha256(' '.join(digests).encode()).hexdigest()}"

    def _paths(self) -> list[Path]:
        listed = self._path.with_name(self._path.name + signed.SUFFIX)
        return (
            [self._path, listed]
            if self._path.is_file() and listed.is_file()
            else [self._path]
        )

    def fetch(self, revision: str, tree: Path) -> str:  # noqa: ARG002  # it has only the newest one
        """Copy the content."""
        before = self.newest()
        try:
            for path in self._paths():
                trees.copy(path, tree, trees.Budget(self._size))
        except OSError as error:
            raise SourceError(
                f"cannot copy {error.filename or self._path}: {error.strerror}"
            ) from error
        if self.newest() != before:
            raise SourceError(f"{self._path} was changed while it was copied")
        return before
