"""From os-collect-config, os-refresh-config and heat-agents to this agent, on a machine that has them.

`units` reads the files of systemd's units, `looking` sees what there is, `planning` makes of that what there is to say
and to do (pure), and `doing` does it; `holding` holds back theirs meanwhile. What they have left is mostly used where
it is: their settings, their hooks, their folder of what was done. Nothing is deleted, so that one can go back.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from pathlib import Path

from heat_config_agent.model import Tool
from heat_config_agent.settings import Settings
from heat_config_hooks.values import dataclass, field

COLLECTOR = "os-collect-config"
REFRESHER = "os-refresh-config"

OURS = "heat-config-agent.service"

TAKEN = Path("/etc/systemd/system/heat-config-agent.service.d/50-migrated.conf")
"""Where the variables of their unit are handed on to ours."""

OTHERS_SETTINGS = "/etc/os-collect-config.conf"


@dataclass(frozen=True, kw_only=True)
class Unit:
    """A unit of systemd's, and how it is with it."""

    name: str
    path: Path
    commands: tuple[tuple[str, ...], ...] = ()
    """What its ExecStart say, in words."""
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    """What it adds to the environment."""
    variable_files: tuple[str, ...] = ()
    """Its EnvironmentFile, as they are written."""
    kill: str = "control-group"
    """Its KillMode: what is ended with it."""
    rest: tuple[str, ...] = ()
    """What else it says of its service that makes a difference to what is run by it."""
    active: bool = False
    enabled: bool = False
    fixed: bool = False
    """Whether it cannot be disabled, as it does not say when it is to be started."""
    masked: bool = False
    process: int = 0
    """Its main process; 0 where it has none."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """What there is on the machine."""

    given: Settings
    """What our agent would go by."""
    wrong: tuple[str, ...] = ()
    """What would keep our agent from starting."""
    systemd: bool = True
    """Whether systemd runs here; else there are only its files, as in an image that is being made."""
    theirs: tuple[Unit, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    """What their units add to the environment of what steers the agent, and what runs are given."""
    ours: Unit | None = None
    program: str = ""
    """The program of our unit, where it is not to be found."""
    strays: tuple[int, ...] = ()
    """Processes of os-collect-config that belong to no unit."""
    busy: str = ""
    """What of theirs is at work now, in words; empty where nothing is."""
    more_settings: tuple[Path, ...] = ()
    """Files with settings that os-collect-config reads, and our agent does not."""
    command: str = ""
    """What os-collect-config runs when something has changed, as its settings say."""
    scripts: tuple[Path, ...] = ()
    """What os-refresh-config runs, and what it reads variables from."""
    templates: tuple[Path, ...] = ()
    """What os-apply-config makes files of; with their folder, see `template_folders`."""
    template_folders: tuple[Path, ...] = ()
    schedules: tuple[Path, ...] = ()
    """Files of cron that name one of their programs."""
    tools: tuple[Tool, ...] = ()
    deployed: Path = Path("/")
    """The folder of what was done: where it is now."""
    done: tuple[str, ...] = ()
    """Ids of the deployments that are marked as done."""
    unanswered: tuple[str, ...] = ()
    """Those of them that have no result: they were begun, and how they ended is not known."""
    lasting: tuple[str, ...] = ()
    """Those of them whose tools leave something running that heat-agents clean up after."""
    undone: tuple[str, ...] = ()
    """Keys of the deployments that heat-agents were given and have not begun, and our agent would take on."""
    variables_taken: bool = False
    """Whether the variables of their unit have been handed on before."""
    message: Path | None = None
    """The last message from Zaqar, as os-collect-config has kept it, if our agent has none that is newer."""
    message_trouble: str = ""
    """Why it cannot be used."""


class Verdict(str, enum.Enum):
    """What a finding means for the migration."""

    OK = "ok"
    WARNING = "warning"
    REFUSED = "refused"


@dataclass(frozen=True)
class Finding:
    """Something that is to be said before anything is done."""

    verdict: Verdict
    about: str
    """What it is about, in a word."""
    says: str
    todo: str = ""
    """What to do about it."""


class Deed(str, enum.Enum):
    """What a step does."""

    WAIT = "wait"
    VARIABLES = "variables"
    ENABLE = "enable"
    DISABLE = "disable"
    STOP = "stop"
    MESSAGE = "message"
    START = "start"


@dataclass(frozen=True)
class Step:
    """Something that is to be done, in its turn."""

    deed: Deed
    about: str
    """The unit or the file."""
    says: str
    """What is done, as one would ask for it."""
    why: str
    done: bool = False
    """Whether it is so already."""


@dataclass(frozen=True)
class Plan:
    """What there is to say and to do."""

    findings: tuple[Finding, ...]
    steps: tuple[Step, ...]
    back: tuple[str, ...]
    """The commands that undo it."""

    @property
    def refused(self) -> bool:
        """Whether something stands in the way."""
        return any(each.verdict is Verdict.REFUSED for each in self.findings)
