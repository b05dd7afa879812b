"""Results: what follows from the end of a run, put on record, reported to people, and sent until the server has it.

A result is on disk before it is sent, with one exception: a receiver that has each result on disk itself before it
counts as delivered. That receiver gets it at once, so that one flush secures it together with the record of the run
that the receiver begins next. People hear of it after that flush. A power cut before the flush may take the result from
the journal alone; `recall` puts it back.
"""

from __future__ import annotations

import time

from heat_config_agent.deployments import jobs, plan
from heat_config_agent.deployments.plan import Step, Verb
from heat_config_agent.engine import events, launch, records, survey
from heat_config_agent.engine.launch import RunEnd
from heat_config_agent.engine.work import Work
from heat_config_agent.masking.redaction import name_of
from heat_config_agent.model.deployment import COMPONENT, Deployment, Job, Result
from heat_config_agent.model.entry import Entry, Run, State
from heat_config_agent.model.errors import StateError
from heat_config_agent.runs import result, run_folder
from heat_config_agent.runs.run_folder import UNSTARTED
from heat_config_agent.signals.delivery import Fate, Outcome
from heat_config_hooks import processes
from heat_config_hooks.reply import (
    REBOOT,
    TIMED_OUT,
    UNKNOWN,
    Reply,
    failure,
    status_code,
)
from heat_config_hooks.values import dataclass, replace

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from typing import Literal, TypeAlias

    from heat_config_hooks.retry import Retry  # few deployments have it

    Repeat: TypeAlias = Literal["not started", "interrupted"]
    """The reason why a deployment is planned again.

    - not started: the command was not run, because the supervisor exited without the agent's word
    - interrupted: the run was interrupted, and the deployment's options say that it may be run again
    """

PLANNING, BEGINNING, CONCLUDING = (
    "planning",
    "beginning",
    "making a result of what was left by",
)
"""The work on a deployment, as `state.attempts` names it."""

RERUNS = 3
"""The number of times that an idempotent deployment is run again after interruptions. It may cause them itself."""

REBOOTS = 10
"""The number of reboots that a deployment may ask for. One that asks again and again makes no progress."""


@dataclass(frozen=True)
class BrokenOff:
    """The agent ended the run, or it is not known how it ended."""

    code: int
    reason: str


REPLACED = BrokenOff(
    TIMED_OUT, "not run again because its deployment was replaced by a DELETE"
)
"""A retry that was not waited for."""


# Decisions, which are pure.


def consequence(end: RunEnd, entry: Entry, job: Job | None) -> Repeat | int | BrokenOff:
    """Return what follows from the end of a run, given its entry in the journal and its job.

    An exit code means that the command ended by itself.
    """
    if end.recorded == UNSTARTED:
        return "not started"
    if end.ending:
        return BrokenOff(TIMED_OUT, f"ended because {end.ending}")
    if end.recorded:
        return int(end.recorded)
    if job is not None and job.idempotent and entry.reruns < RERUNS:
        return "interrupted"
    return BrokenOff(UNKNOWN, _loss(end))


def _loss(end: RunEnd) -> str:
    """Return in a sentence why it is not known how a run ended."""
    if end.unreadable:
        reason = f"it is not known how it ended: cannot read the record of it: {end.unreadable}"
    elif end.displaced:
        reason = "it is not known how it ended: the record of it was removed or replaced while it ran"
    elif end.same_boot:
        reason = (
            "interrupted: its supervisor was killed, so it is not known how it ended"
        )
    else:
        when = "before its output was safe on disk" if end.had_ended else "while it ran"
        reason = f"interrupted: the machine went down {when}"
    return (
        f"{reason}; its remaining processes were killed" if end.had_remains else reason
    )


def retry_delay(
    code: int | None, retry: Retry | None, entry: Entry, lasted: float
) -> float | None:
    """Return the seconds until a command is run again that has ended with this code; None if it is not.

    `lasted` are the seconds that its run has taken. The timeout is for all attempts and delays together.
    """
    if retry is None or code not in retry.codes or entry.attempts >= retry.times:
        return None
    delay = retry.delay_after(entry.attempts + 1)
    limit = entry.run.limit if entry.run else None
    return delay if limit is None or entry.spent + lasted + delay < limit else None


# Results on record.


def conclude(work: Work, step: Step, recorded: str, ending: str) -> bool:
    """Put on record what follows from the end of a run; return True if its deployment has to be planned again.

    `recorded` is what the supervisor wrote, and `ending` why the agent ended the run. Raises StateError.
    """
    key = step.deployment.key
    if recorded != UNSTARTED and _give_up(work, step, CONCLUDING, recorded):
        return False
    entry = work.journal.entries[key]
    run = run_of(entry)
    end = launch.end_of(work.settings, step.deployment, run, recorded, ending)
    outcome = consequence(end, entry, step.job)
    # 1. Its command was not run, or it may be run again after an interruption.
    if outcome == "not started":
        work.journal.not_started(key)
        return True
    if outcome == "interrupted":
        work.journal.interrupted(key)
        return True
    # 2. The agent ended it, or it is not known how it ended.
    if isinstance(outcome, BrokenOff):
        break_off(work, step, outcome)
        return False
    # 3. Its command ended by itself, and is run again if a source still has it: after a delay, or after a reboot.
    reply = launch.reply_of(work, step, run, outcome)
    wanted = key in work.offer.deployments
    if wanted and _try_again(work, step, run, reply):
        return True
    asks = wanted and status_code(reply) == REBOOT
    if asks and entry.reboots < REBOOTS:
        _wait_for_reboot(work, step, run)
        return True
    # 4. It has ended.
    reason = f"it asked for a reboot more than {REBOOTS} times" if asks else ""
    lack = "" if asks else _lack(work, step, run, status_code(reply))
    finish(work, step, _result(work, step, reply, reason, lack))
    return False


def answer(
    work: Work, step: Step, reply: Reply, reason: str, *, by_tool: bool = False
) -> None:
    """Put the result of a step on record that is known without a run, or whose command could not be started.

    `by_tool` is True if its tool needs no command and has given the reply itself.
    """
    finish(work, step, _result(work, step, reply, reason), by_tool=by_tool)


def break_off(work: Work, step: Step, broken: BrokenOff) -> None:
    """Put on record that a deployment has failed, with the output of its run so far."""
    reply = failure(
        broken.code, broken.reason, *launch.output_of(work.settings, step.deployment)
    )
    answer(work, step, reply, broken.reason)


def reboot_failed(work: Work, entry: Entry, reason: str) -> None:
    """Put on record that a deployment has failed because the machine cannot be rebooted, as its command asked."""
    deployment = plan.deployment_of(entry)
    job = jobs.of_run(deployment, entry.run)
    step = Step(verb=Verb.RESUME, deployment=deployment, reason=reason, job=job)
    break_off(work, step, BrokenOff(UNKNOWN, f"it asked for a reboot, and {reason}"))


def give_up(work: Work, step: Step) -> bool:
    """Answer a deployment as failed if the agent was aborted again and again before it ran.

    Returns True if that was so.
    """
    return _give_up(work, step, BEGINNING) or _give_up(work, step, PLANNING)


def finish(work: Work, step: Step, outcome: Result, *, by_tool: bool = False) -> None:
    """Put the result of a deployment on record; `publish` sends it."""
    key = step.deployment.key
    run = work.journal.entries[key].run
    ended = (
        run_folder.ended_at(work.settings.run(key), run)
        if run and step.verb is Verb.RESUME
        else None
    )
    then = _follow_up(work, step, outcome, by_tool=by_tool)
    work.journal.finished(
        key, outcome, ended, then=None if then is None else _acceptance(then)
    )
    work.finished.append(step)
    if then is not None and then.verb is Verb.RUN:
        work.queue.drop(then.deployment.key)
        work.queue.add(then)
    elif then is not None:
        answer(work, then, then.reply or {}, then.reason)


def _follow_up(
    work: Work, step: Step, outcome: Result, *, by_tool: bool
) -> Step | None:
    """Return the step that follows from the failure of a run; None if none does.

    A result that is not waited for any more, as its deployment was replaced, is followed by none.
    """
    job = step.job
    if (
        not outcome.failed
        or job is None
        or not (job.on_failure or job.deployment.group == COMPONENT)
    ):
        return None
    entry = work.journal.entries[job.deployment.key]
    if work.offer.supersedes(entry):
        return None
    from heat_config_agent.deployments import follow_up  # noqa: PLC0415  # few deployments have one

    deployment = follow_up.make(job, entry, outcome, by_tool=by_tool)
    if deployment is None:
        return None
    if (earlier := work.journal.entries.get(deployment.key)) is not None:
        launch.keep_earlier(work, earlier)
    known = survey.facts([deployment], work.journal.entries, work.ground, are_few=True)
    then = plan.renewed(deployment, known)
    if then.verb not in (Verb.RUN, Verb.ANSWER):
        return None
    reason = f"{job.deployment.title} has failed" if then.verb is Verb.RUN else ""
    return replace(then, reason=reason or then.reason)


def _acceptance(step: Step) -> tuple[Deployment, str]:
    """Return a deployment that is accepted as a step has it, with its tool."""
    tool = step.job.config.tool if step.job else step.deployment.group
    return step.deployment, name_of(step.deployment, tool)


def run_of(entry: Entry) -> Run:
    """Return the run of an entry. Raises StateError if the journal has none."""
    if entry.run is None:
        raise StateError(
            f"the journal says that {entry.key} is running, but not as which process"
        )
    return entry.run


def _result(
    work: Work, step: Step, reply: Reply, reason: str = "", lack: str = ""
) -> Result:
    """Return the result of a deployment from its reply. `lack` says what the machine lacked at the end of its run."""
    deployment = launch.revealed(work.settings, step.deployment) or step.deployment
    entry = work.journal.entries[step.deployment.key]
    attempts = entry.attempts + (entry.state is State.RUNNING) if entry.attempts else 0
    return result.make(
        reply, deployment, reason, work.attempts.alive, attempts=attempts, lack=lack
    )


def _lack(work: Work, step: Step, run: Run, code: int | None) -> str:
    """Return what the machine lacked at the end of a run; empty if nothing."""
    outputs = [run.outputs] if step.deployment.outputs else []
    return run_folder.shortage_of_output(
        [work.settings.run(step.deployment.key), *outputs], run.working, code
    )


def _give_up(work: Work, step: Step, task: str, recorded: str = "") -> bool:
    """Answer a deployment as failed if the agent was aborted again and again at this task.

    Neither the deployment nor the output of its run is read for that: one of them made the agent hang.
    """
    reason = work.attempts.hopeless(task, step.deployment.key)
    if reason:
        reason = (
            f"{reason}; its command has ended with exit code {recorded}"
            if recorded
            else reason
        )
        values = {
            "deploy_stdout": "",
            "deploy_stderr": f"{reason}\n",
            "deploy_status_code": UNKNOWN,
        }
        finish(work, step, Result(values=values, failed=True, reason=reason))
        work.attempts.forget(step.deployment.key)
    return bool(reason)


def _try_again(work: Work, step: Step, run: Run, reply: Reply) -> bool:
    """Put on record that the command is run again, if the option `retry` says so for its reply; else return False.

    `Job.retry` says how often, and the journal how often that was.
    """
    key = step.deployment.key
    entry = work.journal.entries[key]
    now = processes.since_boot()
    lasted = now - run.began
    if run.boot != processes.boot_id():
        # the machine went down when the command had ended
        lasted = (run_folder.ended_at(work.settings.run(key), run) or 0.0) - (
            entry.started or 0.0
        )
    lasted = max(lasted, 0.0)
    delay = retry_delay(
        status_code(reply), step.job.retry if step.job else None, entry, lasted
    )
    if delay is None:
        return False
    deployment = launch.revealed(work.settings, step.deployment) or step.deployment
    reason = result.make(reply, deployment, alive=work.attempts.alive).reason
    work.journal.retry(key, reason, spent=entry.spent + lasted + delay, due=now + delay)
    records.tidy(work, key)
    work.report.event(events.Retried(step, work.journal.entries[key]))
    return True


def _wait_for_reboot(work: Work, step: Step, run: Run) -> None:
    """Let nothing new begin before the reboot of the machine that a command has asked for."""
    key = step.deployment.key
    work.journal.reboot(key)
    if run.boot == processes.boot_id():
        work.queue.rebooting.add(key)
    work.report.event(events.RebootAsked(step, work.journal.entries[key]))


# Results on their way.


def publish(work: Work) -> None:
    """Flush the results of this turn to disk, report them, and send those that are still waited for.

    Deployments that no source has any more are let go of. The flush also secures the record of the next run, so a batch
    waits for the disk once for each deployment. If the flush fails, the results are sent later, like those of an
    earlier agent. Results that the receiver stores are sent here, and secured by `secure`. Raises StateError.
    """
    finished, work.finished = work.finished, []
    stored = [step for step in finished if _is_stored(work, step)]
    work.unsecured += stored
    if len(stored) < len(finished):
        work.journal.secure()
    superseded = []
    for step in finished:
        work.attempts.alive()
        if not _is_stored(work, step):
            _announce(work, step)
        if _send(work, step.deployment.key):
            superseded.append(step.deployment.key)
    for key in superseded:
        records.withdraw(work, key)


def secure(work: Work) -> None:
    """Flush the results that the receiver has got, if the record of a run has not done so, and report them.

    Raises StateError.
    """
    if work.unsecured:
        work.journal.secure()
        unsecured, work.unsecured = work.unsecured, []
        for step in unsecured:
            _announce(work, step)


def resend(work: Work, step: Step) -> None:
    """Send a result of an earlier run, or let go of its deployment if no source has it any more."""
    key = step.deployment.key
    work.journal.sync()  # a result is on disk before it is sent; the flush after the run may have failed
    work.report.event(events.Resent(step, work.journal.entries[key]))
    # the agent that had the result may have been killed before it could
    records.tidy(work, key)
    if work.journal.entries[key].state is not State.FINISHED:
        work.journal.send_again(key)
    if _send(work, key):
        records.withdraw(work, key)


def recall(work: Work, key: str, outcome: Result | None, ended: float | None) -> None:
    """Settle a deployment whose run has ended, as `Applier.recall` says."""
    if outcome is not None and work.journal.entries[key].state is not State.FINISHED:
        work.journal.finished(key, outcome, ended)
    records.tidy(work, key)
    records.settle(work, key, State.SUPERSEDED if outcome is None else State.SIGNALLED)


def take_outcomes(work: Work) -> None:
    """Record the outcomes of the results that were sent."""
    for outcome in work.delivery.outcomes():
        work.attempts.alive()
        _record(work, outcome)


def _is_stored(work: Work, step: Step) -> bool:
    """Return whether the receiver stores the result of a step; one without a signal reaches no receiver."""
    return (
        work.delivery.is_stored
        and step.deployment.target.wanted
        and not work.journal.entries[step.deployment.key].drift
    )


def _announce(work: Work, step: Step) -> None:
    """Report a result that is on disk, and remove what its run does not need any more."""
    key = step.deployment.key
    records.write_result(work, step)
    # of an answer too: an agent may have been killed before it could record a run
    records.tidy(work, key)
    work.report.event(events.Ended(step, work.journal.entries[key]))


def _send(work: Work, key: str) -> bool:
    """Send a result, if it is waited for. Returns True if it is superseded, and must never be sent."""
    entry = work.journal.entries[key]
    deployment = work.offer.deployments.get(key)
    if deployment is None:
        # if its source has not answered this time, the next answer decides
        return work.offer.supersedes(entry)
    if deployment.source in work.offer.unconfirmed:
        return False  # it is on record, and sent once its source has confirmed that it is waited for
    # the server has had the result of a deployment that is repaired, and would take this one for its next action's
    if entry.drift or not deployment.target.wanted:
        records.settle(work, key, State.UNASKED)
    else:
        target, values = deployment.target, entry.values or {}
        work.delivery.send(key, target, values, ended=entry.ended, earlier=entry.tries)
    return False


def _record(work: Work, outcome: Outcome) -> None:
    entry = work.journal.entries.get(outcome.key)
    if entry is None or entry.state is not State.FINISHED:
        return  # it was superseded while it was being sent
    if outcome.fate is Fate.SENT:
        records.settle(work, entry.key, State.SIGNALLED)
    elif outcome.fate is Fate.REFUSED:
        records.settle(work, entry.key, State.REFUSED, outcome.trouble)
    else:
        work.journal.tried(
            entry.key,
            outcome.trouble,
            time.time() + outcome.wait if outcome.wait else 0,
        )
    work.report.event(events.Delivered(work.journal.entries[entry.key], outcome))
