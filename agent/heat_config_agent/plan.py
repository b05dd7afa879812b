"""Deployments × journal → steps, each with its reason in words. Pure: it is the dry run too."""

from __future__ import annotations

import enum
import functools
import time
from collections.abc import Callable, Collection, Iterable, Mapping

import heat_config_hooks
from heat_config_agent import clean_up, metadata, selection
from heat_config_agent.model import (
    BUILTIN,
    DELETE,
    TOOLLESS,
    WAIT_LIMIT,
    Config,
    Deployment,
    Document,
    Entry,
    Mistake,
    State,
    Tool,
)
from heat_config_hooks import options
from heat_config_hooks.reply import NO_TOOL, UNKNOWN, Reply, failure
from heat_config_hooks.values import dataclass, field, replace

NOT_CHOSEN = "not chosen"
"""Why a deployment that `only` does not name is passed over."""

_LEFT = "its deployment has left the metadata: clean up"

_DAMAGED = "the journal is damaged where it said what became of this deployment; it is not run, as it may have been"

_LOST = "it was run, as its folder says, and the journal has lost what it knew of that; it is not run again"


class Verb(str, enum.Enum):
    """What is to be done about a deployment."""

    RUN = "run"
    ANSWER = "answer"
    """Its result is known without running anything."""
    RESUME = "resume"
    """It was started before: follow it to its end, or find out how it ended."""
    RESEND = "resend"
    """Its result has not been delivered yet."""
    WAIT = "wait"
    """Its result has not been delivered, and the server asked to be left alone for a while; or it needs a reboot."""
    SKIP = "skip"


@dataclass(frozen=True, kw_only=True)
class Step:
    """What is to be done about one deployment, and why."""

    verb: Verb
    deployment: Deployment
    reason: str
    config: Config | None = None
    """What to run."""
    tool: Tool | None = None
    """With what to run it."""
    limit: float | None = None
    """The time limit that the deployment sets itself, in seconds."""
    bounds: Mapping[str, int] = field(default_factory=dict)
    """What else it bounds its run by: those of `options.BOUNDS` that it has."""
    reply: Reply | None = None
    """What to answer."""


@dataclass(frozen=True, kw_only=True)
class Known:
    """What is known beside the deployments themselves."""

    entries: Mapping[str, Entry]
    """The journal."""
    marked: Collection[str] = ()
    """Keys that are in the folder `deployed/`."""
    folder: str = ""
    """That folder; empty where it is not there, and so says nothing."""
    back: Collection[str] = ()
    """Keys of deployments that are back in the metadata after they were cleaned up."""
    boot: str = ""
    """The kernel's boot id."""
    ran: Callable[[str], bool] = lambda _key: False
    """Whether a deployment's folder says that it was run, by its key."""
    find: Callable[[str], Tool | None]
    installed: Callable[[], list[str]]
    now: float
    """Seconds since the epoch."""


def make(deployments: Iterable[Deployment], known: Known, *, only: Collection[str] = ()) -> list[Step]:
    """Return a step for each deployment, in their order, after one for each run that is still to be followed.

    `only` names deployments by name or id; the others are passed over, but their results stay waited for.
    """
    running = [entry for entry in known.entries.values() if entry.state is State.RUNNING]
    # As it was started, whatever its source says of it now, and whether it still has it: a run is followed to its end.
    current = {each.key: each for each in deployments}
    wanted = [each for each in current.values() if each.action != DELETE]
    steps = [_resume(_started(entry, current), entry) for entry in running]
    followed = {entry.key for entry in running}
    for deployment in current.values():
        if deployment.key in followed:
            continue
        if only and not {deployment.name, deployment.id}.intersection(only):
            steps.append(Step(verb=Verb.SKIP, deployment=deployment, reason=NOT_CHOSEN))
        else:
            step = _step(deployment, known)
            if step.verb in (Verb.RESEND, Verb.ANSWER) and deployment.key in known.entries:
                step = _waited_for(step, current.values(), known)
            steps.append(_spare(step, wanted) if deployment.action == DELETE else step)
    return steps


def _waited_for(step: Step, current: Iterable[Deployment], known: Known) -> Step:
    """Return the step of a result that is to be sent late, if nobody else's is waited for where it would arrive."""
    own = step.deployment
    taken = [each for each in current if each.key != own.key and each.target.addressee == own.target.addressee]
    if known.entries[own.key].state is not State.SUPERSEDED or not own.target.addressee or not taken:
        return step
    reason = f"its result is not sent any more: {taken[0].id!r} is waited for in its place"
    return Step(verb=Verb.SKIP, deployment=own, reason=reason)


def _spare(step: Step, wanted: Iterable[Deployment]) -> Step:
    """Return the step of a DELETE, which is to spare what another deployment has taken over.

    Heat replaces a resource by making the new one before the old one goes. What the tool has made for both is the new
    one's then, and a tool that undoes could not tell.
    """
    if step.verb is not Verb.RUN or not step.tool or not step.tool.builtin:
        return step
    name, about, own = step.tool.name, heat_config_hooks.load(step.tool.name).ABOUT, step.deployment
    same = [each for each in wanted if name in selection.tools(each)] if about.undoes else []
    if not any(each.name == own.name if about.cleans == "name" else each.owner == own.owner for each in same):
        return step
    note = "another deployment has taken its place, and keeps what there is: nothing was undone"
    reply: Reply = {"deploy_stdout": "", "deploy_stderr": f"{note}\n", "deploy_status_code": 0}
    return Step(verb=Verb.ANSWER, deployment=own, reason=note, reply=reply)


def _started(entry: Entry, current: Mapping[str, Deployment]) -> Deployment:
    """Return the deployment as it was started; as it is now where the journal has lost that."""
    return deployment_of(entry) if entry.document else current.get(entry.key) or deployment_of(entry)


def deployment_of(entry: Entry, document: Mapping[str, object] | None = None) -> Deployment:
    """Return the deployment that the journal holds, or the one kept of it elsewhere."""
    parsed = metadata.parse(Document(source=entry.source, content=[document or entry.document]))
    return replace(parsed.deployments[0], key=entry.key)


def _step(deployment: Deployment, known: Known) -> Step:
    entry = known.entries.get(deployment.key)
    if (entry is None or (entry.state is State.ACCEPTED and entry.run is None)) and known.ran(deployment.key):
        return Step(verb=Verb.ANSWER, deployment=deployment, reason=_LOST, reply=failure(UNKNOWN, _LOST))
    if entry is None:
        if deployment.key in known.marked or deployment.id in known.marked:
            return Step(verb=Verb.SKIP, deployment=deployment, reason="done already, as its file in deployed/ says")
        return _new(deployment, known, _LEFT if deployment.action == clean_up.ACTION else "new")
    if entry.again:
        return _new(deployment, known, "asked to run again")
    if deployment.action == clean_up.ACTION and entry.settled:
        return _new(deployment, known, "the clean-up failed, so it is tried again" if entry.failed else _LEFT)
    if deployment.key in known.back:
        return _new(deployment, known, "it is back in the metadata after it was cleaned up")
    if entry.state is State.ACCEPTED:
        return _new(deployment, known, "accepted earlier and not started yet")
    if entry.state is State.REBOOT and entry.run and entry.run.boot == known.boot:
        return Step(verb=Verb.WAIT, deployment=deployment, reason="it waits for the reboot that it asked for")
    if entry.state is State.REBOOT:
        return _new(deployment, known, f"goes on after the reboot that it asked for ({times(entry.reboots)})")
    if entry.marked and entry.marked == known.folder and deployment.key not in known.marked:
        return _new(deployment, known, "its file in deployed/ was removed, so it is to run again")
    if entry.state is State.DAMAGED:
        reply = failure(UNKNOWN, _DAMAGED)
        return Step(verb=Verb.ANSWER, deployment=deployment, reason=_DAMAGED, reply=reply)
    if entry.state is State.FINISHED:
        return _resend(deployment, entry, known.now)
    if entry.state is State.SUPERSEDED and entry.values is not None:
        reason = "its result was not sent while its deployment was gone from the metadata"
        return Step(verb=Verb.RESEND, deployment=deployment, reason=reason)
    if entry.state is State.SUPERSEDED:
        sentence = f"{_settled(entry)}; it is not known any more, and nothing is run again"
        return Step(verb=Verb.ANSWER, deployment=deployment, reason=sentence, reply=failure(UNKNOWN, sentence))
    reason = _settled(entry)
    if entry.document and entry.document != deployment.document:
        reason += "; it was another then, under this id (a new id is run)"
    return Step(verb=Verb.SKIP, deployment=deployment, reason=reason)


def _new(deployment: Deployment, known: Known, why: str) -> Step:
    if deployment.status and deployment.status.upper() != "IN_PROGRESS":
        reason = f"its status is {deployment.status}: no work is asked for"
        return Step(verb=Verb.SKIP, deployment=deployment, reason=reason)
    if deployment.mistakes:
        return _refuse(deployment, deployment.mistakes)
    chosen = selection.select(deployment)
    if isinstance(chosen, tuple):
        return _refuse(deployment, chosen)
    if isinstance(chosen, selection.Nothing):
        note = f"{chosen.reason}: nothing was run"
        reply: Reply = {"deploy_stdout": "", "deploy_stderr": f"{note}\n", "deploy_status_code": 0}
        return Step(verb=Verb.ANSWER, deployment=deployment, reason=note, reply=reply)
    ours = deployment.action == clean_up.ACTION  # what our hook has made, our hook removes
    tool = Tool(chosen.tool, f"{BUILTIN}{chosen.tool}") if ours else known.find(chosen.tool)
    if tool is None and chosen.tool in TOOLLESS:
        says = f"the group {chosen.tool} names no tool" if deployment.document.get("group") else "it has no `group`"
        return Step(verb=Verb.SKIP, deployment=deployment, reason=f"{says}: nothing to run")
    if tool is None:
        sentence = f"no hook for the tool {chosen.tool!r}; installed: {', '.join(known.installed())}"
        return Step(verb=Verb.ANSWER, deployment=deployment, reason=sentence, reply=failure(NO_TOOL, sentence))
    mistakes = _options(deployment, chosen, tool, known)
    if mistakes:
        return _refuse(deployment, mistakes)
    return Step(
        verb=Verb.RUN,
        deployment=deployment,
        reason=why,
        config=chosen,
        tool=tool,
        limit=_limit(chosen),
        bounds=_bounds(chosen),
    )


def _options(deployment: Deployment, chosen: Config, tool: Tool, known: Known) -> tuple[Mistake, ...]:
    """Return what is wrong with the options.

    Options of hooks that are not ours may mean anything, also where they stand among ours.
    """
    if not tool.builtin:
        return ()
    also: set[str] = set()
    for other in map(known.find, chosen.others):
        ours = other is not None and other.builtin
        also.update(heat_config_hooks.load(other.name).ABOUT.options if other and ours else chosen.options)
    about = heat_config_hooks.load(tool.name).ABOUT
    return tuple(
        Mistake(path=f"{deployment.where}.{each.path.replace('options', chosen.section, 1)}", problem=each.problem)
        for each in options.mistakes(chosen.options, about.options, tool=tool.name, also=also)
    )


def _limit(chosen: Config) -> float | None:
    limit = options.common(chosen.options, "timeout")
    return limit if isinstance(limit, float) else None


def _bounds(chosen: Config) -> dict[str, int]:
    given = {name: options.common(chosen.options, name) for name in options.BOUNDS if name in chosen.options}
    return {name: value for name, value in given.items() if isinstance(value, int)}


def _refuse(deployment: Deployment, mistakes: tuple[Mistake, ...]) -> Step:
    sentence = "\n".join(str(each) for each in mistakes)
    return Step(verb=Verb.ANSWER, deployment=deployment, reason=sentence, reply=failure(UNKNOWN, sentence))


def _resume(deployment: Deployment, entry: Entry) -> Step:
    since = f" since {clock(entry.started)}" if entry.started else ""
    return Step(verb=Verb.RESUME, deployment=deployment, reason=f"started earlier, running{since}")


def _resend(deployment: Deployment, entry: Entry, now: float) -> Step:
    if now < entry.not_before <= now + WAIT_LIMIT:  # what is later was reckoned with a clock that was wrong
        reason = f"its result waits until {clock(entry.not_before)}: {entry.trouble}"
        return Step(verb=Verb.WAIT, deployment=deployment, reason=reason)
    return Step(verb=Verb.RESEND, deployment=deployment, reason=f"its result is not delivered yet{tried(entry)}")


def times(number: int) -> str:
    """Return «once», «twice» or «3 times»."""
    return {1: "once", 2: "twice"}.get(number, f"{number} times")


def tried(entry: Entry) -> str:
    """Say how often a result was sent in vain, and why; nothing where it was not."""
    times = "1 try" if entry.tries == 1 else f"{entry.tries} tries"
    return f" after {times}: {entry.trouble}" if entry.tries else ""


def _settled(entry: Entry) -> str:
    """Say what became of a deployment for which there is nothing to do any more."""
    word = "broken off" if entry.ended is None else "failed" if entry.failed else "done"
    done = f"{word} {clock(entry.ended or entry.at)}"
    if entry.state is State.REFUSED:
        return f"{done}; its result was refused for good: {entry.trouble}"
    if entry.state is State.SUPERSEDED:
        return f"{done}; its result was not sent, as its deployment had been replaced"
    return done


def superseded(deployments: Iterable[Deployment], sources: Collection[str], entries: Mapping[str, Entry]) -> list[str]:
    """Return the keys whose results must not be sent any more, nor their runs be started.

    Heat's signal carries no id: a late result would complete the next action. So a result is only sent while its source
    has its deployment, and no other deployment waits at the same addressee. `sources` are those that answered; of one
    that did not, nothing is known.
    """
    current = {each.key for each in deployments}
    addressees = {each.target.addressee for each in deployments if each.target.wanted and each.target.addressee}
    return [
        entry.key
        for entry in entries.values()
        if not entry.settled and entry.key not in current and (entry.source in sources or entry.addressee in addressees)
    ]


def clock(moment: float | None) -> str:
    """Return a time as people read it, in this machine's time zone."""
    try:
        return _clock(int(moment or 0))
    except (ValueError, OverflowError, OSError):  # of a file that somebody has damaged
        return "a time that is none"


@functools.lru_cache(maxsize=64)
def _clock(second: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(second))
