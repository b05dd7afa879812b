"""The records of a stack as plain data: the stack and its children, their resources, configs and deployments."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

from heat_config_agent.masking.redaction import BESIDE
from heat_config_agent.model.positions import Json

INIT, CREATE, UPDATE, DELETE = "INIT", "CREATE", "UPDATE", "DELETE"
SUSPEND, RESUME, CHECK, ROLLBACK, ADOPT = (
    "SUSPEND",
    "RESUME",
    "CHECK",
    "ROLLBACK",
    "ADOPT",
)
SNAPSHOT, RESTORE = "SNAPSHOT", "RESTORE"
IN_PROGRESS, COMPLETE, FAILED = "IN_PROGRESS", "COMPLETE", "FAILED"


LEFT_OUT = "left out"
"""The beginning of the reason of a resource that is for another server than this machine."""


NOT_VERIFIED = "not verified"
"""The words before the reason why a check has not found out whether a deployment is in effect."""


DRIFTED = "drifted"
"""The key of the stored value of a resource with the state that a check has found, from a check that has failed to the
next run."""


ASKED = "a person asked for another run"
"""The reason of a resource that runs again in the next action of its stack, because a person asked for it."""


AGAIN = "again"
"""The key of the stored value of a resource that is true while a person waits for another run."""


CANCELLED = " was cancelled"
"""The end of the reason of a stack, resource or workflow whose action a person has ended."""


def new_id() -> str:
    """Return a new unique id: a random UUID (RFC 9562, version 4), without the module `uuid`, which is slow to load."""
    raw = bytearray(os.urandom(16))
    raw[6] = raw[6] & 0x0F | 0x40
    raw[8] = raw[8] & 0x3F | 0x80
    text = raw.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


@dataclass(slots=True)
class Failure:
    """The failure of a resource, or of the stack that contains it."""

    kind: str
    """The name of the error's class."""
    path: list[str]
    """`resources`, NAME, `resources`, NAME of a child stack's resource, …"""
    message: str

    def __str__(self) -> str:
        return f"{self.kind}: {'.'.join(self.path)}: {self.message}"


@dataclass(slots=True)
class StackRecord:
    """A stack: the root, or the child of a resource."""

    KIND: ClassVar[str] = "stack"

    id: str
    name: str
    project: str = ""
    owner: str = ""
    """The id of the resource that owns the stack; empty for the root."""
    action: str = CREATE
    status: str = COMPLETE
    reason: str = ""
    failure: Failure | None = None
    """The first failure."""
    revision: int = 0
    """The number of the definition: each create and update has a new one, and a rollback returns to an earlier one."""
    before: int = 0
    """The revision before."""
    latest: int = 0
    """The highest revision so far."""
    attempt: str = ""
    """The id of the current or last action. After an interruption, an owner recognises its own action by it."""
    source: Json = None
    """For the root, the source of its definition; None for a child, which its owner defines."""
    source_before: Json = None
    """The source that a rollback returns to; during a rollback, the source that it leaves."""
    port: int = 0
    """For the root, the port that last accepted signals for wait conditions."""
    rollback: bool = False
    """True if a failure starts a rollback."""
    undone: Json = None
    """The failure that began a rollback, until the next create or update: its `reason`, and the `runs` that failed."""
    adopted: Json = None
    """The state of each resource of an adopted stack, by its name, as Heat's API writes it."""
    restores: str = ""
    """For the root, the id of the snapshot that it restores or restored last."""
    created: float = field(default_factory=time.time)
    updated: float = 0.0


@dataclass(slots=True)
class ResourceRecord:
    """A resource of a stack."""

    KIND: ClassVar[str] = "resource"

    id: str
    name: str
    stack: str
    """The id of the stack."""
    type: str = ""
    """The type after all mappings; for a nested template, the name of its file."""
    template: bool = False
    """True if the type is a nested template."""
    action: str = INIT
    status: str = COMPLETE
    reason: str = ""
    physical: str | None = None
    """The physical id."""
    data: dict[str, Json] = field(default_factory=dict)
    """The data of the class."""
    metadata: dict[str, Json] = field(default_factory=dict)
    definition: dict[str, Json] | None = None
    """The resolved definition that it was created or updated with; None before that."""
    requires: list[str] = field(default_factory=list)
    """The ids of the resources that it depends on."""
    revision: int = 0
    """The revision of the stack that it matches."""
    replaces: str = ""
    """The id of the resource that it replaces."""
    attempt: str = ""
    """The id of the current action: the same after an interruption, a new one for each action."""
    passed: str = ""
    """The attempt of the stack whose traversal visited it last."""
    since: dict[str, Json] = field(default_factory=dict)
    """The time that it has waited, see `spans`."""
    created: float = field(default_factory=time.time)
    updated: float = 0.0

    @property
    def is_left_out(self) -> bool:
        """True if its last action is complete and was not carried out, because it is for another server."""
        return self.status == COMPLETE and self.reason.startswith(LEFT_OUT)

    @property
    def is_unverified(self) -> bool:
        """True if its last action is a check that could not find out whether it is in effect."""
        checked = self.state == (CHECK, COMPLETE)
        return checked and f"; {NOT_VERIFIED}: " in self.reason

    @property
    def out_of_effect(self) -> str:
        """The state that its last check has found, if that has failed: drifted, or failed; else empty."""
        return (
            str(self.data.get(DRIFTED) or "") if self.state == (CHECK, FAILED) else ""
        )

    @property
    def state(self) -> tuple[str, str]:
        """Return action and status."""
        return self.action, self.status


@dataclass(slots=True)
class ConfigRecord:
    """A software config: that of a resource, or one derived for an action of a deployment."""

    KIND: ClassVar[str] = "config"

    id: str
    name: str
    group: str
    config: Json
    options: dict[str, Json]
    inputs: list[dict[str, Json]]
    outputs: list[dict[str, Json]]
    creation_time: str
    stack: str = ""
    """The id of the stack that owns it and deletes it."""
    secrets: list[Json] = field(default_factory=list)
    """The values of the stack's secret parameters that it contains, under any name."""

    def entry(self) -> dict[str, Json]:
        """Return the config as an entry of a server's metadata."""
        return {
            "id": self.id,
            "name": self.name,
            "group": self.group,
            "config": self.config,
            "options": self.options,
            "inputs": self.inputs,
            "outputs": self.outputs,
            "creation_time": self.creation_time,
            **({BESIDE: self.secrets} if self.secrets else {}),
        }


@dataclass(slots=True)
class DeploymentRecord:
    """A deployment to a server: its current action and the result."""

    KIND: ClassVar[str] = "deployment"

    id: str
    stack: str
    resource: str
    """The id of the resource."""
    server: str
    config: str
    """The id of the derived config."""
    action: str
    status: str
    reason: str
    outputs: dict[str, Json] = field(default_factory=dict)
    attempt: str = ""
    """The attempt of the resource that it was delivered for."""
    host: Json = None
    """The host that carries it out, as `hosts.host.Host` has it; None for this machine."""


@dataclass(slots=True)
class SnapshotRecord:
    """A snapshot of the root stack."""

    KIND: ClassVar[str] = "snapshot"

    id: str
    name: str
    stack: str
    """The id of the stack."""
    action: str = CREATE
    status: str = IN_PROGRESS
    reason: str = ""
    data: dict[str, Json] = field(default_factory=dict)
    """The state of the stack and its resources, as Heat's API writes it, without the template."""
    source: Json = None
    """The source of the definition that the stack had."""
    created: float = field(default_factory=time.time)


@dataclass(slots=True)
class ProcedureRecord:
    """The last run of a procedure of a stack."""

    KIND: ClassVar[str] = "procedure"

    id: str
    name: str
    stack: str
    inputs: dict[str, Json] = field(default_factory=dict)
    outline: str = ""
    """The digest of the procedure, which tells its outcomes from those of another one."""
    trace: str = ""
    """The outcomes so far, a character each, see `stack.procedure`."""
    current: str = ""
    """The id of the resource of the operation that is carried out."""
    status: str = IN_PROGRESS
    reason: str = ""
    created: float = field(default_factory=time.time)
    updated: float = 0.0


Record = (
    StackRecord
    | ResourceRecord
    | ConfigRecord
    | DeploymentRecord
    | SnapshotRecord
    | ProcedureRecord
)
CLASSES: dict[str, type[Record]] = {
    each.KIND: each
    for each in (
        StackRecord,
        ResourceRecord,
        ConfigRecord,
        DeploymentRecord,
        SnapshotRecord,
        ProcedureRecord,
    )
}


_NAMES = {made: tuple(each.name for each in fields(made)) for made in CLASSES.values()}
"""The names of the fields of each class of records."""


def to_json(record: Record) -> dict[str, Json]:
    """Return a record as JSON."""
    values = {name: getattr(record, name) for name in _NAMES[type(record)]}
    if isinstance(record, StackRecord) and (failure := record.failure):
        values["failure"] = {
            "kind": failure.kind,
            "path": failure.path,
            "message": failure.message,
        }
    return values


_SHAPES: dict[str, type | tuple[type, ...]] = {
    "list": list,
    "dict": dict,
    "float": (int, float),
    "int": int,
}
_TEXTS = frozenset(
    {"id", "name", "stack", "owner", "action", "status", "reason", "attempt"}
)
_FORMS: dict[str, dict[str, type | tuple[type, ...]]] = {
    kind: {
        each.name: str
        if each.name in _TEXTS
        else _SHAPES.get(str(each.type).partition("[")[0], object)
        for each in fields(made)
        if "None" not in str(each.type)
    }
    for kind, made in CLASSES.items()
}
"""The types of the fields of records, by kind. Values that plug-ins may have set are not checked."""


def from_json(kind: str, values: Mapping[str, Any]) -> Record:
    """Return a record from JSON, without fields of newer versions.

    Raises KeyError, TypeError or ValueError if it is not one.
    """
    made, forms = CLASSES[kind], _FORMS[kind]
    given = {name: values[name] for name in _NAMES[made] if name in values}
    if wrong := [
        name
        for name, value in given.items()
        if not isinstance(value, forms.get(name, object))
    ]:
        raise TypeError(f"{', '.join(wrong)} of a {kind}")
    record = made(**given)
    if isinstance(record, StackRecord) and record.failure is not None:
        record.failure = Failure(**values["failure"])
    return record
