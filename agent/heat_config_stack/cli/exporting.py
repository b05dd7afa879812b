"""`heat-config-agent template export`: a TOSCA service as a HOT template."""

from __future__ import annotations

import argparse
import json
import uuid
from collections.abc import Mapping
from typing import Any

import yaml

from heat_config_agent.cli import terminal
from heat_config_agent.cli.mistakes import mistake_line
from heat_config_agent.diagnostics.kinds import TOSCA, language_of
from heat_config_agent.diagnostics.mistakes import Invalid
from heat_config_agent.model.errors import ExitCode, UsageError
from heat_config_agent.model.positions import Json
from heat_config_stack.cli.stack import services
from heat_config_stack.definition import Identity
from heat_config_stack.tosca.compilation import reader
from heat_config_stack.tosca.export import hot_export, hot_scripts
from heat_config_stack.tosca.export.hot_values import NotExpressible


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks, and no aliases."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Dumper.add_representer(str, _text)


def run(options: argparse.Namespace) -> int:
    """Print the HOT template of a service."""
    if language_of(options.file) != TOSCA:
        raise UsageError(f"{options.file} is not a TOSCA service", hint="a service has tosca_definitions_version")
    wish = services.wish(options)
    identity = Identity(reader.default_name(options.file)[0], str(uuid.uuid4()))

    def read(marks: Mapping[str, Json]) -> reader.Exported:
        return reader.define_for_export(options.file, wish, identity, marks)

    try:
        template, remarks = hot_export.exported(read, deployed=options.deployed)
        if options.tool == "script":
            template = hot_scripts.as_scripts(template)
    except Invalid as error:
        for mistake in error.mistakes:
            terminal.say(mistake_line(mistake), error=True)
        return ExitCode.FAILED
    except NotExpressible as error:
        raise UsageError(f"the service cannot be exported: {error}") from None
    head = [f"The service {options.file} for Heat, made by heat-config-agent.", *hot_export.HEAD.splitlines(), *remarks]
    plain = json.loads(json.dumps(template))  # numbers of a service remember how they were written
    text = yaml.dump(plain, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
    terminal.say("".join(f"# {line}".rstrip() + "\n" for line in head) + text.rstrip("\n"))
    return 0
