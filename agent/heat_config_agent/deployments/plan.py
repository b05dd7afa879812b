"""Compares deployments with the journal, and plans the steps with their reasons. Pure: the plan is also the dry run."""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Mapping

import heat_config_hooks
from heat_config_agent.deployments import cleanup, jobs, metadata, selection
from heat_config_agent.masking.redaction import concealer
from heat_config_agent.model.deployment import (
    BUILTIN,
    DELETE,
    TOOLLESS,
    WAIT_LIMIT,
    Config,
    Deployment,
    Document,
    Job,
    Mistake,
    Tool,
    is_edition,
)
from heat_config_agent.model.entry import Entry, State
from heat_config_agent.model.run_settings import RunDefaults
from heat_config_agent.model.states import NOTHING_RUN
from heat_config_agent.model.wording import moment
from heat_config_hooks import options
from heat_config_hooks.reply import CANNOT_START, NO_TOOL, UNKNOWN, Reply, failure
from heat_config_hooks.values import dataclass, field, replace

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from heat_config_agent.model.policy import Policy  # few machines have one

NOT_CHOSEN = "not chosen"
"""The reason to skip a deployment that `only` does not name."""

_LEFT = "its deployment has left the metadata: clean up"

_AFTER = "new; it begins when the run of its former edition has ended, which decides the action"

_DAMAGED = "the journal is damaged at the record of this deployment; it is not run, as it may have run before"

_LOST = "the journal has lost its record, and its folder shows that it was run; it is not run again"


class Verb(str, enum.Enum):
    """The kinds of steps."""

    RUN = "run"
    ANSWER = "answer"
    """The result is known without running anything."""
    RESUME = "resume"
    """A run was started before: follow it to its end, or find out how it ended."""
    RESEND = "resend"
    """The result is not delivered yet."""
    WAIT = "wait"
    """The result is not delivered, and the server asked to wait; or the deployment waits for a reboot."""
    SKIP = "skip"


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step of the plan: the kind of work for one deployment, with the reason."""

    verb: Verb
    deployment: Deployment
    reason: str
    job: Job | None = None
    """The job to run or to follow; None if nothing is run, or if the config of a run can no longer be selected."""
    tool: str = ""
    """The tool that ran, of a SKIP step whose deployment is settled; else empty."""
    reply: Reply | None = None
    """The reply of an ANSWER step."""
    attempt: int = 1
    """The number of the run that a RUN step begins: more than 1 if the option `retry` is the reason for it."""
    due: float = 0.0
    """The time before which that run does not begin, in seconds since boot."""


BEGUN_ELSEWHERE = "another agent began it and recorded no result"


@dataclass(frozen=True, kw_only=True)
class Known:
    """The facts that a plan is made from, besides the deployments."""

    entries: Mapping[str, Entry]
    """The entries of the journal, by key."""
    marked: Collection[str] = ()
    """The keys with a file in the folder `deployed/`."""
    begun: Collection[str] = ()
    """The keys and ids with such a file whose run another agent has begun, without a recorded result."""
    folder: str = ""
    """The path of that folder; empty if it does not exist, so that a missing file means nothing."""
    back: Collection[str] = ()
    """The keys of deployments that are back in the metadata after their cleanup."""
    boot: str = ""
    """The kernel's boot id."""
    ran: Collection[str] = ()
    """The keys of deployments whose run folder shows that they were run."""
    tools: Mapping[str, Tool]
    """The installed tools by name, see `selection.tool_name`."""
    now: float
    """Seconds since the epoch."""
    policy: Policy | None = None
    """The policy of the machine; None if it has none."""
    defaults: RunDefaults = field(default_factory=RunDefaults)
    """The user and the isolation of runs whose deployments do not name them."""


def make(
    deployments: Iterable[Deployment], known: Known, *, only: Collection[str] = ()
) -> list[Step]:
    """Return the steps: one for each run to follow, then one for each deployment, in the order of the deployments.

    `only` names deployments by name or id. The others are skipped, but their results can still be delivered.
    """
    running = [
        entry for entry in known.entries.values() if entry.state is State.RUNNING
    ]
    # A run is followed to its end as it was started, even if its deployment has changed or left the metadata since.
    current = {deployment.key: deployment for deployment in deployments}
    remaining = [
        deployment for deployment in current.values() if deployment.action != DELETE
    ]
    steps = [_resume(_started(entry, current), entry) for entry in running]
    followed = {entry.key for entry in running}
    for deployment in current.values():
        if deployment.key in followed:
            continue
        names = {
            deployment.name,
            deployment.given_name,
            deployment.id,
            deployment.title,
        }
        if only and not names.intersection(only):
            steps.append(Step(verb=Verb.SKIP, deployment=deployment, reason=NOT_CHOSEN))
        else:
            step = _step(deployment, known)
            if (
                step.verb in (Verb.RESEND, Verb.ANSWER)
                and deployment.key in known.entries
            ):
                step = _without_late_result(step, current.values(), known)
            steps.append(
                _spare(step, remaining) if deployment.action == DELETE else step
            )
    return steps


def _without_late_result(
    step: Step, current: Iterable[Deployment], known: Known
) -> Step:
    """Return the step; a SKIP instead if its late result would arrive at a server that waits for another deployment."""
    own = step.deployment
    others = [
        other
        for other in current
        if other.key != own.key and other.target.addressee == own.target.addressee
    ]
    if (
        known.entries[own.key].state is not State.SUPERSEDED
        or not own.target.addressee
        or not others
    ):
        return step
    reason = f"its result is not sent any more: the server waits for {others[0].id!r} instead"
    return Step(verb=Verb.SKIP, deployment=own, reason=reason)


def _spare(step: Step, remaining: Iterable[Deployment]) -> Step:
    """Return the step of a DELETE; an ANSWER instead if another deployment has taken over what it would remove.

    Heat replaces a resource by creating the new one before it deletes the old one. From then on, the results of the
    tool's work for both belong to the new one, and a tool that undoes its work could not tell them apart.
    """
    if step.verb is not Verb.RUN or not step.job or not step.job.tool.builtin:
        return step
    name, own = step.job.tool.name, step.deployment
    about = heat_config_hooks.load(name).ABOUT
    same = (
        [other for other in remaining if name in selection.tools(other)]
        if about.undoes
        else []
    )
    if not any(
        other.given_name == own.given_name
        if about.cleans == "name"
        else other.owner == own.owner
        for other in same
    ):
        return step
    note = "another deployment has taken its place: nothing was undone"
    reply: Reply = {
        "deploy_stdout": "",
        "deploy_stderr": f"{note}\n",
        "deploy_status_code": 0,
    }
    return Step(verb=Verb.ANSWER, deployment=own, reason=note, reply=reply)


def _started(entry: Entry, current: Mapping[str, Deployment]) -> Deployment:
    """Return the deployment as it was started; as it is now if the journal has lost its document."""
    return (
        deployment_of(entry)
        if entry.document
        else current.get(entry.key) or deployment_of(entry)
    )


def deployment_of(
    entry: Entry, document: Mapping[str, object] | None = None
) -> Deployment:
    """Return the deployment of an entry of the journal: from its document, or from the copy that the agent kept."""
    parsed = metadata.parse(
        Document(source=entry.source, content=[document or entry.document])
    )
    return replace(parsed.deployments[0], key=entry.key)


def is_awaited(entry: Entry) -> bool:
    """Return whether a server waits for the result of an entry."""
    if entry.drift:  # the server has had the result of the deployment
        return False
    return (
        deployment_of(entry).target.wanted if entry.document else bool(entry.addressee)
    )


def _step(deployment: Deployment, known: Known) -> Step:  # noqa: C901  # a list of decisions, of which the first counts
    """Return what to do for a deployment."""
    entry = known.entries.get(deployment.key)
    # 1. The journal has lost the record of its run.
    if (
        entry is None or (entry.state is State.ACCEPTED and entry.run is None)
    ) and deployment.key in known.ran:
        return Step(
            verb=Verb.ANSWER,
            deployment=deployment,
            reason=_LOST,
            reply=failure(UNKNOWN, _LOST),
        )
    # 2. It is new; or another agent has begun or done it, as its file in `deployed/` says.
    if entry is None:
        # its key is the id of this one: the file is its own
        another = known.entries.get(deployment.id)
        if deployment.key in known.begun or (
            deployment.id in known.begun and another is None
        ):
            return Step(verb=Verb.SKIP, deployment=deployment, reason=BEGUN_ELSEWHERE)
        if deployment.key in known.marked or (
            deployment.id in known.marked and another is None
        ):
            return Step(
                verb=Verb.SKIP,
                deployment=deployment,
                reason="done already, as its file in deployed/ says",
            )
        if deployment.action == cleanup.ACTION:
            return _new(deployment, known, _LEFT)
        return _new(deployment, known, _AFTER if _waits(deployment, known) else "new")
    # 3. A deployment that a person has asked to run again loses nothing.
    if entry.again:
        return _new(deployment, known, _repair(entry) or "asked to run again")
    # 4. It has left the metadata and has to be cleaned up; or it is back after that.
    if deployment.action == cleanup.ACTION and entry.settled:
        return _new(
            deployment,
            known,
            "the cleanup failed, so it is retried" if entry.failed else _LEFT,
        )
    if deployment.key in known.back:
        return _new(deployment, known, "it is back in the metadata after its cleanup")
    # 5. It has not run to its end: it waits for its turn, for a reboot, or for another attempt.
    if entry.state is State.ACCEPTED:
        reason = _repair(entry) or "accepted earlier and not started yet"
        return _new(deployment, known, reason)
    if entry.state is State.REBOOT and entry.run and entry.run.boot == known.boot:
        return Step(
            verb=Verb.WAIT,
            deployment=deployment,
            reason="it waits for the reboot that it asked for",
        )
    if entry.state is State.REBOOT:
        return _new(
            deployment,
            known,
            f"continues after the reboot that it asked for ({times(entry.reboots)})",
        )
    if entry.state is State.RETRY:
        return _attempt(deployment, entry, known)
    # 6. A person has removed its file from `deployed/`, which asks for it too.
    if (
        entry.marked
        and entry.marked == known.folder
        and deployment.key not in known.marked
    ):
        return _new(
            deployment, known, "its file in deployed/ was removed, so it runs again"
        )
    # 7. Its record is damaged.
    if entry.state is State.DAMAGED:
        reply = failure(UNKNOWN, _DAMAGED)
        return Step(
            verb=Verb.ANSWER, deployment=deployment, reason=_DAMAGED, reply=reply
        )
    # 8. Its result has to be sent: it never was, or it was not sent because the deployment had left.
    if entry.state is State.FINISHED:
        return _resend(deployment, entry, known.now)
    if entry.state is State.SUPERSEDED and entry.values is not None:
        reason = "it is back in the metadata, and its result was not sent before"
        return Step(verb=Verb.RESEND, deployment=deployment, reason=reason)
    if entry.state is State.SUPERSEDED:
        sentence = f"{_settled(entry)}; the result is not kept any more, and nothing is run again"
        return Step(
            verb=Verb.ANSWER,
            deployment=deployment,
            reason=sentence,
            reply=failure(UNKNOWN, sentence),
        )
    # 9. It was answered because of its mistakes alone, and they are corrected.
    if is_corrected(deployment, entry):
        return _new(
            deployment, known, "nothing of it has run, and its mistakes are corrected"
        )
    # 10. It is settled.
    reason = _settled(entry)
    if entry.document and entry.document != deployment.document:
        reason += "; its content has changed since, but not its id (a new id is run)"
    return Step(verb=Verb.SKIP, deployment=deployment, reason=reason, tool=entry.tool)


def _repair(entry: Entry) -> str:
    """Return the reason of the run that repairs a deployment; empty if no repair was asked for."""
    return f"repair: {entry.drift}" if entry.drift else ""


def _waits(deployment: Deployment, known: Known) -> bool:
    """Return whether another edition of a new deployment runs."""
    return deployment.place.startswith("name ") and any(
        entry.state is State.RUNNING
        and entry.name == deployment.name
        and is_edition(entry.id, entry.name)
        for entry in known.entries.values()
    )


def is_corrected(deployment: Deployment, entry: Entry) -> bool:
    """Return whether a deployment was answered because of its mistakes alone, and has none now.

    A server that has had the failure waits for nothing any more.
    """
    code = (entry.values or {}).get("deploy_status_code")
    never_ran = (
        entry.run is None
        and entry.started is None
        and entry.reason not in (_LOST, _DAMAGED)
    )
    return (
        entry.state is State.UNASKED
        and code == UNKNOWN
        and never_ran
        and bool(entry.document)
        and entry.document != deployment.document
        and not deployment.mistakes
        and not deployment.target.wanted
    )


def _attempt(deployment: Deployment, entry: Entry, known: Known) -> Step:
    """Return the step of a deployment whose command is run again, as its option `retry` says."""
    step = _new(
        deployment,
        known,
        f"run again, as its last attempt failed ({times(entry.attempts)} so far)",
    )
    same_boot = entry.run is not None and entry.run.boot == known.boot
    return replace(
        step, attempt=entry.attempts + 1, due=entry.due if same_boot else 0.0
    )


def _new(deployment: Deployment, known: Known, reason: str) -> Step:
    if deployment.status and deployment.status.upper() != "IN_PROGRESS":
        why = f"its status is {deployment.status}: there is nothing to do"
        return Step(verb=Verb.SKIP, deployment=deployment, reason=why)
    if mistakes := deployment.mistakes or cleanup.pretences(deployment):
        return _refuse(deployment, mistakes)
    config = selection.select(deployment)
    if isinstance(config, tuple):
        return _refuse(deployment, config)
    if isinstance(config, selection.Nothing):
        note = f"{config.reason}: {NOTHING_RUN}"
        reply: Reply = {
            "deploy_stdout": "",
            "deploy_stderr": f"{note}\n",
            "deploy_status_code": 0,
        }
        return Step(verb=Verb.ANSWER, deployment=deployment, reason=note, reply=reply)
    # the built-in hook that ran the deployment also cleans up
    builtin = deployment.action == cleanup.ACTION
    tool = (
        Tool(config.tool, f"{BUILTIN}{config.tool}")
        if builtin
        else _find(config.tool, known)
    )
    if tool is None and config.tool in TOOLLESS:
        why = (
            f"the group {config.tool} names no tool"
            if deployment.document.get("group")
            else "no `group` is given"
        )
        return Step(
            verb=Verb.SKIP, deployment=deployment, reason=f"{why}: nothing to run"
        )
    sentence = (
        selection.missing(
            config.tool, known.tools, shown=concealer(deployment).text(config.tool)
        )
        if tool is None
        else heat_config_hooks.absent(tool.name)
        if builtin
        else ""
    )
    if tool is None or sentence:
        return Step(
            verb=Verb.ANSWER,
            deployment=deployment,
            reason=sentence,
            reply=failure(NO_TOOL, sentence),
        )
    mistakes = _option_mistakes(deployment, config, tool, known)
    if mistakes:
        return _refuse(deployment, mistakes)
    job = jobs.new(deployment, config, tool, known.defaults)
    return _governed(
        Step(verb=Verb.RUN, deployment=deployment, reason=reason, job=job),
        job,
        known.policy,
    )


def _governed(step: Step, job: Job, policy: Policy | None) -> Step:
    """Return a step that runs something as the policy has it: unchanged or answered as failed.

    With a mistake in the policy the step stays, and says so: its turn comes once the policy is corrected.
    """
    if policy is None:
        return step
    if policy.mistake:
        return replace(
            step, reason=f"{step.reason}; nothing new begins: {policy.mistake}"
        )
    sentence = policy.refusal(job)
    if not sentence:
        return step
    reply = failure(CANNOT_START, sentence)
    return Step(
        verb=Verb.ANSWER, deployment=step.deployment, reason=sentence, reply=reply
    )


def renewed(deployment: Deployment, known: Known) -> Step:
    """Return the step of a deployment as if it were new to this machine."""
    return _new(deployment, known, "new")


def _find(tool: str, known: Known) -> Tool | None:
    return known.tools.get(selection.tool_name(tool))


def _option_mistakes(
    deployment: Deployment, config: Config, tool: Tool, known: Known
) -> tuple[Mistake, ...]:
    """Return the mistakes in the options.

    Options of foreign hooks may mean anything, also if they are in the same section as those of a built-in one.
    """
    if not tool.builtin:
        return ()
    also: set[str] = set()
    for other in (_find(name, known) for name in config.others):
        builtin = other is not None and other.builtin
        also.update(
            heat_config_hooks.load(other.name).ABOUT.options
            if other and builtin
            else config.options
        )
    about = heat_config_hooks.load(tool.name).ABOUT
    return tuple(
        Mistake(
            path=f"{deployment.where}.{mistake.path.replace('options', config.section, 1)}",
            problem=mistake.problem,
        )
        for mistake in options.mistakes(
            config.options, about.options, tool=tool.name, also=also
        )
    )


def _refuse(deployment: Deployment, mistakes: tuple[Mistake, ...]) -> Step:
    locate = deployment.located
    placed = [
        locate(mistake) if locate and not mistake.place else mistake
        for mistake in mistakes
    ]
    sentence = "\n".join(str(mistake) for mistake in placed)
    return Step(
        verb=Verb.ANSWER,
        deployment=deployment,
        reason=sentence,
        reply=failure(UNKNOWN, sentence),
    )


def _resume(deployment: Deployment, entry: Entry) -> Step:
    since = f" since {moment(entry.started)}" if entry.started else ""
    job = jobs.of_run(deployment, entry.run)
    return Step(
        verb=Verb.RESUME,
        deployment=deployment,
        reason=f"started earlier, running{since}",
        job=job,
    )


def _resend(deployment: Deployment, entry: Entry, now: float) -> Step:
    if now < entry.not_before <= now + WAIT_LIMIT:
        # a later time comes from a clock that was wrong
        reason = (
            f"its result is sent again at {moment(entry.not_before)}: {entry.trouble}"
        )
        return Step(verb=Verb.WAIT, deployment=deployment, reason=reason)
    return Step(
        verb=Verb.RESEND,
        deployment=deployment,
        reason=f"its result is not delivered yet{tried(entry)}",
    )


def times(number: int) -> str:
    """Return «once», «twice» or «3 times»."""
    return {1: "once", 2: "twice"}.get(number, f"{number} times")


def tried(entry: Entry) -> str:
    """Return in words how many attempts to send a result have failed, with the last reason; empty if none has."""
    times = "1 try" if entry.tries == 1 else f"{entry.tries} tries"
    return f" after {times}: {entry.trouble}" if entry.tries else ""


def _settled(entry: Entry) -> str:
    """Return in words how a deployment ended for which nothing more is done."""
    word = (
        "interrupted" if entry.ended is None else "failed" if entry.failed else "done"
    )
    done = f"{word} {moment(entry.ended or entry.at)}"
    if entry.state is State.REFUSED:
        return f"{done}; its result was refused for good: {entry.trouble}"
    if entry.state is State.SUPERSEDED:
        return f"{done}; its result was not sent, as its deployment had been replaced"
    return done


def superseded(
    deployments: Iterable[Deployment],
    sources: Collection[str],
    entries: Mapping[str, Entry],
) -> list[str]:
    """Return the keys of entries whose results must not be sent any more, and whose runs must not be started.

    Heat's signal carries no id: a late result would complete the next action. So a result is sent only while its source
    has its deployment, and while no other deployment has the same addressee. `sources` are the sources that answered: a
    source that did not answer has lost no deployment.
    """
    current = {deployment.key for deployment in deployments}
    targets = [deployment.target for deployment in deployments]
    addressees = {
        target.addressee for target in targets if target.wanted and target.addressee
    }
    return [
        entry.key
        for entry in entries.values()
        if not entry.settled
        and entry.key not in current
        and (entry.source in sources or entry.addressee in addressees)
    ]
