"""The deployments that the sources have at the moment."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from heat_config_agent.deployments import plan
from heat_config_agent.deployments.plan import Step, Verb
from heat_config_agent.model.deployment import Deployment
from heat_config_agent.model.entry import Entry
from heat_config_hooks.values import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Offer:
    """The deployments that the sources have, as far as the sources have answered."""

    deployments: Mapping[str, Deployment] = field(default_factory=dict)
    """By key. Only the results of these deployments are sent."""
    sources: frozenset[str] = frozenset()
    """The sources that answered."""
    unconfirmed: Collection[str] = ()
    """Sources whose documents are from an earlier life of the agent, and that have not answered since."""
    only: Collection[str] = ()
    """Names or ids of the deployments that may run; empty if all may."""

    def confirmed(self, step: Step) -> Step:
        """Return the step, or a step that waits if the source of the deployment is unconfirmed."""
        source = step.deployment.source
        if source not in self.unconfirmed or step.verb not in (Verb.RUN, Verb.ANSWER, Verb.RESEND):
            return step
        reason = f"{source} is being asked whether it still has it"
        return Step(verb=Verb.WAIT, deployment=step.deployment, reason=reason)

    def supersedes(self, entry: Entry) -> bool:
        """Return whether the result of this entry must not be sent any more, see `plan.superseded`."""
        return bool(plan.superseded(self.deployments.values(), self.sources, {entry.key: entry}))
