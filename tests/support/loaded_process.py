"""A process that has loaded what it forks, for a whole session of tests."""

from __future__ import annotations

import atexit
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence

from support import leftovers


class LoadedProcess:
    """Runs a file that takes requests from a socket, whose descriptor is its argument."""

    def __init__(
        self, program: str, environment: Mapping[str, str] | None = None
    ) -> None:
        """Start the process; without an environment, in that of the tests. It ends with them."""
        ours, its = socket.socketpair()
        # A daemon hides its environment from other processes of its user, but not its command line.
        folder = (
            [f"{leftovers.VARIABLE}={os.environ[leftovers.VARIABLE]}"]
            if leftovers.VARIABLE in os.environ
            else []
        )
        with its:
            self._process = subprocess.Popen(
                [sys.executable, program, str(its.fileno()), *folder],
                stdin=subprocess.DEVNULL,
                pass_fds=[its.fileno()],
                env=environment,
            )
        self._socket = ours
        self._lock = threading.Lock()
        atexit.register(self._end)

    def ask(
        self, request: object, descriptors: Sequence[int], *, answer: int = 0
    ) -> bytes:
        """Send a request with descriptors; return that many bytes of an answer."""
        text = json.dumps(request).encode()
        with self._lock:
            socket.send_fds(self._socket, [len(text).to_bytes(8, "big")], descriptors)
            self._socket.sendall(text)
            return self._socket.recv(answer, socket.MSG_WAITALL) if answer else b""

    def _end(self) -> None:
        self._socket.close()
        self._process.wait()
