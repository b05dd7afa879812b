"""The steps of a plan, compared with what has run before, and with what their tools say that they would do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from heat_config_agent.cli import differences as shown
from heat_config_agent.deployments import differences, plan
from heat_config_agent.deployments.differences import Difference
from heat_config_agent.deployments.plan import Step, Verb
from heat_config_agent.model.entry import Entry, Removed
from heat_config_agent.settings.effective import Settings
from heat_config_agent.state.deployed import Deployed
from heat_config_hooks.values import dataclass
from heat_config_hooks.verdict import Verdict

_PRUNED = (
    "the earlier inputs are not kept: keep_for and keep_size say how long they are"
)
_LOST = "the earlier inputs are not kept"
_SAME = "its tool, inputs, options and config are the same as before"


@dataclass(frozen=True, kw_only=True)
class Compared:
    """The differences of a step."""

    found: Sequence[Difference] = ()
    with_id: str | None = None
    """The id of the deployment that has run before; None if there is none."""
    note: str = ""
    """The reason why nothing is compared, or that nothing differs."""
    answer: Verdict | None = None
    """The verdict of the dry run of the tool; None if it has none."""

    def lines(self, tool: str) -> Iterator[str]:
        """Yield the lines for people."""
        yield from shown.lines(self.found)
        if self.note:
            yield self.note
        if self.answer is not None:
            yield from shown.would_lines(self.answer, tool)

    def values(self) -> dict[str, object]:
        """Return it as JSON."""
        return {
            "with": self.with_id,
            "differences": shown.values(self.found),
            "note": self.note or None,
            "would": shown.would_values(self.answer),
        }


def of_steps(
    steps: Sequence[Step],
    entries: Mapping[str, Entry],
    deployed: Deployed,
    settings: Settings,
) -> Mapping[str, Compared]:
    """Return the differences of steps that run something, or whose content has changed, by the keys of deployments."""
    answers = foreseen(steps, settings)
    compared = {}
    for step in steps:
        key = step.deployment.key
        if step.verb in (Verb.RUN, Verb.ANSWER, Verb.SKIP):
            one = _compared(step, entries, deployed, answers.get(key))
            if step.verb is not Verb.SKIP or one.found:
                compared[key] = one
    return compared


def foreseen(steps: Sequence[Step], settings: Settings) -> Mapping[str, Verdict]:
    """Return the dry runs of the tools of the steps, by the keys of the deployments that have one."""
    planned = [step.job for step in steps if step.verb is Verb.RUN and step.job]
    if not planned:
        return {}
    from heat_config_agent.verification import dry_run  # noqa: PLC0415  # only with --diff

    return dry_run.verdicts(
        planned,
        settings.run_settings,
        settings.defaults,
        int(settings.number("parallel")),
    )


def _compared(
    step: Step,
    entries: Mapping[str, Entry],
    deployed: Deployed,
    answer: Verdict | None,
) -> Compared:
    entry = differences.earlier(step.deployment, entries)
    if entry is None:
        return Compared(answer=answer)
    if entry.removed is not Removed.NOTHING:
        return Compared(with_id=entry.id or None, note=_PRUNED, answer=answer)
    kept = entry.document or deployed.document(entry.key)
    if not kept:
        return Compared(with_id=entry.id or None, note=_LOST, answer=answer)
    old = plan.deployment_of(entry, kept)
    is_request = not entry.document
    found = differences.between(old, step.deployment, is_request=is_request)
    return Compared(
        found=found,
        with_id=entry.id or None,
        note="" if found else _SAME,
        answer=answer,
    )
