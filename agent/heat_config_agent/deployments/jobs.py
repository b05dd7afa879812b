"""Makes the job of a run: the selected config, its tool, and what its options say about the run."""

from __future__ import annotations

import heat_config_hooks
from heat_config_agent.deployments import cleanup, selection
from heat_config_agent.model.deployment import Config, Deployment, Tool
from heat_config_agent.model.entry import Run
from heat_config_agent.model.job import Job
from heat_config_hooks import options

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from heat_config_hooks.artifacts import Artifact  # few deployments have any
    from heat_config_hooks.retry import Retry  # the same


def new(deployment: Deployment, config: Config, tool: Tool, user: str) -> Job:
    """Return the job of a new run; `user` is the user of runs whose tool can work as another one."""
    return Job(
        deployment=deployment,
        config=config,
        tool=tool,
        request=selection.request(deployment, config),
        limit=_limit(config),
        user=_user(config, tool, user),
        artifacts=_artifacts(deployment, config),
        retry=_retry(deployment, config),
        bounds=_bounds(config),
    )


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
    )


def _limit(config: Config) -> float | None:
    limit = options.common(config.options, "timeout")
    return limit if isinstance(limit, float) else None


def _user(config: Config, tool: Tool, usual: str) -> str:
    """Return the user as whom a tool is run; empty for the agent's own."""
    own = config.options.get("user")
    if not (own or usual) or not tool.builtin or "user" not in heat_config_hooks.load(tool.name).ABOUT.options:
        return ""
    return own if isinstance(own, str) and own else usual


def _artifacts(deployment: Deployment, config: Config) -> tuple[Artifact, ...]:
    """Return the artifacts of a deployment. An executable hook may use an option of that name for something else."""
    found = options.common(config.options, "artifacts") if config.options.get("artifacts") else None
    if not isinstance(found, list) or deployment.action == cleanup.ACTION:
        return ()
    from heat_config_hooks import artifacts  # noqa: PLC0415  # few deployments have any

    return tuple(artifacts.read(found, f"{config.section}.artifacts"))


def _retry(deployment: Deployment, config: Config) -> Retry | None:
    """Return the option `retry`. An executable hook may use an option of that name for something else."""
    found = options.common(config.options, "retry") if config.options.get("retry") else None
    if found is None or deployment.action == cleanup.ACTION:
        return None
    from heat_config_hooks import retry  # noqa: PLC0415  # few deployments have it

    return retry.read(found, f"{config.section}.retry")


def _bounds(config: Config) -> dict[str, int]:
    values = {name: options.common(config.options, name) for name in options.BOUNDS if name in config.options}
    return {name: value for name, value in values.items() if isinstance(value, int)}
