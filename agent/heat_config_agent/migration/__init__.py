"""Migration from os-collect-config, os-refresh-config and heat-agents to this agent.

`units` reads the files of systemd units, `survey` makes the inventory of the machine, `planning` makes findings and
steps from it (pure), and `steps` carries them out, and holds the old programs still meanwhile. The agent uses
their settings, hooks and records where they are. Nothing is deleted, so the migration can be undone.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from pathlib import Path

from heat_config_agent.model.deployment import Tool
from heat_config_agent.settings.effective import Settings
from heat_config_hooks.values import dataclass, field

COLLECTOR = "os-collect-config"
REFRESHER = "os-refresh-config"

OURS = "heat-config-agent.service"

TAKEN = Path("/etc/systemd/system/heat-config-agent.service.d/50-migrated.conf")
"""The drop-in that passes the variables of the old units on to ours."""

OTHERS_SETTINGS = "/etc/os-collect-config.conf"


@dataclass(frozen=True, kw_only=True)
class Unit:
    """A systemd unit and its state."""

    name: str
    path: Path
    commands: tuple[tuple[str, ...], ...] = ()
    """The words of its ExecStart lines."""
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The variables of its Environment lines."""
    variable_files: tuple[str, ...] = ()
    """The paths of its EnvironmentFile lines, as written."""
    kill: str = "control-group"
    """Its KillMode."""
    rest: tuple[str, ...] = ()
    """Other keys of its [Service] section that affect the processes of the unit."""
    active: bool = False
    enabled: bool = False
    fixed: bool = False
    """True if it cannot be disabled, because it has no [Install] section."""
    masked: bool = False
    process: int = 0
    """Its main process; 0 if there is none."""


@dataclass(frozen=True, kw_only=True)
class Inventory:
    """Everything on the machine that matters for the migration."""

    settings: Settings
    """The settings that our agent would use."""
    mistakes: tuple[str, ...] = ()
    """Mistakes in the settings with which our agent would not start."""
    systemd: bool = True
    """True if systemd runs here; in an image that is being built, only its files are there."""
    old_units: tuple[Unit, ...] = ()
    """The units of os-collect-config and os-refresh-config, with their timers."""
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables of the old units that configure the agent, or that runs inherit."""
    own_unit: Unit | None = None
    """The unit of our agent, if it is installed."""
    program: str = ""
    """The program that our unit starts, if it does not exist; else empty."""
    strays: tuple[int, ...] = ()
    """Processes of os-collect-config that belong to no unit."""
    busy: str = ""
    """The name of the old program that is at work now, for people; empty if none is."""
    more_settings: tuple[Path, ...] = ()
    """Settings files that os-collect-config reads, but our agent does not."""
    command: str = ""
    """The command that os-collect-config runs after a change, from its settings."""
    scripts: tuple[Path, ...] = ()
    """The scripts that os-refresh-config runs, and the files from which it reads variables."""
    templates: tuple[Path, ...] = ()
    """The templates of os-apply-config; `template_folders` are their folders."""
    template_folders: tuple[Path, ...] = ()
    schedules: tuple[Path, ...] = ()
    """Files of cron that start one of the old programs."""
    tools: tuple[Tool, ...] = ()
    absent: Mapping[str, str] = field(default_factory=dict)
    """The hint for each tool of the machine's deployments whose hook is in a package that is not installed."""
    unreadable_hooks: tuple[str, ...] = ()
    """A sentence about each hook directory that cannot be read."""
    deployed: Path = Path("/")
    """The folder with the records of deployments that heat-agents have done."""
    done: tuple[str, ...] = ()
    """Ids of the deployments with a record."""
    unanswered: tuple[str, ...] = ()
    """Ids of recorded deployments without a result: they were begun, but it is not known how they ended."""
    hollow: tuple[str, ...] = ()
    """Ids whose record is empty or truncated; heat-agents write a record before they run anything."""
    lasting: tuple[str, ...] = ()
    """Ids of recorded deployments whose tools leave something running that heat-agents would clean up."""
    undone: tuple[str, ...] = ()
    """Keys of deployments that heat-agents were given but have not begun, and that our agent would run."""
    variables_taken: bool = False
    """True if the variables of the old units have been passed on before."""
    message: Path | None = None
    """The file with os-collect-config's last message from Zaqar, if our agent has no newer one."""
    message_trouble: str = ""
    """The reason why that message cannot be used; empty if it can."""


class Verdict(str, enum.Enum):
    """True if a finding allows the migration."""

    OK = "ok"
    WARNING = "warning"
    REFUSED = "refused"


@dataclass(frozen=True)
class Finding:
    """A fact about the machine that is shown before any step."""

    verdict: Verdict
    about: str
    """Its subject in one word."""
    text: str
    todo: str = ""
    """The remedy."""


class Deed(str, enum.Enum):
    """The kind of a step."""

    WAIT = "wait"
    VARIABLES = "variables"
    ENABLE = "enable"
    DISABLE = "disable"
    STOP = "stop"
    MESSAGE = "message"
    START = "start"


@dataclass(frozen=True)
class Step:
    """One step of the migration."""

    deed: Deed
    about: str
    """The unit or the file."""
    text: str
    """The step as an instruction, such as «stop os-collect-config.service»."""
    why: str
    done: bool = False
    """True if the machine is in that state already."""


@dataclass(frozen=True)
class Plan:
    """The findings and the steps, in their order."""

    findings: tuple[Finding, ...]
    steps: tuple[Step, ...]
    back: tuple[str, ...]
    """The commands that undo the migration."""

    @property
    def refused(self) -> bool:
        """True if a finding forbids the migration."""
        return any(each.verdict is Verdict.REFUSED for each in self.findings)
