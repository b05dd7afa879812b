"""`stack cancel`: ends the action that is running of a stack, with the runs of its scripts.

The command that works on the stack is ended first, and its lock taken over. Then each run is ended with its whole tree
of processes, its result is recorded as that of any other failed run, and what has not begun never begins. The stack has
failed after that, or is rolled back if its action was begun so. A command that was killed before leaves the same work.
"""

from __future__ import annotations

import argparse
import os
import signal
import time

from heat_config_agent.cli import envelope, state_options, terminal
from heat_config_agent.model.errors import (
    AgentError,
    ExitCode,
    LockedError,
    UsageError,
)
from heat_config_agent.model.states import Shown
from heat_config_agent.settings.effective import Settings
from heat_config_agent.state import lock
from heat_config_stack.cli.stack import operations, sessions, values
from heat_config_stack.cli.stack.live_view import view_of
from heat_config_stack.lifecycle.live import Stack
from heat_config_stack.records import listing
from heat_config_stack.records.records import COMPLETE, ROLLBACK

_PATIENCE = 60.0
"""Seconds in which the command that works on the stack has to end."""

_AGAIN = 5.0
"""Seconds after which it is told again, which ends it at once."""

_PAUSE = 0.05


@operations.with_mistakes
def cancel(options: argparse.Namespace) -> int:
    """End the running action of a stack."""
    settings = state_options.of(options)
    root = sessions.look(settings, options.name, operations.reported_later)
    if not _is_working(root):
        state = f"{root.record.action}_{root.record.status}"
        raise UsageError(f"the stack {options.name} has no running action: {state}")
    _end_command(settings, options.name)
    began = time.monotonic()
    view = view_of(options.name, as_json=options.json)
    with sessions.work(
        settings,
        options.name,
        view,
        limit=options.wait_for,
        without_types=True,
        reach=operations.reaching(options),
    ) as session:
        if session.root is None or not _is_working(session.root):
            raise UsageError(f"the stack {options.name} has no running action any more")
        action = session.cancel(rollback=not options.no_rollback)
        root = session.root
        view.clear()
        return _ended(settings, options, root, action, time.monotonic() - began)


def _is_working(root: Stack) -> bool:
    from heat_config_stack.lifecycle import procedure  # noqa: PLC0415  # few stacks have workflows

    return bool(root.world.store.changing()) or procedure.unfinished(root) is not None


def _end_command(settings: Settings, name: str) -> None:
    """End the command that works on a stack. Raises LockedError if it does not end, and AgentError."""
    folder = listing.folder(settings.state, name)
    end, again = time.monotonic() + _PATIENCE, 0.0
    while (holder := lock.holder(folder)) is not None:
        if time.monotonic() > end:
            raise LockedError(f"the command (process {holder[0]}) does not end")
        if time.monotonic() >= again:
            _tell(holder[0])
            again = time.monotonic() + _AGAIN
        time.sleep(_PAUSE)


def _tell(process: int) -> None:
    try:
        os.kill(process, signal.SIGTERM)
    except ProcessLookupError:
        return
    except PermissionError as error:
        raise AgentError(
            f"the command (process {process}) runs as another user",
            hint="run this as that user, or as root",
        ) from error


def _ended(
    settings: Settings,
    options: argparse.Namespace,
    root: Stack,
    action: str,
    seconds: float,
) -> int:
    record = root.record
    is_back = record.action == ROLLBACK and record.status == COMPLETE
    is_well = is_back or record.action != ROLLBACK
    code = ExitCode.OK if is_well else ExitCode.FAILED
    data = values.stack(settings, root)
    outcome = "and rolled back" if is_back else ""
    took = terminal.duration(seconds)
    sentence = f"stack {options.name}: {action} was cancelled {outcome}".rstrip()
    again = settings.command("stack", "update", "--existing", options.name)
    if not is_well:
        sentence = f"stack {options.name}: ROLLBACK failed after {took}: {sessions.reason_of(root)}"
    if options.json:
        failure = envelope.Failure("failed", sentence, f"`{again}`")
        envelope.result(data, code=code, error=None if is_well else failure)
        return code
    if not is_well:
        operations.say_failure(sentence, [("try again", again)])
        return code
    state = terminal.stated(str(Shown.FAILED))
    pair = f"{record.action}_{record.status}"
    terminal.say(f"{sentence} in {took}; it is {state} ({pair})")
    terminal.note(f"`{again}` carries it out again")
    return code
