"""Fetches the artifacts of a deployment into a folder, and verifies each of them before anything uses it."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO
from urllib.parse import unquote, urljoin, urlsplit

from heat_config_agent import web
from heat_config_agent.model.errors import UnreachableError, UsageError, obstacle
from heat_config_agent.runs.artifacts import archives, trees
from heat_config_agent.runs.artifacts.cache import Cache
from heat_config_agent.settings.in_force import refused_url
from heat_config_agent.web.answers import Arriving
from heat_config_hooks.artifacts import Artifact
from heat_config_hooks.values import dataclass

LONGEST_SECONDS = 3600.0
"""The timeout of each request, if the deployment itself has none."""

_REDIRECTS = 5
_ARRIVING = ".arriving"
"""The name of a file that is not verified yet, next to the folder of the artifacts."""


class ArtifactError(Exception):
    """An artifact cannot be had; the text says which one and why."""


@dataclass(frozen=True, kw_only=True)
class Means:
    """The parts with which artifacts are fetched."""

    cache: Path
    """The folder of the cache."""
    size: int
    """The most bytes of the artifacts of a deployment, as they are and unpacked, and of the cache."""
    ca_file: str | None
    """The trusted certificates; None for the default ones."""


def fetch(artifacts: Sequence[Artifact], folder: Path, means: Means) -> None:
    """Put artifacts into a folder, which does not exist yet, each as it says.

    Raises ArtifactError; then nothing that was fetched is left, but in the cache.
    """
    budget = trees.Budget(
        means.size, "the artifacts of the deployment are", "keep_size"
    )
    try:
        folder.mkdir(mode=0o700)
        for number, artifact in enumerate(artifacts):
            with _blamed(number, artifact):
                _place(artifact, folder, means, budget)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    finally:
        folder.with_name(_ARRIVING).unlink(missing_ok=True)
        Cache(means.cache).trim(means.size)


@contextlib.contextmanager
def _blamed(number: int, artifact: Artifact) -> Iterator[None]:
    """Turn errors into ArtifactError. Of the URL only the host is shown: the rest of it may be a secret."""
    name = f"artifacts[{number}] from {urlsplit(artifact.url).hostname}"
    try:
        yield
    except UnreachableError as error:
        raise ArtifactError(f"cannot fetch {name}: {error}") from error
    except UsageError as error:
        raise ArtifactError(f"cannot use {name}: {error}") from error
    except OSError as error:
        raise ArtifactError(f"cannot store {name}: {obstacle(error)}") from error


def _place(
    artifact: Artifact, folder: Path, means: Means, budget: trees.Budget
) -> None:
    """Put an artifact where it belongs: out of the cache, or from its server."""
    cache, arriving = Cache(means.cache), folder.with_name(_ARRIVING)
    with cache.opened(artifact.sha256) as kept:
        if kept is not None:
            _use(artifact, kept, folder, budget)
            return
    arriving.unlink(missing_ok=True)
    descriptor = os.open(
        arriving,
        os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC,
        0o600,
    )
    with os.fdopen(descriptor, "r+b") as file:
        digest = _download(artifact.url, file, means, budget.left)
        if digest != artifact.sha256:
            raise UsageError(f"its SHA-256 digest is {digest}, not {artifact.sha256}")
        file.seek(0)
        cache.add(arriving, artifact.sha256)
        cache.trim(means.size)
        _use(artifact, file, folder, budget)


def _use(
    artifact: Artifact, content: IO[bytes], folder: Path, budget: trees.Budget
) -> None:
    """Copy a file to where it belongs, or unpack it there."""
    target = folder / artifact.to
    if artifact.unpack:
        _make(folder, target)
        archives.unpack(content, target, budget)
        trees.check_links(folder, "the folder of the artifacts")
        return
    _make(folder, target.parent)
    budget.spend(os.fstat(content.fileno()).st_size, 1)
    try:
        descriptor = os.open(
            target,
            os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC,
            0o600,
        )
    except FileExistsError:
        raise UsageError(
            f"{artifact.to} is there already, from another artifact"
        ) from None
    with os.fdopen(descriptor, "wb") as file:
        shutil.copyfileobj(content, file, trees.PIECE)


def _make(folder: Path, target: Path) -> None:
    """Make a folder below another one, through no link. Raises UsageError, OSError."""
    path = folder
    for part in target.relative_to(folder).parts:
        path /= part
        if path.is_symlink() or (path.exists() and not path.is_dir()):
            raise UsageError(f"{path.relative_to(folder)} exists, and is not a folder")
        path.mkdir(mode=0o700, exist_ok=True)


def _download(url: str, file: IO[bytes], means: Means, largest: int) -> str:
    """Download a URL into a file, and return its digest. Raises UnreachableError, UsageError and OSError."""
    total, size = hashlib.sha256(), 0
    until = time.monotonic() + LONGEST_SECONDS
    for _ in range(_REDIRECTS + 1):
        with _opened(url, means.ca_file, until - time.monotonic()) as answer:
            if answer.status in (301, 302, 303, 307, 308):
                url = _redirected(url, answer.headers.get("Location", ""))
                continue
            if answer.status != 200:
                raise UnreachableError(
                    f"it answers HTTP {answer.status} {web.phrase(answer.status)}".rstrip()
                )
            while part := answer.some():
                size += len(part)
                if size > largest:
                    raise UsageError(
                        f"it is larger than {largest} bytes",
                        hint="keep_size sets how large it may be",
                    )
                total.update(part)
                file.write(part)
                if time.monotonic() > until:
                    raise UnreachableError("its answer took too long")
        file.flush()
        return total.hexdigest()
    raise UnreachableError(f"it redirects more than {_REDIRECTS} times")


@contextlib.contextmanager
def _opened(url: str, ca_file: str | None, seconds: float) -> Iterator[Arriving]:
    """Request a URL. Every request for an artifact is made here, also that to which another one was redirected.

    Raises UnreachableError, and UsageError if the policy refuses to reach the host.
    """
    if refusal := refused_url(url):
        raise UsageError(refusal)
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    connection = web.Connection(f"{parts.scheme}://{host}", ca_file)
    target = f"{parts.scheme}://{host}{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"
    with connection.opened(
        target, _credentials(parts.username, parts.password), max(seconds, 0.001)
    ) as answer:
        yield answer


def _credentials(user: str | None, password: str | None) -> Mapping[str, str]:
    if not user and not password:
        return {}
    pair = f"{unquote(user or '')}:{unquote(password or '')}".encode()
    return {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}


def _redirected(url: str, location: str) -> str:
    """Return where a redirect leads. Raises UnreachableError."""
    try:
        target = urljoin(
            url.partition("://")[0]
            + "://"
            + url.partition("://")[2].rpartition("@")[2],
            location,
        )
        parts = urlsplit(target)
        usable = bool(location and parts.hostname) and parts.scheme in (
            "https",
            urlsplit(url).scheme,
        )
    except ValueError:
        usable = False
    if not usable:
        raise UnreachableError("it redirects to a place that is not of https")
    return target
