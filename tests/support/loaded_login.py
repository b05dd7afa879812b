"""The process that logs in to Keystone, forked from one that has loaded what it is made of.

To start Python and load keystoneauth1 takes far longer than a login to a server on loopback, and unit tests log in
hundreds of times. The forked process runs the same program, in a session of its own, with the same pipes and the
environment of the test. `tests/unit/agent/web/test_login_process.py` and all installed commands start a new one.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import signal
import socket
import subprocess
import sys
import threading


def start() -> tuple[int, int, int]:
    """Do what `login_process._started` does."""
    reader, to_it = os.pipe()
    from_it, writer = os.pipe()
    try:
        pid = _loaded().start(reader, writer)
    finally:
        os.close(reader)
        os.close(writer)
    os.set_blocking(to_it, False)
    return pid, to_it, from_it


class _Loaded:
    """The process that has loaded the program."""

    def __init__(self) -> None:
        ours, its = socket.socketpair()
        with its:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(its.fileno())], stdin=subprocess.DEVNULL, pass_fds=[its.fileno()]
            )
        self._socket = ours
        self._lock = threading.Lock()
        atexit.register(self.end)

    def start(self, *streams: int) -> int:
        """Have it fork the program, with these descriptors as its input and output; return its process id."""
        text = json.dumps(dict(os.environ)).encode()
        with self._lock:
            socket.send_fds(self._socket, [len(text).to_bytes(8, "big")], streams)
            self._socket.sendall(text)
            return int.from_bytes(self._socket.recv(8, socket.MSG_WAITALL), "big")

    def end(self) -> None:
        self._socket.close()
        self._process.wait()


@functools.cache
def _loaded() -> _Loaded:
    return _Loaded()


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
