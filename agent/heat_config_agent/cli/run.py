"""`heat-config-agent run`: the daemon: poll for deployments, apply them, signal their results, all the time."""

from __future__ import annotations

import argparse
import os
import signal
import threading
import time
from functools import partial

from heat_config_agent import lock, settings
from heat_config_agent.cli import chosen, progress, terminal
from heat_config_agent.errors import ExitCode, UsageError
from heat_config_agent.loop import Daemon
from heat_config_agent.model import Entry, Run
from heat_config_agent.notify import Notifier
from heat_config_agent.plan import Step
from heat_config_agent.report import Report
from heat_config_agent.signals import Fate, Outcome

_EPILOG = """\
Settings are in /etc/heat-config-agent/*.conf and /etc/os-collect-config.conf, or in FILE alone, which may have either
form; `heat-config-agent config` shows them. What Heat's metadata says of transports and credentials is taken over once
it has been seen to work.

HUP reads the settings again, USR1 polls now, TERM ends the daemon: what runs goes on, and the next start follows it.

exit codes:
  0    ended by TERM or INT; with --once, all is well
  1    with --once: a deployment failed, or a document, or an entry of one, could not be read
  2    bad usage or configuration
  3    with --once: Heat did not answer; or, where there is no way to Heat, no source did
  4    another agent holds the lock
  5    with --once: all ran well, but a result could not be delivered
  6    with --once: a deployment waits for a reboot of the machine
  130  with --once: interrupted; what was running goes on
"""


def add(commands: chosen.Commands) -> None:
    """Declare the command."""
    parser = chosen.command(
        commands, "run", "the daemon: poll, apply and signal, all the time", __doc__, epilog=_EPILOG
    )
    parser.add_argument("--once", action="store_true", help="ask every source once, do what there is to do, and end")
    parser.add_argument("--json", action="store_true", help="with --once: print one JSON object at the end")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Work until told to end, or once."""
    if options.json and not options.once:
        raise UsageError("--json is for one pass", hint="with --once; `heat-config-agent status --json` shows a daemon")
    reread = partial(settings.make, os.environ, config=options.config, state=options.state_dir)
    given = reread()
    for number in (signal.SIGHUP, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)  # from here on others may send them; the daemon heeds them once it works
    with lock.held(given.state, "" if options.once else lock.DAEMON):
        if options.once:
            return _once(given, reread, as_json=options.json)
        threading.excepthook = lambda found: terminal.defect(found.exc_value)
        Daemon(given, reread, Log(), Notifier(os.environ)).run()
    return ExitCode.OK


def _once(given: settings.Settings, reread: partial[settings.Settings], *, as_json: bool) -> int:
    report: progress.Lines | progress.Collected = progress.Collected() if as_json else progress.Lines(given.state)
    daemon = Daemon(given, reread, report, Notifier({}), once=True)
    try:
        daemon.once(report.refresh, report.interval)
    finally:
        report.clear()
    entries = daemon.entries
    code = progress.exit_code(daemon.steps, entries, daemon.mistakes)
    if daemon.interrupted:
        code = ExitCode.INTERRUPTED
    elif code is ExitCode.OK and (daemon.unheard or not daemon.answered):
        code = ExitCode.NO_SOURCE
        who = ", ".join(daemon.unheard) or "any source"
        report.warn(f"no answer from {who}: it is not known what there is to do")
    report.summary(daemon.steps, entries, daemon.mistakes, code)
    return code


class Log(Report):
    """A line for whatever happens, on standard error: for the journal with its priority, else with the time."""

    def __init__(self) -> None:
        """See who reads it."""
        self._journal = bool(os.environ.get("JOURNAL_STREAM"))

    def begun(self, step: Step, run: Run) -> None:
        since = f", which process {run.pid} has run for a while" if step.reason.startswith("started earlier") else ""
        action = f"{step.deployment.action} " if step.deployment.action else ""
        self._say(5, f"{_name(step)}: {action}begins with {progress.tool(step)}{since}")

    def ended(self, step: Step, entry: Entry) -> None:
        took = f" after {terminal.duration(entry.ended - entry.started)}" if entry.started and entry.ended else ""
        why = entry.reason or (step.reason if entry.failed or not entry.run else "")
        word, priority = ("FAILED", 3) if entry.failed else ("done", 5)
        self._say(priority, f"{_name(step)}: {word}{took}{_because(why)}")

    def reboot(self, step: Step, entry: Entry) -> None:
        self._say(5, f"{_name(step)}: asks for a reboot of the machine, and goes on after it ({entry.reboots})")

    def resent(self, step: Step) -> None:
        self._say(6, f"{_name(step)}: its result is sent again")

    def skipped(self, step: Step) -> None:
        """Nobody needs to hear this at every poll."""

    def postponed(self, step: Step, why: str) -> None:  # noqa: ARG002
        self._say(4, f"{why}; it is tried again")

    def delivered(self, entry: Entry, outcome: Outcome | None) -> None:
        name = terminal.line(entry.name)
        if outcome is None:
            self._say(4, f"{name}: its result is not sent: its deployment has been replaced")
        elif outcome.fate is Fate.SENT:
            self._say(6, f"{name}: its result is delivered")
        elif outcome.fate is Fate.REFUSED:
            self._say(3, f"{name}: its result was refused for good, and is not sent again: {outcome.trouble}")
        elif entry.tries == 1:
            self._say(4, f"{name}: its result could not be delivered yet: {outcome.trouble}")

    def warn(self, text: str) -> None:
        self._say(4, text)

    def note(self, text: str) -> None:
        self._say(6, text)

    def _say(self, priority: int, text: str) -> None:
        line = terminal.line(text)
        before = f"<{priority}>" if self._journal else time.strftime("%Y-%m-%d %H:%M:%S ")
        terminal.say(f"{before}{line}", error=True)


def _name(step: Step) -> str:
    return step.deployment.name


def _because(why: str) -> str:
    return f": {why}" if why else ""
