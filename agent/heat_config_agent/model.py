"""The values that pass between the parts. Frozen, without input or output, and importing nothing of ours."""

from __future__ import annotations

import enum
import functools
from collections.abc import Mapping
from pathlib import Path

from heat_config_hooks.values import dataclass, field

COMPONENT = "component"
"""The group of a deployment that carries one config for each lifecycle action."""

DELETE = "DELETE"
"""The action with which a deployment goes."""

STANDARD_OUTPUTS = frozenset({"deploy_stdout", "deploy_stderr", "deploy_status_code"})
"""What every result has. A template may declare them, and that changes nothing."""

WAIT_LIMIT = 3600.0
"""Seconds that a server may ask us to wait for at most."""

TOOLLESS = frozenset({"Heat::Ungrouped", "os-apply-config"})
"""Groups that name no tool: Heat's default, and metadata that other programs read. Nothing is run and nothing
signalled."""


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """Something wrong in a document, and where."""

    path: str
    """Where in the document, e.g. `deployments[2].inputs[0].name`."""
    problem: str
    """What is wrong and what would be right, in one sentence."""

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}"


@dataclass(frozen=True, kw_only=True)
class Input:
    """One input value of a deployment."""

    name: str
    value: object
    """Any JSON value. An input without a value has its default, or null."""
    type: str = "String"
    """As declared: String, Number, Boolean, CommaDelimitedList or Json."""
    hidden: bool = False
    """The document says that nobody may see the value (`hidden` or `no_echo`)."""


@dataclass(frozen=True, kw_only=True)
class Output:
    """One declared output of a deployment."""

    name: str
    error_output: bool = False
    """Heat fails the deployment when this output is produced, even empty."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """What is to be run: a tool, what it is given, and its options."""

    tool: str
    config: object
    """The script, playbook, manifest…: text, or an object for structured configs."""
    options: Mapping[str, object] = field(default_factory=dict)
    section: str = "options"
    """Where the options stand in the deployment."""
    others: frozenset[str] = frozenset()
    """The tools of a component that its options without sections are also for."""


@dataclass(frozen=True, kw_only=True)
class Credentials:
    """As whom to speak to OpenStack's services. They come from metadata."""

    auth_url: str
    """Keystone's, with or without a version in it."""
    user_id: str
    password: str = field(repr=False)
    project_id: str
    region_name: str = ""
    """Whose endpoints to take; any region's where it is empty."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """Where a deployment's result goes."""

    kind: str
    """`none`, `url` (CFN and Swift temporary URLs), `heat` or `zaqar`."""
    url: str = ""
    """For `url`: signed, so sent to exactly as given. A secret."""
    verb: str = "POST"
    credentials: Credentials | None = None
    """For `heat` and `zaqar`."""
    stack: str = ""
    """For `heat`: `NAME/ID` of the stack."""
    resource: str = ""
    """For `heat`: the name of the deployment's resource in it."""
    queue: str = ""
    """For `zaqar`."""
    addressee: str = ""
    """Who waits for the result: the same for every action of one deployment resource."""

    @property
    def wanted(self) -> bool:
        """Whether anybody waits for the result."""
        return self.kind != "none"

    @property
    def described(self) -> str:
        """For people, without what is secret: who is told the result."""
        if self.kind == "url":
            return f"{self.verb} to {self.url.partition('?')[0].split('@')[-1]}"
        return {"none": "nowhere: no signal is asked for", "heat": "to Heat's API", "zaqar": "to a Zaqar queue"}[
            self.kind
        ]


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """One software deployment, as a document describes it."""

    id: str
    """Heat's id of the derived config. It changes with every action: a new id is new work, a known one is work already
    taken."""
    key: str
    """The id where it is a safe file name, else a digest. Names everything of ours about this deployment."""
    name: str
    group: str
    """The tool; `component` when the config carries one config for each action; or one of `TOOLLESS`."""
    config: object
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    options: Mapping[str, object]
    creation_time: str
    target: Target
    document: Mapping[str, object]
    """The entry exactly as it came, unknown keys and all."""
    source: str = ""
    """The source whose document holds it."""
    where: str = ""
    """Its path in that document."""
    mistakes: tuple[Mistake, ...] = ()
    """What is wrong with the entry. Such a deployment is answered as failed, and never run."""

    def input(self, name: str) -> object:
        """Return the value of an input, or None.

        Of several with one name the last counts, as in the tools' environment.
        """
        for each in reversed(self.inputs):
            if each.name == name:
                return each.value
        return None

    @functools.cached_property
    def action(self) -> str:
        """The lifecycle action, e.g. CREATE; empty where the document names none."""
        value = self.input("deploy_action")
        return value if isinstance(value, str) else ""

    @functools.cached_property
    def resource(self) -> str:
        """Which deployment resource it is of, the same for all its actions; empty where the inputs do not say."""
        stack, name = self.input("deploy_stack_id"), self.input("deploy_resource_name")
        return f"{stack}/{name}" if stack and name else ""

    @property
    def owner(self) -> str:
        """Whose is what the deployment makes: its resource's; where the inputs do not say which, its name's."""
        return self.resource or self.name

    @property
    def status(self) -> str:
        """The status of the action where the document carries one; Heat's today do not."""
        value = self.input("deploy_status")
        return value if isinstance(value, str) else ""


@dataclass(frozen=True, kw_only=True)
class Document:
    """What a source answered."""

    source: str
    """Names the source across runs, e.g. `file:/srv/site.yaml`: what has left its document is no longer waited for."""
    content: object
    """The parsed document."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """What came of a deployment: exactly what its target is told."""

    values: Mapping[str, object]
    """`deploy_stdout`, `deploy_stderr`, `deploy_status_code`, and each declared output that was produced."""
    failed: bool
    """What the target makes of the values: Heat's rules, see `result.judge`."""
    reason: str = ""
    """For people: why it failed, or what is remarkable about a success."""


BUILTIN = "builtin:"


@dataclass(frozen=True)
class Tool:
    """A tool that can be run."""

    name: str
    hook: str
    """`builtin:NAME` for a hook of ours, else the path of an executable."""

    @property
    def builtin(self) -> bool:
        """Whether the hook is one of ours, and needs no process of its own."""
        return self.hook.startswith(BUILTIN)


class State(str, enum.Enum):
    """How far a deployment has come."""

    DAMAGED = "damaged"
    """What became of it was in a part of the journal that cannot be read any more: it must not be run."""
    ACCEPTED = "accepted"
    RUNNING = "running"
    REBOOT = "reboot"
    """Its command asked for a reboot, after which it is run again."""
    FINISHED = "finished"
    """Its result waits to be delivered."""
    SIGNALLED = "signalled"
    UNASKED = "unasked"
    """Finished, and nobody wanted the result."""
    REFUSED = "refused"
    """Its result was refused for good."""
    SUPERSEDED = "superseded"
    """Its deployment left the metadata before the result was delivered: it is not sent while that is so."""


SETTLED = frozenset({State.SIGNALLED, State.UNASKED, State.REFUSED, State.SUPERSEDED})
"""Nothing more will be done, as long as its deployment is as it is."""


UNDELIVERED = frozenset({State.FINISHED, State.REFUSED, State.SUPERSEDED})
"""There is a result, and nobody has been told it."""


@dataclass(frozen=True, kw_only=True)
class Where:
    """Folders and limits that hold for all deployments."""

    state: Path
    root: Path | None
    """Below which hooks work; None for heat-agents' own places."""
    environment: Mapping[str, str]
    """What every run gets."""
    limit: float | None
    """Time limit of a deployment that does not say its own, in seconds; None for none."""
    grace: float
    """Seconds between asking a run to end and killing it."""
    parallel: int = 1
    """How many deployments may run at once."""
    by_name: bool = False
    """Whether they begin in the order of their names; else in that of their documents."""
    cancel: bool = False
    """Whether a run whose deployment is replaced is ended; else it may finish, unless a DELETE waits for it."""
    output_limit: int = 0
    """Bytes that standard output and error of a run may each take on disk; 0 for any."""
    scopes: bool = False
    """Whether runs are scopes of systemd's, where that is possible."""

    def run(self, key: str) -> Path:
        """Return the folder of a deployment's run."""
        return Path(f"{self.state}/runs/{key}")


@dataclass(frozen=True, kw_only=True)
class Run:
    """A command that was started, so that another process can find it again."""

    mark: str = ""
    """In the environment of all its processes, and of no others: see `runner.MARK`."""
    boot: str
    """The kernel's boot id: process ids mean nothing in another boot."""
    pid: int
    ticks: int
    """Start time of the process in clock ticks since boot: with it a process id names one process."""
    began: float
    """Seconds since boot (CLOCK_BOOTTIME, which no clock change moves)."""
    limit: float | None
    """Time limit in seconds."""
    hook: str
    """The hook that `finish`es the run: `builtin:NAME`, or the path of an executable."""
    working: str
    outputs: str
    scope: str = ""
    """The folder of its control group, where it is a scope of systemd's."""


class Removed(str, enum.Enum):
    """What has been removed, after its time, of what was kept of a deployment."""

    NOTHING = ""
    SECRETS = "secrets"
    """Its inputs and config, and what the tool was given of them."""
    ALL = "all"
    """All but that it ran, and what came of it: so it is never run again."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What the journal knows of one deployment."""

    key: str
    id: str
    name: str
    action: str
    tool: str
    source: str
    addressee: str
    document: Mapping[str, object]
    """As it came, with the component's config not yet chosen. Left out when the journal is written anew after it."""
    state: State
    at: float
    """When it came into its state, seconds since the epoch."""
    accepted: float
    started: float | None = None
    ended: float | None = None
    run: Run | None = None
    """The last one, also while it is to be run again."""
    values: Mapping[str, object] | None = None
    """The result as it is signalled. Not kept when the journal is written anew once it is delivered."""
    failed: bool = False
    reason: str = ""
    owner: str = ""
    """See `Deployment.owner`; empty where an older version wrote the journal."""
    reruns: int = 0
    """How often it was interrupted and run again, as it may be."""
    reboots: int = 0
    """How often it asked for a reboot."""
    tries: int = 0
    """How often the result was sent in vain."""
    trouble: str = ""
    """Why it was in vain the last time."""
    not_before: float = 0
    """The server asked not to be asked again before (seconds since the epoch)."""
    again: bool = False
    """A person asked for it to be run again."""
    marked: str = ""
    """The folder in which its `ID.json` is known to be on disk: if it is missing there, somebody removed it."""
    settled_at: float = 0.0
    """When it was settled last. This and the next are told by `steady`, which no change of the clock moves."""
    left_at: float | None = None
    """When it left the metadata; None while it is in it, as far as is known."""
    removed: Removed = Removed.NOTHING
    untidy: bool = False
    """When it was settled, what its run was given could not be removed."""

    @property
    def result(self) -> Result | None:
        """The result, while the journal holds it."""
        if self.values is None:
            return None
        return Result(values=self.values, failed=self.failed, reason=self.reason)

    @property
    def settled(self) -> bool:
        """Whether nothing more will be done."""
        return self.state in SETTLED
