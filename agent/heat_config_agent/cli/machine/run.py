"""`heat-config-agent run`: Run the daemon: poll for deployments, apply them, and signal their results."""

from __future__ import annotations

import argparse
import os
import signal
import threading
import time
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType

from heat_config_agent.cli import state_options, terminal
from heat_config_agent.cli.apply import progress
from heat_config_agent.daemon.daemon import Daemon
from heat_config_agent.daemon.oneshot import once
from heat_config_agent.daemon.systemd import Notifier
from heat_config_agent.engine import notices
from heat_config_agent.engine.events import Event, Message, Report
from heat_config_agent.model.errors import AgentError, ExitCode, UsageError, obstacle
from heat_config_agent.settings import effective
from heat_config_agent.signals.notices.notice import fields
from heat_config_agent.state import lock

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from heat_config_agent.signals.notices.journal import Journal

_EPILOG = """\
Settings are read from /etc/heat-config-agent/*.conf and /etc/os-collect-config.conf, or only from FILE, which may have
either form; `heat-config-agent config` shows them. Transports and credentials in Heat's metadata are stored as soon as
they have worked.

HUP reads the settings again, USR1 polls at once, and TERM ends the daemon. Runs that have begun go on, and the next
daemon follows them.

exit codes:
  0    ended by TERM or INT; with --once, success
  1    with --once: a deployment failed, or a document or an entry of it could not be read
  2    bad usage or settings; --json without --once
  3    with --once: Heat did not answer, or no source did if no transport is known
  4    another agent holds the lock
  5    with --once: every run succeeded, but a result could not be delivered
  6    with --once: a deployment waits for a reboot of the machine
  10   a state directory that cannot be used
  130  with --once: interrupted; runs that have begun go on
"""


def add(commands: state_options.Commands) -> None:
    """Declare the command."""
    parser = state_options.command(
        commands,
        "run",
        "run the daemon: poll, apply and signal",
        __doc__,
        epilog=_EPILOG,
    )
    parser.add_argument(
        "--once",
        action="store_true",
        help="ask every source once, do the work, and exit",
    )
    state_options.add_json(parser)
    parser.set_defaults(run=run, kind="apply")


def run(options: argparse.Namespace) -> int:
    """Run the daemon until a signal ends it, or a single pass."""
    if options.json and not options.once:
        raise UsageError(
            "--json requires --once",
            hint="`heat-config-agent status --json` shows the state of the daemon",
        )
    notifier = Notifier({} if options.once else os.environ)
    try:
        return _run(options, notifier)
    except AgentError as error:
        # systemd shows it after the end of the process
        notifier.status(f"not running: {terminal.line(str(error))}")
        raise
    except (OSError, MemoryError, ImportError) as error:
        notifier.status(f"not running: {terminal.line(obstacle(error))}")
        raise
    except Exception as error:
        notifier.status(
            f"ended by a defect: {type(error).__name__} (its log has the details)"
        )
        raise


def _run(options: argparse.Namespace, notifier: Notifier) -> int:
    reread = partial(
        effective.make, os.environ, config=options.config, state=options.state_dir
    )
    settings = reread()
    for number in (signal.SIGHUP, signal.SIGUSR1):
        # others may send them from now on; the daemon handles them once it runs
        signal.signal(number, signal.SIG_IGN)
    with lock.held(settings.state, "" if options.once else lock.DAEMON):
        if options.once:
            return _once(settings, as_json=options.json)
        threading.excepthook = lambda thread: terminal.defect(thread.exc_value)
        Daemon(settings, reread, Log(_journal()), notifier).run()
    return ExitCode.OK


def _once(settings: effective.Settings, *, as_json: bool) -> int:
    report: progress.Lines | progress.Collected = (
        progress.Collected() if as_json else progress.Lines(settings)
    )
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


def _journal() -> Journal | None:
    """Return the journal of the system if it reads standard error; else None."""
    if not os.environ.get("JOURNAL_STREAM"):
        return None
    from heat_config_agent.signals.notices import journal  # noqa: PLC0415  # only under systemd

    return journal.reader_of(2, os.environ)


class Log(Report):
    """A line for each event: to the system's journal if it reads standard error, or else to standard error.

    In the journal, the lines about a deployment have fields. A line on standard error begins with the time; if the
    system's journal reads it and its socket does not answer, with a priority.
    """

    def __init__(self, journal: Journal | None = None) -> None:
        """Send lines to `journal`, if there is one."""
        self._journal = journal
        self._read = bool(os.environ.get("JOURNAL_STREAM"))

    def event(self, event: Event) -> None:
        notice = notices.notice_of(event)
        if notice is not None:
            self._say(
                notice.priority, notice.text, fields(notice) if self._journal else {}
            )
        elif isinstance(event, Message):
            self._say(4 if event.is_warning else 6, event.text)

    def _say(
        self, priority: int, text: str, about: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        line = terminal.line(text)
        if self._journal is not None and self._journal.send(priority, line, about):
            return
        before = f"<{priority}>" if self._read else time.strftime("%Y-%m-%d %H:%M:%S ")
        terminal.say(f"{before}{line}", error=True)
