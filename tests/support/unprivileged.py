"""The installed commands as a user other than root."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support import pace
from support.machine import BIN, Machine

NOBODY = 54321 + os.getpid() % 10_000
"""A user of no name, whom nothing belongs to; another one in each process that runs tests, as the processes of one are
counted."""


_OPEN = """
mount -t tmpfs -o mode=755 tmpfs /mnt
mkdir -p "/mnt/$2"
mount --bind "$1/$2" "/mnt/$2"
mount --rbind /mnt "$1"
shift 2
exec "$@"
"""
"""Shows, in the place of a folder that others cannot enter, the one thing in it that they need."""


def _seen() -> tuple[str, ...]:
    """Return the command by which another one sees our interpreter where others can reach it; none where they do."""
    base = Path(sys.base_prefix).resolve()
    closed = [
        each for each in reversed(base.parents) if not each.stat().st_mode & 0o001
    ]
    if not closed:
        return ()
    return (
        "unshare",
        "--mount",
        "sh",
        "-ec",
        _OPEN,
        "sh",
        str(closed[0]),
        str(base.relative_to(closed[0])),
    )


def need_open_checkout() -> None:
    """Skip the test where other users than root cannot reach the commands of this checkout."""
    closed = [
        each
        for each in (BIN, *BIN.parents)
        if os.geteuid() == 0 and not each.stat().st_mode & 0o001
    ]
    if closed:
        pytest.skip(
            f"other users than root may not enter {closed[-1]}: put the checkout where they may"
        )


class Unprivileged(Machine):
    """The installed commands, run as a user who is nobody in particular."""

    before = (
        *_seen(),
        "setpriv",
        "--reuid",
        str(NOBODY),
        "--regid",
        str(NOBODY),
        "--clear-groups",
        "--",
    )

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.begins_loaded = False  # what has loaded the commands is another user's

    def run(
        self, document: Path, *before: str, seconds: float = 60
    ) -> subprocess.CompletedProcess[str]:
        """Run `heat-config-apply` on a document, by the command `before` if there is one."""
        command = [
            *before,
            *self.before,
            str(BIN / "heat-config-apply"),
            "--state-dir",
            str(self.state),
            str(document),
        ]
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=self.environment,
            cwd=self.folder,
            timeout=pace.seconds(seconds),
            check=False,
        )

    def write(self, document: object, name: str = "document.json") -> Path:
        path = super().write(document, name)
        path.chmod(0o644)
        return path
