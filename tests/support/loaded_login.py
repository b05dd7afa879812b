"""The process that logs in to Keystone, forked from one that has loaded what it is made of.

To start Python and load keystoneauth1 takes far longer than a login to a server on loopback, and unit tests log in
hundreds of times. The forked process runs the same program, in a session of its own, with the same pipes and the
environment of the test. `tests/unit/agent/web/test_login_process.py` and all installed commands start a new one.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import socket
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from support.loaded_process import LoadedProcess


def start() -> tuple[int, int, int]:
    """Do what `login_process._started` does."""
    reader, to_it = os.pipe()
    from_it, writer = os.pipe()
    try:
        pid = int.from_bytes(_loaded().ask(dict(os.environ), [reader, writer], answer=8), "big")
    finally:
        os.close(reader)
        os.close(writer)
    os.set_blocking(to_it, False)
    return pid, to_it, from_it


@functools.cache
def _loaded() -> LoadedProcess:
    from support.loaded_process import LoadedProcess  # noqa: PLC0415  # the started process has no package of tests

    return LoadedProcess(__file__)


def _serve(connection: socket.socket) -> None:
    """Fork the program for each request, until there are no more."""
    from heat_config_agent.web import login, login_program  # noqa: PLC0415  # only this process needs them

    assert callable(login.Keystone)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no one is waited for here
    while True:
        head, streams, _, _ = socket.recv_fds(connection, 8, 2)
        if not head:
            return
        environment = json.loads(connection.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL))
        if not os.fork():
            os.setsid()
            os.dup2(streams[0], 0)
            os.dup2(streams[1], 1)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            connection.sendall(os.getpid().to_bytes(8, "big"))
            for descriptor in (*streams, connection.detach()):
                os.close(descriptor)
            os.environ.clear()
            os.environ.update(environment)
            login_program.main()
        for descriptor in streams:
            os.close(descriptor)


if __name__ == "__main__":
    del sys.path[0]  # no module of a test is one of the program
    _serve(socket.socket(fileno=int(sys.argv[1])))
