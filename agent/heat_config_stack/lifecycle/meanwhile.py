"""The work of all other tasks while a handler of a plug-in waits."""

from __future__ import annotations

import time
from collections.abc import Callable

from heat_config_stack.records.store import Memory
from heat_config_stack.resource.scheduler import Scheduler


def carry_on(scheduler: Scheduler, store: Memory, wait: Callable[[float], None], seconds: float) -> None:
    """Carry out all other tasks for that many seconds, or until an action of a stack has begun or ended.

    `wait` waits for the next event, or for that many seconds.
    """
    until, changing = time.monotonic() + seconds, store.changing()
    while (left := until - time.monotonic()) > 0:
        scheduler.turn()
        store.flush()
        if store.changing() != changing:
            return
        wait(left)
