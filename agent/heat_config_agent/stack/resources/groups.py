"""Resources whose child has many members of one kind: groups, chains, and deployments to several servers."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

from heat_config_agent.stack import attributes, exception
from heat_config_agent.stack.attributes import Schema as Attribute
from heat_config_agent.stack.constraints import AllowedValues, Length, Range
from heat_config_agent.stack.definition import Definition, Identity, Json, Later, ResourceDefinition
from heat_config_agent.stack.properties import Properties, Schema
from heat_config_agent.stack.records import CREATE
from heat_config_agent.stack.resource import Resource
from heat_config_agent.stack.resources.deployment import SHARED, STRUCTURED
from heat_config_agent.stack.resources.nested import MEMBER, StackResource

_BATCH = {
    "max_batch_size": Schema(Schema.INTEGER, "How many at once.", default=1, constraints=[Range(1)]),
    "pause_time": Schema(Schema.NUMBER, "Seconds between two batches.", default=0, constraints=[Range(0)]),
}
_IN_SERVICE = Schema(Schema.INTEGER, "How many are left alone.", default=0, constraints=[Range(0)])
_POLICY: dict[str, Schema] = {
    "rolling_update": Schema(Schema.MAP, "How members are updated.", schema={"min_in_service": _IN_SERVICE, **_BATCH}),
    "batch_create": Schema(Schema.MAP, "How members are made.", schema=_BATCH),
}


class _Group(StackResource):
    """What all of these have."""

    def members(self, given: Properties) -> Iterator[ResourceDefinition]:
        """Yield what the members are to be by the properties; nothing that needs what is `Unknown`."""
        raise NotImplementedError

    def child_definition(self, identity: Identity) -> Definition:
        """Return a stack of the members."""
        return self._stack_of(identity, self.members(self.properties))

    def child_to_validate(self, identity: Identity) -> Definition | None:
        """Return a stack of the first member: the others are like it."""
        return self._stack_of(identity, itertools.islice(self.members(self.known()), 1))

    def _stack_of(self, identity: Identity, members: Iterable[ResourceDefinition]) -> Definition:
        return Definition(
            identity=identity,
            description="",
            parameters={},
            groups=(),
            resources={each.name: each for each in members},
            outputs={},
            environment=self.stack.environment.inside(self.name),
            source=None,
        )

    def has_attribute(self, name: str) -> bool:
        """Whether the group has it, or each of its members has."""
        if name in self.attributes or name.startswith(MEMBER):
            return True
        return self.attribute_of_members(name)

    def attribute_of_members(self, name: str) -> bool:
        """Whether a member may have an attribute, as far as is known."""
        first = next(self.members(self.known()), None)
        if first is None:
            return True
        environment, types = self.stack.environment.inside(self.name), self.stack.world.types
        try:
            of = types.class_of(types.found(first, environment))
        except exception.EntityNotFound:
            return True
        return of.any_attribute or name in of.attributes_schema or name == attributes.SHOW

    def _converge(self, action: str, child: Any) -> str:
        named = "batch_create" if action == CREATE else "rolling_update"
        policy = Properties(self.update_policy_schema, self.definition.update_policy, self.resolve)
        batch = policy[named] if named in policy and named in policy.data else None
        child.batches = (batch["max_batch_size"], float(batch["pause_time"])) if batch else None
        return super()._converge(action, child)

    def _members(self) -> dict[str, Resource]:
        child = self.child
        return child.resources if child is not None else {}

    def by_name(self, key: str, path: tuple[Json, ...]) -> dict[str, Json]:
        """Return an attribute of every member, by the member's name."""
        return {name: each.FnGetAtt(key, *path) for name, each in self._members().items()}

    def get_attribute(self, key: str, *path: Json) -> Json:
        """Return an attribute of the group, or of its members."""
        if key.startswith(MEMBER):
            return self.of_member(key, path)
        if key == attributes.SHOW:
            return None
        if key == "attributes":
            if not path:
                raise exception.InvalidTemplateAttribute(resource=self.name, key=key)
            return self.by_name(str(path[0]), path[1:])
        refs = {name: each.FnGetRefId() for name, each in self._members().items()}
        own = {"refs": list(refs.values()), "refs_map": refs, "removed_rsrc_list": self.data().get("removed", [])}
        if key in own:
            return attributes.select_from_attribute(own[key], path)
        return list(self.by_name(key, path).values())


class ResourceGroup(_Group):
    """Several resources that are alike."""

    properties_schema: ClassVar[Mapping[str, Schema]] = {
        "count": Schema(Schema.INTEGER, "How many.", default=1, update_allowed=True, constraints=[Range(0)]),
        "index_var": Schema(
            Schema.STRING, "What stands for the number in properties.", default="%index%", constraints=[Length(min=3)]
        ),
        "resource_def": Schema(
            Schema.MAP,
            "What each is.",
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
            "Which go first.",
            default=[],
            update_allowed=True,
            schema=Schema(
                Schema.MAP, schema={"resource_list": Schema(Schema.LIST, "Names or references.", default=[])}
            ),
        ),
        "removal_policies_mode": Schema(
            Schema.STRING,
            "Whether the names are added to those that went before.",
            default="append",
            update_allowed=True,
            constraints=[AllowedValues(["append", "update"])],
        ),
    }
    attributes_schema: ClassVar[Mapping[str, Attribute]] = {
        "refs": Attribute("The references of all members.", type=Attribute.LIST),
        "refs_map": Attribute("The references of all members by name.", type=Attribute.MAP),
        "attributes": Attribute("An attribute of all members by name.", type=Attribute.MAP),
        "removed_rsrc_list": Attribute("The names that were removed.", type=Attribute.LIST),
    }
    update_policy_schema: ClassVar[Mapping[str, Schema]] = _POLICY

    def handle_create(self) -> str:
        """Make the members; names that are to be removed are left out from the start."""
        self._remove_names()
        return super().handle_create()

    def _converge(self, action: str, child: Any) -> str:
        if action != CREATE:
            self._remove_names()
        return super()._converge(action, child)

    def _remove_names(self) -> None:
        """Keep which names are not to be used."""
        asked = [str(each) for policy in self.properties["removal_policies"] for each in policy["resource_list"]]
        there = self._members()
        if there:
            refs = {str(each.FnGetRefId()): name for name, each in there.items()}
            asked = [refs.get(each, each) for each in asked]
            asked = [each for each in asked if each in there]
        former = self.data().get("removed", []) if self.properties["removal_policies_mode"] == "append" else []
        self.data_set("removed", [*former, *(each for each in dict.fromkeys(asked) if each not in former)])

    def members(self, given: Properties) -> Iterator[ResourceDefinition]:
        """Yield as many members as there are to be."""
        made, variable, count = given["resource_def"], given["index_var"], given["count"]
        if isinstance(made, Later) or isinstance(made["type"], Later) or isinstance(variable, Later):
            return
        removed = set(self.data().get("removed", ()))
        names = (str(number) for number in itertools.count() if str(number) not in removed)
        for name in itertools.islice(names, 1 if isinstance(count, Later) else count):
            yield ResourceDefinition(
                name=name,
                type=made["type"],
                properties=_indexed(made["properties"] or {}, variable, name),
                metadata=made["metadata"] or {},
            )


def _indexed(tree: Any, variable: str, index: str) -> Any:
    if isinstance(tree, str):
        return tree.replace(variable, index)
    if isinstance(tree, dict):
        return {key: _indexed(value, variable, index) for key, value in tree.items()}
    return [_indexed(each, variable, index) for each in tree] if isinstance(tree, list) else tree


class ResourceChain(_Group):
    """Resources of several types with the same properties, one after the other."""

    properties_schema: ClassVar[Mapping[str, Schema]] = {
        "resources": Schema(Schema.LIST, "The types.", required=True, update_allowed=True),
        "concurrent": Schema(Schema.BOOLEAN, "Whether they are made at once.", default=False),
        "resource_properties": Schema(Schema.MAP, "The properties of all."),
    }
    attributes_schema: ClassVar[Mapping[str, Attribute]] = {
        "refs": Attribute("The references of all members.", type=Attribute.LIST),
        "attributes": Attribute("An attribute of all members by name.", type=Attribute.MAP),
    }

    def members(self, given: Properties) -> Iterator[ResourceDefinition]:
        """Yield a member for each type."""
        shared = given["resource_properties"] or {}
        types = [] if isinstance(given["resources"], Later) or isinstance(shared, Later) else given["resources"]
        for number, type_ in enumerate(types):
            needs = () if given["concurrent"] or not number else (str(number - 1),)
            if isinstance(type_, str):
                yield ResourceDefinition(name=str(number), type=type_, properties=shared, depends_on=needs)

    def child_to_validate(self, identity: Identity) -> Definition | None:
        """Return all members: they are of different types."""
        return self._stack_of(identity, self.members(self.known()))


class SoftwareDeploymentGroup(_Group):
    """A config for several servers."""

    MEMBER_TYPE: ClassVar[str] = "OS::Heat::SoftwareDeployment"
    SAME: ClassVar[Mapping[str, Schema]] = SHARED
    properties_schema: ClassVar[Mapping[str, Schema]] = {
        **SHARED,
        "servers": Schema(Schema.MAP, "Names and ids of the servers.", required=True, update_allowed=True),
    }
    attributes_schema: ClassVar[Mapping[str, Attribute]] = {
        "deploy_stdouts": Attribute("What each printed.", type=Attribute.MAP),
        "deploy_stderrs": Attribute("What each printed to standard error.", type=Attribute.MAP),
        "deploy_status_codes": Attribute("What each ended with.", type=Attribute.MAP),
    }
    update_policy_schema: ClassVar[Mapping[str, Schema]] = _POLICY

    def members(self, given: Properties) -> Iterator[ResourceDefinition]:
        """Yield a deployment for each server."""
        same = {name: given[name] for name in self.SAME}
        servers = given["servers"] or {}
        for name, server in () if isinstance(servers, Later) else servers.items():
            yield ResourceDefinition(name=name, type=self.MEMBER_TYPE, properties={**same, "server": server})

    def get_attribute(self, key: str, *path: Json) -> Json:
        """Return an output of all members by name."""
        if key == attributes.SHOW:
            return None
        of_member = key.removesuffix("s") if key in self.attributes_schema else key
        return attributes.select_from_attribute(self.by_name(of_member, ()), path)


class StructuredDeploymentGroup(SoftwareDeploymentGroup):
    """A structured config for several servers."""

    MEMBER_TYPE: ClassVar[str] = "OS::Heat::StructuredDeployment"
    SAME: ClassVar[Mapping[str, Schema]] = {**SHARED, **STRUCTURED}
    properties_schema: ClassVar[Mapping[str, Schema]] = {**SoftwareDeploymentGroup.properties_schema, **STRUCTURED}
