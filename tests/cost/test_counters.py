"""The cost of one more deployment in a batch: calls of the kernel, which do not depend on the load.

The calls of `heat-config-apply` and of the supervisors of its runs count. Those of a deployment's own script do not,
from its start on, nor do waits for threads and runs, which depend on the load.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from support import pace, tools
from support.loopback import SignalServer
from support.machine import BIN, Machine, deployment

pytestmark = pytest.mark.new_process

FEW, MANY = 5, 25
"""Deployments in the two batches that are compared: what the start takes is in both."""

CALL = re.compile(r"(\d+) +(\w+)\((.*)")
"""A line of strace's: the process, the call and its arguments."""

WAITS = frozenset({"futex", "poll", "restart_syscall", "sched_yield"})
"""For threads and for runs, that may or may not have to be waited for."""


def counted(machine: Machine, heat: SignalServer, number: int) -> Counter[str]:
    """Return how often each call was made for a batch of so many deployments."""
    place = machine.folder / f"batch{number}"
    place.mkdir()
    names = [f"d{each}-of-{number}" for each in range(number)]
    given = [
        deployment(each, "#!/bin/sh\necho done\n", signal=heat.url(each))
        for each in names
    ]
    document, trace, before = machine.write(given), place / "trace", len(heat.signals)
    strace = ["strace", "-f", "-qq", "-s", "256", "-o", str(trace)]
    command = [
        str(BIN / "heat-config-apply"),
        "--state-dir",
        str(place / "state"),
        str(document),
    ]
    done = subprocess.run(
        [*strace, *command],
        env=machine.environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=pace.seconds(100),
    )
    if not trace.exists() or not trace.read_text():
        pytest.skip(f"strace cannot trace here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    assert len(heat.signals) - before == number
    return calls(trace, place / "state" / "heat-config-script")


def calls(trace: Path, scripts: Path) -> Counter[str]:
    """Return how often each call is in a trace, but for those of scripts in that folder."""
    counts: Counter[str] = Counter()
    theirs: set[str] = set()
    for line in trace.read_text().splitlines():
        made = CALL.match(line)
        if made is None or made[1] in theirs:
            continue
        if made[2] == "execve" and made[3].startswith(f'"{scripts}/'):
            theirs.add(made[1])
            counts["scripts"] += 1
        counts[made[2]] += 1
    return counts


@pytest.fixture
def costs(machine: Machine, heat: SignalServer) -> dict[str, float]:
    """The number of calls for each further deployment."""
    tools.need("strace", "strace")
    few, many = counted(machine, heat, FEW), counted(machine, heat, MANY)
    return {name: (many[name] - few[name]) / (MANY - FEW) for name in many | few}


def test_additional_deployment_costs_little(costs: dict[str, float]) -> None:
    """At most one program beside its script, one flush, 295 calls, and no connection."""
    assert costs["scripts"] == 1, "the batches differ in something else"
    assert costs["execve"] - costs["scripts"] <= 1
    assert (
        costs.get("fsync", 0)
        + costs.get("fdatasync", 0)
        + costs.get("sync", 0)
        + costs.get("syncfs", 0)
        <= 1
    )
    assert costs.get("connect", 0) == 0
    ours = {
        name: number
        for name, number in costs.items()
        if name not in {*WAITS, "scripts"}
    }
    most = sorted(ours.items(), key=lambda item: -item[1])[:12]
    assert sum(ours.values()) <= 295, f"{sum(ours.values())} calls, most of them {most}"


def too_early(trace: str, identities: Iterable[str]) -> set[str]:
    """Return the deployments of which something came before it was on disk: a result, or the word to begin."""
    written: set[str] = set()
    flushed: dict[str, set[str]] = {}
    safe: set[str] = set()
    early: set[str] = set()
    for line in trace.splitlines():
        process, call = line.split(maxsplit=1)
        for state in ("running", "finished"):
            if call.startswith("write(") and f'\\"state\\":\\"{state}\\"' in call:
                written |= {
                    f"{state} {each}"
                    for each in identities
                    if f'\\"key\\":\\"{each}\\"' in call
                }
        if call.startswith("fdatasync("):
            flushed[process] = set(written)
        if "fdatasync" in call and call.endswith(" = 0"):
            safe |= flushed.pop(process)
        if call.startswith("write(") and call.split(", ")[1].startswith('"\\n"'):
            early |= {
                each
                for each in written
                if each.startswith("running") and each not in safe
            }
        if "POST /" in call:
            early |= {
                each
                for each in identities
                if f"/{each}?" in call and f"finished {each}" not in safe
            }
    return early


def test_next_step_waits_for_the_flush_of_the_last(
    machine: Machine, heat: SignalServer
) -> None:
    """In a batch one flush serves two deployments: the next one begins, and the last one's result is sent, after it."""
    tools.need("strace", "strace")
    if os.geteuid() != 0:
        pytest.skip(
            "only root's strace sees what a process writes that leaves no core: run the tests as root"
        )
    counted(machine, heat, FEW)
    trace = (machine.folder / f"batch{FEW}" / "trace").read_text()
    names = [f"d{each}-of-{FEW}" for each in range(FEW)]
    assert all(f"/{each}?" in trace for each in names), (
        "the requests are not in the trace"
    )
    assert not too_early(trace, names)


def test_early_result_or_start_is_detected() -> None:
    """The check itself."""
    finished = (
        '7 write(5, "0 {\\"key\\":\\"d0\\",\\"state\\":\\"finished\\"}\\n", 9) = 9\n'
    )
    running = finished.replace("finished", "running")
    flush, send, word = (
        "7 fdatasync(5) = 0\n",
        '8 sendto(9, "POST /v1/d0?Signature=c HTTP/1.1", 33) = 33\n',
        '7 write(6, "\\n", 1) = 1\n',
    )
    meanwhile = (
        "7 fdatasync(5 <unfinished ...>\n" + send + "7 <... fdatasync resumed>) = 0\n"
    )
    assert not too_early(running + flush + word + finished + flush + send, ["d0"])
    assert too_early(running + word + flush + finished + flush + send, ["d0"]) == {
        "running d0"
    }
    for order in (
        finished + send + flush,
        flush + finished + send,
        finished + meanwhile,
    ):
        assert too_early(order, ["d0"]) == {"d0"}


def test_calls_of_scripts_are_not_counted(tmp_path: Path) -> None:
    """The counting itself: what comes before a script, in its process, is the supervisor's."""
    trace = tmp_path / "trace"
    trace.write_text(
        '7 execve("/bin/sh", ["sh", "-c", "…"], 0x5 /* 9 vars */) = 0\n'
        "8 dup2(3, 0) = 0\n"
        f'8 execve("{tmp_path}/scripts/d1", ["d1"], 0x5 /* 9 vars */) = 0\n'
        '8 openat(AT_FDCWD, "/etc/ld.so.cache", O_RDONLY) = 3\n'
        "7 wait4(-1,  <unfinished ...>\n"
        "8 exit_group(0) = ?\n"
        "7 <... wait4 resumed>[{WIFEXITED(s)}], 0, NULL) = 8\n"
        "7 fdatasync(5) = 0\n"
    )
    assert calls(trace, tmp_path / "scripts") == {
        "execve": 2,
        "dup2": 1,
        "scripts": 1,
        "wait4": 1,
        "fdatasync": 1,
    }
