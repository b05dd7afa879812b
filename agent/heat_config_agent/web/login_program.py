"""The program that logs in to Keystone for the agent, so that the agent never loads what that takes.

It answers each line of standard input with one on standard output (`login_messages`). It ends when its standard input
does, also in the middle of a login, so it does not outlive the agent.
"""

from __future__ import annotations

import gc
import os
import queue
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path

from heat_config_agent.model.errors import UnreachableError
from heat_config_agent.web import login_messages
from heat_config_agent.web.login_messages import Access, Request
from heat_config_hooks import memory


def main() -> None:
    """Log in for each request, until there are no more."""
    memory.keep_no_core()
    lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(lines,), daemon=True).start()
    log_in = _log_in()
    _write(login_messages.READY)
    while True:
        _write(login_messages.answer_line(_outcome(log_in, lines.get())))


def _read(lines: queue.SimpleQueue[bytes]) -> None:
    """Read the requests, and end the program after them. What it is doing then is of no use to anyone."""
    for line in sys.stdin.buffer:
        lines.put(line)
    os._exit(0)


def _write(line: bytes) -> None:
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()


def _log_in() -> Callable[[Request], Access]:
    """Return a function that logs in; or one that raises UnreachableError if what it needs cannot be loaded."""
    gc.disable()  # nothing that is loaded now becomes garbage
    try:
        from heat_config_agent.web import login  # noqa: PLC0415  # if it cannot be loaded, that is an answer
    except (ImportError, OSError, MemoryError) as error:
        trouble = _trouble(error)

        def fail(_request: Request) -> Access:
            raise UnreachableError(trouble)

        return fail
    gc.freeze()
    gc.enable()
    servers: dict[str | None, login.Keystone] = {}

    def log_in(request: Request) -> Access:
        if request.ca_file not in servers:
            servers[request.ca_file] = login.Keystone(request.ca_file)
        return servers[request.ca_file].log_in(request)

    return log_in


def _outcome(log_in: Callable[[Request], Access], line: bytes) -> Access | UnreachableError:
    try:
        return log_in(login_messages.request(line))
    except UnreachableError as error:
        return error
    except Exception as error:  # noqa: BLE001  # a defect must not look like silence
        return UnreachableError(_trouble(error))


def _trouble(error: Exception) -> str:
    """Return the sentence for an error that is not about Keystone. It quotes no value, which may be a secret."""
    if isinstance(error, MemoryError):
        return "the machine has no memory left to log in to Keystone"
    if isinstance(error, ImportError):
        return f"cannot load what logs in to Keystone: {error} (is the agent's installation complete?)"
    if isinstance(error, OSError) and error.strerror:
        return f"cannot log in to Keystone: {error.strerror}"
    last = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{last.name}, {Path(last.filename).name}:{last.lineno}"
    return f"a defect in the login to Keystone: {type(error).__name__} in {place}"
