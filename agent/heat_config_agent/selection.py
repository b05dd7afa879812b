"""Which config of a deployment is to be run, for its action. Pure."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping

import heat_config_hooks
from heat_config_agent.metadata import kind_of, says_text
from heat_config_agent.model import COMPONENT, Config, Deployment, Mistake
from heat_config_hooks import options, protocol, strict_json
from heat_config_hooks.values import dataclass


@dataclass(frozen=True)
class Nothing:
    """There is nothing to run, and that is as it should be."""

    reason: str


def select(deployment: Deployment) -> Config | Nothing | tuple[Mistake, ...]:
    """Choose what is to be run for the deployment's action.

    A plain deployment is its own config. Of a component's configs it is the one whose `actions` name the action; its
    options are the component's options under the tool's name where they have such a section, else those that are under
    no tool's name. The rules are those of Heat's specification «action-aware software configuration»; any action is
    treated as the five of Heat's life cycle are.
    """
    if deployment.group != COMPONENT:
        return Config(tool=deployment.group, config=deployment.config, options=deployment.options)
    path = f"{deployment.where}.config"
    component = deployment.config
    if isinstance(component, str):
        try:
            component = strict_json.loads(component)
        except ValueError as error:
            return (
                Mistake(
                    path=path,
                    problem=f"a component's config is an object with `configs`; this text is no JSON: {error}",
                ),
            )
    configs = component.get("configs") if isinstance(component, Mapping) else None
    if not isinstance(configs, list):
        return (Mistake(path=path, problem="a component's config is an object with a list of `configs`"),)
    mistakes = [
        mistake for index, each in enumerate(configs) for mistake in _config_mistakes(each, f"{path}.configs[{index}]")
    ]
    action = deployment.action
    if not action:
        mistakes.append(
            Mistake(path=f"{deployment.where}.inputs", problem="a component needs the input `deploy_action`")
        )
    if mistakes:
        return tuple(mistakes)
    chosen = [index for index, each in enumerate(configs) if action in each["actions"]]
    if len(chosen) > 1:
        places = " and ".join(f"configs[{index}]" for index in chosen)
        return (Mistake(path=path, problem=f"the action {action} is in {places}; an action belongs to one config"),)
    if not chosen:
        return Nothing(f"the component has no config for {action}")
    config = configs[chosen[0]]
    tool = config["tool"]
    tools = frozenset(each["tool"] for each in configs)
    without = frozenset(each for each in tools if not isinstance(deployment.options.get(each), Mapping))
    return Config(
        tool=tool,
        config=config.get("config"),
        options=options.own(deployment.options, tool, tools.union(heat_config_hooks.HOOKS)),
        section="options" if tool in without else f"options.{tool}",
        others=without - {tool} if tool in without else frozenset(),
    )


def _config_mistakes(config: object, path: str) -> Iterable[Mistake]:
    if not isinstance(config, Mapping):
        yield Mistake(
            path=path, problem=f"expected an object with `actions`, `tool` and `config`, not {kind_of(config)}"
        )
        return
    actions = config.get("actions")
    if not isinstance(actions, list) or not all(isinstance(each, str) for each in actions):
        yield Mistake(path=f"{path}.actions", problem="expected a list of actions, e.g. [CREATE, UPDATE]")
    tool = config.get("tool")
    if not isinstance(tool, str) or not tool:
        yield Mistake(path=f"{path}.tool", problem="expected the name of a tool, e.g. script")


def tools(deployment: Deployment) -> frozenset[str]:
    """Return the tools of a deployment; of a component those of all its configs, whatever the action."""
    if deployment.group != COMPONENT:
        return frozenset({tool_name(deployment.group)})
    component = deployment.config
    if isinstance(component, str):
        with contextlib.suppress(ValueError):  # `select` says so
            component = strict_json.loads(component)
    configs = component.get("configs") if isinstance(component, Mapping) else None
    found = [each.get("tool") for each in configs if isinstance(each, Mapping)] if isinstance(configs, list) else []
    return frozenset(tool_name(each) for each in found if isinstance(each, str))


def tool_name(group: str) -> str:
    """Return the name of the hook of a group: letters, digits, `-` and `_` of it, as heat-agents does.

    It comes from metadata, and may not lead out of the hook directory.
    """
    return "".join(each for each in group if each.isalnum() or each in "-_")


def chosen_document(deployment: Deployment, config: Config) -> dict[str, object]:
    """Return the entry as a hook gets it: as it came, the component's config chosen and `String` inputs made text."""
    document = dict(deployment.document)
    document["group"] = config.tool
    document["config"] = config.config
    inputs = document.get("inputs")
    if isinstance(inputs, list):
        document["inputs"] = [
            {**item, "value": protocol.as_text(item.get("value", item.get("default")))} if says_text(item) else item
            for item in inputs
        ]
    return document
