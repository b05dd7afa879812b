"""Holds processes for `openstack.py`: `python openstack_hold.py FOLDER`.

It does what standard input says, a JSON object a line, and answers each with a line:

    {"start": NAME, "argv": […], "environment": {…}, "log": PATH, "end": SIGNAL}    {"pid": NUMBER}
    {"stop": NAME}    {}, when it has ended: by its signal, or killed where that takes too long
    {"ended": NAME}    {"code": its exit status, or null while it runs}

When standard input ends, because whoever held the other end is gone, all of them are ended and the folder is removed.
If it is itself killed, the kernel ends them.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

_PATIENCE = 10.0
"""Seconds that a process has to end by another signal than KILL."""


class Held:
    """The processes."""

    def __init__(self) -> None:
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._signals: dict[str, int] = {}

    def start(
        self,
        name: str,
        argv: list[str],
        environment: dict[str, str],
        log: str,
        end: int,
    ) -> int:
        """Start one. `end` is the signal that it is ended by."""
        with Path(log).open("ab") as file:
            self._processes[name] = subprocess.Popen(
                [
                    "setpriv",
                    "--pdeathsig",
                    signal.Signals(end).name.removeprefix("SIG"),
                    *argv,
                ],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                env=environment,
                start_new_session=True,
            )
        self._signals[name] = end
        return self._processes[name].pid

    def stop(self, name: str) -> None:
        """End one, and what it has started."""
        process = self._processes.pop(name)
        _send(process, self._signals[name])
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            _send(process, signal.SIGKILL)
            process.wait()

    def ended(self, name: str) -> int | None:
        return self._processes[name].poll()

    def end(self) -> None:
        """End all, the last that was started first."""
        for name in reversed(list(self._processes)):
            self.stop(name)


def _send(process: subprocess.Popen[bytes], number: int) -> None:
    try:
        os.killpg(process.pid, number)
        os.killpg(process.pid, signal.SIGCONT)  # what a test has stopped
    except ProcessLookupError:
        pass  # it has ended, and was waited for


def _do(held: Held, what: dict[str, Any]) -> dict[str, Any]:
    if "start" in what:
        return {
            "pid": held.start(
                what["start"],
                what["argv"],
                what["environment"],
                what["log"],
                what["end"],
            )
        }
    if "stop" in what:
        held.stop(what["stop"])
        return {}
    return {"code": held.ended(what["ended"])}


def main() -> None:
    """Do what is said until nobody says anything any more."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    held = Held()
    try:
        for line in sys.stdin:
            said = json.loads(line)
            number = said.pop("number")
            print(json.dumps({"number": number, **_do(held, said)}), flush=True)
    finally:
        held.end()
        shutil.rmtree(sys.argv[1], ignore_errors=True)


if __name__ == "__main__":
    main()
