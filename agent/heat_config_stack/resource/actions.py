"""One action of one resource: calls its handlers, records the result, and waits until it is complete.

Each function is a task (see `scheduler`). A failure is recorded, and then raised as a `ResourceFailure`.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Hashable, Iterable, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from heat_config_agent.masking.redaction import Concealer
from heat_config_agent.model.errors import StateError, blame
from heat_config_agent.model.positions import Json, dotted
from heat_config_stack.definition import Unresolved
from heat_config_stack.records import exception, records
from heat_config_stack.records.exception import ResourceFailure, UpdateReplace
from heat_config_stack.records.records import (
    ADOPT,
    CHECK,
    COMPLETE,
    CREATE,
    DELETE,
    FAILED,
    IN_PROGRESS,
    INIT,
    UPDATE,
)
from heat_config_stack.resource.properties import Properties
from heat_config_stack.resource.resource import (
    PLUGINS,
    PollDelay,
    Resource,
    wrong_properties,
)
from heat_config_stack.resource.scheduler import Pause
from heat_config_stack.resource.snippet import Difference, Snippet, differ, thaw

if TYPE_CHECKING:
    from collections.abc import Iterator

Acting: TypeAlias = Generator[Hashable | None, None, None]


def create(resource: Resource) -> Acting:
    """Create the physical resource; one with an `external_id` exists already, and is checked."""
    external = resource.definition.external_id
    try:
        frozen = resource.frozen()
    except Unresolved as error:  # nothing was begun: the state stays
        raise _failure(resource, error) from error
    resource.record.definition, resource.record.metadata = frozen, frozen["metadata"]
    resource.define(thaw(resource.name, frozen))
    if external is not None:
        with _state(resource, ADOPT):
            resource.record.physical = external
        yield from check(resource)
        return
    with _state(resource, CREATE):
        _validate(resource)
        yield from _handled(resource, CREATE)


def _validate(resource: Resource) -> None:
    """Check the properties, all of which are known now. Raises StackValidationFailed."""
    for wrong in wrong_properties(resource, resource.properties_of(resource.resolve)):
        where = dotted(("resources", resource.name, "properties", *wrong.path))
        raise exception.StackValidationFailed(
            message=f"Property error: {where}: {wrong.problem}"
        )


def delete(resource: Resource) -> Acting:
    """Delete the physical resource; with the policy Retain, only its record."""
    policy = resource.definition.deletion_policy.lower()
    if resource.state in ((INIT, COMPLETE), (DELETE, COMPLETE)):
        _forget(resource)
        return
    before = resource.state
    try:
        with _state(resource, DELETE):
            if resource.definition.external_id is None and policy != "retain":
                if policy == "snapshot" and hasattr(resource, "handle_snapshot_delete"):
                    yield from _handled(
                        resource, DELETE, before, handler="handle_snapshot_delete"
                    )
                else:
                    yield from _handled(resource, DELETE)
    except ResourceFailure as failed:
        if not resource.stack.forgets(resource.name, str(failed)):
            raise
    _forget(resource)


def check(resource: Resource) -> Acting:
    """Check the physical resource; for a resource that runs something, check whether it is still in effect."""
    if resource.is_verified or not hasattr(resource, "handle_check"):
        if resource.state == (INIT, COMPLETE):
            return
        _refuse_failed(resource, CHECK)
    if why := resource.unchecked():
        # its state stays COMPLETE also if its host is away: an update has nothing to repair
        _set(resource, CHECK, COMPLETE, why)
        if unreached := resource.unreached():
            raise _failure(resource, exception.Error(unreached))
        return
    with _state(resource, CHECK):
        yield from _handled(resource, CHECK)


def adopt(resource: Resource, data: Mapping[str, Json] | None) -> Acting:
    """Take over a physical resource that exists already; `data` is its state, as `Resource.abandoned` returns it."""
    try:
        frozen = resource.frozen()
    except Unresolved as error:  # nothing was begun: the state stays
        raise _failure(resource, error) from error
    resource.record.definition, resource.record.metadata = frozen, frozen["metadata"]
    resource.define(thaw(resource.name, frozen))
    with _state(resource, ADOPT):
        yield from _handled(resource, ADOPT, data)


def adopt_failed(
    resource: Resource, data: Mapping[str, Json] | None
) -> ResourceFailure | None:
    """Take over that an adopted resource is suspended, or that its last action failed; return the failure."""
    action, status = (data or {}).get("action"), (data or {}).get("status")
    if not resource.has_run() or resource.child is not None or status is None:
        return None
    if action == records.SUSPEND and status == COMPLETE:
        _set(
            resource, records.SUSPEND, COMPLETE, "it was suspended when it was adopted"
        )
    if status == COMPLETE:
        return None
    error = _failure(
        resource,
        exception.Error(f"it was adopted after its {action} had not succeeded"),
    )
    again = {
        records.SUSPEND: records.RESUME,
        records.RESUME: records.RESUME,
        CREATE: CREATE,
        DELETE: DELETE,
    }
    _set(resource, again.get(str(action), UPDATE), FAILED, str(error))
    return error


def snapshot(resource: Resource) -> Acting:
    """Take a snapshot of a resource."""
    if resource.state == (INIT, COMPLETE):
        return
    _refuse_failed(resource, records.SNAPSHOT)
    with _state(resource, records.SNAPSHOT):
        yield from _handled(resource, records.SNAPSHOT)


_AWAITED = "its run was requested again: update the stack first"


def _refuse_failed(resource: Resource, action: str) -> None:
    """Raise ResourceFailure if a resource that runs something has failed, or is suspended.

    It keeps its state: the next update does it again, or resumes it.
    """
    if (
        not resource.has_run()
        or resource.child is not None
        or not (resource.status == FAILED or resource.sleeps())
        or (action == CHECK and resource.is_out_of_effect())
    ):
        return
    reason = resource.record.reason
    problem = f"{resource.action} has failed: {reason.partition(f'resources.{resource.name}: ')[2] or reason}"
    if resource.status != FAILED:
        problem = "it is suspended"
    elif reason == records.ASKED:
        problem = _AWAITED
    error = _failure(resource, exception.Error(problem))
    resource.stack.happened(
        [resource.name], action, FAILED, str(error), record=resource.record
    )
    raise error


def delete_snapshot(resource: Resource, data: Mapping[str, Json]) -> Acting:
    """Delete the data of a resource in a snapshot; the state of the resource stays."""
    yield from _handled(resource, "DELETE_SNAPSHOT", data)


def suspend(resource: Resource) -> Acting:
    """Suspend a resource."""
    stable = resource.status == COMPLETE or resource.action == records.SUSPEND
    yield from _turned(
        resource, records.SUSPEND, able=resource.action != DELETE and stable
    )


def resume(resource: Resource) -> Acting:
    """Resume a resource."""
    able = resource.action == records.RESUME or resource.state == (
        records.SUSPEND,
        COMPLETE,
    )
    yield from _turned(resource, records.RESUME, able=able)


def _turned(resource: Resource, action: str, *, able: bool) -> Acting:
    if not able:
        problem = f"State {resource.state} invalid for {action.lower()}"
        if resource.record.reason == records.ASKED:
            problem = _AWAITED
        raise _failure(resource, exception.Error(problem))
    if resource.state == (INIT, COMPLETE):
        return
    with _state(resource, action):
        yield from _handled(resource, action)


def update(resource: Resource, after: Resource, needs: Iterable[str] = ()) -> Acting:
    """Update a resource to the definition of `after`. Raises UpdateReplace if that needs a replacement.

    `needs` are the ids of the resources that it depends on after the update. Until the update has succeeded, it also
    depends on the former ones.
    """
    before = resource.record.definition or {}
    if before.get("external_id") != after.definition.external_id:
        what = f"Update to property external_id of {resource.name} ({resource.type()})"
        raise _failure(resource, exception.NotSupported(feature=what))
    try:
        frozen = after.frozen()
        changed = differ(before, frozen) or after.record.type != resource.record.type
        necessary = needs_update(resource, after, changed=changed)
    except Unresolved as error:  # nothing was begun: the state stays
        raise _failure(resource, error) from error
    restricted = resource.stack.environment.restricted(resource.name)
    if necessary is None:
        _restrict(resource, "replace", restricted)
        _make_room(resource)
        raise UpdateReplace(resource.name)
    is_resumed = resource.sleeps() and resource.child is None
    if is_resumed:
        yield from _resumed(resource, frozen)
        necessary = needs_update(resource, after, changed=changed)
    if necessary and resource.definition.external_id is None:
        if restricted:
            _restrict_change(resource, after, frozen, restricted)
        resource.record.requires = sorted({*resource.record.requires, *needs})
        yield from _updated(resource, after, frozen, restricted)
    elif not is_resumed:
        resource.stack.leave_unchanged(resource.name)
    _store_definition(resource, after, frozen)
    resource.define(thaw(resource.name, frozen))


def _resumed(resource: Resource, frozen: dict[str, Json]) -> Acting:
    """Resume a resource in an update, by its new definition: that of a RESUME that always fails may be corrected."""
    former = resource.definition
    resource.define(thaw(resource.name, frozen))
    try:
        yield from _turned(resource, records.RESUME, able=True)
    finally:
        resource.define(former)


def _store_definition(
    resource: Resource, after: Resource, frozen: dict[str, Json]
) -> None:
    """Store the definition after an update."""
    record = resource.record
    record.definition, record.type, record.template = (
        frozen,
        after.record.type,
        after.record.template,
    )
    record.revision = resource.stack.record.revision


def needs_update(resource: Resource, after: Resource, *, changed: bool) -> bool | None:
    """Return whether a resource needs an update; None if it needs a replacement."""
    if type(resource) is type(after) and resource.never_updated:
        return False
    gone = resource.state == (DELETE, COMPLETE)
    failed = resource.status == FAILED and (
        resource.needs_replace_failed()
        or (resource.action == CHECK and not resource.has_run())
    )
    broken = resource.status == IN_PROGRESS and not resource.again_after_interruption
    if (
        gone
        or failed
        or broken
        or type(resource) is not type(after)
        or resource.needs_replace(after.properties)
    ):
        return None
    return (
        changed
        or resource.status != COMPLETE
        or resource.always_update()
        or resource.sleeps()
    )


def _updated(
    resource: Resource,
    after: Resource,
    frozen: dict[str, Json],
    restricted: frozenset[str],
) -> Acting:
    snippet = Snippet(after.definition, resource.resolve)
    with _state(resource, resource.action_of_update()):
        changes = _changes(resource, frozen)
        _validate(type(after)(after.name, thaw(after.name, frozen), after.stack))
        if "metadata" in changes:  # a child stack may use it
            resource.record.metadata = frozen["metadata"]
        try:
            properties = difference(resource, after, frozen)
            yield from _handled(
                resource, UPDATE, snippet, _sections(changes), properties
            )
        except UpdateReplace:
            _restrict(resource, "replace", restricted)
            resource.prepare_for_replace()
            raise
        _store_definition(resource, after, frozen)


def _changes(resource: Resource, frozen: dict[str, Json]) -> dict[str, Json]:
    before = resource.record.definition or {}
    known = (key for key in frozen if key not in ("condition", "written"))
    return {key: frozen[key] for key in known if before.get(key) != frozen[key]}


def _sections(changes: Mapping[str, Json]) -> Difference:
    """Return changes under the section names that plug-ins know."""
    return Difference(
        {key.title().replace("_", ""): value for key, value in changes.items()}
    )


def difference(
    resource: Resource, replacement: Resource, frozen: dict[str, Json]
) -> dict[str, Json]:
    """Return the changed properties with their new values. Raises UpdateReplace, or the exception that forbids it."""
    schema = resource.schema_of_properties()
    before = Properties(
        schema, (resource.record.definition or {}).get("properties", {})
    )
    after = Properties(schema, replacement.definition.properties, replacement.resolve)
    changed = {
        key
        for key in {**before.data, **after.data}
        if key in schema and _given(before, key) != _given(after, key)
    }
    if fixed := sorted(key for key in changed if schema[key].immutable):
        what = f"Update to properties {', '.join(fixed)} of {resource.name} ({resource.type()})"
        raise exception.NotSupported(feature=what)
    if (
        resource.needs_replace_with_tmpl_diff(_sections(_changes(resource, frozen)))
        or resource.needs_replace_with_prop_diff(changed, after, before)
        or any(not schema[key].update_allowed for key in changed)
    ):
        raise UpdateReplace(resource.name)
    return {key: _given(after, key) for key in changed}


def _given(values: Properties, key: str) -> Json:
    return (
        values[key]
        if key in values.data or values.schema[key].default is not None
        else None
    )


def _restrict_change(
    resource: Resource,
    after: Resource,
    frozen: dict[str, Json],
    restricted: frozenset[str],
) -> None:
    """Refuse a change that is restricted: a replacement or, if none is needed, an update.

    Raises UpdateReplace if a replacement is needed and allowed: Heat restricts it by `replace` alone.
    """
    try:
        difference(resource, after, frozen)
    except UpdateReplace:
        _restrict(resource, "replace", restricted)
        _make_room(resource)
        raise
    except exception.HeatException:
        return  # the update itself reports it
    _restrict(resource, "update", restricted)


def _make_room(resource: Resource) -> None:
    """Make room for the replacement of a resource. Raises ResourceFailure."""
    try:
        resource.prepare_for_replace()
    except Exception as error:
        raise _failure(resource, error) from error


def _restrict(resource: Resource, action: str, restricted: frozenset[str]) -> None:
    if action in restricted:
        error = exception.ResourceActionRestricted(action=action)
        resource.stack.happened([resource.name], UPDATE, FAILED, str(error))
        raise _failure(resource, error)


def _handled(
    resource: Resource, action: str, *arguments: Any, handler: str = ""
) -> Acting:
    """Call the handler of an action, and wait until its check returns True."""
    name = action.lower()
    handle = getattr(resource, handler or f"handle_{name}", None)
    if handle is None:
        return
    token = handle(*arguments)
    is_complete = getattr(resource, f"check_{name}_complete", None)
    if is_complete is None:
        return
    while True:
        try:
            if is_complete(token):
                return
            yield resource.awaits()
        except PollDelay as delay:
            yield Pause(delay.period)


@contextmanager
def _state(resource: Resource, action: str) -> Iterator[None]:
    """Record that an action is in progress, and its result."""
    record = resource.record
    if record.state != (action, IN_PROGRESS) or not record.attempt:
        record.attempt = records.new_id()
        _set(resource, action, IN_PROGRESS)
    if not resource.again_after_interruption or type(resource).__module__.startswith(
        PLUGINS
    ):
        resource.stack.flush()
    try:
        yield
    except UpdateReplace:
        _set(resource, action, COMPLETE)
        raise
    except (GeneratorExit, StateError):
        raise
    except BaseException as error:
        raise _failed(resource, action, error) from error
    _set(resource, action, COMPLETE, resource.left_out())


def _failed(resource: Resource, action: str, error: BaseException) -> ResourceFailure:
    failure = _failure(resource, error)
    if type(resource).__module__.startswith(PLUGINS):
        _log(resource, action, error)
    _set(resource, action, FAILED, str(failure))
    return failure


def _log(resource: Resource, action: str, error: BaseException) -> None:
    """Log the traceback of a plug-in's exception, without secrets and control characters."""
    import logging  # noqa: PLC0415  # both are slow to load, and most plug-ins work
    import traceback  # noqa: PLC0415

    lines = "".join(
        traceback.format_exception(type(error), error, error.__traceback__)
    ).splitlines()
    text = "\n".join(
        "".join(char if char.isprintable() else "?" for char in line) for line in lines
    )
    head = (
        f"{action} of {resource.name}, of the plug-in's type {resource.type()}, failed"
    )
    logging.getLogger(__name__).error(
        "%s:\n%s", head, resource.stack.conceal.text(text)
    )


def _failure(resource: Resource, error: BaseException) -> ResourceFailure:
    return failure(resource.name, error, resource.stack.conceal)


def failure(name: str, error: BaseException, conceal: Concealer) -> ResourceFailure:
    """Return the failure for an error; for one of a child stack's resource, with the path to it.

    Raises the error again if the resource is not to blame for it.
    """
    where = ["resources", name]
    if isinstance(error, ResourceFailure):
        inner = error.path if error.path[:2] != where else error.path[2:]
        return ResourceFailure(error.kind, [*where, *inner], error.text)
    cause = (
        error.__cause__ if isinstance(error, Unresolved) and error.__cause__ else error
    )
    return ResourceFailure(type(cause).__name__, where, conceal.text(blame(error)))


def _set(resource: Resource, action: str, status: str, reason: str = "") -> None:
    record = resource.record
    record.action, record.status, record.updated = action, status, time.time()
    record.reason = resource.stack.conceal.text(reason)
    resource.stack.keep(record)
    resource.stack.happened([resource.name], action, status, reason, record=record)


def _forget(resource: Resource) -> None:
    resource.stack.drop(resource.record)
