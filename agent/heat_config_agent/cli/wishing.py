"""Asking the agent for something: done at once where no agent is running, else by it."""

from __future__ import annotations

from heat_config_agent import asked, journal, lock
from heat_config_agent.asked import Wish
from heat_config_agent.cli import pausing, terminal
from heat_config_agent.deployed import Deployed
from heat_config_agent.errors import ExitCode, LockedError, StateError
from heat_config_agent.model import Entry
from heat_config_agent.settings import Settings


def wish(settings: Settings, entry: Entry, what: Wish) -> int:
    """Leave the request, and carry it out if nobody else will."""
    asked.ask(settings.state, entry.key, what)
    try:
        with lock.held(settings.state):
            book = journal.Journal(settings.state)
            for warning in book.warnings:
                terminal.say(f"warning: {terminal.line(warning)}", error=True)
            done, wrong = asked.carry_out(settings.state, book, Deployed(settings.deployed))
            for line in done:
                terminal.say(terminal.line(line))
            book.sync()
            book.close()
            if wrong:
                raise StateError("; ".join(wrong))
    except LockedError as error:
        process = pausing.wake(settings.state)
        when = f"process {process} does it now" if process else f"{error.brief} and does it at its next run"
        terminal.say(f"asked for; {when}")
    return ExitCode.OK
