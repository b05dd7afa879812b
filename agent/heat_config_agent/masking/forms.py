"""Decodes a text in each way in which a program may have encoded it, and maps places back to the text itself."""

from __future__ import annotations

import binascii
import functools
import re

from heat_config_agent.masking.encoded import LETTERS, OTHERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from heat_config_agent.masking.search import Spans, Words


class Escape:
    """One way in which programs escape characters."""

    def __init__(
        self,
        written: bytes,
        meant: Callable[[re.Match[bytes]], bytes],
        needs: tuple[bytes, ...],
        half: bytes,
        *,
        folds: bool = False,
    ) -> None:
        """Describe the escape.

        `written` is the pattern of an escape, and `meant` returns the bytes that a match stands for.
        Every text with such an escape contains one of `needs`.
        `half` is the pattern of an incomplete escape at the end of a text.
        `folds` is True if only white space and quotes are escaped.
        """
        self._written, self.meant, self._needs, self._half, self.folds = (
            written,
            meant,
            needs,
            half,
            folds,
        )

    def is_likely(self, data: bytes) -> bool:
        """Return False if a text certainly contains no such escape."""
        # A single byte is found many times as fast as several, and it is mostly absent.
        return any(sign[:1] in data and sign in data for sign in self._needs)

    @functools.cached_property
    def written(self) -> re.Pattern[bytes]:
        """The compiled pattern of an escape."""
        return re.compile(self._written)

    @functools.cached_property
    def half(self) -> re.Pattern[bytes]:
        """The compiled pattern of an incomplete escape at the end of a text."""
        return re.compile(rb"(?:" + self._half + rb")\Z")


class View:
    """A decoded text, with the way back to the places in the text that it was decoded from."""

    def __init__(
        self,
        data: bytes,
        origin: View | None = None,
        escape: Escape | None = None,
        half: int = 0,
    ) -> None:
        """Hold `data`, which was decoded from `origin`: by removing an escape, or else from base64.

        `half` is the number of bytes at the end of the origin that were left out because they may be an incomplete
        escape. With base64, it is the number of characters that were left out at the beginning.
        """
        self.data, self._origin, self._escape, self._half = data, origin, escape, half

    def read(self, escape: Escape, *, growing: bool = False) -> View | None:
        """Return the text with the escapes of one kind decoded; None if it has none.

        With `growing`, more text may follow, so a possibly incomplete escape at the end is left out.
        """
        half = (
            escape.half.search(self.data, max(len(self.data) - _HALF, 0))
            if growing
            else None
        )
        if half is None and not escape.is_likely(self.data):
            return None
        data = self.data if half is None else self.data[: half.start()]
        read = escape.written.sub(escape.meant, data)
        return (
            View(read, self, escape, len(self.data) - len(data))
            if read != self.data
            else None
        )

    def decoded(self, shift: int) -> View:
        """Return the text decoded from base64, without its first `shift` characters.

        All other characters are skipped: long base64 is written in lines, which may be indented, quoted or prefixed.
        """
        letters = self.data.translate(LETTERS, OTHERS)[shift:]
        read = binascii.a2b_base64(letters + b"A" * (-len(letters) % 4))
        return View(read[: len(letters) * 6 // 8], self, None, shift)

    def back(self, spans: Iterable[tuple[int, int]]) -> Spans:
        """Return the places in the original text of these places in the decoded text."""
        ordered = sorted(spans)
        if self._origin is None or not ordered:
            return ordered
        places = self._places(
            sorted({index for begin, end in ordered for index in (begin, end - 1)})
        )
        return self._origin.back(
            [(places[begin][0], places[end - 1][1]) for begin, end in ordered]
        )

    def begun(self, words: Words) -> int:
        """Return the index in the original text where a word may begin that is cut off by its end; else its length."""
        length = words.begun(self.data)
        if self._origin is None or self._escape is None:
            # A single byte from base64 proves nothing: it matches the beginning of a word too often.
            return (
                self.back([(len(self.data) - length, len(self.data))])[0][0]
                if length > 1
                else self._end()
            )
        if length:
            return self.back([(len(self.data) - length, len(self.data))])[0][0]
        end = len(self._origin.data)
        if self._half and words.begin_as(
            self._origin.data[end - self._half : end - self._half + 1]
        ):
            return self._origin.back([(end - self._half, end)])[0][0]
        return self._end()

    def _end(self) -> int:
        return len(self.data) if self._origin is None else self._origin._end()  # noqa: SLF001  # of its own class

    def _places(self, indexes: list[int]) -> dict[int, tuple[int, int]]:
        """Return the span in the origin of each of these bytes, whose indexes are in rising order."""
        data = self._origin.data if self._origin is not None else b""
        if self._escape is not None:
            return _sources(
                indexes, self._escape.written.finditer(data), self._escape.meant
            )
        letters = {
            index: (self._half + index * 8 // 6, self._half + (index * 8 + 7) // 6)
            for index in indexes
        }
        known = sorted({letter for pair in letters.values() for letter in pair})
        places = _sources(known, _GAPS.finditer(data), lambda _: b"")
        return {
            index: (places[begin][0], places[end][1])
            for index, (begin, end) in letters.items()
        }


def _sources(
    indexes: list[int],
    matches: Iterable[re.Match[bytes]],
    meant: Callable[[re.Match[bytes]], bytes],
) -> dict[int, tuple[int, int]]:
    """Return the span in the original text of each byte of the text in which `meant` has replaced the matches.

    The indexes of the bytes are in rising order.
    """
    places: dict[int, tuple[int, int]] = {}
    count, longer = 0, 0
    for match in matches:
        if count == len(indexes):
            break
        begin = match.start() - longer
        end = begin + len(meant(match))
        while count < len(indexes) and indexes[count] < end:
            index = indexes[count]
            places[index] = (
                (index + longer, index + longer + 1) if index < begin else match.span()
            )
            count += 1
        longer = match.end() - end
    places.update(
        {index: (index + longer, index + longer + 1) for index in indexes[count:]}
    )
    return places


_HALF = 16
"""An incomplete escape is searched for in this many bytes at the end of a text."""

_GAPS = re.compile(rb"[^A-Za-z0-9+/_-]+")

_NAMED = {
    bytes([letter]): bytes([meant])
    for letter, meant in zip(b"abeEfnrtv", b"\a\b\x1b\x1b\f\n\r\t\v", strict=True)
}
_NAMED |= {
    b"N": b"\xc2\x85",
    b"_": b"\xc2\xa0",
    b"L": b"\xe2\x80\xa8",
    b"P": b"\xe2\x80\xa9",
}
"""The meaning of letters after a backslash: in JSON, Python, C, `$'…'` of shells, or YAML."""

_BACKSLASH = (
    rb"\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})|\\u([0-9a-fA-F]{4})|\\U([0-9a-fA-F]{8})"
    rb"|\\x([0-9a-fA-F]{1,2})|\\([0-7]{1,3})|\\(\n *|[\s\S])"
)
_HALF_BACKSLASH = (
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?:\\(?:u[0-9a-fA-F]{0,3})?)?|\\(?:u[0-9a-fA-F]{0,3}|U[0-9a-fA-F]{0,7}"
    rb"|x[0-9a-fA-F]?|[0-7]{1,2}|\n *)?"
)


def _character(number: int) -> bytes:
    return chr(number).encode("utf-8", "surrogatepass") if number < 0x110000 else b""


def _unescaped(match: re.Match[bytes]) -> bytes:
    high, low, short, long, byte, octal, other = match.groups()
    if high:
        return _character(
            0x10000 + ((int(high, 16) & 0x3FF) << 10) + (int(low, 16) & 0x3FF)
        )
    if short or long:
        return _character(int(short or long, 16))
    if byte or octal:
        return bytes([int(byte, 16) if byte else int(octal, 8) & 0xFF])
    return b"" if other[:1] == b"\n" else _NAMED.get(other, other)


def _unescaped_text(match: re.Match[bytes]) -> bytes:
    return _character(int(match[5], 16)) if match[5] else _unescaped(match)


def _entity(match: re.Match[bytes]) -> bytes:
    decimal, hexadecimal, name = match.groups()
    if decimal or hexadecimal:
        return _character(int(decimal) if decimal else int(hexadecimal, 16))
    from html.entities import html5  # noqa: PLC0415  # few texts have any

    meant = html5.get(f"{name.decode()};")
    return meant.encode() if meant else bytes(match[0])


def _percent(match: re.Match[bytes]) -> bytes:
    return bytes([int(match[1], 16)]) if match[1] else b" "


def _single(match: re.Match[bytes]) -> bytes:
    if match[0][:1] == b"\n":
        return b"\n" * (match[0].count(b"\n") - 1) or b" "
    return bytes(match[0][:1])


def _in_text(match: re.Match[bytes]) -> bytes:
    plus, slash = match.groups()
    return b"+" if plus else b"/" if slash else b""


_BACKSLASHED_BYTES = Escape(_BACKSLASH, _unescaped, (b"\\",), _HALF_BACKSLASH)
_BACKSLASHED_TEXT = Escape(
    _BACKSLASH,
    _unescaped_text,
    tuple(b"\\x%c" % digit for digit in b"89abcdefABCDEF"),
    _HALF_BACKSLASH,
)
"""As in YAML and in Python's `repr` of text, where `\\xe4` is a character and not a byte."""
_ENTITIES = Escape(
    rb"&(?:#([0-9]{1,7})|#[xX]([0-9a-fA-F]{1,6})|([a-zA-Z][a-zA-Z0-9]{1,31}));",
    _entity,
    (b"&",),
    rb"&[#a-zA-Z0-9]*",
)
_PERCENT = Escape(rb"%([0-9a-fA-F]{2})", _percent, (b"%",), rb"%[0-9a-fA-F]?")
_FORM = Escape(rb"%([0-9a-fA-F]{2})|\+", _percent, (b"+",), rb"%[0-9a-fA-F]?")
_QUOTED = Escape(
    rb"'(?:\\'|\"'\")'",
    lambda _: b"'",
    (b"'\\''", b"'\"'\"'"),
    rb"'(?:\\'?|\"'?\"?)?",
    folds=True,
)
"""A quote between quotes, in shells."""
_TWICE = Escape(
    rb"''|\"\"|\n[\n ]* ",
    _single,
    (b"''", b'""', b"\n "),
    rb"'|\"|\n[\n ]*",
    folds=True,
)
"""A doubled quote or a folded line, in YAML."""
IN_TEXT = Escape(
    rb"(%(?:25)?2[bB]|&#43;|&#[xX]2[bB];|\\u002[bB])|(%(?:25)?2[fF]|&#47;|&#[xX]2[fF];|\\u002[fF])"
    rb"|%(?:25)?(?:0[aAdD9]|20|3[dD])|&#(?:1[03]|9|[xX]0?[aAdD9]);|\\u000[aAdD9]|\\[nrt]",
    _in_text,
    (b"\\n", b"\\r", b"\\t", b"\\u00", b"%2", b"%0", b"%3", b"&#"),
    rb"\\(?:u[0-9a-fA-F]{0,3})?|%(?:25?)?[0-9]?|&#?[0-9a-fA-FxX]{0,3}",
)
"""The escapes within base64 that is part of JSON, of a URL or of XML."""

ESCAPES: tuple[tuple[Escape, tuple[Escape, ...]], ...] = (
    (_BACKSLASHED_BYTES, (_BACKSLASHED_BYTES, _ENTITIES, _PERCENT, _QUOTED, _TWICE)),
    (_BACKSLASHED_TEXT, ()),
    (_ENTITIES, (_BACKSLASHED_BYTES, _PERCENT)),
    (_PERCENT, (_BACKSLASHED_BYTES, _ENTITIES)),
    (_FORM, ()),
    (_QUOTED, (_BACKSLASHED_BYTES,)),
    (_TWICE, (_BACKSLASHED_BYTES,)),
)
"""Each kind of escape, with the kinds that may have been applied before it."""
