"""`heat-config-apply`: apply what a document says, once."""

from __future__ import annotations

import contextlib
import gc
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from heat_config_agent import (
    __version__,
    asked,
    clean_up,
    instance,
    journal,
    lock,
    metadata,
    plan,
    settings,
    tools,
    unchanged,
)
from heat_config_agent.apply import WAITS, Applier, known
from heat_config_agent.cli import chosen, plain, progress, terminal
from heat_config_agent.cli.plain import Option
from heat_config_agent.delivery import Delivery
from heat_config_agent.deployed import Deployed
from heat_config_agent.errors import AgentError, ExitCode, SourceError, UsageError
from heat_config_agent.model import Document, Entry
from heat_config_agent.plan import Step
from heat_config_agent.pruning import LAST_SLICE, Pruning, is_full
from heat_config_agent.settings import Settings
from heat_config_agent.signals import Outbox
from heat_config_agent.sources import Source
from heat_config_agent.sources.file import File, ShellConfig, Stdin
from heat_config_hooks import files, processes
from heat_config_hooks.values import replace

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    import argparse
    from types import SimpleNamespace

_DESCRIPTION = """\
Apply software deployments on this machine: choose each one's config for its action, run it with its tool, and send
the result to where the deployment says. Run again, nothing is done twice, what is still running is followed, and
results that could not be delivered are sent. Of a HOT template, make a stack on this machine; or where there is one of
its name, have that be what the template says now.
"""

_EPILOG = """\
FILE holds Heat's server metadata (an object with `deployments`) or a list of deployments, as JSON or YAML; or it is a
HOT template (with `heat_template_version`), which is applied by itself: `heat-config-agent stack` shows what was made
of it, suspends it, removes it. Without a FILE, $HEAT_SHELL_CONFIG or /var/run/heat-config/heat-config is applied the
way heat-agents' 55-heat-config does it: the exit code is then 0 even if a deployment failed.

exit codes:
  0    all is well
  1    a deployment failed in this run, or a document, or an entry of one, could not be read; a stack has failed
  2    bad usage or configuration; mistakes in a template, of which nothing was begun
  3    no source answered
  4    another agent holds the lock
  5    all ran well, but a result could not be delivered: the next run sends it, unless it was refused for good
  6    a deployment waits for a reboot of the machine: reboot it, and run the command again
  130  interrupted; what was running goes on
"""


_TOLERATED = (ExitCode.FAILED, ExitCode.UNDELIVERED, ExitCode.REBOOT)
"""What callers of heat-agents' 55-heat-config do not expect."""


_RUBBISH = 200_000
"""Objects more after which what is of no use any more is looked for: a document of thousands is none of it."""


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not 0 <= value < float("inf"):
        raise ValueError(f"expected a number of seconds, 0 or more, not {text!r}")
    return value


TEMPLATE = (
    Option("--environment", "of a template: an environment; may be repeated", "FILE", repeated=True, short="-e"),
    Option("--parameter", "of a template: the value of a parameter; may be repeated", "NAME=VALUE", repeated=True),
    Option("--parameter-file", "of a template: the same, from a file; may be repeated", "NAME=PATH", repeated=True),
    Option(
        "--attribute",
        "of a template: an attribute of a resource that takes a cloud; may be repeated",
        "RESOURCE.NAME=VALUE",
        repeated=True,
    ),
    Option("--name", "of a template: what the stack is called (default: as the file)", "STACK"),
    Option("--server", "of a template: do only what is for this server; every server is this machine", "NAME"),
    Option("--rollback", "of a template: go back to what was before when something fails"),
)
"""The options that are about templates alone, in the order of `--help`."""

OPTIONS = (
    Option("--plan", "show each step and its reason, and run nothing"),
    Option("--only", "apply only this deployment; may be repeated", "NAME|ID", repeated=True),
    Option(
        "--json",
        "print one JSON object instead of lines for people; of a template, one for each event, and at last the stack",
    ),
    *chosen.STATE,
    chosen.HOOKS,
    Option(
        "--timeout",
        f"time limit of deployments that do not say their own (default {settings.TIME_LIMIT:g}; 0 is none)",
        "SECONDS",
        read=_seconds,
    ),
    Option(
        "--grace",
        f"time between TERM and KILL when a time limit is over (default {settings.GRACE_SECONDS:g})",
        "SECONDS",
        read=_seconds,
    ),
    Option(
        "--deliver-for",
        "how long to go on trying to deliver a result before leaving it to the next run "
        f"(default {settings.DELIVERY_SECONDS:g})",
        "SECONDS",
        read=_seconds,
    ),
    Option("--ca-file", "certificates to trust when delivering results", "FILE"),
    *TEMPLATE,
)
"""In the order of `--help`."""


def main(arguments: Sequence[str]) -> int:
    """Run the command and return its exit code."""
    gc.set_threshold(_RUBBISH)
    options = plain.read(arguments, OPTIONS, rest="file") or parser().parse_args(arguments)
    at_first = unchanged.given(arguments, os.environ)
    found = settings.make(
        os.environ,
        config=options.config,
        state=options.state_dir,
        hooks=tuple(options.hooks_dir),
        limit=options.timeout,
        grace=options.grace,
        delivery=options.deliver_for,
        ca_file=options.ca_file,
    )
    watched = _watched(found)
    before = at_first, unchanged.seen(watched)
    sources, drop_in = _sources(options.file, found)
    try:
        documents, troubles = _collect(sources)
    except UsageError:  # what is wrong with a template, those say who know templates
        documents, troubles = [], []
        if not any(_reads_as_template(each) for each in options.file):
            raise
    if not documents or any(_is_template(each.content) for each in documents):
        return _apply_template(found, options)
    for each in TEMPLATE:
        if getattr(options, each.variable):
            raise UsageError(
                f"{each.name} is about templates, and this is none", hint="a template says heat_template_version"
            )
    _check_only(options.only, documents)
    if options.plan:
        return _show_plan(found, documents, options.only, as_json=options.json)

    def settled(until: float) -> None:
        if options.json:
            return  # there are results in it, which are not to be kept in one more place
        after = unchanged.given(arguments, os.environ), unchanged.seen(watched)
        said = unchanged.keep(before, after, watched, until=until, said="".join(terminal.heard))
        if said is not None and not terminal.complaints:
            files.replace(found.state / unchanged.FILE, said)

    code = _apply(found, documents, options.only, settled, as_json=options.json)
    if troubles and code is ExitCode.OK:
        code = ExitCode.FAILED
    return ExitCode.OK if drop_in and code in _TOLERATED else code


def _is_template(content: object) -> bool:
    return isinstance(content, dict) and "heat_template_version" in content


def _reads_as_template(path: str) -> bool:
    """Whether a file that is no document says at the beginning of some line that it is a template."""
    try:
        with open(path, "rb") as file:
            return any(line.lstrip(b"{ \"'").startswith(b"heat_template_version") for line in file)
    except OSError:
        return False


def _apply_template(given: Settings, options: SimpleNamespace | argparse.Namespace) -> int:
    """Make a stack of the template that is named."""
    if len(options.file) != 1 or options.file == ["-"]:
        raise UsageError("a template is applied by itself, from a file", hint="name it alone")
    if options.only:
        raise UsageError("--only is about documents, and this is a template")
    from heat_config_agent.cli.stack import doing  # noqa: PLC0415  # it takes much longer to load than all else here

    return doing.apply(given, options.file[0], options)


def parser() -> argparse.ArgumentParser:
    """Return what reads any command line, and what the manual page and the completion of shells are made of."""
    import argparse  # noqa: PLC0415  # 6 ms with all that it loads, and seldom needed

    made = argparse.ArgumentParser(
        prog="heat-config-apply",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("file", nargs="*", metavar="FILE", help="a document to apply; - is standard input")
    for option in OPTIONS:
        option.add(made)
    made.add_argument("--version", action="version", version=f"heat-config-agent {__version__}")
    return made


def _sources(named: Sequence[str], given: Settings) -> tuple[list[Source], bool]:
    """Return the sources to ask, and whether they are what heat-agents would apply."""
    if named:
        if list(named).count("-") > 1:
            raise UsageError("standard input can be read only once", hint="name - once")
        return [Stdin() if each == "-" else File(Path(each)) for each in named], False
    if given.shell_config:
        return [ShellConfig(given.shell_config)], True
    if settings.SHELL_CONFIG.exists():
        return [ShellConfig(settings.SHELL_CONFIG)], True
    raise SourceError(
        f"there is nothing to apply: no FILE is named, and there is no {settings.SHELL_CONFIG}",
        hint="try heat-config-apply FILE; see --help",
    )


def _collect(sources: Sequence[Source]) -> tuple[list[Document], list[AgentError]]:
    """Return what the sources answer, and why others do not. Raises the first reason where none does."""
    documents: list[Document] = []
    troubles: list[AgentError] = []
    for source in sources:
        try:
            found = source.collect()
        except (SourceError, UsageError) as error:
            troubles.append(error)
        else:
            documents += [found] if found else []
    if not documents:
        raise troubles[0]
    for trouble in troubles:
        terminal.say(f"warning: {terminal.line(str(trouble))}", error=True)
    return documents, troubles


def _watched(given: Settings) -> list[str]:
    """Return what others may change so that there is something to do."""
    state = [given.state / each for each in (journal.FILE, asked.FOLDER, asked.PAUSED, instance.FILE)]
    return [str(each) for each in (*state, given.deployed, given.deployed_old) if each is not None]


def _is_idle(steps: Iterable[Step], entries: Mapping[str, Entry]) -> bool:
    """Whether there was nothing to do, and is nothing before somebody changes something, or something falls due."""
    known = {each.key for each in entries.values() if each.settled and not each.again}
    failed = any(each.action == clean_up.ACTION and each.failed for each in entries.values())  # it is tried again
    return (
        not failed
        and len(known) == len(entries)
        and all(each.verb is plan.Verb.SKIP and each.deployment.key in known for each in steps)
    )


def _apply(
    given: Settings,
    documents: list[Document],
    only: Sequence[str],
    idle: Callable[[float], None],
    *,
    as_json: bool,
) -> ExitCode:
    """Apply documents; after a run that had nothing to do, tell `idle` until when (seconds since boot) that holds."""
    report: progress.Lines | progress.Collected = progress.Collected() if as_json else progress.Lines(given.state)
    with lock.held(given.state):
        if aside := instance.set_aside(given.state, instance.identity(), given.deployed):
            report.warn(aside)
        book = journal.Journal(given.state)
        for warning in book.warnings:
            report.warn(warning)
        deployed = Deployed(given.deployed, old=given.deployed_old)
        applier = Applier(
            journal=book,
            tools=tools.Tools(given.hooks),
            deployed=deployed,
            delivery=Delivery(Outbox(given.ca_file), given.delivery),
            where=given.where,
            report=report,
        )
        pruning = Pruning(book, deployed, given.state, given.limits, report)
        prune_asked = asked.wants_pruning(given.state)
        if is_full(given.state):
            pruning.consider()
            pruning.work(LAST_SLICE)
        done, wrong = asked.carry_out(given.state, book, deployed)
        for line in done:
            report.note(line)
        for line in wrong:
            report.warn(line)
        if pause := asked.paused(given.state):
            applier.hold = f"paused: {pause[0]}"
            report.warn(f"nothing new is begun, as it is {applier.hold}; `{given.command('resume')}` ends that")
        steps = applier.offer(documents, only=only)
        try:
            while applier.busy:
                applier.turn(report.interval)
                report.refresh()
        finally:
            report.clear()
        if applier.reboots and applier.waiting:
            report.warn(WAITS)
        entries = book.entries  # as they are now: what follows may remove results
        applier.settle()
        pruning.offered([each.source for each in documents])
        pruning.has_grown(applier.printed)
        pruning.consider(now=prune_asked)
        pruning.work(LAST_SLICE)
        book.close()
        code = progress.exit_code(steps, entries, applier.mistakes)
        report.summary(steps, entries, applier.mistakes, code)
        if code is ExitCode.OK and not (applier.hold or pruning.busy) and _is_idle(steps, book.entries):
            with contextlib.suppress(OSError):  # a full disk: all is looked at anew next time
                idle(processes.since_boot() + pruning.idle_for)
    return code


def _check_only(only: Sequence[str], documents: Sequence[Document]) -> None:
    if not only:
        return
    present = {name for deployment in metadata.parse_all(documents)[0] for name in (deployment.name, deployment.id)}
    missing = [each for each in only if each not in present]
    if missing:
        raise UsageError(
            f"no deployment is named {missing[0]!r}", hint="--only takes a name or an id; --plan shows them all"
        )


def _show_plan(given: Settings, documents: list[Document], only: Sequence[str], *, as_json: bool) -> int:
    deployments, sources, mistakes = metadata.parse_all(documents)
    entries = journal.read(given.state)
    ready = known(entries, tools.Tools(given.hooks), Deployed(given.deployed, old=given.deployed_old), given.state)
    due = clean_up.due(deployments, sources, entries, ready.now)
    steps = plan.make([*due.left, *deployments], replace(ready, back=due.back), only=only)
    gone = [entries[key] for key in plan.superseded(deployments, sources, entries)]
    if as_json:
        terminal.say(
            json.dumps(
                {
                    "steps": [progress.step_values(step) for step in steps],
                    "superseded": [entry.id for entry in gone],
                    "mistakes": progress.mistakes(mistakes),
                }
            )
        )
    else:
        rows = [
            (
                step.verb.value,
                step.deployment.name,
                step.deployment.action or "-",
                progress.tool(step),
                step.reason.replace("\n", "; "),
            )
            for step in steps
        ]
        for line in terminal.table(rows):
            terminal.say(line)
        for entry in gone:
            terminal.say(
                f"the result of {terminal.line(entry.name)} would never be sent: its deployment has been replaced"
            )
        terminal.say(f"{terminal.count(len(steps), 'deployment')}; nothing was run")
    return ExitCode.FAILED if mistakes else ExitCode.OK
