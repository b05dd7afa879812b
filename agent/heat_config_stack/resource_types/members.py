"""The base class of groups: resources whose child stack has members, which an update may change in batches."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from heat_config_agent.model.positions import Json, Path
from heat_config_stack.definition import (
    Definition,
    Identity,
    ResourceDefinition,
    limits,
)
from heat_config_stack.lifecycle.live import Stack
from heat_config_stack.records import exception
from heat_config_stack.records.records import CREATE, FAILED, ResourceRecord
from heat_config_stack.resource import attributes, rolling
from heat_config_stack.resource.properties import Properties
from heat_config_stack.resource.resource import Resource
from heat_config_stack.resource.snippet import Snippet, policy
from heat_config_stack.resource_types.nested import MEMBER, StackResource

ROLLING = "rolling"
"""The key of the stored batches."""


class Group(StackResource):
    """The base class of all groups."""

    changes: Collection[str] = ()
    """The names of the properties that an update changes."""

    def members(self, properties: Properties) -> Iterator[ResourceDefinition]:
        """Yield the definitions of the members; none that depends on an `Unknown` value."""
        raise NotImplementedError

    def named(
        self, properties: Properties, names: Iterable[str]
    ) -> Iterator[ResourceDefinition]:
        """Yield the definitions of members with given names; none that depends on an `Unknown` value."""
        raise NotImplementedError

    def child_definition(self, identity: Identity) -> Definition:
        """Return a definition with all members."""
        return self._stack_of(identity, self.members(self.properties))

    def child_to_validate(self, identity: Identity) -> Definition | None:
        """Return a definition with the members that are validated."""
        return self._stack_of(identity, self.validated())

    def validated(self) -> Iterator[ResourceDefinition]:
        """Yield the members that are validated: the first, because the others are like it."""
        return itertools.islice(self.members(self.known()), 1)

    def first_member(self, identity: Identity) -> Definition:
        """Return a definition with the first member, whose values are resolved in the stack as it is."""
        return self._stack_of(
            identity, itertools.islice(self.members(self.properties), 1)
        )

    def members_like_the_first(self) -> int:
        """Return the number of members that the first one represents in validation."""
        return len(list(self.members(self.known())))

    def _stack_of(
        self, identity: Identity, members: Iterable[ResourceDefinition]
    ) -> Definition:
        room, resources = limits.Room(), {}
        for member in members:
            resources[member.name] = member
            if len(resources) > limits.MOST_RESOURCES:
                raise exception.Error(limits.too_many(len(resources)))
            try:
                room.take(member.properties)
            except limits.TooMuch as error:
                raise exception.Error(
                    f"the properties of the members of {self.name} have {error}"
                ) from None
        return Definition(
            identity=identity,
            description="",
            parameters={},
            groups=(),
            resources=resources,
            outputs={},
            environment=self.stack.environment.inside(self.name),
            source=None,
        )

    def has_attribute(self, name: str) -> bool:
        """Return whether the group or its members have the attribute."""
        if name in self.attributes or name.startswith(MEMBER):
            return True
        return self._lacking(name, self._examples()) is None

    def lack(self, key: str, keys: tuple[Json, ...]) -> tuple[str, str, Path] | None:
        """Return the member that lacks the attribute that `get_attr` asks for, as far as is known; None if none does.

        With it come the attribute, and the path that Heat names: as in Heat, it is an output of the nested stack.
        """
        at: Path = ("value",)
        member, _, attribute = key.removeprefix(MEMBER).partition(".")
        output = ", ".join(map(str, (key, *keys)))
        if key.startswith(MEMBER):
            attribute = attribute or (str(keys[0]) if keys else "")
            asked = (
                each
                for each in self._known(self.members)
                if each.name == member and attribute
            )
            lacking = self._lacking(attribute, asked)
        elif key == "attributes" and keys:
            attribute = str(keys[0])
            lacking = self._lacking(attribute, self._examples())
            at = ("value", lacking or "")
        elif key in self.attributes:
            return None
        else:
            attribute, lacking = key, self._lacking(key, self._examples())
            at = (f"Value[{lacking}]",)
        return (
            (lacking, attribute, ("outputs", output, *at, "get_attr"))
            if lacking is not None
            else None
        )

    def _examples(self) -> list[ResourceDefinition]:
        return self._known(lambda _known: self.validated())

    def _known(
        self, members: Callable[[Properties], Iterator[ResourceDefinition]]
    ) -> list[ResourceDefinition]:
        try:
            return list(members(self.known()))
        except ValueError:  # a mistake in the properties, which is reported for them
            return []

    def _lacking(
        self, attribute: str, members: Iterable[ResourceDefinition]
    ) -> str | None:
        """Return the name of the first member that lacks an attribute, as far as is known."""
        environment, types = (
            self.stack.environment.inside(self.name),
            self.stack.world.types,
        )
        for member in members:
            try:
                of = types.class_of(types.mapped_type(member, environment))
            except exception.EntityNotFound:
                continue
            if not (
                of.any_attribute
                or attribute in of.attributes_schema
                or attribute == attributes.SHOW
            ):
                return member.name
        return None

    def handle_update(
        self,
        json_snippet: Snippet,
        tmpl_diff: Mapping[str, Json],
        prop_diff: Mapping[str, Json],
    ) -> str:
        """Update the members, in batches if the policy says so."""
        self.changes = prop_diff.keys()
        return super().handle_update(json_snippet, tmpl_diff, prop_diff)

    # Rolling updates.

    def _converge(
        self, action: str, child: Any, checked: Definition | None = None
    ) -> str:
        if child.record.attempt != self.record.attempt:
            self.prepare(action, child)
        return super()._converge(action, child, checked)

    def prepare(self, action: str, child: Stack) -> None:
        """Store the batches in which the members are created or updated: after an interruption, they stay the same."""
        rules = self.rules_here(action, has_run=self.has_run())
        batches = rolling.to_json(self.batches(child, rules)) if rules else []
        if batches or ROLLING in self.data():
            self.data_set(ROLLING, {"attempt": self.record.attempt, "batches": batches})

    def rules(self, action: str) -> rolling.Policy | None:
        """Return the rules of a rolling update; None if all members are created or updated at once."""
        name = "batch_create" if action == CREATE else "rolling_update"
        given = policy(
            self.update_policy_schema, self.definition.update_policy, self.resolve
        )
        if (
            name not in given
            or name not in given.data
            or not (action == CREATE or self.is_rolled())
        ):
            return None
        rules = given[name]
        return rolling.Policy(
            rules["max_batch_size"],
            float(rules["pause_time"]),
            rules.get("min_in_service") or 0,
        )

    def rules_here(self, action: str, *, has_run: bool) -> rolling.Policy | None:
        """Return the rules for members on one machine; `has_run` is True if members have run something on it.

        Members that are alike have the same place on the machine: the DELETE of one that exists only during the update
        would undo what the others have set up. So the group gets none for that time.
        """
        rules = self.rules(action)
        return (
            rules._replace(in_service=0)
            if rules and has_run and self._are_alike()
            else rules
        )

    def _are_alike(self) -> bool:
        """Return whether two members differ in nothing but their names."""
        first, second = (
            (each.type, each.properties, each.metadata)
            for each in self.named(self.properties, ("0", "1"))
        )
        return first == second

    def temporary(self, former: Resource) -> list[str]:
        """Return the names of the members that an update of a group to this one has only while it goes on."""
        return []

    def is_rolled(self) -> bool:
        """Return whether an update changes the members, and not only their number."""
        return bool(self.changes)

    def batches(self, child: Stack, rules: rolling.Policy) -> list[rolling.Batch]:
        """Return the batches in which the members are created or updated."""
        names = [each.name for each in self.members(self.properties)]
        there = self._records(child)
        members = [name for name, each in there.items() if each.status != FAILED]

        def priority(name: str) -> int:
            """Return a number for each member: members with low numbers are removed first, and then updated first."""
            return len(names) - names.index(name) if name in names else 0

        def in_order(now: Sequence[str], after: int) -> list[str]:
            extra = set(self.names(after)) - set(names)
            return sorted(
                now, key=lambda name: after if name in extra else priority(name)
            )

        numbers = rolling.sizes(len(names), len(there), rules)
        current = self._up_to_date(there)
        return rolling.plan(
            members, current, numbers, rules.pause, in_order=in_order, names=self.names
        )[0]

    def names(self, number: int) -> list[str]:
        """Return the names of a number of members."""
        return [
            each.name
            for each in itertools.islice(self.members(self.properties), number)
        ]

    def _records(self, child: Stack) -> dict[str, ResourceRecord]:
        """Return the records of the members that are there, by name, the oldest first."""
        return {each.name: each for each in child.records()}

    def _up_to_date(self, there: Mapping[str, ResourceRecord]) -> list[str]:
        """Return the names of the members that have the current definition already."""
        wanted = {
            definition.name: definition
            for definition in self.named(self.properties, there)
        }

        def is_current(record: ResourceRecord) -> bool:
            made, new = record.definition, wanted.get(record.name)
            if made is None or new is None:
                return False
            return (made["type"], made["properties"], made["metadata"]) == (
                new.type,
                new.properties,
                new.metadata,
            )

        return [name for name, record in there.items() if is_current(record)]

    def rolling(self, definition: Definition) -> rolling.Rolling | None:
        """Return the batches in which the child becomes like a definition; None if all is done at once."""
        stored = self.data().get(ROLLING) or {}
        if stored.get("attempt") != self.record.attempt or not stored["batches"]:
            return None
        batches = rolling.from_json(stored["batches"])
        extra = {
            name for each in batches for name in each.made
        } - definition.resources.keys()
        return rolling.Rolling(
            batches,
            {each.name: each for each in self.named(self.properties, sorted(extra))},
        )

    def _members(self) -> dict[str, Resource]:
        child = self.child
        if child is None or child.defined is None:
            return {}
        return {
            name: child.resources[name]
            for name in child.defined.resources
            if name in child.resources
        }

    def _refs(self) -> dict[str, Json]:
        """Return the reference of every member, by the member's name; while there is no child stack, null."""
        if self.child is None:
            return {each.name: None for each in self.members(self.properties)}
        return {name: each.FnGetRefId() for name, each in self._members().items()}

    def by_name(self, key: str, path: tuple[Json, ...]) -> dict[str, Json]:
        """Return an attribute of every member, by the member's name; while there is no child stack, null."""
        if self.child is None:
            return {each.name: None for each in self.members(self.properties)}
        return {
            name: each.FnGetAtt(key, *path) for name, each in self._members().items()
        }

    def get_attribute(self, key: str, *path: Json) -> Json:
        """Return an attribute of the group, or of its members."""
        if key.startswith(MEMBER):
            if self.child is None:
                return None
            of_attribute = bool(path) or "." in key.removeprefix(MEMBER)
            if of_attribute and not self._members():
                return None  # as in Heat, if there is no member at all
            return self.of_member(key, path)
        if key == attributes.SHOW:
            raise exception.InvalidTemplateAttribute(resource=self.name, key=key)
        if key not in self.attributes_schema:
            return list(self.by_name(key, path).values())
        if key == "attributes":
            if not path:
                raise exception.InvalidTemplateAttribute(resource=self.name, key=key)
            return self.by_name(str(path[0]), path[1:])
        refs = self._refs()
        if key == "refs":
            return attributes.select_from_attribute(list(refs.values()), path)
        # As in Heat, a path does not select from the others.
        return refs if key == "refs_map" else self.data().get("removed", [])
