"""`heat-config-agent migrate`: Replace os-collect-config, os-refresh-config and heat-agents with this agent.

Their settings, hooks and records of deployments stay in place and remain in use, so no deployment runs twice. The
command waits for work that they have begun, and deletes nothing of theirs. If there is an obstacle, it says so and
changes nothing. After an interruption, run it again.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from heat_config_agent.cli import state_options, terminal
from heat_config_agent.cli.help_format import HelpFormatter
from heat_config_agent.model.errors import AgentError, ExitCode, UsageError

if TYPE_CHECKING:
    from heat_config_agent.migration import Plan, Step

_EPILOG = """\
Start with --plan: it shows each step and its reason, what the agent takes over, and what it does not. In a chroot or an
image that is being built, units are only enabled and disabled.

exit codes:
  0  this agent has replaced them, or with --plan, it can
  1  there is an obstacle, or a step failed
  2  bad usage
"""

_STYLES = {"ok": "", "warning": "warn", "refused": "bad"}

PATIENCE = 60.0
"""Seconds to wait for work that the other programs have begun."""


def add(commands: state_options.Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "migrate",
        help="replace os-collect-config and heat-agents",
        description=(__doc__ or "").partition(": ")[2],
        epilog=_EPILOG,
        formatter_class=HelpFormatter,
    )
    parser.add_argument(
        "--plan",
        action="store_true",
        help="show each step and its reason, and change nothing",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--without-scripts",
        action="store_true",
        help="continue although your own scripts and templates of os-refresh-config will no longer run",
    )
    parser.add_argument(
        "--no-start",
        action="store_true",
        help="do not start the agent: you, or the next boot, do",
    )
    parser.add_argument(
        "--wait",
        type=_seconds,
        default=PATIENCE,
        metavar="SECONDS",
        help="how long to wait for work that os-collect-config has begun (default %(default).0f)",
    )
    parser.set_defaults(run=run)


def _seconds(text: str) -> float:
    seconds = float(text) if text.replace(".", "", 1).isdecimal() else -1.0
    if seconds < 0:
        raise argparse.ArgumentTypeError(
            f"expected a number of seconds, 0 or more, not {text!r}"
        )
    return seconds


def run(options: argparse.Namespace) -> int:
    """Inspect the machine, show the findings, and carry out the plan."""
    from heat_config_agent.migration import planning, steps, survey  # noqa: PLC0415  # psutil, for this command alone

    if os.geteuid() != 0:
        raise UsageError(
            "only root can migrate",
            hint="it changes systemd units, and reads files that only root may read",
        )
    inventory = survey.look()
    plan = planning.plan(
        inventory, without_scripts=options.without_scripts, start=not options.no_start
    )
    if not options.json:
        _show(plan)
    if options.plan or plan.refused:
        if options.json:
            _print(plan, plan.steps, planned=True)
        else:
            _show_plan(plan)
        return ExitCode.FAILED if plan.refused else ExitCode.OK
    done: list[Step] = []
    trouble = None
    try:
        for step in steps.carry_out(
            inventory, plan, patience=options.wait, waits=_waits
        ):
            done.append(step)
            if not options.json:
                _say("already" if step.done else "done", step)
    except AgentError as error:
        trouble = error
    if options.json:
        _print(plan, done, planned=False, trouble=trouble)
    elif trouble is None:
        _hint(plan)
    if trouble is None:
        return ExitCode.OK
    terminal.say(f"error: {terminal.line(str(trouble))}", error=True)
    if len(plan.back) > 1 and any(not each.done for each in done):
        terminal.say(f"to go back: {terminal.line(' && '.join(plan.back))}", error=True)
    return ExitCode.FAILED


def _waits(reason: str) -> None:
    terminal.say(f"waiting: {terminal.line(reason)}", error=True)


def _show(plan: Plan) -> None:
    for each in plan.findings:
        word = terminal.styled(
            terminal.padded(each.verdict.value, 7), _STYLES[each.verdict.value]
        )
        todo = f" → {each.todo}" if each.todo else ""
        text = terminal.wrapped(
            terminal.line(f"{each.text}{todo}"), 19, terminal.room(), begin=19
        )
        terminal.say(f"{word}  {terminal.padded(each.about, 8)}  {text}")
    terminal.say("")


def _show_plan(plan: Plan) -> None:
    for each in plan.steps:
        _say("already" if each.done else "to do", each)
    terminal.say("")
    if plan.refused:
        terminal.say(terminal.styled("there is an obstacle: nothing was done", "bad"))
    else:
        terminal.say("these are the steps; nothing was done")


def _say(word: str, step: Step) -> None:
    text = terminal.wrapped(
        terminal.line(f"{step.text}: {step.why}"), 9, terminal.room(), begin=9
    )
    terminal.say(f"{terminal.padded(word, 7)}  {text}")


def _hint(plan: Plan) -> None:
    terminal.say("")
    terminal.say(
        "`heat-config-agent status` shows the state of the agent and of every deployment"
    )
    if len(plan.back) > 1:
        text = f"to go back, when status shows nothing running or waiting: {' && '.join(plan.back)}"
        terminal.say(terminal.wrapped(terminal.line(text), 2, terminal.room()))


def _print(
    plan: Plan,
    steps: Iterable[Step],
    *,
    planned: bool,
    trouble: AgentError | None = None,
) -> None:
    findings = [
        {
            "verdict": finding.verdict.value,
            "about": finding.about,
            "says": finding.text,
            "todo": finding.todo or None,
        }
        for finding in plan.findings
    ]
    shown = [
        {
            "deed": step.deed.value,
            "about": step.about,
            "says": step.text,
            "why": step.why,
            "already": step.done,
        }
        for step in steps
    ]
    values = {
        "planned": planned,
        "refused": plan.refused,
        "findings": findings,
        "steps": shown,
        "back": list(plan.back),
        "trouble": str(trouble) if trouble else None,
    }
    terminal.say(json.dumps(values))
