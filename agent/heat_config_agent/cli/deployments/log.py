"""`heat-config-agent log NAME`: Print everything that the tool of a deployment printed, with secrets masked.

Of a stack or a followed source, the output of all its deployments is printed, each line after the name of its
deployment.
"""

from __future__ import annotations

import argparse
import codecs
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from heat_config_agent.cli import envelope, stack_package, state_options, terminal
from heat_config_agent.cli.command_line import Option, number, seconds
from heat_config_agent.cli.deployments import kept_runs, named, status
from heat_config_agent.deployments import plan
from heat_config_agent.masking.redaction import beginning, concealer
from heat_config_agent.model import wording
from heat_config_agent.model.deployment import Deployment
from heat_config_agent.model.entry import Entry, Removed, State
from heat_config_agent.model.errors import (
    AgentError,
    ExitCode,
    NotFoundError,
    UsageError,
)
from heat_config_agent.runs import earlier, resolved, run_folder, streams, supervisor
from heat_config_agent.settings.effective import Settings
from heat_config_agent.state import journal, lock
from heat_config_hooks import files
from heat_config_hooks.reply import CUT, EDGE
from heat_config_hooks.values import replace

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from heat_config_agent.cli.deployments.elsewhere import Following
    from heat_config_agent.cli.stack_package import Elsewhere

_INTERVAL = 0.2
"""Seconds between two reads of the output of a run that is followed."""

_BLOCK = 256 * 1024

_LONGEST = 64 * 1024
"""Number of characters that are held back of a line that has not ended: they may be the beginning of a secret."""

_EPILOG = """\
exit codes:
  0  the output was printed
  1  the output is not kept, or its secrets are not known any more
  2  bad usage or settings
  8  there is nothing of that name, or no such run; with --follow: it has not begun, and no agent is there to begin it
"""


def add(commands: state_options.Commands) -> None:
    """Declare the command."""
    parser = state_options.command(
        commands,
        "log",
        "print the output of a deployment, or of all of a stack",
        __doc__,
        epilog=_EPILOG,
    )
    state_options.add_id(parser)
    parser.add_argument(
        "-f",
        "--follow",
        action="store_true",
        help="follow the output until the run ends; wait for a run that has not begun",
    )
    Option(
        "--tail",
        "print only the last N lines of standard output, and of standard error",
        "N",
        read=number(1),
    ).add(parser)
    Option(
        "--since",
        "print only the output of runs that have gone on in the last TIME",
        "TIME",
        read=seconds,
    ).add(parser)
    parser.add_argument(
        "--run",
        dest="chosen",
        type=kept_runs.number,
        metavar="N",
        help="print the output of one of the runs that show lists: 1 is the oldest one that is kept, 0 is the newest, "
        "and -1 is the one before that",
    )
    parser.add_argument(
        "--failed",
        action="store_true",
        help="print the output of the last run that has failed, also if later ones have not; of a stack or a source, "
        "that of each of its deployments",
    )
    state_options.add_json(parser)
    parser.set_defaults(run=run, kind="log")


def run(options: argparse.Namespace) -> int:
    """Print the run's standard output to standard output, and its standard error to standard error."""
    if options.json and options.follow:
        raise UsageError("--follow prints text, and not JSON", hint="leave one of them")
    if options.failed and (options.follow or options.chosen is not None):
        raise UsageError(
            "--failed chooses a run that has ended",
            hint="leave out --follow and --run",
        )
    asked = state_options.there(options)
    target = named.find_any(asked, options.id, options.config, newest=True)
    if isinstance(target, named.NamedPlace) and target.kind == "resource":
        others = stack_package.elsewhere(asked, target.stack, target.name)
        if others:
            return stack_package.log_elsewhere(others[0], _words(options))
    if options.failed:
        return _of_failed(target, options)
    if isinstance(target, named.NamedPlace):
        return _of_place(target, options)
    if options.chosen is not None:
        return _of_run(asked, target, options)
    entry = _begun(asked, target, options)
    if not _is_since(entry, options.since):
        _say_idle(options.since)
        return _done(options, [])
    deployment = _masked(target.settings, entry, follow=options.follow)
    if deployment is None:
        return _done(options, [])
    reader = _Reader(target, entry, deployment, options)
    if options.json:
        after = _after(target, entry, options)
        return _done(options, [each.values() for each in (reader, after) if each])
    while reader.copy(follow=options.follow):
        time.sleep(_INTERVAL)
    after = _after(target, entry, options)
    if after is not None:
        after.say()
        while after.copy(follow=options.follow):
            time.sleep(_INTERVAL)
    _say_earlier(target, asked, options.id)
    return ExitCode.OK


def end_after_failure(
    target: named.Named, lines: int
) -> tuple[Entry, Mapping[str, str]] | None:
    """Return the follow-up of a failed deployment, with the last lines of its output; None if it had none."""
    after = kept_runs.follow_up(target.settings.state, target.entry)
    if after is None:
        return None
    words = argparse.Namespace(follow=False, tail=lines)
    reader = _after(target, target.entry, words)
    return after, {} if reader is None else reader.texts()


def _after(
    target: named.Named, entry: Entry, options: argparse.Namespace
) -> _Reader | None:
    """Return the output of the follow-up of a failed deployment; None if it had none, or the output is not kept."""
    settings = target.settings
    after = kept_runs.follow_up(settings.state, entry)
    if after is None:
        return None
    folder = settings.state / "runs" / after.key
    if options.follow and after.state in _TO_BEGIN:
        after = _on_record(settings.state, after, folder)
    # its secrets are those of the deployment
    deployment = state_options.deployment(settings, entry)
    if deployment is None or not kept_runs.has_output(folder):
        return None
    known = revealed(deployment, folder, after, follow=options.follow)
    if known is None:
        return None
    return _Reader(replace(target, title=after.title), after, known, options)


def _done(
    options: argparse.Namespace,
    runs: Sequence[dict[str, object]],
    missing: Sequence[str] = (),
) -> int:
    """Print the answer with --json, or else the reasons of its gaps; return the exit code."""
    code = ExitCode.FAILED if missing else ExitCode.OK
    if options.json:
        failure = envelope.Failure("failed", "; ".join(missing)) if missing else None
        envelope.result({"runs": list(runs)}, code=code, error=failure)
        return code
    for each in missing:
        terminal.warn(each)
    return code


def _say_idle(since: float) -> None:
    terminal.note(f"nothing ran in the last {wording.duration(since)}")


def _is_since(entry: Entry, since: float | None) -> bool:
    """Return whether the last run of a deployment has gone on in the last `since` seconds."""
    if since is None or entry.ended is None:
        return True
    return time.time() - entry.ended <= since


def _begun(asked: Settings, target: named.Named, options: argparse.Namespace) -> Entry:
    """Return the entry once there is output of its run. Raises AgentError if there is none."""
    settings, entry = target.settings, target.entry
    folder = settings.state / "runs" / entry.key
    if options.follow:
        entry = _awaited(target, folder)
    if folder.is_dir() and (
        entry.started is not None or options.follow or kept_runs.has_output(folder)
    ):
        return _on_record(settings.state, entry, folder) if options.follow else entry
    show = asked.command("show", options.id)
    before = (
        f"`{show}` lists earlier runs, whose output is kept"
        if kept_runs.of(target)
        else ""
    )
    raise AgentError(
        f"there is no output of {target.title}: {_why_none(entry)}", hint=before
    )


def _awaited(target: named.Named, folder: Path) -> Entry:
    """Return the entry once its run has begun, for which this waits. Raises NotFoundError if no agent is there."""
    settings, entry = target.settings, target.entry
    is_said = False
    while entry.state in _TO_BEGIN and not folder.is_dir():
        if lock.holder(settings.state) is None:
            raise NotFoundError(
                f"{target.title} has not begun, and no agent is there to begin it",
                subject=("deployment", target.title),
            )
        if not is_said:
            why = status.details(entry, settings.state).removeprefix("waits for ")
            terminal.note(f"{target.title} waits for {why}")
            is_said = True
        time.sleep(_INTERVAL)
        entry = journal.read(settings.state).get(entry.key, entry)
    return entry


_TO_BEGIN = frozenset({State.ACCEPTED, State.RETRY, State.REBOOT})


def _masked(settings: Settings, entry: Entry, *, follow: bool) -> Deployment | None:
    """Return the deployment whose secrets are masked in the output of its run.

    None if the secrets to which it refers are not known yet, so that nothing was printed. Raises AgentError if they
    are not known any more.
    """
    folder = settings.state / "runs" / entry.key
    deployment = state_options.deployment(settings, entry)
    if deployment is None:
        raise AgentError(
            f"cannot mask the secrets in the output of {entry.title}: they are no longer known",
            hint=f"the output is in {folder}",
        )
    return revealed(deployment, folder, entry, follow=follow)


def _of_run(asked: Settings, target: named.Named, options: argparse.Namespace) -> int:
    """Print the output of one of the runs that are kept."""
    show = asked.command("show", options.id)
    runs = kept_runs.of(target)
    chosen = kept_runs.choose(
        runs, options.chosen, target.title, f"`{show}` lists them"
    )
    if not options.json:
        _say_which(chosen, len(runs))
    printed = _of_kept(target.settings, chosen, options.tail)
    if options.json:
        return _done(options, [_values(target.title, chosen.values, printed)])
    for stream in printed:
        stream.copy(to_the_end=True)
    return ExitCode.OK


def _of_kept(
    settings: Settings, chosen: kept_runs.KeptRun, tail: int | None, prefix: str = ""
) -> list[_Stream]:
    """Return the output of one of the runs that are kept. Raises AgentError if it is not there."""
    if chosen.before is not None:
        return _earlier_streams(settings, chosen, tail, prefix)
    deployment = _masked(settings, chosen.entry, follow=False)
    return _streams(chosen.folder, deployment, tail, prefix) if deployment else []


def _of_failed(
    target: named.Named | named.NamedPlace, options: argparse.Namespace
) -> int:
    """Print the output of the last run of each deployment that has failed."""
    is_one = isinstance(target, named.Named)
    there: list[dict[str, object]] = []
    missing: list[str] = []
    if isinstance(target, named.Named):
        targets = [target]
    else:
        targets = named.members(target, options.config)
        there, missing = _of_hosts(target, options)
    failed: list[tuple[named.Named, kept_runs.KeptRun, int]] = []
    for each in targets:
        runs = kept_runs.of(each)
        last = next((run for run in reversed(runs) if run.failed), None)
        if last is not None and _is_since(last.entry, options.since):
            failed.append((each, last, len(runs)))
    if not (failed or there or missing):
        raise AgentError(f"the output of no failed run of {target.title} is kept")
    wide = max((terminal.columns(each.title) for each, _, _ in failed), default=0)
    answers = []
    for each, run, count in failed:
        prefix = "" if is_one else f"{terminal.padded(each.title, wide)}  | "
        printed = _of_kept(each.settings, run, options.tail, prefix)
        if options.json:
            answers.append(_values(each.title, run.values, printed))
            continue
        if is_one:
            _say_which(run, count)
        for stream in printed:
            stream.copy(to_the_end=True)
    if not options.json:
        _print_runs(there, wide)
    return _done(options, [*answers, *there], missing)


def _words(options: argparse.Namespace) -> list[str]:
    """Return the options as words, for a host that has the output."""
    return [
        *(["--follow"] if options.follow else []),
        *(["--run", str(options.chosen)] if options.chosen is not None else []),
        *_few_words(options),
        *(["--json"] if options.json else []),
    ]


def _few_words(options: argparse.Namespace) -> list[str]:
    return [
        *(["--failed"] if options.failed else []),
        *(["--tail", str(options.tail)] if options.tail else []),
        *(["--since", str(options.since)] if options.since is not None else []),
    ]


def _of_hosts(
    target: named.NamedPlace, options: argparse.Namespace
) -> tuple[list[dict[str, object]], list[str]]:
    """Return the output of the deployments of a stack on other hosts, as JSON, and the reasons of gaps."""
    if target.kind != "stack":
        return [], []
    others = stack_package.elsewhere(target.settings, target.name)
    if not others:
        return [], []
    from heat_config_agent.cli.deployments import elsewhere  # noqa: PLC0415  # few stacks have hosts

    return elsewhere.printed(others, _few_words(options))


def _of_place(target: named.NamedPlace, options: argparse.Namespace) -> int:
    """Print the output of all deployments of a stack or a source, each line after the name of its deployment."""
    if options.chosen is not None:
        raise UsageError(
            f"{target.title} is a {target.kind}: --run is for a deployment"
        )
    readers: dict[str, _Reader] = {}
    wide = 0
    hosts = _following(target, options)
    while True:
        found = named.members(target, options.config)
        wide = max([wide, *(terminal.columns(each.title) for each in found)])
        for each in _with_output(found, options.since):
            if each.entry.key not in readers:
                deployment = _masked(each.settings, each.entry, follow=False)
                if deployment is not None:
                    prefix = f"{terminal.padded(each.title, wide)}  | "
                    readers[each.entry.key] = _Reader(
                        each, each.entry, deployment, options, prefix
                    )
        if options.json:
            there, missing = _of_hosts(target, options)
            ours = [each.values() for each in readers.values()]
            return _done(options, [*ours, *there], missing)
        at_work = options.follow and _is_at_work(target)
        goes_on = [each.copy(follow=options.follow) for each in readers.values()]
        if hosts is not None:
            goes_on.append(hosts.copy(wide, at_work=at_work))
        if not any(goes_on) and not at_work:
            break
        time.sleep(_INTERVAL)
    if hosts is not None:
        hosts.close()
        missing, is_there = hosts.missing, hosts.has_printed
    else:
        there, missing = _of_hosts(target, options)
        _print_runs(there, wide)
        is_there = bool(there)
    if not (readers or is_there or missing):
        if options.since is not None:
            _say_idle(options.since)
            return ExitCode.OK
        raise AgentError(f"there is no output of {target.title}: nothing was run")
    return _done(options, [], missing)


def _following(
    target: named.NamedPlace, options: argparse.Namespace
) -> Following | None:
    """Return the output of the deployments of a stack on other hosts, to be followed; None for anything else."""
    if not options.follow or target.kind != "stack":
        return None
    stack = target.name
    from heat_config_agent.cli.deployments import elsewhere  # noqa: PLC0415  # few stacks have hosts

    def read() -> list[Elsewhere]:
        return stack_package.elsewhere(target.settings, stack)

    return elsewhere.Following(read, _few_words(options))


def _print_runs(runs: Sequence[Mapping[str, object]], wide: int) -> None:
    """Print the output of runs on hosts, each line after the name of its deployment."""
    wide = max([wide, *(terminal.columns(str(each["name"])) for each in runs)])
    for each in runs:
        prefix = f"{terminal.padded(str(each['name']), wide)}  | "
        for name in earlier.STREAMS:
            for line in str(each[name]).splitlines():
                terminal.say(prefix + terminal.line(line), error=name == "stderr")


def _with_output(
    found: Sequence[named.Named], since: float | None
) -> Iterator[named.Named]:
    """Yield the deployments of which there is output."""
    for each in found:
        folder = each.settings.state / "runs" / each.entry.key
        if kept_runs.has_output(folder) and _is_since(each.entry, since):
            yield each


def _is_at_work(target: named.NamedPlace) -> bool:
    """Return whether deployments of a stack may begin yet."""
    if target.kind != "stack":
        return False
    stack = stack_package.kept(target.settings.state, target.name)
    in_progress = stack and stack.record and stack.record.status == "IN_PROGRESS"
    folder = stack_package.folder(target.settings.state, target.name)
    return bool(in_progress) and lock.holder(folder) is not None


class _Reader:
    """The output of the last run of a deployment, as it is printed."""

    def __init__(
        self,
        target: named.Named,
        entry: Entry,
        deployment: Deployment,
        options: argparse.Namespace,
        prefix: str = "",
    ) -> None:
        self._target, self._entry = target, entry
        self._folder = target.settings.state / "runs" / entry.key
        self._streams = _streams(self._folder, deployment, options.tail, prefix)
        self._is_over = False

    def copy(self, *, follow: bool) -> bool:
        """Print the output that has not been printed yet; return whether there may be more."""
        if self._is_over:
            return False
        running = follow and _is_running(self._entry, self._folder)
        for stream in self._streams:
            stream.copy(to_the_end=not running)
        self._is_over = not running
        return running

    def texts(self) -> dict[str, str]:
        """Return the output by the names of the streams."""
        return {each.name: each.text() for each in self._streams}

    def say(self) -> None:
        """Say on standard error which run it is."""
        entry = self._entry
        word = status.shown(entry, self._target.settings.state)
        why = f": {entry.reason}" if entry.failed else ""
        terminal.complain(f"on_failure: {word}{terminal.line(why)}", "quiet")

    def values(self) -> dict[str, object]:
        """Return the output as JSON."""
        entry = self._entry
        facts = {
            "run": None,
            "id": entry.id or None,
            "action": entry.action or None,
            "state": status.shown(entry, self._target.settings.state).value,
            "started": wording.stamp(entry.started),
            "ended": wording.stamp(entry.ended),
            "run_seconds": status.run_seconds(entry),
            "reason": entry.reason,
        }
        return _values(self._target.title, facts, self._streams)


def _values(
    title: str, facts: Mapping[str, object], printed: Sequence[_Stream]
) -> dict[str, object]:
    """Return the output of a run as JSON."""
    texts = {"stdout": "", "stderr": ""}
    for stream in printed:
        texts[stream.name] = stream.text()
    return {"name": title, **facts, **texts}


def _streams(
    folder: Path, deployment: Deployment, tail: int | None, prefix: str = ""
) -> list[_Stream]:
    return [
        _Stream(folder / name, deployment, tail=tail, prefix=prefix)
        for name in earlier.STREAMS
    ]


def _earlier_streams(
    settings: Settings, chosen: kept_runs.KeptRun, tail: int | None, prefix: str = ""
) -> list[_Stream]:
    """Return the output of an earlier run, which was masked when it was kept. Raises AgentError if it is not there."""
    bare = {"id": chosen.entry.id, "name": chosen.entry.name}
    deployment = state_options.deployment(settings, chosen.entry) or plan.deployment_of(
        chosen.entry, bare
    )
    printed = [
        _Stream(chosen.folder / name, deployment, tail=tail, prefix=prefix)
        for name in earlier.STREAMS
        if (chosen.folder / name).exists()
    ]
    if not printed:
        raise AgentError(
            f"the output of run {chosen.number} of {chosen.entry.title} is not kept: the secrets in it were not known"
        )
    return printed


def _say_which(chosen: kept_runs.KeptRun, count: int) -> None:
    """Say on standard error which run it is."""
    when = f", {terminal.moment(chosen.started)}" if chosen.started else ""
    why = f": {chosen.reason}" if chosen.reason else ""
    terminal.complain(
        f"run {chosen.number} of {count}{when}: {chosen.outcome}{terminal.line(why)}",
        "quiet",
    )


def _say_earlier(found: named.Named, asked: Settings, name: str) -> None:
    """Say on standard error that the output of earlier runs is kept too, if it is."""
    before = [
        each
        for each in kept_runs.of(found)
        if each.entry.key != found.entry.key or each.before is not None
    ]
    if before:
        last = before[-1]
        log = asked.command("log", name, "--run", str(last.number))
        earlier_runs = terminal.count(len(before), "earlier run")
        terminal.complain(
            f"{earlier_runs}, the last one {last.outcome}: `{log}` prints its output",
            "quiet",
        )


def _on_record(state: Path, entry: Entry, folder: Path) -> Entry:
    """Return the entry once the run for which its folder was made is on record.

    An agent makes the folder, prepares the command in it, and then records the run. This waits while an agent is at
    work on the state directory, and the deployment is to run.
    """
    while (
        entry.state in {State.ACCEPTED, State.RETRY, State.REBOOT}
        and not (
            entry.run
            and kept_runs.has_output(folder)
            and run_folder.status(folder, entry.run.mark).exists()
        )
        and lock.holder(state) is not None
    ):
        time.sleep(_INTERVAL)
        entry = journal.read(state, follow_ups=True).get(entry.key, entry)
    return entry


def revealed(
    deployment: Deployment, folder: Path, entry: Entry, *, follow: bool
) -> Deployment | None:
    """Return a deployment with the secrets to which its inputs refer, so that they can be masked in its output.

    Returns None if they are not known yet, so that nothing was printed; with `follow`, this waits until they are.
    """
    while deployment.references:
        running = _is_running(entry, folder)
        known = resolved.revealed(deployment, folder)
        if known is not None:
            return known
        if not running:
            break  # the secrets in the output are overwritten
        if not follow:
            return None
        time.sleep(_INTERVAL)
    return deployment


def _why_none(entry: Entry) -> str:
    """Return why there is no output."""
    if entry.removed is Removed.ALL or (entry.settled and entry.started):
        return "it was pruned; keep_for and keep_size say how long it is kept, and a full disk shortens that"
    return (
        "it has not been started yet"
        if entry.state in (State.ACCEPTED, State.RETRY)
        else "nothing was run for it"
    )


def _is_running(entry: Entry, folder: Path) -> bool:
    return (
        entry.state is State.RUNNING
        and entry.run is not None
        and supervisor.going_on(entry.run, folder)
    )


class _Stream:
    """One stream of a run, copied as it grows, whole lines at a time."""

    def __init__(
        self,
        path: Path,
        deployment: Deployment,
        *,
        tail: int | None = None,
        prefix: str = "",
    ) -> None:
        self.name = path.name
        self._path = path
        self._tail = tail
        """The number of last lines to print of the text that exists at first; None for all."""
        self._prefix = prefix
        """The text before each line."""
        self._is_inside = False
        """True if the last line that was printed has not ended."""
        self._held: list[str] | None = None if tail is None else []
        """The text so far, if only its end is to be printed; otherwise None."""
        self._redact = concealer(deployment).text
        self._begun = beginning(deployment)
        self._offset = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""

    def text(self) -> str:
        """Return all of it."""
        tail, self._tail, self._held = self._tail, None, []
        self._read(to_the_end=True)
        text = "".join(self._held)
        return text if tail is None else _end_of(text, tail)

    def copy(self, *, to_the_end: bool) -> None:
        """Print it from where the last copy has ended."""
        self._read(to_the_end=to_the_end)
        if self._held is not None:
            held, self._held = "".join(self._held), None
            self._print(_end_of(held, self._tail or 0))
        if to_the_end and self._prefix and self._is_inside:
            self._is_inside = False
            terminal.say("", error=self.name == "stderr")

    def _read(self, *, to_the_end: bool) -> None:
        try:
            descriptor = files.open_regular(self._path)
        except OSError as error:  # the command may have done anything to its own folder
            raise AgentError(f"cannot read {self._path}: {error.strerror}") from error
        with open(descriptor, "rb") as file:
            while True:
                left_out, block = streams.read(file.fileno(), self._offset, _BLOCK)
                self._offset += left_out + len(block)
                if not block:
                    break
                if left_out:
                    block = self._leap(left_out, block)
                text = self._rest + self._decoder.decode(block)
                # What may be half of a secret waits for its other half. A secret may have several lines, and its last
                # line may be too short to be masked by itself.
                whole = len(text) - self._begun(text)
                masked = self._redact(text[:whole])
                end = max(masked.rfind("\n") + 1, len(masked) - _LONGEST)
                self._print(masked[:end])
                self._rest = masked[end:] + text[whole:]
        if to_the_end:
            self._print(self._redact(self._rest))
            self._rest = ""

    def _leap(self, left_out: int, block: bytes) -> bytes:
        """Print that output was left out, and return the rest of the block.

        The text next to the gap is left out too: it may be half of a secret.
        """
        rest, edge = self._rest[:-EDGE], self._rest[-EDGE:]
        self._print(
            self._redact(rest)
            + CUT.format(left_out + len(edge.encode()) + min(len(block), EDGE))
        )
        self._rest = ""
        self._decoder.reset()
        return block[EDGE:]

    def _print(self, text: str) -> None:
        if self._held is not None:
            self._hold(text)
        elif text:
            text = self._with_prefix(terminal.plain(text))
            terminal.say(text, error=self.name == "stderr", end="")

    def _hold(self, text: str) -> None:
        """Keep the text, or as much of it as may be at the end."""
        held = self._held or []
        held.append(text)
        if self._tail is not None and len(held) > _PIECES:
            held = [_end_of("".join(held), self._tail)]
        self._held = held

    def _with_prefix(self, text: str) -> str:
        """Return the text with the prefix before each line."""
        if not self._prefix:
            return text
        lines = text.splitlines(keepends=True)
        first = lines[0] if self._is_inside else f"{self._prefix}{lines[0]}"
        self._is_inside = not text.endswith("\n")
        return "".join([first, *(f"{self._prefix}{each}" for each in lines[1:])])


_PIECES = 64
"""The number of pieces of text that are held before only their end is kept."""


def _end_of(text: str, lines: int) -> str:
    """Return the last lines of a text."""
    return "".join(text.splitlines(keepends=True)[-lines:])
