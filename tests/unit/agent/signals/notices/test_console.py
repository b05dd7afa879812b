"""The console, on real pseudo-terminals."""

from __future__ import annotations

import os
import pty
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from heat_config_agent.signals.notices.channel import UndeliveredError
from heat_config_agent.signals.notices.console import Console
from heat_config_agent.signals.notices.notice import Notice

Make = Callable[..., Notice]


@pytest.fixture
def terminal() -> Iterator[tuple[int, str]]:
    """A pseudo-terminal: the descriptor of those who read it, and its path."""
    reader, terminal = pty.openpty()
    path = os.ttyname(terminal)
    yield reader, path
    os.close(terminal)
    os.close(reader)


def test_a_line_is_read_from_the_terminal(
    notice: Make, terminal: tuple[int, str]
) -> None:
    """With the time, as one line."""
    reader, path = terminal
    Console(path).write(notice())
    line = os.read(reader, 4096).decode()
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d heat-config-agent: web: begins CREATE \(script\)\r\n",
        line,
    )


def test_a_long_line_is_shortened(notice: Make, terminal: tuple[int, str]) -> None:
    """An ellipsis says so."""
    reader, path = terminal
    Console(path).write(notice(text="é" * 2000))
    line = os.read(reader, 4096).decode().strip()
    assert (len(line), line[-1]) == (500, "…")


def test_a_terminal_that_is_not_read_is_skipped(
    notice: Make, terminal: tuple[int, str]
) -> None:
    """The write returns at once, and once it is read again, lines begin as lines."""
    reader, path = terminal
    console = Console(path)
    refused: list[str] = []
    while len(refused) < 3:
        try:
            console.write(notice(text="x" * 400))
        except UndeliveredError as error:
            refused.append(str(error))
    assert all(path in each for each in refused)
    os.set_blocking(reader, False)
    read = b""
    while True:
        try:
            read += os.read(reader, 65536)
        except BlockingIOError:
            break
    console.write(notice(text="after"))
    lines = (read + os.read(reader, 4096)).decode().split("\r\n")
    assert lines[-2].endswith(" heat-config-agent: after")
    assert re.match(r"\d{4}-", lines[-2])


def test_the_terminal_does_not_become_that_of_the_agent(
    notice: Make, terminal: tuple[int, str]
) -> None:
    """A process without a controlling terminal has none after the write, so its hang-up signals nothing."""
    reader, path = terminal
    process = os.fork()
    if process == 0:
        os.setsid()
        Console(path).write(notice())
        try:
            os.close(os.open("/dev/tty", os.O_RDWR))
        except OSError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 7
    assert os.read(reader, 4096)


def test_missing_console_is_not_created(notice: Make, tmp_path: Path) -> None:
    """No file is made in its place, and a pipe without a reader is not waited for."""
    missing, unread = tmp_path / "console", tmp_path / "pipe"
    with pytest.raises(
        UndeliveredError, match=f"cannot write to {missing}: No such file or directory"
    ):
        Console(str(missing)).write(notice())
    assert not missing.exists()
    os.mkfifo(unread)
    with pytest.raises(UndeliveredError, match="cannot write to"):
        Console(str(unread)).write(notice())
