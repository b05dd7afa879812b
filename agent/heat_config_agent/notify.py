"""What systemd is told of a daemon (sd_notify): that it is ready, what it is doing, and that it is alive.

See sd_notify(3). Where nobody listens, nothing is said.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping


class Notifier:
    """The socket of the service manager, if there is one."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        """Speak to `$NOTIFY_SOCKET`, and feed the watchdog as `$WATCHDOG_USEC` says."""
        self._address = environ.get("NOTIFY_SOCKET", "")
        self._status = ""
        ours = environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        interval = environ.get("WATCHDOG_USEC", "")
        self.watchdog = int(interval) / 1e6 / 3 if ours and interval.isdecimal() else None
        """Seconds after which the watchdog wants to be fed; None where there is none."""
        self._fed = 0.0

    def ready(self) -> None:
        """All is set up."""
        self._say("READY=1")

    def reloading(self) -> None:
        """The settings are being read again; `ready` follows."""
        self._say(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self) -> None:
        """The end has begun."""
        self._say("STOPPING=1")

    def status(self, text: str) -> None:
        """Say in a line what is going on, if that is news."""
        text = " ".join(text.split())  # a second line would say something else
        if text != self._status:
            self._status = text
            self._say(f"STATUS={text}")

    def alive(self) -> None:
        """Feed the watchdog, if it is time."""
        if self.watchdog is not None and time.monotonic() - self._fed >= self.watchdog / 2:
            self._fed = time.monotonic()
            self._say("WATCHDOG=1")

    def _say(self, what: str) -> None:
        if not self._address.startswith(("/", "@")):
            return
        address = f"\0{self._address[1:]}" if self._address[0] == "@" else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as speaker:
                speaker.settimeout(1)
                speaker.sendto(what.encode("utf-8", "replace"), address)
        except OSError:  # whoever listened has gone; nothing depends on it
            return
