"""`heat-config-agent sign`: Sign documents, templates, archives, or the configs that Heat delivers."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from heat_config_agent.cli import state_options, terminal
from heat_config_agent.cli.help_format import HelpFormatter
from heat_config_agent.model import signed
from heat_config_agent.model.errors import AgentError, ExitCode, UsageError
from heat_config_agent.signing import gate, ssh
from heat_config_hooks.files import text_of
from heat_config_stack.cli import signed_lists

_SIGN = """\
: Sign what machines with the policy rule `signers` verify. FILE is a document, a HOT template, an archive, or a folder
with a service. A template is signed together with all files that it names. The signed list is written to FILE.signed,
and belongs next to FILE.

With --configs, FILE is a HOT template or a document, and its configs are listed instead of its files. The template that
goes to Heat carries that list in the metadata of the server, under the name heat-config-signatures.

With --verify, nothing is signed: the command says if a machine with these allowed signers would accept FILE.
"""

_EXIT_CODES = """\
exit codes:
  0  the signed list is written, or the machine would accept FILE
  1  ssh-keygen did not sign, or the machine would refuse FILE
  2  bad usage, or a file that cannot be used
"""


def add(commands: state_options.Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "sign",
        help="sign documents, templates and configs",
        description=_SIGN.partition(": ")[2],
        epilog=_EXIT_CODES,
        formatter_class=HelpFormatter,
    )
    parser.add_argument("file", metavar="FILE", help="the document, template, archive or folder")
    means = parser.add_mutually_exclusive_group(required=True)
    means.add_argument("--key", metavar="KEY", help="the private key, or the public one of a key in ssh-agent")
    means.add_argument(
        "--verify", metavar="SIGNERS", help="check the signed list with a file of allowed signers; sign nothing"
    )
    parser.add_argument(
        "-e",
        "--environment",
        metavar="FILE",
        action="append",
        default=[],
        help="an environment that the template is used with; may be repeated",
    )
    parser.add_argument("--configs", action="store_true", help="sign the configs, not the files")
    parser.add_argument("-o", "--output", metavar="LIST", help="the signed list (default: FILE.signed)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run, state_dir=None)


def run(options: argparse.Namespace) -> int:
    """Sign FILE, or verify its signed list."""
    name = gate.named(options.file)
    target = options.output or f"{name}{signed.SUFFIX}"
    if options.output and not options.configs:
        raise UsageError("--output is for --configs: the list of files is next to FILE")
    if options.verify:
        names, signer, ignored = _verify(name, target, options)
        text = f"counts: its signer is {signer}, and {_counted(names, options)} {'is' if len(names) == 1 else 'are'}"
        text += " in it" if options.configs else " unchanged"
    else:
        names, signer, ignored = _sign(name, target, options), None, []
        text = f"has {_counted(names, options)}"
    if options.json:
        values = {"list": target, "signer": signer, "names": names, "ignored": ignored}
        terminal.say(json.dumps(values))
        return ExitCode.OK
    terminal.say(terminal.line(f"{target} {text}"))
    for each in ignored:
        terminal.warn(f"{each} is not in the list: the machine does not see it")
    return ExitCode.OK


def _counted(names: list[str], options: argparse.Namespace) -> str:
    return terminal.count(len(names), "config" if options.configs else "file")


def _sign(name: str, target: str, options: argparse.Namespace) -> list[str]:
    """Write the signed list, and return the names in it."""
    if options.configs:
        lines, namespace, unit = signed_lists.config_lines(name, target, options.environment), signed.CONFIGS, "config"
    else:
        lines, namespace, unit = signed_lists.file_lines(name, options.environment), signed.FILES, "file"
    listed = sorted(set(lines))
    if not listed:
        raise UsageError(f"{name} has no {unit} to sign")
    key = Path(options.key)
    if ssh.is_on_device(key):
        terminal.say(f"touch the device of {terminal.line(str(key))}", error=True)
    text = ssh.sign(key, namespace, "".join(listed))
    try:
        (signed.configs if options.configs else signed.files)(text)
        Path(target).write_text(text, encoding="utf-8")
    except ValueError as error:
        raise UsageError(f"cannot sign {name}: {error}") from error
    except OSError as error:
        raise UsageError(f"cannot write {target}: {error.strerror}") from error
    return [_name(line) for line in listed]


def _name(line: str) -> str:
    return signed.name_of(line)


def _verify(name: str, target: str, options: argparse.Namespace) -> tuple[list[str], str, list[str]]:
    """Return the names in the signed list, the signer, and the files that a machine would ignore.

    Raises UsageError if a file cannot be read, and AgentError if a machine would refuse one.
    """
    if not os.path.exists(target):  # noqa: PTH110
        raise AgentError(f"{name} is not signed: there is no {target}", hint="--key signs it")
    allowed = text_of(signed_lists.content_of(options.verify))
    text = signed_lists.content_of(target).decode("utf-8", "surrogateescape")
    evidence = signed.evidence(signed.CONFIGS if options.configs else signed.FILES, text)
    try:
        gate.require(evidence, allowed, target)
        names, ignored = (
            _configs(name, target, text, options) if options.configs else _files(name, target, evidence, options)
        )
    except UsageError as error:
        raise AgentError(error.brief, hint=error.hint) from error
    return sorted(names), ssh.verdict(evidence, allowed)[1], ignored


def _configs(name: str, target: str, text: str, options: argparse.Namespace) -> tuple[list[str], list[str]]:
    try:
        listed = signed.configs(text)
    except ValueError as error:
        raise UsageError(f"cannot use {target}: {error}") from None
    lines = set(signed_lists.config_lines(name, target, options.environment))
    for line in lines:
        if line.partition(" ")[0] not in listed:
            raise UsageError(f"the config {_name(line)} is not in the signed list {target}", hint="sign it again")
    return [_name(line) for line in lines], []


def _files(name: str, target: str, evidence: str, options: argparse.Namespace) -> tuple[list[str], list[str]]:
    signed_list = gate.Gate(os.path.dirname(target), evidence, target)  # noqa: PTH120
    if not os.path.isdir(name):  # noqa: PTH112
        return [_name(line) for line in signed_lists.file_lines(name, options.environment, signed_list.read)], []
    folder = os.path.dirname(name)  # noqa: PTH120
    for each in signed_list.names:
        signed_lists.content_of(os.path.join(folder, each), signed_list.read)  # noqa: PTH118
    there = (os.path.relpath(path, folder or ".") for path in signed_lists.members(name))
    return list(signed_list.names), sorted(set(there).difference(signed_list.names))
