"""A window of tmux for a command: a real terminal, whose size changes, and what it shows.

The size changes between two drawings. In the middle of one, rows for the former height would scroll out of reach, which
no program can prevent: a file is locked by the command while it draws, and by the test while the size changes.
"""

from __future__ import annotations

import fcntl
import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.loopback import wait_until

TMUX = shutil.which("tmux")

_ENDED = "the command has ended:"

_LOCKED_DRAWING = """\
import fcntl, os
from heat_config_agent.cli import canvas

def locked(method):
    def draw(*arguments):
        with open({lock!r}) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            method(*arguments)
    return draw

# Not `leave`: at ^Z, it is part of a drawing.

canvas.Canvas.draw = locked(canvas.Canvas.draw)
os.environ.pop("PYTHONPATH")
"""
"""The module that Python loads before the command."""


class Window:
    """A terminal of tmux, in a server of its own."""

    def __init__(self, socket: Path, lock: Path) -> None:
        """Use the server with this socket; the file is locked while the command draws."""
        self._socket = socket
        self._lock = lock

    def tmux(self, *words: str) -> str:
        """Run a command of tmux, and return what it prints."""
        command = [str(TMUX), "-S", str(self._socket), "-f", "/dev/null", *words]
        return subprocess.run(
            command, check=True, capture_output=True, text=True
        ).stdout

    def resize(self, lines: int, columns: int = 80) -> None:
        """Change the size of the terminal, between two drawings."""
        tty = os.open(
            self.tmux("display-message", "-p", "#{pane_tty}").strip(),
            os.O_RDONLY | os.O_NOCTTY,
        )
        with os.fdopen(tty, "rb"), self._lock.open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.shown()  # and with that, tmux has read all that was drawn
            self.tmux("resize-window", "-x", str(columns), "-y", str(lines))
            # tmux may tell the command later
            wait_until(lambda: os.get_terminal_size(tty) == (columns, lines))

    def type(self, *keys: str) -> None:
        """Press keys, by the names that tmux has for them."""
        self.tmux("send-keys", *keys)

    def shown(self) -> list[str]:
        """Return the rows that can be seen."""
        return self.tmux("capture-pane", "-p").splitlines()

    def all(self) -> list[str]:
        """Return all rows, with those that have scrolled out."""
        return self.tmux("capture-pane", "-p", "-S", "-").rstrip().splitlines()

    def wait_for(self, text: str, *, also: str = "") -> None:
        """Wait until rows that can be seen contain these texts."""
        wait_until(
            lambda: text in (shown := "\n".join(self.shown())) and also in shown, 30
        )

    def ended(self) -> list[str]:
        """Wait until the command has ended, and return all rows."""
        wait_until(lambda: any(row.startswith(_ENDED) for row in self.all()), 60)
        return [row for row in self.all() if not row.startswith(_ENDED)]


@contextmanager
def window(
    folder: Path, command: Sequence[str | Path], environment: Mapping[str, str]
) -> Iterator[Window]:
    """Run a command in a window of 80 columns and 24 lines; skip the test where there is no tmux."""
    if TMUX is None:
        pytest.skip("tmux is not installed: apt-get install tmux")
    lock = folder / "drawing/lock"
    lock.parent.mkdir()
    lock.touch()
    lock.with_name("sitecustomize.py").write_text(
        _LOCKED_DRAWING.format(lock=str(lock))
    )
    opened = Window(folder / "tmux.socket", lock)
    variables = {**environment, "NO_COLOR": "1", "PYTHONPATH": str(lock.parent)}
    settings = [
        f"{name}={value}" for name, value in variables.items() if name != "TERM"
    ]
    # The interpreter of a test may have noted the size of another terminal in its environment.
    line = shlex.join(
        ["env", "-u", "LINES", "-u", "COLUMNS", *settings, *map(str, command)]
    )
    script = f"trap : INT; {line}; echo {shlex.quote(_ENDED)} $?; exec sleep 600"
    opened.tmux("new-session", "-d", "-x", "80", "-y", "24", "sh", "-c", script)
    try:
        yield opened
    finally:
        opened.tmux("kill-server")
