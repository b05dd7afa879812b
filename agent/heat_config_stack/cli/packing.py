"""`heat-config-agent template pack`: makes an archive of a service."""

from __future__ import annotations

import argparse
import os
import tempfile
from dataclasses import replace
from pathlib import Path

from heat_config_agent.cli import terminal
from heat_config_agent.model.errors import ExitCode, UsageError
from heat_config_agent.model.mistake import Mistake
from heat_config_stack.cli import service_validation
from heat_config_stack.tosca.checks.checker import Checked, Checker
from heat_config_stack.tosca.files import packing
from heat_config_stack.tosca.files.archives import METADATA, Refused


def run(options: argparse.Namespace) -> int:
    """Check a service, and write an archive of it."""
    name = options.file
    target = options.output or f"{Path(os.path.normpath(name)).resolve().name.partition('.')[0]}.csar"
    named = packing.Named()
    checked = Checker(named).check(name)
    if checked.service is not None and not os.path.exists(os.path.join(name, METADATA)):  # noqa: PTH110, PTH118
        named_itself = [mistake for mistake in checked.mistakes if mistake.code != "archive-metadata"]
        checked = replace(checked, mistakes=named_itself)  # the archive has metadata
    if checked.mistakes:
        service_validation.show(checked, alone=True)
        return ExitCode.FAILED if checked.is_readable else ExitCode.USAGE
    if os.path.isfile(name) and not named.paths:  # noqa: PTH113
        raise UsageError(f"{name} is an archive already", hint="name a folder or a service template")
    members: dict[str, str] = {}
    try:
        if os.path.isdir(name):  # noqa: PTH112
            members, entry = packing.members_of_folder(name, os.path.realpath(target))
        else:
            members, entry = packing.members_of_template(name, named.paths)
        lost = _write(target, members, entry, len(_lacking(checked)))
    except Refused as refused:
        raise UsageError(f"cannot pack {name}: {refused}", hint=refused.hint) from None
    except OSError as error:
        raise UsageError(f"cannot write {target}: {error.filename or ''} {error.strerror or error}") from None
    if lost is not None:
        service_validation.show(lost, alone=False)
        raise UsageError(f"{name} names files by their absolute path", hint="use paths relative to the template")
    number = len(members) - (METADATA in members)
    terminal.say(terminal.line(f"{target} has {terminal.count(number, 'file')}; its entry is {entry}"))
    return ExitCode.OK


def _lacking(checked: Checked) -> list[Mistake]:
    return [mistake for mistake in checked.open if mistake.code == "open-artifact"]


def _write(target: str, members: dict[str, str], entry: str, lacking: int) -> Checked | None:
    """Write an archive next to its place, and move it there if it has all that the service has.

    Return what is wrong with it otherwise; `lacking` files are not there in the service either.
    """
    folder = Path(target).parent
    descriptor, written = tempfile.mkstemp(".csar", f".{Path(target).name}.", folder)
    try:
        os.close(descriptor)
        packing.write(written, members, entry)
        checked = Checker().check(written)
        if checked.mistakes or len(_lacking(checked)) > lacking:
            return checked
        mask = os.umask(0)
        os.umask(mask)
        Path(written).chmod(0o666 & ~mask)
        Path(written).replace(target)
    finally:
        Path(written).unlink(missing_ok=True)
    return None
