"""A socket as the service manager's, to which a daemon tells how it is."""

from __future__ import annotations

import socket
from pathlib import Path

from support.daemon import LONG


class Systemd:
    """The socket at `$NOTIFY_SOCKET`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self._socket.settimeout(LONG)

    def until(self, wanted: str) -> list[str]:
        """Return all messages, up to one that begins so."""
        found: list[str] = []
        while not found or not found[-1].startswith(wanted):
            found.append(self._socket.recv(4096).decode())
        return found

    def close(self) -> None:
        self._socket.close()
