"""`heat-config-agent migrate`: Have this agent take the place of os-collect-config, os-refresh-config and heat-agents.

Their settings, hooks and notes of what was done stay where they are and are gone by, so nothing that was done is done
again. What they have begun is waited for. If something stands in the way, that is said and nothing is done. Nothing of
theirs is deleted. Run it again whenever it was cut short.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from heat_config_agent.cli import chosen, terminal
from heat_config_agent.errors import AgentError, ExitCode, UsageError

if TYPE_CHECKING:
    from heat_config_agent.migration import Plan, Step

_EPILOG = """\
Begin with --plan: it shows each step and its reason, what is taken over, and what nobody will do any more. In a chroot
or an image that is being made, units are only enabled and disabled.

exit codes:
  0  this agent is in their place, or with --plan, it can be
  1  something stands in the way, or could not be done
  2  bad usage
"""

_STYLES = {"ok": "", "warning": "warn", "refused": "bad"}

PATIENCE = 60.0
"""Seconds for which what they have begun is waited for."""


def add(commands: chosen.Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "migrate",
        help="take the place of os-collect-config and heat-agents",
        description=(__doc__ or "").partition(": ")[2],
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--plan", action="store_true", help="show what would be done, and why, and do nothing")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--without-scripts",
        action="store_true",
        help="go on though scripts and templates of your own, which os-refresh-config ran, are run no more",
    )
    parser.add_argument(
        "--no-start", action="store_true", help="leave it to you, or to the next boot, to start the agent"
    )
    parser.add_argument(
        "--wait",
        type=_seconds,
        default=PATIENCE,
        metavar="SECONDS",
        help="wait so long for what os-collect-config has begun (default %(default).0f)",
    )
    parser.set_defaults(run=run)


def _seconds(text: str) -> float:
    seconds = float(text) if text.replace(".", "", 1).isdecimal() else -1.0
    if seconds < 0:
        raise argparse.ArgumentTypeError(f"expected a number of seconds, 0 or more, not {text!r}")
    return seconds


def run(options: argparse.Namespace) -> int:
    """Look, say what there is, and do it."""
    from heat_config_agent.migration import doing, looking, planning  # noqa: PLC0415  # psutil, for this command alone

    if os.geteuid() != 0:
        raise UsageError(
            "only root can do this", hint="it is about units of systemd's, and files that are root's alone"
        )
    found = looking.look()
    plan = planning.plan(found, without_scripts=options.without_scripts, start=not options.no_start)
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
        for step in doing.carry_out(found, plan, patience=options.wait, waits=_waits):
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


def _waits(what: str) -> None:
    terminal.say(f"waiting: {terminal.line(what)}", error=True)


def _show(plan: Plan) -> None:
    for each in plan.findings:
        word = terminal.styled(terminal.padded(each.verdict.value, 7), _STYLES[each.verdict.value])
        todo = f" → {each.todo}" if each.todo else ""
        terminal.say(f"{word}  {terminal.padded(each.about, 8)}  {terminal.line(f'{each.says}{todo}')}")
    terminal.say("")


def _show_plan(plan: Plan) -> None:
    for each in plan.steps:
        _say("already" if each.done else "to do", each)
    terminal.say("")
    if plan.refused:
        terminal.say(terminal.styled("something stands in the way: nothing was done", "bad"))
    else:
        terminal.say("this is what would be done; nothing was")


def _say(word: str, step: Step) -> None:
    terminal.say(f"{terminal.padded(word, 7)}  {terminal.line(f'{step.says}: {step.why}')}")


def _hint(plan: Plan) -> None:
    terminal.say("")
    terminal.say("`heat-config-agent status` shows how it is with the agent and every deployment")
    if len(plan.back) > 1:
        terminal.say(terminal.line(f"to go back, when nothing runs or waits there: {' && '.join(plan.back)}"))


def _print(plan: Plan, steps: Iterable[Step], *, planned: bool, trouble: AgentError | None = None) -> None:
    findings = [
        {"verdict": each.verdict.value, "about": each.about, "says": each.says, "todo": each.todo or None}
        for each in plan.findings
    ]
    shown = [
        {"deed": each.deed.value, "about": each.about, "says": each.says, "why": each.why, "already": each.done}
        for each in steps
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
