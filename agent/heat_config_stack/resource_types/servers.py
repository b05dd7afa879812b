"""Resources with nothing behind them: servers, which are all this machine, and placeholders for cloud resources.

Resources whose class cannot be used are among them. The user data of a server has its scripts, and the parts that only
cloud-init understands.
"""

from __future__ import annotations

import base64
import functools
import re
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import ClassVar, NoReturn

from heat_config_agent.model.positions import Json
from heat_config_stack.definition import Tree
from heat_config_stack.lifecycle import deployments
from heat_config_stack.lifecycle.live import Stack
from heat_config_stack.records import exception, placing, records
from heat_config_stack.records.records import DeploymentRecord
from heat_config_stack.resource.attributes import Schema as Attribute
from heat_config_stack.resource.attributes import select_from_attribute
from heat_config_stack.resource.config_service import new_config
from heat_config_stack.resource.constraints import (
    AllowedValues,
    CustomConstraint,
    Length,
)
from heat_config_stack.resource.heat_types import (
    EXPIRATION,
    HeatType,
    canonical,
    former_type,
    heat_type,
)
from heat_config_stack.resource.properties import Properties, Schema, Wrong
from heat_config_stack.resource.resource import Resource
from heat_config_stack.resource.snippet import Snippet

_SCRIPT = "text/x-shellscript"
_KINDS = {
    "#cloud-config": "cloud-config",
    "#cloud-boothook": "a boothook",
    "#include": "a list of URLs",
    "#part-handler": "a part handler",
    "#upstart-job": "an upstart job",
    "#cloud-config-archive": "an archive of cloud-config",
    "## template: jinja": "a template",
    "MIME-Version:": "a MIME message",
}
"""The first words of user data → its kind, as cloud-init tells them apart."""
_TYPES = {
    "text/cloud-config": "cloud-config",
    "text/cloud-boothook": "a boothook",
    "text/x-include-url": "a list of URLs",
    "text/x-include-once-url": "a list of URLs",
    "text/part-handler": "a part handler",
    "text/jinja2": "a template",
}
"""The type of a part of a MIME message → its kind."""


@dataclass(frozen=True)
class UserData:
    """The parts of the user data of a server."""

    scripts: tuple[str, ...] = ()
    """The scripts, in their order."""
    others: tuple[str, ...] = ()
    """The kinds of the other parts, each once: `cloud-config`."""

    @property
    def config(self) -> str:
        """Return one script that runs all scripts, as cloud-init does, and fails if one of them has failed."""
        if len(self.scripts) == 1:
            return self.scripts[0]
        lines = [
            "#!/bin/sh",
            "folder=$(mktemp -d) && trap 'rm -rf \"$folder\"' EXIT || exit 1",
            "failed=0",
        ]
        for number, script in enumerate(self.scripts, start=1):
            name = f'"$folder/part-{number:03}"'
            text = base64.b64encode(script.encode()).decode()
            lines += [
                f"printf %s '{text}' | base64 -d > {name} && chmod 700 {name}",
                f"{name} || failed=$?",
            ]
        return "\n".join([*lines, "exit $failed", ""])


def read_user_data(text: str) -> UserData:
    """Return the content of user data, as cloud-init reads it."""
    beginning = text.lstrip()
    if not beginning:
        return UserData()
    if beginning.startswith("#!"):
        return UserData((beginning,))
    if beginning.lower().startswith(("content-type: multipart", "mime-version:")):
        return _message(beginning)
    kind = next(
        (what for word, what in reversed(_KINDS.items()) if beginning.startswith(word)),
        "",
    )
    return UserData(others=(kind or "a text of an unknown kind",))


def _message(text: str) -> UserData:
    import email  # noqa: PLC0415  # few templates have several parts

    scripts: list[str] = []
    others: dict[str, None] = {}
    for part in email.message_from_string(text).walk():
        if part.is_multipart():
            continue
        payload = part.get_payload(decode=True)
        content = (
            payload.decode("utf-8", "replace") if isinstance(payload, bytes) else ""
        )
        type_ = part.get_content_type()
        if type_ == _SCRIPT or (type_ not in _TYPES and content.startswith("#!")):
            scripts.append(content)
        elif type_ in _TYPES or not content.strip():
            others[_TYPES.get(type_, f"an empty part of type {type_}")] = None
        else:
            inner = read_user_data(content)
            scripts += inner.scripts
            others.update(dict.fromkeys(inner.others))
    return UserData(tuple(scripts), tuple(others))


class NothingBehind(Resource):
    """A resource that exists only in the template."""

    stack: Stack
    again_after_interruption: ClassVar[bool] = True

    def handle_create(self) -> None:
        """Create an id."""
        self.resource_id_set(records.new_id())

    def handle_update(
        self,
        json_snippet: Snippet,
        tmpl_diff: Mapping[str, Json],
        prop_diff: Mapping[str, Json],
    ) -> None:
        """Accept all changes."""


class Named(NothingBehind):
    """A resource that exists only in the template, and to which others refer by its name."""

    def get_reference_id(self) -> Json:
        """Return the name."""
        return self.name if self.resource_id is None else self.physical_resource_name()


class DeployedServer(NothingBehind):
    """A server that exists already: this machine."""

    deletes_with_snapshot: ClassVar[bool] = True
    properties_schema: ClassVar[Mapping[str, Schema]] = {
        "name": Schema(Schema.STRING, "Name of the server.", update_allowed=True),
        "metadata": Schema(Schema.MAP, "Metadata of the server.", update_allowed=True),
        "software_config_transport": Schema(
            Schema.STRING,
            "How the server receives its deployments; not used on this machine.",
            default="POLL_SERVER_CFN",
            update_allowed=True,
            constraints=[
                AllowedValues(
                    [
                        "POLL_SERVER_CFN",
                        "POLL_SERVER_HEAT",
                        "POLL_TEMP_URL",
                        "ZAQAR_MESSAGE",
                    ]
                )
            ],
        ),
        "deployment_swift_data": Schema(
            Schema.MAP,
            "Where deployments are stored in Swift; not used on this machine.",
            default={},
            update_allowed=True,
            schema={
                "container": Schema(Schema.STRING, constraints=[Length(min=1)]),
                "object": Schema(Schema.STRING, constraints=[Length(min=1)]),
            },
        ),
    }
    attributes_schema: ClassVar[Mapping[str, Attribute]] = {
        "name": Attribute("Name of the server.", type=Attribute.STRING),
        "os_collect_config": Attribute("Settings of the agent.", type=Attribute.MAP),
    }

    def metadata_get(self, refresh: bool = False) -> dict[str, Json]:
        """Return the metadata with the deployments."""
        metadata = super().metadata_get(refresh)
        return {
            **metadata,
            "deployments": deployments.entries(
                self.stack.world, self.resource_id or ""
            ),
        }

    def _resolve_attribute(self, name: str) -> Json:
        if name == "name":
            return self.properties["name"] or self.physical_resource_name()
        return {}


class Placeholder(NothingBehind):
    """A cloud resource: its properties are checked, nothing is created, and its attributes are given by the user."""

    is_placeholder: ClassVar[bool] = True
    facts: ClassVar[HeatType]

    def schema_of_properties(self) -> Mapping[str, Schema]:
        """Return the schemas; of a type whose service is gone, one for each property in the template."""
        if self.any_property:
            return {
                name: Schema(Schema.ANY, update_allowed=True)
                for name in self.definition.properties
            }
        return self.properties_schema

    def mistakes(self) -> list[Wrong]:
        """Return all mistakes, including those of properties in an older form."""
        conflicts = self.facts.conflicts(self.definition.properties)
        both = "Cannot define the following properties at the same time"
        return [
            *(
                Wrong(f"{both}: {names}", ("properties", *path))
                for path, names in conflicts
            ),
            *super().mistakes(),
        ]

    def properties_of(self, resolve: Callable[[Tree], Tree]) -> Properties:
        """Return the properties, with older names translated, resolved by a function."""
        wanted = self.definition
        return Properties(
            self.properties.schema,
            self.facts.translated(wanted.properties),
            resolve,
            omitted=wanted.omitted,
        )

    def validate(self) -> None:
        """Refuse a time that is over when a stack is created, as Heat does."""
        for name in self.facts.expiring if self.stack.world.creating else ():
            value = self.known()[name] if name in self.definition.properties else None
            if isinstance(value, str) and (
                problem := CustomConstraint(EXPIRATION).violated(value, "string")
            ):
                raise exception.StackValidationFailed(
                    path=["properties", name], message=problem
                )

    def has_attribute(self, name: str) -> bool:
        """Return whether Heat's type has the attribute, or a value was given for it."""
        return super().has_attribute(name) or any(
            name in given for given in self._given()
        )

    def _given(self) -> tuple[Mapping[str, Json], ...]:
        """Return the attributes that were given for the resource, by its path and by its type."""
        attributes = self.stack.environment.attributes
        return attributes("/".join((*self.stack.path, self.name))), attributes(
            self.type()
        )

    def get_attribute(self, key: str, *path: Json) -> Json:
        """Return the value given for a resource by path or type; for a server, its name and this machine's address."""
        for attributes in (*self._given(), self._own()):
            if key in attributes:
                return select_from_attribute(attributes[key], path)
        if not self.has_attribute(key):
            raise exception.InvalidTemplateAttribute(resource=self.name, key=key)
        return None

    def _own(self) -> dict[str, Json]:
        name = self.properties.get("name")
        own: dict[str, Json] = {"name": name or self.physical_resource_name()}
        path = "/".join((*self.stack.path, self.name))
        address = placing.address_of(self.stack.world.store, path)
        if canonical(self.record.type) == "AWS::EC2::Instance":
            own |= dict.fromkeys(("PublicIp", "PrivateIp"), address)
        if self.record.type.endswith("::Server"):
            own |= {
                "first_address": address,
                "accessIPv4": address,
                "instance_name": own["name"],
            }
            if address != placing.HERE:
                own["networks"] = {"host": [address]}
        return own


class CloudServer(Placeholder):
    """A server of a cloud, for which this machine stands in. Its user data is carried out where people ask for that."""

    PROPERTIES: ClassVar[tuple[str, ...]] = ("user_data", "UserData")

    def user_data(self) -> UserData:
        """Return the user data: a text, or that of the config that it names."""
        properties = self.properties
        name = next(name for name in self.PROPERTIES if name in properties.schema)
        value = properties[name]
        config = (
            self.stack.world.store.configs.get(value)
            if isinstance(value, str)
            else None
        )
        content = config.config if config is not None else value
        return read_user_data(content) if isinstance(content, str) else UserData()

    def handle_create(self) -> str:  # type: ignore[override]  # the handlers of other servers have nothing to wait for
        """Create an id, and deliver the scripts of the user data if people ask for that."""
        if self._deployment is None:
            super().handle_create()
        return self._deliver_scripts()

    def always_update(self) -> bool:
        """Return whether people ask for scripts that have not been carried out."""
        world = self.stack.world
        asked = world.user_data and world.is_here(self.resource_id or "")
        return asked and self._deployment is None and bool(self.user_data().scripts)

    def handle_update(  # type: ignore[override]
        self,
        json_snippet: Snippet,
        tmpl_diff: Mapping[str, Json],
        prop_diff: Mapping[str, Json],
    ) -> str:
        """Accept all changes, and carry out the scripts that have not been carried out yet."""
        self.define(json_snippet.definition)
        return self._deliver_scripts()

    def _deliver_scripts(self) -> str:
        """Deliver the scripts once, and return the id of their deployment; empty if nothing is to be run."""
        world, deployment = self.stack.world, self._deployment
        if deployment is not None:
            if deployment.status == records.IN_PROGRESS:
                world.servers.deliver(deployment)  # an earlier process delivered it
            return deployment.id
        asked = world.user_data and world.is_here(self.resource_id or "")
        scripts = self.user_data() if asked else UserData()
        if not scripts.scripts:
            return ""
        content = {
            "name": self.physical_resource_name(),
            "group": "script",
            "config": scripts.config,
        }
        derived = new_config(content, self.stack.id)
        derived.inputs = deployments.inputs_of(derived, {}, self._told())
        derived.secrets = world.conceal.within(derived.entry())
        server = self.resource_id or ""
        deployment = DeploymentRecord(
            records.new_id(),
            self.stack.id,
            self.record.id,
            server,
            "",
            "CREATE",
            "",
            "",
        )
        deployment.attempt = self.record.attempt
        deployment.host = placing.host_of(world.store, server)
        self.data_set(_USER_DATA, deployment.id)
        deployments.deliver(world, deployment, derived, signal=True)
        return deployment.id

    @property
    def ran_user_data(self) -> bool:
        """True if the scripts of the user data were carried out."""
        return self._deployment is not None

    @property
    def changed_user_data(self) -> bool:
        """True if the scripts of the user data differ from those that were carried out."""
        deployment = self._deployment
        config = (
            self.stack.world.store.configs.get(deployment.config)
            if deployment is not None
            else None
        )
        return config is not None and config.config != self.user_data().config

    def _told(self) -> dict[str, Json]:
        return {
            "deploy_server_id": self.resource_id,
            "deploy_action": "CREATE",
            "deploy_stack_id": f"{self.stack.name}/{self.stack.id}",
            "deploy_resource_name": self.name,
            "deploy_signal_transport": "CFN_SIGNAL",
            "deploy_signal_verb": "POST",
        }

    @property
    def _deployment(self) -> DeploymentRecord | None:
        return self.stack.world.store.deployments.get(
            str(self.data().get(_USER_DATA, ""))
        )

    def awaits(self) -> Hashable | None:
        """Wait for the result of the scripts."""
        return deployments.key(str(self.data().get(_USER_DATA, "")))

    def _is_complete(self, token: str) -> bool:
        """Return whether the scripts have ended. Raises Error if one has failed."""
        deployment = self.stack.world.store.deployments.get(token)
        if not token or deployment is None or deployment.status == records.COMPLETE:
            return True
        if deployment.status == records.FAILED:
            raise exception.Error(f"the user data failed: {deployment.reason}")
        return False

    check_create_complete = _is_complete
    check_update_complete = _is_complete

    def handle_delete(self) -> None:
        """Forget the scripts: user data cannot be undone."""
        if self._deployment is not None:
            deployments.remove(self.stack.world, self._deployment)


_MACHINES = ("::Server", "::Instance")
"""The endings of the types of servers."""

_USER_DATA = "user_data"
"""The data of a server with the id of the deployment of its user data."""


@functools.cache
def placeholder(type_: str) -> type[Placeholder] | None:
    """Return the class for a type of Heat that needs a cloud; None if Heat has no such type."""
    facts = heat_type(type_)
    return _class_of(facts) if facts else None


@functools.cache
def former_placeholder(type_: str) -> type[Placeholder] | None:
    """Return the class for a cloud type that Heat does not have, but that an existing stack may contain; else None."""
    return _class_of(former_type(type_)) if _FORMER.fullmatch(type_) else None


_FORMER = re.compile(
    r"(OS::(?!Heat::)[A-Za-z]+|AWS|Rackspace|Docker|DockerInc|Microsoft|Senlin)::\w+(::\w+)*"
)
"""The types that were accepted as placeholders before the list of Heat's types existed."""


def _class_of(facts: HeatType) -> type[Placeholder]:
    members = {
        "facts": facts,
        "properties_schema": facts.properties,
        "attributes_schema": facts.attributes,
        "update_policy_schema": facts.update_policy,
        "support_status": facts.status,
        "any_property": facts.is_nothing,
        "any_attribute": facts.is_nothing or facts.open_attributes,
        "deletes_with_snapshot": facts.snapshot,
    }
    is_server = not facts.properties.keys().isdisjoint(
        CloudServer.PROPERTIES
    ) and facts.name.endswith(_MACHINES)
    return type("Placeholder", (CloudServer if is_server else Placeholder,), members)


class Unusable(Resource):
    """A resource whose class cannot be used, because its plug-in is missing or fails.

    It can be shown, abandoned or forgotten, and nothing else.
    """

    any_property: ClassVar[bool] = True
    any_attribute: ClassVar[bool] = True

    def get_attribute(self, key: str, *path: Json) -> Json:
        """Refuse: only the class knows the attributes. Raises `Error`."""
        raise exception.Error(
            f"the attribute {key} of {self.name} is not known without the plug-in of {self.type()}"
        )

    def handle_delete(self) -> NoReturn:
        """Refuse: only the class knows how. Raises `Error`."""
        raise exception.Error(
            f"{self.name} cannot be deleted without the plug-in of {self.type()}"
        )
