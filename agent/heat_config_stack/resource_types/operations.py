"""The nodes and operations of a service.

An operation is a deployment that continues in place after a failure, with the one that undoes it.

`create` and `delete`, `start` and `stop`, `add_target` and `remove_target` are one resource each: what makes runs for
CREATE, and what undoes it runs for DELETE. Only a change of the properties in `_COMPARED` is a reason to run again:
everything else is handed on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar

from heat_config_agent.model.positions import Json
from heat_config_hooks import strict_json
from heat_config_stack.definition import ROOT, Unresolved, resolve
from heat_config_stack.lifecycle import deployments, nodes
from heat_config_stack.records import exception, kept_files
from heat_config_stack.records.records import (
    AGAIN,
    CREATE,
    DRIFTED,
    FAILED,
    ConfigRecord,
    ResourceRecord,
)
from heat_config_stack.resource.attributes import Schema as Attribute
from heat_config_stack.resource.attributes import select_from_attribute
from heat_config_stack.resource.config_service import new_config
from heat_config_stack.resource.constraints import AllowedValues
from heat_config_stack.resource.properties import Properties, Schema
from heat_config_stack.resource.snippet import Snippet, thaw
from heat_config_stack.resource_types.deployment import SoftwareDeployment
from heat_config_stack.resource_types.servers import NothingBehind

MAKES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "create": (("CREATE", "UPDATE"), ("DELETE",)),
    "configure": (("CREATE", "UPDATE"), ()),
    "start": (("CREATE", "UPDATE", "RESUME"), ("SUSPEND", "DELETE")),
    "add": (("CREATE", "UPDATE"), ("DELETE",)),
    "target_changed": (("UPDATE",), ()),
    "artifacts": (("CREATE", "UPDATE", "DELETE"), ()),
}
"""The actions that make and the actions that undo, by the kind of operation."""

_COMPARED = frozenset({"server", "kind", "config", "input_values", "trigger"})
"""The properties of which a change makes the operation run again."""

_PREFIX = "tosca."
_SURROUNDINGS = f"{_PREFIX}surroundings"
_VERIFY = f"{_PREFIX}verify"
"""Names of inputs that the tool reads itself."""

_MADE, _OPEN, _RUN, _OUTPUTS = "made", "open", "run", "outputs"
"""The data of the resource: whether what makes has run, whether an action was begun and has not succeeded, the id of
the last run of what makes, and the outputs of each operation."""


def repeat(record: ResourceRecord, *, as_new: bool) -> None:
    """Have the next update repeat the action of a deployment or an operation; with `as_new`, have it run for CREATE."""
    record.status = FAILED
    record.data[AGAIN] = True
    if as_new:
        record.action = CREATE
    if _MADE in record.data:
        record.data[_OPEN] = True
        record.data[_MADE] = record.data[_MADE] and not as_new


class Operation(SoftwareDeployment):
    """An operation of a node or a relationship, with the operation that undoes it."""

    properties_schema: ClassVar[Mapping[str, Schema]] = {
        "server": Schema(
            Schema.STRING, "Id of the server.", required=True, update_allowed=True
        ),
        "kind": Schema(
            Schema.STRING,
            "The kind of operation, which says for which actions it runs.",
            required=True,
            update_allowed=True,
            constraints=[AllowedValues(list(MAKES))],
        ),
        "operation": Schema(
            Schema.STRING,
            "The name of the operation that makes.",
            update_allowed=True,
            default="",
        ),
        "inverse": Schema(
            Schema.STRING,
            "The name of the operation that undoes.",
            update_allowed=True,
            default="",
        ),
        "config": Schema(
            Schema.MAP, "The files that the making operation runs.", update_allowed=True
        ),
        "inverse_config": Schema(
            Schema.MAP,
            "The files that the undoing operation runs.",
            update_allowed=True,
        ),
        "files": Schema(
            Schema.MAP,
            "Files in the folder of the scripts, by path.",
            update_allowed=True,
        ),
        "places": Schema(
            Schema.LIST,
            "Files that are copied to places on the machine.",
            update_allowed=True,
        ),
        "input_values": Schema(
            Schema.MAP, "Values of the inputs.", update_allowed=True
        ),
        "inverse_values": Schema(
            Schema.MAP,
            "Values of the inputs of the undoing operation.",
            update_allowed=True,
        ),
        "surroundings": Schema(
            Schema.MAP,
            "Values that are handed on and not compared.",
            update_allowed=True,
        ),
        "trigger": Schema(
            Schema.ANY, "A value whose change makes it run again.", update_allowed=True
        ),
        "outputs": Schema(
            Schema.MAP, "The names of the outputs, by operation.", update_allowed=True
        ),
        "output_types": Schema(
            Schema.MAP, "The types of outputs, by operation.", update_allowed=True
        ),
        "needed_outputs": Schema(
            Schema.MAP,
            "The outputs that other operations ask for, by operation.",
            update_allowed=True,
        ),
        "verify": Schema(
            Schema.MAP,
            "The operation that verifies the node: its files and its processor.",
            update_allowed=True,
        ),
        "verify_values": Schema(
            Schema.MAP,
            "Values of the inputs of the verifying operation, which are not compared.",
            update_allowed=True,
        ),
        "options": Schema(Schema.MAP, "Options of the tool.", update_allowed=True),
        "signal_transport": Schema(
            Schema.STRING, "How the result is sent.", default="CFN_SIGNAL"
        ),
    }
    attributes_schema: ClassVar[Mapping[str, Attribute]] = {
        **SoftwareDeployment.attributes_schema,
        _RUN: Attribute(
            "The id of the last run that created or updated.", type=Attribute.STRING
        ),
    }

    # What is run for an action.

    def _config(
        self, properties: Properties
    ) -> ConfigRecord | None:  # it has its configs itself
        return None

    def _is_for(self, action: str, config: ConfigRecord | None) -> bool:
        return bool(self._steps(action))

    def _steps(
        self, action: str
    ) -> list[tuple[str, Mapping[str, Json], Mapping[str, Json]]]:
        """Return the name, the config and the inputs of each operation that runs for an action, in order."""
        properties = self.properties
        makes, undoes = MAKES[properties["kind"]]
        forward = (
            properties["operation"],
            properties["config"] or {},
            properties["input_values"] or {},
        )
        back = (
            properties["inverse"],
            properties["inverse_config"] or {},
            properties["inverse_values"] or {},
        )
        wanted = [back] if action in undoes else [forward] if action in makes else []
        if action == "UPDATE" and properties["kind"] == "start":
            wanted = [back, forward]
        if action == "DELETE" and forward[1].get("container"):
            # the tool removes the container that it has made
            wanted = [back, (properties["inverse"] or "delete", forward[1], back[2])]
        return [step for step in wanted if step[1]]

    def _derived(self, action: str, source: ConfigRecord | None) -> ConfigRecord:
        properties = self.properties
        steps = self._steps(action)
        values: dict[str, Json] = {**steps[-1][2], _SURROUNDINGS: self._around()}
        config: dict[str, Json] = {
            "root": ROOT,
            "files": {**self.stack.files, **(properties["files"] or {})},
            "places": properties["places"] or [],
        }
        parts = []
        for name, content, inputs in steps:
            config["files"].update(content["files"])
            part = {
                "operation": name,
                **{
                    key: content.get(key)
                    for key in ("primary", "processor", "container")
                },
            }
            if not part["processor"]:  # it copies files only
                continue
            if len(steps) > 1 and name != steps[-1][0]:
                values[f"{_PREFIX}{name}"] = inputs
                part["inputs"] = f"{_PREFIX}{name}"
            parts.append({key: value for key, value in part.items() if value})
        config.update(
            parts[0] if len(parts) == 1 else {"steps": parts} if parts else {}
        )
        checks = properties["verify"] or {}
        if checks and action in MAKES[properties["kind"]][0]:
            config["files"].update(checks["files"])
            config["verify"] = {
                "operation": "verify",
                "primary": checks["primary"],
                "processor": checks["processor"],
                "inputs": _VERIFY,
            }
            values[_VERIFY] = properties["verify_values"] or {}
        names = [
            output
            for step, _, _ in steps
            for output in (properties["outputs"] or {}).get(step, ())
        ]
        text = written = _written(config)
        kept = self.stack.world.store.files
        if kept is not None and len(written) > kept_files.LEAST:
            config["files"] = {
                path: kept.keep(content) for path, content in config["files"].items()
            }
            written = _written(config)
        derived = new_config(
            {
                "name": self.physical_resource_name(),
                "group": "tosca",
                "config": written,
                "options": properties["options"] or {},
                "outputs": [
                    {"name": output, "type": "Json"} for output in dict.fromkeys(names)
                ],
            },
            self.stack.id,
        )
        derived.inputs = deployments.inputs_of(derived, values, self._told(action))
        for declared in derived.inputs:
            if declared["name"] in values:
                declared["type"] = _type_of(declared["value"])
        derived.secrets = self.stack.world.conceal.within([text, derived.entry()])
        return derived

    # The handlers.

    def _act(self, action: str) -> str:
        is_of_procedure = self.record.stack != self.stack.id
        is_operation = self.properties["kind"] != "artifacts"
        if (
            is_operation
            and not is_of_procedure
            and self.stack.is_done_by_procedure(action)
        ):
            return ""
        if self._steps(action) and self.stack.world.is_here(self.properties["server"]):
            if not is_of_procedure:
                nodes.forget(self.stack, nodes.of_operation(self.stack, self.name))
            self.record.data[_OPEN] = True
            if action == "DELETE":
                self.record.data[_MADE] = False
            self.stack.keep(self.record)
        return super()._act(action)

    def handle_update(
        self,
        json_snippet: Snippet,
        tmpl_diff: Mapping[str, Json],
        prop_diff: Mapping[str, Json],
    ) -> str:
        """Run the operation again if a relevant value has changed, or if it has failed."""
        self.define(json_snippet.definition)
        is_made = self.record.data.get(_MADE, False)
        changed = prop_diff.keys() & (
            _COMPARED - {"config", "input_values", "server"}
            if self._only_triggered
            else _COMPARED
        )
        if (
            not is_made
            or self._left
            or self.record.data.get(_OPEN)
            or self.record.data.get(DRIFTED)
            or changed
            or self._asked_for_more()
        ):
            return self._act("UPDATE" if is_made else "CREATE")
        if prop_diff.keys() & {"verify", "verify_values"}:
            self._verify_otherwise()
        return ""

    def _verify_otherwise(self) -> None:
        """Keep another verification of the last run, for which nothing has to run again."""
        store, found = self.stack.world.store, self._deployment
        config = store.configs.get(found.config) if found is not None else None
        if found is None or config is None or not self._steps(found.action):
            return
        derived = self._derived(found.action, None)
        config.config, config.inputs = derived.config, derived.inputs
        config.secrets = derived.secrets
        store.put(config)

    def _content(self, config: ConfigRecord) -> object:
        compared = [each for each in config.inputs if each["name"] != _SURROUNDINGS]
        return config.group, config.config, config.options, compared, config.outputs

    def _asked_for_more(self) -> bool:
        """Return whether something asks for an output that was not taken over when the operation ran."""
        taken = self.record.data.get(_OUTPUTS) or {}
        asked = self.properties["outputs"] or {}
        return any(
            set(asked.get(name, ())) - set(taken.get(name) or ())
            for name, _, _ in self._steps("UPDATE")
        )

    @property
    def _only_triggered(self) -> bool:
        return bool(self.properties["kind"] == "target_changed")

    def action_of_update(self) -> str:
        """Return CREATE until the making operation has run."""
        return "UPDATE" if self.record.data.get(_MADE) else "CREATE"

    def needs_replace_with_prop_diff(
        self,
        changed_properties_set: set[str],
        after_props: Properties,
        before_props: Properties,
    ) -> bool:
        """Return false: it is never replaced."""
        return False

    def _is_complete(self, token: str) -> bool:
        try:
            if not super()._is_complete(token):
                return False
        except exception.Error as error:
            last = self._last(token)
            raise exception.Error(
                str(error) if last == self.name else f"{last}: {error}"
            ) from None
        action = self.record.action
        deployment = self.stack.world.store.deployments.get(token)
        if token and deployment is not None:
            outputs = dict(self.record.data.get(_OUTPUTS) or {})
            for name, _, _ in self._steps(deployment.action):
                if (self.properties["outputs"] or {}).get(name):
                    outputs[name] = self._taken(name, deployment.outputs)
            if outputs:
                self.record.data[_OUTPUTS] = outputs
        if action in ("CREATE", "UPDATE") and self._left != "CREATE":
            self.record.data[_MADE] = True
            if token:
                self.record.data[_RUN] = self.record.attempt
        self.record.data.pop(_OPEN, None)
        self.stack.keep(self.record)
        return True

    def _taken(self, operation: str, given: Mapping[str, Json]) -> dict[str, Json]:
        """Return the outputs of an operation that something asks for, as values of the types of their attributes.

        An output that did not come, or has another type, is warned of. Raises Error if another operation needs it.
        """
        types = (self.properties["output_types"] or {}).get(operation) or {}
        needed = (self.properties["needed_outputs"] or {}).get(operation) or ()
        outputs, wrong = {}, {}
        for name in self.properties["outputs"][operation]:
            outputs[name], problem = _typed(given.get(name), types.get(name, ""))
            if problem:
                wrong[name] = f"the output {name} {problem}"
        failures = [sentence for name, sentence in wrong.items() if name in needed]
        if failures:
            raise exception.Error(
                f"{'; '.join(failures)}, and other operations need it"
            )
        node = self.name.rpartition(".")[0]
        for sentence in wrong.values():
            self.stack.world.warn(f"{node}.{operation}: {sentence}")
        return outputs

    def _last(self, token: str) -> str:
        """Return the name of the operation that ran last: `app.stop` for `app.start` that is undone."""
        found = self.stack.world.store.deployments.get(token)
        steps = self._steps(found.action) if found is not None else []
        return f"{self.name.rpartition('.')[0]}.{steps[-1][0]}" if steps else self.name

    check_create_complete = _is_complete
    check_update_complete = _is_complete
    check_suspend_complete = _is_complete
    check_resume_complete = _is_complete

    def settle(self) -> None:
        """Resolve the values for the last time before the stack changes: the operations that undo need them."""
        frozen = self.record.definition
        latest = {
            name: value
            for name in ("inverse_values", "surroundings")
            if (value := self._latest(name)) is not None
        }
        if frozen is not None and any(
            frozen["properties"].get(name) != value for name, value in latest.items()
        ):
            self.record.definition = {
                **frozen,
                "properties": {**frozen["properties"], **latest},
            }
            self.define(thaw(self.name, self.record.definition))
            self.stack.keep(self.record)

    def _around(self) -> dict[str, Json]:
        """Return the current surroundings; unknown ones stay as they were."""
        known = {
            name: value
            for name, value in (self._latest("surroundings") or {}).items()
            if value is not None
        }
        return {**(self.properties["surroundings"] or {}), **known}

    def _latest(self, name: str) -> Json:
        """Return the value that a property has at the moment; None if it cannot be resolved."""
        defined = self.stack.defined
        if defined is None or self.name not in defined.resources:
            return None
        try:
            return resolve(
                defined.resources[self.name].properties.get(name), self.stack.look
            )
        except Unresolved:
            return None

    # Attributes.

    def get_attribute(self, key: str, *path: Json) -> Json:
        """Return the outputs of the last successful run of an operation by its name, or an attribute."""
        if key == _RUN:
            return self.record.data.get(_RUN)
        if key in SoftwareDeployment.attributes_schema:
            found = self._deployment
            return (
                select_from_attribute(found.outputs.get(key), path)
                if found is not None
                else None
            )
        return select_from_attribute(
            (self.record.data.get(_OUTPUTS) or {}).get(key), path
        )


def _typed(value: Json, type_: str) -> tuple[Json, str]:
    """Return an output that an attribute of a primitive type takes over, and what is wrong with it.

    Scripts write lists and maps as JSON, which is parsed so that functions can select from them; other values stay as
    they are.
    """
    if value is None:
        return None, "did not come"
    try:
        parsed = (
            strict_json.loads(value)
            if isinstance(value, str) and type_ in _PARSED
            else value
        )
    except ValueError:
        parsed = value
    expected = _PARSED.get(type_)
    if expected is None or (
        isinstance(parsed, expected[0])
        and isinstance(parsed, bool) is (type_ == "boolean")
    ):
        return parsed if type_ in ("list", "map") else value, ""
    return value, f"must be {expected[1]}"


_PARSED: dict[str, tuple[type | tuple[type, ...], str]] = {
    "integer": (int, "a whole number"),
    "float": ((int, float), "a number"),
    "boolean": (bool, "true or false"),
    "list": (list, "a list"),
    "map": (dict, "a map"),
}
"""Primitive type → the Python types of its values, and how messages name them; tools give most as text."""


def _written(config: Mapping[str, Json]) -> str:
    return json.dumps(config, ensure_ascii=False, separators=(",", ":"))


def _type_of(value: Any) -> str:
    if isinstance(value, bool):
        return "Boolean"
    if isinstance(value, int | float):
        return "Number"
    return "Json" if isinstance(value, dict | list) else "String"


class ServiceNode(NothingBehind):
    """A node, which is there when all of its operations are done."""

    always_known: ClassVar[frozenset[str]] = frozenset({"state"})
    properties_schema: ClassVar[Mapping[str, Schema]] = {}
    attributes_schema: ClassVar[Mapping[str, Attribute]] = {
        "state": Attribute("The state of the node.", type=Attribute.STRING)
    }

    def _resolve_attribute(self, name: str) -> Any:
        if name == "state":
            return nodes.state(self.stack, self.name)
        return nodes.kept_outputs(self.record, name)

    def get_attribute(self, key: str, *path: Json) -> Json:
        """Return the state of the node, or the outputs of an operation that workflows have called."""
        return select_from_attribute(self._resolve_attribute(key), path)


class ServiceHost(ServiceNode):
    """A node that is this machine, or another machine that carries out its own part of the service."""
