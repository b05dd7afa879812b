"""Deployments of a stack that the policy would refuse, before they are made."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from typing import NamedTuple

from heat_config_agent.deployments.plan import Known
from heat_config_agent.engine.survey import entry_refusal
from heat_config_agent.model.policy import Policy
from heat_config_agent.runs.tools import Tools
from heat_config_agent.settings.effective import Settings
from heat_config_stack.cli.stack import forecast
from heat_config_stack.definition import Definition
from heat_config_stack.lifecycle import preview
from heat_config_stack.lifecycle.preview import Change
from heat_config_stack.records.records import CREATE, DELETE, UPDATE
from heat_config_stack.resource.types import Types

_ACTIONS: dict[str, Collection[str]] = {
    preview.ADDED: (CREATE,),
    preview.UPDATED: (CREATE, UPDATE),  # a child stack that is updated may create
    preview.AGAIN: (CREATE, UPDATE),
    preview.REPLACED: (CREATE, DELETE),
    preview.REMOVED: (DELETE,),
}
"""The actions that a change of a resource may need."""


class StackRefusal(NamedTuple):
    """A deployment of a stack that the policy would refuse."""

    outer: str
    """The name of the resource of the outermost stack that has the deployment."""
    name: str
    action: str
    sentence: str


def of(definition: Definition, types: Types, settings: Settings, policy: Policy) -> Iterator[StackRefusal]:
    """Yield the deployments of a stack that the policy would refuse, in all actions of its life."""
    known = Known(entries={}, tools=Tools(settings.hooks).installed(), now=time.time(), defaults=settings.defaults)
    for each in forecast.deployments(definition, types):
        source = f"stack:{definition.identity.id}/{each.name}"
        if sentence := entry_refusal(source, each.entry, known, policy):
            shown = definition.conceal.text(each.conceal.text(sentence))
            yield StackRefusal(each.outer, each.name, each.action, shown)


def of_changes(changes: Collection[Change], refused: Collection[StackRefusal]) -> list[StackRefusal]:
    """Return the refusals that the changes of a stack would meet."""
    needed = {each.name: _ACTIONS.get(each.effect, ()) for each in changes}
    return [refusal for refusal in refused if refusal.action in needed.get(refusal.outer, ())]
