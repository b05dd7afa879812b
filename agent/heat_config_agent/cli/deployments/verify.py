"""`heat-config-agent verify`: Verify that the machine still is as its deployments say.

Nothing is changed, unless --repair runs again what has drifted.
A deployment is in effect (ok), has drifted, has failed earlier, or it is unknown: its tool cannot verify, and it has no
option `verify`. Without a NAME, all deployments are verified: those of the agent, of followed documents and of stacks.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from heat_config_agent.cli import envelope, stack_package, state_options, terminal
from heat_config_agent.cli.deployments import named
from heat_config_agent.cli.deployments.named import Named, NamedPlace
from heat_config_agent.cli.stack_package import Elsewhere
from heat_config_agent.model import wording
from heat_config_agent.model.errors import ExitCode
from heat_config_agent.model.states import Shown
from heat_config_agent.runs.tools import Tools
from heat_config_agent.settings.effective import Overrides, Settings
from heat_config_agent.state import followed, journal
from heat_config_agent.state.deployed import Deployed
from heat_config_agent.verification import chosen, machine
from heat_config_agent.verification.machine import Finding
from heat_config_hooks import verdict
from heat_config_hooks.values import replace

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from typing import TypeAlias

    from heat_config_agent.cli.deployments.repair import Outcome
    from heat_config_agent.model.deployment import Deployment

    Row: TypeAlias = tuple[Named, Finding]

_EPILOG = """\
exit codes:
  0  everything is in effect; with --allow-unknown, or unknown
  1  a deployment has failed earlier, has not run to its end, or is unknown
  2  bad usage or settings
  7  with --repair and --wait: the time of --wait-for is over, and it is not done yet
  8  there is nothing of that name
  9  a deployment has drifted
"""


def add(commands: state_options.Commands) -> None:
    """Declare the command."""
    parser = state_options.command(
        commands,
        "verify",
        "verify that the machine still is as its deployments say",
        __doc__,
        epilog=_EPILOG,
    )
    state_options.add_some(parser)
    parser.add_argument(
        "--diff",
        action="store_true",
        dest="shows_lines",
        help="also show everything that differs, and the lines of files",
    )
    parser.add_argument(
        "--allow-unknown",
        action="store_true",
        help="deployments that cannot be verified do not count as failures, except on a host that is not reached",
    )
    state_options.HOOKS.add(parser)
    parser.add_argument(
        "--repair",
        action="store_true",
        help="run again what has drifted, once each, and verify it again",
    )
    parser.add_argument(
        "--wait",
        action="store_true",
        help="with --repair, wait until a running agent has done it",
    )
    state_options.add_wait_for(parser)
    state_options.add_plan(parser)
    state_options.add_json(parser)
    parser.set_defaults(run=run, kind="verification")


def run(options: argparse.Namespace) -> int:
    """Verify the deployments, and show a row for each."""
    overrides = Overrides(hooks=tuple(options.hooks_dir))
    settings = state_options.there(options, overrides)
    targets, others = _targets(settings, options)
    rows = [*_verified(settings, targets)]
    if others:
        from heat_config_agent.cli.deployments import elsewhere  # noqa: PLC0415  # few stacks have hosts

        rows += elsewhere.verified(settings, others)
    drifted = [row for row in rows if _wants_repair(row[1])]
    if options.repair and options.plan:
        from heat_config_agent.cli.deployments import repair  # noqa: PLC0415  # most only look

        return repair.show_plan(drifted, as_json=options.json)
    outcomes: dict[str, Outcome] = {}
    if options.repair and drifted:
        rows, outcomes = _repaired(settings, rows, drifted, options)
    code = _code(rows, allows_unknown=options.allow_unknown)
    error = envelope.Failure(*_failure(rows, code)) if code else None
    if options.json:
        values = [_values(*row, outcomes.get(row[0].title)) for row in rows]
        envelope.result({"deployments": values}, code=code, error=error)
        return code
    if not rows:
        terminal.say("no deployment is in force")
        return code
    for line in terminal.table(
        [_cells(*row, outcomes.get(row[0].title)) for row in rows],
        header=("NAME", "STATE", "TOOL", "DETAILS"),
    ):
        terminal.say(line)
    if options.shows_lines:
        _show_differences(rows)
    terminal.say(f"\n{_counted(rows)}; {_changed(outcomes)}")
    return code


def _wants_repair(finding: Finding) -> bool:
    """Return whether a deployment has drifted, or its repair was begun by a process that was killed."""
    entry = finding.entry
    return finding.state is Shown.DRIFTED or bool(entry.drift and not entry.over)


def _repaired(
    settings: Settings,
    rows: Sequence[Row],
    drifted: Sequence[Row],
    options: argparse.Namespace,
) -> tuple[list[Row], dict[str, Outcome]]:
    """Repair drifted deployments, once; return all rows with the new verdicts, and the outcome of each repair."""
    from heat_config_agent.cli.deployments import repair  # noqa: PLC0415  # most only look

    outcomes = repair.repair(settings, drifted, options)
    done = [target for target, _ in drifted if outcomes[target.title].word == "done"]
    here = [each for each in done if each.entry.accepted]
    again = [_as_it_is(settings, target, options) for target in here]
    newer = {target.title: (target, one) for target, one in _verified(settings, again)}
    if there := [each for each in done if not each.entry.accepted]:
        from heat_config_agent.cli.deployments import elsewhere  # noqa: PLC0415  # few stacks have hosts

        newer |= elsewhere.verified_again(settings, there)
    return [newer.get(row[0].title, row) for row in rows], outcomes


def _as_it_is(settings: Settings, target: Named, options: argparse.Namespace) -> Named:
    """Return a deployment with its last run: in a stack, each run has an entry of its own."""
    if target.stack:
        return named.find(settings, target.title, options.config, newest=True)
    entry = journal.read(target.settings.state)[target.entry.key]
    return replace(target, entry=entry)


def _changed(outcomes: Mapping[str, Outcome]) -> str:
    """Return the effect of the repair in words."""
    numbers = Counter(each.word for each in outcomes.values())
    words = {
        "done": "{} run again",
        "requested": "the repair of {} requested",
        "refused": "{} not repaired",
    }
    said = [text.format(numbers[word]) for word, text in words.items() if numbers[word]]
    return ", ".join(said) or "nothing was changed"


def _targets(
    settings: Settings, options: argparse.Namespace
) -> tuple[list[Named], list[Elsewhere]]:
    """Return the named deployments, or all deployments in force, of this machine and of other hosts."""
    others: list[Elsewhere] = []
    if not options.names:
        for name in stack_package.names(settings.state):
            others += stack_package.elsewhere(settings, name)
        return _all(settings, options), others
    targets: dict[str, Named] = {}
    for name in options.names:
        thing = named.find_any(settings, name, options.config, newest=True)
        inner = (
            [thing]
            if isinstance(thing, Named)
            else named.members(thing, options.config)
        )
        if isinstance(thing, NamedPlace) and thing.kind in ("stack", "resource"):
            path = thing.name if thing.kind == "resource" else None
            others += stack_package.elsewhere(settings, thing.stack or thing.name, path)
        targets.update(
            (f"{each.settings.state}/{each.entry.key}", each) for each in inner
        )
    return list(targets.values()), others


def _all(settings: Settings, options: argparse.Namespace) -> list[Named]:
    targets = [
        Named(entry=entry, title=entry.title, settings=settings)
        for entry in chosen.in_force(journal.read(settings.state).values())
    ]
    places = [
        NamedPlace(kind="source", name=name, settings=settings, is_followed=True)
        for name, _ in followed.documents(settings.state)
    ]
    places += [
        NamedPlace(kind="stack", name=name, settings=settings)
        for name in stack_package.names(settings.state)
    ]
    for place in places:
        inner = named.members(place, options.config)
        keys = {each.key for each in chosen.in_force(one.entry for one in inner)}
        targets += [one for one in inner if one.entry.key in keys]
    return targets


def _verified(
    settings: Settings, targets: Iterable[Named]
) -> Iterator[tuple[Named, Finding]]:
    """Yield the verdict about each deployment, one state directory after the other."""
    tools = Tools(settings.hooks, terminal.warn)
    for every in named.by_journal(targets):
        group, within, stack = every, every[0].settings, every[0].stack
        if stack:
            ground, in_force = stack_package.verifiable(settings, stack, tools)
            group = [one for one in group if one.deployment in in_force]
        else:
            ground = machine.Ground(
                settings=within.run_settings,
                deployed=Deployed(within.deployed, old=within.deployed_old),
                tools=tools,
                documents=_documents(within, group),
                parallel=int(settings.number("parallel")),
            )
        by_key = {each.entry.key: each for each in group}
        found = {
            finding.entry.key: finding
            for finding in machine.verify((each.entry for each in group), ground)
        }
        yield from ((by_key[key], found[key]) for key in by_key)


def _documents(within: Settings, group: Sequence[Named]) -> Mapping[str, Deployment]:
    """Return the deployments of files that were applied, for those whose own document is not kept any more."""
    if not any(each.entry.source.startswith("file:/") for each in group):
        return {}
    from heat_config_agent.cli.deployments import repair  # noqa: PLC0415  # as above

    return repair.documents_again(within, (each.entry for each in group))


def _cells(
    target: Named, finding: Finding, outcome: Outcome | None
) -> tuple[str, str, str, str]:
    return (
        terminal.line(target.title),
        finding.state.value,
        finding.entry.tool or "-",
        terminal.line(_details(finding, outcome).replace("\n", "; ")),
    )


def _details(finding: Finding, outcome: Outcome | None) -> str:
    """Return the reason of a state, with the outcome of the repair."""
    if outcome is None:
        return finding.reason
    if outcome.word == "done" and finding.state is Shown.DRIFTED:
        return f"the repair did not help: {finding.reason}"
    if outcome.word == "done":
        return finding.reason or finding.entry.reason
    noun = "not repaired" if outcome.word == "refused" else "repair requested"
    return f"{finding.reason}; {noun}: {outcome.sentence}"


def _show_differences(rows: Sequence[tuple[Named, Finding]]) -> None:
    """Print everything that differs, with the lines."""
    for target, finding in rows:
        for change in finding.verdict.changes if finding.verdict else ():
            terminal.say("")
            terminal.say(terminal.line(f"{target.title}: {change.what}: {change.how}"))
            for line in change.diff.splitlines():
                terminal.say(f"  {terminal.line(line)}")


def _counted(rows: Sequence[tuple[Named, Finding]]) -> str:
    numbers = Counter(finding.state for _, finding in rows)
    order = (Shown.OK, Shown.DRIFTED, Shown.FAILED, Shown.UNKNOWN)
    others = [state for state in numbers if state not in order]
    words = [
        f"{numbers[state]} {state}" for state in (*order, *others) if numbers[state]
    ]
    return f"{terminal.count(len(rows), 'deployment')}: {', '.join(words)}"


def _code(rows: Sequence[tuple[Named, Finding]], *, allows_unknown: bool) -> int:
    states = {finding.state for _, finding in rows}
    bad = {Shown.FAILED, Shown.REFUSED, Shown.WAITING, Shown.RUNNING, Shown.REBOOT}
    if not allows_unknown:
        bad.add(Shown.UNKNOWN)
    if Shown.DRIFTED in states:
        return ExitCode.DRIFTED
    all_answered = all(finding.has_answer for _, finding in rows)
    return ExitCode.OK if all_answered and not states & bad else ExitCode.FAILED


def _failure(rows: Sequence[tuple[Named, Finding]], code: int) -> tuple[str, str]:
    """Return the code and the sentence of the failure."""
    if code == ExitCode.DRIFTED:
        names = [target.title for target, each in rows if each.state is Shown.DRIFTED]
        return "drifted", f"{len(names)} drifted: {named.listed(names)}"
    return "failed", _counted(rows)


def _values(
    target: Named, finding: Finding, outcome: Outcome | None
) -> dict[str, object]:
    """Return a row as JSON."""
    answer = finding.verdict
    return {
        "name": target.title,
        "id": finding.entry.id or None,
        "key": finding.entry.key,
        "stack": target.stack or None,
        "follows": target.follows or None,
        "action": finding.entry.action or None,
        "tool": finding.entry.tool or None,
        "state": finding.state.value,
        "message": _details(finding, outcome),
        "repair": outcome.word if outcome else None,
        "since": wording.stamp(finding.since),
        "changes": [verdict.vars_of(each) for each in answer.changes] if answer else [],
        "left_out": answer.left_out if answer else 0,
    }
