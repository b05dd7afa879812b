"""The output of `heat-config-apply` while it works: lines for people, or one JSON object at the end for programs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from heat_config_agent.cli import terminal
from heat_config_agent.deployments.plan import NOT_CHOSEN, Step, Verb
from heat_config_agent.engine import events
from heat_config_agent.engine.events import Event, Report
from heat_config_agent.masking.redaction import beginning, concealer, name_of
from heat_config_agent.model.deployment import STANDARD_OUTPUTS, Deployment, Mistake
from heat_config_agent.model.entry import Entry, State
from heat_config_agent.model.errors import ExitCode
from heat_config_agent.model.wording import next_attempt
from heat_config_agent.signals.delivery import Fate, Outcome, in_words
from heat_config_hooks import files, isolation, processes
from heat_config_hooks.reply import EDGE

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from heat_config_agent.cli.canvas import Canvas

_DELIVERIES = ("delivered", "refused")
"""Endings of the labels that count results."""

_NAME = 24
"""Number of columns for the name of a deployment."""

_OUTPUT_CHARACTERS = 200
"""Number of characters of an output value that a line shows."""


class Lines(Report):
    """One line for each deployment as it happens; on a terminal, one more line shows the running deployment."""

    def __init__(self, state: Path) -> None:
        """Take the output of runs from their folders in this state directory."""
        self._state = state
        self._live = terminal.is_live()
        self._running: dict[str, tuple[Step, float]] = {}
        self._resent: dict[str, Step] = {}
        self._canvas: Canvas | None = None
        """The place of the line about the running deployment, once there is one."""
        self._skipped: list[str] = []
        """Lines that are not printed yet: there may be thousands, and they are printed at once."""
        self._told: dict[str, str] = {}
        """The reason why a deployment was skipped last, by its key: several passes may say the same."""
        self.interval = 0.2 if self._live else 3600.0
        """Seconds between calls of `refresh`."""

    def event(self, event: Event) -> None:
        match event:
            case events.Begun():
                self.clear()
                self._running[event.step.deployment.key] = (event.step, event.run.began)
            case events.Ended():
                self._ended(event.step, event.entry)
            case events.RebootAsked():
                self._running.pop(event.entry.key, None)
                self._line(
                    "reboot",
                    "warn",
                    event.step,
                    "",
                    "it asks for a reboot of the machine, and continues after it",
                )
            case events.Retried():
                self._running.pop(event.entry.key, None)
                why = f"{event.entry.reason.replace(chr(10), '; ')}; {next_attempt(event.entry)}"
                self._line("retry", "warn", event.step, "", why)
            case events.Resent():
                self.clear()
                self._resent[event.step.deployment.key] = event.step
            case events.Skipped():
                key, reason = event.step.deployment.key, event.step.reason
                if reason not in (NOT_CHOSEN, self._told.get(key)):
                    self._told[key] = reason
                    self._skipped.append(
                        self._about("skipped", "quiet", event.step, "", reason)
                    )
            case events.Postponed():
                self._line(
                    "not run",
                    "bad",
                    event.step,
                    "",
                    f"{event.reason}; the next run retries",
                )
            case events.Delivered():
                self._delivered(event.entry, event.outcome)
            case events.Message():
                self.clear()
                if event.is_warning:
                    terminal.warn(event.text)
                else:
                    terminal.say(terminal.line(event.text))

    def _ended(self, step: Step, entry: Entry) -> None:
        self._running.pop(entry.key, None)
        took = (
            terminal.duration(entry.ended - entry.started)
            if entry.started and entry.ended
            else ""
        )
        word, style = ("FAILED", "bad") if entry.failed else ("ok", "good")
        why = entry.reason or step.reason
        self._line(word, style, step, took, why.replace("\n", "; "))
        for name, value in outputs(entry, step.deployment).items():
            text = value if isinstance(value, str) else json.dumps(value)
            shown = f"{'':10}{terminal.line(name)} = {terminal.line(_short(text))}"
            terminal.say(terminal.wrapped(shown, 12, terminal.room()))

    def _delivered(self, entry: Entry, outcome: Outcome | None) -> None:
        if (
            outcome is not None
            and outcome.fate is Fate.SENT
            and entry.key in self._resent
        ):
            self._line(
                "sent",
                "good",
                self._resent[entry.key],
                "",
                f"the result {in_words(outcome)}",
            )
        if (
            outcome is None
            or outcome.fate is Fate.REFUSED
            or (outcome.fate is Fate.RETRY and entry.tries == 1)
        ):
            self.warn(f"the result of {entry.title} {in_words(outcome)}")

    def refresh(self) -> None:
        """Draw the line about the running deployment again."""
        if self._skipped:
            self.clear()
        if not self._live or not self._running:
            return
        step, since = next(iter(self._running.values()))
        name = terminal.shortened(
            terminal.line(step.deployment.title), terminal.width() // 2
        )
        took = terminal.duration(processes.since_boot() - since)
        text = f"running   {name}  {took}  {terminal.line(self._last_line(step))}"
        text = terminal.shortened(text, terminal.width() - 1)
        if self._canvas is None:
            from heat_config_agent.cli.canvas import Canvas  # noqa: PLC0415  # only on a terminal

            self._canvas = Canvas()
        self._canvas.draw([terminal.styled(text, "live")])

    def summary(
        self,
        steps: Sequence[Step],
        entries: Mapping[str, Entry],
        mistakes: Iterable[Mistake],
        code: ExitCode,  # noqa: ARG002
    ) -> None:
        """Print the mistakes that no line has shown yet, and one line of totals."""
        self.clear()
        texts = list(map(str, mistakes))
        reasons = "\n".join(step.reason for step in steps) if texts else ""
        for mistake in texts:
            if mistake not in reasons:
                self.warn(mistake)
        counted = totals(steps, entries)
        counts = [f"{number} {label}" for label, number in counted.items() if number]
        if earlier := failed_earlier(steps, entries):
            skipped = f"{counted['skipped']} skipped"
            some = (
                "which failed earlier"
                if counted["skipped"] == 1
                else f"{earlier} of them failed earlier"
            )
            counts[counts.index(skipped)] = f"{skipped}, {some}"
        done = [text for text in counts if not text.endswith(_DELIVERIES)]
        sent = [text for text in counts if text.endswith(_DELIVERIES)]
        text = f"{terminal.count(len(steps), 'deployment')}: {', '.join(done) or 'nothing to do'}"
        terminal.say(f"{text}; results: {', '.join(sent)}" if sent else text)
        if counted["still to be delivered"]:
            terminal.say(
                "the next run sends the results that are still to be delivered"
            )

    def _line(self, word: str, style: str, step: Step, took: str, why: str) -> None:
        self.clear()
        terminal.say(self._about(word, style, step, took, why))

    def _about(self, word: str, style: str, step: Step, took: str, why: str) -> str:
        why = concealer(step.deployment).text(why)
        name = terminal.line(step.deployment.title)
        name = terminal.padded(
            terminal.squeezed(name, _NAME) if self._live else name, _NAME
        )
        about = terminal.line(
            f"{step.deployment.action or '-':<8} {tool(step):<10} {took:>10}"
        )
        text, why = f"{word:<8}  {name} {about}", terminal.line(why)
        most = terminal.room()
        if most and len(text) + 2 + terminal.columns(why) > most:
            text = (
                f"{text.rstrip()}\n{'':10}{terminal.wrapped(why, 10, most, begin=10)}"
            )
        else:
            text = f"{text}  {why}".rstrip()
        return terminal.styled(text[:8], style) + text[8:] if self._live else text

    def clear(self) -> None:
        """Remove the line about the running deployment, and print the lines that are not printed yet."""
        if self._canvas is not None:
            self._canvas.erase()
        if self._skipped:
            terminal.say("\n".join(self._skipped))
            self._skipped.clear()

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
    """Nothing until the end, then one JSON object."""

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
    ) -> None:
        """Print the object."""
        value = {
            "deployments": [
                {
                    **step_values(step),
                    **entry_values(entries.get(step.deployment.key), step.deployment),
                }
                for step in steps
            ],
            "mistakes": mistake_values(mistakes),
            "warnings": self.warnings,
            "summary": {
                label.replace(" ", "_"): number
                for label, number in totals(steps, entries).items()
            },
            "exit_code": int(code),
        }
        terminal.say(json.dumps(value))


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


def totals(steps: Sequence[Step], entries: Mapping[str, Entry]) -> Counter[str]:
    """Return the counts of this pass by their labels."""
    counted = Counter(
        dict.fromkeys(
            (
                "ok",
                "failed",
                "not run",
                "skipped",
                "delivered",
                "refused",
                "still to be delivered",
            ),
            0,
        )
    )
    for step in steps:
        entry = entries.get(step.deployment.key)
        if entry is None or not is_work(step, entry):
            counted["skipped"] += 1
            continue
        if step.verb is Verb.WAIT:
            counted[
                "not run" if entry.state is State.REBOOT else "still to be delivered"
            ] += 1
            continue
        if step.verb is not Verb.RESEND:
            counted[
                "not run" if entry.ended is None else "failed" if entry.failed else "ok"
            ] += 1
        counted["delivered"] += entry.state is State.SIGNALLED
        counted["refused"] += entry.state is State.REFUSED
        counted["still to be delivered"] += entry.state is State.FINISHED
    return counted


def failed_earlier(steps: Sequence[Step], entries: Mapping[str, Entry]) -> int:
    """Return the number of deployments that this pass skipped, and that had failed before it."""
    found = ((step, entries.get(step.deployment.key)) for step in steps)
    return sum(
        entry is not None and entry.failed and not is_work(step, entry)
        for step, entry in found
    )


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
        "id": deployment.id,
        "name": deployment.name,
        "title": deployment.title,
        "action": deployment.action,
        "tool": tool(step),
        "options": conceal(
            dict(step.job.config.options if step.job else deployment.options)
        ),
        "source": deployment.source,
        "step": step.verb.value,
        "why": conceal.text(step.reason),
        "user": (step.job.user if step.job else "") or None,
        "isolated": (isolation.described(step.job.isolation) if step.job else "")
        or None,
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


def entry_values(entry: Entry | None, deployment: Deployment) -> dict[str, object]:
    """Return the entry of a deployment as JSON."""
    if entry is None:
        return {"state": None}
    conceal = concealer(deployment)
    return {
        "state": entry.state.value,
        "failed": entry.failed,
        "reason": conceal.text(entry.reason),
        "seconds": entry.ended - entry.started
        if entry.ended and entry.started
        else None,
        "outputs": outputs(entry, deployment),
        "result": conceal(dict(entry.values)) if entry.values is not None else None,
        "tries": entry.tries,
        "trouble": entry.trouble,
    }


def mistake_values(mistakes: Iterable[Mistake]) -> list[dict[str, str]]:
    """Return mistakes as JSON."""
    return [{"path": mistake.path, "problem": mistake.problem} for mistake in mistakes]


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
