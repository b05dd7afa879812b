from __future__ import annotations

import os
import select
import signal

from heat_config_agent.daemon.wakeup import Wakeup


def test_a_signal_wakes_whoever_waits() -> None:
    """A signal wakes the wait once, and does not end the process."""
    wakeup = Wakeup()
    before = signal.getsignal(signal.SIGUSR1)
    with wakeup.listening() as descriptor:
        assert not wakeup.take(signal.SIGUSR1)
        os.kill(os.getpid(), signal.SIGUSR1)
        assert select.select([descriptor], [], [], 60)[0] == [descriptor]
        wakeup.drain()
        assert select.select([descriptor], [], [], 0)[0] == []
        assert wakeup.take(signal.SIGUSR1)
        assert not wakeup.take(signal.SIGUSR1)
        assert not wakeup.interrupted
    assert signal.getsignal(signal.SIGUSR1) == before


def test_a_signal_to_end_stays() -> None:
    """A signal to end is still known after the wait, because the exit code depends on it."""
    wakeup = Wakeup()
    with wakeup.listening():
        os.kill(os.getpid(), signal.SIGTERM)
        wakeup.drain()
    assert wakeup.interrupted
