"""Whether the programs that tools need are on this machine, and work as far as saying their versions."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

import heat_config_hooks
from heat_config_agent.model import Tool
from heat_config_hooks import programs
from heat_config_hooks.protocol import About
from heat_config_hooks.values import dataclass

SECONDS = 10.0
"""How long a program may take to say its version."""

_VERSION = re.compile(r"\d+(\.\d+)+[\w.+~-]*")


@dataclass(frozen=True, kw_only=True)
class State:
    """Whether a tool could be used as things are."""

    program: str = ""
    """The command line of what its hook drives; empty where that needs nothing, is missing, or is not ours to know."""
    version: str = ""
    """The program's; empty where it says none."""
    problem: str = ""
    """Why the tool could not be used, and what to do about that."""


def about(tool: Tool) -> About | None:
    """Return what there is to know of a hook; None where it is not ours."""
    return heat_config_hooks.load(tool.name).ABOUT if tool.builtin else None


def states(every: Sequence[Tool], environment: Mapping[str, str]) -> list[State]:
    """Return how it is with each tool. All programs are asked at once, in the environment that runs get."""
    with contextlib.ExitStack() as stack:
        asked = [_ask(tool, environment, stack) for tool in every]
        deadline = time.monotonic() + SECONDS
        return [each if isinstance(each, State) else _first_that_works(each, deadline) for each in asked]


@dataclass(frozen=True)
class _Question:
    """A program that is being asked for its version."""

    program: str
    argv: tuple[str, ...]
    process: subprocess.Popen[bytes] | OSError

    def answer(self, deadline: float) -> State:
        """Wait for it until the deadline, and return what it said."""
        if isinstance(self.process, OSError):
            return State(program=self.program, problem=f"it cannot be started: {self.process.strerror}")
        try:
            code = self.process.wait(max(deadline - time.monotonic(), 0))
        except subprocess.TimeoutExpired:
            return State(program=self.program, problem=f"«{shlex.join(self.argv)}» has not ended after {SECONDS:g} s")
        lines = _read(self.process.stdout) + _read(self.process.stderr)
        why = f": {lines[-1][:200]}" if lines else ""
        problem = f"«{shlex.join(self.argv)}» ended with exit code {code}{why}" if code else ""
        return State(program=self.program, version=_version(lines, Path(self.argv[0]).name), problem=problem)


def _first_that_works(asked: Sequence[_Question], deadline: float) -> State:
    """Return how it is with the first program that works; where none does, with the first."""
    found = [each.answer(deadline) for each in asked]
    return next((each for each in found if not each.problem), found[0])


def _ask(tool: Tool, environment: Mapping[str, str], stack: contextlib.ExitStack) -> State | list[_Question]:
    """Ask the programs of a tool for their versions, where it has some. Whatever is started ends with `stack`."""
    known = about(tool)
    if known is None:
        return State(problem=programs.cannot_start(tool.hook))
    if known.program is None:
        return State()
    commands = list(programs.every(known.program, environment))
    if not commands:
        return State(problem=str(programs.missing(known.program, environment)))
    if not known.program.version:
        return State(program=shlex.join(commands[0]))
    return [_start(each, known.program.version, environment, stack) for each in commands]


def _start(
    command: tuple[str, ...], version: tuple[str, ...], environment: Mapping[str, str], stack: contextlib.ExitStack
) -> _Question:
    argv = (*command, *version)
    process: subprocess.Popen[bytes] | OSError
    try:
        # What it prints waits in the pipes: they hold 64 KiB, and no version is longer.
        process = stack.enter_context(
            subprocess.Popen(
                argv,
                cwd="/",
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        )
        stack.enter_context(_ended(process))
    except OSError as error:
        process = error
    return _Question(shlex.join(command), argv, process)


@contextlib.contextmanager
def _ended(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """See to it that a program is ended at last, with all that it has started, if it has not ended by itself."""
    try:
        yield
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)


def _read(stream: IO[bytes] | None) -> list[str]:
    """Return the lines that wait in a pipe. Something that the program has started may hold it open."""
    if stream is None:
        return []
    os.set_blocking(stream.fileno(), False)
    try:
        text = os.read(stream.fileno(), 1 << 16).decode("utf-8", "replace")
    except BlockingIOError:
        return []
    return [line.strip() for line in text.splitlines() if line.strip()]


def _version(lines: Sequence[str], name: str) -> str:
    """Return the first version that is said, of the program itself where several are; empty where none is."""
    first = [line for line in lines if name in line]
    return next((found.group() for line in (*first, *lines) if (found := _VERSION.search(line))), "")
