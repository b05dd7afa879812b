"""Deployments that the policy of the machine would refuse if they were new today. Nothing is run or changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from heat_config_agent.deployments import metadata, plan
from heat_config_agent.deployments.plan import Known
from heat_config_agent.engine.survey import with_verified
from heat_config_agent.model.deployment import Deployment, Document
from heat_config_agent.model.policy import Policy
from heat_config_hooks.values import replace


class Refusal(NamedTuple):
    """A deployment that the policy would refuse."""

    name: str
    action: str
    """Empty if the deployment names none."""
    sentence: str


def of(
    deployments: Iterable[Deployment], known: Known, policy: Policy, held: Mapping[str, Deployment] | None = None
) -> Iterator[Refusal]:
    """Yield the refusals of deployments as if all were new.

    `held` has, by key, the deployments whose documents are kept with their signatures. For all others, the rule
    `signers` is left out.
    """
    held = held or {}
    verified, others = with_verified(policy, held.values()) or policy, replace(policy, signers=None)
    for deployment in deployments:
        rules = verified if deployment.key in held else others
        job = plan.renewed(held.get(deployment.key, deployment), known).job
        sentence = rules.mistake or (rules.refusal(job) if job else "")
        if sentence:
            yield Refusal(deployment.title, deployment.action, sentence)


def of_entry(source: str, entry: object, known: Known, policy: Policy) -> str:
    """Return the sentence that refuses an entry of the metadata of a source; empty if it may run."""
    parsed = metadata.parse(Document(source=source, content=[entry]))
    return next((refusal.sentence for refusal in of(parsed.deployments, known, policy)), "")
