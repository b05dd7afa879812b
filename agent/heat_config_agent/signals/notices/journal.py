"""The journal of the system, by its native protocol: a line has fields that `journalctl` can select.

See «Native Journal Protocol» of systemd. A message that is too long for a datagram is shortened.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

SOCKET = "/run/systemd/journal/socket"

_LONGEST = 48 * 1024
"""The most bytes of one field: well below the largest datagram of any Linux."""


class Journal:
    """A socket of the journal."""

    def __init__(self, path: str = SOCKET) -> None:
        self._path = path

    def send(self, priority: int, text: str, fields: Mapping[str, str]) -> bool:
        """Send a line with its fields; return False if the journal is not there, or takes no more."""
        every = {
            "MESSAGE": text,
            "PRIORITY": str(priority),
            "SYSLOG_IDENTIFIER": "heat-config-agent",
            **fields,
        }
        data = b"".join(_field(name, value) for name, value in every.items())
        try:
            with socket.socket(
                socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC
            ) as sender:
                sender.settimeout(1)
                sender.sendto(data, self._path)
        except OSError:
            return False
        return True


def reader_of(descriptor: int, environ: Mapping[str, str]) -> Journal | None:
    """Return the journal of the system if it reads that descriptor, as `$JOURNAL_STREAM` says; else None."""
    device, _, inode = environ.get("JOURNAL_STREAM", "").partition(":")
    if not (device.isdecimal() and inode.isdecimal()):
        return None
    try:
        found = os.fstat(descriptor)
        same = (found.st_dev, found.st_ino) == (int(device), int(inode))
        return Journal() if same else None
    except OSError:
        return None


def _field(name: str, value: str) -> bytes:
    data = value.encode("utf-8", "replace")
    if len(data) > _LONGEST:
        data = data[:_LONGEST].decode("utf-8", "ignore").encode() + "…".encode()
    if b"\n" in data:
        return name.encode() + b"\n" + len(data).to_bytes(8, "little") + data + b"\n"
    return name.encode() + b"=" + data + b"\n"
