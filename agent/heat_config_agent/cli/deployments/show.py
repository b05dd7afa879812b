"""`heat-config-agent show NAME`: Show everything about a deployment, a stack, a resource or a source."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path

from heat_config_agent.cli import envelope, stack_package, state_options, terminal
from heat_config_agent.cli.deployments import kept_runs, log, named, status, verdicts
from heat_config_agent.deployments import replacement, selection
from heat_config_agent.masking import MASK
from heat_config_agent.masking.redaction import concealer, is_secret
from heat_config_agent.model import states, wording
from heat_config_agent.model.deployment import STANDARD_OUTPUTS, Config, Deployment
from heat_config_agent.model.entry import Entry, Removed
from heat_config_agent.model.errors import ExitCode, NotFoundError, UsageError
from heat_config_agent.runs import scopes
from heat_config_agent.state import deployed, journal
from heat_config_hooks.values import dataclass, field

_LINES = 20
"""Number of lines that are shown of standard output, and of standard error."""

_LABEL = 11
"""Columns of the names of facts."""

_EPILOG = """\
exit codes:
  0  it is shown
  2  bad usage or settings
  8  there is nothing of that name, or with --print-config: its config is not kept
"""


def add(commands: state_options.Commands) -> None:
    """Declare the command."""
    parser = state_options.command(
        commands,
        "show",
        "show everything about one deployment, stack or source",
        __doc__,
        epilog=_EPILOG,
    )
    state_options.add_id(parser, needed=False)
    parser.add_argument(
        "--print-config",
        action="store_true",
        help="print the config of a deployment, and nothing else",
    )
    state_options.add_json(parser)
    parser.set_defaults(run=run, kind="deployment")


def run(options: argparse.Namespace) -> int:
    """Show it, without its secrets."""
    if options.id is None:
        return status.show(options)
    asked = state_options.there(options)
    target = named.find_any(asked, options.id, options.config, newest=True)
    if isinstance(target, named.NamedPlace):
        if options.print_config:
            raise UsageError(
                f"{target.title} is a {target.kind}: --print-config is for deployments"
            )
        return _place(target, options)
    facts = facts_of(target)
    if options.print_config:
        return _print_config(target, facts, as_json=options.json)
    if options.json:
        envelope.result(facts.values())
        return ExitCode.OK
    for name, text in facts.lines():
        if text:
            terminal.say(fact(name, text))
    _section("inputs", facts.inputs)
    _section("values", facts.results)
    _section("on_failure", {name: text for name, text in facts.said.items() if text})
    if len(facts.runs) > 1:
        log = asked.command("log", options.id, "--run", "N")
        terminal.say(f"\nruns (`{log}` prints the output of run N)")
        for line in terminal.table(
            [each.row for each in facts.runs], header=kept_runs.HEADER
        ):
            terminal.say(line)
    return ExitCode.OK


def _place(target: named.NamedPlace, options: argparse.Namespace) -> int:
    """Show a stack, resource or source, as its own command does."""
    envelope.begin(target.kind, is_on=options.json)
    words = argparse.Namespace(**vars(options))
    words.name, words.resource = target.stack or target.name, target.name
    return stack_package.show(target.kind, words)


def fact(name: str, text: str) -> str:
    """Return a fact for people, in the form of all commands that show one thing."""
    begin = _LABEL + 1
    word = text.partition(",")[0]
    shown = terminal.wrapped(terminal.line(text), begin, terminal.room(), begin=begin)
    if name == "state" and shown.startswith(word):
        shown = f"{terminal.stated(word)}{shown[len(word) :]}"
    return f"{terminal.padded(name, _LABEL)} {shown}".rstrip()


@dataclass(frozen=True, kw_only=True)
class _Facts:
    """Everything about a deployment, without its secrets."""

    target: named.Named
    deployment: Deployment | None
    """The deployment; None if its document is not kept any more."""
    inputs: Mapping[str, object]
    results: Mapping[str, object]
    """The values of its result as it is signalled."""
    runs: list[kept_runs.KeptRun]
    after: Entry | None = None
    """The entry of its follow-up; None if it had none."""
    said: Mapping[str, str] = field(default_factory=dict)
    """The end of the output of that, by the names of the streams."""

    @property
    def goes_to(self) -> str:
        """The address of its result for people; empty if it is not known, or inside of this machine."""
        if self.deployment is None or self.target.stack:
            return ""
        return self.deployment.target.described

    @property
    def is_wanted(self) -> bool:
        """True if a server waits for its result."""
        return bool(self.goes_to) and bool(
            self.deployment and self.deployment.target.wanted
        )

    @property
    def source(self) -> str:
        """The document, stack or source that it is from."""
        if self.target.stack:
            return f"stack {self.target.stack}"
        return self.target.entry.source

    @property
    def replaced(self) -> list[replacement.Replacement]:
        """The replacements of this deployment by Heat, or by this deployment."""
        entry = self.target.entry
        entries = journal.read(self.target.settings.state).values()
        same = [each for each in entries if each.owner == entry.owner]
        return [
            each
            for each in replacement.replacements(same)
            if entry.key in (each.old.key, each.new.key)
        ]

    def values(self) -> dict[str, object]:
        """Return it as JSON."""
        target = self.target
        own = status.values(
            target.entry,
            target.settings.state,
            title=target.title,
            follows=target.follows,
        )
        return {
            **own,
            "result": None if target.stack else own["result"],
            "source": self.source or None,
            "stack": target.stack or None,
            "goes_to": self.goes_to if self.is_wanted else None,
            "pruned": target.entry.removed.value or None,
            "content": None,
            "inputs": dict(self.inputs),
            "values": dict(self.results),
            "runs": [each.values for each in self.runs],
            "on_failure": self._after_values(),
            "replaced": [status.replacement_values(each) for each in self.replaced],
        }

    def _after_values(self) -> dict[str, object] | None:
        """Return the follow-up of its failure as JSON."""
        entry = self.after
        if entry is None:
            return None
        return {
            "state": status.shown(entry, self.target.settings.state).value,
            "started": wording.stamp(entry.started),
            "ended": wording.stamp(entry.ended),
            "run_seconds": status.run_seconds(entry),
            "reason": entry.reason,
            "stdout": self.said.get("stdout", ""),
            "stderr": self.said.get("stderr", ""),
        }

    def _after_words(self) -> str:
        """Return a sentence about the follow-up of its failure; empty if there was none."""
        entry, state = self.after, self.target.settings.state
        if entry is None:
            return ""
        details = status.details(entry, state).replace("\n", "; ")
        return f"{status.shown(entry, state)}, {details}"

    def lines(self) -> list[tuple[str, str]]:
        """Return the facts for people; those without a text are left out."""
        target, entry = self.target, self.target.entry
        state, run = target.settings.state, entry.run
        took = status.run_seconds(entry)
        ended = terminal.moment(entry.ended) if entry.ended else ""
        result = None if target.stack else states.result_of(entry)
        way = f"{result}: {self.goes_to}" if result and self.goes_to else self.goes_to
        scope = ""
        if run and run.scope and (left := scopes.members(run.scope, run.mark)):
            scope = f"{Path(run.scope).name}; {len(left)} alive"
        return [
            ("name", target.title),
            (
                "state",
                f"{status.shown(entry, state)}, since {terminal.moment(status.since(entry, state))}",
            ),
            ("verified", _verified(entry, state)),
            ("why", status.details(entry, state).replace("\n", "; ")),
            ("on_failure", self._after_words()),
            ("action", entry.action),
            ("tool", entry.tool),
            ("source", self.source),
            ("result", way or result or ""),
            ("accepted", terminal.moment(entry.accepted)),
            ("started", terminal.moment(entry.started) if entry.started else ""),
            (
                "ended",
                ended if took is None else f"{ended} ({terminal.duration(took)})",
            ),
            ("user", run.user if run else ""),
            ("isolated", run.isolated if run else ""),
            ("scope", scope),
            ("pruned", _PRUNED[entry.removed]),
            ("config", entry.name if entry.name != target.title else ""),
            ("id", entry.id),
            *(("replaced", f"{each.sentence} → {each.todo}") for each in self.replaced),
        ]


def _verified(entry: Entry, state: Path) -> str:
    """Return when a deployment was last verified, and how it was then; empty if it was not, since its last run."""
    verified = verdicts.of(entry, state)
    if verified is None:
        return ""
    verdict = verified.verdict
    reason = f": {verdict.reason}" if verdict.reason else ""
    return f"{terminal.moment(verified.at)}, {verdict.standing.value}{reason}".replace(
        "\n", "; "
    )


_PRUNED = {
    Removed.NOTHING: "",
    Removed.SECRETS: "inputs and config; keep_for and keep_size say how long they are kept",
    Removed.ALL: "everything except that it ran; keep_for and keep_size say how long it is kept",
}


def facts_of(target: named.Named) -> _Facts:
    """Return everything about a deployment, with its secrets masked."""
    settings, entry = target.settings, target.entry
    deployment = state_options.deployment(settings, entry)
    kept = entry.values
    results = (
        deployed.kept(settings.deployed / f"{entry.key}.notify.json")
        if kept is None
        else dict(kept)
    )
    if deployment is None:
        results = {}  # which values are secret is no longer known
    else:
        conceal = concealer(deployment)
        results = {
            conceal.text(name): conceal(value) for name, value in results.items()
        }
    if entry.removed is not Removed.NOTHING:
        # which parts of an output are secret is no longer known
        results = {
            name: value if name in STANDARD_OUTPUTS else MASK
            for name, value in results.items()
        }
    after, said = log.end_after_failure(target, _LINES) or (None, {})
    return _Facts(
        target=target,
        deployment=deployment,
        inputs=_inputs(deployment) if deployment else {},
        results=results,
        runs=kept_runs.of(target),
        after=after,
        said=said,
    )


def _print_config(target: named.Named, facts: _Facts, *, as_json: bool) -> int:
    """Print the config of a deployment, with secrets masked. Raises NotFoundError if it is not kept."""
    deployment, entry = facts.deployment, target.entry
    config = selection.select(deployment) if deployment else None
    if deployment is None or entry.removed is not Removed.NOTHING:
        why = "was pruned" if entry.removed is not Removed.NOTHING else "is not kept"
        raise NotFoundError(
            f"the config of {target.title} {why}", subject=("deployment", target.title)
        )
    if not isinstance(config, Config):
        raise NotFoundError(
            f"{target.title} has no config for the action {entry.action or '-'}",
            subject=("deployment", target.title),
        )
    content = concealer(deployment)(config.config)
    if as_json:
        envelope.result({**facts.values(), "content": content})
        return ExitCode.OK
    text = content if isinstance(content, str) else json.dumps(content, indent=2)
    terminal.say(terminal.plain(text), end="" if text.endswith("\n") else "\n")
    return ExitCode.OK


def _inputs(deployment: Deployment) -> dict[str, object]:
    conceal = concealer(deployment)
    return {
        conceal.text(each.name): MASK if is_secret(each) else conceal(each.value)
        for each in deployment.inputs
    }


def _section(title: str, values: Mapping[str, object]) -> None:
    if not values:
        return
    terminal.say(f"\n{title}")
    for name, value in values.items():
        text = value if isinstance(value, str) else json.dumps(value)
        lines = text.rstrip("\n").split("\n")
        left_out = len(lines) - _LINES
        if left_out > 0:
            lines = [
                *lines[: _LINES // 2],
                f"[... {left_out} lines; `log` shows all of them ...]",
                *lines[-_LINES // 2 :],
            ]
        first, *rest = lines
        terminal.say(f"  {terminal.line(name)}: {terminal.plain(first)}")
        for line in rest:
            terminal.say(f"    {terminal.plain(line)}")
