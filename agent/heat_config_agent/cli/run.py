"""`heat-config-agent run`: Run the daemon: poll for deployments, apply them, and signal their results."""

from __future__ import annotations

import argparse
import os
import signal
import threading
import time
from functools import partial

from heat_config_agent.cli import attempts, progress, state_options, terminal
from heat_config_agent.daemon.daemon import Daemon
from heat_config_agent.daemon.oneshot import once
from heat_config_agent.daemon.systemd import Notifier
from heat_config_agent.deployments.plan import Step
from heat_config_agent.deployments.redaction import concealer
from heat_config_agent.engine.report import Report
from heat_config_agent.model.entry import Entry, Run
from heat_config_agent.model.errors import ExitCode, UsageError
from heat_config_agent.settings import effective
from heat_config_agent.signals.delivery import Fate, Outcome
from heat_config_agent.state import lock

_EPILOG = """\
Settings are read from /etc/heat-config-agent/*.conf and /etc/os-collect-config.conf, or only from FILE, which may have
either form; `heat-config-agent config` shows them. Transports and credentials in Heat's metadata are stored as soon as
they have worked.

HUP reads the settings again, USR1 polls at once, and TERM ends the daemon. Runs that have begun go on, and the next
daemon follows them.

exit codes:
  0    ended by TERM or INT; with --once, success
  1    with --once: a deployment failed, or a document or an entry of it could not be read
  2    bad usage or configuration
  3    with --once: Heat did not answer, or no source did if no transport is known
  4    another agent holds the lock
  5    with --once: every run succeeded, but a result could not be delivered
  6    with --once: a deployment waits for a reboot of the machine
  130  with --once: interrupted; runs that have begun go on
"""


def add(commands: state_options.Commands) -> None:
    """Declare the command."""
    parser = state_options.command(commands, "run", "run the daemon: poll, apply and signal", __doc__, epilog=_EPILOG)
    parser.add_argument("--once", action="store_true", help="ask every source once, do the work, and exit")
    parser.add_argument("--json", action="store_true", help="with --once: print one JSON object at the end")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the daemon until a signal ends it, or a single pass."""
    if options.json and not options.once:
        raise UsageError(
            "--json requires --once", hint="`heat-config-agent status --json` shows the state of the daemon"
        )
    reread = partial(effective.make, os.environ, config=options.config, state=options.state_dir)
    settings = reread()
    for number in (signal.SIGHUP, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)  # others may send them from now on; the daemon handles them once it runs
    with lock.held(settings.state, "" if options.once else lock.DAEMON):
        if options.once:
            return _once(settings, as_json=options.json)
        threading.excepthook = lambda thread: terminal.defect(thread.exc_value)
        Daemon(settings, reread, Log(), Notifier(os.environ)).run()
    return ExitCode.OK


def _once(settings: effective.Settings, *, as_json: bool) -> int:
    report: progress.Lines | progress.Collected = progress.Collected() if as_json else progress.Lines(settings.state)
    try:
        done = once(settings, report, report.refresh, report.interval)
    finally:
        report.clear()
    steps, mistakes = list(done.steps), list(done.mistakes)
    code = progress.exit_code(steps, done.entries, mistakes)
    if done.interrupted:
        code = ExitCode.INTERRUPTED
    elif code is ExitCode.OK and (done.silent_transports or not done.answered):
        code = ExitCode.NO_SOURCE
        silent = ", ".join(done.silent_transports) or "any source"
        report.warn(f"no answer from {silent}, so deployments may be missing")
    report.summary(steps, done.entries, mistakes, code)
    return code


class Log(Report):
    """A line for each event on standard error: with a priority for the system's journal, or else with the time."""

    def __init__(self) -> None:
        """Find out whether the system's journal reads standard error."""
        self._journal = bool(os.environ.get("JOURNAL_STREAM"))

    def begun(self, step: Step, run: Run) -> None:
        deed = " ".join(filter(None, (step.deployment.action, f"({progress.tool(step)})")))
        if step.reason.startswith("started earlier"):
            self._say(5, f"{_name(step)}: follows {deed}, which is already running as process {run.pid}")
        else:
            self._say(5, f"{_name(step)}: begins {deed}")

    def ended(self, step: Step, entry: Entry) -> None:
        took = f" after {terminal.duration(entry.ended - entry.started)}" if entry.started and entry.ended else ""
        why = entry.reason or (step.reason if entry.failed or not entry.run else "")
        word, priority = ("FAILED", 3) if entry.failed else ("done", 5)
        self._say(priority, f"{_name(step)}: {word}{took}{_because(concealer(step.deployment).text(why))}")

    def reboot(self, step: Step, entry: Entry) -> None:
        self._say(5, f"{_name(step)}: asks for a reboot of the machine, and continues after it ({entry.reboots})")

    def retry(self, step: Step, entry: Entry) -> None:
        why = concealer(step.deployment).text(entry.reason)
        self._say(4, f"{_name(step)}: {why}; {attempts.next_attempt(entry)}")

    def resent(self, step: Step) -> None:
        self._say(6, f"{_name(step)}: the result is sent again")

    def skipped(self, step: Step) -> None:
        """Print nothing: every poll would repeat it."""

    def postponed(self, step: Step, why: str) -> None:  # noqa: ARG002
        self._say(4, f"{why}; the agent retries")

    def delivered(self, entry: Entry, outcome: Outcome | None) -> None:
        name = terminal.line(entry.name)
        if outcome is None:
            self._say(4, f"{name}: the result is not sent: the deployment has been replaced")
        elif outcome.fate is Fate.SENT:
            self._say(6, f"{name}: the result is delivered")
        elif outcome.fate is Fate.REFUSED:
            self._say(3, f"{name}: the result was refused for good, and is not sent again: {outcome.trouble}")
        elif entry.tries == 1:
            self._say(4, f"{name}: the result could not be delivered yet: {outcome.trouble}")

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
