"""Makes the job of a deployment: the work of one run, with what its options and the settings say. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import heat_config_hooks
from heat_config_agent.deployments import selection
from heat_config_agent.model.deployment import CLEANUP, Config, Deployment, Job, Tool
from heat_config_agent.model.entry import Run
from heat_config_agent.model.run_settings import RunDefaults
from heat_config_hooks import options, protocol
from heat_config_hooks.errors import HookError

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from heat_config_hooks.artifacts import Artifact  # few deployments have any
    from heat_config_hooks.health import Check  # few deployments have it
    from heat_config_hooks.on_failure import OnFailure  # the same
    from heat_config_hooks.retry import Retry  # the same


def new(
    deployment: Deployment, config: Config, tool: Tool, defaults: RunDefaults
) -> Job:
    """Return the job of a deployment that is about to run with its selected config."""
    return Job(
        deployment=deployment,
        config=config,
        tool=tool,
        request=selection.request(deployment, config),
        limit=_limit(config),
        user=_user(config, tool, defaults.user),
        isolation=_isolation(config, tool, defaults.isolation),
        artifacts=_artifacts(deployment, config),
        retry=_retry(deployment, config),
        verify=_verify(deployment, config),
        on_failure=_on_failure(deployment, config),
        bounds=_bounds(config),
    )


def verification(
    deployment: Deployment, tool: Tool, defaults: RunDefaults
) -> Job | None:
    """Return the job that verifies a deployment in all parts; None if its config can no longer be selected.

    Raises HookError for a mistake in its options.
    """
    config = selection.select(deployment)
    if not isinstance(config, Config):
        return None
    return new(deployment, config, tool, defaults)


def of_run(deployment: Deployment, run: Run | None) -> Job | None:
    """Return the job of a run that was started before; None if the config can no longer be selected."""
    config = selection.select(deployment)
    if run is None or not isinstance(config, Config):
        return None
    return Job(
        deployment=deployment,
        config=config,
        tool=Tool(selection.tool_name(config.tool), run.hook),
        request=selection.request(deployment, config),
        limit=run.limit,
        artifacts=_artifacts(deployment, config),
        retry=_retry(deployment, config),
        verify=_verify(deployment, config),
        on_failure=_on_failure(deployment, config),
    )


def for_hook(job: Job | None, hook: protocol.Hook) -> protocol.Request:
    """Return the deployment of a job as its hook gets it. Raises HookError."""
    if job is None:
        raise HookError("its config can no longer be selected")
    values = options.read(job.config.options, hook.ABOUT.options)
    return protocol.request(job.request, key=job.deployment.key, options=values)


def _limit(config: Config) -> float | None:
    limit = options.common(config.options, "timeout")
    return limit if isinstance(limit, float) else None


def _user(config: Config, tool: Tool, default: str) -> str:
    """Return the user that a tool runs as; empty for the agent's own."""
    own = config.options.get("user")
    if (
        not (own or default)
        or not tool.builtin
        or "user" not in heat_config_hooks.load(tool.name).ABOUT.options
    ):
        return ""
    return own if isinstance(own, str) and own else default


def _isolation(
    config: Config, tool: Tool, default: Mapping[str, str]
) -> Mapping[str, str]:
    """Return the isolation of a run: as its deployment says, and the default for all other parts.

    An executable hook may use an option of that name for something else, and what it starts is not known.
    """
    own = config.options.get("isolate")
    if own is None and not default:
        return {}
    if not tool.builtin:
        default = {}
    elif "isolate" not in heat_config_hooks.load(tool.name).ABOUT.options:
        return {}
    from heat_config_hooks import isolation  # noqa: PLC0415  # few runs are isolated

    try:
        chosen = isolation.read(own or {}, f"{config.section}.isolate")
    except HookError:  # of an executable hook; for the others it is a mistake
        chosen = {}
    return {name: level for name, level in {**default, **chosen}.items() if level}


def _declared(deployment: Deployment, config: Config, name: str) -> object:
    """Return the value of a common option that is about a run of its own; None for a cleanup.

    An executable hook may use an option of that name for something else.
    """
    if deployment.action == CLEANUP or not config.options.get(name):
        return None
    return options.common(config.options, name)


def _of_the_first(deployment: Deployment, config: Config, name: str) -> object:
    """Return the same, and None also for a follow-up, which runs once after the run that has failed."""
    return None if deployment.is_follow_up else _declared(deployment, config, name)


def _artifacts(deployment: Deployment, config: Config) -> tuple[Artifact, ...]:
    """Return the artifacts of a deployment."""
    declared = _declared(deployment, config, "artifacts")
    if not isinstance(declared, list):
        return ()
    from heat_config_hooks import artifacts  # noqa: PLC0415  # few deployments have any

    return tuple(artifacts.read(declared, f"{config.section}.artifacts"))


def _retry(deployment: Deployment, config: Config) -> Retry | None:
    """Return the option `retry`."""
    declared = _of_the_first(deployment, config, "retry")
    if declared is None:
        return None
    from heat_config_hooks import retry  # noqa: PLC0415  # few deployments have it

    return retry.read(declared, f"{config.section}.retry")


def _verify(deployment: Deployment, config: Config) -> Check | None:
    """Return the option `verify`; None also for an action that puts nothing into effect."""
    declared = _of_the_first(deployment, config, "verify")
    if declared is None:
        return None
    from heat_config_hooks import health  # noqa: PLC0415  # few deployments have it

    if not health.is_gated(deployment.action):
        return None
    return health.read(declared, f"{config.section}.verify")


def _on_failure(deployment: Deployment, config: Config) -> OnFailure | None:
    """Return the option `on_failure`."""
    declared = _of_the_first(deployment, config, "on_failure")
    if declared is None:
        return None
    from heat_config_hooks import on_failure  # noqa: PLC0415  # few deployments have it

    return on_failure.read(declared, f"{config.section}.on_failure")


def _bounds(config: Config) -> dict[str, int]:
    values = {
        name: options.common(config.options, name)
        for name in options.BOUNDS
        if name in config.options
    }
    return {name: value for name, value in values.items() if isinstance(value, int)}
