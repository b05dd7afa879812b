"""Searches a text for many words at once."""

from __future__ import annotations

from bisect import bisect_right

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeAlias

    Spans: TypeAlias = list[tuple[int, int]]
    """Places in bytes: the index of the first byte, and the index after the last one."""

_FEW = 16
"""Up to this number, searching for the words one by one is faster than searching for all at once."""

_PARTS = 131_072
"""The most parts of words that are kept in the lookup table. The more parts it has, the fewer places are looked at."""

_LONGEST_PART = 32
"""The parts of a word are taken from this many bytes at its beginning."""


class Words:
    """Words that are searched for together."""

    def __init__(self, words: set[bytes]) -> None:
        """Prepare the search: words of similar length are searched for together."""
        self.longest = max(map(len, words), default=0)
        self._sorted = sorted(words)
        self._signs = {word[:1] for word in words if not word[:1].isalnum()}
        """The first bytes of words that are neither letters nor digits."""
        self._groups: list[_Few | _Many] = []
        for least, most in ((1, 8), (8, 16), (16, self.longest + 1)):
            group = [word for word in self._sorted if least <= len(word) < most]
            if group:
                self._groups.append(_Few(group) if len(group) <= _FEW else _Many(group))

    def __bool__(self) -> bool:
        """Return True if there are any words."""
        return bool(self._sorted)

    def spans(self, data: bytes) -> Spans:
        """Return the spans of all words in a text, in no order."""
        return [span for group in self._groups for span in group.spans(data)]

    def occur(self, data: bytes) -> bool:
        """Return True if a text contains any of the words."""
        return any(True for group in self._groups for _ in group.spans(data))

    def begun(self, data: bytes) -> int:
        """Return how many bytes at the end of a text are the beginning of a word, but not the whole word."""
        for length in range(min(self.longest - 1, len(data)), 0, -1):
            if self.begin_with(data[len(data) - length :]):
                return length
        return 0

    def begin_as(self, sign: bytes) -> bool:
        """Return True if a word may begin with an escape whose first byte is `sign`."""
        if sign in (b"'", b'"'):
            return sign in self._signs
        return bool(self._signs & {b" ", b"\n"} if sign == b"\n" else self._signs)

    def begin_with(self, beginning: bytes) -> bool:
        """Return True if a word begins with these bytes."""
        place = bisect_right(self._sorted, beginning)
        return place < len(self._sorted) and self._sorted[place].startswith(beginning)


class _Few:
    """A few words, searched for one by one."""

    def __init__(self, words: list[bytes]) -> None:
        self._words = words

    def spans(self, data: bytes) -> Iterator[tuple[int, int]]:
        for word in self._words:
            position = data.find(word)
            while position >= 0:
                yield position, position + len(word)
                position = data.find(word, position + len(word))


class _Many:
    """Many words. A table of their parts is looked up at every few bytes of a text.

    All parts have one length, and any place of a word contains one of its parts at a position that is looked up.
    """

    def __init__(self, words: list[bytes]) -> None:
        least = min(_LONGEST_PART, *map(len, words))
        self._step = step = max(min(least // 2, _PARTS // len(words)), 1)
        self._size = size = least - step + 1
        self._parts: dict[bytes, bytes | _Alike] = {}
        several: dict[bytes, list[bytes]] = {}
        for word in words:
            for offset in range(step):
                part = word[offset : offset + size]
                other = self._parts.setdefault(part, word)
                if isinstance(other, bytes) and other is not word:
                    several.setdefault(part, [other]).append(word)
        for part, alike in several.items():
            self._parts[part] = _Alike(alike)

    def spans(self, data: bytes) -> Iterator[tuple[int, int]]:
        size, parts = self._size, self._parts
        last = len(data) - size + 1
        for position in [
            at for at in range(0, last, self._step) if data[at : at + size] in parts
        ]:
            owner = parts[data[position : position + size]]
            for begin in range(position, max(position - self._step, -1), -1):
                if isinstance(owner, bytes):
                    if data.startswith(owner, begin):
                        yield begin, begin + len(owner)
                elif length := owner.length(data, begin):
                    yield begin, begin + length


class _Alike:
    """Words that have a part in common."""

    def __init__(self, words: list[bytes]) -> None:
        self._words = sorted(set(words))
        self._longest = max(map(len, words))
        self._shorter: list[int] = []
        """For each word, the index of the longest other word that is a prefix of it; -1 for none."""
        for word in self._words:
            place = len(self._shorter) - 1
            while place >= 0 and not word.startswith(self._words[place]):
                place = self._shorter[place]
            self._shorter.append(place)

    def length(self, data: bytes, begin: int) -> int:
        """Return the length of the longest of the words at a position of a text; 0 for none."""
        place = bisect_right(self._words, data[begin : begin + self._longest]) - 1
        while place >= 0 and not data.startswith(self._words[place], begin):
            place = self._shorter[place]
        return len(self._words[place]) if place >= 0 else 0
