"""`heat-config-agent show ID`: Show everything about one deployment."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path

from heat_config_agent.cli import state_options, terminal
from heat_config_agent.cli.deployments import kept_runs, named, status
from heat_config_agent.deployments import plan, replacement
from heat_config_agent.masking import MASK
from heat_config_agent.masking.redaction import concealer, is_secret
from heat_config_agent.model.deployment import STANDARD_OUTPUTS, Deployment
from heat_config_agent.model.entry import Entry, Removed, State
from heat_config_agent.model.errors import ExitCode
from heat_config_agent.runs import scopes
from heat_config_agent.state import deployed, journal

_LINES = 20
"""Number of lines that are shown of standard output, and of standard error."""


def add(commands: state_options.Commands) -> None:
    """Declare the command."""
    parser = state_options.command(
        commands, "show", "show everything about one deployment", __doc__
    )
    state_options.add_id(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Show the deployment, without its secrets."""
    asked = state_options.of(options)
    target = named.find(asked, options.id, options.config, newest=True)
    settings, entry = target.settings, target.entry
    deployment = state_options.deployment(settings, entry)
    kept = entry.values
    result = (
        deployed.kept(settings.deployed / f"{entry.key}.notify.json")
        if kept is None
        else dict(kept)
    )
    if deployment is None:
        result = {}  # which values are secret is no longer known
    else:
        conceal = concealer(deployment)
        result = {conceal.text(name): conceal(value) for name, value in result.items()}
    if entry.removed is not Removed.NOTHING:
        # which parts of an output are secret is no longer known
        result = {
            name: value if name in STANDARD_OUTPUTS else MASK
            for name, value in result.items()
        }
    inputs = _inputs(deployment) if deployment else {}
    runs = kept_runs.of(target)
    if options.json:
        more = {
            "inputs": inputs,
            "result": result or None,
            "runs": [each.values for each in runs],
        }
        terminal.say(json.dumps({**status.values(entry, settings.state), **more}))
        return ExitCode.OK
    facts = [
        *_facts(target, deployment, settings.state),
        *_replaced(entry, settings.state),
    ]
    for line in terminal.table(facts):
        terminal.say(line)
    _section("inputs", inputs)
    _section("result", result)
    if len(runs) > 1:
        terminal.say(
            f"\nruns (`{asked.command('log', options.id, '--run', 'N')}` prints the output of run N)"
        )
        for line in terminal.table(each.row for each in runs):
            terminal.say(line)
    return ExitCode.OK


def _facts(
    found: named.Named, deployment: Deployment | None, state: Path
) -> list[tuple[str, str]]:
    entry = found.entry
    facts = [
        ("name", found.title if found.follows else entry.title),
        ("config", entry.name if entry.title != entry.name else ""),
        ("id", entry.id or "(none)"),
        ("action", entry.action or "-"),
        ("tool", entry.tool or "-"),
        ("from", entry.source),
        ("state", status.word(entry, state)),
        ("", status.details(entry, state).replace("\n", "; ")),
        ("accepted", plan.clock(entry.accepted)),
    ]
    if entry.run and entry.run.user:
        facts.append(("user", entry.run.user))
    if entry.run and entry.run.isolated:
        facts.append(("isolated", entry.run.isolated))
    if entry.started:
        facts.append(("started", plan.clock(entry.started)))
    if (
        entry.run
        and entry.run.scope
        and (left := scopes.members(entry.run.scope, entry.run.mark))
    ):
        facts.append(("scope", f"{Path(entry.run.scope).name}; {len(left)} alive"))
    if entry.ended:
        took = (
            f" ({terminal.duration(entry.ended - entry.started)})"
            if entry.started
            else ""
        )
        facts.append(("ended", plan.clock(entry.ended) + took))
    if entry.state is State.SIGNALLED:
        facts.append(("delivered", plan.clock(entry.at)))
    if entry.removed is not Removed.NOTHING:
        gone = (
            "inputs and config"
            if entry.removed is Removed.SECRETS
            else "everything except that it ran"
        )
        facts.append(
            ("pruned", f"{gone}; keep_for and keep_size say how long they are kept")
        )
    elif deployment is not None:
        facts.append(("result goes", deployment.target.described))
    return [fact for fact in facts if fact[1]]


def _replaced(entry: Entry, state: Path) -> list[tuple[str, str]]:
    """Return the facts about the replacement of a deployment by Heat; none if there is none."""
    same = [each for each in journal.read(state).values() if each.owner == entry.owner]
    found = [
        each
        for each in replacement.replacements(same)
        if entry.key in (each.old.key, each.new.key)
    ]
    return [("replaced", f"{each.sentence} → {each.todo}") for each in found]


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
