"""The members of groups, under the names of `heat.common.grouputils` and `heat.scaling`."""

from __future__ import annotations

import copy
import functools
import time
from collections.abc import Iterator, Mapping
from typing import Any

from heat_config_agent.model.positions import Json
from heat_config_stack.plugins.facade.template import ResourceDefinition, Template
from heat_config_stack.records import exception
from heat_config_stack.records.records import FAILED
from heat_config_stack.resource.resource import NoActionRequired, Resource
from heat_config_stack.resource_types import scaling


class GroupInspector:
    """The members of a group, in the order in which they are replaced: failed ones first, then the oldest."""

    def __init__(self, group: Any) -> None:
        """Take the group."""
        child = group.child
        records = [] if child is None else child.records()
        self._records = sorted(
            records, key=lambda each: (each.status != FAILED, each.created, each.name)
        )
        self._source: Json = None if child is None else child.record.source

    @classmethod
    def from_parent_resource(cls, parent_resource: Any) -> GroupInspector:
        """Return the members of a group."""
        return cls(parent_resource)

    def member_names(self, include_failed: bool) -> Iterator[str]:
        """Yield the names of the members."""
        return (
            each.name
            for each in self._records
            if include_failed or each.status != FAILED
        )

    def size(self, include_failed: bool) -> int:
        """Return the number of members."""
        return sum(1 for _ in self.member_names(include_failed))

    def template(self) -> Template | None:
        """Return the template of the group; None if it has none."""
        return (
            None
            if self._source is None
            else Template(copy.deepcopy(_parsed(self._source["template"])))
        )


@functools.lru_cache(maxsize=8)
def _parsed(text: str) -> Mapping[str, Any]:
    import yaml  # noqa: PLC0415  # slow to load

    found: Mapping[str, Any] = yaml.safe_load(text)
    return found


def get_size(group: Any, include_failed: bool = False) -> int:
    """Return the number of members."""
    return GroupInspector(group).size(include_failed)


def get_members(group: Any, include_failed: bool = False) -> list[Resource]:
    """Return the members."""
    child = group.child
    names = GroupInspector(group).member_names(include_failed)
    return [child.resources[name] for name in names if name in child.resources]


def get_member_refids(group: Any) -> list[Json]:
    """Return the references of the members."""
    return [each.FnGetRefId() for each in get_members(group)]


def get_member_names(group: Any) -> list[str]:
    """Return the names of the members that have not failed."""
    return list(GroupInspector(group).member_names(include_failed=False))


def get_member_definitions(
    group: Any, include_failed: bool = False
) -> list[tuple[str, ResourceDefinition]]:
    """Return the names and the definitions of the members."""
    inspector = GroupInspector(group)
    template = inspector.template()
    found = {} if template is None else template.resource_definitions()
    return [
        (name, found[name])
        for name in inspector.member_names(include_failed)
        if name in found
    ]


def get_resource(
    group: Any,
    resource_name: str,
    use_indices: bool,
    key: object = None,  # noqa: ARG001
) -> Resource | None:
    """Return a member, by its name or its position; None while there is no group. Raises NotFound."""
    if group.child is None:
        return None
    try:
        return (
            get_members(group)[int(resource_name)]
            if use_indices
            else group.child.resources[resource_name]
        )
    except (IndexError, KeyError):
        problem = (
            f"Member '{resource_name}' not found in group resource '{group.name}'."
        )
        raise exception.NotFound(problem) from None


def get_rsrc_attr(
    group: Any, key: object, use_indices: bool, resource_name: str, *attr_path: Any
) -> Json:
    """Return an attribute of a member."""
    found = get_resource(group, resource_name, use_indices, key)
    return None if found is None else found.FnGetAtt(*attr_path)


def get_rsrc_id(group: Any, key: object, use_indices: bool, resource_name: str) -> Json:
    """Return the reference of a member."""
    found = get_resource(group, resource_name, use_indices, key)
    return None if found is None else found.FnGetRefId()


def get_nested_attrs(group: Any, key: str, use_indices: bool, *path: Any) -> Json:
    """Return the value of `resource.NAME` or `resource.NAME.ATTRIBUTE`."""
    parts: list[Any] = [*key.split(".", 2)[1:], *path]
    name, rest = parts[0], parts[1:]
    return (
        get_rsrc_attr(group, key, use_indices, name, *rest)
        if rest
        else get_rsrc_id(group, key, use_indices, name)
    )


def get_child_template_files(
    context: object,  # noqa: ARG001
    stack: object,  # noqa: ARG001
    is_rolling_update: bool,  # noqa: ARG001
    old_template_id: object,  # noqa: ARG001
) -> dict[str, str]:
    """Return no files: the members find their parent's files."""
    return {}


# Sizes.


def calculate_new_capacity(  # noqa: PLR0917  # plug-ins call it so
    current: int,
    adjustment: float,
    adjustment_type: str,
    min_adjustment_step: int | None,
    minimum: int,
    maximum: int,
) -> int:
    """Return the size after an adjustment, within the limits."""
    kinds = dict(zip(CFN_ADJUSTMENT_TYPES, ADJUSTMENT_TYPES, strict=True))
    kind = kinds.get(adjustment_type, adjustment_type)
    return min(
        max(scaling.new_size(current, adjustment, kind, min_adjustment_step), minimum),
        maximum,
    )


EXACT_CAPACITY, CHANGE_IN_CAPACITY, PERCENT_CHANGE_IN_CAPACITY = (
    scaling.EXACT,
    scaling.CHANGE,
    scaling.PERCENT,
)
ADJUSTMENT_TYPES = (EXACT_CAPACITY, CHANGE_IN_CAPACITY, PERCENT_CHANGE_IN_CAPACITY)
CFN_EXACT_CAPACITY, CFN_CHANGE_IN_CAPACITY = "ExactCapacity", "ChangeInCapacity"
CFN_PERCENT_CHANGE_IN_CAPACITY = "PercentChangeInCapacity"
CFN_ADJUSTMENT_TYPES = (
    CFN_EXACT_CAPACITY,
    CFN_CHANGE_IN_CAPACITY,
    CFN_PERCENT_CHANGE_IN_CAPACITY,
)


def needs_update(targ_capacity: int, curr_capacity: int, num_up_to_date: int) -> bool:
    """Return whether a batch is left."""
    return curr_capacity != targ_capacity or num_up_to_date < curr_capacity


def next_batch(
    targ_capacity: int,
    curr_capacity: int,
    num_up_to_date: int,
    batch_size: int,
    min_in_service: int,
) -> tuple[int, int]:
    """Return the size after the next batch, and the number of members that it makes or changes."""
    changed = min(batch_size, max(targ_capacity - num_up_to_date, 0))
    in_service = min(min_in_service, targ_capacity, curr_capacity)
    return changed + max(
        min(curr_capacity, targ_capacity - changed), in_service
    ), changed


class CooldownMixin:
    """The time between two adjustments of a group."""

    _STORED = "adjusted_until"

    def _check_scaling_allowed(self: Any, cooldown: float | None) -> None:  # noqa: ARG002
        if time.time() < float(self.data().get(CooldownMixin._STORED) or 0):
            raise NoActionRequired

    def _finished_scaling(
        self: Any,
        cooldown: float | None,
        cooldown_reason: str,  # noqa: ARG002
        size_changed: bool = True,
    ) -> None:
        if size_changed:
            self.data_set(CooldownMixin._STORED, time.time() + max(cooldown or 0, 0))

    def handle_metadata_reset(self) -> None:
        """Do nothing: an interrupted adjustment leaves no mark."""
