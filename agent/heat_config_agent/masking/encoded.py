"""Decides if a text may contain a secret in base64, without decoding it.

The secret itself decides: what it begins with in base64, at any of its three places in three encoded bytes. The answer
does not depend on how long the lines are or on what stands between them, because only the letters are compared.
"""

from __future__ import annotations

import binascii
import re

from heat_config_agent.masking.search import Words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

_BEGINNING = 24
"""The bytes at the beginning of a secret by which its base64 is recognised."""

_MANY = 2000
"""The number of secrets above which every text is decoded: to look for their beginnings would take as long."""

LETTERS = bytes.maketrans(b"-_", b"+/")
"""Maps the letters of base64 for URLs to the usual ones."""

OTHERS = re.sub(rb"[A-Za-z0-9+/_-]", b"", bytes(range(256)))
"""All bytes that are not letters of base64."""

_ESCAPES = (
    (b"\\u00", rb"\\u00(?:(2[bB])|(2[fF])|0[aAdD9])"),
    (b"%", rb"%(?:25)?(?:(2[bB])|(2[fF])|0[aAdD9]|20|3[dD])"),
    (b"&#", rb"&#(?:(43|[xX]2[bB])|(47|[xX]2[fF])|1[03]|9|[xX]0?[aAdD9]);"),
)
"""The escapes of `+`, `/` and white space in JSON, URLs and XML: the beginning of an escape, and its pattern."""


class Beginnings:
    """The beginnings of secrets in base64."""

    def __init__(self, secrets: Collection[bytes]) -> None:
        """Keep the letters of these secrets."""
        words = (
            {begin for secret in secrets for begin in _beginnings(secret)}
            if len(secrets) <= _MANY
            else {b""}
        )
        self._words = Words(words) if all(words) else None
        """None if every text must be decoded, because there are many secrets or one of a single byte."""

    def occur(self, data: bytes) -> bool:
        """Return False if a text certainly contains none of the secrets in base64."""
        if self._words is None or self._words.occur(data.translate(LETTERS, OTHERS)):
            return True
        read = _unescaped(data)
        return read is not data and self._words.occur(read.translate(LETTERS, OTHERS))


def _unescaped(data: bytes) -> bytes:
    if b"\\" in data:
        data = data.replace(b"\\n", b" ").replace(b"\\r", b" ").replace(b"\\t", b" ")
    for sign, pattern in _ESCAPES:
        if sign in data:
            data = re.sub(pattern, _letter, data)
    return data


def _letter(match: re.Match[bytes]) -> bytes:
    return b"+" if match[1] else b"/" if match[2] else b" "


def _beginnings(secret: bytes) -> Iterator[bytes]:
    """Yield the first letters of a secret in base64, for each number of bytes that may precede it.

    Letters that also depend on a byte before the secret or after it are left out.
    """
    word = secret[:_BEGINNING]
    for before in range(3):
        encoded = binascii.b2a_base64(bytes(before) + word, newline=False)
        yield encoded[-(-before * 8 // 6) : (before + len(word)) * 8 // 6]
