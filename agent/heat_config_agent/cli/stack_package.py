"""The package `heat_config_stack`, as the agent knows it: the commands that it adds, and what other commands ask of it.

Nothing else of the agent names that package. It is loaded when one of its commands runs, when a file is a template, or
when there is a stack to look at; the agent carries out documents without it.
"""

from __future__ import annotations

from heat_config_agent.model import wording
from heat_config_agent.model.states import Shown, of_stack
from heat_config_hooks.values import dataclass, replace

TYPE_CHECKING = False  # as typing has it, which takes long to load
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from pathlib import Path
    from subprocess import Popen
    from types import SimpleNamespace

    from heat_config_agent.cli.completion.line import Line, Offer
    from heat_config_agent.model.positions import Json
    from heat_config_agent.runs.tools import Tools
    from heat_config_agent.settings.effective import Settings
    from heat_config_agent.state.followed import Followed
    from heat_config_agent.verification.machine import Ground
    from heat_config_stack.records.listing import Kept
    from heat_config_stack.records.records import ResourceRecord

COMMANDS = {
    "hosts": "heat_config_stack.cli.hosts",
    "policy": "heat_config_stack.cli.policy",
    "sign": "heat_config_stack.cli.sign",
    "source": "heat_config_stack.cli.source",
    "stack": "heat_config_stack.cli.stack.commands",
    "template": "heat_config_stack.cli.template",
}
"""Command → the module that declares it."""


def apply(
    settings: Settings,
    file: str,
    options: SimpleNamespace | argparse.Namespace,
    content: bytes | None,
) -> int:
    """Create or update the stack of a template, and return the exit code of `heat-config-apply`."""
    from heat_config_stack.cli.stack import operations  # noqa: PLC0415  # slow to load

    return operations.apply(settings, file, options, content)


def names(state: Path) -> Sequence[str]:
    """Return the names of the stacks in a state directory."""
    if not (state / "stacks").is_dir():  # most machines have no stacks
        return ()
    from heat_config_stack.records import listing  # noqa: PLC0415

    return listing.names(state)


@dataclass(frozen=True, kw_only=True)
class StackRow:
    """A stack at one moment, as `status` shows it."""

    name: str
    state: Shown
    id: str = ""
    action: str = ""
    status: str = ""
    """Heat's status, such as CREATE_COMPLETE; empty if its records cannot be read."""
    since: float = 0.0
    resources: int = 0
    message: str = ""
    """The reason of a failure, the command that continues an interrupted action, or the number of resources."""
    has_failed: bool = False
    """True if its last action or a workflow of it has failed, or its records are damaged."""
    alarm: str = ""
    """A sentence about a problem that needs attention; empty if nothing is wrong."""
    asked: str = ""
    """A sentence about deployments that a person asked for again; empty if there are none."""

    def values(self) -> dict[str, object]:
        """Return it as JSON."""
        return {
            "id": self.id or None,
            "stack_name": self.name,
            "stack_status": self.status or None,
            "state": self.state.value,
            "action": self.action or None,
            "since": wording.stamp(self.since or None),
            "resources": self.resources,
            "message": self.message,
            "asked": self.asked,
        }


def stack_rows(settings: Settings) -> list[StackRow]:
    """Return the stacks of a state directory, by name, each with its state and the reason of a failure."""
    rows = (stack_row(settings, name) for name in names(settings.state))
    return [row for row in rows if row is not None]


def stack_row(settings: Settings, name: str) -> StackRow | None:
    """Return a stack; None if nothing of it has been done yet."""
    stack = kept(settings.state, name)
    if stack is None or stack.blank:
        return None
    record = stack.record
    if record is None:
        why = f"its records cannot be read: {stack.trouble}"
        return StackRow(
            name=name,
            state=Shown.UNKNOWN,
            message=why,
            has_failed=True,
            alarm=f"stack {name}: {why}",
        )
    row = StackRow(
        name=name,
        state=of_stack(record.status),
        id=record.id,
        action=record.action,
        status=f"{record.action}_{record.status}",
        since=record.updated or record.created,
        resources=stack.resources,
        message=f"{stack.resources} resource{'' if stack.resources == 1 else 's'}",
        asked=_asked(settings, stack),
    )
    if record.status == "FAILED" or row.status == "ROLLBACK_COMPLETE":
        from heat_config_stack.cli.stack import sessions  # noqa: PLC0415  # slow to load

        why = sessions.why_failed(settings, name)
        message = why.removeprefix(f"{row.status}: ")
        return replace(
            row,
            state=Shown.FAILED,
            message=message,
            has_failed=True,
            alarm=f"stack {name}: {why}",
        )
    if sentence := interrupted(settings, stack):
        return replace(row, state=Shown.UNKNOWN, message=sentence, alarm=sentence)
    if why := _failed_parts(settings, name, stack):
        return replace(
            row,
            state=Shown.FAILED,
            message=why,
            has_failed=True,
            alarm=f"stack {name}: {why}",
        )
    return row


def _asked(settings: Settings, stack: Kept) -> str:
    if not stack.asked:
        return ""
    from heat_config_stack.cli.stack import values  # noqa: PLC0415  # slow to load

    return values.repeated(settings, stack)


def _failed_parts(settings: Settings, name: str, stack: Kept) -> str:
    """Return why a stack has failed though its last action has not; empty if it has not.

    The last run of a workflow may have failed, or a DELETE of an earlier action may still be due.
    """
    reasons = [
        f"the workflow {workflow} has failed: {why}"
        for workflow, why in stack.workflows
    ]
    if stack.left:
        from heat_config_stack.cli.stack import sessions  # noqa: PLC0415  # slow to load

        reasons.append(sessions.why_left(settings, name, stack.left))
    return "; ".join(reasons)


def show(kind: str, options: argparse.Namespace) -> int:
    """Show a stack, a resource of one, or a source, as the command of its own does; return the exit code."""
    if kind == "source":
        from heat_config_stack.cli import source  # noqa: PLC0415  # slow to load

        return source.show(options)
    from heat_config_stack.cli.stack import queries  # noqa: PLC0415  # slow to load

    return queries.resource(options) if kind == "resource" else queries.stack(options)


def followed_records(settings: Settings) -> list[Followed]:
    """Return the records of sources that are or were followed, each compared with the machine as it is now.

    A section whose source was never asked has an empty record.
    """
    if not settings.followed and not (settings.state / "follow").is_dir():
        # most machines follow nothing
        return []
    from heat_config_agent.state import followed, health  # noqa: PLC0415
    from heat_config_stack.follow import in_step  # noqa: PLC0415

    records = followed.with_troubles(
        followed.records(settings.state), health.unrecorded(settings.state)
    )
    asked = {record.name for record in records}
    records += [
        followed.Followed(name=name) for name in settings.followed if name not in asked
    ]
    return [
        replace(record, drift=in_step.drift(settings.state, record))
        for record in records
    ]


def records_file(state: Path, name: str) -> Path:
    """Return the file with the records of a stack, which changes with its state. Raises UsageError for a bad name."""
    from heat_config_stack.records import listing, store  # noqa: PLC0415

    return listing.folder(state, name) / store.FILE


def kept(state: Path, name: str) -> Kept | None:
    """Return the record of a stack, also while another process works on it; None if there is no such stack."""
    from heat_config_stack.records import listing  # noqa: PLC0415

    return listing.kept(state, name)


def interrupted(settings: Settings, stack: Kept) -> str:
    """Return that the action of a stack was interrupted, and which command continues it; empty if it was not."""
    if stack.record is None or stack.record.status != "IN_PROGRESS":
        return ""
    from heat_config_stack.cli.stack import values  # noqa: PLC0415  # slow to load

    return values.interrupted(settings, stack.record)


def deployments(settings: Settings) -> Sequence[tuple[str, Path, str]]:
    """Return `STACK/RESOURCE`, the folder of its journal and its id, of each deployment of all stacks."""
    if not names(settings.state):
        return ()
    from heat_config_stack.cli.stack import sessions  # noqa: PLC0415

    return sessions.all_deployments(settings)


def verifiable(
    settings: Settings, stack: str, tools: Tools
) -> tuple[Ground, Collection[str]]:
    """Return what the verification of a stack's deployments needs, and the ids of the deployments in force.

    The deployments of a suspended stack are not in force. Raises StateError.
    """
    from heat_config_stack.lifecycle import verification  # noqa: PLC0415  # slow to load

    return verification.stored(folder(settings.state, stack), settings, tools)


def stack_ids(settings: Settings) -> list[tuple[str, str]]:
    """Return the name and the id of each stack; the id is empty if the records cannot be read."""
    stacks = [kept(settings.state, name) for name in names(settings.state)]
    return [
        (stack.name, stack.record.id if stack.record else "")
        for stack in stacks
        if stack is not None and not stack.blank
    ]


def resources(settings: Settings, stack: str) -> Mapping[str, ResourceRecord]:
    """Return the records of all resources of a stack by their paths; none if there is no such stack."""
    if stack not in names(settings.state):
        return {}
    from heat_config_stack.cli.stack import sessions  # noqa: PLC0415

    return sessions.all_resources(settings, stack)


def folder(state: Path, name: str) -> Path:
    """Return the folder of a stack, which is the state directory of its deployments. Raises UsageError."""
    from heat_config_stack.records import listing  # noqa: PLC0415

    return listing.folder(state, name)


def events(settings: Settings, name: str) -> Iterable[dict[str, Json]]:
    """Return the events of a stack that are kept, oldest first, as JSON."""
    from heat_config_stack.cli.stack import happened  # noqa: PLC0415  # slow to load

    return happened.events(settings, name)


@dataclass(frozen=True, kw_only=True)
class Elsewhere:
    """A deployment of a stack that another host carries out."""

    title: str
    """`STACK/RESOURCE`."""
    host: Json
    place: str
    """The host for people."""
    stack: str
    """The id of the stack."""
    deployment: str
    """Its id in the stack."""
    run: str
    """The id of the last run."""
    source: str
    """The name that stands for all its runs on the host."""
    is_open: bool
    """True if its last run has not ended, as far as this machine knows."""


def elsewhere(
    settings: Settings, stack: str, path: str | None = None
) -> list[Elsewhere]:
    """Return the deployments of a stack on other hosts: all of them, or the deployment at a path."""
    from heat_config_stack.cli.stack import placed  # noqa: PLC0415  # slow to load

    return [
        Elsewhere(
            title=f"{stack}/{each.path}",
            host=each.host,
            place=each.place,
            stack=each.stack,
            deployment=each.deployment,
            run=each.run,
            source=each.source,
            is_open=each.is_open,
        )
        for each in placed.elsewhere(settings, stack)
        if path in (None, each.path)
    ]


def log_elsewhere(one: Elsewhere, words: Sequence[str]) -> int:
    """Print the output of a deployment as its host has it, and return the exit code of the command there.

    If the words choose a run, it is one of all runs of the deployment.
    """
    from heat_config_stack.hosts import asking  # noqa: PLC0415  # few stacks have hosts

    chooses = any(each in ("--run", "--failed") for each in words)
    name = one.source if chooses else one.run
    return asking.ask(one.host, one.stack, "log", [*words, name])


def logs_elsewhere(ones: Sequence[Elsewhere], words: Sequence[str]) -> str:
    """Return what `log --json` prints about each of some deployments of one host. Raises AgentError."""
    from heat_config_stack.hosts import asking  # noqa: PLC0415  # as above

    first = ones[0]
    chooses = "--failed" in words
    names = [each.source if chooses else each.run for each in ones]
    return asking.answer(first.host, first.stack, "logs", [*names, "--json", *words])


def follow_elsewhere(one: Elsewhere, words: Sequence[str]) -> Popen[bytes]:
    """Begin to print the output of a deployment on its host while it grows; return the client. Raises AgentError."""
    from heat_config_stack.hosts import asking  # noqa: PLC0415  # as above

    return asking.begin(
        one.host, one.stack, "log", ["--follow", "--quiet", *words, one.run]
    )


def show_elsewhere(ones: Sequence[Elsewhere]) -> str:
    """Return what `show --json` prints about a deployment on its host. Raises AgentError."""
    from heat_config_stack.hosts import asking  # noqa: PLC0415  # as above

    (one,) = ones
    return asking.answer(one.host, one.stack, "show", ["--json", one.source])


def stop_elsewhere(ones: Sequence[Elsewhere], words: Sequence[str]) -> str:
    """Return what `stop --json` prints about deployments of one host there. Raises AgentError."""
    from heat_config_stack.hosts import asking  # noqa: PLC0415  # as above

    first = ones[0]
    names = [each.run for each in ones]
    return asking.answer(
        first.host, first.stack, "stop", ["--json", "--yes", *words, *names]
    )


def verify_elsewhere(ones: Sequence[Elsewhere]) -> str:
    """Return what `verify --json` prints about deployments of one host there. Raises AgentError."""
    from heat_config_stack.hosts import asking  # noqa: PLC0415  # as above

    first = ones[0]
    return asking.answer(
        first.host, first.stack, "verify", ["--json", *(each.run for each in ones)]
    )


def run_again(settings: Settings, stack: str, deployment: str, *, as_new: bool) -> str:
    """Have a deployment of a stack run again in the stack's next action, and return how that is begun.

    With `as_new`, it counts as never made. Raises AgentError.
    """
    from heat_config_stack.cli.stack import operations  # noqa: PLC0415

    return operations.request_run(settings, stack, deployment, as_new=as_new)


def offers(
    kind: str, line: Line, word: str, settings: Callable[[Line], Settings]
) -> Iterable[Offer]:
    """Return the completions of a word for something of a stack or of a template."""
    from heat_config_stack.cli import completion  # noqa: PLC0415  # slow to load

    return completion.offers(kind, line, word, settings)
