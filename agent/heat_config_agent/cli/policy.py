"""`heat-config-agent policy`: Show the policy of this machine, and what it refuses."""

from __future__ import annotations

import argparse
import json
import time

from heat_config_agent.cli import state_options, terminal
from heat_config_agent.cli.help_format import HelpFormatter
from heat_config_agent.deployments import cleanup, metadata, plan
from heat_config_agent.deployments.plan import Known
from heat_config_agent.engine.survey import with_verified
from heat_config_agent.model.deployment import Deployment
from heat_config_agent.model.entry import Entry
from heat_config_agent.model.errors import ExitCode
from heat_config_agent.model.policy import Policy
from heat_config_agent.runs.tools import Tools
from heat_config_agent.settings.effective import Settings
from heat_config_agent.settings.in_force import policy_in_force
from heat_config_agent.settings.paths import POLICY
from heat_config_agent.sources.documents import Documents
from heat_config_agent.state import journal
from heat_config_hooks.values import dataclass, field, replace

_EXPLAIN = """\
: Show the rules of this machine's policy, and which deployments it would refuse if they were new today. The deployments
are those of the journal that have not left the metadata, and the cleanups that follow if they leave. Nothing is
changed. `heat-config-apply --plan` shows the same for a document.
"""

_EXIT_CODES = """\
exit codes:
  0  there is no policy, or one without a mistake
  1  the policy has a mistake: nothing new begins
  2  bad usage or configuration
"""


def add(commands: state_options.Commands) -> None:
    """Declare the command and its subcommand."""
    parser = commands.add_parser(
        "policy",
        help="show the policy of this machine, and what it refuses",
        description=(__doc__ or "").partition(": ")[2],
        formatter_class=HelpFormatter,
    )
    inner = parser.add_subparsers(metavar="COMMAND", title="commands", required=True)
    explain = state_options.command(
        inner, "explain", "show the rules, and what they refuse today", _EXPLAIN, epilog=_EXIT_CODES
    )
    explain.add_argument("--json", action="store_true", help="print one JSON object")
    explain.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Show the rules and the refusals."""
    settings = state_options.of(options)
    policy = policy_in_force()
    found = _found(settings, policy) if policy and not policy.mistake else _Found()
    if options.json:
        values = {
            "file": POLICY,
            "present": policy is not None,
            "mistake": (policy.mistake if policy else "") or None,
            "rules": dict(policy.lines) if policy else {},
            "refused": [{"name": name, "action": action, "says": text} for name, action, text in found.refused],
            "unknown": found.unknown,
            "unverified": found.unverified,
        }
        terminal.say(json.dumps(values))
    elif policy is None:
        terminal.say(f"there is no policy: {POLICY} does not exist, and everything is allowed")
    elif policy.mistake:
        terminal.say(f"nothing new begins: {terminal.line(policy.mistake)}")
    else:
        _show(policy, found)
    return ExitCode.FAILED if policy and policy.mistake else ExitCode.OK


@dataclass
class _Found:
    """The deployments that the policy would refuse today."""

    refused: list[tuple[str, str, str]] = field(default_factory=list)
    """Name, action and refusal of each."""
    unknown: int = 0
    """How many have no config any longer."""
    unverified: int = 0
    """How many others have a document that is not kept, so that nothing is known of their signature."""


def _show(policy: Policy, found: _Found) -> None:
    terminal.say(f"the policy is {policy.file}")
    for line in terminal.table([(f"  {name}", value) for name, value in policy.lines.items()]):
        terminal.say(line)
    for line in terminal.table(found.refused):
        terminal.say(line)
    terminal.say(f"{terminal.count(len(found.refused), 'deployment')} would be refused today")
    if found.unknown:
        terminal.say(f"{terminal.count(found.unknown, 'deployment')} cannot be checked: the config is no longer kept")
    if found.unverified:
        number = terminal.count(found.unverified, "deployment")
        terminal.say(f"the signature of {number} cannot be checked: `heat-config-apply --plan FILE` does it")


def _found(settings: Settings, policy: Policy) -> _Found:
    """Return what would be refused: by every rule, but by `signers` only of documents that the daemon keeps."""
    entries = journal.read(settings.state)
    known = Known(entries=entries, tools=Tools(settings.hooks).installed(), now=time.time(), defaults=settings.defaults)
    present = {entry.key: state_options.deployment(settings, entry) for entry in entries.values() if _is_here(entry)}
    sources = {entry.source for entry in entries.values()}
    cleanups = cleanup.due([], sources, entries, time.time()).left
    every: list[Deployment] = [deployment for deployment in present.values() if deployment is not None]
    signed = _signed(settings) if policy.signers is not None else {}
    found = _Found(unknown=sum(deployment is None for deployment in present.values()))
    for deployment in (*every, *cleanups):
        entry = entries.get(deployment.key)
        is_cleanup = deployment.action == cleanup.ACTION
        if entry is not None and not entry.document and not is_cleanup:
            found.unknown += 1
            continue
        job = plan.renewed(signed.get(deployment.key, deployment), known).job
        rules = with_verified(policy, [job.deployment] if job else []) or policy
        if policy.signers is not None and deployment.key not in signed and not is_cleanup:
            found.unverified += 1
            rules = replace(policy, signers=None)
        sentence = rules.mistake or (rules.refusal(job) if job else "")
        if sentence:
            found.refused.append((deployment.name, deployment.action or "-", sentence))
    return found


def _signed(settings: Settings) -> dict[str, Deployment]:
    """Return the deployments of the documents that the daemon keeps, which have the evidence that they are signed."""
    held = Documents(settings.state, change=False).held
    return {deployment.key: deployment for deployment in metadata.parse_all(held.values())[0]}


def _is_here(entry: Entry) -> bool:
    return entry.left_at is None and entry.action != cleanup.ACTION
