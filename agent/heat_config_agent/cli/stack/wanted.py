"""What a stack is to be: what a command line names, or what is kept of the stack, → its definition."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace

from heat_config_agent.cli import given as named
from heat_config_agent.errors import UsageError
from heat_config_agent.hot import loading, reading
from heat_config_agent.hot.source import Source
from heat_config_agent.stack.definition import Definition, Identity, Invalid, Json
from heat_config_agent.stack.live import Stack
from heat_config_agent.stack.records import new_id


def source(template: str, environments: Sequence[str], parameters: dict[str, str]) -> Source:
    """Return all that a stack is made of. Raises `Invalid` where files are missing that it names, UsageError."""
    found, missing = reading.read(template, environments, parameters)
    if missing:
        raise Invalid(missing)
    return found


def new(said: argparse.Namespace, name: str) -> Definition:
    """Return what a stack is to be that is not there yet. Raises `Invalid`, UsageError."""
    return loading.define(_said(said), Identity(name, new_id()))


def changed(said: argparse.Namespace, there: Stack) -> Definition:
    """Return what a stack is to be that is there: with --existing, what is not given anew stays. Raises as `new`."""
    made = _kept(said, there.record.source) if said.existing else _anew(said)
    return loading.define(made, there.identity)


def _anew(said: argparse.Namespace) -> Source:
    if said.clear_parameter:
        raise UsageError("--clear-parameter is about parameters that are kept", hint="give --existing as well")
    return _said(said)


def _said(said: argparse.Namespace) -> Source:
    found = source(named.template(said), said.environment, named.parameters(said))
    return replace(found, environments=(*found.environments, *named.attributes(said)))


def _kept(said: argparse.Namespace, before: Json) -> Source:
    kept, parameters = Source.from_json(before), named.parameters(said)
    if said.template:
        more = _said(said)
        return kept.changed(more.template, more.environments, more.files, parameters, said.clear_parameter)
    environments, files, missing = reading.read_environments(said.environment)
    if missing:
        raise Invalid(missing)
    environments = (*environments, *named.attributes(said))
    return kept.changed(None, environments, files, parameters, said.clear_parameter)
