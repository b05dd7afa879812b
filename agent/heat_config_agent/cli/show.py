"""`heat-config-agent show ID`: all that is known of one deployment."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path

from heat_config_agent import deployed, plan, scopes
from heat_config_agent.cli import chosen, status, terminal
from heat_config_agent.errors import ExitCode
from heat_config_agent.model import STANDARD_OUTPUTS, Deployment, Entry, Removed, State
from heat_config_agent.redaction import MASK, concealer, is_secret

_LINES = 20
"""Lines of standard output and error that are shown."""


def add(commands: chosen.Commands) -> None:
    """Declare the command."""
    parser = chosen.command(commands, "show", "all that is known of one deployment", __doc__)
    chosen.add_id(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Show the deployment, without its secrets."""
    settings = chosen.of(options)
    entry = chosen.entry(settings, options.id, newest=True)
    deployment = chosen.deployment(settings, entry)
    kept = entry.values
    result = deployed.kept(settings.deployed / f"{entry.key}.notify.json") if kept is None else dict(kept)
    if deployment is None:
        result = {}  # what is secret in it is no longer known
    else:
        conceal = concealer(deployment)
        result = {name: conceal(value) for name, value in result.items()}
    if entry.removed is not Removed.NOTHING:  # what is secret in an output is not known any more
        result = {name: value if name in STANDARD_OUTPUTS else MASK for name, value in result.items()}
    inputs = _inputs(deployment) if deployment else {}
    if options.json:
        terminal.say(json.dumps({**status.values(entry, settings.state), "inputs": inputs, "result": result or None}))
        return ExitCode.OK
    for line in terminal.table(_facts(entry, deployment, settings.state)):
        terminal.say(line)
    _section("inputs", inputs)
    _section("result", result)
    return ExitCode.OK


def _facts(entry: Entry, deployment: Deployment | None, state: Path) -> list[tuple[str, str]]:
    facts = [
        ("name", entry.name),
        ("id", entry.id or "(none)"),
        ("action", entry.action or "-"),
        ("tool", entry.tool or "-"),
        ("from", entry.source),
        ("state", status.word(entry)),
        ("", status.what(entry, state).replace("\n", "; ")),
        ("accepted", plan.clock(entry.accepted)),
    ]
    if entry.started:
        facts.append(("started", plan.clock(entry.started)))
    if entry.run and entry.run.scope and (left := scopes.members(entry.run.scope, entry.run.mark)):
        facts.append(("scope", f"{Path(entry.run.scope).name}; {len(left)} alive"))
    if entry.ended:
        took = f" ({terminal.duration(entry.ended - entry.started)})" if entry.started else ""
        facts.append(("ended", plan.clock(entry.ended) + took))
    if entry.state is State.SIGNALLED:
        facts.append(("delivered", plan.clock(entry.at)))
    if entry.removed is not Removed.NOTHING:
        gone = "inputs and config" if entry.removed is Removed.SECRETS else "all but that it ran"
        facts.append(("removed", f"{gone}, as settings say how long they are kept (keep_…)"))
    elif deployment is not None:
        facts.append(("result goes", deployment.target.described))
    return [fact for fact in facts if fact[1]]


def _inputs(deployment: Deployment) -> dict[str, object]:
    conceal = concealer(deployment)
    return {each.name: MASK if is_secret(each) else conceal(each.value) for each in deployment.inputs}


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
                f"[... {left_out} lines; `log` has all that was printed ...]",
                *lines[-_LINES // 2 :],
            ]
        first, *rest = lines
        terminal.say(f"  {terminal.line(name)}: {terminal.plain(first)}")
        for line in rest:
            terminal.say(f"    {terminal.plain(line)}")
