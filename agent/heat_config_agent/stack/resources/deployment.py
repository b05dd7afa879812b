"""Deployments: a config for a server, carried out at the lifecycle actions that it is for."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, ClassVar

from heat_config_agent.stack import deployments, exception, records
from heat_config_agent.stack.attributes import Schema as Attribute
from heat_config_agent.stack.attributes import select_from_attribute
from heat_config_agent.stack.constraints import AllowedValues
from heat_config_agent.stack.definition import Json
from heat_config_agent.stack.properties import Properties, Schema
from heat_config_agent.stack.records import COMPLETE, FAILED, ConfigRecord, DeploymentRecord
from heat_config_agent.stack.resource import Resource
from heat_config_agent.stack.snippet import Snippet

ACTIONS = ("CREATE", "UPDATE", "DELETE", "SUSPEND", "RESUME")
TRANSPORTS = ("CFN_SIGNAL", "TEMP_URL_SIGNAL", "HEAT_SIGNAL", "NO_SIGNAL", "ZAQAR_SIGNAL")

SHARED: dict[str, Schema] = {
    "config": Schema(Schema.STRING, "Id of the config.", update_allowed=True),
    "input_values": Schema(Schema.MAP, "Values of the config's inputs.", update_allowed=True),
    "actions": Schema(
        Schema.LIST,
        "The lifecycle actions at which it is carried out.",
        update_allowed=True,
        default=["CREATE", "UPDATE"],
        constraints=[AllowedValues(ACTIONS)],
    ),
    "name": Schema(Schema.STRING, "Name of the derived config.", update_allowed=True),
    "signal_transport": Schema(
        Schema.STRING,
        "How the server tells what came of it.",
        default="CFN_SIGNAL",
        constraints=[AllowedValues(TRANSPORTS)],
    ),
}
"""The properties of deployments and of groups of them."""

STRUCTURED: dict[str, Schema] = {
    "input_key": Schema(Schema.STRING, "The key of a map that is an input's value.", default="get_input"),
    "input_values_validate": Schema(
        Schema.STRING,
        "Whether every input that is referred to must be given.",
        default="LAX",
        constraints=[AllowedValues(["LAX", "STRICT"])],
    ),
}


class SoftwareDeployment(Resource):
    """A config for a server."""

    again_after_interruption: ClassVar[bool] = True
    any_attribute: ClassVar[bool] = True
    properties_schema: ClassVar[Mapping[str, Schema]] = {
        **SHARED,
        "server": Schema(Schema.STRING, "Id of the server.", required=True),
    }
    attributes_schema: ClassVar[Mapping[str, Attribute]] = {
        "deploy_stdout": Attribute("What it printed.", type=Attribute.STRING),
        "deploy_stderr": Attribute("What it printed to standard error.", type=Attribute.STRING),
        "deploy_status_code": Attribute("What it ended with.", type=Attribute.STRING),
    }

    # What it is made of.

    @property
    def _deployment(self) -> DeploymentRecord | None:
        return self.stack.world.store.deployments.get(self.resource_id or "")

    def _config(self, properties: Properties) -> ConfigRecord | None:
        """Return the config; None where none is named. Raises NotFound."""
        named = properties["config"]
        if not named:
            return None
        found = self.stack.world.store.configs.get(named)
        if found is None:
            raise exception.NotFound(f"Software config with id {named} not found")
        return found

    def _is_for(self, action: str, config: ConfigRecord | None) -> bool:
        """Whether an action is carried out: of a component its configs say so."""
        if config is not None and config.group == "component":
            return any(action in each["actions"] for each in config.config["configs"])
        return action in self.properties["actions"]

    def _derived(self, action: str, source: ConfigRecord | None) -> ConfigRecord:
        given = self.properties["input_values"] or {}
        blank = ConfigRecord("", self.physical_resource_name(), "Heat::Ungrouped", "", {}, [], [], "")
        base = source or blank
        made = deployments.new_config({"name": self.properties["name"] or base.name}, self.stack.id)
        made.group, made.options, made.outputs = base.group, base.options, base.outputs
        made.inputs = deployments.inputs_of(base, given, self._told(action))
        made.config = self.with_inputs(base.config, made.inputs)
        return made

    def _told(self, action: str) -> dict[str, Json]:
        transport = self.properties["signal_transport"]
        return {
            "deploy_server_id": self.properties["server"],
            "deploy_action": action,
            "deploy_stack_id": f"{self.stack.name}/{self.stack.id}",
            "deploy_resource_name": self.name,
            "deploy_signal_transport": transport,
            "deploy_signal_verb": "PUT" if transport == "TEMP_URL_SIGNAL" else "POST",
        }

    def with_inputs(self, config: Json, inputs: list[dict[str, Json]]) -> Json:
        """Return the config as the tool is to get it: a script gets its inputs in another way."""
        return config

    # The handlers.

    def handle_create(self) -> str:
        """Carry the config out for CREATE."""
        return self._act("CREATE")

    def handle_update(
        self,
        json_snippet: Snippet,
        tmpl_diff: Mapping[str, Json],
        prop_diff: Mapping[str, Json],
    ) -> str:
        """Carry the config out for UPDATE, if anything changes that concerns it."""
        self.define(json_snippet.definition)
        return self._act("UPDATE") if prop_diff else ""

    def handle_suspend(self) -> str:
        """Carry the config out for SUSPEND."""
        return self._act("SUSPEND")

    def handle_resume(self) -> str:
        """Carry the config out for RESUME."""
        return self._act("RESUME")

    def handle_delete(self) -> str:
        """Carry the config out for DELETE."""
        try:
            return self._act("DELETE")
        except exception.NotFound:
            return ""

    def needs_replace_with_prop_diff(
        self, changed_properties_set: set[str], after_props: Properties, before_props: Properties
    ) -> bool:
        """Whether an input changes of which the config says that it takes another deployment."""
        if not changed_properties_set & {"input_values", "config"}:
            return False
        configs = self.stack.world.store.configs
        new, old = configs.get(after_props["config"] or ""), self._deployment and configs.get(self._deployment.config)
        before = {each["name"]: each["value"] for each in old.inputs} if old else before_props["input_values"] or {}
        after = after_props["input_values"] or {}
        for each in new.inputs if new else ():
            name = each["name"]
            if each.get("replace_on_change") and before.get(name) != after.get(name, each["default"]):
                return True
        return False

    def _act(self, action: str) -> str:
        """Have the server carry an action out, and return the deployment's id; nothing where there is nothing to do."""
        world, there = self.stack.world, self._deployment
        if there is not None and there.attempt == self.record.attempt:
            world.servers.deliver(there)  # an earlier process has told it so
            return there.id
        source = self._config(self.properties)
        if not self._is_for(action, source):
            return ""
        derived = self._derived(action, source)
        if there is None:
            server = self.properties["server"]
            there = DeploymentRecord(records.new_id(), self.stack.id, self.record.id, server, "", action, "", "")
            self.resource_id_set(there.id)
        there.action, there.attempt = action, self.record.attempt
        signal = self.properties["signal_transport"] != deployments.NO_SIGNAL
        deployments.deliver(world, there, derived, signal=signal)
        return there.id

    def awaits(self) -> Hashable | None:
        """Wait for the result."""
        return deployments.key(self.resource_id or "")

    def _is_complete(self, token: str) -> bool:
        found = self.stack.world.store.deployments.get(token)
        if not token or found is None or found.status == COMPLETE:
            return True
        if found.status == FAILED:
            raise exception.Error(f"Deployment to server failed: {found.reason}")
        return False

    check_create_complete = _is_complete
    check_update_complete = _is_complete
    check_suspend_complete = _is_complete
    check_resume_complete = _is_complete

    def check_delete_complete(self, token: str) -> bool:
        """Whether DELETE has been carried out; then there is no deployment any more."""
        if not self._is_complete(token):
            return False
        found = self._deployment
        if found is not None:
            deployments.remove(self.stack.world, found)
        return True

    def handle_signal(self, details: Json) -> None:
        """Take the result."""
        found = self._deployment
        if found is not None:
            deployments.take(self.stack.world, found, details)

    # What others see of it.

    def get_attribute(self, key: str, *path: Json) -> Json:
        """Return an output; None as long as there is none."""
        found = self._deployment
        if found is not None:
            config = self.stack.world.store.configs.get(found.config)
            declared = {each["name"] for each in config.outputs} if config else set()
            if key in found.outputs or key in declared or key in self.attributes:
                return select_from_attribute(found.outputs.get(key), path)
            raise exception.InvalidTemplateAttribute(resource=self.name, key=key)
        source = self._config(self.properties)
        if key in self.attributes or (source and key in {each["name"] for each in source.outputs}):
            return None
        raise exception.InvalidTemplateAttribute(resource=self.name, key=key)


class StructuredDeployment(SoftwareDeployment):
    """A structured config for a server, in which the inputs' values are put."""

    properties_schema: ClassVar[Mapping[str, Schema]] = {**SoftwareDeployment.properties_schema, **STRUCTURED}

    def with_inputs(self, config: Json, inputs: list[dict[str, Json]]) -> Json:
        """Return the config with the values in the place of `{get_input: NAME}`. Raises UserParameterMissing."""
        if not isinstance(config, dict):
            return config
        values = {each["name"]: each["value"] for each in inputs}
        strict = self.properties["input_values_validate"] == "STRICT"
        return _replaced(config, self.properties["input_key"], values, strict=strict)


def _replaced(tree: Any, key: str, values: Mapping[str, Json], *, strict: bool) -> Any:
    if isinstance(tree, dict):
        if len(tree) == 1 and isinstance(tree.get(key), str):
            name = tree[key]
            if strict and name not in values:
                raise exception.UserParameterMissing(key=name)
            return values.get(name)
        return {each: _replaced(value, key, values, strict=strict) for each, value in tree.items()}
    return [_replaced(each, key, values, strict=strict) for each in tree] if isinstance(tree, list) else tree
