"""The commands that show stacks. Nothing is changed, and work on a stack is not disturbed."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from heat_config_agent.cli import envelope, state_options, terminal
from heat_config_agent.diagnostics.words import among, meant
from heat_config_agent.model import wording
from heat_config_agent.model.errors import AgentError, ExitCode, NotFoundError
from heat_config_stack.cli.stack import heat_events, values
from heat_config_stack.records import listing, placing
from heat_config_stack.records.records import IN_PROGRESS, ResourceRecord

if TYPE_CHECKING:
    from heat_config_agent.settings.effective import Settings
    from heat_config_stack.lifecycle.live import Stack

_NONE = "No description"
"""Heat's description of a stack whose template has none."""

_BY_HAND = "by hand"
"""The source of a stack that follows none."""


def stacks(options: argparse.Namespace) -> int:
    """List all stacks."""
    settings = state_options.of(options)
    kept = [
        stack
        for name in listing.names(settings.state)
        if (stack := listing.kept(settings.state, name))
    ]
    for stack in kept:
        if stack.trouble:
            terminal.warn(stack.trouble)
    shown = [values.listed_stack(settings, each) for each in kept if not each.blank]
    if options.json:
        envelope.result({"stacks": shown})
        return ExitCode.OK
    header = ("NAME", "STATE", "ACTION", "RESOURCES", "SOURCE", "SINCE")
    rows = [
        (
            str(each["stack_name"]),
            str(each["state"]),
            str(each["action"] or "-"),
            _number(each),
            str(each["source"] or _BY_HAND),
            when(each["since"]),
            *(
                (when(each["creation_time"]), str(each["id"] or "-"))
                if options.wide
                else ()
            ),
            str(each["message"]),
        )
        for each in shown
    ]
    more = ("CREATED", "ID") if options.wide else ()
    empty = f"no stacks in {settings.state}"
    return _table(rows, (*header, *more, "DETAILS"), empty)


def _number(stack: Mapping[str, Any]) -> str:
    bad = stack["failed_resources"]
    return f"{stack['resources']} ({bad} bad)" if bad else str(stack["resources"])


def when(stamp: object) -> str:
    """Return a time of JSON for people."""
    from datetime import datetime  # noqa: PLC0415  # not with --json

    if not stamp:
        return "-"
    text = str(stamp).replace("Z", "+00:00")
    return wording.moment(datetime.fromisoformat(text).timestamp())


def _table(rows: Sequence[Sequence[str]], header: Sequence[str], empty: str) -> int:
    for line in terminal.table(rows, header=header, empty=empty):
        terminal.say(line)
    return ExitCode.OK


def stack(options: argparse.Namespace) -> int:
    """Show a stack."""
    return show(state_options.of(options), options)


def show(settings: Settings, options: Any) -> int:
    """Show the stack that `options` names."""
    from heat_config_stack.cli.stack import sessions  # noqa: PLC0415  # the list of stacks needs none of it

    root = sessions.look(settings, options.name)
    details = values.stack(settings, root)
    if options.json:
        envelope.result(details)
        return ExitCode.OK
    state = f"{terminal.stated(details['state'])} ({details['stack_status']})"
    template = details["template"] or {}
    digest = f", {template['digest']}" if template.get("digest") else ""
    counts = ", ".join(f"{n} {word}" for word, n in details["resources"].items())
    lists = settings.command("stack", "resource", "list", root.name)
    own, description = getattr(options, "all", False), details["description"]
    facts = {
        "name": root.name,
        "state": f"{state}, since {when(details['since'])}",
        "why": details["message"],
        "template": f"{template['path']}{digest}" if template else "",
        "source": details["source"] or _BY_HAND,
        "resources": f"{counts or 'none'} (`{lists}`)",
        "description": description if own or description != _NONE else "",
        "created": when(details["creation_time"]),
        "id": details["id"],
    }
    for key, value in facts.items():
        if value:
            text = terminal.line(value) if key != "state" else value
            text = terminal.wrapped(text, 13, terminal.room(), begin=13)
            terminal.say(f"{terminal.padded(key, 12)} {text}")
    terminal.say("")
    parameters = {
        name: value
        for name, value in details["parameters"].items()
        if own or not name.startswith("OS::")
    }
    _pairs("parameters", parameters)
    lines = values.output_lines(root)
    terminal.say("outputs" if lines else "outputs      none")
    for line in lines:
        terminal.say(line)
    return ExitCode.OK


def _pairs(title: str, pairs: Mapping[str, Any]) -> None:
    terminal.say(title if pairs else f"{terminal.padded(title, 12)} none")
    for name, value in pairs.items():
        terminal.say(f"  {terminal.line(name)} = {terminal.line(_text(value))}")


def _text(value: object) -> str:
    return (
        value.rstrip()
        if isinstance(value, str)
        else json.dumps(value, ensure_ascii=False)
    )


def outputs(options: argparse.Namespace) -> int:
    """List the outputs of a stack."""
    root = _root(options)
    shown = (
        [values.output(root, name) for name in root.definition.outputs]
        if root.defined
        else []
    )
    if options.json:
        envelope.result({"outputs": shown})
        return ExitCode.OK
    rows = [(each["output_key"], each["description"] or "-") for each in shown]
    empty = f"no outputs of {root.name}"
    return _table(rows, ("NAME", "DETAILS"), empty)


def output(options: argparse.Namespace) -> int:
    """Print an output's value, and nothing else."""
    root = _root(options)
    names = list(root.definition.outputs) if root.defined else []
    if options.all or not options.output:
        answer: Any = [
            values.output(root, name, reveal=options.reveal) for name in names
        ]
        if options.json:
            envelope.begin("outputs", is_on=True)
            envelope.result({"outputs": answer})
            return ExitCode.OK
        if not answer:
            terminal.say(f"no outputs of {root.name}")
        for row in answer:
            terminal.say(
                f"{terminal.line(row['output_key'])} = {terminal.line(values.written(row))}"
            )
        return ExitCode.OK
    if options.output not in names:
        raise NotFoundError(
            f"{root.name} has no output {options.output!r}",
            hint=among(options.output, names),
            subject=("output", options.output),
        )
    answer = values.output(root, options.output, reveal=options.reveal, exact=True)
    if answer["output_error"] is not None:
        raise AgentError(
            f"the output {options.output} has no value: {answer['output_error']}"
        )
    if options.json:
        envelope.result(answer)
    else:
        terminal.say(terminal.plain(values.written(answer)))
    return ExitCode.OK


def resources(options: argparse.Namespace) -> int:
    """List the resources of a stack."""
    root = _root(options)
    shown = [
        values.resource(path, each)
        for path, each in values.every(root, options.nested_depth)
    ]
    if options.json:
        envelope.result({"resources": shown})
        return ExitCode.OK
    rows = [
        (
            str(each["resource_name"]),
            str(each["state"]),
            str(each["action"] or "-"),
            str(each["resource_type"]),
            when(each["since"]),
            *((str(each["physical_resource_id"] or "-"),) if options.wide else ()),
            str(each["message"]),
        )
        for each in shown
    ]
    more = ("ID",) if options.wide else ()
    header = ("NAME", "STATE", "ACTION", "TYPE", "SINCE", *more, "DETAILS")
    return _table(rows, header, f"no resources of {root.name}")


def resource(options: argparse.Namespace) -> int:
    """Show a resource."""
    root = _root(options)
    all_ = dict(values.every(root, options.resource.count("/")))
    if options.resource not in all_:
        raise _no_resource(root, options.resource, all_)
    details = values.resource_in_full(root, options.resource, all_[options.resource])
    runs, why = _runs(options, root, options.resource)
    if why:
        terminal.warn(f"the runs of {options.resource} are not shown: {why}")
    if options.json:
        envelope.result({**details, "runs": runs})
        return ExitCode.OK
    state = f"{terminal.stated(details['state'])} ({details['resource_status']})"
    facts = {
        "name": details["resource_name"],
        "state": f"{state}, since {when(details['since'])}",
        "why": details["message"],
        "type": details["resource_type"],
        "host": _host(root, all_[options.resource].record),
        "needs": ", ".join(details["requires"]),
        "needed by": ", ".join(details["required_by"]),
        "created": when(details["creation_time"]),
        "id": details["physical_resource_id"],
    }
    for key, value in facts.items():
        if value:
            text = terminal.line(value) if key != "state" else value
            terminal.say(f"{terminal.padded(key, 12)} {text}")
    for part in ("metadata", "attributes"):
        if details[part]:
            _pairs(part, details[part])
    if runs:
        from heat_config_agent.cli.deployments import kept_runs  # noqa: PLC0415  # few stacks have hosts

        log = f"{root.name}/{options.resource}"
        command = state_options.of(options).command("log", log, "--run", "N")
        terminal.say(f"\nruns (`{command}` prints the output of run N)")
        rows = [_row_of(each) for each in runs]
        for line in terminal.table(rows, header=kept_runs.HEADER):
            terminal.say(line)
    return ExitCode.OK


def _runs(
    options: argparse.Namespace, root: Stack, path: str
) -> tuple[list[dict[str, Any]] | None, str]:
    """Return the runs of a resource that its host has, and why they are not known; none if no host has it."""
    if all(each.host is None for each in root.world.store.deployments.values()):
        return None, ""
    from heat_config_agent.cli import stack_package  # noqa: PLC0415  # few stacks have hosts
    from heat_config_agent.cli.deployments import elsewhere  # noqa: PLC0415

    others = stack_package.elsewhere(state_options.of(options), root.name, path)
    return elsewhere.runs_of(others[0]) if others else (None, "")


def _row_of(run: Mapping[str, Any]) -> tuple[str, ...]:
    seconds = run["run_seconds"]
    return (
        str(run["run"]),
        str(run["state"]),
        str(run["action"] or "-"),
        when(run["started"]),
        "-" if seconds is None else terminal.duration(seconds),
        str(run["reason"]).replace("\n", "; "),
    )


def _host(root: Stack, record: ResourceRecord) -> str:
    """Return the other host that a resource is, or that carries it out; empty for this machine."""
    host = placing.host_of_resource(root.world.store, record)
    if host is None:
        return ""
    from heat_config_stack.hosts.host import Host  # noqa: PLC0415  # few stacks have hosts

    return Host.from_json(host).title


def _no_resource(root: Stack, path: str, known: Mapping[str, object]) -> NotFoundError:
    return NotFoundError(
        f"{root.name} has no resource {path!r}",
        hint=among(path, known),
        subject=("resource", f"{root.name}/{path}"),
    )


def events(options: argparse.Namespace) -> int:
    """List the events, oldest first."""
    root = _root(options)
    _check_resource(root, options.resource)
    shown = _events(root, options.resource)
    conceal = root.world.conceal
    rows = [
        heat_events.event(event, root.name, conceal)
        for event in (shown[-options.limit :] if options.limit else shown)
    ]
    if options.follow:
        return _follow(options, root, rows, len(shown))
    if options.json:
        envelope.result({"events": rows})
        return ExitCode.OK
    return _table(list(map(_cells, rows)), _EVENTS, f"no events of {root.name}")


_EVENTS = ("TIME", "NAME", "STATE", "ACTION", "DETAILS")

_ROOM = (24, 20, 8, 8)
"""The widths of the columns of events that are printed one after the other."""

_PAUSE = 0.5
"""Seconds between two looks at the events of a stack."""


def _events(root: Stack, resource: str | None) -> list[Mapping[str, Any]]:
    return [
        event for event in root.world.store.events if resource in (None, event["path"])
    ]


def _cells(event: Mapping[str, Any]) -> tuple[str, ...]:
    subject = event["subject"]
    name = f"stack {subject['name']}" if subject["kind"] == "stack" else subject["name"]
    return (
        when(event["event_time"]),
        name,
        str(event["state"]),
        str(event["action"]),
        str(event["message"]),
    )


def _follow(
    options: argparse.Namespace,
    root: Stack,
    rows: Sequence[Mapping[str, Any]],
    seen: int,
) -> int:
    """Print events, and go on with new ones until no action of the stack is running."""
    import time  # noqa: PLC0415  # only with --follow

    from heat_config_stack.cli.stack import sessions  # noqa: PLC0415  # it is loaded

    settings = state_options.of(options)
    printed = list(rows)
    while True:
        for event in rows:
            _print_event(event, as_json=options.json)
        if root.record.status != IN_PROGRESS or values.interrupted(
            settings, root.record
        ):
            break
        time.sleep(_PAUSE)
        if listing.kept(settings.state, root.name) is None:
            break  # it was deleted
        root = sessions.look(settings, root.name, lambda _text: None)
        events_now = _events(root, options.resource)
        new = events_now[seen:] if len(events_now) >= seen else events_now
        seen = len(events_now)
        rows = [heat_events.event(each, root.name, root.world.conceal) for each in new]
        printed += rows
    if options.json:
        envelope.result({"events": printed})
    return ExitCode.OK


def _print_event(event: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        envelope.event(event)
        return
    *cells, details = map(terminal.line, _cells(event))
    line = "  ".join(
        terminal.stated(cell) + " " * (room - terminal.columns(cell))
        for cell, room in zip(cells, _ROOM, strict=True)
    )
    terminal.say(f"{line}  {details}".rstrip())


def failures(options: argparse.Namespace) -> int:
    """List the resources that have failed, with the last lines of their output."""
    from heat_config_stack.cli.stack import failed  # noqa: PLC0415  # the list of stacks needs none of it

    settings = state_options.of(options)
    root = _root(options)
    shown = failed.failures(settings, root, all_lines=options.wide)
    if options.json:
        envelope.result({"failures": shown})
        return ExitCode.OK
    header = ("NAME", "STATE", "ACTION", "TYPE", "DETAILS")
    rows = [
        (
            str(each["resource_name"]),
            str(each["state"]),
            str(each["action"]),
            str(each["resource_type"] or "-"),
            str(each["message"]),
        )
        for each in shown
    ]
    lines = terminal.table(rows, header=header, empty=f"no failures of {root.name}")
    terminal.say(lines[0])
    for each, line in zip(shown, lines[1:], strict=False):
        terminal.say(line)
        for said in each["last_lines"]:
            terminal.say(f"  | {terminal.line(said)}")
        if each["log"]:
            terminal.say(f"  all output: `{terminal.line(each['log'])}`")
    return ExitCode.OK


def nodes(options: argparse.Namespace) -> int:
    """List the nodes of a service with their states."""
    root = _root(options)
    shown = values.nodes(root)
    if options.json:
        envelope.result({"nodes": shown})
        return ExitCode.OK
    rows = [
        (
            str(each["node"]),
            str(each["state"]),
            str(each["type"]),
            str(each["host"] or "-"),
            str(each["node_state"]),
        )
        for each in shown
    ]
    header = ("NAME", "STATE", "TYPE", "HOST", "DETAILS")
    return _table(rows, header, f"no nodes of {root.name}")


def node(options: argparse.Namespace) -> int:
    """Show a node with its attributes and its operations."""
    root = _root(options)
    defined = root.defined.nodes if root.defined else {}
    if options.node not in defined:
        listed = f"`{state_options.of(options).command('stack', 'node', 'list', root.name)}` shows them all"
        raise NotFoundError(
            f"the stack {root.name} has no node {options.node}",
            hint=meant(options.node, defined) or listed,
            subject=("node", f"{root.name}/{options.node}"),
        )
    details = values.node_in_full(root, options.node)
    if options.json:
        envelope.result(details)
        return ExitCode.OK
    state = f"{terminal.stated(details['state'])} ({details['node_state']})"
    facts = {
        "name": details["node"],
        "state": state,
        "type": details["type"],
        "host": details["host"],
    }
    for key, value in facts.items():
        text = value if key == "state" else terminal.line(value or "-")
        terminal.say(f"{terminal.padded(key, 12)} {text}")
    for title in ("attributes", "operations"):
        if details[title]:
            _pairs(title, details[title])
    return ExitCode.OK


def _check_resource(root: Stack, path: str | None) -> None:
    """Raise NotFoundError if a stack has no resource at a path, and has had none."""
    past = {event["path"] for event in root.world.store.events}
    if (
        path
        and path not in past
        and path not in (names := dict(values.every(root, path.count("/"))))
    ):
        raise _no_resource(root, path, names)


def _root(options: argparse.Namespace) -> Stack:
    from heat_config_stack.cli.stack import sessions  # noqa: PLC0415  # the list of stacks needs none of it

    return sessions.look(state_options.of(options), options.name)
