from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support import pace
from support.machine import Done
from support.walks import below
from system.booted import booted

pytestmark = pytest.mark.takes(100)

TESTS = Path(__file__).parents[1]

OWNER = """
import sys, time
sys.path.insert(0, {tests!r})
from system.booted import booted
with booted() as machine:
    machine.run("systemd-run", "sleep", {mark!r})
    print("up", flush=True)
    time.sleep(1000)
"""


def test_a_crash_leaves_the_disk() -> None:
    """A machine can be killed and booted again; its disk is as it was, and each has one of its own."""
    with booted() as machine, booted() as other:
        assert machine.run("systemctl", "is-system-running").out == "running\n"
        assert machine.run(
            "sh", "-c", 'cat; echo "$WORD" >&2; exit 3', stdin="in", WORD="word"
        ) == Done(3, "in", "word\n")
        (machine.disk / "root/kept").write_text("kept")
        machine.run("touch", "/run/lost")
        machine.crash()
        assert (machine.disk / "root/kept").read_text() == "kept"
        machine.boot()
        assert machine.run("cat", "/root/kept").out == "kept"
        assert machine.run("test", "-e", "/run/lost").code == 1
        assert other.run("test", "-e", "/root/kept").code == 1
        assert machine.run("heat-config-apply", "--version").code == 0


def test_booted_machine_ends_with_its_owner() -> None:
    """A machine ends with its owner, even one that is killed."""
    with booted():  # or say that it cannot be
        pass
    mark = f"{os.getpid()}.5"
    with subprocess.Popen(
        [sys.executable, "-c", OWNER.format(tests=str(TESTS), mark=mark)],
        stdout=subprocess.PIPE,
        text=True,
    ) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "up\n"
        assert left(owner.pid, mark)
        owner.kill()
    deadline = time.monotonic() + pace.seconds(20)
    while remains := left(owner.pid, mark):
        assert time.monotonic() < deadline, remains
        time.sleep(0.05)


def left(owner: int, mark: str) -> list[str]:
    """Return what there is of an owner's machines: processes, and what they are accounted to."""
    leftovers = [
        str(path)
        for path in below(Path("/sys/fs/cgroup"))
        if path.name.startswith(f"heat-config-{owner}-")
    ]
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if mark in words or any(
            word.endswith(f"heat-config-{owner}-1") for word in words
        ):
            leftovers.append(" ".join(words))
    return leftovers
