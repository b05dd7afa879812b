"""A terminal of 80 columns for a command, and the screen that a person sees afterwards."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
from collections.abc import Sequence
from pathlib import Path

from support import pace

COLUMNS, LINES = 80, 24

_CODE = re.compile(r"\x1b\[(\d*)([A-Za-z])")


class Terminal:
    """A command on a terminal of its own, which is its controlling terminal."""

    def __init__(
        self, command: Sequence[str | Path], environment: dict[str, str]
    ) -> None:
        self._printed = b""
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(
            theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0)
        )
        self.process = subprocess.Popen(
            [os.fspath(word) for word in command],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**environment, "TERM": "xterm", "NO_COLOR": "1"},
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509  # so that «^C» is a signal
        )
        os.close(theirs)

    def type(self, text: str) -> None:
        """Type text, such as the character of «^C»."""
        os.write(self._ours, text.encode())

    def wait_for(self, text: str) -> None:
        """Wait until the command has printed a text."""
        while text not in self._printed.decode(errors="replace"):
            self._printed += os.read(self._ours, 65536)

    def printed(self) -> str:
        """Wait for the end of the command, and return all that it printed, with its codes."""
        try:
            while more := os.read(self._ours, 65536):
                self._printed += more
        except OSError:  # the command has closed the terminal
            pass
        os.close(self._ours)
        self.process.wait(pace.seconds(60))
        return self._printed.decode()


def frames(printed: str) -> list[list[str]]:
    """Return the lines of each picture that a command drew one over the other."""
    return [
        _CODE.sub("", frame).replace("\r", "").splitlines()
        for frame in printed.split("\x1b[J")
    ]


def screen(printed: str) -> list[str]:
    """Return the rows that a terminal shows for what a command printed."""
    rows, row, column, place = [""], 0, 0, 0
    while place < len(printed):
        sign = printed[place]
        code = _CODE.match(printed, place)
        place += len(code[0]) if code else 1
        if code:
            if code[2] == "A":
                row = max(row - int(code[1] or 1), 0)
            elif code[2] in "JK":
                rows[row] = rows[row][:column]
                rows[row + 1 :] = [] if code[2] == "J" else rows[row + 1 :]
            continue
        if sign == "\r":
            column = 0
            continue
        if sign == "\n" or column == COLUMNS:
            row, column = row + 1, column if sign == "\n" else 0
        rows += [""] * (row + 1 - len(rows))
        if sign != "\n":
            rows[row] = (
                rows[row].ljust(column)[:column] + sign + rows[row][column + 1 :]
            )
            column += 1
    return rows
