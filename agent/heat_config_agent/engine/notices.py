"""Makes notices of the events of the engine."""

from __future__ import annotations

from collections.abc import Iterable

from heat_config_agent.deployments.plan import Step, Verb
from heat_config_agent.engine import events
from heat_config_agent.engine.events import Event
from heat_config_agent.masking.redaction import concealer, name_of
from heat_config_agent.model.entry import Entry, Run
from heat_config_agent.model.wording import duration, line, next_attempt
from heat_config_agent.signals.delivery import Fate, Outcome, in_words
from heat_config_agent.signals.notices.notice import (
    BEGUN,
    DELIVERED,
    DRIFTED,
    ENDED,
    NOTE,
    REBOOT,
    Notice,
    stack_of,
)
from heat_config_hooks.values import replace

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from heat_config_agent.signals.notices.channel import Channel

_ERROR, _WARNING, _NOTICE, _INFORMATION = 3, 4, 5, 6
"""Priorities of syslog."""


def hand_on(event: Event, channels: Iterable[Channel]) -> None:
    """Hand a notice of an event to channels if a deployment has changed its state."""
    notice = notice_of(event)
    if notice is not None and notice.change != NOTE:
        for channel in channels:
            channel.put(notice)


def notice_of(event: Event) -> Notice | None:
    """Return the notice of an event; None for an event that would only repeat an earlier notice."""
    match event:
        case events.Begun():
            return _begun(event.step, event.run)
        case events.Ended():
            return _ended(event.step, event.entry)
        case events.RebootAsked():
            text = f"asks for a reboot of the machine, and continues after it ({event.entry.reboots})"
            return _about(event.step, REBOOT, _NOTICE, text, event.entry)
        case events.Retried():
            why = concealer(event.step.deployment).text(event.entry.reason)
            return _about(
                event.step,
                NOTE,
                _WARNING,
                f"{why}; {next_attempt(event.entry)}",
                event.entry,
            )
        case events.Resent():
            return _about(
                event.step, NOTE, _INFORMATION, "the result is sent again", event.entry
            )
        case events.Postponed():  # the reason names the deployment
            return _note(
                event.step, f"{event.reason}; the agent retries", "accepted", _WARNING
            )
        case events.Delivered():
            return _delivered(event.entry, event.outcome)
        case events.Drifted():
            return _drifted(event.entry, event.text)
        case events.Message(step=Step() as step):
            state = "skipped" if step.verb is Verb.SKIP else "running"
            return _note(
                step, event.text, state, _WARNING if event.is_warning else _INFORMATION
            )
        case _:
            return None


def _begun(step: Step, run: Run) -> Notice:
    """Return the notice that a command runs, which an earlier agent may have started."""
    deed = " ".join(filter(None, (step.deployment.action, f"({_tool(step)})")))
    if step.reason.startswith("started earlier"):
        text = f"follows {deed}, which is already running as process {run.pid}"
    else:
        text = f"begins {deed}"
    return _about(step, BEGUN, _NOTICE, text, state="running")


def _ended(step: Step, entry: Entry) -> Notice:
    """Return the notice that the result of a deployment is known."""
    took = (
        f" after {duration(entry.ended - entry.started)}"
        if entry.started and entry.ended
        else ""
    )
    why = entry.reason or (
        step.reason if entry.failed or step.verb is Verb.ANSWER else ""
    )
    why = concealer(step.deployment).text(why)
    word, priority = ("FAILED", _ERROR) if entry.failed else ("done", _NOTICE)
    text = f"{word}{took}: {why}" if why else f"{word}{took}"
    return _about(step, ENDED, priority, text, entry, reason=why)


def _note(step: Step, text: str, state: str, priority: int) -> Notice:
    """Return the notice of a line about a deployment, which names it and changes no state."""
    notice = _about(step, NOTE, priority, "", state=state)
    return replace(notice, text=line(concealer(step.deployment).text(text)))


def _delivered(entry: Entry, outcome: Outcome | None) -> Notice | None:
    """Return the notice that a result was accepted, refused, replaced or not sent; None if the same failure repeats."""
    if outcome is None:
        word, priority = "replaced", _WARNING
    elif outcome.fate is Fate.SENT:
        word, priority = "accepted", _INFORMATION
    elif outcome.fate is Fate.REFUSED:
        word, priority = "refused", _ERROR
    elif entry.tries == 1:
        word, priority = "waiting", _WARNING
    else:
        return None
    return Notice(
        change=DELIVERED,
        text=line(f"{entry.title}: the result {in_words(outcome)}"),
        priority=priority,
        id=entry.id or entry.key,
        name=entry.name,
        action=entry.action,
        tool=entry.tool,
        source=entry.source,
        stack=stack_of(entry.document),
        state=_state(entry),
        delivery=word,
        started=entry.started,
        ended=entry.ended,
    )


def _drifted(entry: Entry, text: str) -> Notice:
    """Return the notice that a deployment has drifted."""
    return Notice(
        change=DRIFTED,
        text=line(text),
        priority=_WARNING,
        id=entry.id or entry.key,
        name=entry.name,
        action=entry.action,
        tool=entry.tool,
        source=entry.source,
        stack=stack_of(entry.document),
        state="drifted",
        reason=text.partition(": ")[2],
        started=entry.started,
        ended=entry.ended,
    )


def _about(
    step: Step,
    change: str,
    priority: int,
    text: str,
    entry: Entry | None = None,
    *,
    state: str = "",
    reason: str = "",
) -> Notice:
    deployment = step.deployment
    trace = deployment.trace
    return Notice(
        change=change,
        text=line(f"{deployment.title}: {text}"),
        priority=priority,
        id=deployment.id or deployment.key,
        name=deployment.name,
        action=deployment.action,
        tool=_tool(step),
        source=deployment.source,
        stack=stack_of(deployment.document),
        state=_state(entry) if entry is not None else state,
        reason=reason,
        started=entry.started if entry else None,
        ended=entry.ended if entry else None,
        trace=trace if concealer(deployment).text(trace) == trace else "",
    )


def _state(entry: Entry) -> str:
    if entry.ended is None:
        return entry.state.value
    return "failed" if entry.failed else "ok"


def _tool(step: Step) -> str:
    return name_of(
        step.deployment,
        step.job.config.tool if step.job is not None else step.deployment.group or "-",
    )
