"""Output for people: colour only on a terminal, durations in one form, aligned columns."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence

from heat_config_agent.model import wording
from heat_config_hooks.values import dataclass

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    import argparse

line, plain, duration = wording.line, wording.plain, wording.duration
moment = wording.moment

_STYLES = {
    "good": "32",
    "bad": "1;31",
    "quiet": "2",
    "warn": "33",
    "live": "36",
    "minus": "31",
}

STATE_STYLES = {
    "waiting": "quiet",
    "running": "live",
    "ok": "good",
    "failed": "bad",
    "skipped": "quiet",
    "refused": "bad",
    "reboot": "warn",
    "drifted": "warn",
    "paused": "warn",
    "unknown": "warn",
    "warning": "warn",
}
"""The style of each word of `model.states.Shown`, which a plain run does not load."""


@dataclass
class _Options:
    """The options of all commands that change how output looks."""

    no_color: bool = False
    quiet: bool = False


_options = _Options()


def use(*, no_color: bool, quiet: bool) -> None:
    """Print without colours, or show no progress."""
    _options.no_color, _options.quiet = no_color, quiet


def shows_progress() -> bool:
    """Return whether a command shows what it waits for: on standard error, if that is a terminal."""
    return not _options.quiet and is_live(error=True)


def is_live(*, error: bool = False) -> bool:
    """Return whether standard output, or standard error, is a terminal on which lines can be drawn again."""
    stream = sys.stderr if error else sys.stdout
    return stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"


heard: list[str] = []
"""Everything that was written to standard output so far."""

complaints = 0
"""The number of writes to standard error."""


def say(text: str, *, error: bool = False, end: str = "\n") -> None:
    """Write to standard output, or to standard error. A stream that cannot be written is ignored."""
    global complaints  # noqa: PLW0603  # there is one standard error
    complaints += error
    if not error:
        heard.append(f"{text}{end}")
    stream = sys.stderr if error else sys.stdout
    try:
        print(text, end=end, file=stream, flush=True)
    except OSError:  # the reader has gone, or the disk is full
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


warnings: list[dict[str, str | None]] = []
"""The warnings so far, as JSON."""


def warn(text: str, *, hint: str = "") -> None:
    """Print a warning on standard error, and what to do about it."""
    warnings.append({"message": line(text), "hint": line(hint) or None})
    more = f" ({line(hint)})" if hint else ""
    complain(f"warning: {line(text)}{more}", "warn")


def note(text: str) -> None:
    """Print a remark on standard error that is not a warning."""
    complain(f"note: {line(text)}")


def complain(text: str, style: str = "") -> None:
    """Print a line on standard error, wrapped if that is a terminal."""
    say(styled(wrapped(text, 2, room(error=True)), style, error=True), error=True)


def defect(error: BaseException | None) -> None:
    """Print where an unforeseen error happened, and its type.

    The text of the error is left out, because it may contain secrets.
    """
    import traceback  # noqa: PLC0415  # rarely needed

    lines = [
        "error: a defect of heat-config-agent; please report it, with these lines (values are left out)"
    ]
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        lines += [
            "Traceback (most recent call last):",
            "".join(traceback.format_tb(error.__traceback__)).rstrip(),
        ]
        lines.append(type(error).__name__)
        error = error.__cause__ or error.__context__
    say("\n".join(lines), error=True)


def styled(text: str, style: str, *, error: bool = False) -> str:
    """Return the text in one of `_STYLES`, if the stream that it is for shows colours."""
    if style not in _STYLES or not has_colour(error=error):
        return text
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m"


def stated(word: str) -> str:
    """Return the word of a state in its colour; any other word is not changed."""
    return styled(word, STATE_STYLES.get(word, ""))


def has_colour(*, error: bool = False) -> bool:
    """Return whether standard output, or standard error, shows colours.

    A terminal does, unless `NO_COLOR` is set; anything does with `CLICOLOR_FORCE`.
    """
    if _options.no_color or os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("CLICOLOR_FORCE", "0") != "0":
        return True
    return is_live(error=error)


def ask(question: str) -> str | None:
    """Return the answer of the person at the terminal; None if there is no terminal."""
    if sys.stdin is None or not sys.stdin.isatty() or not sys.stderr.isatty():
        return None
    say(question, error=True, end="")
    return sys.stdin.readline()


def confirmed(question: str, options: argparse.Namespace) -> None:
    """Ask a question before something that cannot be undone, unless `--yes` is given.

    The question is a sentence without its mark, such as «delete web and everything that was created». Raises
    DeclinedError if the answer is not yes, and UsageError if there is no terminal.
    """
    if options.yes:
        return
    from heat_config_agent.model.errors import DeclinedError, UsageError  # noqa: PLC0415  # only for questions

    question = line(question)
    answer = ask(f"{question}? [y/N] ")
    if answer is None:
        raise UsageError(
            f"there is no terminal for the question «{question}?»", hint="give --yes"
        )
    if not answer.endswith(
        "\n"
    ):  # the end of the input: the cursor is still behind the question
        say("", error=True)
    if answer.strip().lower() not in ("y", "yes"):
        raise DeclinedError("nothing was done")


def columns(text: str) -> int:
    """Return the number of terminal columns that a line takes."""
    if text.isascii():
        return len(text)
    import unicodedata  # noqa: PLC0415  # only for text that is not ASCII

    wide = sum(unicodedata.east_asian_width(sign) in "WF" for sign in text)
    return len(text) + wide - sum(unicodedata.combining(sign) > 0 for sign in text)


def shortened(text: str, room: int) -> str:
    """Return the beginning of a line that fits into `room` columns."""
    while columns(text) > room:
        text = text[: max(len(text) - max((columns(text) - room) // 2, 1), 0)]
    return text


def clipped(text: str, room: int) -> str:
    """Return a line in at most `room` columns; an ellipsis marks where text is left out."""
    return text if columns(text) <= room else f"{shortened(text, max(room - 1, 0))}…"


def squeezed(text: str, room: int) -> str:
    """Return a name in at most `room` columns, without its middle if it is longer: its end distinguishes it."""
    if columns(text) <= room:
        return text
    size = min(len(text), room - 1)
    while (
        columns(
            shorter := f"{text[: size - size // 2]}…{text[len(text) - size // 2 :]}"
        )
        > room
    ):
        size -= 1
    return shorter


def unstyled(text: str) -> str:
    """Return text without the codes of `styled`."""
    import re  # noqa: PLC0415  # only where something is drawn

    return re.sub(r"\x1b\[[\d;]*m", "", text)


def padded(text: str, room: int) -> str:
    """Return the line padded with spaces to `room` columns."""
    return text + " " * max(room - columns(text), 0)


def width() -> int:
    """Return the width of the terminal in columns; 100 if it is not known."""
    import shutil  # noqa: PLC0415  # slow to load, and only needed for drawing

    return shutil.get_terminal_size((100, 24)).columns


def height() -> int:
    """Return the height of the terminal in lines; 24 if it is not known."""
    import shutil  # noqa: PLC0415  # as above

    return shutil.get_terminal_size((100, 24)).lines


def room(*, error: bool = False) -> int:
    """Return the number of columns of a line on standard output, or on standard error; 0 if that is not a terminal."""
    return width() if is_live(error=error) else 0


def wrapped(text: str, hanging: int, most: int, *, begin: int = 0) -> str:
    """Return a line broken between words to at most `most` columns (0: any), with `hanging` spaces after each break.

    `begin` is the column where it begins. A command in backquotes is copied as a whole, so it is not broken.
    """
    if not most or begin + columns(text) <= most:
        return text
    import re  # noqa: PLC0415  # only for lines that do not fit
    import textwrap  # noqa: PLC0415

    lines = textwrap.wrap(
        re.sub(r"`[^`]*`", lambda found: found[0].replace(" ", "\0"), text),
        most,
        initial_indent=" " * begin,
        subsequent_indent=" " * hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(lines)[begin:].replace("\0", " ")


_NAME = 12
"""The least number of columns for the names at the beginning of rows that are too long for the terminal."""

_FAR = 0.6
"""A last column that begins further to the right, as a share of the width, is printed below its row."""

_STATE = "STATE"
"""The column whose words are coloured."""


def table(
    rows: Iterable[Sequence[str]], header: Sequence[str] = (), empty: str = ""
) -> list[str]:
    """Return the rows as texts with aligned columns; the last column is not padded.

    If there are rows, `header` stands above them; if there are none, `empty` is all. The words in the column STATE are
    coloured. On a terminal that is too narrow, columns without a fact are left out, names lose their middle, and the
    text in the last column is wrapped, or printed below its row. Everywhere else a row is one line.
    """
    lines = [tuple(map(line, row)) for row in rows]
    if not lines:
        return [empty] if empty else []
    if header:
        lines.insert(0, tuple(header))
    most = room()
    widths = _widths(lines)
    if header and most and sum(widths) + 2 * len(widths) > most * _FAR:
        lines = _without_empty(lines)
        widths = _widths(lines)
    begin = sum(widths) + 2 * len(widths)
    named = lines[0].index("NAME") if header and "NAME" in lines[0][:-1] else 0
    if widths and most and begin > most and widths[named] > _NAME:
        widths[named] = max(widths[named] - (begin - most), _NAME)
        lines = [
            (*row[:named], squeezed(row[named], widths[named]), *row[named + 1 :])
            for row in lines
        ]
        begin = sum(widths) + 2 * len(widths)
    state = lines[0].index(_STATE) if header and _STATE in lines[0] else -1
    below = begin > _FAR * most and bool(widths)
    texts = []
    for number, row in enumerate(lines):
        before = "".join(
            f"{stated(cell) if place == state else cell}{padded(cell, size)[len(cell) :]}  "
            for place, (cell, size) in enumerate(zip(row, widths, strict=False))
        )
        taken = begin + columns(row[-1])
        if not most or taken <= most or not row[-1]:
            texts.append(f"{before}{row[-1]}".rstrip())
        elif header and number == 0:
            texts.append(
                before.rstrip() if below else clipped(f"{before}{row[-1]}", most)
            )
        elif below:
            texts.append(f"{before.rstrip()}\n    {wrapped(row[-1], 4, most, begin=4)}")
        else:
            texts.append(before + wrapped(row[-1], begin, most, begin=begin))
    return texts


def _widths(lines: Sequence[Sequence[str]]) -> list[int]:
    """Return the width of each column except the last one."""
    return [
        max(columns(row[column]) for row in lines)
        for column in range(len(lines[0]) - 1)
    ]


def _without_empty(lines: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return the lines without the columns in which no row below the header has a fact; the first one stays."""
    kept = [
        column
        for column in range(len(lines[0]))
        if column == 0 or any(row[column] not in ("", "-") for row in lines[1:])
    ]
    return [tuple(row[column] for column in kept) for row in lines]


def count(number: int, noun: str) -> str:
    """Return a number with its noun: «1 result», «3 results»."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
