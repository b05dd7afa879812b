"""Groups that change their size: a group of one kind of member at its desired size, and policies that change it.

A policy is signalled by a command; there are no alarms here. The oldest members are removed first, as in Heat.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from heat_config_agent.model.positions import Json
from heat_config_stack.definition import Identity, Later, ResourceDefinition, limits
from heat_config_stack.lifecycle import traversal
from heat_config_stack.lifecycle.live import Stack
from heat_config_stack.records import exception, records
from heat_config_stack.records.records import COMPLETE, CREATE, FAILED, IN_PROGRESS
from heat_config_stack.resource import rolling
from heat_config_stack.resource.attributes import Schema as Attribute
from heat_config_stack.resource.constraints import AllowedValues, Range
from heat_config_stack.resource.properties import Properties, Schema
from heat_config_stack.resource.resource import NoActionRequired, Resource
from heat_config_stack.resource.snippet import Snippet
from heat_config_stack.resource_types.members import Group
from heat_config_stack.resource_types.nested import MEMBER

EXACT, CHANGE, PERCENT = (
    "exact_capacity",
    "change_in_capacity",
    "percent_change_in_capacity",
)

SIZE, NAMES, NEXT, COOLING, _COOLS = "size", "names", "next", "cooling", "cools"
"""The keys of stored values: the current size, the names of the members, the number of the next member, the time
until which no policy changes the size, and the seconds of that when it was set."""


def new_size(size: int, adjustment: float, kind: str, least_step: int | None) -> int:
    """Return the size after an adjustment, by Heat's rules for rounding a percentage."""
    if kind == EXACT:
        return int(adjustment)
    if kind == CHANGE:
        return size + int(adjustment)
    change = size * adjustment / 100.0
    rounded = (
        math.ceil(change) if (change > 0) == (abs(change) < 1.0) else math.floor(change)
    )
    if least_step and abs(rounded) < least_step:
        rounded = least_step if change > 0 else -least_step
    return size + rounded


class AutoScalingGroup(Group):
    """A group of members with one definition, at its desired size."""

    properties_schema: ClassVar[Mapping[str, Schema]] = {
        "resource": Schema(
            Schema.MAP, "Definition of a member.", required=True, update_allowed=True
        ),
        "max_size": Schema(
            Schema.INTEGER,
            "Maximum of members.",
            required=True,
            update_allowed=True,
            constraints=[Range(0)],
        ),
        "min_size": Schema(
            Schema.INTEGER,
            "Minimum of members.",
            required=True,
            update_allowed=True,
            constraints=[Range(0)],
        ),
        "cooldown": Schema(
            Schema.INTEGER, "Seconds between two adjustments.", update_allowed=True
        ),
        "desired_capacity": Schema(
            Schema.INTEGER, "Number of members.", update_allowed=True
        ),
        "rolling_updates": Schema(
            Schema.MAP,
            "How members are updated.",
            update_allowed=True,
            default={"min_in_service": 0, "max_batch_size": 1, "pause_time": 0},
            schema={
                "min_in_service": Schema(
                    Schema.INTEGER, default=0, constraints=[Range(0)]
                ),
                "max_batch_size": Schema(
                    Schema.INTEGER, default=1, constraints=[Range(1)]
                ),
                "pause_time": Schema(Schema.NUMBER, default=0, constraints=[Range(0)]),
            },
        ),
    }
    COOLDOWN: ClassVar[str] = "cooldown"
    """The name of the property with the seconds between two adjustments; empty if there is none."""
    attributes_schema: ClassVar[Mapping[str, Attribute]] = {
        "outputs": Attribute(
            "An attribute of all members by name.", type=Attribute.MAP
        ),
        "outputs_list": Attribute("An attribute of all members.", type=Attribute.LIST),
        "current_size": Attribute("The number of members.", type=Attribute.INTEGER),
        "refs": Attribute("The references of all members.", type=Attribute.LIST),
        "refs_map": Attribute(
            "The references of all members by name.", type=Attribute.MAP
        ),
    }

    def sizes(self, properties: Properties) -> tuple[Any, Any, Any]:
        """Return the least, the desired (None for any) and the largest size."""
        desired = (
            properties["desired_capacity"]
            if "desired_capacity" in properties.data
            else None
        )
        return properties["min_size"], desired, properties["max_size"]

    @staticmethod
    def check_sizes(least: Any, desired: Any, most: Any) -> None:
        """Raise StackValidationFailed if known sizes do not fit together."""
        if any(isinstance(size, Later) for size in (least, desired, most)):
            return
        if least > most:
            raise exception.StackValidationFailed(
                message="MinSize can not be greater than MaxSize"
            )
        if desired is not None and not least <= desired <= most:
            raise exception.StackValidationFailed(
                message="DesiredCapacity must be between MinSize and MaxSize"
            )

    def validate(self) -> None:
        """Check that the sizes fit together."""
        known = self.known()
        sizes = self.sizes(known)
        if any(isinstance(size, Later) for size in sizes):
            return
        self.check_sizes(*sizes)
        if not isinstance(known["resource"], Later) and not known["resource"].get(
            "type"
        ):
            raise exception.StackValidationFailed(
                message='Resource member is missing "type"'
            )

    # The members.

    def adopt_values(self, values: Mapping[str, Json], members: Sequence[str]) -> None:
        """Take over stored values; without them, the members keep their names and their number."""
        super().adopt_values(
            values or {NAMES: list(members), NEXT: 0, SIZE: len(members)}, members
        )

    def _size(self, properties: Properties) -> int:
        """Return the size: as a policy has set it, else the desired size, within the limits."""
        least, desired, most = self.sizes(properties)
        size = self.data().get(SIZE)
        if size is None:
            size = least if desired is None else desired
        return int(min(max(size, least), most))

    def _current_size(self) -> int:
        """Return the number of members that have not failed."""
        return sum(each.record.status != FAILED for each in self._members().values())

    def _choose_names(self) -> None:
        """Store the names of the members: the newest existing members, and new ones."""
        data = self.data()
        names, number = list(data.get(NAMES, ())), int(data.get(NEXT, 0))
        size = self._size(self.properties)
        names = names[len(names) - size :] if len(names) > size else names
        while len(names) < min(size, limits.MOST_RESOURCES + 1):
            if str(number) not in names:
                names.append(str(number))
            number += 1
        self.data_set(NAMES, names)
        self.data_set(
            NEXT, max(number, *(int(name) + 1 for name in names if name.isdecimal()), 0)
        )

    def members(self, properties: Properties) -> Iterator[ResourceDefinition]:
        """Yield the members."""
        return self.named(properties, self.data().get(NAMES, ["0"]))

    def named(
        self, properties: Properties, names: Iterable[str]
    ) -> Iterator[ResourceDefinition]:
        """Yield members with given names."""
        member = properties["resource"]
        if isinstance(member, Later) or not isinstance(member.get("type"), str):
            return
        for name in names:
            yield ResourceDefinition(
                name=name,
                type=member["type"],
                properties=member.get("properties") or {},
                metadata=member.get("metadata") or {},
            )

    def members_like_the_first(self) -> int:
        """Return the size as far as it is known."""
        known = self.known()
        unknown = any(isinstance(size, Later) for size in self.sizes(known))
        return 1 if unknown else max(self._size(known), 1)

    def handle_create(self) -> str:
        """Create the members."""
        self._choose_names()
        return super().handle_create()

    def handle_update(
        self,
        json_snippet: Snippet,
        tmpl_diff: Mapping[str, Json],
        prop_diff: Mapping[str, Json],
    ) -> str:
        """Update the members. The size becomes the desired one; without one it stays as it is, within its limits."""
        _, desired, _ = self.sizes(json_snippet.properties(self.properties_schema))
        self.data_set(SIZE, desired or self._current_size())
        return super().handle_update(json_snippet, tmpl_diff, prop_diff)

    def prepare(self, action: str, child: Stack) -> None:
        """Choose the members, and store the batches in which they are updated."""
        super().prepare(action, child)
        if action == CREATE or not self.rules_here(action, has_run=self.has_run()):
            self._choose_names()

    def batches(self, child: Stack, rules: rolling.Policy) -> list[rolling.Batch]:
        """Return the batches of an update: first all existing members, and then the change of their number."""
        there = self._records(child)
        target = min(self._size(self.properties), len(there))
        numbers = rolling.sizes(target, len(there), rules, extra_stay=True)
        batches, names = rolling.plan(
            [*sorted(there, key=lambda name: there[name].status != FAILED)],
            self._up_to_date(there),
            numbers,
            rules.pause,
            in_order=lambda now, _after: now,
            names=lambda _number: self._free_names(),
        )
        self.data_set(NAMES, names)
        self._choose_names()
        final = self.data()[NAMES]
        made = tuple(name for name in final if name not in names)
        return [
            *batches,
            rolling.Batch(
                made, tuple(name for name in names if name not in final), 0.0
            ),
        ]

    def _free_names(self) -> Iterator[str]:
        return map(str, itertools.count(int(self.data().get(NEXT, 0))))

    def is_rolled(self) -> bool:
        """Return whether an update changes the members, and not only their number."""
        return "resource" in self.changes

    def rules(self, action: str) -> rolling.Policy | None:
        """Return the rules of a rolling update; None if all members are created or updated at once."""
        if action == CREATE or not self.is_rolled():
            return None
        rules = self.properties["rolling_updates"]
        return rolling.Policy(
            rules["max_batch_size"], float(rules["pause_time"]), rules["min_in_service"]
        )

    def _cool(self, cooldown: float | None) -> None:
        """Let no policy change the size for some seconds, by default for the cooldown of the group."""
        if cooldown is None and self.COOLDOWN:
            cooldown = self.properties[self.COOLDOWN]
        now, seconds = time.time(), max(cooldown or 0, 0)
        before = float(self.data().get(COOLING, 0.0)) if self._is_cooling() else 0.0
        self.data_set(COOLING, max(now + seconds, before))
        self.data_set(_COOLS, max(seconds, before - now))

    def check_create_complete(self, token: str) -> bool:
        """Return whether the members are created; then the group cools down."""
        done = super().check_create_complete(token)
        if done:
            self._cool(None)
        return done

    def check_update_complete(self, token: str) -> bool:
        """Return whether the members are updated; then the group cools down."""
        done = super().check_update_complete(token)
        if done:
            self._cool(None)
        return done

    def adjust(
        self,
        adjustment: float,
        kind: str,
        least_step: int | None,
        cooldown: float | None = None,
    ) -> None:
        """Change the size. Raises NoActionRequired if it stays the same, and while the group changes or cools down."""
        child = self.child
        if (
            child is None
            or child.record.status == IN_PROGRESS
            or self.status != COMPLETE
        ):
            raise NoActionRequired
        size = self._current_size()
        least, _, most = self.sizes(self.properties)
        wanted = min(max(new_size(size, adjustment, kind, least_step), least), most)
        if wanted == size or self._is_cooling():
            raise NoActionRequired
        self.data_set(SIZE, wanted)
        self._choose_names()
        definition = self.child_definition(
            Identity(child.name, child.id, child.identity.project)
        )
        traversal.converge(child, records.UPDATE, definition, records.new_id())
        self._cool(cooldown)

    def _is_cooling(self) -> bool:
        """Return whether the group cools down; a later end than its cooldowns reach is of a clock that was wrong."""
        data = self.data()
        left = float(data.get(COOLING, 0.0)) - time.time()
        return 0 < left <= float(data.get(_COOLS, float("inf"))) + 1

    # Attributes.

    def get_attribute(self, key: str, *path: Json) -> Json:
        """Return an attribute of the group, or of its members."""
        if key == "current_size":
            return len(self._members())
        if key in ("outputs", "outputs_list"):
            if not path:
                raise exception.InvalidTemplateAttribute(resource=self.name, key=key)
            found = self.by_name(str(path[0]), path[1:])
            return found if key == "outputs" else list(found.values())
        if key.startswith(MEMBER):
            index, _, attribute = key.removeprefix(MEMBER).partition(".")
            names = list(self._members())
            if index.isdecimal() and int(index) < len(names):
                key = (
                    f"{MEMBER}{names[int(index)]}{'.' if attribute else ''}{attribute}"
                )
        return super().get_attribute(key, *path)


class ScalingPolicy(Resource):
    """A change of a group's size, made when the policy is signalled."""

    stack: Stack
    again_after_interruption: ClassVar[bool] = True
    properties_schema: ClassVar[Mapping[str, Schema]] = {
        "auto_scaling_group_id": Schema(
            Schema.STRING, "The reference of the group.", required=True
        ),
        "adjustment_type": Schema(
            Schema.STRING,
            "Kind of the change.",
            required=True,
            update_allowed=True,
            constraints=[AllowedValues([CHANGE, EXACT, PERCENT])],
        ),
        "scaling_adjustment": Schema(
            Schema.NUMBER, "Size of the change.", required=True, update_allowed=True
        ),
        "cooldown": Schema(
            Schema.NUMBER, "Seconds between two changes.", update_allowed=True
        ),
        "min_adjustment_step": Schema(
            Schema.INTEGER,
            "Minimum of a change in percent.",
            update_allowed=True,
            constraints=[Range(0)],
        ),
    }
    attributes_schema: ClassVar[Mapping[str, Attribute]] = {
        "alarm_url": Attribute(
            "URL for signals; a command signals the policy here.", type=Attribute.STRING
        ),
        "signal_url": Attribute(
            "URL for signals; a command signals the policy here.", type=Attribute.STRING
        ),
    }

    GROUP, KIND, CHANGE_BY, STEP, COOLDOWN = (
        *("auto_scaling_group_id", "adjustment_type", "scaling_adjustment"),
        *("min_adjustment_step", "cooldown"),
    )
    KINDS: ClassVar[Mapping[str, str]] = {
        each: each for each in (CHANGE, EXACT, PERCENT)
    }
    """The kinds of changes by the value of a property."""

    def validate(self) -> None:
        """Refuse a minimum step without a percentage."""
        known = self.known()
        step = self.STEP in known.data and known[self.STEP] is not None
        kind = known[self.KIND]
        if step and isinstance(kind, str) and self.KINDS.get(kind) in (CHANGE, EXACT):
            self.refuse_step()

    def refuse_step(self) -> None:
        """Raise the exception for a minimum step without a percentage."""
        raise exception.ResourcePropertyConflict(self.STEP, self.KIND)

    def handle_create(self) -> None:
        """Create an id."""
        self.resource_id_set(self.physical_resource_name())

    def handle_update(
        self,
        json_snippet: Snippet,
        tmpl_diff: Mapping[str, Json],
        prop_diff: Mapping[str, Json],
    ) -> None:
        """Accept all changes: a signal reads the properties."""

    def handle_signal(self, details: Json = None) -> None:
        """Adjust the group. Raises NoActionRequired while it cools down, ValueError if there is no such group."""
        group = next(
            (each for each in self.stack.resources.values() if self._is_group(each)),
            None,
        )
        if not isinstance(group, AutoScalingGroup):
            raise ValueError(f"Alarm {self.name} could not find scaling group")  # noqa: TRY004  # a property is wrong
        properties = self.properties
        step = properties[self.STEP] if self.STEP in properties.data else None
        group.adjust(
            properties[self.CHANGE_BY],
            self.KINDS[properties[self.KIND]],
            step,
            properties[self.COOLDOWN],
        )

    def _is_group(self, resource: Resource) -> bool:
        return bool(resource.FnGetRefId() == self.properties[self.GROUP])

    def _resolve_attribute(self, name: str) -> Json:
        return ""
