"""The records of deployments that come and go: the journal, heat-agents' folder, and the inputs of runs.

A deployment is on record before it begins. When it has left its source, or its run has ended, the files that are not
needed any more are removed, now or at a later pass.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping

from heat_config_agent.deployments import cleanup, plan
from heat_config_agent.deployments.plan import Step, Verb
from heat_config_agent.engine import events, launch
from heat_config_agent.engine.survey import Survey
from heat_config_agent.engine.work import Work
from heat_config_agent.masking.redaction import name_of
from heat_config_agent.model.entry import Entry, Removed, State
from heat_config_agent.model.errors import StateError
from heat_config_agent.runs import run_folder
from heat_config_hooks import files, processes, protocol

# Deployments that come and go.


def record(work: Work, survey: Survey) -> bool:
    """Put on record which deployments have moved, were replaced, have left or are back.

    Returns False if some of that could not be written; the next pass tries again. Raises StateError.
    """
    for deployment in survey.deployments:
        entry = work.journal.entries.get(deployment.key)
        if (
            entry
            and entry.source != deployment.source
            and deployment.action != cleanup.ACTION
        ):
            work.journal.moved(deployment.key, deployment.source)
    for key in survey.superseded:
        withdraw(work, key)
    complete = _record_departures(work, survey)
    waiting = [
        entry
        for entry in _concerned(work, survey)
        if entry.state is State.REBOOT and entry.run
    ]
    work.queue.rebooting = {
        entry.key
        for entry in waiting
        if entry.run and entry.run.boot == survey.known.boot
    }
    return complete


def accept(work: Work, step: Step) -> bool:
    """Record a step, and add it to the queue of steps.

    Returns True for a step that begins now instead: it needs nothing that another deployment could hold up.
    """
    key = step.deployment.key
    if step.verb in (Verb.SKIP, Verb.WAIT):
        work.report.event(events.Skipped(step))
        return False
    if step.verb in (Verb.RUN, Verb.ANSWER):
        # the result of an earlier run, which is not waited for now
        work.delivery.drop(key)
        entry = work.journal.entries.get(key)
        if not _is_on_record(step, entry):
            if entry is not None:
                # its document is replaced by that of the step
                launch.keep_earlier(work, entry)
            record_accepted(work, step)
    if step.verb is Verb.RUN or (step.verb is Verb.ANSWER and work.queue.hold):
        work.queue.add(step)
        return False
    return True


def record_accepted(work: Work, step: Step) -> None:
    """Put on record that a deployment is accepted as a step has it."""
    tool = step.job.config.tool if step.job else step.deployment.group
    work.journal.accepted(step.deployment, tool=name_of(step.deployment, tool))


def withdraw(work: Work, key: str) -> None:
    """Let go of a deployment that has left its source.

    Its run is followed to the end, unless the settings say otherwise, but its result is not sent.
    """
    entry = work.journal.entries[key]
    launch.cancel(work, key)
    work.queue.drop(key)
    work.delivery.drop(key)
    if entry.state is not State.RUNNING:
        tidy(work, key)  # an earlier agent may have been killed before it could
    if entry.state is State.ACCEPTED and cleanup.is_pending(
        entry, work.journal.entries
    ):
        return  # an earlier run of it made something, so it stays known until that is cleaned up
    if entry.state is State.ACCEPTED:
        _drop(work, key)
    elif entry.state is State.FINISHED and not plan.is_awaited(entry):
        settle(work, key, State.UNASKED)
    elif entry.state in (State.FINISHED, State.REBOOT, State.RETRY):
        settle(work, key, State.SUPERSEDED)
        work.report.event(events.Delivered(work.journal.entries[key], None))


def settle(work: Work, key: str, state: State, trouble: str = "") -> None:
    """Put on record that nothing more will be done, and whether inputs of the run are left to be removed."""
    work.journal.settled(key, state, trouble, untidy=key in work.untidy)


def _is_on_record(step: Step, entry: Entry | None) -> bool:
    """Return whether the journal's entry may stay as it is when a step is taken on."""
    return entry is not None and (
        entry.state is State.DAMAGED  # it must not look new before it is answered
        or (
            entry.state is State.SUPERSEDED
            and step.verb is Verb.ANSWER
            and entry.values is None
        )
        or (
            entry.state is State.RETRY
            and not entry.again
            and entry.document == step.deployment.document
        )
        or (
            entry.state in (State.ACCEPTED, State.REBOOT)
            and entry.document == step.deployment.document
        )
    )


def _concerned(work: Work, survey: Survey) -> list[Entry]:
    """Return the entries that a survey has looked at, as they are now."""
    entries = work.journal.entries
    return [entries[key] for key in survey.known.entries if key in entries]


def _drop(work: Work, key: str) -> None:
    """Remove a deployment that was not run, or not again, from the journal.

    Its run folder goes first: alone, it would say that the journal has lost the record of that run.
    """
    try:
        files.remove(work.settings.run(key))
    except OSError as error:
        work.report.warn(
            f"cannot remove the run folder of {key}: {error.strerror}: {error.filename}"
        )
    else:
        work.journal.drop(key)


def _record_departures(work: Work, survey: Survey) -> bool:
    """Put on record which deployments have left the metadata, and which are back; return whether that succeeded.

    Files of a deployment are kept for a time after it has left.
    """
    current = {deployment.key for deployment in survey.deployments}
    entries = _concerned(work, survey)
    gone = [
        entry.key
        for entry in entries
        if entry.left_at is None
        and entry.key not in current
        and entry.source in survey.sources
    ]
    back = [
        entry.key
        for entry in entries
        if entry.left_at is not None and entry.key in current
    ]
    try:
        work.journal.left(gone, back)
    except StateError as error:  # a full disk, for example
        work.report.warn(str(error))
        return False
    return True


# heat-agents' folder `deployed/`, kept up to date for the programs that read it. An error there, such as a full disk,
# is only a warning.


def write_deployment(work: Work, step: Step) -> None:
    """Write a deployment whose command has started into heat-agents' folder."""
    _write(work, lambda: _keep(work, step, None))


def write_result(work: Work, step: Step) -> None:
    """Write the result of a deployment into heat-agents' folder, if its command was run."""
    if step.verb is not Verb.ANSWER:
        _write(
            work,
            lambda: _keep(work, step, work.journal.entries[step.deployment.key].values),
        )


def mark(work: Work, present: Collection[str] | None = None) -> bool:
    """Put on record which files are in heat-agents' folder, so that the absence of one of them means «run it again».

    `present` has the keys of the files, for a caller who knows them already. Returns False if this failed.
    Raises StateError.
    """
    keys = [
        entry.key
        for entry in work.journal.entries.values()
        if not entry.marked
        and entry.ended
        and entry.run
        and entry.removed is not Removed.ALL
    ]
    deployed = work.ground.deployed
    if keys and present is None:
        present = deployed.keys()
    keys = [key for key in keys if key in (present or ())]
    if not keys:
        return True
    if not _write(work, deployed.sync):
        # a file that a power cut removes was not removed by a person
        return False
    work.journal.marked(keys, str(deployed.directory))
    return True


def _keep(work: Work, step: Step, values: Mapping[str, object] | None) -> None:
    deployed, key = work.ground.deployed, step.deployment.key
    if deployed.keeps(key):
        deployed.keep(key, {}, values)
    elif (
        step.job is not None
        and protocol.LEAVES not in step.deployment.document
        and not step.deployment.is_follow_up
    ):
        deployed.keep(key, step.job.request, values)


def _write(work: Work, write: Callable[[], None]) -> bool:
    try:
        write()
    except OSError as error:
        work.report.warn(
            f"cannot write to {work.ground.deployed.directory}: {error.strerror}"
        )
        return False
    return True


# The inputs of runs, among them secrets: removed when a run ends, and again later where that failed.


def tidy(work: Work, key: str) -> None:
    """Remove the inputs of a deployment's run. A failure is a warning, and `tidy_all` tries again."""
    work.untidy.discard(key)
    try:
        run_folder.tidy(
            work.settings.run(key), functools.partial(_remove_written, work, key)
        )
        entry = work.journal.entries.get(key)
        if entry is not None and entry.run is not None and entry.run.user:
            from heat_config_agent.runs import as_user  # noqa: PLC0415  # few runs are of other users

            as_user.remove(entry.run)
    except OSError as error:
        work.untidy.add(key)
        work.report.warn(
            f"cannot remove the inputs of {key}: {error.strerror}: {error.filename}"
        )


def tidy_all(work: Work) -> None:
    """Remove the inputs of all runs that have ended, where that has failed so far."""
    for key in sorted(work.untidy):
        entry = work.journal.entries.get(key)
        if entry is not None and entry.state not in (State.ACCEPTED, State.RUNNING):
            tidy(work, key)
        else:
            work.untidy.discard(key)


def untidy(entries: Mapping[str, Entry]) -> set[str]:
    """Return the keys of the deployments whose run folders an earlier agent may have left untidy."""
    return {key for key, entry in entries.items() if _may_be_untidy(entry)}


def _remove_written(work: Work, key: str) -> None:
    """Remove what a hook has written into its folders, if the inputs of the run referred to secrets."""
    from heat_config_agent.state import requests  # noqa: PLC0415  # few runs have such inputs

    entry = work.journal.entries.get(key)
    for path in requests.written(entry) if entry is not None else ():
        files.remove(path)


def _may_be_untidy(entry: Entry) -> bool:
    """Return whether a run folder may still have the inputs of its run.

    They are removed before the deployment settles. A power cut may bring the files back, and keep the record that the
    deployment has settled.
    """
    if entry.removed is Removed.ALL or not entry.ended:
        return False
    return (
        entry.untidy
        or not entry.settled
        or (entry.run is not None and entry.run.boot != processes.boot_id())
    )
