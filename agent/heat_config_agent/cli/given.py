"""A template with environments and parameters, as they are named on a command line: with the options of `openstack`."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Sequence

from heat_config_agent.errors import UsageError
from heat_config_agent.hot.source import COMMAND_LINE, File

_NAMED = re.compile(r"[A-Za-z_][\w.:-]*=", re.ASCII)


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("-t", "--template", metavar="FILE", help="the template")
    parser.add_argument(
        "-e",
        "--environment",
        metavar="FILE",
        action="append",
        default=[],
        help="an environment; may be repeated, and a later one wins",
    )
    parser.add_argument(
        "--parameter",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="the value of a parameter; may be repeated. An environment wins over it, as with Heat",
    )
    parser.add_argument(
        "--parameter-file",
        metavar="NAME=PATH",
        action="append",
        default=[],
        help="the value of a parameter, from a file; may be repeated",
    )


def add_attributes(parser: argparse.ArgumentParser) -> None:
    """Add the option for what takes a cloud."""
    parser.add_argument(
        "--attribute",
        metavar="RESOURCE.NAME=VALUE",
        action="append",
        default=[],
        help="an attribute of a resource that takes a cloud; of all of a type by its name; may be repeated",
    )


def attributes(given: argparse.Namespace) -> tuple[File, ...]:
    """Return an environment with the attributes that are given; none where none are. Raises UsageError."""
    found: dict[str, dict[str, object]] = {}
    for each in given.attribute:
        path, value = _pair(each, "--attribute")
        resource, dot, name = path.rpartition(".")
        if not resource or not dot or not name:
            raise UsageError(f"--attribute takes RESOURCE.NAME=VALUE, not {each!r}")
        found.setdefault(resource, {})[name] = _json(value)
    return (File(COMMAND_LINE, json.dumps({"attributes": found})),) if found else ()


def _json(text: str) -> object:
    """Return a list or a map that is written as JSON; else the text."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, list | dict) else text


def parameters(given: argparse.Namespace) -> dict[str, str]:
    """Return the values of parameters by name. Raises UsageError."""
    found = {}
    for each in _apart(given.parameter):
        name, value = _pair(each, "--parameter")
        found[name] = value
    for each in given.parameter_file:
        name, path = _pair(each, "--parameter-file")
        try:
            with open(path, encoding="utf-8") as file:
                found[name] = file.read()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "it is no text in UTF-8"
            raise UsageError(f"cannot read {path}, the value of {name}: {reason}") from None
    return found


def _apart(said: Sequence[str]) -> Sequence[str]:
    """Return what stands in one option with `;` between, where each part is a parameter: so `openstack` takes it."""
    if len(said) == 1:
        parts = said[0].split(";")
        if all(_NAMED.match(each) for each in parts):
            return parts
    return said


def _pair(text: str, option: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise UsageError(f"{option} takes NAME=VALUE, not {name!r}" if not sign else f"{option} has no name")
    return name, value


def template(given: argparse.Namespace) -> str:
    """Return the template that is named, with -t or without. Raises UsageError."""
    beside = getattr(given, "file", None)
    if given.template and beside:
        raise UsageError("the template is named twice", hint="name it with -t or without, not both")
    if not given.template and not beside:
        raise UsageError("a template is needed", hint="name it: -t FILE")
    return str(given.template or beside)
