"""Selects the config of a deployment for its action. Pure."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping

import heat_config_hooks
from heat_config_agent.deployments.metadata import kind_of, needs_text
from heat_config_agent.model.deployment import COMPONENT, Config, Deployment, Mistake
from heat_config_hooks import options, protocol, strict_json
from heat_config_hooks.values import dataclass


@dataclass(frozen=True)
class Nothing:
    """The deployment has nothing to run for its action, and that is not a mistake."""

    reason: str


def select(deployment: Deployment) -> Config | Nothing | tuple[Mistake, ...]:
    """Return the config for the deployment's action, or the reason to run nothing, or the mistakes in the configs.

    A plain deployment has one config. A component has several: the one whose `actions` contain the action is selected.
    Its options are the section of the component's options with the name of its tool if there is one, else all options
    that are in no tool's section. The rules are those of Heat's specification «action-aware software configuration»;
    custom actions are treated like the five of Heat's lifecycle.
    """
    if deployment.group != COMPONENT:
        return Config(
            tool=deployment.group, config=deployment.config, options=deployment.options
        )
    path = f"{deployment.where}.config"
    component = deployment.config
    if isinstance(component, str):
        try:
            component = strict_json.loads(component)
        except ValueError as error:
            return (
                Mistake(
                    path=path,
                    problem=f"a component's config is an object with `configs`; this text is not JSON: {error}",
                ),
            )
    configs = component.get("configs") if isinstance(component, Mapping) else None
    if not isinstance(configs, list):
        return (
            Mistake(
                path=path,
                problem="a component's config is an object with a list of `configs`",
            ),
        )
    mistakes = [
        mistake
        for index, config in enumerate(configs)
        for mistake in _config_mistakes(config, f"{path}.configs[{index}]")
    ]
    action = deployment.action
    if not action:
        mistakes.append(
            Mistake(
                path=f"{deployment.where}.inputs",
                problem="a component needs the input `deploy_action`",
            )
        )
    if mistakes:
        return tuple(mistakes)
    selected = [
        index for index, config in enumerate(configs) if action in config["actions"]
    ]
    if len(selected) > 1:
        places = " and ".join(f"configs[{index}]" for index in selected)
        return (
            Mistake(
                path=path,
                problem=f"the action {action} is in {places}; an action belongs to one config",
            ),
        )
    if not selected:
        return Nothing(f"the component has no config for {action}")
    config = configs[selected[0]]
    tool = config["tool"]
    tools = frozenset(config["tool"] for config in configs)
    without = frozenset(
        name for name in tools if not isinstance(deployment.options.get(name), Mapping)
    )
    return Config(
        tool=tool,
        config=config.get("config"),
        options=options.own(
            deployment.options,
            tool,
            tools.union(heat_config_hooks.HOOKS, heat_config_hooks.COMPAT),
        ),
        section="options" if tool in without else f"options.{tool}",
        others=without - {tool} if tool in without else frozenset(),
    )


def _config_mistakes(config: object, path: str) -> Iterable[Mistake]:
    if not isinstance(config, Mapping):
        yield Mistake(
            path=path,
            problem=f"expected an object with `actions`, `tool` and `config`, not {kind_of(config)}",
        )
        return
    actions = config.get("actions")
    if not isinstance(actions, list) or not all(
        isinstance(each, str) for each in actions
    ):
        yield Mistake(
            path=f"{path}.actions",
            problem="expected a list of actions, e.g. [CREATE, UPDATE]",
        )
    tool = config.get("tool")
    if not isinstance(tool, str) or not tool:
        yield Mistake(
            path=f"{path}.tool", problem="expected the name of a tool, e.g. script"
        )


def tools(deployment: Deployment) -> frozenset[str]:
    """Return the tools of a deployment: of a component the tools of all its configs, for any action."""
    if deployment.group != COMPONENT:
        return frozenset({tool_name(deployment.group)})
    named = (item.get("tool") for item in _configs(deployment))
    return frozenset(tool_name(name) for name in named if isinstance(name, str))


def actions(deployment: Deployment) -> frozenset[str]:
    """Return the actions that the configs of a component are for; of a plain deployment, they are not known."""
    named = (item.get("actions") for item in _configs(deployment))
    return frozenset(
        action
        for each in named
        if isinstance(each, list)
        for action in each
        if isinstance(action, str)
    )


def _configs(deployment: Deployment) -> list[Mapping[str, object]]:
    """Return the configs of a component that are objects; none of a plain deployment."""
    component = deployment.config if deployment.group == COMPONENT else None
    if isinstance(component, str):
        with contextlib.suppress(ValueError):  # `select` reports it
            component = strict_json.loads(component)
    configs = component.get("configs") if isinstance(component, Mapping) else None
    return (
        [item for item in configs if isinstance(item, Mapping)]
        if isinstance(configs, list)
        else []
    )


def tool_name(group: str) -> str:
    """Return the name of the hook for a group: its letters, digits, `-` and `_`, as heat-agents does.

    A group comes from metadata, so the name must not lead out of the hook directory.
    """
    return "".join(
        character for character in group if character.isalnum() or character in "-_"
    )


def request(deployment: Deployment, config: Config) -> dict[str, object]:
    """Return the entry as its hook receives it: with the selected config, and with text for `String` inputs."""
    document = dict(deployment.document)
    document["group"] = config.tool
    document["config"] = config.config
    inputs = document.get("inputs")
    if isinstance(inputs, list):
        document["inputs"] = [
            {**item, "value": protocol.as_text(item.get("value", item.get("default")))}
            if needs_text(item)
            else item
            for item in inputs
        ]
    return document


def missing(tool: str, installed: Iterable[str], *, shown: str) -> str:
    """Return a sentence about a tool that has no hook. `installed` are the names of those that have one.

    `shown` is the name of the tool without the secrets in it.
    """
    if shown != tool:  # no part of it is shown, and no name that is like it
        return (
            f"no hook for the tool {shown!r}; installed: {', '.join(sorted(installed))}"
        )
    name = tool_name(tool)
    if absent := heat_config_hooks.absent(name):
        return absent
    file = (
        f" (its file would have to be named {name!r})" if name not in ("", tool) else ""
    )
    names = sorted(installed)
    from heat_config_agent.diagnostics.words import among  # noqa: PLC0415  # few tools are missing

    return f"no hook for the tool {tool!r}{file}; {among(name, names, 'installed:')}"
