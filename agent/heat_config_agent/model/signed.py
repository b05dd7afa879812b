"""Signed lists of digests, and the evidence that something was signed. Pure: `signing` asks ssh-keygen.

A signed list has a line for each thing, as sha256sum writes it, and below the lines an armored signature of them.
"""

from __future__ import annotations

import binascii
import hashlib
import json
import posixpath
import re
from collections.abc import Iterable, Mapping

FILES = "heat-config-files"
"""The namespace of signatures of lists of files."""
CONFIGS = "heat-config-configs"
"""The namespace of signatures of lists of configs."""
GIT = "git"
"""The namespace of git's signatures of commits and tags."""

SUFFIX = ".signed"
"""The end of the name of a signed list: it stands next to the file that it is for."""

BEGIN, END = "-----BEGIN SSH SIGNATURE-----", "-----END SSH SIGNATURE-----"

LARGEST = 1024 * 1024
"""Maximum length of a signed list in characters."""

MOST_LISTS = 50
"""The most lists of configs in a document that are looked at. Each costs a start of ssh-keygen before each run."""

_ARMORED = re.compile(rf"{BEGIN}\n((?:[A-Za-z0-9+/=]{{1,1000}}\n)+){END}\n?")

_LINE = re.compile(r"([0-9a-f]{64})  ([^\x00-\x1f\x7f]{1,20000})\n")


def evidence(namespace: str, signed: str) -> str:
    """Return the evidence that is kept with a deployment: a signed text, and the namespace of its signature."""
    return f"{namespace}\n{signed}"


def halves(signed: str) -> tuple[str, str]:
    """Return the text that was signed, and its armored signature. Raises ValueError.

    A signature has one form, apart from the length of its lines, and nothing may follow it.
    """
    position = signed.rfind(BEGIN)
    if position < 0:
        raise ValueError("it has no signature")
    if len(signed) > LARGEST:
        raise ValueError(f"it is longer than {LARGEST} characters")
    text, signature = signed[:position], signed[position:]
    armored = _ARMORED.fullmatch(signature)
    body = armored[1].replace("\n", "") if armored else ""
    try:
        exact = (
            armored
            and binascii.b2a_base64(binascii.a2b_base64(body), newline=False).decode()
            == body
        )
    except ValueError:
        exact = False
    if not exact:
        raise ValueError(
            "its signature is not in the form in which ssh-keygen writes it, or something follows it"
        )
    return text, signature


def _listed(signed: str) -> list[tuple[str, str]]:
    """Return the names and digests in a signed list. Raises ValueError.

    Only a list of the exact form is read, so that nothing can be hidden in it.
    """
    text = halves(signed)[0]
    listed: list[tuple[str, str]] = []
    position = 0
    while match := _LINE.match(text, position):
        listed.append((match[2], match[1]))
        position = match.end()
    if position != len(text) or not listed:
        raise ValueError(
            "it is not a list of digests and names, as sha256sum writes it"
        )
    return listed


def files(signed: str) -> dict[str, str]:
    """Return the digests of files in a signed list by name, a path relative to the folder of the list.

    Raises ValueError.
    """
    digests: dict[str, str] = {}
    for name, digest_of in _listed(signed):
        if name in digests:
            raise ValueError(f"it has the name {name} twice")
        if name.startswith("/") or posixpath.normpath(name) != name:
            raise ValueError(
                f"it has the name {name}, which is not a plain path relative to the list"
            )
        digests[name] = digest_of
    return digests


def configs(signed: str) -> dict[str, frozenset[str] | None]:
    """Return the declared inputs of each config in a signed list, by digest; None if the list does not name them.

    The names of the configs are for the reader. Raises ValueError.
    """
    found: dict[str, frozenset[str] | None] = {}
    for name, digest_of in _listed(signed):
        declared, known = _inputs(name), found.get(digest_of)
        found[digest_of] = (
            declared if known is None else known | (declared or frozenset())
        )
    return found


def config_line(digest_of: str, name: str, inputs: Iterable[str]) -> str:
    """Return the line of a config: its digest, its name for the reader, and the inputs that it declares."""
    return f"{digest_of}  {name}  {json.dumps(sorted(inputs))}\n"


def name_of(line: str) -> str:
    """Return the name in a line of a list of files or configs."""
    name = line.rstrip("\n").partition("  ")[2]
    return name if _inputs(name) is None else name.rpartition("  [")[0]


def _inputs(name: str) -> frozenset[str] | None:
    """Return the inputs at the end of a config's name; None if there are none, as in lists of earlier versions."""
    _, bracket, listed = name.rpartition("  [")
    try:
        values = json.loads(f"[{listed}") if bracket else None
    except (ValueError, RecursionError):
        return None
    is_list = isinstance(values, list) and all(
        isinstance(value, str) for value in values
    )
    return frozenset(values) if is_list and values is not None else None


def digest(content: bytes) -> str:
    """Return the digest of a file."""
    return hashlib.sha256(content).hexdigest()


def config_digest(tool: str, config: object, options: Mapping[str, object]) -> str:
    """Return the digest of a config with its tool and its options."""
    values = {"tool": tool, "config": config, "options": options}
    text = json.dumps(values, sort_keys=True, separators=(",", ":"), default=str)
    return digest(text.encode("utf-8", "surrogatepass"))


def lists_in(value: object) -> tuple[str, ...]:
    """Return the evidence for configs in the value that a document has for it: one signed list, or several."""
    texts = value[:MOST_LISTS] if isinstance(value, list) else [value]
    return tuple(evidence(CONFIGS, each) for each in texts if isinstance(each, str))
