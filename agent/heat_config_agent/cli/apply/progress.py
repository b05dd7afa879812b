"""The output of `heat-config-apply` while it works: lines for people, or one JSON object at the end for programs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from heat_config_agent.cli import terminal
from heat_config_agent.deployments.plan import NOT_CHOSEN, Step, Verb
from heat_config_agent.engine import events
from heat_config_agent.engine.events import Event, Report
from heat_config_agent.masking.redaction import beginning, concealer, name_of
from heat_config_agent.model import states
from heat_config_agent.model.deployment import STANDARD_OUTPUTS, Deployment, Mistake
from heat_config_agent.model.entry import Entry, State
from heat_config_agent.model.errors import ExitCode
from heat_config_agent.model.states import Shown
from heat_config_agent.model.wording import next_attempt
from heat_config_agent.signals.delivery import Fate, Outcome, in_words
from heat_config_hooks import files, isolation, processes
from heat_config_hooks.reply import EDGE

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from heat_config_agent.cli import envelope
    from heat_config_agent.cli.apply.compared import Compared
    from heat_config_agent.cli.canvas import Canvas
    from heat_config_agent.settings.effective import Settings

_NAME = 24
"""Most columns for the names of deployments on a terminal."""

_OUTPUT_CHARACTERS = 200
"""Number of characters of an output value that a row shows."""

_USUAL = ("new", "accepted earlier and not started yet")
"""The reason of most steps, which says nothing."""

_ORDER = (
    Shown.OK,
    Shown.FAILED,
    Shown.SKIPPED,
    Shown.WAITING,
    Shown.REBOOT,
    Shown.UNKNOWN,
    Shown.RUNNING,
    Shown.REFUSED,
)
"""The order in which states are counted."""

_PATIENCE = 1.0
"""Seconds after which a terminal shows the running deployment."""

_NAMED = 3
"""The number of failed deployments that the summary names."""

_LONGEST_NAME = 255
"""The number of characters of a name that the summary repeats in commands."""


class Lines(Report):
    """A row for each deployment as soon as it is known; on a terminal, one more line shows the running deployment."""

    def __init__(self, settings: Settings) -> None:
        """Take the output of runs from their folders in the state directory."""
        self._settings = settings
        self._state = settings.state
        self._began = processes.since_boot()
        self._live = terminal.is_live()
        self._shows = terminal.shows_progress()
        self._running: dict[str, tuple[Step, float]] = {}
        self._ended: dict[str, tuple[Step, Entry]] = {}
        """The deployments whose results are on their way, and that have no row yet."""
        self._resent: dict[str, Step] = {}
        self._skipped: dict[str, Step] = {}
        """The deployments for which there is nothing to do: they get their rows if there is other work."""
        self._postponed: dict[str, str] = {}
        self._rows: list[tuple[str, ...]] = []
        """The rows that are not printed yet: there may be thousands, and they are printed at once."""
        self._shown: dict[str, Shown] = {}
        """The state in the row of each deployment."""
        self._widths: tuple[int, int, int] | None = None
        """The columns of names, actions and tools, as soon as the steps are known."""
        self._canvas: Canvas | None = None
        """The place of the line about the running deployment, once there is one."""
        self.interval = 0.2 if self._shows else 3600.0
        """Seconds between calls of `refresh`."""

    def _plan(self, steps: Sequence[Step], entries: Mapping[str, Entry]) -> None:
        """Take up all steps of the pass, from which the columns of the rows follow."""
        longest, of_action, of_tool = (
            max((terminal.columns(cell(step)) for step in steps), default=0)
            for cell in (_name, _action, _tool)
        )
        self._widths = (
            min(longest, _NAME) if self._live else longest,
            of_action,
            of_tool,
        )
        is_idle = all(
            step.verb is Verb.SKIP and step.deployment.key in entries for step in steps
        )
        for key, step in self._skipped.items() if not is_idle else ():
            self._skip(step, entries.get(key))
        self._skipped.clear()
        self.clear()

    def event(self, event: Event) -> None:
        match event:
            case events.Planned():
                self._plan(event.steps, event.entries)
            case events.Begun():
                self.clear()
                self._running[event.step.deployment.key] = (event.step, event.run.began)
            case events.Ended():
                self._running.pop(event.entry.key, None)
                if event.step.deployment.target.wanted:
                    self._ended[event.entry.key] = (event.step, event.entry)
                else:
                    self._conclude(event.step, event.entry, "")
            case events.RebootAsked():
                self._running.pop(event.entry.key, None)
                took = terminal.duration(processes.since_boot() - _begun(event.entry))
                why = "continues after a reboot of the machine"
                self._row(Shown.REBOOT, event.step, took, why)
            case events.Retried():
                self._running.pop(event.entry.key, None)
                why = f"{event.entry.reason.replace(chr(10), '; ')}; {next_attempt(event.entry)}"
                why = concealer(event.step.deployment).text(why)
                self.note(f"{_name(event.step)}: {why}")
            case events.Resent():
                self._resent[event.step.deployment.key] = event.step
            case events.Skipped():
                if event.step.reason != NOT_CHOSEN:
                    self._skipped[event.step.deployment.key] = event.step
            case events.Postponed():
                self._postponed[event.step.deployment.key] = event.reason
            case events.Delivered():
                self._delivered(event.entry, event.outcome)
            case events.Message():
                self.clear()
                if event.is_warning:
                    terminal.warn(event.text)
                else:
                    terminal.note(event.text)

    def _delivered(self, entry: Entry, outcome: Outcome | None) -> None:
        """Print the row of a deployment whose result has been sent once, or cannot be sent."""
        words = _way_of(entry, outcome)
        if entry.key in self._ended:
            step, _ = self._ended.pop(entry.key)
            self._conclude(step, entry, words)
        elif entry.key in self._resent:
            step = self._resent.pop(entry.key)
            self._row(states.of_entry(entry), step, "", words or "result sent")
        elif outcome is not None and outcome.fate is Fate.SENT:
            self.note(f"the result of {entry.title} is sent now")
        elif outcome is None or outcome.fate is Fate.REFUSED:
            self.warn(f"the result of {entry.title} {in_words(outcome)}")

    def _conclude(self, step: Step, entry: Entry, result: str) -> None:
        """Print the row of a deployment that has ended; `result` is the fate of its result."""
        why = entry.reason or ("" if step.reason in _USUAL else step.reason)
        shown = [
            f"{name} = {_short(value if isinstance(value, str) else json.dumps(value))}"
            for name, value in outputs(entry, step.deployment).items()
        ]
        took = entry_seconds(entry)
        self._row(
            states.of_entry(entry),
            step,
            "" if took is None else terminal.duration(took),
            "; ".join(filter(None, (why, *shown, result))),
        )

    def _skip(self, step: Step, entry: Entry | None) -> None:
        """Print the row of a deployment with which this pass has no work."""
        if step.verb is Verb.SKIP or entry is None:
            self._row(Shown.SKIPPED, step, "", step.reason)
        elif entry.state is State.REBOOT:
            self._row(Shown.REBOOT, step, "", step.reason)
        else:
            self._row(states.of_entry(entry), step, "", f"result due: {step.reason}")

    def refresh(self) -> None:
        """Draw the line about the running deployment again."""
        if not self._shows or not self._running:
            return
        step, since = next(iter(self._running.values()))
        lasted = processes.since_boot() - since
        if lasted < _PATIENCE:
            return
        name = terminal.shortened(_name(step), terminal.width() // 2)
        took = terminal.duration(lasted)
        text = f"running  {name}  {took}  {terminal.line(self._last_line(step))}"
        text = terminal.shortened(text, terminal.width() - 1)
        if self._canvas is None:
            from heat_config_agent.cli.canvas import Canvas  # noqa: PLC0415  # only on a terminal

            self._canvas = Canvas(error=True)
        word, rest = text[: len("running")], text[len("running") :]
        shown = terminal.styled(word, terminal.STATE_STYLES[word], error=True)
        self._canvas.draw([f"{shown}{rest}"])

    def summary(
        self,
        steps: Sequence[Step],
        entries: Mapping[str, Entry],
        mistakes: Iterable[Mistake],
        code: ExitCode,  # noqa: ARG002
        hold: str = "",
    ) -> None:
        """Print the rows and the mistakes that are not printed yet, one line of totals, and the ways out.

        `hold` says why nothing new begins; empty if it does.
        """
        for key, (step, entry) in list(self._ended.items()):
            self._conclude(step, entries.get(key, entry), "result due")
        for step in self._resent.values():
            entry = entries[step.deployment.key]
            why = entry.trouble or step.reason
            self._row(states.of_entry(entry), step, "", f"result due: {why}")
        self._ended.clear()
        if self._widths is None:  # nothing was planned
            self._plan(steps, entries)
        for step in steps:
            self._fill_in(step, entries.get(step.deployment.key), hold)
        self.clear()
        texts = list(map(str, mistakes))
        reasons = "\n".join(step.reason for step in steps) if texts else ""
        for mistake in texts:
            if mistake not in reasons:
                self.warn(mistake)
        if self._shown:
            terminal.say("")
        for text in self._totals(steps, entries):
            terminal.say(terminal.wrapped(text, 2, terminal.room()))

    def _fill_in(self, step: Step, entry: Entry | None, hold: str) -> None:
        """Print the row of a deployment that this pass has not begun."""
        key = step.deployment.key
        if key in self._shown or step.verb in (Verb.SKIP, Verb.WAIT) or entry is None:
            return
        if entry.state in (State.ACCEPTED, State.RETRY, State.REBOOT):
            why = self._postponed.get(key, "")
            why = f"{why}; the next run tries again" if why else hold or step.reason
            self._row(states.of_entry(entry), step, "", why)

    def _totals(self, steps: Sequence[Step], entries: Mapping[str, Entry]) -> list[str]:
        """Return the lines of totals and of the ways out."""
        number = terminal.count(len(steps), "deployment")
        failed = [
            step.deployment
            for step in steps
            if self._shown.get(step.deployment.key) is Shown.FAILED
        ]
        if not any(is_work(step, entries.get(step.deployment.key)) for step in steps):
            return [f"{number}: nothing to do{self._failed_earlier(steps, entries)}"]
        counted = totals(steps, entries)
        counts = [
            f"{counted[word]} {word}" for word in map(str, _ORDER) if counted[word]
        ]
        took = terminal.duration(processes.since_boot() - self._began)
        lines = [
            f"{number} in {took}: {', '.join(counts) or 'nothing to do'}"
            + self._failed_earlier(steps, entries)
            + "".join(f"; {text}" for text in _results(counted))
        ]
        if failed:
            name = failed[0].title
            log = self._settings.command("log", name)
            retry = self._settings.command("retry", name)
            lines.append(
                f"{len(failed)} failed: `{log}` shows its output, `{retry}` runs it again"
                if len(name) <= _LONGEST_NAME
                else f"{len(failed)} failed: `{self._settings.command('status', '--failed')}` shows it"
            )
        return [terminal.line(each) for each in lines]

    def _failed_earlier(
        self, steps: Sequence[Step], entries: Mapping[str, Entry]
    ) -> str:
        """Return which deployments have failed before this pass; empty if none have."""
        failed = failed_earlier(steps, entries)
        if not failed:
            return ""
        names = ", ".join(terminal.line(name) for name in failed[:_NAMED])
        more = f" and {len(failed) - _NAMED} more" if len(failed) > _NAMED else ""
        return f" ({len(failed)} failed before: {names}{more})"

    def _row(self, shown: Shown, step: Step, took: str, why: str) -> None:
        """Take up the row of a deployment, which gets no other one."""
        if step.deployment.key in self._shown:
            return
        self._shown[step.deployment.key] = shown
        why = concealer(step.deployment).text(why.replace("\n", "; "))
        cells = (_name(step), _action(step), _tool(step), took, terminal.line(why))
        self._rows.append((shown.value, *cells))
        if self._widths is not None:
            self.clear()

    def clear(self) -> None:
        """Remove the line about the running deployment, and print the rows that are not printed yet."""
        if self._canvas is not None:
            self._canvas.erase()
        if self._rows and self._widths is not None:
            terminal.say("\n".join(map(self._text, self._rows)))
            self._rows.clear()

    def _text(self, row: tuple[str, ...]) -> str:
        """Return a row as text."""
        word, name, action, tool_, took, why = row
        wide, of_action, of_tool = self._widths or (0, 0, 0)
        name = terminal.squeezed(name, wide) if self._live else name
        before = (
            f"{word:<8} {terminal.padded(name, wide)}  {terminal.padded(action, of_action)}  "
            f"{terminal.padded(tool_, of_tool)}  {took:>7}"
        )
        begin, most = len(word), terminal.room()
        stated = terminal.stated(word)
        if not most or terminal.columns(f"{before}  {why}") <= most:
            return f"{stated}{before[begin:]}  {why}".rstrip()
        why = terminal.wrapped(why, 9, most, begin=9)
        return f"{stated}{before[begin:].rstrip()}\n{'':9}{why}"

    def _last_line(self, step: Step) -> str:
        """Return the last line that a run has printed, without secrets, and without half of a secret."""
        folder = self._state / "runs" / step.deployment.key
        deployment: Deployment | None = step.deployment
        if step.deployment.references:
            from heat_config_agent.runs import resolved  # noqa: PLC0415  # few runs refer to secrets

            deployment = resolved.revealed(step.deployment, folder)
        if deployment is None:  # its secrets are not known yet
            return ""
        try:
            with open(files.open_regular(folder / "stdout"), "rb") as file:
                begin = max(file.seek(0, 2) - 2 * EDGE, 0)
                file.seek(begin)
                text = file.read().decode("utf-8", "replace")
        except OSError:
            return ""
        text = concealer(deployment).text(
            text[: len(text) - beginning(deployment)(text)]
        )
        lines = text[EDGE if begin else 0 :].rstrip().splitlines()
        return lines[-1] if lines else ""


class Collected(Report):
    """Prints nothing until the end, and then one JSON object."""

    interval = 3600.0
    """Seconds between calls of `refresh`."""

    def __init__(self) -> None:
        """Collect nothing yet."""
        self.warnings: list[str] = []

    def event(self, event: Event) -> None:
        if isinstance(event, events.Postponed):
            self.warnings.append(event.reason)
        elif isinstance(event, events.Message) and event.is_warning:
            self.warnings.append(event.text)

    def refresh(self) -> None:
        """Show nothing."""

    def clear(self) -> None:
        """Show nothing."""

    def summary(
        self,
        steps: Sequence[Step],
        entries: Mapping[str, Entry],
        mistakes: Iterable[Mistake],
        code: ExitCode,
        hold: str = "",  # noqa: ARG002
    ) -> None:
        """Print the object, and the warnings."""
        from heat_config_agent.cli import envelope  # noqa: PLC0415  # only with --json

        for text in self.warnings:
            terminal.warn(text)
        data = values(steps, entries, mistakes)
        envelope.result(data, code=code, error=_failure(code, data))


def values(
    steps: Sequence[Step], entries: Mapping[str, Entry], mistakes: Iterable[Mistake]
) -> dict[str, object]:
    """Return a pass as JSON."""
    return {
        "deployments": [
            {
                **step_values(step),
                **entry_values(entries.get(step.deployment.key), step),
            }
            for step in steps
        ],
        "mistakes": mistake_values(mistakes),
        "summary": {
            label.replace(" ", "_"): number
            for label, number in totals(steps, entries).items()
        },
    }


def _failure(code: ExitCode, data: Mapping[str, object]) -> envelope.Failure | None:
    """Return why a pass ends with another code than 0; None for 0."""
    if code is ExitCode.OK:
        return None
    from heat_config_agent.cli import envelope  # noqa: PLC0415  # only with --json

    summary, mistakes = data["summary"], data["mistakes"]
    counts = summary if isinstance(summary, Mapping) else {}
    said = ", ".join(
        f"{number} {label.replace('_', ' ')}"
        for label, number in counts.items()
        if number
    )
    wrong = mistakes if isinstance(mistakes, list) else []
    more = f"; {terminal.count(len(wrong), 'mistake')}" if wrong else ""
    return envelope.Failure(_KINDS.get(code, "failed"), f"{said}{more}", mistakes=wrong)


def exit_code(
    steps: Sequence[Step], entries: Mapping[str, Entry], mistakes: Sequence[Mistake]
) -> ExitCode:
    """Return the exit code of a pass, from the work of this pass only."""
    worked = [step for step in steps if is_work(step, entries.get(step.deployment.key))]
    ran = [
        entries[step.deployment.key]
        for step in worked
        if step.verb not in (Verb.RESEND, Verb.WAIT)
    ]
    if mistakes or any(entry.failed or entry.state is State.RETRY for entry in ran):
        return ExitCode.FAILED
    if any(entries[step.deployment.key].state is State.REBOOT for step in worked):
        # the others wait for the reboot
        return ExitCode.REBOOT
    if any(entry.state is State.ACCEPTED for entry in ran):
        return ExitCode.FAILED
    if any(
        entries[step.deployment.key].state in (State.FINISHED, State.REFUSED)
        for step in worked
    ):
        return ExitCode.UNDELIVERED
    return ExitCode.OK


_KINDS = {
    ExitCode.UNDELIVERED: "undelivered",
    ExitCode.REBOOT: "reboot",
    ExitCode.NO_SOURCE: "unreachable",
    ExitCode.INTERRUPTED: "interrupted",
    ExitCode.DRIFTED: "drifted",
}


def totals(steps: Sequence[Step], entries: Mapping[str, Entry]) -> Counter[str]:
    """Return the numbers of deployments by their outcome in this pass, and the number of undelivered results."""
    counted = Counter(dict.fromkeys((*map(str, _ORDER), *_RESULTS), 0))
    for step in steps:
        entry = entries.get(step.deployment.key)
        if entry is None or not is_work(step, entry):
            counted[Shown.SKIPPED.value] += 1
            continue
        counted[states.of_entry(entry).value] += 1
        if result := states.result_of(entry):
            counted[f"results {result}"] += 1
    return counted


_RESULTS = tuple(f"results {each}" for each in states.Delivery)


def _results(counted: Mapping[str, int]) -> list[str]:
    """Return the fates of the results of a pass, for its summary."""
    sent, due, refused, replaced = (counted[each] for each in _RESULTS)
    texts = [
        (sent, f"{terminal.count(sent, 'result')} sent"),
        (
            due,
            f"{terminal.count(due, 'result')} due (the next run sends {'it' if due == 1 else 'them'})",
        ),
        (refused, f"{terminal.count(refused, 'result')} refused"),
        (replaced, f"{terminal.count(replaced, 'result')} replaced"),
    ]
    return [text for number, text in texts if number]


def failed_earlier(steps: Sequence[Step], entries: Mapping[str, Entry]) -> list[str]:
    """Return the names of deployments that this pass skipped, and that had failed before it."""
    found = ((step, entries.get(step.deployment.key)) for step in steps)
    return [
        step.deployment.title
        for step, entry in found
        if entry is not None and entry.failed and not is_work(step, entry)
    ]


def is_work(step: Step, entry: Entry | None) -> bool:
    """Return whether a pass had work with a deployment.

    An interrupted run that may run again, but was not chosen with --only, is not work.
    """
    if entry is None or step.verb is Verb.SKIP:
        return False
    return step.verb is not Verb.RESUME or entry.state is not State.ACCEPTED


def step_values(step: Step) -> dict[str, object]:
    """Return a step as JSON."""
    deployment = step.deployment
    conceal = concealer(deployment)
    return {
        "id": deployment.id or None,
        "key": deployment.key,
        "name": deployment.title,
        "config": deployment.name,
        "action": deployment.action or None,
        "tool": tool(step),
        "options": conceal(
            dict(step.job.config.options if step.job else deployment.options)
        ),
        "source": deployment.source,
        "change": change_of(step),
        "why": conceal.text(step.reason),
        "user": (step.job.user if step.job else "") or None,
        "isolated": (isolation.described(step.job.isolation) if step.job else "")
        or None,
    }


def change_of(step: Step) -> str:
    """Return the word for a step in a plan."""
    if step.verb is Verb.ANSWER:
        return "fail" if (step.reply or {}).get("deploy_status_code") else "skip"
    return _CHANGES[step.verb]


_CHANGES = {
    Verb.RUN: "run",
    Verb.RESUME: "follow",
    Verb.RESEND: "send",
    Verb.WAIT: "wait",
    Verb.SKIP: "skip",
}


def surroundings(step: Step) -> str:
    """Return a text with the user and the isolation of a step; empty if both are the default."""
    job = step.job
    user = f"; as {job.user}" if job and job.user else ""
    return (
        f"{user}; isolated: {isolation.described(job.isolation)}"
        if job and job.isolation
        else user
    )


_PLANNED = {
    "run": ("to run", "to run"),
    "fail": ("fails", "fail"),
    "follow": ("to follow", "to follow"),
    "send": ("result to send", "results to send"),
    "wait": ("waits", "wait"),
    "skip": ("skipped", "skipped"),
}
"""The words that count the changes of a plan: one of them, and several."""


def plan_lines(
    steps: Sequence[Step], apply: str, compared: Mapping[str, Compared] = {}
) -> list[str]:
    """Return a plan for people; `apply` is the command that carries it out. `compared` has the differences, by key."""
    rows = [
        (
            change_of(step),
            step.deployment.title,
            step.deployment.action or "-",
            tool(step),
            concealer(step.deployment).text(
                step.reason.replace("\n", "; ") + surroundings(step)
            ),
        )
        for step in steps
    ]
    counted = Counter(row[0] for row in rows)
    counts = [
        f"{counted[change]} {words[counted[change] > 1]}"
        for change, words in _PLANNED.items()
        if counted[change]
    ]
    table = terminal.table(
        rows, ("CHANGE", "NAME", "ACTION", "TOOL", "WHY"), "no deployments"
    )
    if not rows:
        return table
    has_work = any(change != "skip" for change in counted)
    hint = f" (`{apply}` does it)" if has_work else ""
    summary = f"{', '.join(counts)}; nothing was done{hint}"
    blocks = [
        line
        for step in steps
        if step.deployment.key in compared
        for line in _block(step, compared[step.deployment.key])
    ]
    return [
        *table,
        *blocks,
        "",
        terminal.wrapped(terminal.line(summary), 2, terminal.room()),
    ]


def _block(step: Step, compared: Compared) -> list[str]:
    """Return the differences of a step, below the name of its deployment; empty if there are none."""
    lines = [f"  {each}" for each in compared.lines(tool(step))]
    return ["", terminal.line(step.deployment.title), *lines] if lines else []


def print_plan(
    steps: Sequence[Step],
    mistakes: Iterable[Mistake],
    replaced: Sequence[str],
    code: ExitCode,
    compared: Mapping[str, Compared] = {},
) -> None:
    """Print a plan as JSON. `replaced` are the ids of deployments whose results would not be sent."""
    from heat_config_agent.cli import envelope  # noqa: PLC0415  # only with --json

    wrong = mistake_values(mistakes)
    data = {
        "changes": [
            {
                **step_values(step),
                "type": None,
                "compared": compared[step.deployment.key].values()
                if step.deployment.key in compared
                else None,
            }
            for step in steps
        ],
        "replaced": list(replaced),
        "mistakes": wrong,
    }
    number = terminal.count(len(wrong), "mistake")
    failure = envelope.Failure("failed", f"{number} in the documents", mistakes=wrong)
    envelope.result(data, code=code, error=failure if code else None)


def entry_values(entry: Entry | None, step: Step) -> dict[str, object]:
    """Return the outcome of a deployment in a pass as JSON; an entry without a record was skipped."""
    deployment = step.deployment
    conceal = concealer(deployment)
    shown = Shown.SKIPPED if entry is None else states.of_entry(entry)
    return {
        "state": shown.value,
        "result": states.result_of(entry) if entry else None,
        "reason": conceal.text(entry.reason) if entry else "",
        "run_seconds": entry_seconds(entry) if entry else None,
        "outputs": outputs(entry, deployment) if entry else {},
        "values": conceal(dict(entry.values)) if entry and entry.values else None,
        "tries": entry.tries if entry else 0,
        "trouble": entry.trouble or None if entry else None,
    }


def entry_seconds(entry: Entry) -> float | None:
    """Return how long the run of a deployment took; None if there was none."""
    if not entry.started or not entry.ended:
        return None
    return max(round(entry.ended - entry.started, 3), 0.0)


def _begun(entry: Entry) -> float:
    """Return when the run of a deployment began, in seconds since boot."""
    return entry.run.began if entry.run else processes.since_boot()


def _name(step: Step) -> str:
    return terminal.line(step.deployment.title)


def _action(step: Step) -> str:
    return terminal.line(step.deployment.action or "-")


def _tool(step: Step) -> str:
    return terminal.line(tool(step))


def _way_of(entry: Entry, outcome: Outcome | None) -> str:
    """Return the fate of a result for the row of its deployment; empty if it was sent."""
    if outcome is None:
        return "result replaced: the deployment has left its document"
    if outcome.fate is Fate.SENT:
        return ""
    if outcome.fate is Fate.REFUSED:
        return f"result refused: {outcome.trouble}"
    return f"result due: {entry.trouble or outcome.trouble}"


def mistake_values(mistakes: Iterable[Mistake]) -> list[dict[str, object]]:
    """Return mistakes as JSON."""
    place = {"file": None, "line": None, "column": None, "code": None, "hint": None}
    return [
        {**place, "path": mistake.path, "problem": mistake.problem}
        for mistake in mistakes
    ]


def outputs(entry: Entry, deployment: Deployment) -> dict[str, object]:
    """Return the outputs of a result with secrets masked, without the standard outputs such as `deploy_stdout`."""
    own = {
        name: value
        for name, value in (entry.values or {}).items()
        if name not in STANDARD_OUTPUTS
    }
    if not own:
        return {}
    conceal = concealer(deployment)
    return {name: conceal(value) for name, value in own.items()}


def tool(step: Step) -> str:
    """Return the tool of a step, or else its group."""
    if step.job is not None:
        return name_of(step.deployment, step.job.config.tool)
    return name_of(step.deployment, step.tool or step.deployment.group or "-")


def _short(text: str) -> str:
    text = text.rstrip("\n").replace("\n", " \u23ce ")
    return (
        text
        if len(text) <= _OUTPUT_CHARACTERS
        else f"{text[:_OUTPUT_CHARACTERS]}… ({len(text):,} characters)"
    )
