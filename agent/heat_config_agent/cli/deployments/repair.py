"""The repair of deployments that have drifted: `heat-config-agent verify --repair`.

A running agent is asked to do it. Without one, it is done here if the deployment is at hand; it is carried out from its
own record, so that no other deployment of its document is touched.
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from heat_config_agent.cli import envelope, terminal
from heat_config_agent.cli.deployments import requests
from heat_config_agent.cli.deployments.named import Named
from heat_config_agent.deployments import metadata
from heat_config_agent.deployments.part import part
from heat_config_agent.engine import notices
from heat_config_agent.engine.applier import WAITS
from heat_config_agent.engine.events import Message, Report
from heat_config_agent.model.deployment import Deployment, Document
from heat_config_agent.model.entry import Entry, Removed
from heat_config_agent.model.errors import AgentError, ExitCode, LockedError
from heat_config_agent.model.states import Shown
from heat_config_agent.settings.effective import Settings
from heat_config_agent.settings.in_force import policy_in_force
from heat_config_agent.state import asked, followed, journal, lock
from heat_config_agent.state.deployed import Deployed
from heat_config_agent.state.requests import Wish
from heat_config_agent.verification.machine import Finding
from heat_config_hooks.values import dataclass

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from heat_config_agent.engine.events import Event


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The outcome of the request to repair a deployment."""

    word: str
    """done, requested, or refused."""
    sentence: str = ""
    """When it is repaired, or why it is not; empty if it was run."""


Row = tuple[Named, Finding]


def show_plan(rows: Sequence[Row], *, as_json: bool) -> int:
    """Print which deployments would be repaired."""
    policy = policy_in_force()
    kinds = []
    for target, finding in rows:
        refusal = policy.repair_refusal(finding.entry) if policy else ""
        why = refusal or finding.reason or finding.entry.drift
        kinds.append(("-" if refusal else "repair", target, why))
    if as_json:
        envelope.begin("plan", is_on=True)
        changes = [
            {
                "change": "none" if change == "-" else change,
                "name": target.title,
                "type": None,
                "why": why,
                "action": target.entry.action or None,
                "tool": target.entry.tool or None,
            }
            for change, target, why in kinds
        ]
        envelope.result({"changes": changes, "replaced": [], "mistakes": []})
        return ExitCode.OK
    if not rows:
        terminal.say("no deployment has drifted; nothing was done")
        return ExitCode.OK
    cells = [
        (
            change,
            terminal.line(target.title),
            target.entry.action or "-",
            target.entry.tool or "-",
            terminal.line(why.replace("\n", "; ")),
        )
        for change, target, why in kinds
    ]
    for line in terminal.table(cells, ("CHANGE", "NAME", "ACTION", "TOOL", "WHY")):
        terminal.say(line)
    terminal.say(f"\n{terminal.count(len(rows), 'deployment')}; nothing was done")
    return ExitCode.OK


def repair(
    settings: Settings, rows: Sequence[Row], options: argparse.Namespace
) -> dict[str, Outcome]:
    """Repair deployments that have drifted, or request it; return the outcome of each by its title."""
    outcomes: dict[str, Outcome] = {}
    policy = policy_in_force()
    allowed: list[Row] = []
    for row in rows:
        refusal = policy.repair_refusal(row[1].entry) if policy else ""
        if refusal:
            outcomes[row[0].title] = Outcome(word="refused", sentence=refusal)
        else:
            allowed.append(row)
    own = [row for row in allowed if not (row[0].stack or row[0].follows)]
    others = [row for row in allowed if row[0].stack or row[0].follows]
    outcomes |= _requested_of_others(settings, others, options)
    outcomes |= _repaired(settings, own, options)
    return outcomes


def _requested_of_others(
    settings: Settings, rows: Sequence[Row], options: argparse.Namespace
) -> dict[str, Outcome]:
    """Request repairs of deployments of stacks and followed documents, on the road that `retry` takes.

    A stack that no source is followed for is updated here with the template and the parameters that it has.
    """
    said: dict[str, Outcome] = {}
    places: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        places.setdefault((row[0].stack, row[0].follows), []).append(row)
    for group in places.values():
        targets = [target for target, _ in group]
        drifts = {finding.entry.key: finding.reason for _, finding in group}
        request = Wish.AGAIN if targets[0].stack else Wish.REPAIR
        lines = requests.wish(settings, targets, request, drifts)
        outcome = Outcome(word="requested", sentence=lines[-1] if lines else "")
        stack = targets[0].stack
        if stack and followed.read(settings.state, stack) is None:
            outcome = _updated(settings, stack, options)
        said |= {each.title: outcome for each in targets}
    return said


_PROGRAM = "from heat_config_agent.cli.main import agent; raise SystemExit(agent())"


def _updated(settings: Settings, stack: str, options: argparse.Namespace) -> Outcome:
    """Update a stack as it is, in a process of its own whose progress goes to standard error."""
    words = ["stack", "update", "--existing", stack, *settings.options]
    is_quiet = options.quiet or options.json
    done = subprocess.run(
        [sys.executable, "-I", "-c", _PROGRAM, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL if is_quiet else sys.stderr,
        stderr=subprocess.PIPE if is_quiet else None,
        text=True,
        check=False,
    )
    if done.returncode == 0:
        return Outcome(word="done")
    lines = (done.stderr or "").strip().splitlines()
    why = lines[0].removeprefix("error: ") if lines else f"exit code {done.returncode}"
    command = settings.command("stack", "update", "--existing", stack)
    return Outcome(word="refused", sentence=f"`{command}` failed: {why}")


def _repaired(
    settings: Settings, rows: Sequence[Row], options: argparse.Namespace
) -> dict[str, Outcome]:
    """Repair deployments of the agent itself: by the running agent, or here."""
    holder = lock.holder(settings.state)
    said: dict[str, Outcome] = {}
    at_hand: list[Row] = []
    documents: dict[str, Document] = {}
    for target, finding in rows:
        entry = finding.entry
        if holder is None:
            if (document := document_of(settings, entry)) is not None:
                documents[entry.key] = document
        elif requests.is_applied_by_hand(settings, entry):
            document = _kept(settings, entry)
        else:
            document = None
        if document is None and (
            holder is None or requests.is_applied_by_hand(settings, entry)
        ):
            sentence = _needed(settings, entry)
            said[target.title] = Outcome(word="refused", sentence=sentence)
        else:
            at_hand.append((target, finding))
    if not at_hand:
        return said
    if holder is None:
        with contextlib.suppress(LockedError):  # else another command was faster
            late = _repair_here(settings, at_hand, documents, options)
            return said | {
                target.title: late.get(finding.entry.key, Outcome(word="done"))
                for target, finding in at_hand
            }
    drifts = {finding.entry.key: finding.reason for _, finding in at_hand}
    # the agent goes on with those that were begun
    targets = [target for target, each in at_hand if each.state is Shown.DRIFTED]
    lines = requests.wish(settings, targets, Wish.REPAIR, drifts)
    sentence = lines[-1].removeprefix("repair requested: ") if lines else ""
    word = "requested"
    if options.wait or options.wait_for is not None:
        word, sentence = _waited(settings, targets, options)
    outcome = Outcome(word=word, sentence=sentence)
    return said | {target.title: outcome for target, _ in at_hand}


def _waited(
    settings: Settings, targets: Sequence[Named], options: argparse.Namespace
) -> tuple[str, str]:
    """Wait until the running agent has repaired deployments; return the word of their outcomes, and why not yet."""
    from heat_config_agent.cli.deployments import wait  # noqa: PLC0415  # only with --wait

    holder = lock.holder(settings.state)
    if holder is None or holder[1] != lock.DAEMON:
        return "requested", "no agent is running that could do it"
    runs = {target.entry.key: target.entry.run_at for target in targets}
    of_things = wait.of_things(settings, list(runs), options.config)

    def look() -> wait.View:
        view = of_things()
        # the request may have been carried out between two looks of one view
        if not view.is_done or not _unchanged(settings, runs):
            return view
        return wait.View(code=ExitCode.TIMED_OUT, line="the agent has not begun it yet")

    view = wait.until(look, settings, options.wait_for, quiet=options.quiet)
    return ("done", "") if view.is_done else ("requested", view.line)


def _unchanged(settings: Settings, runs: Mapping[str, float]) -> bool:
    """Return whether a deployment has not run since it was verified."""
    entries = journal.read(settings.state)
    return any(
        key in entries and entries[key].run_at == run for key, run in runs.items()
    )


def _needed(settings: Settings, entry: Entry) -> str:
    """Return the way to repair a deployment whose document is not available."""
    kind, _, path = entry.source.partition(":")
    if kind == "file" and path:
        return (
            f"its config is not kept any more: apply {path} with its edition of today"
        )
    if kind == "stdin":
        return "its config is not kept any more: apply its document again"
    again = settings.command("run", "--once")
    return f"its config is not kept any more: `{again}` reads its document, and then it can be repaired"


# The documents at hand.


def document_of(settings: Settings, entry: Entry) -> Document | None:
    """Return a document with a deployment alone; None if its config is not at hand."""
    again = _read_again(settings, entry.source).get(entry.key)
    if not entry.document and again is not None:
        return part(entry, again.document, again.signatures)
    return _kept(settings, entry)


def _kept(settings: Settings, entry: Entry) -> Document | None:
    """Return a document with a deployment as it was kept: in the journal, or in `deployed/`."""
    document = entry.document
    if not document and entry.removed is Removed.NOTHING:
        folder = Deployed(settings.deployed, old=settings.deployed_old)
        document = folder.document(entry.key)
    return part(entry, document) if document else None


_READ: dict[str, dict[str, Deployment]] = {}
"""The deployments of each source that was read again, by key."""


def _read_again(settings: Settings, source: str) -> dict[str, Deployment]:
    """Return the deployments of a file as it is now, by key; none if the source is not a file that can be read."""
    kind, _, path = source.partition(":")
    if kind != "file" or not path.startswith("/"):
        return {}
    if source not in _READ:
        _READ[source] = _of_file(settings, Path(path))
    return _READ[source]


def _of_file(settings: Settings, path: Path) -> dict[str, Deployment]:
    from heat_config_agent.deployments import edition  # noqa: PLC0415  # few repairs need a file
    from heat_config_agent.sources.file import File  # noqa: PLC0415
    from heat_config_agent.state import edition_key  # noqa: PLC0415

    try:
        if not path.is_file():  # a pipe would be waited for
            return {}
        documents = [File(path).collect()]
        if metadata.lacks_ids(documents):
            secret = edition_key.read(settings.state, make=False)
            known = journal.read(settings.state)
            documents = edition.completed(documents, known, secret)
        return {each.key: each for each in metadata.parse_all(documents)[0]}
    except (AgentError, OSError):  # it cannot be used any more
        return {}


def documents_again(
    settings: Settings, entries: Iterable[Entry]
) -> Mapping[str, Deployment]:
    """Return the deployments of files that were applied, by key, as they are read again; they are read when needed."""
    return _Again(settings, {entry.key: entry.source for entry in entries})


class _Again(dict[str, Deployment]):
    """The deployments of files, read when the first of them is looked up."""

    def __init__(self, settings: Settings, sources: Mapping[str, str]) -> None:
        super().__init__()
        self._settings, self._sources = settings, sources

    def get(self, key: str, _default: object = None) -> Deployment | None:  # type: ignore[override]  # of one key
        source = self._sources.get(key, "")
        return _read_again(self._settings, source).get(key)


# The repair in this process.


def _repair_here(
    settings: Settings,
    rows: Sequence[Row],
    documents: Mapping[str, Document],
    options: argparse.Namespace,
) -> dict[str, Outcome]:
    """Run drifted deployments again; return the states of those that have not run to their ends, by key.

    Raises LockedError if an agent is at work.
    """
    from heat_config_agent.engine.workplace import open_state  # noqa: PLC0415  # most repairs are done by an agent
    from heat_config_agent.signals.outbox import Outbox  # noqa: PLC0415
    from heat_config_agent.state import requests as store  # noqa: PLC0415

    report = _Lines(quiet=options.quiet or options.json)
    with lock.held(settings.state):
        for _, finding in rows:
            if finding.state is Shown.DRIFTED:
                store.ask_repair(settings.state, finding.entry, finding.reason)
        place = open_state(
            settings, Outbox(settings.ca_file), report, patience=settings.delivery
        )
        applier, book = place.applier, place.journal
        _, wrong = store.carry_out(settings.state, book, place.deployed)
        for line in wrong:
            report.warn(line)
        if pause := asked.paused(settings.state):
            applier.work.queue.hold = f"paused: {pause[0]}"
            report.warn(
                f"nothing new begins: the agent is paused; `{settings.command('resume')}` ends the pause"
            )
        keys = [
            finding.entry.key
            for _, finding in rows
            if not book.entries[finding.entry.key].over
        ]
        applier.offer([documents[key] for key in keys], mark=False)
        while applier.work.busy and not _are_over(book.entries, keys):
            applier.turn(0.5)
        applier.settle()
        why = applier.work.queue.hold or applier.postponed or WAITS
        late = {
            key: Outcome(word="requested", sentence=why)
            for key in keys
            if not book.entries[key].over
        }
        book.close()
        place.announcer.close()
    return late


def _are_over(entries: Mapping[str, Entry], keys: Iterable[str]) -> bool:
    return all(entries[key].over for key in keys)


class _Lines(Report):
    """A line on standard error for each run that begins or ends, and for each warning."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet

    def event(self, event: Event) -> None:
        if isinstance(event, Message) and event.is_warning:
            terminal.warn(event.text)
            return
        notice = notices.notice_of(event)
        if notice is not None and not self._quiet:
            terminal.say(terminal.line(notice.text), error=True)
