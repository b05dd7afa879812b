"""`heat-config-apply`: apply a document once."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

from heat_config_agent import __version__
from heat_config_agent.cli import command_line, runner, state_options, terminal
from heat_config_agent.cli.apply import progress, shortcut
from heat_config_agent.cli.apply.options import (
    OPTIONS,
    TEMPLATE,
    apply_template,
    is_template,
    settings_of,
)
from heat_config_agent.deployments import cleanup, metadata, plan
from heat_config_agent.deployments.plan import Step
from heat_config_agent.engine.applier import WAITS
from heat_config_agent.engine.events import Report
from heat_config_agent.engine.survey import Ground, survey
from heat_config_agent.engine.workplace import Workplace, open_state
from heat_config_agent.model.deployment import Document
from heat_config_agent.model.entry import Entry
from heat_config_agent.model.errors import AgentError, ExitCode, SourceError, UsageError
from heat_config_agent.runs import tools
from heat_config_agent.settings import effective
from heat_config_agent.settings.effective import Settings
from heat_config_agent.signals.outbox import Outbox
from heat_config_agent.sources.file import File, ShellConfig, Stdin
from heat_config_agent.state import asked, followed, instance, journal, lock
from heat_config_agent.state.deployed import Deployed
from heat_config_agent.state.removal.pruning import LAST_SLICE, is_full
from heat_config_hooks import files, processes

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    import argparse
    from types import SimpleNamespace
    from typing import TypeAlias

    from heat_config_agent.cli.apply.compared import Compared

    Named: TypeAlias = File | Stdin | ShellConfig

_DESCRIPTION = """\
Apply software deployments on this machine: choose the config for the action of each deployment, run it with its tool,
and send the result to the address in the deployment. The command can be repeated: nothing runs twice, runs that have
not ended are followed, and results that could not be delivered are sent again. From a HOT template, the command
creates a stack on this machine, or updates the stack of that name.
"""

_EPILOG = """\
FILE contains Heat's server metadata (an object with `deployments`) or a list of deployments, as JSON or YAML; of a
folder, the files with deployments are applied in the order of their names. FILE may also be a HOT template (with
`heat_template_version`), or a TOSCA service (a template, an archive or a folder), which has to be the only FILE;
`heat-config-agent stack` shows, suspends and deletes the stack. Without a FILE, $HEAT_SHELL_CONFIG or
/var/run/heat-config/heat-config is applied as heat-agents' 55-heat-config does it: the exit code is then 0 instead of
1, 5 and 6, as its callers expect.

exit codes:
  0    success
  1    a deployment failed in this run (with --strict: or before), a document could not be read, or a stack failed
  2    bad usage or settings, no such FILE, or mistakes in a file that someone has written: nothing was begun
  3    no source answered; without a FILE: there is no list of deployments
  4    another agent holds the lock
  5    every run succeeded, but a result could not be delivered: the next run sends it, unless it was refused for good
  6    a deployment waits for a reboot of the machine: reboot it, and run the command again
  9    with --plan and --exit-code: there is something to do; with --strict: a deployment has drifted
  10   the machine lacks something, such as disk space, a permission or a state directory that can be used
  130  interrupted: runs that have begun go on, and the same command follows them
"""


_TOLERATED = (ExitCode.FAILED, ExitCode.UNDELIVERED, ExitCode.REBOOT)
"""Exit codes that callers of heat-agents' 55-heat-config do not expect."""


def add(commands: state_options.Commands) -> None:
    """Declare the commands `apply` and `plan` of `heat-config-agent`, for its manual page and its completion."""
    for name, brief in (
        ("apply", "carry out a document, a template or a service"),
        ("plan", "show what apply would do"),
    ):
        from heat_config_agent.cli.help_format import HelpFormatter  # noqa: PLC0415

        declared = commands.add_parser(
            name,
            help=brief,
            description=_DESCRIPTION,
            epilog=_EPILOG,
            formatter_class=HelpFormatter,
        )
        _declare(declared)
        declared.set_defaults(kind=name)


def main(arguments: Sequence[str]) -> int:
    """Run the command and return its exit code."""
    options = command_line.read(arguments, OPTIONS, rest="file") or parser().parse_args(
        arguments
    )
    runner.use(options, "plan" if options.plan else "apply")
    runner.going_on.append(runner.RUNS_GO_ON)
    at_first = shortcut.inputs(arguments, os.environ)
    settings = settings_of(options)
    watched = _watched(settings, is_strict=options.strict)
    before = at_first, shortcut.seen(watched)
    folders = {
        str(Path(each).absolute())
        for each in options.file
        if os.path.isdir(each)  # noqa: PTH112
    }
    has_folder, named = bool(folders), list(options.file)
    if has_folder:
        options.file, code = _with_folders(options.file, as_json=options.json)
        if code:
            return code
    if any(map(_is_packed, options.file)) or any(map(is_template, options.file)):
        return apply_template(settings, options, None)
    sources, drop_in = _sources(options.file, settings, options.signature or "")
    try:
        documents, troubles = _collect(sources)
    except (
        UsageError
    ) as error:  # mistakes in a template are reported below, with their positions
        documents, troubles = [], []
        if not any(map(_reads_as_template, sources)):
            return _refused(error, as_json=options.json)
    if not documents or any(
        metadata.is_template(document.content) for document in documents
    ):
        return apply_template(settings, options, sources[0].content)
    for source in sources:
        source.content = b""  # it may be large, and is no longer needed
    if folders or settings.state.name == followed.DOCUMENT:
        documents += removed(settings, folders, [each.name for each in sources])
    if metadata.lacks_ids(documents):
        from heat_config_agent.deployments import edition  # noqa: PLC0415  # Heat's documents have ids

        edition.check(documents)
    _check_options(options)
    _check_only(options.only, documents)
    if options.plan:
        code = _show_plan(
            settings,
            documents,
            options.only,
            named,
            as_json=options.json,
            compares=options.diff,
        )
        return ExitCode.FAILED if troubles and code is ExitCode.OK else code

    def settled(until: float) -> None:
        if options.json or has_folder:
            return  # results must not be stored in one more place, and the shortcut looks at no folder
        after = shortcut.inputs(arguments, os.environ), shortcut.seen(watched)
        content = shortcut.keep(
            before, after, watched, until=until, output="".join(terminal.heard)
        )
        if content is not None and not terminal.complaints:
            files.replace(settings.state / shortcut.FILE, content)

    ended = partial(_ended, drop_in=drop_in, has_troubles=bool(troubles))
    return _apply(
        settings,
        documents,
        options.only,
        settled,
        ended,
        as_json=options.json,
        is_strict=options.strict,
    )


def _ended(code: ExitCode, *, drop_in: bool, has_troubles: bool) -> ExitCode:
    """Return the exit code of the command, given the exit code of the deployments."""
    if has_troubles and code is ExitCode.OK:
        return ExitCode.FAILED
    return ExitCode.OK if drop_in and code in _TOLERATED else code


def _is_packed(name: str) -> bool:
    """Return whether a file is an archive of a service, or a folder with one; of other folders `_with_folders`."""
    return name.endswith((".csar", ".zip")) or (name != "-" and os.path.isdir(name))  # noqa: PTH112


def _with_folders(names: Sequence[str], *, as_json: bool) -> tuple[list[str], int]:
    """Return the files with those in folders in the place of these, and the exit code if a folder has mistakes."""
    from heat_config_agent.sources import folder  # noqa: PLC0415  # folders are rare

    found: list[str] = []
    for name in names:
        try:
            found += (
                folder.files_of(name) if name != "-" and os.path.isdir(name) else [name]  # noqa: PTH112
            )
        except UsageError as error:
            return [], _refused(error, as_json=as_json)
    return found, 0


def removed(
    settings: Settings, folders: Collection[str], there: Sequence[str]
) -> list[Document]:
    """Return an empty document for each file of folders that an earlier run has applied, and that is there no longer.

    So its deployments are known to be gone, as are those that are taken out of a file. For a followed source, that
    holds for every file of an earlier revision: its state directory has nothing else. The files `there`, by the names
    of their sources, are not gone, also if they cannot be read now.
    """
    sources = {
        entry.source
        for entry in journal.read(settings.state).values()
        if entry.left_at is None
    }.difference(there)
    paths = [
        source.removeprefix("file:")
        for source in sorted(sources)
        if source.startswith("file:")
    ]
    if not followed.is_document(settings.state):
        paths = [
            path
            for path in paths
            if os.path.dirname(path) in folders and _is_gone(path)  # noqa: PTH120
        ]
    return [Document(source=f"file:{path}", content=[]) for path in paths]


def _is_gone(path: str) -> bool:
    """Return whether a file was removed: a file system that cannot say so has not lost it."""
    try:
        os.lstat(path)
    except OSError as error:
        return isinstance(error, FileNotFoundError | NotADirectoryError)
    return False


def _refused(error: UsageError, *, as_json: bool) -> int:
    """Print the mistakes of documents, each in a line with its place, and return the exit code.

    Raises any other error again.
    """
    from heat_config_agent.cli.mistakes import mistake_line, mistake_values  # noqa: PLC0415  # only after mistakes
    from heat_config_agent.diagnostics.mistakes import Invalid  # noqa: PLC0415

    if not isinstance(error, Invalid):
        raise error
    for mistake in error.mistakes:
        terminal.say(mistake_line(mistake), error=True)
    if as_json:
        from heat_config_agent.cli import envelope  # noqa: PLC0415  # only with --json

        mistakes = [mistake_values(mistake) for mistake in error.mistakes]
        number = terminal.count(len(mistakes), "mistake")
        failure = envelope.Failure(
            "template", f"{number}: nothing was begun", mistakes=mistakes
        )
        envelope.result(None, code=ExitCode.USAGE, error=failure)
    return ExitCode.USAGE


def _reads_as_template(source: Named) -> bool:
    """Return whether an unparsable file is an archive, or has a line that begins with a template's version."""
    if not isinstance(source, File):
        return False
    from heat_config_agent.diagnostics import kinds  # noqa: PLC0415  # only after mistakes

    return source.content.startswith(b"PK") or bool(kinds.template_in(source.content))


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line, from which the manual page and the completion are generated too."""
    from heat_config_agent.cli.help_format import HelpFormatter, Parser  # noqa: PLC0415

    parser_ = Parser(
        prog="heat-config-apply",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=HelpFormatter,
    )
    parser_.before_argument = "-f"
    _declare(parser_)
    parser_.add_argument(
        "--version", action="version", version=f"heat-config-agent {__version__}"
    )
    return parser_


def _declare(parser_: argparse.ArgumentParser) -> None:
    """Add the arguments and options to a parser."""
    parser_.add_argument(
        "file",
        nargs="*",
        metavar="FILE",
        help="a document to apply; - is standard input",
    )
    for option in OPTIONS:
        option.add(parser_)
    parser_.add_argument(
        "--dry-run",
        "--check",
        dest="plan",
        action="store_true",
        help="the same as --plan",
    )


def _sources(
    paths: Sequence[str], settings: Settings, tree: str
) -> tuple[Sequence[Named], bool]:
    """Return the sources to ask, and whether they are the document that heat-agents would apply."""
    if paths:
        if list(paths).count("-") > 1:
            raise UsageError("standard input can be read only once", hint="name - once")
        for each in paths:
            if each.startswith(("http://", "https://", "git://", "ssh://", "oci://")):
                raise UsageError(
                    f"{each} is not fetched",
                    hint="download it, or follow it: [follow NAME]",
                )
        return [
            Stdin() if each == "-" else File(Path(each), tree) for each in paths
        ], False
    if settings.shell_config:
        return [ShellConfig(settings.shell_config)], True
    try:
        os.stat(effective.SHELL_CONFIG)  # noqa: PTH116  # `exists` would hide some errors, and raise others
    except OSError as error:
        is_absent = isinstance(error, FileNotFoundError | NotADirectoryError)
        why = "does not exist" if is_absent else f"cannot be read: {error.strerror}"
        raise SourceError(
            f"nothing to apply: no FILE is named, and {effective.SHELL_CONFIG} {why}",
            hint="try heat-config-apply FILE; see --help",
        ) from error
    return [ShellConfig(effective.SHELL_CONFIG)], True


def _collect(sources: Sequence[Named]) -> tuple[list[Document], list[AgentError]]:
    """Return the documents of the sources, and the errors of sources without one.

    Raises `Invalid` if one of them has mistakes, and the first error if all failed.
    """
    documents: list[Document] = []
    troubles: list[AgentError] = []
    for source in sources:
        try:
            found = source.collect()
        except (SourceError, UsageError) as error:
            troubles.append(error)
        else:
            documents.append(found)
    if troubles:
        from heat_config_agent.diagnostics.mistakes import Invalid  # noqa: PLC0415  # only after mistakes

        if mistakes := [
            mistake
            for each in troubles
            if isinstance(each, Invalid)
            for mistake in each.mistakes
        ]:
            raise Invalid(mistakes)
        if not documents:
            named = isinstance(sources[0], File) and not isinstance(
                sources[0], ShellConfig
            )
            raise (
                UsageError(troubles[0].brief, hint=troubles[0].hint)
                if named
                else troubles[0]
            )
    for trouble in troubles:
        terminal.say(f"warning: {terminal.line(str(trouble))}", error=True)
    return documents, troubles


def _watched(settings: Settings, *, is_strict: bool) -> list[str]:
    """Return the files and folders whose change may mean new work, or with `--strict` another exit code."""
    state = [
        settings.state / each
        for each in (journal.FILE, asked.FOLDER, asked.PAUSED, instance.FILE)
    ]
    if is_strict:
        from heat_config_agent.cli.deployments import verdicts  # noqa: PLC0415  # only with --strict

        state.append(settings.state / verdicts.RECORD)
    return [
        str(each)
        for each in (*state, settings.deployed, settings.deployed_old)
        if each is not None
    ]


def _is_idle(steps: Iterable[Step], entries: Mapping[str, Entry]) -> bool:
    """Return whether there was nothing to do, and there will be nothing until something changes or falls due."""
    settled = {
        entry.key for entry in entries.values() if entry.settled and not entry.again
    }
    # a failed cleanup is retried
    failed = any(
        entry.action == cleanup.ACTION and entry.failed for entry in entries.values()
    )
    return (
        not failed
        and len(settled) == len(entries)
        and all(
            step.verb is plan.Verb.SKIP and step.deployment.key in settled
            for step in steps
        )
    )


def _apply(
    settings: Settings,
    documents: list[Document],
    only: Sequence[str],
    idle: Callable[[float], None],
    ended: Callable[[ExitCode], ExitCode],
    *,
    as_json: bool,
    is_strict: bool,
) -> ExitCode:
    """Apply documents, and return the exit code that `ended` makes of that of the deployments.

    After a run without work, call `idle` with the time until which that holds, in seconds since boot.
    """
    report: progress.Lines | progress.Collected = (
        progress.Collected() if as_json else progress.Lines(settings)
    )
    with lock.held(settings.state):
        if aside := instance.set_aside(
            settings.state, instance.identity(), settings.deployed
        ):
            report.warn(aside)
        place = open_state(
            settings, Outbox(settings.ca_file), report, patience=settings.delivery
        )
        book, applier, pruning = place.journal, place.applier, place.pruning
        if is_full(settings.state):
            pruning.consider()
            pruning.work(LAST_SLICE)
        prune_asked = asked.has_requests(settings.state) and _carry_out_requests(
            settings, place, report
        )
        if pause := asked.paused(settings.state):
            applier.work.queue.hold = paused = f"paused: {pause[0]}"
            report.warn(
                f"nothing new begins: the agent is {paused}; `{settings.command('resume')}` ends the pause"
            )
        steps = applier.offer(documents, only=only)
        try:
            applier.heed_stops()
            while applier.work.busy:
                applier.turn(report.interval)
                report.refresh()
        finally:
            report.clear()
        if applier.work.reboots and applier.work.queue:
            report.warn(WAITS)
        entries = book.entries  # a copy: pruning may remove results
        applier.settle()
        pruning.offered([each.source for each in documents])
        pruning.has_grown(applier.work.printed)
        pruning.consider(now=prune_asked)
        pruning.work(LAST_SLICE)
        book.close()
        code = progress.exit_code(steps, entries, applier.mistakes)
        if is_strict and code is ExitCode.OK:
            code = _strictly(settings, steps, entries)
        hold = applier.work.queue.hold or (WAITS if applier.work.reboots else "")
        report.summary(steps, entries, applier.mistakes, ended(code), hold)
        place.announcer.close()
        if (
            code is ExitCode.OK
            and not (applier.work.queue.hold or pruning.busy)
            and _is_idle(steps, book.entries)
        ):
            with contextlib.suppress(OSError):
                # on a full disk, the next run looks at everything again
                idle(processes.since_boot() + pruning.idle_for)
    return ended(code)


def _strictly(
    settings: Settings, steps: Sequence[Step], entries: Mapping[str, Entry]
) -> ExitCode:
    """Return the exit code for the state of the deployments, whichever pass has run them."""
    from heat_config_agent.cli.deployments import verdicts  # noqa: PLC0415  # only with --strict

    if progress.failed_earlier(steps, entries):
        return ExitCode.FAILED
    known = (entries.get(step.deployment.key) for step in steps)
    has_drifted = any(each and verdicts.drift(each, settings.state) for each in known)
    return ExitCode.DRIFTED if has_drifted else ExitCode.OK


def _carry_out_requests(settings: Settings, place: Workplace, report: Report) -> bool:
    """Carry out what people have requested, and return whether they want everything to be pruned."""
    from heat_config_agent.state import requests  # noqa: PLC0415  # few runs find any

    wants_pruning = requests.wants_pruning(settings.state)
    done, wrong = requests.carry_out(settings.state, place.journal, place.deployed)
    for line in done:
        report.note(line)
    for line in wrong:
        report.warn(line)
    return wants_pruning


def _check_options(options: SimpleNamespace | argparse.Namespace) -> None:
    """Refuse the options that are for templates alone."""
    for option in TEMPLATE:
        if getattr(options, option.variable):
            why = (
                f"{options.file[0]} is not one"
                if options.file
                else "no template is named"
            )
            hint = "a template has heat_template_version or tosca_definitions_version"
            raise UsageError(f"{option.name} is for templates, and {why}", hint=hint)


def _check_only(only: Sequence[str], documents: Sequence[Document]) -> None:
    if not only:
        return
    deployments = metadata.parse_all(documents)[0]
    present = {
        name
        for each in deployments
        for name in (each.name, each.given_name, each.id, each.title)
    }
    missing = [each for each in only if each not in present]
    if missing:
        from heat_config_agent.diagnostics.words import meant  # noqa: PLC0415  # only after mistakes

        hint = (
            meant(missing[0], sorted(filter(None, present)))
            or "`--plan` shows all of them"
        )
        raise UsageError(f"no deployment has the name or id {missing[0]!r}", hint=hint)


def _show_plan(
    settings: Settings,
    documents: list[Document],
    only: Sequence[str],
    files: Sequence[str],
    *,
    as_json: bool,
    compares: bool,
) -> ExitCode:
    entries = journal.read(settings.state)
    if metadata.lacks_ids(documents):
        from heat_config_agent.deployments import edition  # noqa: PLC0415  # documents of servers have ids
        from heat_config_agent.state import edition_key  # noqa: PLC0415

        documents = edition.completed(
            documents, entries, edition_key.read(settings.state, make=False)
        )
    deployed = Deployed(settings.deployed, old=settings.deployed_old)
    installed = tools.Tools(settings.hooks, terminal.warn)
    found = survey(
        documents,
        entries,
        Ground(installed, deployed, settings.state, settings.defaults),
        only=only,
    )
    steps, mistakes = found.steps, found.mistakes
    gone = [entries[key] for key in found.superseded]
    code = ExitCode.FAILED if mistakes else ExitCode.OK
    compared: Mapping[str, Compared] = {}
    if compares:
        from heat_config_agent.cli.apply import compared as comparing  # noqa: PLC0415  # only with --diff

        compared = comparing.of_steps(steps, entries, deployed, settings)
    if as_json:
        ids = [entry.id for entry in gone]
        progress.print_plan(steps, mistakes, ids, code, compared)
        return code
    only_these = [word for name in only for word in ("--only", name)]
    apply = settings.command("apply", *only_these, *files)
    for line in progress.plan_lines(steps, apply, compared):
        terminal.say(line)
    for entry in filter(plan.is_awaited, gone):
        terminal.say(
            f"the result of {terminal.line(entry.title)} would not be sent: its deployment has been replaced"
        )
    for mistake in mistakes:
        terminal.warn(str(mistake))
    return code
