"""Messages to systemd about a daemon: that it is ready, what it is doing, and that it is alive. See sd_notify(3)."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping


class Notifier:
    """Sends messages to the service manager, if there is one."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        """Use the socket `$NOTIFY_SOCKET`, and feed the watchdog as often as `$WATCHDOG_USEC` requires."""
        self._address = environ.get("NOTIFY_SOCKET", "")
        self._status = ""
        ours = environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        interval = environ.get("WATCHDOG_USEC", "")
        self.watchdog = (
            int(interval) / 1e6 / 3 if ours and interval.isdecimal() else None
        )
        """Seconds after which the watchdog has to be fed; None if there is none."""
        self._fed = 0.0

    def ready(self) -> None:
        """Tell systemd that the daemon is ready."""
        self._say("READY=1")

    def reloading(self) -> None:
        """Tell systemd that the daemon reads its settings again; `ready` follows."""
        self._say(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self) -> None:
        """Tell systemd that the daemon is ending."""
        self._say("STOPPING=1")

    def status(self, text: str) -> None:
        """Set the status line, if it has changed."""
        text = " ".join(text.split())  # a second line would be another message
        if text != self._status:
            self._status = text
            self._say(f"STATUS={text}")

    def alive(self) -> None:
        """Feed the watchdog, if that is due."""
        if (
            self.watchdog is not None
            and time.monotonic() - self._fed >= self.watchdog / 2
        ):
            self._fed = time.monotonic()
            self._say("WATCHDOG=1")

    def _say(self, message: str) -> None:
        if not self._address.startswith(("/", "@")):
            return
        address = f"\0{self._address[1:]}" if self._address[0] == "@" else self._address
        try:
            with socket.socket(
                socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC
            ) as sender:
                sender.settimeout(1)
                sender.sendto(message.encode("utf-8", "replace"), os.fsencode(address))
        except OSError:  # nothing depends on these messages
            return
