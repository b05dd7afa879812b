"""Signed lists of digests, and the evidence that something was signed. Pure: `signing` asks ssh-keygen.

A signed list has a line for each thing, as sha256sum writes it, and below the lines an armored signature of them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping

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

_LINE = re.compile(r"([0-9a-f]{64})  ([^\x00-\x1f\x7f]{1,1000})\n")


def evidence(namespace: str, signed: str) -> str:
    """Return a signed text with the namespace in which its signature has to be: what is kept with a deployment."""
    return f"{namespace}\n{signed}"


def halves(signed: str) -> tuple[str, str]:
    """Return the text that was signed, and its armored signature. Raises ValueError."""
    position = signed.rfind(BEGIN)
    if position < 0:
        raise ValueError("it has no signature")
    if len(signed) > LARGEST:
        raise ValueError(f"it is longer than {LARGEST} characters")
    return signed[:position], signed[position:]


def digests(signed: str) -> dict[str, str]:
    """Return the digests in a signed list by name. Raises ValueError.

    Only a list of the exact form is read, so that nothing can be hidden in it.
    """
    text = halves(signed)[0]
    found: dict[str, str] = {}
    position = 0
    while match := _LINE.match(text, position):
        found[match[2]] = match[1]
        position = match.end()
    if position != len(text) or not found:
        raise ValueError("it is not a list of digests and names, as sha256sum writes it")
    return found


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
    texts = value if isinstance(value, list) else [value]
    return tuple(evidence(CONFIGS, each) for each in texts if isinstance(each, str))


def has_config(signed: str, digest: str) -> bool:
    """Return whether the evidence for configs has one with a digest. Raises ValueError."""
    return digest in digests(signed.partition("\n")[2]).values()
