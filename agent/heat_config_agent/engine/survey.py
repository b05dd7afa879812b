"""Everything that a pass has to know before it changes anything: deployments, steps, and departures.

The daemon, the one-shot command, the dry run and the migration all plan from a survey, so they agree.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path

from heat_config_agent.deployments import cleanup, metadata, plan
from heat_config_agent.deployments.plan import Known, Step
from heat_config_agent.model.deployment import Deployment, Document, Mistake
from heat_config_agent.model.entry import Entry, State
from heat_config_agent.model.run_settings import RunDefaults
from heat_config_agent.runs import run_folder
from heat_config_agent.runs.tools import Tools
from heat_config_agent.settings.in_force import policy_in_force
from heat_config_agent.state.deployed import Deployed, is_unfinished
from heat_config_agent.state.entries import Entries
from heat_config_hooks import processes
from heat_config_hooks.values import dataclass, replace

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from heat_config_agent.model.policy import Policy

_AGENTS = RunDefaults()
"""The defaults without settings: runs of the agent's own user, which are not isolated."""


@dataclass(frozen=True)
class Ground:
    """The parts of the machine on which a plan depends, apart from documents and the journal."""

    tools: Tools
    deployed: Deployed
    """The folder in which heat-agents keeps deployments."""
    state: Path
    """The state directory."""
    defaults: RunDefaults = _AGENTS
    """The settings of runs, where a deployment has no option of its own."""


@dataclass(frozen=True, kw_only=True)
class Survey:
    """The deployments that a pass has to deal with, and the steps that it would take. Nothing has been changed yet."""

    deployments: list[Deployment]
    """Cleanups first, then the deployments of the documents, in their order."""
    sources: frozenset[str]
    """The sources that answered."""
    mistakes: list[Mistake]
    """The mistakes in the documents."""
    steps: list[Step]
    superseded: list[str]
    """Keys of deployments whose results must not be sent any more."""
    known: Known


def survey(
    documents: Iterable[Document],
    entries: Entries,
    ground: Ground,
    *,
    only: Collection[str] = (),
    parse: Callable[[Document], metadata.Parsed] = metadata.parse,
    are_few: bool = False,
) -> Survey:
    """Return the work that the documents ask for, given the journal's `entries`.

    `only` names deployments by name or id, as in `plan.make`. `are_few` is True if there are few deployments in the
    documents, and perhaps many in heat-agents' folder.
    Raises StateError if heat-agents' folder cannot be read.
    """
    deployments, sources, mistakes = metadata.parse_all(list(documents), parse)
    now = time.time()
    keys = [deployment.key for deployment in deployments]
    # perhaps another's key
    keys += [
        deployment.id for deployment in deployments if deployment.id != deployment.key
    ]
    concerned = entries.concerning(keys, sources)
    due = cleanup.due(deployments, sources, concerned, now)
    # cleanups first: new deployments may need the same place
    deployments = [*due.left, *_follow_ups(concerned, keys), *deployments]
    known = facts(
        deployments, concerned, ground, now=now, back=due.back, are_few=are_few
    )
    return Survey(
        deployments=deployments,
        sources=sources,
        mistakes=mistakes,
        steps=plan.make(deployments, known, only=only),
        superseded=plan.superseded(deployments, sources, concerned),
        known=known,
    )


def _follow_ups(
    entries: Mapping[str, Entry], keys: Collection[str]
) -> list[Deployment]:
    """Return the follow-ups of failures that have not ended, whether a source has their deployments or not."""
    if not any(entry.is_follow_up for entry in entries.values()):
        return []
    from heat_config_agent.deployments import follow_up  # noqa: PLC0415  # few deployments have one

    return [
        plan.deployment_of(entry)
        for entry, _ in follow_up.due(entries, frozenset(keys))
    ]


def facts(
    deployments: Iterable[Deployment],
    entries: Mapping[str, Entry],
    ground: Ground,
    *,
    now: float | None = None,
    back: Collection[str] = (),
    are_few: bool = False,
) -> Known:
    """Return the facts for a plan of these deployments. `now` is in seconds since the epoch.

    The hook directories are read only if a deployment may run. Raises StateError if heat-agents' folder cannot be read.
    """
    deployments = list(deployments)
    present = ground.deployed.keys(
        {name for each in deployments for name in (each.key, each.id)}
        if are_few
        else None
    )
    marked = present or frozenset()
    may_run = any(
        _may_run(deployment, entries.get(deployment.key), marked, back)
        for deployment in deployments
    )
    return Known(
        entries=entries,
        marked=marked,
        begun=_begun(deployments, entries, marked, ground.deployed.directory),
        folder="" if present is None else str(ground.deployed.directory),
        back=back,
        ran=_ran(
            [each.key for each in deployments if _may_be_lost(entries.get(each.key))],
            f"{ground.state}/runs",
        ),
        tools=ground.tools.installed() if may_run else {},
        now=time.time() if now is None else now,
        boot=processes.boot_id(),
        policy=with_verified(policy_in_force(), deployments) if may_run else None,
        defaults=ground.defaults,
    )


def _begun(
    deployments: Iterable[Deployment],
    entries: Mapping[str, Entry],
    marked: Collection[str],
    folder: Path,
) -> Collection[str]:
    """Return the names of the files of deployments that another agent has begun and given no result."""
    names = {
        name
        for each in deployments
        if each.key not in entries
        for name in (each.key, each.id)
    }
    names.intersection_update(marked)
    return {name for name in names if is_unfinished(folder, name)} if names else ()


def with_verified(
    policy: Policy | None, deployments: Iterable[Deployment]
) -> Policy | None:
    """Return a policy that knows which signatures of these deployments count."""
    if policy is None or policy.signers is None:
        return policy
    from heat_config_agent.signing import ssh  # noqa: PLC0415  # few machines require signatures

    return ssh.with_verified(policy, deployments)


@dataclass(frozen=True)
class Refusal:
    """A deployment that the policy of the machine would refuse."""

    name: str
    action: str
    """Empty if the deployment names none."""
    sentence: str


def refusals(
    deployments: Iterable[Deployment],
    knowledge: Known,
    policy: Policy,
    held: Mapping[str, Deployment] | None = None,
) -> Iterator[Refusal]:
    """Yield the refusals of deployments by a policy, as if all were new today.

    `held` has, by key, the deployments whose documents are kept with their signatures. For all others, the rule
    `signers` is left out.
    """
    held = held or {}
    verified, others = (
        with_verified(policy, held.values()) or policy,
        replace(policy, signers=None),
    )
    for deployment in deployments:
        rules = verified if deployment.key in held else others
        job = plan.renewed(held.get(deployment.key, deployment), knowledge).job
        sentence = rules.mistake or (rules.refusal(job) if job else "")
        if sentence:
            yield Refusal(deployment.title, deployment.action, sentence)


def entry_refusal(source: str, entry: object, knowledge: Known, policy: Policy) -> str:
    """Return the sentence that refuses an entry of the metadata of a source; empty if it may run."""
    parsed = metadata.parse(Document(source=source, content=[entry]))
    return next(
        (
            refusal.sentence
            for refusal in refusals(parsed.deployments, knowledge, policy)
        ),
        "",
    )


def _may_run(
    deployment: Deployment,
    entry: Entry | None,
    marked: Collection[str],
    back: Collection[str],
) -> bool:
    """Return False for a deployment that the plan does not run: it is settled, and nothing asks for a new run."""
    if entry is None or not entry.settled or entry.again or entry.key in back:
        return True
    if plan.is_corrected(deployment, entry):
        return True
    may = deployment.action == cleanup.ACTION or deployment.is_follow_up
    return may or bool(entry.marked and entry.key not in marked)


def _may_be_lost(entry: Entry | None) -> bool:
    """Return whether the journal may have lost the record of a run of the deployment: it has none."""
    return entry is None or (entry.state is State.ACCEPTED and entry.run is None)


def _ran(keys: Collection[str], runs: str) -> frozenset[str]:
    """Return the keys whose run folder says that a command has ended."""
    return frozenset(key for key in keys if run_folder.has_run(f"{runs}/{key}"))
