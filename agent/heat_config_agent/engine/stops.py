"""Requests of people to stop deployments.

A run is ended with its whole process tree, and what has not begun never begins. Either way the deployment has failed,
and its result says who has stopped it. Whoever works on the state directory carries the requests out.

A request is removed when what follows from it is on record: the reason in the status file of the run, or the result in
the journal. So it is carried out once, whenever the process is killed. It names the time at which the deployment was
accepted, so that it is never taken for one about a later run.
"""

from __future__ import annotations

from heat_config_agent.deployments import jobs, plan
from heat_config_agent.deployments.plan import Step, Verb
from heat_config_agent.engine import launch, records, results
from heat_config_agent.engine.results import CONCLUDING, BrokenOff
from heat_config_agent.engine.work import Work
from heat_config_agent.model.entry import OPEN, Entry, State
from heat_config_agent.state import requests
from heat_config_agent.state.requests import Stop
from heat_config_hooks.reply import TIMED_OUT, failure

_WAITED = {
    State.ACCEPTED: "not run: {} before it began",
    State.RETRY: "not run again: {}",
    State.REBOOT: "not continued after the reboot that it asked for: {}",
}


def heed(work: Work) -> None:
    """Carry out all requests to stop. Those that cannot be carried out now are tried again. Raises StateError."""
    state = work.settings.state
    try:
        stops = requests.stops(state)
    except OSError as error:
        work.report.warn(f"cannot read the requests in {state}: {error.strerror}")
        return
    for stop in stops:
        entry = work.journal.entries.get(stop.key)
        if entry is not None and entry.accepted == stop.accepted:
            _stop(work, entry, stop)
        try:
            requests.stop_is_done(state, stop.key)
        except OSError as error:
            title = entry.title if entry else stop.key
            work.report.warn(
                f"cannot remove the request to stop {title}: {error.strerror}"
            )


def settle(work: Work, key: str) -> None:
    """Put on record that nothing more is done for a stopped deployment, if no server waits for its result."""
    entry = work.journal.entries.get(key)
    if (
        entry is not None
        and entry.state is State.FINISHED
        and not plan.is_awaited(entry)
    ):
        records.settle(work, key, State.UNASKED)


def _stop(work: Work, entry: Entry, stop: Stop) -> None:
    """Stop a deployment, and put on record that this was requested. Raises StateError."""
    reason = f"it was stopped by {stop.by or 'a person'}"
    if entry.state is State.RUNNING:
        _end(work, entry, reason)
    elif entry.state in OPEN:
        _answer(work, entry, reason)
    elif entry.again:
        work.journal.again(entry.key, required=False)
        work.journal.sync()
        work.report.note(f"{entry.title} does not run again: {reason}")


def _end(work: Work, entry: Entry, reason: str) -> None:
    """Begin to end a run, also one of a deployment that no source has offered. Raises StateError.

    The result of a run that has ended by itself is put on record, unless the run is repeated.
    """
    key, run = entry.key, results.run_of(entry)
    step = _step(entry, Verb.RESUME)
    if key not in work.active and not launch.adopt(work, step, run):
        with work.attempts.on(CONCLUDING, key):
            ended = launch.close_lost(work.settings, key, run)
            is_open = results.conclude(work, step, *ended)
        if is_open:
            _answer(work, work.journal.entries[key], reason)
        results.publish(work)
        return
    running = work.active[key].running
    if not running.ending:
        work.report.note(f"{entry.title} is being ended: {reason}")
        launch.end(work, running, reason)


def _answer(work: Work, entry: Entry, stopped: str) -> None:
    """Put on record that a deployment has failed without a run, or without another one. Raises StateError."""
    key, reason = entry.key, _WAITED[entry.state].format(stopped)
    waiting = next((each for each in work.queue if each.deployment.key == key), None)
    work.queue.drop(key)
    work.queue.rebooting.discard(key)
    if entry.state is State.ACCEPTED:
        step = _step(entry, Verb.ANSWER)
        results.answer(work, step, failure(TIMED_OUT, reason), reason)
    else:
        step = _step(entry, Verb.RESUME) if waiting is None else waiting
        results.break_off(work, step, BrokenOff(TIMED_OUT, reason))
    results.publish(work)


def _step(entry: Entry, verb: Verb) -> Step:
    """Return the step of a deployment as its record has it."""
    deployment = plan.deployment_of(entry)
    job = jobs.of_run(deployment, entry.run) if verb is Verb.RESUME else None
    return Step(verb=verb, deployment=deployment, reason="asked for", job=job)
