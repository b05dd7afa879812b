"""Finds secrets in a text, in every form in which programs write them.

A secret is not turned into all the forms that it can take. Instead, the text is decoded in each way in which a program
may have encoded it (`forms`), and the secret is searched for in each decoded text (`search`). So a secret is found
however much of it is escaped, in either case of hexadecimal digits, and at any offset in base64. The time grows with
the length of the text plus the length of the secrets, and not with their product.

    text ─► unchanged ───────► words ─► spans in the text
        └─► unescaped ───────►   │
        └─► decoded base64 ──► ──┘
"""

from __future__ import annotations

import re

from heat_config_agent.masking import MASK
from heat_config_agent.masking.encoded import Beginnings
from heat_config_agent.masking.search import Words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from heat_config_agent.masking.forms import View
    from heat_config_agent.masking.search import Spans

WITHHELD = "*** (left out as a whole: there are too many secrets to search for)"
"""Replaces every text if there are too many secrets to search for."""

MOST_BYTES = 4 * 1024 * 1024
MOST_WORDS = 150_000
"""The limits of the secrets that are searched for. The largest input that Heat accepts stays below both. Above them, no
text is shown."""

CHUNK = 1024
"""The length in characters of the pieces into which a long secret is cut. Each piece is searched for on its own."""

_PLAIN = re.compile(rb"[A-Za-z0-9]*")
"""Text that no program has to escape."""

_SIGNS = re.compile(rb"[\\&%+'\"\n]")
"""Every escaped text contains one of these."""

_FOLDED = re.compile(rb"[\s'\"]")
"""Quotes are doubled between quotes; white space is where a long line is folded."""

_WIDEST = 8
"""The most bytes of text that one byte of a secret can take: `&quot;`, or `\\\\u0026` in JSON within JSON."""


class Secrets:
    """Texts that must not be shown."""

    def __init__(self, words: Iterable[str]) -> None:
        """Prepare the search for these secrets. If they are too many or too long, everything is hidden."""
        pieces = {
            piece.encode("utf-8", "surrogatepass")
            for word in words
            for piece in _pieces(word)
        }
        pieces.discard(b"")
        self._everything = (
            len(pieces) > MOST_WORDS or sum(map(len, pieces)) > MOST_BYTES
        )
        if self._everything:
            pieces = set()
        self._least = min(map(len, pieces), default=0)
        special = {word for word in pieces if not _PLAIN.fullmatch(word)}
        folded = {word for word in special if _FOLDED.search(word)}
        self._all = Words(pieces)
        self._special = self._all if special == pieces else Words(special)
        self._folded = self._special if folded == special else Words(folded)
        self._beginnings = Beginnings(pieces)
        self.reach = _WIDEST * self._all.longest + 64
        """The most bytes of text that one secret can take, in any form."""

    def __bool__(self) -> bool:
        """Return True if there are any secrets."""
        return self._everything or bool(self._all)

    def hide(self, text: str) -> str:
        """Return the text with `MASK` in the place of each secret."""
        if self._everything and text:
            return WITHHELD
        if not self._least or 4 * len(text) < self._least:
            return text
        data = text.encode("utf-8", "surrogatepass")
        parts, last = [], 0
        for begin, end in self.spans(data):
            parts += [data[last:begin], MASK.encode()]
            last = end
        if not parts:
            return text
        return b"".join([*parts, data[last:]]).decode("utf-8", "surrogatepass")

    def spans(self, data: bytes) -> Spans:
        """Return the spans of the secrets in a text, in order; spans that touch are merged."""
        if self._everything:
            return [(0, len(data))] if data else []
        if not self._least or len(data) < self._least:
            return []
        found = self._all.spans(data)
        for view, words in self._views(data):
            found += view.back(words.spans(view.data))
        return _merged(found)

    def begun(self, text: str) -> int:
        """Return how many characters at the end of a text may be the beginning of a secret."""
        if self._everything:
            return len(text)
        data = (
            text[-self.reach :].encode("utf-8", "surrogatepass") if self._least else b""
        )
        if not data:
            return 0
        begin = len(data) - self._all.begun(data)
        for view, words in self._views(data, growing=True):
            begin = min(begin, view.begun(words))
        return len(data[begin:].decode("utf-8", "surrogatepass"))

    def _views(
        self, data: bytes, *, growing: bool = False
    ) -> Iterator[tuple[View, Words]]:
        """Yield each decoding of a text, with the words to search for in it."""
        escaped = self._special and _SIGNS.search(data)
        encoded = growing or self._beginnings.occur(data)
        if not escaped and not encoded:
            return
        from heat_config_agent.masking import forms  # noqa: PLC0415  # most texts have no form but the plain one

        root = forms.View(data)
        for escape, within in forms.ESCAPES if escaped else ():
            view = root.read(escape, growing=growing)
            if view is None:
                continue
            yield view, self._folded if escape.folds else self._special
            for inner in within:
                if (deeper := view.read(inner, growing=growing)) is not None:
                    yield deeper, self._folded if inner.folds else self._special
        if not encoded:
            return
        unescaped = root.read(forms.IN_TEXT, growing=growing)
        for view in (root, unescaped) if unescaped is not None else (root,):
            for shift in range(4):
                yield view.decoded(shift), self._all


def _pieces(word: str) -> Iterator[str]:
    """Yield the pieces of a secret: one, unless it is long."""
    while len(word) >= 2 * CHUNK:
        yield word[:CHUNK]
        word = word[CHUNK:]
    yield word


def _merged(spans: Spans) -> Spans:
    merged: Spans = []
    for begin, end in sorted(spans):
        if merged and begin <= merged[-1][1]:
            if end > merged[-1][1]:
                merged[-1] = (merged[-1][0], end)
        else:
            merged.append((begin, end))
    return merged
