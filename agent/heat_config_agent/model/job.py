"""The work of one run: the config, its tool and its limits."""

from __future__ import annotations

from collections.abc import Mapping

from heat_config_agent.model.deployment import Config, Deployment, Tool
from heat_config_hooks import options
from heat_config_hooks.values import dataclass, field

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from heat_config_hooks.artifacts import Artifact  # few deployments have any
    from heat_config_hooks.retry import Retry  # the same


@dataclass(frozen=True, kw_only=True)
class Job:
    """A deployment with its selected config.

    It is made once: by the plan for a new run, or from the journal for a run that an earlier agent started.
    """

    deployment: Deployment
    config: Config
    tool: Tool
    request: Mapping[str, object]
    """The deployment as its hook receives it: the entry of the document with the selected config."""
    limit: float | None = None
    """The timeout that the deployment sets, in seconds; None if it sets none."""
    user: str = ""
    """The user that it runs as; empty for the agent's own."""
    isolation: Mapping[str, str] = field(default_factory=dict)
    """The levels of `isolation.LEVELS` by which it is isolated."""
    artifacts: tuple[Artifact, ...] = ()
    """The files that are fetched before it begins."""
    retry: Retry | None = None
    """The limits within which its command is run again after certain exit codes; None if it is not."""
    bounds: Mapping[str, int] = field(default_factory=dict)
    """The other limits that the deployment sets: its options that are in `options.BOUNDS`."""

    @property
    def idempotent(self) -> bool:
        """True if an interrupted run may simply be run again, as the deployment's options say."""
        return options.common(self.config.options, "idempotent") is True
