"""The options that name a template, environments and parameters, as the `openstack` client has them."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from heat_config_agent.cli.command_line import Option, environment
from heat_config_agent.model.errors import UsageError
from heat_config_agent.model.positions import Json
from heat_config_hooks.files import take

if TYPE_CHECKING:
    from heat_config_stack.definition.files import File

_NAMED = re.compile(r"[A-Za-z_][\w.:-]*=", re.ASCII)


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("-t", "--template", metavar="FILE", help="the template")
    add_values(parser)


def add_values(parser: argparse.ArgumentParser) -> None:
    """Add the options for environments and parameters."""
    Option(
        "--environment",
        "an environment file; may be repeated, and a later one overrides the ones before it",
        "FILE",
        read=environment,
        repeated=True,
        short="-e",
    ).add(parser)
    parser.add_argument(
        "--parameter",
        "--input",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="the value of a parameter, or of an input of a TOSCA service; may be repeated; an environment overrides "
        "parameters, as in Heat",
    )
    parser.add_argument(
        "--parameter-file",
        metavar="NAME=FILE",
        action="append",
        default=[],
        help="a parameter whose value is the content of a file; may be repeated",
    )
    _add_service(parser)


def add_inputs(parser: argparse.ArgumentParser) -> None:
    """Add the options for the inputs of a service alone."""
    parser.add_argument(
        "--input",
        metavar="NAME=VALUE",
        dest="parameter",
        action="append",
        default=[],
        help="the value of an input; may be repeated",
    )
    _add_service(parser)
    add_attributes(parser)


def _add_service(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--inputs",
        metavar="FILE",
        action="append",
        default=[],
        help="with a service template: a YAML file with inputs, which --input overrides; may be repeated",
    )
    parser.add_argument(
        "--substitute",
        metavar="NODE=FILE",
        action="append",
        default=[],
        help="with a service template: the service template that stands in the place of a node; may be repeated",
    )


def add_attributes(parser: argparse.ArgumentParser) -> None:
    """Add the option for attributes of resources that need a cloud."""
    parser.add_argument(
        "--attribute",
        metavar="RESOURCE.NAME=VALUE",
        action="append",
        default=[],
        help="an attribute of a resource that needs a cloud, or of all resources of a type; may be repeated",
    )


def hosts(options: argparse.Namespace) -> Mapping[str, Json]:
    """Return the hosts of the servers that are not this machine, see `cli.stack.placed`; none without any."""
    found: Mapping[str, Json] = getattr(options, "on_hosts", {})
    return found


def attributes(options: argparse.Namespace) -> tuple[File, ...]:
    """Return an environment with the attributes of --attribute; none if there are none. Raises UsageError."""
    by_resource = attributes_by_resource(options)
    if not by_resource:
        return ()
    from heat_config_stack.definition.files import File  # noqa: PLC0415
    from heat_config_stack.hot.source import COMMAND_LINE  # noqa: PLC0415  # few commands have the option

    return (File(COMMAND_LINE, json.dumps({"attributes": by_resource})),)


def attributes_by_resource(options: argparse.Namespace) -> dict[str, dict[str, object]]:
    """Return the attributes of --attribute by the path of the resource. Raises UsageError."""
    by_resource: dict[str, dict[str, object]] = {}
    for text in getattr(options, "attribute", ()):
        path, value = _pair(text, "--attribute")
        resource, dot, name = path.rpartition(".")
        if not resource or not dot or not name:
            raise UsageError(f"--attribute takes RESOURCE.NAME=VALUE, not {text!r}")
        by_resource.setdefault(resource, {})[name] = _json(value)
    return by_resource


def _json(text: str) -> object:
    """Return the value of a JSON list or map; else the text."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, list | dict) else text


def parameters(options: argparse.Namespace) -> dict[str, str]:
    """Return the values of parameters by name. Raises UsageError."""
    values = {}
    for text in _split(options.parameter):
        name, value = _pair(text, "--parameter")
        values[name] = value
    for text in options.parameter_file:
        name, path = _pair(text, "--parameter-file")
        try:
            values[name] = take(path).decode()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "it is not text in UTF-8"
            raise UsageError(
                f"cannot read {path}, the value of {name}: {reason}"
            ) from None
    return values


def _split(texts: Sequence[str]) -> Sequence[str]:
    """Return the parameters of a single option, separated by `;` as `openstack` has it; else the options."""
    if len(texts) == 1:
        parts = texts[0].split(";")
        if all(_NAMED.match(part) for part in parts):
            return parts
    return texts


def _pair(text: str, option: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise UsageError(
            f"{option} takes NAME=VALUE, not {name!r}"
            if not sign
            else f"{option} has no name"
        )
    return name, value


def template(options: argparse.Namespace) -> str:
    """Return the path of the template, which is named with -t or as an argument. Raises UsageError."""
    argument = getattr(options, "file", None)
    if options.template and argument:
        raise UsageError(
            "the template is named twice",
            hint="name it with -t or as an argument, not both",
        )
    if not options.template and not argument:
        raise UsageError("no template is named", hint="name it with -t FILE")
    return str(options.template or argument)
