"""Lines on a terminal that are drawn again and again, until the last ones are left on it."""

from __future__ import annotations

import os
from collections.abc import Sequence

from heat_config_agent.cli import terminal
from heat_config_agent.model import signal_numbers


class Canvas:
    """The part of the terminal that begins at the cursor, which stays at its beginning.

    A terminal that is made less high drops the rows below the cursor, and scrolls those above it out of reach, where
    they could not be replaced any more. In a terminal that is made narrower, the lines may wrap to more rows than it
    has; those that it scrolls out then stay.
    """

    def __init__(self, *, error: bool = False) -> None:
        """Draw nothing yet; later, on standard output, or with `error` on standard error."""
        self._error = error
        self._drawn = False
        self._is_to_stop = False
        self._stopped_by: object = None
        """The reaction to ^Z before anything was drawn."""

    def draw(self, lines: Sequence[str]) -> None:
        """Replace the drawn lines with these, as far as they fit. Here ^Z takes effect."""
        if self._is_to_stop:
            self._stop(lines)
        if not self._drawn:
            self._stopped_by = signal_numbers.handle(
                signal_numbers.SIGTSTP, self._note_stop
            )
        self._drawn = True
        fitting, rows = _fitting(lines)
        up = f"\x1b[{rows - 1}A" if rows > 1 else ""
        # The first carriage return is for «^C», which the terminal prints where the cursor is.
        terminal.say(
            "\r" + "\x1b[K\n".join(fitting) + f"\x1b[J\r{up}", error=self._error, end=""
        )

    def leave(self, lines: Sequence[str]) -> None:
        """Replace the drawn lines with all of these, and go on below them."""
        self.erase()
        terminal.say("".join(f"{line}\n" for line in lines), error=self._error, end="")

    def erase(self) -> None:
        """Erase the drawn lines; other output may follow."""
        if not self._drawn:
            return
        self._drawn = False
        # The space, because tmux takes this at the beginning of the screen as a wish to keep what scrolls out.
        terminal.say("\r \x1b[J\r", error=self._error, end="")
        before = (
            signal_numbers.SIG_DFL if self._stopped_by is None else self._stopped_by
        )
        signal_numbers.handle(signal_numbers.SIGTSTP, before)  # type: ignore[arg-type]

    def _note_stop(self, _number: int, _frame: object) -> None:
        self._is_to_stop = True

    def _stop(self, lines: Sequence[str]) -> None:
        """Leave the lines above the prompt of the shell, stop this process, and return when it is continued."""
        self._is_to_stop = False
        self.leave(lines)
        os.kill(os.getpid(), signal_numbers.SIGTSTP)


def _fitting(lines: Sequence[str]) -> tuple[list[str], int]:
    """Return the lines that the terminal has room for, and the number of its rows that they take."""
    width, room = max(terminal.width(), 1), max(terminal.height(), 1)
    fitting, rows = [], 0
    for line in lines:
        more = max(-(-terminal.columns(terminal.unstyled(line)) // width), 1)
        if rows + more > room:
            break
        fitting.append(line)
        rows += more
    return fitting, rows
