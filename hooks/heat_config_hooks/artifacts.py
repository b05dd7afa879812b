"""The option `artifacts` of a deployment: files from elsewhere that the agent fetches before the deployment runs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

from heat_config_hooks.errors import HookError
from heat_config_hooks.values import dataclass

VARIABLE = "HEAT_ARTIFACTS"
"""The variable with the folder of the artifacts."""

_KEYS = ("url", "sha256", "to", "unpack")

_FLAGS: Mapping[object, bool] = {
    True: True,
    False: False,
    None: False,
    "true": True,
    "1": True,
    "false": False,
    "0": False,
    "": False,
}


@dataclass(frozen=True, kw_only=True)
class Artifact:
    """A file that a deployment needs."""

    url: str
    sha256: str
    """The digest of the content, 64 hexadecimal digits."""
    to: str
    """The path of the file below the folder of the artifacts; the folder into which an archive is unpacked."""
    unpack: bool


def read(value: object, path: str) -> list[Artifact]:
    """Return the artifacts that an option names; `path` is its place in the deployment.

    Raises HookError for a mistake. No error repeats a value, because a URL may have a secret.
    """
    if not isinstance(value, list):
        raise HookError("expected a list of objects with url and sha256", path)
    artifacts = [
        _artifact(item, f"{path}[{number}]") for number, item in enumerate(value)
    ]
    first: dict[str, int] = {}
    for number, artifact in enumerate(artifacts):
        if artifact.unpack:
            continue
        earlier = first.setdefault(artifact.to, number)
        if earlier != number:
            raise HookError(
                "another artifact goes to the same file: set `to`", f"{path}[{earlier}]"
            )
    return artifacts


def _artifact(item: object, path: str) -> Artifact:
    if not isinstance(item, Mapping):
        raise HookError("expected an object with url and sha256", path)
    for key in item:
        if key not in _KEYS:
            raise HookError(f"an artifact has only {', '.join(_KEYS)}", f"{path}.{key}")
    url, digest, to, unpack = (item.get(key) for key in _KEYS)
    if not isinstance(url, str) or not _is_url(url):
        raise HookError(
            "expected a URL that begins with https:// or http://", f"{path}.url"
        )
    if not isinstance(digest, str) or not re.fullmatch("[0-9a-fA-F]{64}", digest):
        raise HookError(
            "expected the SHA-256 digest, as 64 hexadecimal digits", f"{path}.sha256"
        )
    flag = unpack.lower() if isinstance(unpack, str) else unpack
    if not (isinstance(flag, int | str) or flag is None) or flag not in _FLAGS:
        raise HookError("expected true or false", f"{path}.unpack")
    if to in (None, "") and not _FLAGS[flag]:
        to = unquote(urlsplit(url).path.rpartition("/")[2])
        if not _is_inside(to) or not to:
            raise HookError("the URL ends with no name of a file: set `to`", path)
    if not isinstance(to or "", str) or not _is_inside(to or ""):
        raise HookError(
            f"expected a path below ${VARIABLE}, without «..»", f"{path}.to"
        )
    parts = [part for part in str(to or "").split("/") if part not in ("", ".")]
    if not parts and not _FLAGS[flag]:
        raise HookError(
            "expected the path of a file, and not of a folder", f"{path}.to"
        )
    return Artifact(
        url=url, sha256=digest.lower(), to="/".join(parts), unpack=_FLAGS[flag]
    )


def _is_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        known = (
            parts.scheme in ("https", "http")
            and bool(parts.hostname)
            and parts.port != 0
        )
    except ValueError:
        return False
    return known and url.isprintable() and " " not in url


def _is_inside(path: str) -> bool:
    names = path.split("/")
    short = len(names) <= 50 and all(
        len(name.encode("utf-8", "replace")) <= 255 for name in names
    )
    return (
        short and not path.startswith("/") and ".." not in names and path.isprintable()
    )
