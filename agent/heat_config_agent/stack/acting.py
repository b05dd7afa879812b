"""One step of one resource: what calls its handlers, keeps what comes of it, and waits for it to be complete.

Each function is a task (see `scheduler`). What fails is raised as a `ResourceFailure`, after it has been kept.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Hashable, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from heat_config_agent.errors import StateError
from heat_config_agent.stack import exception, records
from heat_config_agent.stack.definition import Json, Unresolved
from heat_config_agent.stack.exception import ResourceFailure, UpdateReplace
from heat_config_agent.stack.properties import Properties
from heat_config_agent.stack.records import ADOPT, CHECK, COMPLETE, CREATE, DELETE, FAILED, IN_PROGRESS, INIT, UPDATE
from heat_config_agent.stack.resource import PollDelay, Resource
from heat_config_agent.stack.snippet import Snippet, thaw

if TYPE_CHECKING:
    from collections.abc import Iterator

Acting: TypeAlias = Generator[Hashable | None, None, None]


def create(resource: Resource) -> Acting:
    """Make what a resource stands for; one with an `external_id` is there already."""
    external = resource.definition.external_id
    try:
        frozen = resource.frozen()
    except Unresolved as error:  # nothing has been begun: it stays as it is
        raise _failure(resource, error) from error
    resource.record.definition, resource.record.metadata = frozen, frozen["metadata"]
    resource.define(thaw(resource.name, frozen))
    if external is not None:
        with _state(resource, ADOPT):
            resource.record.physical = external
        yield from check(resource)
        return
    with _state(resource, CREATE):
        yield from _handled(resource, CREATE)


def delete(resource: Resource) -> Acting:
    """Remove what a resource stands for; one with the policy Retain is only forgotten."""
    policy = resource.definition.deletion_policy.lower()
    if resource.state in ((INIT, COMPLETE), (DELETE, COMPLETE)):
        _forget(resource)
        return
    before = resource.state
    with _state(resource, DELETE):
        if resource.definition.external_id is None and policy != "retain":
            if policy == "snapshot" and hasattr(resource, "handle_snapshot_delete"):
                yield from _handled(resource, DELETE, before, handler="handle_snapshot_delete")
            else:
                yield from _handled(resource, DELETE)
    _forget(resource)


def check(resource: Resource) -> Acting:
    """Look whether what a resource stands for is still as it should be."""
    if not hasattr(resource, "handle_check"):
        if resource.state != (INIT, COMPLETE):
            _set(resource, CHECK, COMPLETE, f"CHECK not supported for {resource.type()}")
        return
    with _state(resource, CHECK):
        yield from _handled(resource, CHECK)


def suspend(resource: Resource) -> Acting:
    """Put a resource to rest."""
    stable = resource.status == COMPLETE or resource.action == records.SUSPEND
    yield from _turned(resource, records.SUSPEND, able=resource.action != DELETE and stable)


def resume(resource: Resource) -> Acting:
    """Wake a resource up."""
    able = resource.action == records.RESUME or resource.state == (records.SUSPEND, COMPLETE)
    yield from _turned(resource, records.RESUME, able=able)


def _turned(resource: Resource, action: str, *, able: bool) -> Acting:
    if not able:
        raise _failure(resource, exception.Error(f"State {resource.state} invalid for {action.lower()}"))
    if resource.state == (INIT, COMPLETE):
        return
    with _state(resource, action):
        yield from _handled(resource, action)


def update(resource: Resource, after: Resource) -> Acting:
    """Have a resource be as `after`, which is of its new definition, says. Raises UpdateReplace where it cannot."""
    before = resource.record.definition or {}
    if before.get("external_id") != after.definition.external_id:
        what = f"Update to property external_id of {resource.name} ({resource.type()})"
        raise _failure(resource, exception.NotSupported(feature=what))
    try:
        frozen = after.frozen()
        changed = before != frozen or after.record.type != resource.record.type
        needed = needs_update(resource, after, changed=changed)
    except Unresolved as error:
        raise _failed(resource, UPDATE, error) from error
    restricted = resource.stack.environment.restricted(resource.name)
    if needed is None:
        _restrict(resource, "replace", restricted)
        raise UpdateReplace(resource.name)
    if needed and resource.definition.external_id is None:
        _restrict(resource, "update", restricted)
        yield from _updated(resource, after, frozen, restricted)
    _be(resource, after, frozen)
    resource.define(thaw(resource.name, frozen))


def _be(resource: Resource, after: Resource, frozen: dict[str, Json]) -> None:
    """Be as the definition is after the update."""
    record = resource.record
    record.definition, record.type, record.template = frozen, after.record.type, after.record.template
    record.revision = resource.stack.record.revision


def needs_update(resource: Resource, after: Resource, *, changed: bool) -> bool | None:
    """Return whether a resource is to be updated; None where it has to be made anew."""
    gone = resource.state == (DELETE, COMPLETE)
    failed = resource.status == FAILED and (resource.action == CHECK or resource.needs_replace_failed())
    broken = resource.status == IN_PROGRESS and not resource.again_after_interruption
    if gone or failed or broken or type(resource) is not type(after) or resource.needs_replace(after.properties):
        return None
    return changed or resource.status != COMPLETE or resource.always_update()


def _updated(resource: Resource, after: Resource, frozen: dict[str, Json], restricted: frozenset[str]) -> Acting:
    snippet = Snippet(after.definition, resource.resolve)
    if "replace" in restricted:
        try:
            difference(resource, after, frozen)
        except UpdateReplace:
            _restrict(resource, "replace", restricted)
        except exception.HeatException:
            pass  # it is said by the update itself
    with _state(resource, UPDATE):
        changes = _changes(resource, frozen)
        try:
            properties = difference(resource, after, frozen)
            yield from _handled(resource, UPDATE, snippet, _sections(changes), properties)
        except UpdateReplace:
            _restrict(resource, "replace", restricted)
            resource.prepare_for_replace()
            raise
        resource.record.metadata = frozen["metadata"] if "metadata" in changes else resource.record.metadata
        _be(resource, after, frozen)


def _changes(resource: Resource, frozen: dict[str, Json]) -> dict[str, Json]:
    before = resource.record.definition or {}
    return {key: value for key, value in frozen.items() if before.get(key) != value}


def _sections(changes: Mapping[str, Json]) -> dict[str, Json]:
    """Return changes under the names of the sections by which plug-ins know them."""
    return {key.title().replace("_", ""): value for key, value in changes.items()}


def difference(resource: Resource, wanted: Resource, frozen: dict[str, Json]) -> dict[str, Json]:
    """Return the properties that change, with their new values. Raises UpdateReplace, or what forbids a change."""
    schema = resource.schema_of_properties()
    before = Properties(schema, (resource.record.definition or {}).get("properties", {}))
    after = Properties(schema, wanted.definition.properties, wanted.resolve)
    changed = {
        key for key in {**before.data, **after.data} if key in schema and _given(before, key) != _given(after, key)
    }
    if fixed := sorted(key for key in changed if schema[key].immutable):
        what = f"Update to properties {', '.join(fixed)} of {resource.name} ({resource.type()})"
        raise exception.NotSupported(feature=what)
    if (
        resource.needs_replace_with_tmpl_diff(_changes(resource, frozen))
        or resource.needs_replace_with_prop_diff(changed, after, before)
        or any(not schema[key].update_allowed for key in changed)
    ):
        raise UpdateReplace(resource.name)
    return {key: _given(after, key) for key in changed}


def _given(values: Properties, key: str) -> Json:
    return values[key] if key in values.data or values.schema[key].default is not None else None


def _restrict(resource: Resource, action: str, restricted: frozenset[str]) -> None:
    if action in restricted:
        error = exception.ResourceActionRestricted(action=action)
        resource.stack.happened([resource.name], UPDATE, FAILED, str(error))
        raise _failure(resource, error)


def _handled(resource: Resource, action: str, *arguments: Any, handler: str = "") -> Acting:
    """Call the handler of an action, and wait until its check says that it is complete."""
    name = action.lower()
    handle = getattr(resource, handler or f"handle_{name}", None)
    if handle is None:
        return
    token = handle(*arguments)
    is_complete = getattr(resource, f"check_{name}_complete", None)
    if is_complete is None:
        return
    while not _asked(is_complete, token):
        yield resource.awaits()


def _asked(is_complete: Any, token: Any) -> bool:
    try:
        return bool(is_complete(token))
    except PollDelay:
        return False


@contextmanager
def _state(resource: Resource, action: str) -> Iterator[None]:
    """Keep that an action is in progress, and how it ends."""
    record = resource.record
    if record.state != (action, IN_PROGRESS) or not record.attempt:
        record.attempt = records.new_id()
        _set(resource, action, IN_PROGRESS)
    if not resource.again_after_interruption:
        resource.stack.world.store.flush()
    try:
        yield
    except UpdateReplace:
        _set(resource, action, COMPLETE)
        raise
    except (GeneratorExit, StateError):
        raise
    except Exception as error:
        raise _failed(resource, action, error) from error
    _set(resource, action, COMPLETE)


def _failed(resource: Resource, action: str, error: Exception) -> ResourceFailure:
    failure = _failure(resource, error)
    _set(resource, action, FAILED, str(failure))
    return failure


def _failure(resource: Resource, error: Exception) -> ResourceFailure:
    """Return the failure that an error means: of a child stack's resource, with the way to it."""
    where = ["resources", resource.name]
    if isinstance(error, ResourceFailure):
        inner = error.path if error.path[:2] != where else error.path[2:]
        return ResourceFailure(error.kind, [*where, *inner], error.text)
    cause = error.__cause__ if isinstance(error, Unresolved) and error.__cause__ else error
    return ResourceFailure(type(cause).__name__, where, str(error))


def _set(resource: Resource, action: str, status: str, reason: str = "") -> None:
    record = resource.record
    record.action, record.status, record.reason, record.updated = action, status, reason, time.time()
    resource.stack.keep(record)
    resource.stack.happened([resource.name], action, status, reason)


def _forget(resource: Resource) -> None:
    resource.stack.world.store.drop(resource.record)
