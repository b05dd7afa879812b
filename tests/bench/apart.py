"""A scenario in a process of its own: it has so much time, and leaves nothing behind, however it ends."""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

import psutil

from bench import measure, peers
from bench.scenario import LackingError, Sample, Scenario

GRACE, AFTER = 10.0, 2.0
"""Seconds that a scenario which is to end has for that; and what it has left then, to end by itself."""

_SET_DEATH_SIGNAL, _SET_ADOPTING = 1, 36
"""PR_SET_PDEATHSIG and PR_SET_CHILD_SUBREAPER of prctl(2)."""


@dataclass
class Outcome:
    """The outcome of a scenario."""

    samples: list[tuple[str, Sample]] = field(default_factory=list)
    """The samples of each finished run, with the name of the subject."""
    lacks: str = ""
    """The missing program or package, if it cannot be measured for that reason."""
    failed: str = ""
    """The failure, if there was one, with all details for a developer."""
    cut: bool = False
    """True if it was ended before it was complete."""


def measured(scenario: Scenario, seconds: float, say: Callable[[str], None]) -> Outcome:
    """Measure it. If it takes longer than so many seconds, it is ended, and what it had by then counts."""
    # Not in a folder for temporary files, which may be memory: what is flushed to disk has to get there.
    peers.FOLDER.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="bench-", dir=peers.FOLDER.parent))
    # so that what is here needs no way to get there
    context = multiprocessing.get_context("fork")
    received, sent = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(scenario, folder, sent))
    try:
        with _leaving_nothing():
            # until it knows what to do with that
            before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
            try:
                process.start()
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
            sent.close()
            try:
                return _followed(process, received, time.monotonic() + seconds, say)
            finally:
                process.terminate()
                process.join(GRACE)
                process.kill()
                process.join()
    finally:
        received.close()
        shutil.rmtree(folder, ignore_errors=True)


def _followed(
    process: BaseProcess, received: Connection, end: float, say: Callable[[str], None]
) -> Outcome:
    """Take in what the process says, until it has said all or its time is over."""
    outcome = Outcome()
    while received.poll(max(end - time.monotonic(), 0)):
        try:
            kind, *what = received.recv()
        except EOFError:
            process.join()
            outcome.failed = (
                f"its process has ended with {process.exitcode}, and has not said why"
            )
            return outcome
        match kind:
            case "says":
                say(*what)
            case "showed":
                outcome.samples.append((what[0], what[1]))
            case "lacks":
                outcome.lacks = what[0]
                return outcome
            case "failed":
                outcome.failed = what[0]
                return outcome
            case "done":
                return outcome
    outcome.cut = True
    return outcome


def _work(scenario: Scenario, folder: Path, told: Connection) -> None:
    """Measure a scenario in its own process, and report the outcome."""
    begun = time.monotonic()
    os.setsid()  # who is at the terminal interrupts the one that follows this, which ends it
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    _control(_SET_DEATH_SIGNAL, signal.SIGTERM)
    try:
        with scenario.subjects(folder) as subjects:
            for name, sample in measure.in_turn(
                scenario, subjects, lambda text: told.send(("says", text)), begun
            ):
                told.send(("showed", name, dict(sample)))
        told.send(("done",))
    except LackingError as lack:
        told.send(("lacks", str(lack)))
    except Exception:  # noqa: BLE001  # whatever it is, the others are to be measured
        told.send(("failed", traceback.format_exc()))


@contextlib.contextmanager
def _leaving_nothing() -> Iterator[None]:
    """End what is started meanwhile, also by those that end before, when this ends."""
    before = set(psutil.Process().children())
    _control(_SET_ADOPTING, 1)
    try:
        yield
    finally:
        end = time.monotonic() + AFTER
        while left := set(psutil.Process().children()) - before:
            over = time.monotonic() > end
            for each in left:
                with contextlib.suppress(psutil.NoSuchProcess, psutil.TimeoutExpired):
                    if over:
                        each.kill()
                    each.wait(0.1)
        _control(_SET_ADOPTING, 0)


def _control(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
