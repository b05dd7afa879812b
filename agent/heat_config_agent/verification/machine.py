"""The verification of a state directory: its deployments, the verdict of each, and the record of the verdicts."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Mapping

from heat_config_agent.deployments import jobs, plan
from heat_config_agent.engine.survey import with_verified
from heat_config_agent.model import states
from heat_config_agent.model.deployment import Deployment, Job
from heat_config_agent.model.entry import Entry, Removed
from heat_config_agent.model.run_settings import RunSettings
from heat_config_agent.model.states import Shown
from heat_config_agent.runs.tools import Tools
from heat_config_agent.settings.in_force import policy_in_force
from heat_config_agent.state import journal
from heat_config_agent.state.deployed import Deployed
from heat_config_agent.verification import looking, record
from heat_config_agent.verification.record import Verified
from heat_config_hooks import verdict
from heat_config_hooks.errors import HookError
from heat_config_hooks.values import dataclass
from heat_config_hooks.verdict import Standing, Verdict


@dataclass(frozen=True, kw_only=True)
class Ground:
    """The parts of a state directory that its verification needs."""

    settings: RunSettings
    deployed: Deployed
    tools: Tools
    documents: Mapping[str, Deployment]
    """The deployments of current documents by key, for those whose own document is not kept any more."""
    parallel: int = 1
    are_as_run: bool = False
    """True if `documents` has the deployments as they ran, with current verifications: then they take precedence."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The state of a deployment by its record and by its verification."""

    entry: Entry
    state: Shown
    reason: str
    verdict: Verdict | None = None
    """The verdict; None if nothing was verified, because the deployment has not succeeded or has run nothing."""
    since: float | None = None
    """Since when the state is this one; None if it was not verified."""
    has_answer: bool = True
    """False if another host has it, and has said nothing about it."""


def verify(entries: Iterable[Entry], ground: Ground) -> Generator[Finding, None, None]:
    """Yield the verdict about each deployment as soon as it is known, and record all verdicts at the end.

    Raises StateError if it cannot be put on record.
    """
    state = ground.settings.state
    former = record.read(state)
    begun: list[Job] = []
    by_key: dict[str, Entry] = {}
    newer: dict[str, Verified] = {}
    policy = policy_in_force()
    for entry in entries:
        shown = states.of_entry(entry)
        if shown is not Shown.OK:
            yield Finding(entry=entry, state=shown, reason=entry.reason)
            continue
        known = former.get(entry.key)
        if known and known.is_of(entry) and record.are_unchanged(known.signatures):
            yield _finding(entry, known)
            continue
        job = _job(entry, ground)
        if isinstance(job, Job) and policy is not None:
            rules = with_verified(policy, [job.deployment]) or policy
            refusal = rules.mistake or rules.refusal(job)
            job = verdict.unknown(refusal) if refusal else job
        if isinstance(job, Job):
            begun.append(job)
            by_key[entry.key] = entry
        else:
            newer[entry.key] = _verified(entry, job, former)
            yield _finding(entry, newer[entry.key])
    try:
        for job, answer in looking.verify(begun, ground.settings, ground.parallel):
            entry = by_key[job.deployment.key]
            newer[entry.key] = _verified(entry, answer, former)
            yield _finding(entry, newer[entry.key])
    finally:
        if newer:
            # a run that began meanwhile has made the verification of its deployment void
            record.put(state, newer, journal.read(state))


def _finding(entry: Entry, verified: Verified) -> Finding:
    answer = verified.verdict
    return Finding(
        entry=entry,
        state=_SHOWN[answer.standing],
        reason=answer.reason,
        verdict=answer,
        since=verified.since,
    )


_SHOWN = {
    Standing.OK: Shown.OK,
    Standing.DRIFTED: Shown.DRIFTED,
    Standing.UNKNOWN: Shown.UNKNOWN,
}


def _verified(
    entry: Entry, answer: Verdict, former: Mapping[str, Verified]
) -> Verified:
    """Return the record of a verification."""
    now = time.time()
    before = former.get(entry.key)
    same = (
        before is not None
        and before.is_of(entry)
        and before.verdict.standing is answer.standing
    )
    return Verified(
        key=entry.key,
        run=record.run_of(entry),
        at=now,
        since=before.since if before and same else now,
        verdict=answer,
        signatures=record.signatures(answer.files, now),
    )


def _job(entry: Entry, ground: Ground) -> Job | Verdict:
    """Return the job that verifies a deployment; a verdict if there can be none."""
    deployment = _deployment(entry, ground)
    if deployment is None:
        return verdict.unknown(
            "its config is no longer kept; it can be verified with its document"
        )
    tool = ground.tools.find(entry.tool)
    if tool is None:
        return verdict.unknown(f"there is no hook for its tool {entry.tool!r}")
    try:
        job = jobs.verification(deployment, tool, ground.settings.defaults)
    except HookError as error:
        return verdict.unknown(str(error))
    return job or verdict.unknown("its config can no longer be selected")


def _deployment(entry: Entry, ground: Ground) -> Deployment | None:
    """Return the deployment of an entry with its config; None if that is not kept any more."""
    if ground.are_as_run and entry.key in ground.documents:
        return ground.documents[entry.key]
    document = entry.document
    if not document and entry.removed is Removed.NOTHING:
        document = ground.deployed.document(entry.key)
    if document:
        return plan.deployment_of(entry, document)
    return ground.documents.get(entry.key)
