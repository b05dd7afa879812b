"""Stacks, resources, outputs and events as JSON, with the keys of Heat's API; secrets are masked."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from heat_config_agent.cli import terminal
from heat_config_agent.masking import MASK
from heat_config_agent.masking.redaction import Concealer, is_secret
from heat_config_agent.model import states
from heat_config_agent.model.deployment import Input
from heat_config_agent.model.errors import blame
from heat_config_agent.model.positions import Json
from heat_config_agent.model.states import Shown
from heat_config_agent.model.wording import stamp
from heat_config_agent.settings.effective import Settings
from heat_config_agent.state import followed, lock
from heat_config_stack.definition import Unresolved, resolve
from heat_config_stack.records import listing
from heat_config_stack.records.listing import Kept
from heat_config_stack.records.records import (
    ASKED,
    CANCELLED,
    CHECK,
    COMPLETE,
    DELETE,
    FAILED,
    IN_PROGRESS,
    INIT,
    RESUME,
    ROLLBACK,
    SUSPEND,
    ResourceRecord,
    StackRecord,
)

if TYPE_CHECKING:
    from heat_config_stack.lifecycle.live import Stack
    from heat_config_stack.resource.resource import Resource


HIDDEN = MASK
"""The text that replaces a hidden value."""


def shown_parameters(stack: Stack) -> dict[str, Json]:
    """Return the parameters of a stack with secrets masked."""
    if stack.defined is None:
        return {}
    shown = {"OS::stack_id": stack.id, "OS::stack_name": stack.name}
    declared = stack.defined.parameters
    conceal = stack.world.conceal
    return shown | {
        name: HIDDEN if each.schema.secret else listed(conceal, each.value)
        for name, each in declared.items()
    }


def listed(conceal: Concealer, value: Json) -> Json:
    """Return a value for a listing: hidden values are masked as a whole, and distinctive ones inside other text."""
    return conceal.distinctive(conceal.whole(value, HIDDEN))


def is_hidden(name: str) -> bool:
    """Return whether the name of an output says that it is a secret."""
    return is_secret(Input(name=name, value=None))


def moment(seconds: float) -> str | None:
    """Return a time as Heat writes it; None where there was none."""
    return (
        time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds)) if seconds else None
    )


def listed_stack(settings: Settings, kept: Kept) -> dict[str, Json]:
    """Return a stack as `list` shows it, in the state that `status` shows."""
    record = kept.record
    if record is None:
        return {
            **_brief(StackRecord("", kept.name)),
            "id": None,
            "stack_status": "DAMAGED",
            "creation_time": None,
            "state": str(Shown.UNKNOWN),
            "action": None,
            "since": None,
            "interrupted": False,
            "resources": 0,
            "failed_resources": 0,
            "source": None,
            "message": f"its records cannot be read: {kept.trouble}",
        }
    broken = interrupted(settings, record)
    state = shown(record, is_broken=bool(broken))
    why = broken or _failed(settings, kept, state)
    return {
        **_brief(record),
        "state": str(Shown.FAILED if why and not broken else state),
        "interrupted": bool(broken),
        "resources": kept.resources,
        "failed_resources": kept.bad,
        "source": whence(settings, record.name),
        "message": why or repeated(settings, kept),
    }


def _failed(settings: Settings, kept: Kept, state: Shown) -> str:
    """Return why a stack, a workflow of it or an earlier DELETE has failed; empty if none has."""
    reasons = [f"the workflow {name} has failed: {why}" for name, why in kept.workflows]
    if state is Shown.FAILED or kept.left:
        from heat_config_stack.cli.stack import sessions  # noqa: PLC0415  # slow to load, and only after a failure

        if state is Shown.FAILED:
            return sessions.reason(settings, kept.name) or "it has failed"
        reasons.append(sessions.why_left(settings, kept.name, kept.left))
    return "; ".join(reasons)


def shown(record: StackRecord, *, is_broken: bool) -> Shown:
    """Return the state of a stack; `is_broken` says that its action was interrupted, and nothing continues it."""
    if is_broken:
        return Shown.UNKNOWN
    if record.action == ROLLBACK and record.status == COMPLETE:
        return Shown.FAILED
    return states.of_stack(record.status)


def whence(settings: Settings, name: str) -> str | None:
    """Return the source that a stack follows, as SOURCE@REVISION; None if it was made by hand."""
    source = followed.read(settings.state, name)
    if source is None or source.document:
        return None
    return f"{name}@{followed.short(source.revision)}" if source.revision else name


def _brief(record: StackRecord) -> dict[str, Json]:
    return {
        "id": record.id,
        "stack_name": record.name,
        "stack_status": f"{record.action}_{record.status}",
        "creation_time": moment(record.created),
        "updated_time": moment(record.updated),
        "state": str(shown(record, is_broken=False)),
        "action": record.action,
        "since": stamp(record.updated or record.created),
    }


def interrupted(settings: Settings, record: StackRecord) -> str:
    """Return that no command works on a stack whose action is in progress, and which one continues it; else empty."""
    folder = listing.folder(settings.state, record.name)
    if (
        record.status != IN_PROGRESS
        or lock.holder(folder) is not None
        or _is_followed_on(settings, record)
    ):
        return ""
    # a command may have ended since the record was read
    now = listing.kept(settings.state, record.name)
    if (
        now is None
        or now.record is None
        or (now.record.action, now.record.status) != (record.action, IN_PROGRESS)
    ):
        return ""
    word = (
        record.action.lower()
        if record.action in (SUSPEND, RESUME, CHECK, DELETE)
        else "update --existing"
    )
    command = terminal.line(settings.command("stack", *word.split(), record.name))
    return f"the {record.action} of {record.name} was interrupted: `{command}` continues it"


def repeated(settings: Settings, stack: listing.Kept) -> str:
    """Return which deployments a person asked for again, and which command runs them; empty if there are none."""
    if not stack.asked:
        return ""
    named = ", ".join(f"{stack.name}/{each}" for each in stack.asked)
    verb = "runs" if len(stack.asked) == 1 else "run"
    command = settings.command("stack", "update", "--existing", stack.name)
    return terminal.line(f"{named} {verb} again as requested: `{command}` begins it")


def _is_followed_on(settings: Settings, record: StackRecord) -> bool:
    """Return whether the running daemon continues the action, because it carries out a revision of the stack."""
    if record.name not in settings.followed or lock.holder(settings.state) is None:
        return False
    source = followed.read(settings.state, record.name)
    return source is not None and bool(source.begun)


def stack(settings: Settings, root: Stack) -> dict[str, Json]:
    """Return a stack as `show` shows it."""
    from heat_config_stack.cli.stack import origin, sessions  # noqa: PLC0415  # the list of stacks needs none of it

    defined = root.defined
    broken = interrupted(settings, root.record)
    state = shown(root.record, is_broken=bool(broken))
    message = sessions.reason_of(root) if state is Shown.FAILED else broken
    return {
        **_brief(root.record),
        "stack_status_reason": broken or root.world.conceal.text(_reason(root.record)),
        "state": str(state),
        "interrupted": bool(broken),
        "message": message,
        "source": whence(settings, root.name),
        "template": origin.shown(settings, root.name),
        "resources": counted(root),
        "description": defined.description if defined else "",
        "disable_rollback": not root.record.rollback,
        "parameters": shown_parameters(root),
        "outputs": [output(root, name) for name in defined.outputs] if defined else [],
        "checks": [*checked(root)] if root.record.action == CHECK else [],
    }


def deleted(name: str) -> dict[str, Json]:
    """Return a stack that was deleted just now."""
    return {
        "id": None,
        "stack_name": name,
        "stack_status": "DELETE_COMPLETE",
        "creation_time": None,
        "updated_time": None,
        "state": str(Shown.OK),
        "action": DELETE,
        "since": stamp(time.time()),
        "stack_status_reason": "",
        "interrupted": False,
        "message": "",
        "source": None,
        "template": None,
        "resources": {},
        "description": "",
        "disable_rollback": True,
        "parameters": {},
        "outputs": [],
        "checks": [],
    }


def counted(root: Stack) -> dict[str, Json]:
    """Return the number of resources of a stack in each state."""
    counts: dict[str, Json] = {}
    for _, each in every(root, 0):
        word = str(state_of(each.record))
        counts[word] = int(str(counts.get(word, 0))) + 1
    return counts


def state_of(record: ResourceRecord) -> Shown:
    """Return the state of a resource."""
    if record.is_left_out:
        return Shown.SKIPPED
    if record.action == INIT:
        return Shown.WAITING
    if record.is_unverified or record.out_of_effect == Shown.UNKNOWN:
        return Shown.UNKNOWN
    if record.out_of_effect == Shown.DRIFTED and record.reason != ASKED:
        return Shown.DRIFTED
    return states.of_stack(record.status)


def _reason(record: StackRecord) -> str:
    """Return why a stack has failed, and why it was rolled back."""
    undone = f"rolled back after: {record.undone['reason']}" if record.undone else ""
    return "; ".join(filter(None, (record.reason, undone)))


def output(
    root: Stack, name: str, *, reveal: bool = False, exact: bool = False
) -> dict[str, Json]:
    """Return an output for a listing; with `exact`, for a command that names this output.

    With `exact`, only a value that is a secret as a whole is masked; with `reveal`, no value is masked.
    """
    declared = root.definition.outputs[name]
    answer: dict[str, Json] = {
        "output_key": name,
        "description": declared.description,
        "output_value": None,
        "output_error": None,
    }
    try:
        value = root.output(name)
    except Unresolved as error:
        return answer | {"output_error": root.world.conceal.text(str(error))}
    if not reveal:
        conceal = root.world.conceal
        shown = conceal.whole(value, HIDDEN) if exact else listed(conceal, value)
        value = HIDDEN if is_hidden(name) and value is not None else shown
    return answer | {"output_value": value}


def output_lines(root: Stack) -> list[str]:
    """Return the outputs as lines for people."""
    found = (
        (output(root, name) for name in root.definition.outputs) if root.defined else ()
    )
    return [
        f"  {terminal.line(each['output_key'])} = {terminal.line(written(each))}"
        for each in found
    ]


def written(answer: Mapping[str, Any]) -> str:
    """Return the value of an output as text."""
    if answer["output_error"] is not None:
        return f"({answer['output_error']})"
    value = answer["output_value"]
    return (
        value.rstrip("\n")
        if isinstance(value, str)
        else json.dumps(value, ensure_ascii=False)
    )


def every(root: Stack, depth: int) -> Iterator[tuple[str, Resource]]:
    """Yield all resources with their paths, including those of nested stacks to a depth.

    Those that the definition no longer has are the last: they are still to be deleted, or could not be.
    """
    from heat_config_stack.lifecycle.live import Stack  # noqa: PLC0415  # the list of stacks needs none of it

    left = (
        each
        for each in root.records()
        if each.name not in root.resources and each.action != INIT
    )
    for name, each in {
        **root.resources,
        **{each.name: root.resource(each) for each in left},
    }.items():
        path = "/".join((*root.path, name))
        yield path, each
        if depth and isinstance(each.child, Stack):
            yield from every(each.child, depth - 1)


def resource(path: str, member: Resource) -> dict[str, Json]:
    """Return a resource as `resource list` shows it."""
    record = member.record
    return {
        "resource_name": path,
        "physical_resource_id": listed(member.stack.conceal, record.physical),
        "resource_type": member.type(),
        "resource_status": "LEFT_OUT" if record.is_left_out else "_".join(record.state),
        "updated_time": moment(record.updated or record.created),
        "state": str(state_of(record)),
        "action": None if record.action == INIT else record.action,
        "since": stamp(record.updated or record.created),
        "message": _message(member),
    }


def _message(member: Resource) -> str:
    """Return why a resource has failed, in the words of its tool, or why nothing was run for it."""
    record, store = member.record, cast("Stack", member.stack).world.store
    if record.status == FAILED and record.reason.endswith(CANCELLED):
        return record.reason
    if record.status == FAILED:
        from heat_config_stack.lifecycle import deployments  # noqa: PLC0415  # only after a failure

        for each in store.deployments.values():
            if each.resource == record.id and each.status == FAILED:
                return member.stack.conceal.text(deployments.why(each))
        reason = record.reason
        if record.out_of_effect:
            reason = reason.partition(f"resources.{record.name}: ")[2] or reason
        return member.stack.conceal.text(reason)
    if record.is_unverified:
        return record.reason.partition("; ")[2]
    return record.reason if record.is_left_out else ""


def checked(root: Stack) -> list[dict[str, Json]]:
    """Return the findings of the last check of a stack, for each resource that runs something on this machine."""
    return [
        {
            **resource(path, each),
            "resource_status_reason": each.stack.conceal.text(each.record.reason),
        }
        for path, each in every(root, -1)
        if each.is_verified and each.action == CHECK
    ]


def resource_in_full(root: Stack, path: str, member: Resource) -> dict[str, Json]:
    """Return a resource as `resource show` shows it."""
    try:
        attributes = member.given_attributes()
    except BaseException as error:  # noqa: BLE001  # a plug-in may raise anything
        attributes = {"error": blame(error)}
    conceal = root.world.conceal  # it knows the secrets of nested stacks by now
    visible = {
        name: HIDDEN if is_hidden(name) else value for name, value in attributes.items()
    }
    declared = (
        member.stack.defined.resources.get(member.name)
        if member.stack.defined
        else None
    )
    return {
        **resource(path, member),
        "resource_status_reason": conceal.text(member.record.reason),
        "creation_time": moment(member.record.created),
        "required_by": sorted(_needing(member)),
        "requires": sorted(declared.requirements()) if declared else [],
        "metadata": listed(conceal, _metadata(member)),
        "attributes": listed(conceal, visible),
    }


def _metadata(member: Resource) -> Json:
    """Return the metadata of a resource, with values that are secret by their names masked."""
    try:
        metadata = member.metadata_get()
    except BaseException as error:  # noqa: BLE001  # a plug-in may raise anything
        return {"error": blame(error)}
    return {
        name: HIDDEN if is_hidden(name) else value for name, value in metadata.items()
    }


def _needing(member: Resource) -> Iterator[str]:
    for name, each in (
        member.stack.definition.resources.items() if member.stack.defined else ()
    ):
        if member.name in each.requirements():
            yield name


def nodes(root: Stack) -> list[dict[str, Json]]:
    """Return the nodes of a service in the order of the template."""
    from heat_config_stack.lifecycle import nodes as states  # noqa: PLC0415  # the list of stacks needs none of it

    defined = root.defined.nodes if root.defined else {}
    state_of = states.states(root)
    return [
        {
            "node": name,
            "type": node.type,
            "state": str(_node_state(state_of[name])),
            "node_state": state_of[name],
            "host": node.host or None,
        }
        for name, node in defined.items()
    ]


_NODES = {"initial": Shown.WAITING, "error": Shown.FAILED}


def _node_state(word: str) -> Shown:
    """Return the state of a node for the state of TOSCA's interface: `creating` and the like are under way."""
    going_on = Shown.RUNNING if word.endswith("ing") else Shown.OK
    return _NODES.get(word, going_on)


def node_in_full(root: Stack, name: str) -> dict[str, Json]:
    """Return a node with its attributes, and its operations with their states."""
    node = root.definition.nodes[name]
    attributes: dict[str, Json] = {}
    for key, tree in node.attributes().items():
        try:
            attributes[key] = resolve(tree, root.look)
        except Unresolved:
            attributes[key] = None
    shown = {
        key: HIDDEN if is_hidden(key) and value is not None else value
        for key, value in attributes.items()
    }
    records = {record.name: record for record in root.records()}
    states = {
        of: "_".join(records[of].state) if of in records else "INIT_COMPLETE"
        for of in node.operations
    }
    [row] = [row for row in nodes(root) if row["node"] == name]
    return {
        **row,
        "attributes": listed(root.world.conceal, shown),
        "operations": states,
    }
