"""What is kept of a stack: the stack itself and its children, their resources, configs and deployments. Plain data."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

from heat_config_agent.stack.definition import Json

INIT, CREATE, UPDATE, DELETE = "INIT", "CREATE", "UPDATE", "DELETE"
SUSPEND, RESUME, CHECK, ROLLBACK, ADOPT = "SUSPEND", "RESUME", "CHECK", "ROLLBACK", "ADOPT"
IN_PROGRESS, COMPLETE, FAILED = "IN_PROGRESS", "COMPLETE", "FAILED"


def new_id() -> str:
    """Return an id that nothing else has."""
    return str(uuid.uuid4())


@dataclass(slots=True)
class Failure:
    """Why a resource failed, or the stack that it is in."""

    kind: str
    """The name of the error's class."""
    path: list[str]
    """`resources`, NAME, `resources`, NAME of the child, …"""
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
    """The id of the resource whose child it is; empty of the root."""
    action: str = CREATE
    status: str = COMPLETE
    reason: str = ""
    failure: Failure | None = None
    """What made it fail, first."""
    revision: int = 0
    """Counts what it was told to be: every create and update is one. A rollback goes back to an earlier one."""
    before: int = 0
    """The revision before."""
    latest: int = 0
    """The greatest revision that there ever was."""
    attempt: str = ""
    """What it works on, or worked on last. An owner that goes on after an interruption finds its own work by it."""
    source: Json = None
    """Of the root: of what its definition is made. Of a child nothing: its owner knows."""
    source_before: Json = None
    """What a rollback goes back to."""
    port: int = 0
    """Of the root: where signals for wait conditions were taken last."""
    rollback: bool = False
    """Whether it goes back by itself when something fails."""
    created: float = field(default_factory=time.time)
    updated: float = 0.0


@dataclass(slots=True)
class ResourceRecord:
    """A resource of a stack."""

    KIND: ClassVar[str] = "resource"

    id: str
    name: str
    stack: str
    """The id of its stack."""
    type: str = ""
    """The type, after all mappings; of a nested template its file's name."""
    template: bool = False
    """Whether the type is a nested template."""
    action: str = INIT
    status: str = COMPLETE
    reason: str = ""
    physical: str | None = None
    """The id of what it stands for."""
    data: dict[str, Json] = field(default_factory=dict)
    """What its class keeps."""
    metadata: dict[str, Json] = field(default_factory=dict)
    definition: dict[str, Json] | None = None
    """What it was made of, resolved; None as long as it has not been."""
    requires: list[str] = field(default_factory=list)
    """The ids of the resources that it needs."""
    revision: int = 0
    """The revision of its stack that it is as."""
    replaces: str = ""
    """The id of the resource in whose place it was made."""
    attempt: str = ""
    """What is being done with it: the same again after an interruption, another for each action."""
    passed: str = ""
    """The attempt of its stack that has come past it last."""
    created: float = field(default_factory=time.time)
    updated: float = 0.0

    @property
    def state(self) -> tuple[str, str]:
        """Return action and status."""
        return self.action, self.status


@dataclass(slots=True)
class ConfigRecord:
    """A software config: one of a resource, or what is derived of it for one action of a deployment."""

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
    """The id of the stack whose it is; it goes with it."""

    def entry(self) -> dict[str, Json]:
        """Return it as a server's metadata carries it."""
        return {
            "id": self.id,
            "name": self.name,
            "group": self.group,
            "config": self.config,
            "options": self.options,
            "inputs": self.inputs,
            "outputs": self.outputs,
            "creation_time": self.creation_time,
        }


@dataclass(slots=True)
class DeploymentRecord:
    """A deployment to a server: what it is told to do now, and what came of it."""

    KIND: ClassVar[str] = "deployment"

    id: str
    stack: str
    resource: str
    """The id of its resource."""
    server: str
    config: str
    """The id of the derived config."""
    action: str
    status: str
    reason: str
    outputs: dict[str, Json] = field(default_factory=dict)
    attempt: str = ""
    """Of the resource, for which it was told so."""


Record = StackRecord | ResourceRecord | ConfigRecord | DeploymentRecord
CLASSES: dict[str, type[Record]] = {
    each.KIND: each for each in (StackRecord, ResourceRecord, ConfigRecord, DeploymentRecord)
}


def to_json(record: Record) -> dict[str, Json]:
    """Return a record as JSON."""
    found = {each.name: getattr(record, each.name) for each in fields(record)}
    if isinstance(record, StackRecord) and record.failure:
        found["failure"] = {"kind": record.failure.kind, "path": record.failure.path, "message": record.failure.message}
    return found


def from_json(kind: str, values: Mapping[str, Any]) -> Record:
    """Return a record from JSON; what a newer version has put in is left out."""
    made = CLASSES[kind]
    record = made(**{each.name: values[each.name] for each in fields(made) if each.name in values})
    if isinstance(record, StackRecord) and isinstance(values.get("failure"), dict):
        record.failure = Failure(**values["failure"])
    return record
