"""Commands about deployments, carried out on the host that has what they are about: output, state, running runs."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from heat_config_agent.model.errors import AgentError
from heat_config_agent.model.positions import Json
from heat_config_stack.hosts.client import Ended, check_way
from heat_config_stack.hosts.host import Host

COMMANDS = ("log", "logs", "show", "verify", "stop")
"""The commands that a host carries out for another machine; `logs` is `log` for each of some deployments."""

_NO_CONNECTION = 255
"""The exit code of the client if it has not reached the host."""


_ERROR = "error: "
"""The beginning of the line in which the agent says why a command is not carried out."""


def _line(host: Host, stack: str, command: str, words: Sequence[str]) -> list[str]:
    """Return the command line that asks a host. Raises AgentError if its jump hosts are a loop."""
    try:
        check_way(host)
    except Ended as ended:
        raise AgentError(f"the host {host.title} is not reached: {ended}") from ended
    return host.words("hosts", "ask", stack, command, "--", *words)


def ask(host: Json, stack: str, command: str, words: Sequence[str]) -> int:
    """Carry out a command about a stack's deployments on their host, with its output here; return its exit code.

    Raises AgentError if the host is not reached.
    """
    there = Host.from_json(host)
    line = _line(there, stack, command, words)
    try:
        code = subprocess.run(line, stdin=subprocess.DEVNULL, check=False).returncode
    except OSError as error:
        raise AgentError(f"cannot start ssh: {error.strerror}") from error
    if code == _NO_CONNECTION:
        raise AgentError(
            f"the host {there.title}, which has it, is not reached",
            hint="ssh has said why",
        )
    return code


def begin(
    host: Json, stack: str, command: str, words: Sequence[str]
) -> subprocess.Popen[bytes]:
    """Begin a command about a stack's deployments on their host, with pipes for its output. Raises AgentError."""
    line = _line(Host.from_json(host), stack, command, words)
    try:
        return subprocess.Popen(
            line,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    except OSError as error:
        raise AgentError(f"cannot start ssh: {error.strerror}") from error


def answer(host: Json, stack: str, command: str, words: Sequence[str]) -> str:
    """Return what a host prints for a command. Raises AgentError if it is not reached, or says only that it cannot."""
    there = Host.from_json(host)
    line = _line(there, stack, command, words)
    try:
        done = subprocess.run(
            line, stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
    except OSError as error:
        raise AgentError(f"cannot start ssh: {error.strerror}") from error
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
    if done.returncode == _NO_CONNECTION:
        why = lines[-1].strip() if lines else "ssh does not say why"
        raise AgentError(f"the host {there.title} is not reached: {why}")
    if done.returncode and lines and not done.stdout.strip():
        errors = [line for line in lines if line.startswith(_ERROR)]
        why = (errors or lines)[-1].removeprefix(_ERROR).strip()
        raise AgentError(f"the host {there.title} cannot be asked: {why}")
    return done.stdout.decode("utf-8", "replace")
