"""How things are written for people: colour only on a terminal, durations in one form, columns that line up."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence

_STYLES = {"good": "32", "bad": "1;31", "quiet": "2", "warn": "33", "live": "36"}


def is_live() -> bool:
    """Whether standard output is a terminal on which a line can be written again."""
    return sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"


heard: list[str] = []
"""What was written to standard output so far."""

complaints = 0
"""How often something was written to standard error."""


def say(text: str, *, error: bool = False, end: str = "\n") -> None:
    """Write to standard output, or error, if that can be written: what is done matters more than that it is said."""
    global complaints  # noqa: PLW0603  # there is one standard error
    complaints += error
    if not error:
        heard.append(f"{text}{end}")
    stream = sys.stderr if error else sys.stdout
    try:
        print(text, end=end, file=stream, flush=True)
    except OSError:  # the reader has gone, or the disk is full
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def defect(error: BaseException | None) -> None:
    """Show what nobody has foreseen: where it happened and what kind of error it was.

    Its text is left out, as there may be values in it, and among those secrets.
    """
    import traceback  # noqa: PLC0415  # for those who need it

    lines = ["error: a defect of heat-config-agent; please report it, with these lines (values are left out)"]
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        lines += ["Traceback (most recent call last):", "".join(traceback.format_tb(error.__traceback__)).rstrip()]
        lines.append(type(error).__name__)
        error = error.__cause__ or error.__context__
    say("\n".join(lines), error=True)


def styled(text: str, style: str) -> str:
    """Return the text in one of our styles, where that can be seen and nobody has forbidden it (`NO_COLOR`)."""
    if not is_live() or os.environ.get("NO_COLOR") or style not in _STYLES:
        return text
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m"


def ask(question: str) -> str | None:
    """Return what somebody at the terminal answers; None where there is nobody."""
    if sys.stdin is None or not sys.stdin.isatty() or not sys.stderr.isatty():
        return None
    say(question, error=True, end="")
    return sys.stdin.readline()


def plain(text: str) -> str:
    """Return text that came from elsewhere without what would steer the terminal."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each in "\n\t" else "\ufffd" for each in text)


def line(text: str) -> str:
    """Return text that came from elsewhere as part of one line."""
    return text if text.isprintable() else plain(text.replace("\n", " ").replace("\t", " "))


def columns(text: str) -> int:
    """Return how many columns of a terminal a line takes."""
    if text.isascii():
        return len(text)
    import unicodedata  # noqa: PLC0415  # only where something is drawn or lined up that is not ASCII

    wide = sum(unicodedata.east_asian_width(each) in "WF" for each in text)
    return len(text) + wide - sum(unicodedata.combining(each) > 0 for each in text)


def shortened(text: str, room: int) -> str:
    """Return as much of the beginning of a line as fits into so many columns."""
    while columns(text) > room:
        text = text[: max(len(text) - max((columns(text) - room) // 2, 1), 0)]
    return text


def padded(text: str, room: int) -> str:
    """Return the line filled up to so many columns."""
    return text + " " * max(room - columns(text), 0)


def width() -> int:
    """Return the columns of the terminal."""
    import shutil  # noqa: PLC0415  # slow to load, and only for what is drawn

    return shutil.get_terminal_size((100, 24)).columns


def height() -> int:
    """Return the lines of the terminal."""
    import shutil  # noqa: PLC0415  # as above

    return shutil.get_terminal_size((100, 24)).lines


def duration(seconds: float) -> str:
    """Return a duration in few characters: 0.02 s, 12 s, 3 min 20 s, 2 h 5 min."""
    if seconds < 10:
        return f"{seconds:.2f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{seconds // 60:.0f} min {seconds % 60:.0f} s"
    return f"{seconds // 3600:.0f} h {seconds % 3600 // 60:.0f} min"


def table(rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the rows with their columns lined up, each in one line; the last column is as long as it is."""
    lines = [tuple(map(line, row)) for row in rows]
    if not lines:
        return []
    widths = [max(columns(row[column]) for row in lines) for column in range(len(lines[0]) - 1)]
    return [
        "  ".join([*(padded(cell, size) for cell, size in zip(row, widths, strict=False)), row[-1]]).rstrip()
        for row in lines
    ]


def count(number: int, noun: str) -> str:
    """Return «1 result» or «3 results»."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
