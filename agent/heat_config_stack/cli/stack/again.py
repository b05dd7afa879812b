"""One deployment of a stack, run again at a person's request: the next action of the stack carries it out in place."""

from __future__ import annotations

from heat_config_agent.model.errors import StateError, UsageError
from heat_config_agent.settings.effective import Settings
from heat_config_agent.state import journal, lock, requests
from heat_config_agent.state.deployed import Deployed
from heat_config_agent.state.requests import Wish
from heat_config_stack.cli.stack import sessions
from heat_config_stack.cli.stack.live_view import view_of
from heat_config_stack.lifecycle.session import Session
from heat_config_stack.records import listing
from heat_config_stack.records.records import FAILED, INIT, SUSPEND
from heat_config_stack.resource_types.operations import repeat

WHY = "a person asked for another run"
"""The reason of a resource whose deployment runs again."""


def request(settings: Settings, name: str, deployment: str, *, as_new: bool) -> str:
    """Have the next update of a stack carry out a deployment again, and return how that is begun.

    With `as_new`, the deployment counts as never made, and what is kept of its runs is removed. Raises AgentError.
    """
    with sessions.work(settings, name, view_of(name, as_json=False)) as session:
        root = session.root
        if root is not None and root.record.action == SUSPEND:
            raise UsageError(f"the stack {name} is suspended", hint=f"`{settings.command('stack', 'resume', name)}`")
        if session.interrupted:
            raise UsageError(
                f"the last action of the stack {name} was interrupted", hint="run its command again to continue it"
            )
        _mark(session, deployment, as_new=as_new)
    if as_new:
        _forget_runs(settings, name, deployment)
    return f"`{settings.command('stack', 'update', '--existing', name)}` begins it, and so does another apply"


def _mark(session: Session, deployment: str, *, as_new: bool) -> None:
    """Record that the action of a deployment's resource has to be repeated; those that contain it have to visit it."""
    store = session.store
    delivered = store.deployments.get(deployment)
    record = store.resources.get(delivered.resource) if delivered is not None else None
    if delivered is None or record is None:  # a run that failed before a rollback
        raise UsageError("that run is of a definition that the stack has left", hint="name the resource instead")
    repeat(record, as_new=as_new)
    if as_new:
        delivered.outputs = {}
        store.put(delivered)
    while record is not None:
        if record.action != INIT:
            record.status, record.reason = FAILED, WHY
            store.put(record)
        stack = store.stacks.get(record.stack)
        record = store.resources.get(stack.owner) if stack is not None and stack.owner else None
    store.flush(durable=True)


def _forget_runs(settings: Settings, name: str, deployment: str) -> None:
    """Remove the records, the output and the files of all runs of a deployment. Raises AgentError."""
    folder = listing.folder(settings.state, name)
    keys = [key for key, each in journal.read(folder).items() if each.source.endswith(f"/{deployment}")]
    for key in keys:
        requests.ask(folder, key, Wish.FORGET)
    with lock.held(folder):
        book = journal.Journal(folder)
        _, wrong = requests.carry_out(folder, book, Deployed(folder / "deployed"))
        book.sync()
        book.close()
    if wrong:
        raise StateError("; ".join(wrong))
