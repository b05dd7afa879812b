"""The cost of an idle daemon: one request for each poll, and no memory that grows."""

from __future__ import annotations

import statistics
from itertools import pairwise
from pathlib import Path

import pytest

from bench import heat, idle
from support.loopback import wait_until
from support.machine import deployment

pytestmark = pytest.mark.new_process("daemons")

TRANSPORTS = ("heat", "cfn", "request", "zaqar")

WINDOWS = (10_000, 12_000, 14_000, 16_000)
"""Polls after which memory is looked at.

Before the first it takes its size: it grows for 8,000 polls, ever more slowly, and then no more."""

NOISE = 64 * 1024
"""Bytes by which it may differ between two looks: less than 33 for each poll."""

ONCE = 1024 * 1024
"""The bytes by which the daemon may grow in all, because an allocator takes more memory once."""

FASTER = 10_000.0
"""The factor by which time passes faster, for all periodic work."""

SECONDS = 120.0


@pytest.mark.slow
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_an_idle_poll_is_one_request(tmp_path: Path, transport: str) -> None:
    """An idle poll costs one request, and no further login."""
    kind = heat.SWIFT if transport == "request" else transport
    with heat.running() as server:
        server.put({"deployments": [_settled()]})
        daemon = idle.Daemon(
            idle.ours(tmp_path, server, 100, [transport]),
            idle.environment(tmp_path),
            tmp_path,
        )
        try:
            idle.wait(lambda: daemon.said("done after") == 1, daemon, SECONDS)
            idle.polled(5, server, kind, daemon)
            before = server.counts()
            idle.polled(20, server, kind, daemon)
            found = server.counts() - before
        finally:
            daemon.close()
    assert set(found) == {kind}
    assert daemon.said("cannot") == 0


@pytest.mark.slow
def test_memory_does_not_grow(tmp_path: Path) -> None:
    """Memory does not grow over ten thousand polls of all transports with all periodic work."""
    with heat.running() as server:
        server.put({"deployments": [_settled()]})
        daemon = idle.Daemon(
            idle.ours(tmp_path, server, FASTER, TRANSPORTS),
            idle.environment(tmp_path),
            tmp_path,
        )
        sizes: list[int] = []
        try:
            for polls in WINDOWS:
                wait_until(lambda polls=polls: _polls(server) >= polls, SECONDS)  # type: ignore[misc]
                sizes.append(daemon.used().anonymous)
            daemon.check()
        finally:
            daemon.close()
    assert (
        statistics.median(after - before for before, after in pairwise(sizes)) <= NOISE
    ), sizes
    assert sizes[-1] - sizes[0] <= ONCE, sizes


def _settled() -> dict[str, object]:
    return deployment("d1", "#!/bin/sh\n")


def _polls(server: heat.Heat) -> int:
    return server.counts().total() - server.counts()[heat.KEYSTONE]
