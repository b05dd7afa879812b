"""Requests about one deployment: carried out at once if no agent is running, or else by the agent."""

from __future__ import annotations

from heat_config_agent.cli import pause, terminal
from heat_config_agent.model.entry import Entry
from heat_config_agent.model.errors import ExitCode, LockedError, StateError
from heat_config_agent.settings.effective import Settings
from heat_config_agent.state import asked, health, journal, lock, requests
from heat_config_agent.state.deployed import Deployed, begun_elsewhere
from heat_config_agent.state.requests import Wish

_WORDS = {Wish.AGAIN: ("retry", "runs"), Wish.SEND: ("delivery", "sends"), Wish.FORGET: ("removal", "removes")}
"""Request → its noun, and the verb for what the agent does."""


def wish(settings: Settings, entry: Entry, request: Wish) -> int:
    """Store the request for the agent, and carry it out here if no agent is running."""
    requests.ask(settings.state, entry.key, request)
    try:
        with lock.held(settings.state):
            book = journal.Journal(settings.state)
            for warning in book.warnings:
                terminal.say(f"warning: {terminal.line(warning)}", error=True)
            done, wrong = requests.carry_out(settings.state, book, Deployed(settings.deployed))
            for line in done:
                terminal.say(terminal.line(line))
            book.sync()
            book.close()
            if wrong:
                raise StateError("; ".join(wrong))
    except LockedError as error:
        process = pause.wake(settings.state)
        noun, verb = _WORDS[request]
        if request is Wish.AGAIN and asked.paused(settings.state):
            when = f"the agent is paused, and runs it after `{settings.command('resume')}`"
        elif request is Wish.AGAIN and _applied_by_hand(settings, entry):
            when = f"it runs when its document ({entry.source}) is applied again: no source of the agent has it"
        elif process:
            when = f"the agent (process {process}) {verb} it now"
        else:
            when = f"{error.brief}, and does it in its next run"
        terminal.say(terminal.line(f"{noun} requested: {when}"))
    return ExitCode.OK


def take_over(settings: Settings, wanted: str) -> bool:
    """Forget that another agent has begun the deployment with this id; return whether one has.

    If the metadata still has the deployment, it is new and runs.
    """
    if not wanted or wanted not in begun_elsewhere(settings.deployed, journal.read(settings.state)):
        return False
    try:
        Deployed(settings.deployed).forget(wanted)
    except OSError as error:
        raise StateError(f"cannot remove {error.filename}: {error.strerror}") from error
    told = pause.wake(settings.state)
    when = "now" if told else "in the next run"
    terminal.say(
        terminal.line(f"{wanted}: the record of another agent is removed; if the metadata has it, it runs {when}")
    )
    return True


def _applied_by_hand(settings: Settings, entry: Entry) -> bool:
    """Return whether a deployment came from a file that heat-config-apply was given, and that the agent never reads."""
    sources = health.read(settings.state).get("sources")
    named = {each.get("name") for each in sources if isinstance(each, dict)} if isinstance(sources, list) else set()
    holder = lock.holder(settings.state)
    is_daemon = holder is not None and holder[1] == lock.DAEMON
    return is_daemon and entry.source.startswith(("file:", "stdin")) and entry.source not in named
