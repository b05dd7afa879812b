"""The deployments that a stack will make, as far as they are known in advance, and which the policy would refuse.

Attributes of resources are not known in advance. Of a group, only the first member is included.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from typing import NamedTuple

from heat_config_agent.deployments.metadata import parse
from heat_config_agent.deployments.plan import Known, Step, Verb, renewed
from heat_config_agent.engine.survey import entry_refusal
from heat_config_agent.masking.redaction import Concealer
from heat_config_agent.model.deployment import Document
from heat_config_agent.model.policy import Policy
from heat_config_agent.model.positions import Json
from heat_config_agent.runs.tools import Tools
from heat_config_agent.settings.effective import Settings
from heat_config_agent.settings.in_force import policy_in_force
from heat_config_stack.definition import Definition
from heat_config_stack.lifecycle import preview, validation
from heat_config_stack.lifecycle.live import Stack
from heat_config_stack.lifecycle.preview import Change
from heat_config_stack.records.records import (
    CREATE,
    DELETE,
    RESUME,
    SUSPEND,
    UPDATE,
    ConfigRecord,
)
from heat_config_stack.resource.config_service import new_config
from heat_config_stack.resource.resource import Resource
from heat_config_stack.resource.types import Types
from heat_config_stack.resource_types.configs import Config
from heat_config_stack.resource_types.deployment import SoftwareDeployment
from heat_config_stack.resource_types.groups import SoftwareDeploymentGroup

ACTIONS = (CREATE, UPDATE, SUSPEND, RESUME, DELETE)


class Foreseen(NamedTuple):
    """A deployment that a stack will make."""

    outer: str
    """The name of the resource of the outermost stack that has the deployment."""
    name: str
    """The path of its resource, e.g. `web/0/install`."""
    action: str
    entry: dict[str, Json]
    """The deployment as an entry of a server's metadata."""
    conceal: Concealer
    """Hides the secret parameters of its stack in what is shown."""


def deployments(definition: Definition, types: Types) -> Iterator[Foreseen]:
    """Yield the deployments of a stack and its child stacks, for each action of their life.

    A resource that cannot be defined is left out: its mistakes are reported elsewhere.
    """
    for path, resource, conceal in _resources(definition, types):
        for action in ACTIONS:
            config = _foreseen(resource, action)
            if config is not None:
                yield Foreseen(path[0], "/".join(path), action, config.entry(), conceal)


def actions(definition: Definition, types: Types) -> dict[str, tuple[str, ...]]:
    """Return the actions for which each deployment of a stack and its child stacks runs something, by its path."""
    return {
        "/".join(path): tuple(action for action in ACTIONS if _runs(resource, action))
        for path, resource, _ in _resources(definition, types)
    }


def servers(definition: Definition, types: Types) -> dict[str, str]:
    """Return the server of each deployment of a stack and its child stacks, by its path, as far as it is known.

    A server of the template is its name.
    """
    by_path: dict[str, str] = {}
    for path, resource, _ in _resources(definition, types):
        try:
            server = resource.properties["server"]
        except Exception:  # noqa: BLE001, S112  # a mistake, or a server that is known later
            continue
        if isinstance(server, str) and server:
            by_path["/".join(path)] = server
    return by_path


def former_actions(
    resource: Resource, path: str
) -> Iterator[tuple[str, SoftwareDeployment]]:
    """Yield the deployments of an existing resource and its child stacks, with their paths."""
    if isinstance(resource, SoftwareDeployment):
        yield path, resource
    elif isinstance(child := resource.child, Stack):
        for record in child.records():
            yield from former_actions(child.resource(record), f"{path}/{record.name}")


def _runs(resource: SoftwareDeployment, action: str) -> bool:
    try:
        return resource.runs(action)
    except Exception:  # noqa: BLE001  # a mistake, or a config that is known later
        return True


def _resources(
    definition: Definition, types: Types
) -> Iterator[tuple[tuple[str, ...], SoftwareDeployment, Concealer]]:
    configs: dict[str, ConfigRecord] = {}
    yield from _of_stack((), definition, types, configs)
    for child in validation.children(definition, types):
        names = [
            str(word).partition("<")[0] for word in child.path if word != "resources"
        ]
        yield from _of_stack(tuple(names), child.definition, types, configs)


def _of_stack(
    outer: tuple[str, ...],
    definition: Definition,
    types: Types,
    configs: dict[str, ConfigRecord],
) -> Iterator[tuple[tuple[str, ...], SoftwareDeployment, Concealer]]:
    stack = validation.unmade(definition, types)
    resources = [
        resource
        for name in definition.resources
        if (resource := _defined(stack, name)) is not None
    ]
    for resource in resources:
        if isinstance(resource, Config) and (config := _config(resource)) is not None:
            configs[resource.name] = config
    for config in configs.values():  # also those of outer stacks, which groups refer to
        stack.world.store.put(config)
    for resource in resources:
        path = (*outer, resource.name)
        if (
            isinstance(resource, SoftwareDeploymentGroup)
            and (member := _member(resource, definition)) is not None
        ):
            yield from _of_stack(path, member, types, configs)
        if isinstance(resource, SoftwareDeployment):
            yield path, resource, definition.conceal


def _defined(stack: Stack, name: str) -> Resource | None:
    try:
        return stack.as_defined(name)
    except Exception:  # noqa: BLE001  # a mistake, or a defect of a plug-in
        return None


def _config(resource: Config) -> ConfigRecord | None:
    """Return a config whose id is that of a reference to its resource in a stack in which nothing exists."""
    try:
        config = new_config(
            {"name": resource.name, **resource.content()}, resource.stack.id
        )
    except Exception:  # noqa: BLE001  # a mistake
        return None
    config.id = resource.name
    return config


def _member(
    resource: SoftwareDeploymentGroup, definition: Definition
) -> Definition | None:
    try:
        return resource.first_member(definition.identity)
    except Exception:  # noqa: BLE001  # a mistake, or a list of servers that is known later
        return None


def _foreseen(resource: SoftwareDeployment, action: str) -> ConfigRecord | None:
    try:
        return resource.foreseen(action)
    except Exception:  # noqa: BLE001  # a mistake, or a config that is known later
        return None


def steps(source: str, entry: dict[str, Json], settings: Settings) -> Iterator[Step]:
    """Yield the step of a deployment that will be made, as far as it would run something."""
    document = Document(source=source, content=[entry])
    known = Known(
        entries={},
        tools=Tools(settings.hooks).installed(),
        now=time.time(),
        policy=policy_in_force(),
        defaults=settings.defaults,
    )
    for deployment in parse(document).deployments:
        step = renewed(deployment, known)
        if step.verb is Verb.RUN:
            yield step


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


def stack_refusals(
    definition: Definition, types: Types, settings: Settings, policy: Policy
) -> Iterator[StackRefusal]:
    """Yield the deployments of a stack that the policy would refuse, in all actions of its life."""
    known = Known(
        entries={},
        tools=Tools(settings.hooks).installed(),
        now=time.time(),
        defaults=settings.defaults,
    )
    for each in deployments(definition, types):
        source = f"stack:{definition.identity.id}/{each.name}"
        if sentence := entry_refusal(source, each.entry, known, policy):
            shown = definition.conceal.text(each.conceal.text(sentence))
            yield StackRefusal(each.outer, each.name, each.action, shown)


def refusals_of_changes(
    changes: Collection[Change], refused: Collection[StackRefusal]
) -> list[StackRefusal]:
    """Return the refusals that the changes of a stack would meet."""
    needed = {each.name: _ACTIONS.get(each.effect, ()) for each in changes}
    return [
        refusal
        for refusal in refused
        if refusal.action in needed.get(refusal.outer, ())
    ]
