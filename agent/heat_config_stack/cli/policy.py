"""`heat-config-agent policy`: Show the policy of this machine, and what it refuses."""

from __future__ import annotations

import argparse
import time
from typing import Any

from heat_config_agent.cli import envelope, state_options, terminal
from heat_config_agent.deployments import cleanup, metadata
from heat_config_agent.deployments.plan import Known
from heat_config_agent.engine.survey import refusals
from heat_config_agent.model.deployment import Deployment
from heat_config_agent.model.entry import Entry
from heat_config_agent.model.errors import AgentError, ExitCode
from heat_config_agent.model.policy import Policy
from heat_config_agent.runs.tools import Tools
from heat_config_agent.settings.effective import Settings
from heat_config_agent.settings.in_force import policy_in_force
from heat_config_agent.settings.paths import POLICY
from heat_config_agent.sources.documents import Documents
from heat_config_agent.state import journal
from heat_config_stack.records import listing

_EXPLAIN = """\
: Show the rules of this machine's policy, and which deployments it would refuse if they were new today: those of the
journal that have not left the metadata, the cleanups that follow if they leave, and those of stacks in each action of
their life. Nothing is changed. `heat-config-agent plan FILE` shows the same for a document or a template.
"""

_EXIT_CODES = """\
exit codes:
  0  there is no policy, or one without a mistake
  1  the policy has a mistake: nothing new begins
  2  bad usage or settings
"""


def add(commands: state_options.Commands) -> None:
    """Declare the command and its subcommand, which mean the same."""
    brief = "show the policy of this machine, and what it refuses"
    parser: Any = state_options.command(
        commands, "policy", brief, _EXPLAIN, epilog=_EXIT_CODES
    )
    parser.is_command = True
    inner = parser.add_subparsers(
        prog=parser.prog, metavar="COMMAND", title="commands (default: explain)"
    )
    brief = "show the rules, and what they refuse today"
    explain = state_options.command(
        inner, "explain", brief, _EXPLAIN, epilog=_EXIT_CODES
    )
    for each in (parser, explain):
        state_options.add_json(each)
        each.set_defaults(run=run, kind="policy")


def run(options: argparse.Namespace) -> int:
    """Show the rules and the refusals."""
    settings = state_options.of(options)
    policy = policy_in_force()
    refused, unknown = (
        _refused(settings, policy) if policy and not policy.mistake else ([], 0)
    )
    failure = None
    if policy and policy.mistake:
        failure = envelope.Failure("failed", f"nothing new begins: {policy.mistake}")
        terminal.complain(f"error: {terminal.line(failure.message)}")
    code = ExitCode.FAILED if failure else ExitCode.OK
    if options.json:
        values = {
            "file": POLICY,
            "present": policy is not None,
            "mistake": (policy.mistake if policy else "") or None,
            "rules": dict(policy.lines) if policy else {},
            "refused": [
                {"name": name, "state": "refused", "action": action, "message": text}
                for name, action, text in refused
            ],
            "unknown": unknown,
        }
        envelope.result(values, code=code, error=failure)
    elif policy is None:
        terminal.say(
            f"there is no policy: {POLICY} does not exist, and everything is allowed"
        )
    elif failure is None:
        _show(policy, refused, unknown)
    return code


def _show(policy: Policy, refused: list[tuple[str, str, str]], unknown: int) -> None:
    terminal.say(f"the policy is {policy.file}")
    for line in terminal.table(
        [(f"  {name}", value) for name, value in policy.lines.items()]
    ):
        terminal.say(line)
    rows = [(name, "refused", action, text) for name, action, text in refused]
    if rows:
        terminal.say("")
    header = ("NAME", "STATE", "ACTION", "DETAILS")
    for line in terminal.table(rows, header=header):
        terminal.say(line)
    count = terminal.count(len(refused), "deployment")
    terminal.say(
        f"\n{count} would be refused today"
        if refused
        else "no deployment would be refused today"
    )
    if policy.signers is not None:
        terminal.say("signatures were checked only for documents that the daemon keeps")
    if unknown:
        terminal.say(
            f"{terminal.count(unknown, 'deployment')} cannot be checked: the config is no longer kept"
        )


def _refused(
    settings: Settings, policy: Policy
) -> tuple[list[tuple[str, str, str]], int]:
    """Return name, action and refusal of each deployment that would be refused, and the number without a config."""
    entries = journal.read(settings.state)
    facts = Known(
        entries=entries,
        tools=Tools(settings.hooks).installed(),
        now=time.time(),
        defaults=settings.defaults,
    )
    present = {
        entry.key: state_options.deployment(settings, entry)
        for entry in entries.values()
        if _is_here(entry)
    }
    sources = {entry.source for entry in entries.values()}
    cleanups = cleanup.due([], sources, entries, time.time()).left
    kept = [
        each
        for each in present.values()
        if each is not None and entries[each.key].document
    ]
    found = refusals(
        (*kept, *cleanups),
        facts,
        policy,
        _held(settings) if policy.signers is not None else {},
    )
    refused = [(each.name, each.action or "-", each.sentence) for each in found]
    return [*refused, *_of_stacks(settings, policy)], len(present) - len(kept)


def _held(settings: Settings) -> dict[str, Deployment]:
    """Return the deployments, by key, of the documents that the daemon keeps with their signatures."""
    held = Documents(settings.state, change=False).held
    return {
        deployment.key: deployment
        for deployment in metadata.parse_all(held.values())[0]
    }


def _of_stacks(settings: Settings, policy: Policy) -> list[tuple[str, str, str]]:
    """Return the name, action and refusal of the deployments of stacks, for all actions that may follow."""
    names = listing.names(settings.state)
    if not names:
        return []
    from heat_config_stack.cli.stack import forecast as of_stack  # noqa: PLC0415  # many machines have no stack
    from heat_config_stack.cli.stack import sessions  # noqa: PLC0415

    refused: list[tuple[str, str, str]] = []
    for name in names:
        try:
            stack = sessions.look(settings, name)
        except AgentError as error:
            terminal.warn(str(error))
            continue
        if stack.defined is not None:
            types = sessions.types(settings.words("plugin_dirs"))
            refusals_of_stack = of_stack.stack_refusals(
                stack.defined, types, settings, policy
            )
            refused += [
                (f"{name}/{refusal.name}", refusal.action, refusal.sentence)
                for refusal in refusals_of_stack
            ]
    return refused


def _is_here(entry: Entry) -> bool:
    return entry.left_at is None and entry.action != cleanup.ACTION
