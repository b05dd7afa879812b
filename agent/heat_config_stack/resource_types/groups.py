"""Groups: resources whose child stack has many members of one kind."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

from heat_config_agent.model.positions import Json
from heat_config_stack.definition import Later, ResourceDefinition, limits
from heat_config_stack.lifecycle.live import Stack
from heat_config_stack.records import exception
from heat_config_stack.records.records import CREATE, UPDATE, ResourceRecord
from heat_config_stack.resource import attributes
from heat_config_stack.resource.attributes import Schema as Attribute
from heat_config_stack.resource.constraints import AllowedValues, Length, Range
from heat_config_stack.resource.properties import Properties, Schema
from heat_config_stack.resource.resource import Resource
from heat_config_stack.resource_types.deployment import SHARED, STRUCTURED
from heat_config_stack.resource_types.members import Group
from heat_config_stack.resource_types.nested import MEMBER

_BATCH = {
    "max_batch_size": Schema(
        Schema.INTEGER, "Members per batch.", default=1, constraints=[Range(1)]
    ),
    "pause_time": Schema(
        Schema.NUMBER, "Seconds between two batches.", default=0, constraints=[Range(0)]
    ),
}
_IN_SERVICE = Schema(
    Schema.INTEGER, "Members that stay in service.", default=0, constraints=[Range(0)]
)
_BATCHES: dict[str, Schema] = {
    "rolling_update": Schema(Schema.MAP, "How members are updated.", schema=_BATCH),
    "batch_create": Schema(Schema.MAP, "How members are created.", schema=_BATCH),
}
_POLICY: dict[str, Schema] = {
    **_BATCHES,
    "rolling_update": Schema(
        Schema.MAP,
        "How members are updated.",
        schema={"min_in_service": _IN_SERVICE, **_BATCH},
    ),
}


class ResourceGroup(Group):
    """Several resources with the same definition."""

    properties_schema: ClassVar[Mapping[str, Schema]] = {
        "count": Schema(
            Schema.INTEGER,
            "Number of members.",
            default=1,
            update_allowed=True,
            constraints=[Range(0)],
        ),
        "index_var": Schema(
            Schema.STRING,
            "Text in properties that stands for the number of the member.",
            default="%index%",
            constraints=[Length(min=3)],
        ),
        "resource_def": Schema(
            Schema.MAP,
            "Definition of a member.",
            required=True,
            update_allowed=True,
            schema={
                "type": Schema(Schema.STRING, "The type.", required=True),
                "properties": Schema(Schema.MAP, "The properties."),
                "metadata": Schema(Schema.MAP, "The metadata."),
            },
        ),
        "removal_policies": Schema(
            Schema.LIST,
            "Members to remove first.",
            default=[],
            update_allowed=True,
            schema=Schema(
                Schema.MAP,
                schema={
                    "resource_list": Schema(
                        Schema.LIST, "Names or references of members.", default=[]
                    )
                },
            ),
        ),
        "removal_policies_mode": Schema(
            Schema.STRING,
            "Whether the names are added to earlier ones, or replace them.",
            default="append",
            update_allowed=True,
            constraints=[AllowedValues(["append", "update"])],
        ),
    }
    attributes_schema: ClassVar[Mapping[str, Attribute]] = {
        "refs": Attribute("The references of all members.", type=Attribute.LIST),
        "refs_map": Attribute(
            "The references of all members by name.", type=Attribute.MAP
        ),
        "attributes": Attribute(
            "An attribute of all members by name.", type=Attribute.MAP
        ),
        "removed_rsrc_list": Attribute(
            "The names that were removed.", type=Attribute.LIST
        ),
    }
    update_policy_schema: ClassVar[Mapping[str, Schema]] = _POLICY

    def handle_create(self) -> str:
        """Create the members, without the names to be removed."""
        self._remove_names()
        return super().handle_create()

    def prepare(self, action: str, child: Stack) -> None:
        """Record the names that are not to be used, and store the batches."""
        if action != CREATE:
            self._remove_names()
        super().prepare(action, child)

    def is_rolled(self) -> bool:
        """Return whether an update changes the members, and not only their number."""
        return "resource_def" in self.changes

    def temporary(self, former: Resource) -> list[str]:
        """Return the names of the members that an update of a group to this one has only while it goes on."""
        child = former.child
        if not isinstance(former, ResourceGroup) or not isinstance(child, Stack):
            return []
        same = former.properties["resource_def"] == self.properties["resource_def"]
        self.changes = () if same else ("resource_def",)
        rules = self.rules_here(UPDATE, has_run=former.has_run())
        there = {
            *self._records(child),
            *(each.name for each in self.members(self.properties)),
        }
        batches = self.batches(child, rules) if rules else []
        return [name for each in batches for name in each.made if name not in there]

    def names(self, number: int) -> list[str]:
        """Return the names of a number of members."""
        return list(itertools.islice(self._free_names(), number))

    def _free_names(self) -> Iterator[str]:
        removed = set(self.data().get("removed", ()))
        return (
            str(number) for number in itertools.count() if str(number) not in removed
        )

    def _records(self, child: Stack) -> dict[str, ResourceRecord]:
        removed = set(self.data().get("removed", ()))
        return {
            name: each
            for name, each in super()._records(child).items()
            if name not in removed
        }

    def _remove_names(self) -> None:
        """Record the names that are not to be used."""
        self.data_set("removed", self._removed(self.properties))

    def take_data(self, former: Resource) -> None:
        """Take the names that are not to be used after an update, too."""
        super().take_data(former)
        if isinstance(former, ResourceGroup):
            self.record.data["removed"] = former._removed(self.properties)  # noqa: SLF001  # the same class

    def _removed(self, properties: Properties) -> list[str]:
        """Return the names that are not to be used with some properties."""
        names = [
            str(name)
            for policy in properties["removal_policies"]
            for name in policy["resource_list"]
        ]
        former = self.data().get("removed", [])
        if self.child is not None:
            members = self._members()
            # The first of several with the same id.
            refs = {
                str(member.FnGetRefId()): name
                for name, member in reversed(members.items())
            }
            known = (
                name if name in members or name in former else refs.get(name)
                for name in names
            )
            names = [name for name in known if name is not None]
        kept = former if properties["removal_policies_mode"] == "append" else []
        return sorted({*kept, *names})

    def members_like_the_first(self) -> int:
        """Return the number of members."""
        count = self.known()["count"]
        return 1 if isinstance(count, Later) else int(count)

    def members(self, properties: Properties) -> Iterator[ResourceDefinition]:
        """Yield the members, or one more than a stack may have."""
        count = properties["count"]
        many = 1 if isinstance(count, Later) else min(count, limits.MOST_RESOURCES + 1)
        return self.named(properties, itertools.islice(self._free_names(), many))

    def named(
        self, properties: Properties, names: Iterable[str]
    ) -> Iterator[ResourceDefinition]:
        """Yield members with given names."""
        member, variable = properties["resource_def"], properties["index_var"]
        if (
            isinstance(member, Later)
            or isinstance(member["type"], Later)
            or isinstance(variable, Later)
        ):
            return
        for name in names:
            given = _indexed(member["properties"] or {}, variable, name)
            yield ResourceDefinition(
                name=name,
                type=member["type"],
                properties={
                    key: each for key, each in given.items() if each is not None
                },
                metadata=member["metadata"] or {},
            )


def _indexed(tree: Any, variable: str, index: str) -> Any:
    if isinstance(tree, str):
        return tree.replace(variable, index)
    if isinstance(tree, dict):
        return {key: _indexed(value, variable, index) for key, value in tree.items()}
    return (
        [_indexed(each, variable, index) for each in tree]
        if isinstance(tree, list)
        else tree
    )


class ResourceChain(Group):
    """Resources of several types with the same properties, one after the other."""

    properties_schema: ClassVar[Mapping[str, Schema]] = {
        "resources": Schema(
            Schema.LIST, "The types.", required=True, update_allowed=True
        ),
        "concurrent": Schema(
            Schema.BOOLEAN, "Whether they are created at the same time.", default=False
        ),
        "resource_properties": Schema(Schema.MAP, "The properties of all."),
    }
    attributes_schema: ClassVar[Mapping[str, Attribute]] = {
        "refs": Attribute("The references of all members.", type=Attribute.LIST),
        "attributes": Attribute(
            "An attribute of all members by name.", type=Attribute.MAP
        ),
    }

    def members(self, properties: Properties) -> Iterator[ResourceDefinition]:
        """Yield a member for each type."""
        shared = properties["resource_properties"] or {}
        resources = properties["resources"]
        types = (
            []
            if isinstance(resources, Later) or isinstance(shared, Later)
            else resources
        )
        for number, type_ in enumerate(types):
            if not isinstance(type_, str | Later) or not type_:
                raise ValueError(
                    f"the type of the resource {number} of the chain must be a text that is not empty"
                )
            needs = () if properties["concurrent"] or not number else (str(number - 1),)
            if isinstance(type_, str):
                yield ResourceDefinition(
                    name=str(number), type=type_, properties=shared, depends_on=needs
                )

    def get_attribute(self, key: str, *path: Json) -> Json:
        """Return an attribute of the chain, or of its members; while there is no child stack, null."""
        wrong = key == attributes.SHOW or (key == "attributes" and not path)
        if self.child is None and not wrong:
            return None
        if key.startswith(MEMBER):
            # of a chain without members too
            self.member(key.removeprefix(MEMBER).partition(".")[0])
        return super().get_attribute(key, *path)

    def validate(self) -> None:
        """Refuse a type that is not text."""
        try:
            list(self.members(self.known()))
        except ValueError as error:
            raise exception.StackValidationFailed(
                path=["properties", "resources"], message=str(error)
            ) from None

    def members_like_the_first(self) -> int:
        """Return 1: all members are validated."""
        return 1

    def validated(self) -> Iterator[ResourceDefinition]:
        """Yield all members, because their types differ."""
        return self.members(self.known())


class SoftwareDeploymentGroup(Group):
    """A config for several servers."""

    MEMBER_TYPE: ClassVar[str] = "OS::Heat::SoftwareDeployment"
    SAME: ClassVar[Mapping[str, Schema]] = SHARED
    properties_schema: ClassVar[Mapping[str, Schema]] = {
        **SHARED,
        "servers": Schema(
            Schema.MAP,
            "Names and ids of the servers.",
            required=True,
            update_allowed=True,
        ),
    }
    attributes_schema: ClassVar[Mapping[str, Attribute]] = {
        "deploy_stdouts": Attribute("Standard output of each.", type=Attribute.MAP),
        "deploy_stderrs": Attribute("Standard error of each.", type=Attribute.MAP),
        "deploy_status_codes": Attribute("Exit code of each.", type=Attribute.MAP),
    }
    update_policy_schema: ClassVar[Mapping[str, Schema]] = _BATCHES

    def members(self, properties: Properties) -> Iterator[ResourceDefinition]:
        """Yield a deployment for each server."""
        servers = properties["servers"] or {}
        return self.named(properties, () if isinstance(servers, Later) else servers)

    def named(
        self, properties: Properties, names: Iterable[str]
    ) -> Iterator[ResourceDefinition]:
        """Yield deployments for given servers."""
        same = {name: properties[name] for name in self.SAME}
        servers = properties["servers"] or {}
        for name in names:
            yield ResourceDefinition(
                name=name,
                type=self.MEMBER_TYPE,
                properties={**same, "server": servers.get(name)},
            )

    def get_attribute(self, key: str, *path: Json) -> Json:
        """Return an output of all members, by name."""
        if key == attributes.SHOW:
            return None
        of_member = key.removesuffix("s") if key in self.attributes_schema else key
        return attributes.select_from_attribute(self.by_name(of_member, ()), path)


class StructuredDeploymentGroup(SoftwareDeploymentGroup):
    """A structured config for several servers."""

    MEMBER_TYPE: ClassVar[str] = "OS::Heat::StructuredDeployment"
    SAME: ClassVar[Mapping[str, Schema]] = {**SHARED, **STRUCTURED}
    properties_schema: ClassVar[Mapping[str, Schema]] = {
        **SoftwareDeploymentGroup.properties_schema,
        **STRUCTURED,
    }
