"""True if the programs that tools need are installed, and can print their versions."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

import heat_config_hooks
from heat_config_agent.deployments import cleanup, selection
from heat_config_agent.model.deployment import Tool
from heat_config_agent.model.entry import Entry
from heat_config_hooks import needs, programs
from heat_config_hooks.protocol import About
from heat_config_hooks.values import dataclass

SECONDS = 10.0
"""Seconds that a program may take to print its version."""

_VERSION = re.compile(r"\d+(\.\d+)+[\w.+~-]*")


@dataclass(frozen=True, kw_only=True)
class State:
    """True if a tool can be used."""

    program: str = ""
    """The command line of the program that its hook runs; empty if there is none, or it is missing or not known."""
    version: str = ""
    """The version of the program; empty if it prints none."""
    problem: str = ""
    """The reason why the tool cannot be used, and what to do; empty if it can."""
    lacks: bool = False
    """True if something that its runs need is not installed."""
    needs_systemd: bool = False
    """True if everything is installed, and systemd would have to run on this machine."""


def about(tool: Tool) -> About | None:
    """Return the description of a built-in hook; None for any other hook."""
    return heat_config_hooks.load(tool.name).ABOUT if tool.builtin else None


def states(tools: Sequence[Tool], environment: Mapping[str, str]) -> list[State]:
    """Return the state of each tool. All programs are asked at the same time, in the environment of runs."""
    with contextlib.ExitStack() as stack:
        asked = [_ask(tool, environment, stack) for tool in tools]
        deadline = time.monotonic() + SECONDS
        return [
            state if isinstance(state, State) else _first_that_works(state, deadline)
            for state in asked
        ]


def absent(entries: Mapping[str, Entry], tools: Collection[str]) -> dict[str, str]:
    """Return which package to install for each tool of deployments in the journal, if its hook is not installed.

    `tools` are the names of the tools that have a hook. Deployments that have left the metadata need none any more,
    except for their cleanup.
    """
    used = [
        each
        for each in entries.values()
        if each.left_at is None or cleanup.is_pending(each, entries)
    ]
    names = sorted({selection.tool_name(each.tool) for each in used}.difference(tools))
    return {
        name: problem for name in names if (problem := heat_config_hooks.absent(name))
    }


@dataclass(frozen=True)
class _Question:
    """A program that is being asked for its version."""

    program: str
    argv: tuple[str, ...]
    process: subprocess.Popen[bytes] | OSError

    def answer(self, deadline: float) -> State:
        """Wait for the program until the deadline, and return the state of its tool."""
        if isinstance(self.process, OSError):
            return State(
                program=self.program,
                problem=f"cannot start {self.program}: {self.process.strerror}",
            )
        try:
            code = self.process.wait(max(deadline - time.monotonic(), 0))
        except subprocess.TimeoutExpired:
            return State(
                program=self.program,
                problem=f"«{shlex.join(self.argv)}» did not end within {SECONDS:g} s",
            )
        lines = _read(self.process.stdout) + _read(self.process.stderr)
        why = f": {lines[-1][:200]}" if lines else ""
        problem = (
            f"«{shlex.join(self.argv)}» ended with exit code {code}{why}"
            if code
            else ""
        )
        return State(
            program=self.program,
            version=_version(lines, Path(self.argv[0]).name),
            problem=problem,
        )


def _first_that_works(asked: Sequence[_Question], deadline: float) -> State:
    """Return the state of the first program that works; if none does, the state of the first."""
    answers = [question.answer(deadline) for question in asked]
    return next((state for state in answers if not state.problem), answers[0])


def _ask(
    tool: Tool, environment: Mapping[str, str], stack: contextlib.ExitStack
) -> State | list[_Question]:
    """Ask the programs of a tool for their versions. Closing `stack` ends the processes."""
    description = about(tool)
    if description is None:
        return State(problem=programs.cannot_start(tool.hook))
    program = description.program
    if program is None:
        return State()
    commands = list(programs.every(program, environment))
    need = needs.lacking(description.needs, environment)
    if need is not None:
        there = shlex.join(commands[0]) if commands else ""
        return State(
            program=there, problem=str(programs.missing(need, environment)), lacks=True
        )
    if tool.name in needs.BOOTED and not needs.is_booted():
        return State(
            program=shlex.join(commands[0]),
            problem=needs.NOT_BOOTED,
            needs_systemd=True,
        )
    if not program.version:
        return State(program=shlex.join(commands[0]))
    return [
        _start(command, program.version, environment, stack) for command in commands
    ]


def _start(
    command: tuple[str, ...],
    version: tuple[str, ...],
    environment: Mapping[str, str],
    stack: contextlib.ExitStack,
) -> _Question:
    argv = (*command, *version)
    process: subprocess.Popen[bytes] | OSError
    try:
        # The output waits in the pipes: they hold 64 KiB, and no version is longer.
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
    """Kill a program and its process group at the end, if it has not ended by itself."""
    try:
        yield
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)


def _read(stream: IO[bytes] | None) -> list[str]:
    """Return the lines that wait in a pipe, without waiting for its end: a child of the program may hold it open."""
    if stream is None:
        return []
    os.set_blocking(stream.fileno(), False)
    try:
        text = os.read(stream.fileno(), 1 << 16).decode("utf-8", "replace")
    except BlockingIOError:
        return []
    return [line.strip() for line in text.splitlines() if line.strip()]


def _version(lines: Sequence[str], name: str) -> str:
    """Return the first version in the lines, preferably from a line with the program's name; empty if there is none."""
    first = [line for line in lines if name in line]
    return next(
        (
            match.group()
            for line in (*first, *lines)
            if (match := _VERSION.search(line))
        ),
        "",
    )
