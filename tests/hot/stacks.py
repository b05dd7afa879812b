"""The language and the stack as a subject: all of a case, with an agent that answers as the case says."""

from __future__ import annotations

import contextlib
import copy
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from heat_config_agent.diagnostics.mistakes import Invalid
from heat_config_agent.masking.redaction import OPEN
from heat_config_agent.model.errors import AgentError, NotFoundError, UsageError
from heat_config_agent.model.mistake import Mistake
from heat_config_stack.cli.stack.templates import all_mistakes
from heat_config_stack.definition import Definition, Identity, Unresolved, resolve
from heat_config_stack.hot.loader import examine, load
from heat_config_stack.hot.source import Source
from heat_config_stack.lifecycle import deployments, validation
from heat_config_stack.lifecycle.live import Stack, World
from heat_config_stack.lifecycle.session import Session
from heat_config_stack.records import records
from heat_config_stack.records.records import (
    CREATE,
    IN_PROGRESS,
    UPDATE,
    DeploymentRecord,
)
from heat_config_stack.resource_types import known_types
from heat_config_stack.resource_types.wait_conditions import WaitCondition
from hot import language

PROJECT = "test_tenant_id"
GROUPS = {
    *(
        "OS::Heat::ResourceGroup",
        "OS::Heat::ResourceChain",
        "OS::Heat::SoftwareDeploymentGroup",
    ),
    *(
        "OS::Heat::StructuredDeploymentGroup",
        "OS::Heat::SoftwareDeployments",
        "OS::Heat::StructuredDeployments",
    ),
}


class Agent:
    """The servers: each does at once what it is told, and answers as the case says."""

    def __init__(self, case: dict[str, Any]) -> None:
        self.step = "create"
        self.signals: dict[str, Any] = case.get("signals") or {}
        self.wait_signals: dict[str, Any] = copy.deepcopy(
            case.get("wait_signals") or {}
        )
        self.deliveries: list[dict[str, Any]] = []
        self._new: list[DeploymentRecord] = []

    def deliver(self, deployment: DeploymentRecord) -> None:
        self._new.append(deployment)

    def withdraw(self, deployment: DeploymentRecord) -> None:
        """Nothing of it is kept here."""

    def stop(self, world: World, reason: str) -> None:  # noqa: ARG002
        self._new = []

    @property
    def busy(self) -> bool:
        return bool(self._new)

    def signal(self, world: World, event: dict[str, Any]) -> None:
        """Send the signals for the handle of a condition that begins to wait, before it counts them for the first time.

        They go to the handles whose signals Heat's engine gets from elsewhere, not to those of CloudFormation.
        """
        begins = event["action"] in (CREATE, UPDATE) and event["status"] == IN_PROGRESS
        waiting = _at(world, event["path"]) if begins else None
        if not isinstance(waiting, WaitCondition):
            return
        try:
            handle = waiting.check_handle(waiting._handle())  # noqa: SLF001
        except ValueError:  # it fails before it counts
            return
        if handle.type() != "OS::Heat::WaitConditionHandle":
            return
        for details in self.wait_signals.pop(handle.name, ()):
            with contextlib.suppress(ValueError):  # its sender is told
                handle.signal(details)

    def work(self, world: World, timeout: float | None, also: Sequence[int]) -> None:  # noqa: ARG002
        new, self._new = self._new, []
        for deployment in new:
            self._answer(world, deployment)
        if not new and timeout:
            time.sleep(min(timeout, 1.0))

    def _answer(self, world: World, deployment: DeploymentRecord) -> None:
        if deployment.resource not in world.store.resources:
            # it is gone before its server has heard of it
            return
        name = world.store.resources[deployment.resource].name
        entries = deployments.entries(world, deployment.server)
        config = next(each for each in entries if each["id"] == deployment.config)
        self.deliveries.append(
            {
                "step": self.step,
                "server": deployment.server,
                "resource": name,
                "action": deployment.action,
                "order": [each["name"] for each in entries],
                "config": copy.deepcopy(config),
            }
        )
        answers = self.signals.get(name, {})
        success = {"deploy_stdout": "", "deploy_stderr": "", "deploy_status_code": 0}
        details = answers.get(deployment.action, answers.get("*"))
        details = success if details is None else details
        silent = any(
            each["value"] == deployments.NO_SIGNAL for each in config["inputs"]
        )
        if details != "never" or silent:
            # then the script ends, and no signal is waited for
            details = {} if details == "never" else details
            deployments.take(world, deployment, copy.deepcopy(details))

    def told(self) -> list[dict[str, Any]]:
        """Return the deliveries of a step, and forget them."""
        found, self.deliveries = self.deliveries, []
        return sorted(
            found, key=lambda each: (each["resource"], each["action"], each["server"])
        )


def run(case: dict[str, Any]) -> dict[str, Any]:
    """Return what becomes of a case."""
    if case.get("mode") == "validate":
        return _validated(case)
    with tempfile.TemporaryDirectory() as folder:
        life = _Life(case, Path(folder) / "s")
        try:
            return (
                life.lifecycle() if case.get("mode") == "lifecycle" else life.create()
            )
        finally:
            life.session.close()


def _at(world: World, path: str) -> Any:
    """Return the resource at a path; None for the stack itself."""
    stack: Any = world.stacks[world.root]
    *parents, name = path.split("/")
    for each in parents:
        stack = (
            stack.resources[each].child if stack and each in stack.resources else None
        )
    return stack.resources.get(name) if stack else None


def _identity(case: dict[str, Any], id_: str) -> Identity:
    return Identity(case.get("stack_name", "s1"), id_, PROJECT)


def _validated(case: dict[str, Any]) -> dict[str, Any]:
    try:
        made = _defined(language.source(case), _identity(case, "None"), creating=False)
        validation.check(made, known_types())
    except Invalid as invalid:
        return _errors(invalid)
    found = {
        "requires": {
            name: sorted(each.requirements()) for name, each in made.resources.items()
        }
    }
    return {"outcome": "ok", "parameters": _parameters(made), **found}


def _defined(
    source: Source, identity: Identity, *, creating: bool = True
) -> Definition:
    """Return the definition of a stack. Raises `Invalid` with all mistakes, also about types, as commands do."""
    made, mistakes, warnings = examine(source, identity)
    if made is not None and mistakes:
        mistakes = all_mistakes(made, known_types(), mistakes, creating=creating)
    if made is None or mistakes:
        raise Invalid(mistakes, OPEN)
    return replace(made, warnings=tuple(warnings))


def _errors(invalid: AgentError) -> dict[str, Any]:
    if isinstance(invalid, Invalid):
        return {
            "outcome": "error",
            "errors": [language._error(each) for each in invalid.mistakes],  # noqa: SLF001
        }
    return {
        "outcome": "error",
        "errors": [{"stage": "lifecycle", "path": "", "message": str(invalid)}],
    }


def _parameters(made: Definition) -> dict[str, Any]:
    pseudo = {
        "OS::stack_id": made.identity.id,
        "OS::stack_name": made.identity.name,
        "OS::project_id": PROJECT,
    }
    return pseudo | {name: each.value for name, each in made.parameters.items()}


class _Life:
    """A stack of a case."""

    def __init__(self, case: dict[str, Any], folder: Path) -> None:
        self.case, self.agent = case, Agent(case)
        self.events: list[dict[str, Any]] = []
        self.session = Session(
            folder, known_types(), self.agent, load, happened=self._happened
        )
        self.rollback = case.get("disable_rollback") is False

    def _happened(self, event: dict[str, Any]) -> None:
        self.events.append(event)
        self.agent.signal(self.session.world, event)

    def create(self) -> dict[str, Any]:
        try:
            self._create()
        except UsageError as error:
            return _errors(error)
        found = self._told()
        found["outcome"] = "ok" if found["state"][1] == "COMPLETE" else "failed"
        if deliveries := self.agent.told():
            found["deliveries"] = deliveries
        return found

    def _create(self) -> None:
        made = _defined(
            language.source(self.case), _identity(self.case, records.new_id())
        )
        self.session.create(made, rollback=self.rollback)

    def lifecycle(self) -> dict[str, Any]:
        """Return what becomes of each step."""
        steps: list[dict[str, Any]] = []
        before: dict[str, str] = {}
        edges: set[tuple[str, str]] = set()
        for step in self.case.get("steps") or [{"op": "create"}]:
            self.agent.step = step["op"]
            self.agent.signals = step.get("signals") or self.agent.signals
            self.agent.wait_signals = copy.deepcopy(
                step.get("wait_signals") or self.agent.wait_signals
            )
            self.events.clear()
            outcome: dict[str, Any] = {"op": step["op"], "outcome": "ok"}
            try:
                self._do(step)
            except (UsageError, NotFoundError) as error:
                refused = _errors(error)
                errors = [{**each, "stage": "lifecycle"} for each in refused["errors"]]
                outcome = {"op": step["op"], "outcome": "error", "errors": errors}
            root = self.session.root
            if (
                root is None
                and not edges
                and not before
                and all(each["outcome"] == "error" for each in steps)
            ):
                steps.append(outcome)  # there has never been a stack
                continue
            gone = root is None or root.record.action == "DELETE"
            outcome["stack"] = self._told() if not gone else self._end()
            after = {} if gone or root is None else dict(_ids(root))
            outcome["deliveries"] = self.agent.told()
            outcome["kept"] = sorted(
                each for each in after if before.get(each) == after[each]
            )
            outcome["replaced"] = sorted(
                each for each in after if each in before and before[each] != after[each]
            )
            outcome["added"] = sorted(after.keys() - before.keys())
            outcome["removed"] = sorted(before.keys() - after.keys())
            now = _edges(outcome["stack"])
            outcome["sequence"] = _sequence(
                [each for each in self.events if each["path"]], now | edges
            )
            before, edges = after, now
            steps.append(outcome)
        return {
            "outcome": "ok"
            if all(each["outcome"] == "ok" for each in steps)
            else "error",
            "steps": steps,
        }

    def _end(self) -> dict[str, Any]:
        root = self.session.root
        return {
            "state": ["DELETE", "COMPLETE"]
            if root is None
            else [root.record.action, root.record.status]
        }

    def _do(self, step: dict[str, Any]) -> None:
        if step["op"] == "create":
            self._create()
        elif step["op"] == "update":
            self._update(step)
        elif step["op"] == "signal":
            try:
                self.session.signal(step["resource"], step.get("details"))
            except UsageError as error:  # the message names the resource
                known = str(error).startswith(f"{step['resource']} ")
                raise Invalid(
                    [
                        Mistake(
                            str(error), ("resources", step["resource"]) if known else ()
                        )
                    ],
                    OPEN,
                ) from error
        else:
            getattr(self.session, step["op"])()

    def _update(self, step: dict[str, Any]) -> None:
        root = self.session.root
        if root is None:
            raise UsageError(
                f"The Stack ({self.case.get('stack_name', 's1')}) could not be found."
            )
        merged = {**step, "files": step.get("files") or self.case.get("files")}
        if step.get("template") is None:
            merged["template"] = self.case["template"]
        source = language.source(merged)
        if step.get("existing"):
            template = source.template if step.get("template") is not None else None
            parameters, clear = (
                step.get("parameters") or {},
                step.get("clear_parameters", []),
            )
            kept = Source.from_json(root.record.source or root.record.source_before)
            source = kept.changed(
                template, source.environments, merged["files"] or {}, parameters, clear
            )
        made = _defined(source, root.identity)
        self.session.update(made, rollback=self.rollback)

    def _told(self) -> dict[str, Any]:
        root = self.session.root
        assert root is not None
        return _stack(root)


def _stack(stack: Stack, *, grouped: bool = False) -> dict[str, Any]:
    """Return all that can be read of a stack. What Heat makes of a group's child is its own business."""
    found: dict[str, Any] = {
        "resources": {name: _resource(each) for name, each in stack.resources.items()}
    }
    if not grouped:
        found["state"] = [stack.record.action, stack.record.status]
        if stack.defined:
            found["outputs"] = {
                name: _output(stack, name) for name in stack.definition.outputs
            }
            found["parameters"] = _parameters(stack.definition)
    return found


def _output(stack: Stack, name: str) -> dict[str, Any]:
    try:
        return {"value": stack.output(name)}
    except Unresolved as error:
        return {"value": None, "error": str(error)}


def _resource(resource: Any) -> dict[str, Any]:
    properties = {}
    wanted = resource.stack.as_defined(resource.name)
    wanted.attach(resource.record)
    resource = wanted
    for name in sorted(resource.properties):
        try:
            value = resource.properties[name]
        except (Unresolved, ValueError) as error:
            value = {"!error": str(error)}
        if (
            value is not None
            or name in resource.properties.data
            or name in resource.definition.omitted
        ):
            properties[name] = value
    shown: dict[str, Any] = {
        "type": resource.type(),
        "state": list(resource.state),
        "requires": sorted(resource.definition.requirements()),
        "properties": properties,
        "deletion_policy": resource.definition.deletion_policy,
    }
    if metadata := _resolved(resource.definition.metadata, resource.stack):
        shown["metadata"] = metadata
    if policy := _resolved(resource.definition.update_policy, resource.stack):
        shown["update_policy"] = policy
    if resource.child is not None:
        shown["nested"] = _stack(resource.child, grouped=resource.type() in GROUPS)
    return shown


def _resolved(tree: Any, stack: Stack) -> Any:
    """Return the value of a part of a resource; None if it has none, as where the resource failed for that."""
    try:
        return resolve(dict(tree) if isinstance(tree, Mapping) else tree, stack.look)
    except Unresolved:
        return None


def _ids(stack: Stack, prefix: str = "") -> Any:
    for name, each in stack.resources.items():
        yield prefix + name, each.record.id
        if isinstance(each.child, Stack):
            yield from _ids(each.child, f"{prefix}{name}/")


def _edges(told: dict[str, Any], prefix: str = "") -> set[tuple[str, str]]:
    """Return which resource needs which, by path."""
    found = set()
    for name, each in told.get("resources", {}).items():
        found |= {(prefix + name, prefix + other) for other in each["requires"]}
        if "nested" in each:
            found |= _edges(each["nested"], f"{prefix}{name}/")
    return found


def _sequence(
    events: list[dict[str, Any]], edges: set[tuple[str, str]]
) -> list[list[str]]:
    """Return what came after what, of those that a dependency ties, and of the two sides of a replacement."""
    spans: dict[str, list[list[Any]]] = {}
    for index, event in enumerate(events):
        path, action = event["path"], event["action"]
        mine = spans.setdefault(path, [])
        if event["status"] == "IN_PROGRESS":
            count = 1 + sum(each[3] == action for each in mine)
            mine.append(
                [
                    f"{path} {action}" + (f"#{count}" if count > 1 else ""),
                    index,
                    None,
                    action,
                ]
            )
        elif opened := [each for each in mine if each[3] == action and each[2] is None]:
            opened[-1][2] = index
    pairs = set()
    for one, other in sorted(edges) + [(path, path) for path in sorted(spans)]:
        for a in spans.get(one, []):
            for b in spans.get(other, []):
                if a is not b and a[2] is not None and a[2] < b[1]:
                    pairs.add((a[0], b[0]))
                elif a is not b and b[2] is not None and b[2] < a[1]:
                    pairs.add((b[0], a[0]))
    return [list(each) for each in sorted(pairs)]
