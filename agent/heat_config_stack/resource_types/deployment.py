"""Deployment resources: a config for a server, carried out for some lifecycle actions."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from heat_config_agent.model.positions import Json
from heat_config_agent.model.states import Shown
from heat_config_stack.lifecycle import deployments
from heat_config_stack.lifecycle.live import Stack
from heat_config_stack.records import exception, placing, records
from heat_config_stack.records.records import (
    AGAIN,
    COMPLETE,
    DRIFTED,
    FAILED,
    ConfigRecord,
    DeploymentRecord,
)
from heat_config_stack.resource.attributes import Schema as Attribute
from heat_config_stack.resource.attributes import select_from_attribute
from heat_config_stack.resource.config_service import new_config
from heat_config_stack.resource.constraints import AllowedValues
from heat_config_stack.resource.properties import Properties, Schema
from heat_config_stack.resource.resource import Resource
from heat_config_stack.resource.snippet import Snippet

if TYPE_CHECKING:
    from heat_config_agent.verification.machine import Finding

ACTIONS = ("CREATE", "UPDATE", "DELETE", "SUSPEND", "RESUME")
TRANSPORTS = (
    "CFN_SIGNAL",
    "TEMP_URL_SIGNAL",
    "HEAT_SIGNAL",
    "NO_SIGNAL",
    "ZAQAR_SIGNAL",
)

SHARED: dict[str, Schema] = {
    "config": Schema(Schema.STRING, "Id of the config.", update_allowed=True),
    "input_values": Schema(
        Schema.MAP, "Values of the config's inputs.", update_allowed=True
    ),
    "actions": Schema(
        Schema.LIST,
        "The lifecycle actions that run it.",
        update_allowed=True,
        default=["CREATE", "UPDATE"],
        constraints=[AllowedValues(ACTIONS)],
    ),
    "name": Schema(Schema.STRING, "Name of the derived config.", update_allowed=True),
    "signal_transport": Schema(
        Schema.STRING,
        "How the server sends the result.",
        default="CFN_SIGNAL",
        constraints=[AllowedValues(TRANSPORTS)],
    ),
}
"""The properties that deployments and deployment groups share."""

LAST = "heat-config-agent"
"""The key of the stored values of an abandoned deployment that has its last result."""

_LEFT = "left_out"
"""The key of the stored value with the action that was left to another server."""
_EARLIER = "not carried out: it is for the server"

_SEEN = frozenset({Shown.OK, Shown.DRIFTED, Shown.FAILED})
"""The states of a deployment about which a check says something."""

STRUCTURED: dict[str, Schema] = {
    "input_key": Schema(
        Schema.STRING, "The key of a map that is an input's value.", default="get_input"
    ),
    "input_values_validate": Schema(
        Schema.STRING,
        "Whether every input that the config names must be given.",
        default="LAX",
        constraints=[AllowedValues(["LAX", "STRICT"])],
    ),
}


class SoftwareDeployment(Resource):
    """A config for a server."""

    EMPTY: ClassVar[Json] = ""
    """The config for the tool if there is none."""
    stack: Stack
    no_signal_actions: ClassVar[tuple[str, ...]] = ()
    again_after_interruption: ClassVar[bool] = True
    may_run: ClassVar[bool] = True
    is_verified: ClassVar[bool] = True
    any_attribute: ClassVar[bool] = True
    properties_schema: ClassVar[Mapping[str, Schema]] = {
        **SHARED,
        "server": Schema(Schema.STRING, "Id of the server.", required=True),
    }
    attributes_schema: ClassVar[Mapping[str, Attribute]] = {
        "deploy_stdout": Attribute("Standard output.", type=Attribute.STRING),
        "deploy_stderr": Attribute("Standard error.", type=Attribute.STRING),
        "deploy_status_code": Attribute("Exit code.", type=Attribute.STRING),
    }

    # Deployments for other servers than this machine.

    def left_out(self) -> str:
        """Return for which server it is, if CREATE or the last UPDATE was left to it; empty if it was carried out."""
        if not self._left:
            return ""
        server, world = self.properties["server"], self.stack.world
        names = (
            each.name
            for each in world.store.resources_of(world.root)
            if each.physical == server
        )
        return f"{records.LEFT_OUT}: it is for the server {next(names, server)}"

    @property
    def _left(self) -> str:
        """The action that was left to another server and is still to be carried out, CREATE or UPDATE; else empty."""
        found = self._deployment
        printed = (
            str(found.outputs.get("deploy_stderr") or "") if found is not None else ""
        )
        # as earlier versions have recorded it
        earlier = "CREATE" if printed.startswith(_EARLIER) else ""
        return str(self.record.data.get(_LEFT) or earlier)

    def _leave(self, action: str) -> None:
        """Leave an action to another server."""
        if action in ("CREATE", "UPDATE") and not self._left:
            self.record.data[_LEFT] = action

    def always_update(self) -> bool:
        """Return whether it was left out, and is for this machine now."""
        return bool(self._left) and self.stack.world.is_here(self.properties["server"])

    # The derived config.

    @property
    def _deployment(self) -> DeploymentRecord | None:
        return self.stack.world.store.deployments.get(self.resource_id or "")

    def _config(self, properties: Properties) -> ConfigRecord | None:
        """Return the config; None if none is named. Raises NotFound."""
        named = properties["config"]
        if not named:
            return None
        found = self.stack.world.store.configs.get(named)
        if found is None:
            raise exception.NotFound(f"Software config with id {named} not found")
        return found

    def _is_for(self, action: str, config: ConfigRecord | None) -> bool:
        """Return whether an action is carried out: by the property `actions`, or for a component by its configs."""
        if config is not None and config.group == "component":
            return any(action in each["actions"] for each in config.config["configs"])
        return action in self.properties["actions"]

    def _derived(self, action: str, source: ConfigRecord | None) -> ConfigRecord:
        input_values = self.properties["input_values"] or {}
        blank = ConfigRecord(
            "", self.physical_resource_name(), "Heat::Ungrouped", "", {}, [], [], ""
        )
        base = source or blank
        name = self.properties["name"] or base.name or self.physical_resource_name()
        derived = new_config({"name": name}, self.stack.id)
        derived.group, derived.options, derived.outputs = (
            base.group,
            base.options,
            base.outputs,
        )
        derived.inputs = deployments.inputs_of(base, input_values, self._told(action))
        derived.config = self.with_inputs(base.config, derived.inputs) or self.EMPTY
        derived.secrets = self.stack.world.conceal.within(derived.entry())
        return derived

    def foreseen(self, action: str) -> ConfigRecord | None:
        """Return the config that an action carries out, with known values; None if there is none. Raises NotFound."""
        source = self._config(self.properties)
        return self._derived(action, source) if self._is_for(action, source) else None

    def runs(self, action: str) -> bool:
        """Return whether an action runs anything, as far as the config is known; a check only verifies."""
        if action == records.CHECK:
            return False
        try:
            return self._is_for(action, self._config(self.properties))
        except exception.NotFound:
            return action in self.properties["actions"]

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
        """Return the config for the tool; scripts receive their inputs in another way."""
        return config

    # The handlers.

    def handle_create(self) -> str:
        """Carry out the config for CREATE."""
        return self._act("CREATE")

    def abandoned(self) -> dict[str, Json]:
        """Return the state of the resource, with its last result."""
        deployment = self._deployment
        config = deployment and self.stack.world.store.configs.get(deployment.config)
        state = super().abandoned()
        if deployment is None or config is None:
            return state
        last = {
            "deployment": records.to_json(deployment),
            "config": records.to_json(config),
        }
        return {**state, "resource_data": {**state["resource_data"], LAST: last}}

    def handle_adopt(self, resource_data: Mapping[str, Json] | None = None) -> None:
        """Take over the deployment with its last result, if it was abandoned here; nothing is run."""
        super().handle_adopt(resource_data)
        last = self.data().get(LAST)
        self.data_delete(LAST)
        if not isinstance(last, Mapping):
            return
        try:
            deployment = records.from_json(DeploymentRecord.KIND, last["deployment"])
            config = records.from_json(ConfigRecord.KIND, last["config"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise exception.Error(
                f"the last result in the adopted data cannot be read: {error!r}"
            ) from error
        if not isinstance(deployment, DeploymentRecord) or not isinstance(
            config, ConfigRecord
        ):
            return
        config.id, config.stack = records.new_id(), self.stack.id
        deployment.id, deployment.config = str(self.resource_id), config.id
        deployment.stack, deployment.resource, deployment.attempt = (
            self.stack.id,
            self.record.id,
            "",
        )
        if deployment.status == records.IN_PROGRESS:
            deployment.status, deployment.reason = (
                FAILED,
                "it was abandoned while it ran",
            )
        self.stack.world.store.put(config)
        self.stack.world.store.put(deployment)

    def handle_update(
        self,
        json_snippet: Snippet,
        tmpl_diff: Mapping[str, Json],
        prop_diff: Mapping[str, Json],
    ) -> str:
        """Carry out the config for UPDATE, or for CREATE if that has failed, also if only the metadata changes."""
        self.define(json_snippet.definition)
        found, action = self._deployment, self.record.action
        wanted = self.record.data.keys() & {DRIFTED, AGAIN}
        if wanted and found and not self.runs(action):
            action = (
                found.action
            )  # a CREATE or a RESUME, which is all that it carries out
        return self._act(action)

    def handle_suspend(self) -> str:
        """Carry out the config for SUSPEND."""
        return self._act("SUSPEND")

    def handle_resume(self) -> str:
        """Carry out the config for RESUME."""
        return self._act("RESUME")

    # The check: Heat has none for deployments. Here the machine is verified.

    def unchecked(self) -> str:
        """Return why the machine cannot be verified; empty if it can, and if the check before has failed."""
        if self._left:
            return self.left_out()
        finding = self._finding()
        if finding is not None and (
            finding.state in _SEEN or self.record.data.get(DRIFTED)
        ):
            return ""
        why = "" if finding is None else finding.reason
        told = f"; {records.NOT_VERIFIED}: {why}" if why else ""
        if self.unreached():
            return f"nothing was checked{told}"
        return f"CHECK not supported for {self.type()}{told}"

    def unreached(self) -> str:
        """Return why the host has said nothing about it: it has not been reached, or keeps nothing of it."""
        finding = self._finding()
        if finding is None or finding.has_answer:
            return ""
        return f"{records.NOT_VERIFIED}: {finding.reason}"

    def _finding(self) -> Finding | None:
        """Return the finding of a verification about the last action; None if nothing of it was carried out here."""
        verified, found = self.stack.world.verified, self._deployment
        return verified(found) if verified is not None and found is not None else None

    def handle_check(self) -> None:
        """Raise Error if the machine is not as the deployment says, or if it was not, and is unknown now."""
        finding = self._finding()
        if finding is None or finding.state is Shown.OK:
            self.record.data.pop(DRIFTED, None)
            return
        self.record.data[DRIFTED] = str(finding.state)
        words = "" if finding.state in _SEEN else f"{records.NOT_VERIFIED}: "
        raise exception.Error(f"{words}{finding.reason}")

    def is_out_of_effect(self) -> bool:
        """Return whether the last check has failed, and no person has asked for a run since."""
        state = (self.action, self.status)
        return state == (records.CHECK, FAILED) and self.record.reason != records.ASKED

    def handle_delete(self) -> str:
        """Carry out the config for DELETE."""
        try:
            return self._act("DELETE")
        except exception.NotFound:
            return ""

    def needs_replace_failed(self) -> bool:
        """Return False: on a machine, a failed deployment runs its action again in place."""
        return False

    def needs_replace(self, after_props: Properties) -> bool:
        """Return whether its server is another host now, where it has to be made; it is deleted where it was."""
        deployment, store = self._deployment, self.stack.world.store
        if deployment is None or not self.has_run():
            return False
        host = placing.host_of(store, deployment.server)
        return placing.place(host) != placing.place(deployment.host)

    def has_run(self) -> bool:
        """Return whether anything has been delivered to this machine."""
        return self.resource_id is not None and self._left != "CREATE"

    def sleeps(self) -> bool:
        """Return whether SUSPEND has been carried out, or has begun, and RESUME has not succeeded since."""
        resumes = self.action == records.RESUME and self.status != COMPLETE
        return self.has_run() and (self.action == records.SUSPEND or resumes)

    def action_of_update(self) -> str:
        """Return CREATE until that has succeeded, and after DELETE has begun; else UPDATE."""
        record = self.record
        begun = record.action == records.CREATE or (
            record.action == records.ADOPT and record.physical is None
        )
        never = record.action in (records.INIT, records.DELETE) or (
            begun and record.status != COMPLETE
        )
        never = never or self._left == records.CREATE
        # as the one that replaces it in Heat
        has_drifted = DRIFTED in record.data and self.runs(records.CREATE)
        return records.CREATE if never or has_drifted else records.UPDATE

    def needs_replace_with_prop_diff(
        self,
        changed_properties_set: set[str],
        after_props: Properties,
        before_props: Properties,
    ) -> bool:
        """Return whether an input with `replace_on_change` changes that the last delivery had."""
        configs = self.stack.world.store.configs
        new, old = (
            configs.get(after_props["config"] or ""),
            self._deployment and configs.get(self._deployment.config),
        )
        before = {item["name"]: item["value"] for item in old.inputs} if old else {}
        after = after_props["input_values"] or {}
        return any(
            item.get("replace_on_change")
            and item["name"] in before
            and before[item["name"]] != after.get(item["name"], item["default"])
            for item in (new.inputs if new else ())
        )

    def _act(self, action: str) -> str:
        """Deliver an action to the server, and return the deployment's id; empty if there is nothing to do."""
        world, deployment = self.stack.world, self._deployment
        if deployment is not None and deployment.attempt == self.record.attempt:
            world.servers.deliver(deployment)  # an earlier process delivered it
            return deployment.id
        if self._left == "CREATE" and action not in ("CREATE", "UPDATE"):
            return ""  # nothing has been made here
        source = self._config(self.properties)
        if not self._is_for(action, source):
            return ""
        if not world.is_here(self.properties["server"]):
            self._leave(action)
            return ""
        derived = self._derived(action, source)
        server = self.properties["server"]
        if deployment is not None and self._is_under_way(deployment, action, derived):
            deployment.attempt = self.record.attempt
            world.store.put(deployment)
            world.servers.deliver(deployment)
            return deployment.id
        if deployment is None:
            if not server:
                raise ValueError("server_id must be specified")
            deployment = DeploymentRecord(
                records.new_id(),
                self.stack.id,
                self.record.id,
                server,
                "",
                action,
                "",
                "",
            )
            self.resource_id_set(deployment.id)
        self.record.data.pop(_LEFT, None)
        self.record.data.pop(DRIFTED, None)
        self.record.data.pop(AGAIN, None)
        # a creation that was interrupted may go on with another one
        deployment.server = server or deployment.server
        deployment.action, deployment.attempt = action, self.record.attempt
        if action != "DELETE":  # what was made is deleted where it is
            deployment.host = placing.host_of(world.store, deployment.server)
        # The script for DELETE has ended before the deployment is removed, although its result does not count.
        signal = self._counts or action == "DELETE"
        deployments.deliver(world, deployment, derived, signal=signal)
        return deployment.id

    def _is_under_way(
        self, deployment: DeploymentRecord, action: str, derived: ConfigRecord
    ) -> bool:
        """Return whether an interrupted action was delivered with the same content, so that its run counts."""
        former = self.stack.world.store.configs.get(deployment.config)
        same = (deployment.action, deployment.server) == (
            action,
            self.properties["server"],
        )
        running = (
            same
            and deployment.status == records.IN_PROGRESS
            and action in (records.CREATE, records.UPDATE)
        )
        return (
            running
            and former is not None
            and self._content(former) == self._content(derived)
        )

    def _content(self, config: ConfigRecord) -> object:
        """Return the parts of a derived config that make a run another one."""
        return (
            config.group,
            config.config,
            config.options,
            config.inputs,
            config.outputs,
        )

    @property
    def _counts(self) -> bool:
        """True if the stack waits for results."""
        return bool(self.properties["signal_transport"] != deployments.NO_SIGNAL)

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
        """Delete the deployment once DELETE has been carried out, and return whether it has."""
        found = self._deployment
        ended = found is None or found.status != records.IN_PROGRESS
        if not (self._is_complete(token) if self._counts else ended):
            return False
        if found is not None:
            deployments.remove(self.stack.world, found)
        return True

    def handle_signal(self, details: Json) -> None:
        """Accept the result. Raises ValueError if nothing has been delivered, or if it is a number or a boolean."""
        if isinstance(details, int | float) and details:
            raise ValueError("a result is a map of outputs")
        found = self._deployment
        if found is None:
            raise ValueError(
                "nothing has been delivered to its server yet, so there is no result to report"
            )
        deployments.take(self.stack.world, found, details)

    # Attributes.

    def get_attribute(self, key: str, *path: Json) -> Json:
        """Return an output; None if it has no value yet."""
        found = self._deployment
        if self._left and key == "deploy_stderr":
            return f"{_EARLIER} {self.properties['server']}"
        if found is not None and key in found.outputs:
            return select_from_attribute(found.outputs[key], path)
        source = self._config(self.properties)
        if source is not None and (
            key in self.attributes or key in {each["name"] for each in source.outputs}
        ):
            return None
        raise exception.InvalidTemplateAttribute(resource=self.name, key=key)


class StructuredDeployment(SoftwareDeployment):
    """A structured config for a server, with the values of its inputs inserted."""

    EMPTY: ClassVar[Json] = {}
    properties_schema: ClassVar[Mapping[str, Schema]] = {
        **SoftwareDeployment.properties_schema,
        **STRUCTURED,
    }

    def with_inputs(self, config: Json, inputs: list[dict[str, Json]]) -> Json:
        """Return the config with values in place of `{get_input: NAME}`. Raises UserParameterMissing."""
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
        return {
            each: _replaced(value, key, values, strict=strict)
            for each, value in tree.items()
        }
    return (
        [_replaced(each, key, values, strict=strict) for each in tree]
        if isinstance(tree, list)
        else tree
    )
