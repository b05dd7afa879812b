"""`heat-config-agent hosts`: Check the hosts of a hosts file, which `--hosts` names for the servers of a stack."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from heat_config_agent.cli import envelope, state_options, terminal
from heat_config_agent.model.errors import ExitCode, NotFoundError, UsageError
from heat_config_agent.model.states import Shown

if TYPE_CHECKING:
    from heat_config_agent.settings.effective import Settings
    from heat_config_stack.hosts.checking import Answer
    from heat_config_stack.hosts.host import Host

_CHECK = """\
: Ask each host of a hosts file whether stacks can use it: whether ssh reaches it without a question, and which version,
tools, clock and free space the agent has there. Nothing is changed, except that the state directory is made, and that
a host removes what it keeps of a stack that was deleted, or has left it, while it was away.
"""

_CHECK_CODES = """\
exit codes:
  0  all hosts can be used
  1  a host cannot be used
  2  bad usage, or a file that cannot be read
"""

_HEADER = ("SERVER", "HOST", "STATE", "VERSION", "TOOLS", "FREE", "DETAILS")

_SESSION = """\
: Carry out the deployments of a stack of another machine. Only heat-config-apply starts it there, by ssh, and speaks
with it over its standard input and output.
"""

_SESSION_CODES = """\
exit codes:
  0  the other side has ended the session
  1  the session was refused
  2  bad usage or settings
"""

_ASK = """\
: Carry out a command, such as log, about the deployments of a stack of another machine. Only the agent there starts
it, by ssh.
"""

_ASK_CODES = """\
exit codes:
  0  it is done
  1  it failed: see the command
  2  bad usage or settings
  8  nothing is kept of the stack
"""


def add(commands: state_options.Commands) -> None:
    """Declare the commands."""
    parser = state_options.stateless(
        commands,
        "hosts",
        "check the hosts of servers",
        (__doc__ or "").partition(": ")[2],
    )
    inner = parser.add_subparsers(metavar="COMMAND", title="commands")
    check = state_options.command(
        inner,
        "check",
        "ask each host of a hosts file whether it can be used",
        _CHECK,
        epilog=_CHECK_CODES,
    )
    check.add_argument("file", metavar="FILE", help="the hosts file")
    state_options.add_json(check)
    check.set_defaults(run=run_check, kind="hosts")
    session = state_options.command(
        inner, "session", "", _SESSION, epilog=_SESSION_CODES
    )
    session.set_defaults(run=serve)
    ask = state_options.command(inner, "ask", "", _ASK, epilog=_ASK_CODES)
    ask.add_argument("stack", metavar="TEXT", help="the id of the stack")
    ask.add_argument("words", metavar="TEXT", nargs="+", help="the command")
    ask.set_defaults(run=answer)


def run_check(options: argparse.Namespace) -> int:
    """Ask each host whether it can be used."""
    from heat_config_stack.cli.stack import operations  # noqa: PLC0415  # slow to load

    return operations.with_mistakes(_checked)(options)


def _checked(options: argparse.Namespace) -> int:
    from heat_config_stack.hosts import checking, hosts_file  # noqa: PLC0415  # slow to load

    by_server = hosts_file.read(options.file).by_server
    elsewhere = {name: host for name, host in by_server.items() if host is not None}
    different = list(dict.fromkeys(elsewhere.values()))
    answers = dict(zip(different, checking.check(different), strict=True))
    usable = [host for host, each in answers.items() if not each.problem]
    for host, told in _tidied(state_options.of(options), usable):
        answers[host].warnings.append(told)
    rows = [(name, answers[host]) for name, host in elsewhere.items()]
    code = ExitCode.FAILED if any(each.problem for _, each in rows) else ExitCode.OK
    if options.json:
        bad = [f"{each.host.title}: {each.problem}" for _, each in rows if each.problem]
        failure = envelope.Failure("failed", "; ".join(bad)) if bad else None
        envelope.result(
            {"hosts": [_values(name, each) for name, each in rows]},
            code=code,
            error=failure,
        )
        return code
    table = [
        (
            name,
            each.host.title,
            str(Shown.FAILED if each.problem else Shown.OK),
            each.version or "-",
            str(len(each.tools)) if each.tools else "-",
            f"{each.free // 1024**2} MiB" if each.free else "-",
            "; ".join([*([each.problem] if each.problem else []), *each.warnings]),
        )
        for name, each in rows
    ]
    for line in terminal.table(table, _HEADER):
        terminal.say(line)
    return code


def _tidied(settings: Settings, hosts: Sequence[Host]) -> Iterator[tuple[Host, str]]:
    """Have hosts remove what they keep of stacks that are gone, or are elsewhere now; yield what became of that."""
    from heat_config_agent.model.errors import LockedError  # noqa: PLC0415  # slow to load
    from heat_config_agent.state import lock  # noqa: PLC0415
    from heat_config_stack.hosts import leftovers  # noqa: PLC0415
    from heat_config_stack.records import listing  # noqa: PLC0415

    state = settings.state
    tidied = leftovers.remove(state, leftovers.of_gone_stacks(state, hosts))
    for kept in leftovers.every(state):
        if not leftovers.lives(state, kept):
            continue
        with (
            contextlib.suppress(LockedError),
            lock.held(listing.folder(state, kept.name)),
        ):
            tidied += leftovers.remove(state, leftovers.of_stack(state, kept, hosts))
    for host, kept, problem in tidied:
        did = (
            f"has not removed {kept.words}: {problem}"
            if problem
            else f"has removed {kept.words}"
        )
        yield host, f"it {did}"


def _values(name: str, answer: Answer) -> dict[str, Any]:
    return {
        "server": name,
        "host": answer.host.title,
        "usable": not answer.problem,
        "problem": answer.problem,
        "warnings": answer.warnings,
        "version": answer.version or None,
        "tools": answer.tools,
        "clock_seconds": round(abs(answer.apart), 1) if answer.version else None,
        "free_bytes": answer.free,
    }


def serve(options: argparse.Namespace) -> int:
    """Carry out the deployments of a stack of another machine."""
    import sys  # noqa: PLC0415  # only for this check

    if sys.stdin.isatty():
        raise UsageError(
            "a session is for a program on another machine, which speaks with it",
            hint="heat-config-apply --hosts starts it",
        )
    from heat_config_stack.hosts import far_side  # noqa: PLC0415  # slow to load

    reader, writer = far_side.inherited()
    return far_side.run(state_options.of(options), reader, writer)


def answer(options: argparse.Namespace) -> int:
    """Carry out a command about deployments of a stack of another machine."""
    from heat_config_agent.cli import agent  # noqa: PLC0415  # it is loaded
    from heat_config_stack.hosts import asking, far_side  # noqa: PLC0415  # slow to load

    command, *words = options.words
    if command not in asking.COMMANDS:
        raise UsageError(f"a host does not carry out {command!r} for another machine")
    folder = far_side.folder_of(state_options.of(options), options.stack)
    if not folder.is_dir():
        raise NotFoundError(
            "nothing is kept of the stack", subject=("stack", options.stack)
        )
    place = ["--state-dir", str(folder)]
    if command != "logs":
        return agent.main([command, *place, *words])
    first = next((n for n, word in enumerate(words) if word.startswith("-")), None)
    names, rest = words[:first], [] if first is None else words[first:]
    return max(agent.main(["log", *place, *rest, "--", each]) for each in names)
