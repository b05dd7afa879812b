"""The scenarios, in the order in which they are run and reported: a module for each kind, which yields its own."""

from __future__ import annotations

from bench.scenario import Scenario
from bench.scenarios import (
    batch,
    chain,
    checks,
    day,
    fleet,
    follow,
    hosts,
    latency,
    one_shot,
    output,
    own_hook,
    polls,
    rescan,
    service,
    size,
    stack,
    ungoverned,
    verification,
)

ALL: tuple[Scenario, ...] = (
    *one_shot.SCENARIOS,
    *batch.SCENARIOS,
    *rescan.SCENARIOS,
    *own_hook.SCENARIOS,
    *polls.SCENARIOS,
    *follow.SCENARIOS,
    *hosts.SCENARIOS,
    *day.SCENARIOS,
    *latency.SCENARIOS,
    *output.SCENARIOS,
    *chain.SCENARIOS,
    *checks.SCENARIOS,
    *stack.SCENARIOS,
    *service.SCENARIOS,
    *ungoverned.SCENARIOS,
    *verification.SCENARIOS,
    *fleet.SCENARIOS,
    *size.SCENARIOS,
)

NAMES = tuple(each.name for each in ALL)
