"""Two files that are flushed at the same time, because something has to wait for both."""

from __future__ import annotations

import _thread
from collections.abc import Callable


def flush_both(flush: Callable[[], None], other: Callable[[], None]) -> None:
    """Flush two files at the same time, which takes about as long as one: the file system writes both in one go.

    When it returns, neither is being flushed any more. Raises the error of either, that of the first if both fail.
    """
    errors: list[BaseException] = []
    done = _thread.allocate_lock()

    def run() -> None:
        try:
            other()
        except BaseException as error:  # noqa: BLE001  # it is raised in the other thread
            errors.append(error)
        finally:
            done.release()

    done.acquire()
    try:
        _thread.start_new_thread(run, ())  # `threading` would wait until it has begun
    except RuntimeError:  # the machine has no processes left
        run()
    try:
        flush()
    finally:
        _wait_for(done)
    if errors:
        raise errors[0]


def _wait_for(lock: _thread.LockType) -> None:
    """Wait until a lock is released, also if ^C interrupts that."""
    try:
        lock.acquire()
    except BaseException:
        lock.acquire()
        raise
