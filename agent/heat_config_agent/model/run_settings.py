"""The folders, limits and defaults that apply to every run, and the limits of what is kept of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from heat_config_hooks.values import dataclass, field


@dataclass(frozen=True, kw_only=True)
class RunDefaults:
    """The user and the isolation of runs whose deployments do not name them."""

    user: str = ""
    """The user that runs belong to; empty for the agent's own."""
    isolation: Mapping[str, str] = field(default_factory=dict)
    """The levels of isolation of runs, of `isolation.LEVELS`."""


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """The folders and limits that apply to all deployments."""

    state: Path
    root: Path | None
    """The folder in which hooks work; None for heat-agents' own places."""
    environment: Mapping[str, str]
    """The environment of every run."""
    limit: float | None
    """The timeout of a deployment that has none of its own, in seconds; None for no timeout."""
    grace: float
    """Seconds between TERM and KILL when a run is ended."""
    parallel: int = 1
    """The most deployments that run at once."""
    by_name: bool = False
    """True if deployments begin in the order of their names; else in the order of their documents."""
    cancel: bool = False
    """True if a run is ended when its deployment is replaced; else it may finish, unless a DELETE waits for it."""
    output_limit: int = 0
    """The most bytes of standard output and of standard error that a run keeps on disk; 0 for no limit."""
    scopes: bool = False
    """True if runs are systemd scopes where that is possible."""

    secrets: Mapping[str, str] = field(default_factory=dict)
    """The variables that tell providers of secrets where they find them."""
    providers: tuple[str, ...] = ()
    """The directories that are searched for providers."""

    ca_file: str | None = None
    """The certificates that are trusted when artifacts are fetched; None for the default ones."""
    artifacts_size: int = 256 * 1024 * 1024
    """The most bytes of the artifacts of a deployment, and of those that are kept for later ones."""

    defaults: RunDefaults = RunDefaults()
    user_dir: str = ""
    """The folder with the files of such runs."""

    @property
    def artifacts(self) -> Path:
        """The folder of the artifacts that are kept for later runs."""
        return self.state / "artifacts"

    def run(self, key: str) -> Path:
        """Return the folder of a deployment's run."""
        return Path(f"{self.state}/runs/{key}")


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The limits on what is kept: the settings `keep_…`."""

    secrets: float
    """Seconds that secrets are kept after the delivery of the result."""
    age: float
    """Seconds that output is kept, and results of deployments that have left the metadata."""
    count: int
    """The number of deployments that are kept after they have left the metadata."""
    size: int
    """Bytes of everything that is kept."""
    files: int
    """The number of files that are kept."""
    output: int = 0
    """Bytes of each output stream of a run; 0 for no limit."""
