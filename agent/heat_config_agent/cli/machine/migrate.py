"""`heat-config-agent migrate`: Replace os-collect-config, os-refresh-config and heat-agents with this agent.

Their settings, hooks and records of deployments stay in place and remain in use, so no deployment runs twice. The
command waits for work that they have begun, and deletes nothing of theirs. If there is an obstacle, it says so and
changes nothing. After an interruption, run it again.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from heat_config_agent.cli import envelope, state_options, terminal
from heat_config_agent.cli.command_line import Option, seconds
from heat_config_agent.model.errors import AgentError, ExitCode, StateError

if TYPE_CHECKING:
    from heat_config_agent.migration import Plan, Step

_EPILOG = """\
Start with --plan: it shows each step and its reason, what the agent takes over, and what it does not. In a chroot or an
image that is being built, units are only enabled and disabled.

exit codes:
  0  this agent has replaced them, or with --plan, it can
  1  there is an obstacle, or a step failed
  2  bad usage
  7  os-collect-config was still at work when the time of --wait-for was over
  10  another user than root cannot migrate
"""

PATIENCE = 60.0
"""Seconds to wait for work that the other programs have begun."""

_WAIT_FOR = Option(
    "--wait-for",
    "how long to wait for work that os-collect-config has begun (default 1m)",
    "TIME",
    read=seconds,
)


def add(commands: state_options.Commands) -> None:
    """Declare the command."""
    parser = state_options.stateless(
        commands,
        "migrate",
        "replace os-collect-config and heat-agents",
        (__doc__ or "").partition(": ")[2],
        epilog=_EPILOG,
    )
    state_options.add_plan(parser)
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
    _WAIT_FOR.add(parser)
    state_options.add_common(parser)
    state_options.add_json(parser)
    parser.set_defaults(run=run, kind="migration")


def run(options: argparse.Namespace) -> int:
    """Inspect the machine, show the findings, and carry out the plan."""
    from heat_config_agent.migration import planning, steps, survey  # noqa: PLC0415  # psutil, for this command alone

    if os.geteuid() != 0:
        raise StateError(
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
        return _planned(plan, as_json=options.json)
    patience = vars(options)[_WAIT_FOR.variable]
    done: list[Step] = []
    trouble = None
    try:
        for step in steps.carry_out(
            inventory,
            plan,
            patience=PATIENCE if patience is None else patience,
            waits=_waits,
        ):
            done.append(step)
            if not options.json:
                _say(step)
    except AgentError as error:
        trouble = error
    code = ExitCode.OK if trouble is None else trouble.exit_code
    back = " && ".join(plan.back) if len(plan.back) > 1 else ""
    if trouble is not None:
        terminal.complain(f"error: {terminal.line(str(trouble))}")
        if back and any(not each.done for each in done):
            terminal.say(f"to go back: {terminal.line(back)}", error=True)
    if options.json:
        failure = None
        if trouble is not None:
            failure = envelope.Failure(trouble.code, trouble.brief, trouble.hint)
        envelope.result(_values(plan, done, planned=False), code=code, error=failure)
    elif trouble is None:
        _hint(back)
    return code


def _planned(plan: Plan, *, as_json: bool) -> int:
    """Show the steps of a plan, or the obstacles that forbid them."""
    code = ExitCode.FAILED if plan.refused else ExitCode.OK
    refused = [each for each in plan.findings if each.verdict.value == "refused"]
    count = terminal.count(len(refused), "obstacle")
    if as_json:
        failure = None
        if refused:
            message = f"{count}: {refused[0].text}"
            failure = envelope.Failure("refused", message, refused[0].todo)
        values = _values(plan, plan.steps, planned=True)
        envelope.result(values, code=code, error=failure)
        return code
    rows = [(_change(step), step.about, _type(step), _why(step)) for step in plan.steps]
    for line in terminal.table(rows, header=("CHANGE", "NAME", "TYPE", "WHY")):
        terminal.say(line)
    if refused:
        terminal.complain(f"error: {count}: nothing was done")
    else:
        terminal.say("\nthese are the steps; nothing was done")
    return code


def _waits(reason: str) -> None:
    terminal.say(f"waiting: {terminal.line(reason)}", error=True)


def _show(plan: Plan) -> None:
    """Print the findings, the worst first, each with its remedy."""
    rows = [
        (
            each.verdict.value,
            each.about,
            f"{each.text} (to do: {each.todo})" if each.todo else each.text,
        )
        for each in sorted(
            plan.findings, key=lambda each: _ORDER.index(each.verdict.value)
        )
    ]
    for line in terminal.table(rows, header=("STATE", "CHECK", "DETAILS")):
        terminal.say(line)
    terminal.say("")


_ORDER = ("refused", "warning", "ok")


def _change(step: Step) -> str:
    return "unchanged" if step.done else step.deed.value


def _type(step: Step) -> str:
    return {"wait": "program", "variables": "file", "message": "file"}.get(
        step.deed.value, "unit"
    )


def _why(step: Step) -> str:
    """Return the reason of a step, after the step itself if its change and its name do not say all of it."""
    told = f"{step.deed.value} {step.about}"
    return (
        step.why if step.text == told and not step.done else f"{step.text}: {step.why}"
    )


def _say(step: Step) -> None:
    word = "skipped" if step.done else "ok"
    text = terminal.wrapped(
        terminal.line(f"{step.text}: {step.why}"), 9, terminal.room(), begin=9
    )
    shown = terminal.stated(word) + " " * (7 - len(word))
    terminal.say(f"{shown}  {text}")


def _hint(back: str) -> None:
    terminal.say("")
    terminal.say(
        "`heat-config-agent status` shows the state of the agent and of every deployment"
    )
    if back:
        text = f"to go back, when status shows nothing running or waiting: {back}"
        terminal.say(terminal.wrapped(terminal.line(text), 2, terminal.room()))


def _values(plan: Plan, steps: Iterable[Step], *, planned: bool) -> dict[str, object]:
    return {
        "planned": planned,
        "refused": plan.refused,
        "checks": [
            {
                "name": finding.about,
                "state": finding.verdict.value,
                "message": finding.text,
                "hint": finding.todo or None,
            }
            for finding in plan.findings
        ],
        "changes": [
            {
                "change": _change(step),
                "name": step.about,
                "type": _type(step),
                "why": step.why,
                "message": step.text,
            }
            for step in steps
        ],
        "back": list(plan.back),
    }
