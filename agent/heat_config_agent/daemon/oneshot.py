"""One pass for `run --once`: poll every source once, do everything that is to do, and end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from heat_config_agent.daemon.agent import Agent
from heat_config_agent.daemon.status import StatusWriter
from heat_config_agent.daemon.systemd import Notifier
from heat_config_agent.daemon.wakeup import Wakeup
from heat_config_agent.deployments.plan import Step, Verb
from heat_config_agent.engine.applier import WAITS
from heat_config_agent.engine.events import Report
from heat_config_agent.model.deployment import Mistake
from heat_config_agent.model.entry import Entry
from heat_config_agent.settings.effective import Settings
from heat_config_agent.state.removal.pruning import LAST_SLICE
from heat_config_hooks.values import dataclass

_REBOOT_DELAY = 1.0
"""Seconds between two looks while a deployment waits for a reboot of the machine."""


@dataclass(frozen=True, kw_only=True)
class Pass:
    """The outcome of one pass."""

    steps: tuple[Step, ...]
    """The plan, with one step for each deployment."""
    entries: Mapping[str, Entry]
    """The entries of the journal at the end, before pruning."""
    mistakes: tuple[Mistake, ...]
    """All mistakes in the documents."""
    answered: bool
    """True if any source has answered."""
    silent_transports: tuple[str, ...]
    """The names of the transports if none of them has answered, else nothing."""
    interrupted: bool
    """True if a signal has ended the pass early."""


def once(
    settings: Settings, report: Report, refresh: Callable[[], None], interval: float
) -> Pass:
    """Poll every source once, and do everything that is to do. Raises StateError.

    `refresh` is called after each turn, at least every `interval` seconds. The settings limit how long the agent tries
    to deliver a result.
    """
    notifier, wakeup = Notifier({}), Wakeup()
    status = StatusWriter(settings.state, notifier, report)
    agent = Agent(settings, report, notifier, delivery_seconds=settings.delivery)
    steps: list[Step] = []
    with wakeup.listening() as descriptor:
        while agent.busy:
            wakeup.drain()
            if wakeup.interrupted:
                break
            steps = _merged(steps, _turn(agent, descriptor, interval))
            refresh()
        if agent.applier.work.reboots and agent.applier.work.queue:
            report.warn(WAITS)
        status.write(agent.snapshot(), ended=True)
    entries = agent.journal.entries
    agent.close()
    agent.prune(LAST_SLICE)
    return Pass(
        steps=tuple(steps),
        entries=entries,
        mistakes=tuple(agent.applier.mistakes),
        answered=agent.intake.answered,
        silent_transports=tuple(agent.intake.silent_transports),
        interrupted=wakeup.interrupted,
    )


def _turn(agent: Agent, wakeup: int, interval: float) -> list[Step]:
    """Do one turn, which waits at most `interval` seconds; return the plan if one was made in it."""
    agent.take_in(agent.collection.answers(), now=True)
    before = agent.pulse()
    agent.heed()
    steps = agent.look()
    agent.work(_delay(agent, interval) if agent.busy else 0.0, wakeup, before)
    return steps


def _delay(agent: Agent, interval: float) -> float:
    """Return the number of seconds until something is due."""
    if agent.stale:
        return 0.0
    delays = [interval, agent.collection.due, agent.look_delay]
    return min([*delays, _REBOOT_DELAY] if agent.applier.work.reboots else delays)


def _merged(earlier: Iterable[Step], later: Iterable[Step]) -> list[Step]:
    """Return one step for each deployment: the first that does something, else the last."""
    everything = {step.deployment.key: step for step in (*earlier, *later)}
    begun = {
        step.deployment.key: step
        for step in earlier
        if step.verb not in (Verb.SKIP, Verb.WAIT)
    }
    return list((everything | begun).values())
