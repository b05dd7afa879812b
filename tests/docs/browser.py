"""A headless Chromium that tests speak with by its debugging protocol, over two pipes: no port, no driver."""

from __future__ import annotations

import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from support import pace

NAMES = ("chromium", "chromium-headless-shell", "chromium-browser", "google-chrome")
"""Programs that understand the options below."""

_OPTIONS = (
    "--headless",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--no-sandbox",
    "--remote-debugging-pipe",
    # A name of a host leads nowhere, whatever a page asks for.
    "--host-resolver-rules=MAP * ~NOTFOUND",
)

# The protocol is spoken over the descriptors 3 and 4.
_BEGIN = """\
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.dup2(int(sys.argv[2]), 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


def need_chromium() -> str:
    """Return the path of a Chromium, or skip the test, saying how to get it."""
    for name in NAMES:
        if path := shutil.which(name):
            return path
    pytest.skip("Chromium is not installed: «apt install chromium-headless-shell»")


class _RefusedError(Exception):
    """Chromium has answered a message with an error."""


class Browser:
    """One Chromium with one page; `close` ends it."""

    def __init__(self, program: str, folder: Path) -> None:
        """Start the program, with its files in a folder."""
        theirs, self._to = _pipe(11)
        self._from, theirs_too = _pipe(15)
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-c", _BEGIN, str(theirs), str(theirs_too), program),
                *(*_OPTIONS, f"--user-data-dir={folder}", "about:blank"),
            ],
            pass_fds=(theirs, theirs_too),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": str(folder)},
        )
        os.close(theirs)
        os.close(theirs_too)
        self._number, self._rest, self._session = 0, b"", ""
        self.requested: list[str] = []
        """The URL of everything that was requested since the last page was opened."""

    def attach(self) -> None:
        """Take the first page as the one that is spoken of."""
        targets = self._call("Target.getTargets")["targetInfos"]
        [page] = [each["targetId"] for each in targets if each["type"] == "page"]
        attached = self._call("Target.attachToTarget", targetId=page, flatten=True)
        self._session = attached["sessionId"]
        self._call("Network.enable")

    def close(self) -> None:
        """End the program, and wait for its end."""
        self._process.kill()
        self._process.wait()
        os.close(self._to)
        os.close(self._from)

    def open(self, url: str, *, width: int = 1600, dark: bool = False) -> None:
        """Open a page in a window of a width, and wait until it is loaded."""
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=1000,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = {
            "name": "prefers-color-scheme",
            "value": "dark" if dark else "light",
        }
        self._call("Emulation.setEmulatedMedia", features=[scheme])
        self.requested.clear()
        self._call("Page.navigate", url=url)
        self.wait(f"location.href == {json.dumps(url)}")
        self.wait("document.readyState == 'complete'")

    def value(self, expression: str) -> Any:
        """Return the value of an expression of JavaScript in the page."""
        answer = self._call(
            "Runtime.evaluate", expression=expression, returnByValue=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait(self, expression: str) -> None:
        """Wait until an expression of JavaScript is true in the page."""
        end = time.monotonic() + pace.seconds(30)
        while not self._holds(expression):
            assert time.monotonic() < end, f"not true in the page: {expression}"
            time.sleep(0.05)

    def _holds(self, expression: str) -> bool:
        """Return whether an expression is true; it is not while another page takes the place of this one."""
        try:
            return bool(self.value(expression))
        except _RefusedError:
            return False

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("method") == "Network.requestWillBeSent":
                self.requested.append(answer["params"]["request"]["url"])
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise _RefusedError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            readable, _, _ = select.select([self._from], [], [], pace.seconds(60))
            data = os.read(self._from, 1 << 16) if readable else b""
            assert data, "Chromium has ended, or does not answer"
            self._rest += data
        message, _, self._rest = self._rest.partition(b"\0")
        parsed: dict[str, Any] = json.loads(message)
        return parsed


def _pipe(above: int) -> tuple[int, int]:
    """Return the ends of a pipe, with numbers that the protocol does not use."""
    ends = os.pipe()
    moved = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, above) for end in ends]
    for end in ends:
        os.close(end)
    return moved[0], moved[1]
